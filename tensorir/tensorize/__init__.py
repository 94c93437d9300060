"""Tensor intrinsics: what one is, and whether a nest of loops does what it means."""
