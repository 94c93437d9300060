"""tensorir space: what a search for a program looks at."""

from __future__ import annotations

import argparse

from autotune.cli.failure import OK
from autotune.cli.program import add_costs, add_database, add_numerics, add_program, chosen
from autotune.default import search_space

HELP = "show what a search for a program looks at: sketches, their choices, and how many"
EXAMPLES = """\
examples:
  tensorir space matmul --shape m=512 n=512 k=512
  tensorir space kernels.py:blur --numerics bitwise

A sketch is the outline of a schedule with choices left open; `tensorir tune` measures candidates,
each of which is a sketch with a value for every choice. The first sketch is the one that schedules
without tuning are made of. Nothing is measured or compiled here.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_database(parser)
    add_numerics(parser)
    add_costs(parser)


def run(args: argparse.Namespace) -> int:
    """Print the description of the space."""
    program = chosen(args)
    print(f"{program.func.name} on {program.target}")
    space = search_space(
        program.func, program.target, args.numerics, constants=program.constants, costs=args.costs
    )
    print(space.describe())
    return OK
