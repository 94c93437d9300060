"""What this machine is, what makes kernels on it, and how much a program asks of it."""
