"""What a stage of a random tensor expression makes of earlier ones: places, conditions, values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from tensorir import int_value, substitute, te

sys.path.insert(0, str(Path(__file__).parent))
from networks import Network  # noqa: E402

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 32, 33, 40, 64]
ELEMENTS = 1 << 13
"""Of a stage."""

FLOATS = ["float32"] * 6 + ["float64", "float16", "bfloat16"]
NARROW = ["int8", "uint8"]
WHOLE = ["int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"]
RELATIONS: list[Callable[[Any], Any]] = [
    lambda n: n,
    lambda n: n,
    lambda n: 2 * n + 1,
    lambda n: n // 3,
    lambda n: (n + 3) // 4,
    lambda n: te.max(n, 3),
]
"""Sizes that one number of the caller tells."""


@dataclass(frozen=True)
class Index:
    """An index, and the values between which it lies; of a symbolic extent `size` is that."""

    value: Any
    low: int
    high: int
    size: Any = None


class Invented(Network):
    """Tensors made so far, and the parameters that they are made of."""

    def some(self, items: Sequence[Any], most: int) -> list[Any]:
        """Up to `most` of the items in any order, at least one where there is one."""
        rest, found = list(items), []
        for _ in range(self.d.pick(list(range(1, most + 1)) or [0])):
            if rest:
                found.append(rest.pop(self.d.pick(list(range(len(rest))))))
        return found

    def chance(self, one_in: int) -> bool:
        return int(self.d.pick(list(range(one_in)))) == 0

    def shape(self, ranks: list[int]) -> tuple[int, ...]:
        shape: tuple[int, ...] = ()
        for _ in range(self.d.pick(ranks)):
            left = ELEMENTS // max(prod(shape), 1)
            shape += (self.d.pick([s for s in SIZES if s <= left] or [1]),)
        return shape


def sizes_of(n: Invented, shape: Sequence[Any]) -> list[int]:
    """The numbers of a shape, by those drawn for symbols."""
    drawn = {te.var(name): te.const(size) for name, size in n.d.sizes.items()}
    known = [int_value(substitute(te.const(0) + size, drawn)) for size in shape]
    return [size for size in known if size is not None]


def places(n: Invented, loops: Sequence[Index]) -> Index:
    """An index made of one loop or two."""
    if not loops:
        return _constant(0)
    v = n.d.pick(list(loops))
    if v.size is not None:
        return v
    w = n.d.pick([x for x in loops if x.size is None])
    width = v.high - v.low + 1
    kinds: dict[str, Callable[[], Index]] = {
        "plain": lambda: v,
        "turned": lambda: Index(v.high - (v.value - v.low), v.low, v.high),
        "spread": lambda: _linear(n, [(v, n.d.pick([2, 3]))]),
        "window": lambda: _linear(n, [(v, n.d.pick([1, 1, 2])), (w, n.d.pick([1, 1, 2]))]),
        "back": lambda: _linear(n, [(v, 1), (w, -1)]),
        "joined": lambda: _linear(n, [(v, w.high + 1), (w, 1)]),
        "part": lambda: _quotient(v, n.d.pick([2, 3, 4])),
        "rest": lambda: _remainder(v, n.d.pick([2, 3, 4])),
        "wrapped": lambda: _remainder(_linear(n, [(v, 1)]), width),
        "digit": lambda: _quotient(_linear(n, [(v, w.high + 1), (w, 1)]), n.d.pick([2, 3, 5])),
        "fixed": lambda: _constant(n.d.pick([0, 0, 1, 3])),
        "found": lambda: _found(n, v),
    }
    often = ["plain"] * 10 + ["window"] * 2
    made = kinds[n.d.pick([*often, *sorted(kinds)])]()
    return made if made.high - made.low < 256 else v


def _linear(n: Invented, parts: list[tuple[Index, int]]) -> Index:
    shift = n.d.pick([0, 0, 0, 1, -1, 2])
    ends = [sorted((v.low * f, v.high * f)) for v, f in parts]
    value = sum((v.value * f for v, f in parts[1:]), parts[0][0].value * parts[0][1]) + shift
    return Index(value, sum(e[0] for e in ends) + shift, sum(e[1] for e in ends) + shift)


def _quotient(v: Index, by: int) -> Index:
    return Index(v.value // by, v.low // by, v.high // by)


def _remainder(v: Index, by: int) -> Index:
    return Index(v.value % by, 0, by - 1)


def _constant(value: int) -> Index:
    return Index(te.const(value, "int64"), value, value)


def _found(n: Invented, v: Index) -> Index:
    """What an array has at `v`, within bounds."""
    if v.low < 0:
        return v
    most = n.d.pick([2, 5, 16])
    table = n.param((v.high + 1,), n.d.pick(["int32", "int64"]))
    return Index(te.clip(table[v.value].astype("int64"), 0, most), 0, most)


def within(n: Invented, at: Index, size: Any) -> tuple[Any, list[Any]]:
    """An index of a dimension, and the conditions under which it is one."""
    number = int_value(size)
    if at.size is not None and at.size is size:
        return at.value, []
    if number is None or at.size is not None:  # which may be 0
        return at.value, [at.value >= 0, at.value < size]
    if at.low >= 0 and at.high < number:
        return at.value, []
    kind = n.d.pick(["clipped", "wrapped", "asked", "asked"])
    if kind == "clipped":
        return te.min(te.max(at.value, 0), number - 1), []
    if kind == "wrapped":
        return at.value % number, []
    asked = [at.value >= 0] if at.low < 0 else []
    return at.value, asked + ([at.value < number] if at.high >= number else [])


def read(n: Invented, loops: Sequence[Index], kinds: list[str]) -> Any:
    """An element of an earlier tensor, or of a new parameter, of one of some types."""
    old = [t for t in n.tensors if t.dtype in kinds and t.shape]
    if old and n.d.pick([True, True, False]):
        source = n.d.pick([old[-1], n.d.pick(old)])
        # mostly each dimension by a loop of its own, as what a user writes
        order = n.some(loops, len(loops))
        spots = [
            order[d] if d < len(order) and not n.chance(4) else places(n, loops)
            for d in range(len(source.shape))
        ]
    else:
        order = n.some(loops, min(len(loops), 4))
        spots = [v if n.d.flag() else places(n, [v, *loops]) for v in order]
        shape: list[Any] = []
        for at in spots:
            more = n.d.pick([0, 0, 0, 0, 1, 3, -1])
            shape.append(at.size if at.size is not None else max(at.high + 1 + more, 1))
        if prod(sizes_of(n, shape)) > 8 * ELEMENTS:
            return te.const(1, kinds[0])
        source = n.param(tuple(shape), n.d.pick(kinds))
    found = [within(n, at, size) for at, size in zip(spots, source.shape)]
    asked = [c for _, some in found for c in some]
    value = source[tuple(at for at, _ in found)]
    if not asked:
        return value
    choose = te.if_then_else
    return choose(te.all(*asked), value, te.const(n.d.pick([0, 0, 1]), source.dtype))


def condition(n: Invented, loops: Sequence[Index]) -> Any:
    """Something about the loops, or about data."""
    v, w = places(n, loops), places(n, loops)
    at = n.d.pick([0, 1, 2, 3, 5, 8])
    kinds: dict[str, Callable[[], Any]] = {
        "below": lambda: v.value < at,
        "not below": lambda: v.value >= at,
        "ordered": lambda: v.value <= w.value,
        "near": lambda: te.all(v.value - w.value < 3, w.value - v.value < 2),
        "even": lambda: v.value % 2 == 0,
        "other": lambda: v.value != w.value,
        "either": lambda: te.any(v.value < at, w.value > at),
        "data": lambda: read(n, loops, ["float32"]) > te.const(0, "float32"),
        "number": lambda: v.value < n.d.number("limit", [0, 1, 3, 8, 40]),
    }
    if "limit" in n.d.sizes:
        del kinds["number"]
    return kinds[n.d.pick(sorted(kinds))]()


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda x: x * 0.5,
    te.tanh,
    lambda x: te.exp(-te.abs(x)),
    lambda x: te.sqrt(te.abs(x)),
    lambda x: te.max(x, te.const(0, x.dtype)),
    lambda x: x * x,
    te.abs,
]


def float_term(n: Invented, loops: Sequence[Index], kind: str) -> Any:
    def one() -> Any:
        kinds = n.d.pick([[kind], [kind], [kind], FLOATS, NARROW])
        return read(n, loops, kinds).astype(kind)

    a = one()
    for _ in range(n.d.pick([0, 1, 1, 1, 1, 2])):
        b = one()
        others = [a + b, a - b, te.maximum(a, b), te.abs(a - b), (a - b) * (a - b)]
        a = n.d.pick([a * b] * 4 + others)
    if n.chance(4):
        a = n.d.pick(FUNCTIONS)(a)
    if n.chance(5):
        other = n.d.pick([te.const(0, kind), a * te.const(0.5, kind), one()])
        a = n.d.pick([te.if_then_else, te.select])(condition(n, loops), a, other)
    return a


def whole_term(n: Invented, loops: Sequence[Index], kind: str) -> Any:
    """An integer of any type, of those of others: what wraps, shifts, divides and chooses."""
    a, b = (read(n, loops, WHOLE).astype(kind) for _ in range(2))
    for _ in range(n.d.pick([1, 1, 2])):
        kinds: list[Callable[[], Any]] = [
            lambda a=a: a + b, lambda a=a: a - b, lambda a=a: a * b, lambda a=a: a & b,
            lambda a=a: a ^ b, lambda a=a: a << b, lambda a=a: a >> b,
            lambda a=a: te.maximum(a, b), lambda a=a: te.popcount(a) + b,
            lambda a=a: te.floordiv(a, te.maximum(b, te.const(1, kind))),
            lambda a=a: te.floormod(a, te.maximum(b, te.const(1, kind))),
            lambda a=a: te.if_then_else(condition(n, loops), a, b),
            lambda a=a: te.select(a < b, te.const(1, kind), a),
        ]  # fmt: skip
        a = n.d.pick(kinds)()
    return a


def int_term(n: Invented, loops: Sequence[Index]) -> Any:
    def one() -> Any:
        return read(n, loops, n.d.pick([NARROW, NARROW, [n.d.pick(NARROW)]])).astype("int32")

    a, b = one(), one()
    value = n.d.pick([a * b, a * b, a * b, a + b, te.max(a, b), a])
    return te.if_then_else(condition(n, loops), value, 0) if n.chance(5) else value
