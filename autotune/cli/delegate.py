"""demo and bench: commands whose options are read by the programs that they start."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from autotune.cli.failure import Failure

HELP = {
    "demo": "tune a classifier and a photo filter, and compare (in the project's checkout)",
    "bench": "run the benchmark suite of the project's checkout",
}
EXAMPLES = ""
NAMES = tuple(HELP)
CHECKOUT = Path(__file__).parents[2]
"""Where the project's source is, unless the packages were installed apart from it."""

SUITE = Path("benchmarks", "suite.py")


def configure(parser: argparse.ArgumentParser) -> None:
    """Nothing: `run_words` gets the words as they are."""


def run(args: argparse.Namespace) -> int:
    """Run the command without options."""
    return run_words(args.command, [])


def run_words(name: str, words: Sequence[str]) -> int:
    """Run `demo` or `bench` with the options in `words`; returns its status."""
    if not (CHECKOUT / SUITE).exists():
        raise Failure(
            f"what `{name}` runs is not part of an installation: get the project's source and run"
            f" `make {name}` there"
        )
    if name == "demo":
        sys.path.insert(0, str(CHECKOUT))
        return int(import_module("demo").main(list(words)))
    return subprocess.call([sys.executable, str(CHECKOUT / SUITE), *words])
