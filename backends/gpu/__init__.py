"""What backends for GPUs share: launches, the emitter of kernels, and checks of calls."""
