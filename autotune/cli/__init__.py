"""The command line: `tensorir`, or `python -m autotune`."""

from autotune.cli.start import main

__all__ = ["main"]
