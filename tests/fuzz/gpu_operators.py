"""All operators with all their examples, by their default schedules for GPUs, on the emulator.

    python tests/fuzz/gpu_operators.py               # all of them, minutes
    python tests/fuzz/gpu_operators.py softmax sum   # some

Their threads are watched for races, bounds, and reads of what nobody wrote; `make test` runs a
share of them without that. Prints what is wrong where it is found, and exits with 1 if anything is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "backends"))
from operator_examples import check, emulated  # noqa: E402

from backends import CompiledKernel  # noqa: E402
from tensorir import CHECKS, Target, TensorIRError, ops  # noqa: E402

Case = tuple[str, int]
"""An operator, and which of its examples."""

TOGETHER = 40
"""Programs in one text: it takes the compiler as long as two or three texts of one each."""

WATCHED = Target("cuda-emulator", arch="sm_90a", check=tuple(c for c in CHECKS if c != "counts"))


def wrong(cases: Sequence[Case]) -> Iterator[tuple[int, list[str]]]:
    """What is wrong with some examples, a text after the other, and how many are done by then."""
    for first in range(0, len(cases), TOGETHER):
        some = cases[first : first + TOGETHER]
        found = [why for case, kernel in made(some) for why in failing(case, kernel)]
        yield first + len(some), found


def made(cases: Sequence[Case]) -> list[tuple[Case, CompiledKernel | TensorIRError]]:
    """Kernels of some examples, or why there is none: one that fails takes no others with it."""
    try:
        return list(zip(cases, emulated(cases, WATCHED, range(len(cases)))))
    except TensorIRError as error:
        if len(cases) == 1:
            return [(cases[0], error)]
    return [one for case in cases for one in made([case])]


def failing(case: Case, kernel: CompiledKernel | TensorIRError) -> Iterator[str]:
    """What is wrong with one example."""
    try:
        if isinstance(kernel, TensorIRError):
            raise kernel
        check(*case, kernel)
    except (AssertionError, TensorIRError) as error:
        yield f"{case[0]}, example {case[1]}: {error}"


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in ops.OPERATORS]
    if unknown:
        print(f"there is no operator {unknown[0]!r}; see docs/operators.md", file=sys.stderr)
        return 2
    chosen = names or list(ops.OPERATORS)
    cases = [(name, n) for name in chosen for n in range(len(ops.OPERATORS[name].examples))]
    found = 0
    for done, some in wrong(cases):
        found += len(some)
        print("\n".join([*some, f"{done} of {len(cases)} examples, {found} wrong"]), flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
