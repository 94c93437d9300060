"""CUDA: text for NVIDIA GPUs, and an emulator that runs the same text on the CPU."""
