"""No operation on elements of any types falls apart into single lanes."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from emit.lane_table import Case, assembled, instructions, run, text_of

from backends import resolve
from backends.c.backend import CBackend
from tensorir import Expr, te
from tensorir import dtype as dt

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="reads gcc's assembly")

TYPES = dt.SCALARS
SIGNS = ("bool", "uint8", "int16", "int32", "uint64", "bfloat16", "float16", "float32", "float64")
"""Types of all widths; what they are compared with is another question."""

MOST = {"x86-64-v4": 16.0, "haswell": 21.0}
"""Instructions for one register of the widest type, in an operation of one to three operands."""


def positive(x: Expr) -> Expr:
    return x if dt.is_bool(x.dtype) else x > te.const(0, x.dtype)


def number(x: Expr) -> Expr:
    return x.astype("float32") if x.dtype in dt.STORAGE_ONLY else x


def selects() -> Iterator[Case]:
    for compared, chosen in itertools.product(SIGNS, SIGNS):
        yield Case(
            f"{chosen} by {compared}",
            lambda p, a, b: te.if_then_else(positive(p), a, b),
            (compared, chosen, chosen),
        )
    for compared, chosen in itertools.product(SIGNS[2:], ("bool", "uint8", "int16", "float64")):
        yield Case(f"constants of {chosen} by {compared}", _constants(chosen), (compared,))


def _constants(dtype: str) -> Callable[[Expr], Expr]:
    return lambda p: te.if_then_else(positive(p), te.const(1, dtype), te.const(0, dtype))


def casts() -> Iterator[Case]:
    for source, goal in itertools.permutations((*SIGNS, "int8", "uint32", "int64"), 2):
        to_integer = dt.is_float(source) and dt.is_int(goal)
        yield Case(f"{source} to {goal}", lambda x, g=goal: x.astype(g), (source,), to_integer)


def arithmetic() -> Iterator[Case]:
    for name, function in OPERATIONS.items():
        arity = function.__code__.co_argcount
        by_lanes = name in ("a << b", "a >> b")
        for d in ("int8", "uint16", "int32", "uint32", "int64", "bfloat16", "float32", "float64"):
            if not dt.is_int(d) and ("<<" in name or ">>" in name):
                continue
            of = _of(function, d)
            yield Case(f"{name} of {d}", of, (d,) * arity, bits=32 * by_lanes)
            wider = WIDER if dt.is_int(d) else ()
            for goal in (g for g in wider if dt.bits(g) > dt.bits(d)):
                yield Case(f"{name} of {d} as {goal}", _as(of, goal), (d,) * arity)


def _of(function: Callable[..., Expr], dtype: str) -> Callable[..., Expr]:
    return lambda *x: function(*map(number, x)).astype(dtype)


def _as(function: Callable[..., Expr], dtype: str) -> Callable[..., Expr]:
    return lambda *x: function(*x).astype(dtype)


def conditions() -> Iterator[Case]:
    for a, b in itertools.combinations_with_replacement(SIGNS, 2):
        yield Case(f"{a} and {b}", lambda x, y: positive(x) & positive(y), (a, b))
    for d in TYPES:
        yield Case(f"not {d}", lambda x: ~positive(x), (d,))
        yield Case(f"equal {d}", lambda x, y: x == y, (d, d))
        yield Case(f"count {d}", lambda x, y: (x == y).astype("int32"), (d, d))
    for name in ("isnan", "isinf", "isfinite"):
        for d in ("float32", "float64"):
            yield Case(f"{name} {d}", getattr(te, name), (d,))


OPERATIONS: dict[str, Callable[..., Expr]] = {
    "a + b": lambda a, b: a + b,
    "a * b": lambda a, b: a * b,
    "a - b": lambda a, b: a - b,
    "min": lambda a, b: te.min(a, b),
    "max": lambda a: te.max(a, te.const(0, a.dtype)),
    "clip": lambda a: te.clip(a, 1, 5),
    "abs": lambda a: te.abs(a),
    "-a": lambda a: -a,
    "a << 3": lambda a: a << 3,
    "a >> 3": lambda a: a >> 3,
    "a << b": lambda a, b: a << b,
    "a >> b": lambda a, b: a >> b,
}
WIDER = ("int32", "float64")


TABLES: dict[str, Callable[[], Iterator[Case]]] = {
    "selects": selects, "casts": casts, "arithmetic": arithmetic, "conditions": conditions
}  # fmt: skip

NO_INSTRUCTION = {"int64", "uint64"}
"""To and from floats AVX2 has none for these; gcc takes the lanes one by one."""


def expected(case: Case, march: str) -> float:
    source, _, goal = case.name.partition(" to ")
    floats = any(map(dt.is_float, {source, goal} & set(TYPES)))
    if march == "haswell" and floats and {source, goal} & NO_INSTRUCTION:
        return 60.0
    return MOST[march]


@pytest.mark.parametrize("table", TABLES)
def test_nothing_falls_apart_into_lanes(table, cache, samples) -> None:
    """Instructions are bounded, and results those of a loop without vectors."""
    cases = list(TABLES[table]())[:: 4 if samples else 1]
    plain = text_of(cases, "x86-64", vectors=False)
    wanted = run(assembled(plain, "x86-64", cache, level="-O0")[1], cases)
    for march in MOST:
        assembly, library = assembled(text_of(cases, march), march, cache)
        counted = instructions(assembly)
        numbers = [(counted[f"k{n}"], case) for n, case in enumerate(cases)]
        many = [(count, case.name) for count, case in numbers if count > expected(case, march)]
        assert not many, (march, sorted(many, reverse=True))
        if CBackend().why_not_here(resolve(f"c -march={march}")) is None:
            for case, a, b in zip(cases, run(library, cases), wanted):
                np.testing.assert_array_equal(a, b, err_msg=f"{case.name} for {march}")
