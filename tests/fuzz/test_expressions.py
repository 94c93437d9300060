"""Random expressions of all types and functions, as users write them: kernels in scalars and in
vectors, and the interpreter, against the bounds of the reference."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import TensorIRError, interpret, parse, reference_with_tolerance, te, verify
from tensorir import dtype as dt
from tensorir.arrays import decode, encode
from tensorir.numbers.intrin import MATH
from tensorir.text.printer import format_func

COUNT = 48
LANES = 16
EXPRESSIONS = 24
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, float("inf"), float("-inf"), float("nan"))

Draw = random.Random
Element = te.Tensor
Binary = Callable[..., object]

ARITHMETIC: dict[str, Binary] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "max": te.maximum, "min": te.minimum,
}  # fmt: skip
DIVISIONS: dict[str, Binary] = {"//": te.floordiv, "%": te.floormod}
OF_INTEGERS: dict[str, Binary] = {
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "**": te.power,
}  # fmt: skip
COMPARISONS: dict[str, Binary] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}  # fmt: skip
OF_FLOATS = [n for n, row in MATH.items() if row.kinds == ("float",) and row.arity == 1]
OF_PAIRS = ("pow", "atan2", "fmod", "floordiv", "floormod")


def data(rng: np.random.Generator) -> list[np.ndarray]:
    arrays = []
    for kind in dt.SCALARS:
        if dt.is_float(kind):
            array = rng.normal(size=COUNT) * 10.0 ** rng.integers(-3, 3, COUNT)
            array[:: COUNT // len(SPECIAL)][: len(SPECIAL)] = SPECIAL
            arrays.append(encode(array, kind))
        elif kind == "bool":
            arrays.append(rng.random(COUNT) < 0.5)
        else:
            low, high = dt.int_limits(kind)
            array = rng.integers(max(low, -20), 21, COUNT).astype(kind)
            if kind != dt.INDEX:  # which counts as unbounded
                array[::9], array[4::9] = low, high
            arrays.append(array)
    return arrays


def numbers(arrays: list[np.ndarray]) -> list[object]:
    """A number of each type, one of those in the arrays; of the index type, which is a size, 3."""
    held = [decode(a, kind).ravel()[7] for kind, a in zip(dt.SCALARS, arrays)]
    return [3 if kind == dt.INDEX else n.item() for kind, n in zip(dt.SCALARS, held)]


class Writer:
    """Draws expressions of numbers and of the elements at `i` of one tensor, of each type."""

    def __init__(
        self, rng: Draw, tensors: list[te.Tensor], i: object, variables: list[object]
    ) -> None:
        self.rng = rng
        self.tensors = tensors
        self.i = i
        self.variables = variables

    def leaf(self):
        if self.rng.random() < 0.15:
            return te.const(self.rng.choice((2, 0, -3, 1.5, True)))
        if self.rng.random() < 0.3:
            return self.rng.choice(self.variables)
        return self.rng.choice(self.tensors)[self.i]

    def any(self, depth: int):
        """An expression; what the types do not allow is drawn again."""
        while True:
            try:
                return self.leaf() if depth == 0 else self.node(depth)
            except TensorIRError:
                continue

    def node(self, depth: int):
        a = self.any(depth - 1)
        kind = self.rng.random()
        if kind < 0.15:
            return te.if_then_else(self.condition(depth - 1), a, self.any(depth - 1))
        if kind < 0.3:
            return self.converted(a, self.rng.choice(dt.SCALARS))
        if kind < 0.4:
            return self.condition(depth)
        if kind < 0.6:
            return self.function(a, depth)
        b = self.any(depth - 1) if self.rng.random() < 0.8 else self.rng.choice((2, 3, 1))
        if kind < 0.7:
            return self.rng.choice(list(DIVISIONS.values()))(a, self.divisor(b))
        if kind < 0.8:
            return self.rng.choice(list(OF_INTEGERS.values()))(a, b)
        return self.rng.choice(list(ARITHMETIC.values()))(a, b)

    def divisor(self, b):
        """The interpreter refuses to divide integers by zero."""
        if isinstance(b, int) or dt.is_float(b.dtype):
            return b
        return (te.cast(b, "int8") if dt.is_bool(b.dtype) else b) | 1

    def condition(self, depth: int):
        a, b = self.any(max(depth - 1, 0)), self.any(max(depth - 1, 0))
        if dt.is_bool(a.dtype) and self.rng.random() < 0.5:
            return ~a
        return self.rng.choice(list(COMPARISONS.values()))(a, b)

    def function(self, a, depth: int):
        if dt.is_float(a.dtype):
            if self.rng.random() < 0.3:
                return te.call(self.rng.choice(OF_PAIRS), a, self.any(depth - 1))
            return te.call(self.rng.choice(OF_FLOATS), a)
        if self.rng.random() < 0.5:
            return te.popcount(a)
        if a.dtype in ("uint32", "uint64"):
            counter = [a, a >> 3, self.rng.getrandbits(32), 0]
            return te.philox(counter, (7, a), a & 3, dt.bits(a.dtype))
        bits = [k for k in (*dt.SIGNED, *dt.UNSIGNED) if dt.bits(k) == dt.bits(a.dtype)]
        return te.reinterpret(self.rng.choice(bits), a)

    def converted(self, a, dtype: str):
        """Floats that an integer type cannot hold may become any integer."""
        if dt.is_float(a.dtype) and dt.is_int(dtype):
            low = 0 if dt.is_unsigned(dtype) else -100
            a = te.if_then_else(te.isnan(a), 0, te.clip(a, low, 100))
        return te.cast(a, dtype)


def program(seed: int):
    rng = random.Random(seed)
    tensors = [te.placeholder((COUNT,), kind, name=f"in_{kind}") for kind in dt.SCALARS]
    variables = [te.var(f"one_{kind}", kind) for kind in dt.SCALARS]

    def body(i):
        writer = Writer(rng, tensors, i, variables)
        return tuple(writer.any(rng.randint(1, 4)) for _ in range(EXPRESSIONS))

    outs = te.compute((COUNT,), body, name="out")
    return te.create_prim_func([*tensors, *variables, *outs], name="expressions")


def check(func, values, bounds, results, what: str) -> None:
    stores = func.body.body.body.stmts
    for p, store, value, bound, found in zip(
        func.outputs, stores, values, bounds, results, strict=True
    ):
        held, value = decode(np.asarray(found), p.dtype).astype(float), value.astype(float)
        with np.errstate(invalid="ignore"):
            off = np.where(held == value, 0, np.abs(held - value))
        right = (off <= bound) | np.isinf(bound) | ((held != held) & (value != value))
        at = np.flatnonzero(~right)
        assert not at.size, (
            f"{what}: {p.name}[{at[0]}] is {held[at[0]]!r} and not {value[at[0]]!r} within "
            f"{bound[at[0]]!r}: {store.value!r}"
        )


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions(seed):
    func = program(seed)
    verify(func)
    text = format_func(func)
    assert format_func(parse(text)) == text
    arrays = data(np.random.default_rng(seed))
    arrays += numbers(arrays)
    values, bounds = reference_with_tolerance(func, *arrays)
    check(func, values, bounds, interpret(func, *arrays), "interpreter")
    check(func, values, bounds, build(func, "c -threads=1")(*arrays), "scalars")
    sch = Schedule(func)
    sch.vectorize(sch.split("i", [None, LANES])[1])
    check(func, values, bounds, build(sch, "c -threads=1")(*arrays), "vectors")
    said = [np.isfinite(b).mean() for b in bounds]
    assert np.mean(said) > 0.5, "most results have a bound"
