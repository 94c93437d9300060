"""The command line: `tensorir`, or `python -m autotune`."""

from autotune.cli.entry import main

__all__ = ["main"]
