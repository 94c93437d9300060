"""sanitize: a program on the emulator of GPUs under all of its checks."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from backends.build import build
from backends.call.allocate import empty
from backends.call.inputs import random_arguments
from tensorir import CHECKS, Numbers, Target, TensorIRError

if TYPE_CHECKING:
    from backends.cuda.emulator import Findings

WRONG = tuple(check for check in CHECKS if check != "counts")
"""What can be wrong; counts are not."""

KIND = "cuda-emulator"


def sanitize(
    program: Any,
    *arrays: Any,
    target: Target | str = KIND,
    sizes: Numbers | None = None,
    checks: str | Collection[str] = WRONG,
    seed: int = 0,
) -> Findings:
    """Run a PrimFunc, or the `.func` of a Schedule, by threads that are watched; what was found.

    arrays  arguments as of a call; none of them for random ones (backends.call.inputs)
    target  "cuda", "cuda-emulator" or the text of one with `-arch=`: for which GPU
    sizes   the values of symbolic sizes, and of numbers, where there are no arrays; numbers that
            are no sizes are drawn where they are not given
    checks  of tensorir.CHECKS, as names or one text with commas: "races" between threads, accesses
            out of "bounds" of any buffer, reads of what is "uninitialised", "alignment" of vectors,
            "divergence" of barriers, "lanes" that are missing in shuffles, "counts" of transactions
    seed    the order in which threads have their turns, if not 0; and the random arguments

    The program runs in a process of its own, which it may crash or hang. Raises TensorIRError where
    arguments do not fit and BuildError where it cannot be compiled.
    """
    from backends.cuda.emulator import EmulationError

    given = Target.parse(target)
    if given.kind not in ("cuda", KIND):
        raise TensorIRError(f"target {str(given)!r} has no emulator; give 'cuda' or {KIND!r}")
    names = tuple(checks.split(",")) if isinstance(checks, str) else tuple(checks)
    watched = Target(KIND, arch=given.arch, check=names, seed=seed or None)
    kernel = build(program, watched)
    if not arrays:
        arrays = tuple(random_arguments(kernel.signature, sizes or {}, empty, seed))
    elif sizes:
        raise TensorIRError(f"{kernel.name}: arrays tell the sizes; give arrays or sizes, not both")
    try:
        kernel(*arrays)
    except EmulationError:
        pass  # which `findings` has
    findings = kernel.findings
    assert findings is not None
    return findings
