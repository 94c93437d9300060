"""Extremes whose places come in order compare values alone, and find the same to the last bit."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import Let, Select, Target, any_of, interpret, lower, te
from tensorir.passes.conditions.first_of_equals import first_of_equals
from tensorir.visit import stmt_exprs, variables, walk, walk_exprs

ROWS, TERMS = 5, 12
LEAST, MOST = float(np.finfo("float32").min), float("-inf")


def isnan(x):
    return te.isnan(x) if x.dtype.startswith("float") else te.const(False, "bool")


KEEPS = {
    "first of the largest": lambda i, a, j, b: any_of(a > b, (a == b) & (i <= j)),
    "first of the smallest": lambda i, a, j, b: any_of(a < b, (a == b) & (i < j)),
    "last of the largest": lambda i, a, j, b: any_of(a > b, (a == b) & (i > j)),
    "first NaN": lambda i, a, j, b: any_of(
        b < a, (a == b) & (i < j), isnan(a) & any_of(~isnan(b), i < j)
    ),
}


def program(keep="first of the largest", dtype="float32", start=(2**31 - 1, LEAST), place=None,
            turned=False, more=False, where=None):  # fmt: skip
    """Places and values of rows; with `more` a third value is taken along."""
    x, k = te.placeholder((ROWS, TERMS), dtype, name="x"), te.reduce_axis(TERMS, name="k")

    def merged(old, new):
        kept = KEEPS[keep](old[0], old[1], new[0], new[1])
        pairs = [(b, a) if turned else (a, b) for a, b in zip(old, new)]
        return tuple(te.if_then_else(~kept if turned else kept, *pair) for pair in pairs)

    values = (*(te.const(v, d) for v, d in zip(start, ("int32", dtype))), te.const(0, "int32"))
    found = te.comm_reducer(merged, lambda *types: values[: len(types)], name="found")

    def terms(i):
        at = (place or (lambda i, k: i * TERMS + k))(i, k).astype("int32")
        given = (at, x[i, k], (k * 3).astype("int32"))
        return found(given[: 3 if more else 2], axis=k, **({"where": where(k)} if where else {}))

    return te.create_prim_func([x, *te.compute((ROWS,), terms, name="o")])


SHORTER = {
    "least finite number": {},
    "infinity": {"start": (2**31 - 1, MOST)},
    "turned": {"turned": True},
    "a third value": {"more": True},
    "before all places": {"start": (-1, LEAST)},
    "smallest": {"keep": "first of the smallest", "start": (2**31 - 1, -LEAST)},
    "smallest of all": {"keep": "first of the smallest", "start": (2**31 - 1, -MOST)},
    "last": {"keep": "last of the largest", "start": (-1, MOST)},
    "NaN": {"keep": "first NaN", "start": (2**31 - 1, MOST)},
    "bytes": {"dtype": "uint8", "start": (2**31 - 1, 0)},
    "signed": {"dtype": "int16", "start": (2**31 - 1, -(2**15))},
    "every other place": {"place": lambda i, k: k * 2 + 7},
}
AS_WRITTEN = {
    "downwards": {"place": lambda i, k: TERMS - k},
    "the same twice": {"place": lambda i, k: k // 2},
    "begins among the places": {"start": (3, LEAST)},
    "what is left out": {"where": lambda k: k % 3 == 1},
    "of bytes, not the least": {"dtype": "uint8", "start": (2**31 - 1, 1)},
    "a third value from infinity on": {"more": True, "start": (2**31 - 1, MOST)},
}


def inputs(dtype):
    """Rows of few values, most of which are there twice, and of those at which floats end."""
    drawn = np.random.default_rng(0)
    if not dtype.startswith("float"):
        low = np.iinfo(dtype).min
        rows = [drawn.integers(low, low + 3, TERMS), drawn.integers(0, 2, TERMS), [low] * TERMS,
                [low + 1] * TERMS, [np.iinfo(dtype).max] * TERMS]  # fmt: skip
        return np.array(rows, dtype=dtype)
    ends = [np.nan, -np.inf, np.inf, LEAST, -LEAST, -0.0, 0.0, 1.0]
    rows = [drawn.choice(ends, TERMS) for _ in range(2)]
    rows += [drawn.choice(few, TERMS) for few in ([-np.inf, LEAST], [0.0, -0.0], [np.inf, -LEAST])]
    return np.array(rows, dtype=dtype)


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert a.tobytes() == b.tobytes(), (a, b)


def compares_places(func):
    places = {s.var for s in walk(func.body) if isinstance(s, Let) and s.var.dtype == "int32"}
    values = [e for s in walk(func.body) for root in stmt_exprs(s) for e in walk_exprs(root)]
    return any(places & variables(e.cond) for e in values if isinstance(e, Select))


@pytest.mark.parametrize("name", [*SHORTER, *AS_WRITTEN])
def test_places_in_order_are_not_compared(name):
    func = program(**{**SHORTER, **AS_WRITTEN}[name])
    made = first_of_equals(func)
    assert compares_places(func)
    assert (made is func) == compares_places(made) == (name in AS_WRITTEN)
    for seed in range(4):
        x = np.roll(inputs(func.inputs[0].dtype), seed, axis=1)
        same(interpret(made, x), interpret(func, x))
        same(interpret(lower(func, Target(threads=1)), x.ravel()), interpret(func, x))


def split_terms(sch):
    *_, k = sch.get_loops("o")
    sch.split(k, [None, 5])  # of which the last one lacks terms


def terms_in_turn(sch):
    i, k = sch.get_loops("o")
    outer, inner = sch.split(k, [4, 3])
    sch.reorder(inner, outer, i)


def terms_inside_out(sch):
    i, k = sch.get_loops("o")
    outer, inner = sch.split(k, [4, 3])
    sch.reorder(outer, i, inner)


@pytest.mark.parametrize(
    ("steps", "shorter"), [(split_terms, True), (terms_in_turn, False), (terms_inside_out, True)]
)
def test_the_order_is_that_of_the_loops(steps, shorter):
    for name in ("least finite number", "infinity", "bytes"):
        func = program(**SHORTER[name])
        sch = Schedule(func)
        steps(sch)
        assert compares_places(first_of_equals(sch.func)) != shorter, name
        x = inputs(func.inputs[0].dtype)
        same(interpret(lower(sch.func, Target(threads=1)), x.ravel()), interpret(func, x))


def test_vectors_of_rows_find_the_same(cache):
    """Windows of two by two: their elements are taken out of the same vectors."""
    x, (a, b) = te.placeholder((6, 64), name="x"), (te.reduce_axis(2), te.reduce_axis(2))
    keep = KEEPS["first of the largest"]
    found = te.comm_reducer(
        lambda o, n: tuple(te.if_then_else(keep(*o, *n), p, q) for p, q in zip(o, n)),
        lambda *types: (te.max_value("int32"), te.min_value("float32")), name="found",
    )  # fmt: skip
    term = lambda h, w: ((h * 2 + a) * 64 + w * 2 + b).astype("int32")  # noqa: E731
    outs = te.compute(
        (3, 32), lambda h, w: found((term(h, w), x[h * 2 + a, w * 2 + b]), axis=[a, b]), name="o"
    )
    func = te.create_prim_func([x, *outs])
    sch = Schedule(func)
    h, w, down, across = sch.get_loops("o")
    outer, lanes = sch.split(w, [None, 16])
    sch.reorder(h, outer, down, across, lanes)
    sch.vectorize(lanes)
    sch.unroll(across)
    sch.unroll(down)
    given = np.resize(inputs("float32").ravel(), (6, 64))
    kernel = build(sch, "c -threads=1 -vector_bits=512")
    same(kernel(given), interpret(func, given))
    loaded = set(re.findall(r"LOAD\(f32x16, &x\[[^]]*", kernel.source))
    assert len(loaded) == 4, "two vectors of each row, for all elements of a window"
    begin = r"ramp_i32x16\(\(i32\)\(h \* 128 \+ w_0 \* 32\), 2\)"
    assert {*re.findall(begin + r"( \+ \d+)?", kernel.source)} >= {"", " + 1", " + 65"}
