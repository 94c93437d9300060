"""Measuring what the steps of this processor cost, with kernels that the project makes."""
