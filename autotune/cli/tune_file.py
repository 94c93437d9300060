"""tensorir tune FILE.py with several functions: one search for all of them."""

from __future__ import annotations

import argparse
import sys

from autotune.cli.failure import OK, STOPPED, WrongUse
from autotune.cli.output import count
from autotune.cli.program import all_in_file
from autotune.cli.searching import searching
from autotune.database.database import Database
from autotune.tasks.tune_all import tune_all

ALONE = {"more": "--more", "until": "--until", "knobs": "--knobs"}
"""Options for one function only."""


def run_file(args: argparse.Namespace) -> int:
    """Tune all functions of a file, and print what was found."""
    for name, option in ALONE.items():
        if getattr(args, name):
            raise WrongUse(f"{option} is for one function: name it, as {args.program}:NAME")
    programs = all_in_file(args)
    known = {name: program.constants for name, program in programs.items()}
    missing = [c for c in args.constants if not any(c in names for names in known.values())]
    if missing:
        raise WrongUse(f"--constants: no function of {args.program} has {missing[0]!r}")
    for name, program in programs.items():
        unknown = [v.name for v in program.func.size_vars if v.name not in program.sizes]
        if unknown:
            example = " ".join(f"{size}=128" for size in unknown)
            raise WrongUse(f"give the sizes that {name!r} is timed with: --shape {example}")
    target = next(iter(programs.values())).target
    with searching(args, target) as how, Database(args.database) as db:
        before = len(db.records())
        try:
            results = tune_all(
                {name: program.func for name, program in programs.items()},
                target,
                args.trials,
                args.seed,
                db,
                seconds=args.seconds,
                sizes={name: program.sizes for name, program in programs.items()},
                constants=known,
                shipped=not args.here,
                **how,
            )
        except KeyboardInterrupt:
            new = count(len(db.records()) - before, "new record")
            print(f"stopped; {new} stored in {args.database}", file=sys.stderr)
            print("the same command goes on from there", file=sys.stderr)
            return STOPPED
    for name, result in results.items():
        if result.notice:
            print(f"note: {name}: {result.notice}", file=sys.stderr)
    print(results)
    return OK
