"""The demo: two small real tasks, tuned and compared with NumPy and SciPy."""

from autotune.demo.run import main

__all__ = ["main"]
