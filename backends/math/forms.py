"""What a helper is: a small function that a kernel's text brings along when it needs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Form(Enum):
    """What a helper is for a vector."""

    LANES = "a loop over the lanes"
    SAME = "the same text for another type"
    FAR = "near values, and a loop over the lanes where one is far"


@dataclass(frozen=True)
class Helper:
    """`text` is the parameter list and body; `result` the type, $T unless said otherwise.

    `needs` are (helper, dtype) pairs that must come before; the dtype "" is that of the helper.
    `whole` is what it is for vectors of type $V in clang, which takes a loop over lanes that choose
    or change signs apart; $K has integers with as many bits.
    """

    text: str
    result: str = "$T"
    needs: tuple[tuple[str, str], ...] = ()
    types: tuple[str, ...] = ()
    form: Form = Form.LANES
    whole: str = ""


def by_mask(vector: str, mask: str, cond: str, a: str = "a", b: str = "b") -> str:
    """The lanes of `a` where those of `cond` are -1, and of `b` where they are 0, by their bits."""
    cond = f"({mask})({cond})"
    return f"({vector})(({cond} & ({mask}){a}) | (~{cond} & ({mask}){b}))"
