"""tensorir sanitize: a scheduled program on the emulator of GPUs, under its checks."""

from __future__ import annotations

import argparse

from autotune.cli.failure import NOTHING, OK, WrongUse
from autotune.cli.program import add_shape, from_file
from backends import sanitize
from tensorir import CHECKS

HELP = "run a program for GPUs on the emulator, and report races, accesses out of bounds and more"
EXAMPLES = """\
examples:
  tensorir sanitize kernels.py:blocked --shape m=65 n=33
  tensorir sanitize kernels.py:blocked --checks races,bounds --seed 7
  tensorir sanitize kernels.py:blocked --checks counts

The function returns a Schedule, a PrimFunc or a list of tensors. It needs no GPU; small and odd
sizes show most. The status is 1 if something is wrong.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program", metavar="PROGRAM", help="FILE.py or FILE.py:FUNCTION, which returns a Schedule"
    )
    parser.add_argument("--function", metavar="NAME", help="the function in FILE.py")
    add_shape(parser)
    parser.add_argument(
        "--checks", metavar="NAMES",
        help=f"of {', '.join(CHECKS)}, with commas (default: all but counts)",
    )  # fmt: skip
    parser.add_argument(
        "--target", default="cuda-emulator", metavar="TEXT",
        help="for which GPU, such as 'cuda -arch=sm_90a' (default: the oldest that is usual)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N",
        help="of the random arguments, and of the order of threads if it is not 0 (default 0)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print what was found."""
    func, sizes = from_file(args.program, args.function, dict(args.shape), scheduled=True)
    missing = [v.name for v in func.size_vars if v.name not in sizes]
    if missing:
        raise WrongUse(f"{func.name} needs sizes: --shape {' '.join(f'{n}=33' for n in missing)}")
    options = {} if args.checks is None else {"checks": args.checks}
    if args.seed < 0:
        raise WrongUse(f"--seed {args.seed} is negative")
    findings = sanitize(func, target=args.target, sizes=sizes, seed=args.seed, **options)
    print(findings)
    return NOTHING if findings.reports else OK
