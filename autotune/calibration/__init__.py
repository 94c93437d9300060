"""What this machine can do, measured with kernels that the project makes."""
