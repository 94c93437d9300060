"""Random expressions: the C text in scalars and in vectors against the interpreter."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from emulator import ARM, emulated, needs_emulator

from backends import build_source, resolve
from backends.c.codegen import emit
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

COUNT = 32
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "float32", "float64", "bool")
FLOAT_OPS = ("+", "-", "min", "max")  # no products: fusing them with a sum changes the rounding
INT_OPS = ("+", "-", "*", "//", "%", "min", "max", "&", "|", "^")
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
            arrays.append(array.astype(kind))
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
    if choice < 0.4:
        sources = [t for t in TYPES if t != kind and (dt.is_float(kind) or not dt.is_float(t))]
        inner = expression(rng, rng.choice(sources), depth - 1)
        return lambda n: Cast(dt.with_lanes(kind, n), inner(n))
    known = FLOAT_OPS if dt.is_float(kind) else INT_OPS
    op = rng.choice([o for o in known if o != "*" or kind != dt.INDEX])
    a, b = expression(rng, kind, depth - 1), expression(rng, kind, depth - 1)
    if op in ("//", "%"):  # the interpreter refuses to divide by zero
        return lambda n: BinOp(op, a(n), BinOp("|", b(n), vector(Const(1, kind), n)))
    return lambda n: BinOp(op, a(n), b(n))


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
    makes = [expression(rng, kind, rng.randint(1, 4)) for kind in TYPES for _ in range(4)]
    arrays = data(np.random.default_rng(seed))
    scalar = program(makes, 1)
    expected = interpret(scalar, *arrays)
    for lanes in (1, 4, 16):
        func = program(makes, lanes)
        results = [np.zeros(COUNT, p.dtype) for p in func.params[len(arrays) :]]
        values = {s.buffer.name: s.value for s in walk(scalar.body) if isinstance(s, Store)}
        run(func, *arrays, *results, flags=("-march=native", "-Wno-tautological-compare"))
        for store, result, wanted in zip(func.params[len(arrays) :], results, expected):
            message = f"{store.name}, {lanes} lanes: {values[store.name]}"
            np.testing.assert_array_equal(result, wanted, err_msg=message)


@needs_emulator
@pytest.mark.parametrize("lanes", [1, 4])
def test_random_expressions_for_arm(lanes, tmp_path):
    rng = random.Random(7)
    makes = [expression(rng, kind, rng.randint(1, 4)) for kind in TYPES for _ in range(4)]
    arrays = data(np.random.default_rng(7))
    func = program(makes, lanes)
    kernel = build_source(func, emit(func, resolve(ARM)), ARM)
    assert "__builtin_ia32" not in kernel.source
    results = [np.zeros(COUNT, p.dtype) for p in func.params[len(arrays) :]]
    with emulated(kernel, tmp_path) as call:
        call(*arrays, *results)
    for result, wanted in zip(results, interpret(program(makes, 1), *arrays), strict=True):
        np.testing.assert_array_equal(result, wanted)
