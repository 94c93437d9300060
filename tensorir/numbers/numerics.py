"""Classes of what is done to floating-point results, from nothing to less precision.

Of floating-point results: integer products are "bitwise" in any schedule. The C compiler contracts
a * b + c into fused multiply-adds; nothing else is reassociated behind the schedule's back (no
-ffast-math).
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorir.errors import TensorIRError

NUMERICS = ("bitwise", "reassociated", "algebraic", "mixed")
"""bitwise       the same operations in the same order: equal bits
reassociated  the terms of sums in another order, or the factors of products
algebraic     another algorithm that is equal in exact arithmetic, such as Winograd's: it rounds in
              other places, by amounts that the bound of its own expression covers
mixed         operations of less precision than the definition asks for"""

DEFAULT_NUMERICS = "mixed"
"""What searches and default schedules allow where nothing is said.

Of the intrinsics that come along, only the products of bfloat16 are "mixed": they take subnormal
numbers for zero. Whoever chose 8 bits of precision is served with what the processor has for them.
"""


def check_numerics(name: str) -> str:
    """`name` itself; TensorIRError where it is no class."""
    if not isinstance(name, str) or name not in NUMERICS:
        raise TensorIRError(f"unknown numerics {name!r}; known are {', '.join(NUMERICS)}")
    return name


def weakest(classes: Iterable[str]) -> str:
    """The last of `classes` in the order of NUMERICS; "bitwise" of none."""
    return max(classes, key=NUMERICS.index, default="bitwise")


def allows(bound: str, numerics: str) -> bool:
    """Whether what is of class `numerics` may be used where `bound` is the last one allowed."""
    return NUMERICS.index(check_numerics(numerics)) <= NUMERICS.index(check_numerics(bound))
