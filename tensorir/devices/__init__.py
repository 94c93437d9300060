"""Descriptions of processors and GPUs."""
