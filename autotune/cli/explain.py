"""tensorir explain: what each kernel of a program asks of a GPU, and which limit binds it."""

from __future__ import annotations

import argparse

from autotune.cli.failure import OK, WrongUse
from autotune.cli.program import add_shape, from_file
from autotune.examples import EXAMPLES as PROGRAMS
from autotune.examples import make_example
from autotune.explain import explain
from tensorir import Gpu, PrimFunc, Target, TensorIRError, device_of, ops

HELP = "show what each kernel for a GPU asks for: transactions, conflicts, registers, the limit"
EXAMPLES = """\
examples:
  tensorir explain softmax --shape m=4096 n=1000 --target 'cuda -arch=sm_90a'
  tensorir explain layer_norm:1
  tensorir explain kernels.py:blocked --shape m=65 n=33 --run

A program gets its default schedule, if none of its loops is over threads yet. Nothing needs a GPU:
counts are found by evaluating the code of some warps, or on the emulator (--run, small sizes);
registers are those of NVRTC where it is installed. docs/gpu_counts.md tells how to read them.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "program", metavar="PROGRAM",
        help=f"an example ({', '.join(PROGRAMS)}), an operator of docs/operators.md (OPERATOR:2 is "
        "its third example), or FILE.py:FUNCTION, which returns a PrimFunc, a Schedule or a list "
        "of tensors",
    )  # fmt: skip
    parser.add_argument("--function", metavar="NAME", help="the function in FILE.py")
    add_shape(parser)
    parser.add_argument(
        "--target", default="cuda", metavar="TEXT",
        help="for which GPU, such as 'cuda -arch=sm_90a' or 'opencl' (default cuda)",
    )  # fmt: skip
    parser.add_argument("--run", action="store_true", help="count a run on the emulator, by line")


def run(args: argparse.Namespace) -> int:
    """Print the account of each kernel."""
    try:
        target = Target.parse(args.target)
    except TensorIRError as error:
        raise WrongUse(str(error)) from error
    if not isinstance(device_of(target), Gpu):
        raise WrongUse(
            f"explain counts what kernels of GPUs ask for, and target {args.target!r} is none: "
            "give --target cuda or opencl; `tensorir space` shows what is made for processors"
        )
    func, sizes = _program(args)
    missing = [var.name for var in func.size_vars if var.name not in sizes]
    if args.run and missing:
        raise WrongUse(f"a run needs sizes: --shape {' '.join(f'{name}=33' for name in missing)}")
    print(explain(func, target, sizes, args.run))
    return OK


def _program(args: argparse.Namespace) -> tuple[PrimFunc, dict[str, int]]:
    """The program, and the values of its symbolic sizes."""
    sizes = dict(args.shape)
    if not args.function and args.program in PROGRAMS:
        try:
            return make_example(args.program, sizes), {}
        except TensorIRError as error:
            raise WrongUse(str(error)) from error
    name, _, number = args.program.partition(":")
    if name not in ops.OPERATORS:
        if ".py" not in args.program:
            raise WrongUse(
                f"{args.program!r} is neither an example ({', '.join(PROGRAMS)}) nor an operator "
                "of docs/operators.md nor a .py file"
            )
        return from_file(args.program, args.function, sizes, scheduled=True)
    count = len(ops.OPERATORS[name].examples)
    if number and not (number.isdecimal() and int(number) < count):
        raise WrongUse(f"{name} has the examples {name}:0 to {name}:{count - 1}, not {number!r}")
    func = ops.prim_func(name, int(number or 0))
    known = [var.name for var in func.size_vars]
    unknown = [size for size in sizes if size not in known]
    if unknown:
        raise WrongUse(f"{name} has no size {unknown[0]!r}; it has {', '.join(known) or 'none'}")
    return func, sizes
