"""The demo: two small real tasks, tuned and compared with NumPy and SciPy."""

from demo.run import main

__all__ = ["main"]
