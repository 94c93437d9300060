"""Tensor intrinsics: what one is, its check, and whether a nest of loops does what it means."""
