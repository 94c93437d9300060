"""demo and bench: commands whose options are read by the programs that they start."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from autotune.cli.failure import Failure

HELP = {
    "demo": "tune a classifier and a photo filter, and compare with the usual libraries",
    "bench": "run the benchmark suite of the project's checkout",
}
EXAMPLES = ""
NAMES = tuple(HELP)
SUITE = Path(__file__).parents[2] / "benchmarks" / "suite.py"


def configure(parser: argparse.ArgumentParser) -> None:
    """Nothing: `run_words` gets the words as they are."""


def run(args: argparse.Namespace) -> int:
    """Run the command without options."""
    return run_words(args.command, [])


def run_words(name: str, words: Sequence[str]) -> int:
    """Run `demo` or `bench` with the options in `words`; returns its status."""
    if name == "demo":
        from autotune.demo import main

        return int(main(list(words)))
    if not SUITE.exists():
        raise Failure(
            "the benchmark suite is not part of an installation: get the project's source and run"
            " `make bench`, or `python benchmarks/suite.py`, there"
        )
    return subprocess.call([sys.executable, str(SUITE), *words])
