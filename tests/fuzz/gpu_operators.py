"""All operators with all their examples, by their default schedules for GPUs, on the emulator.

    python tests/fuzz/gpu_operators.py               # all of them, minutes
    python tests/fuzz/gpu_operators.py softmax sum   # some

Their threads are watched for races, bounds, and reads of what nobody wrote; `make test` runs a
share of them without that. Prints what is wrong, and exits with 1 where something is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "backends"))
from operator_examples import check, emulated  # noqa: E402

from tensorir import CHECKS, Target, TensorIRError, ops  # noqa: E402

TOGETHER = 40
"""Programs in one text: it takes the compiler as long as two or three texts of one each."""

WATCHED = Target("cuda-emulator", arch="sm_90a", check=tuple(c for c in CHECKS if c != "counts"))


def wrong(cases: Sequence[tuple[str, int]]) -> list[str]:
    """What is wrong with some examples."""
    found = []
    for first in range(0, len(cases), TOGETHER):
        some = cases[first : first + TOGETHER]
        for case, kernel in zip(some, emulated(some, WATCHED, range(len(some)))):
            try:
                check(*case, kernel)
            except (AssertionError, TensorIRError) as error:
                found.append(f"{case[0]}, example {case[1]}: {error}")
    return found


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in ops.OPERATORS]
    if unknown:
        print(f"there is no operator {unknown[0]!r}; see docs/operators.md", file=sys.stderr)
        return 2
    chosen = names or list(ops.OPERATORS)
    cases = [(name, n) for name in chosen for n in range(len(ops.OPERATORS[name].examples))]
    found = wrong(cases)
    print("\n".join([*found, f"{len(cases)} examples, {len(found)} of them wrong"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
