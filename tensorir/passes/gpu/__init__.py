"""Lowering for GPUs: from loops over threads to the code of one thread. See lower_gpu.py."""
