"""Random expressions: the C text in scalars and in vectors against the interpreter."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from emulator import ARM, emulated, needs_emulator

from backends import build_source, resolve
from backends.c.emit.codegen import emit
from tensorir import (
    BinOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Load,
    Not,
    PrimFunc,
    Ramp,
    Select,
    Store,
    Var,
    const,
    interpret,
    seq,
    walk,
)
from tensorir import dtype as dt
from tensorir.arrays import decode, encode
from tensorir.numbers.intrin import MATH, REINTERPRET

COUNT = 32
NARROW = ("float16", "bfloat16")
TYPES = (*dt.SIGNED, *dt.UNSIGNED, "float32", "float64", *NARROW, "bool")
FLOAT_OPS = ("+", "-", "min", "max")  # no products: fusing them with a sum changes the rounding
INT_OPS = ("+", "-", "*", "//", "%", "min", "max", "&", "|", "^", "<<", ">>")
LARGE = ("*", "<<")
"""Not for int64, of which the arithmetic is exact and nothing may wrap."""
COMPARE = ("<", "<=", "==", "!=")

Make = Callable[[int], Expr]
"""From the number of lanes to the expression."""


def inputs() -> list[Buffer]:
    return [Buffer(f"in_{d}", (COUNT,), d) for d in TYPES]


def data(rng: np.random.Generator) -> list[np.ndarray]:
    arrays = []
    for kind in TYPES:
        if dt.is_float(kind):
            array = rng.integers(-8, 8, COUNT) / 4
            array[::7] = np.nan
            arrays.append(encode(array, kind))
        elif kind == "bool":
            arrays.append(rng.random(COUNT) < 0.5)
        else:
            low, high = dt.int_limits(kind)
            array = rng.integers(max(low, -9), 10, COUNT).astype(kind)
            if kind != dt.INDEX:  # its arithmetic is exact, so nothing may wrap
                array[::5] = np.array([low, high, low, high, low, high, low], kind)
            arrays.append(array)
    return arrays


def vector(scalar: Expr, lanes: int) -> Expr:
    return scalar if lanes == 1 else Broadcast(scalar, lanes)


def leaf(rng: random.Random, kind: str) -> Make:
    i = Var("i")
    if rng.random() < 0.3:
        low = -3 if not (dt.is_unsigned(kind) or kind == "bool") else 0
        known = Const(rng.randint(low, 1 if kind == "bool" else 5), kind)
        return lambda lanes: vector(known, lanes)
    if kind == "int64" and rng.random() < 0.4:
        return lambda lanes: i if lanes == 1 else Ramp(i * lanes, const(1), lanes)
    buffer = Buffer(f"in_{kind}", (COUNT,), kind)
    return lambda lanes: Load(buffer, (i if lanes == 1 else Ramp(i * lanes, const(1), lanes),))


def expression(rng: random.Random, kind: str, depth: int) -> Make:
    if depth == 0 or rng.random() < 0.1:
        return leaf(rng, kind)
    choice = rng.random()
    if choice < 0.2:
        parts = [expression(rng, k, depth - 1) for k in ("bool", kind, kind)]
        return lambda n: Select(*(p(n) for p in parts))
    if kind == "bool":
        return condition(rng, depth, choice)
    if choice < 0.4 or kind in NARROW:
        sources = [t for t in TYPES if t != kind and (dt.is_float(kind) or not dt.is_float(t))]
        inner = expression(rng, rng.choice(sources), depth - 1)
        return lambda n: Cast(dt.with_lanes(kind, n), inner(n))
    if choice < 0.55:
        return function(rng, kind, depth)
    known = FLOAT_OPS if dt.is_float(kind) else INT_OPS
    op = rng.choice([o for o in known if o not in LARGE or kind != dt.INDEX])
    a, b = expression(rng, kind, depth - 1), expression(rng, kind, depth - 1)
    if op in ("//", "%"):  # the interpreter refuses to divide by zero
        return lambda n: BinOp(op, a(n), BinOp("|", b(n), vector(Const(1, kind), n)))
    return lambda n: BinOp(op, a(n), b(n))


def function(rng: random.Random, kind: str, depth: int) -> Make:
    """A function with one right value, of numbers that are rounded to their type."""
    if dt.is_float(kind):
        name = rng.choice(("floor", "ceil", "trunc", "rint", "round", "fabs", "floormod"))
        name = name if depth == 1 or name != "floormod" else "rint"
    else:
        other = kind.replace("int", "uint") if kind in dt.SIGNED else kind.replace("uint", "int")
        inner = expression(rng, other, depth - 1)
        if rng.random() < 0.3:
            return lambda n: Call(REINTERPRET, (inner(n),), dt.with_lanes(kind, n))
        name = rng.choice(("popcount", "pow")) if kind != dt.INDEX else "popcount"
    args = [expression(rng, kind, depth - 1) for _ in range(MATH[name].arity)]

    def make(n: int) -> Expr:
        typed = [a(n) for a in args]
        if dt.is_float(kind):  # the interpreter rounds at conversions
            wide = dt.with_lanes("float64", n)
            typed = [Cast(a.dtype, Cast(wide, a)) if kind == "float32" else a for a in typed]
        return Call(name, tuple(typed), typed[0].dtype)

    return make


def condition(rng: random.Random, depth: int, choice: float) -> Make:
    if choice < 0.3:
        inner = expression(rng, "bool", depth - 1)
        return lambda n: Not(inner(n))
    if choice < 0.4:
        inner = expression(rng, rng.choice(("float32", "float64")), depth - 1)
        return lambda n: Call("isnan", (inner(n),), dt.with_lanes("bool", n))
    logical = choice < 0.6
    kind = "bool" if logical else rng.choice(TYPES[:-1])
    op = rng.choice(("and", "or", "==", "!=") if logical else COMPARE)
    op = "==" if kind in NARROW else op  # others are computed in float32
    a, b = expression(rng, kind, depth - 1), expression(rng, kind, depth - 1)
    return lambda n: BinOp(op, a(n), b(n))


def program(makes: list[Make], lanes: int) -> PrimFunc:
    i = Var("i")
    at = (i if lanes == 1 else Ramp(i * lanes, const(1), lanes),)
    values = [make(lanes) for make in makes]
    outs = [Buffer(f"out{n}", (COUNT,), dt.element(v.dtype)) for n, v in enumerate(values)]
    body = For(i, const(COUNT // lanes), seq(*(Store(o, at, v) for o, v in zip(outs, values))))
    return PrimFunc("fuzz", (*inputs(), *outs), (), body)


@pytest.mark.parametrize("seed", range(6))
def test_random_expressions(run, seed):
    rng = random.Random(seed)
    makes = [expression(rng, kind, rng.randint(1, 4)) for kind in TYPES for _ in range(2)]
    arrays = data(np.random.default_rng(seed))
    scalar = program(makes, 1)
    expected = interpret(scalar, *arrays)
    for lanes in (1, 4, 16):
        func = program(makes, lanes)
        results = [np.zeros(COUNT, dt.numpy_dtype(p.dtype)) for p in func.params[len(arrays) :]]
        values = {s.buffer.name: s.value for s in walk(scalar.body) if isinstance(s, Store)}
        run(func, *arrays, *results, flags=("-march=native", "-Wno-tautological-compare"))
        for store, result, wanted in zip(func.params[len(arrays) :], results, expected):
            message = f"{store.name}, {lanes} lanes: {values[store.name]}"
            held = [decode(v, store.dtype) for v in (result, wanted)]
            np.testing.assert_array_equal(*held, err_msg=message)


@needs_emulator
@pytest.mark.parametrize("lanes", [1, 4])
def test_random_expressions_for_arm(lanes, tmp_path):
    rng = random.Random(7)
    makes = [expression(rng, kind, rng.randint(1, 4)) for kind in TYPES for _ in range(2)]
    arrays = data(np.random.default_rng(7))
    func = program(makes, lanes)
    kernel = build_source(func, emit(func, resolve(ARM)), ARM)
    assert "__builtin_ia32" not in kernel.source
    outs = func.params[len(arrays) :]
    results = [np.zeros(COUNT, dt.numpy_dtype(p.dtype)) for p in outs]
    with emulated(kernel, tmp_path) as call:
        call(*arrays, *results)
    expected = interpret(program(makes, 1), *arrays)
    for p, result, wanted in zip(outs, results, expected, strict=True):
        np.testing.assert_array_equal(*(decode(v, p.dtype) for v in (result, wanted)))
