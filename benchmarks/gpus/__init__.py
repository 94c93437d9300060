"""The rows of benchmarks/gpu.py, what is counted of them, and what is timed."""
