"""What kernels of GPUs ask for, counted without a GPU, and how long that takes at least."""
