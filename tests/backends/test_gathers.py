"""Vectors of elements from places of their own: values, and the instruction where there is one."""

from __future__ import annotations

from platform import machine

import numpy as np
import pytest

from backends import build, source_text
from schedule import Schedule
from tensorir import te

KINDS = ("float32", "float64", "int32", "uint32", "int64", "uint64", "uint8", "int16", "float16")


def taken(kind: str, places: str, lanes: int, march: str = "native"):
    a = te.placeholder((90, 7), kind, name="a")
    p = te.placeholder((128,), places, name="p")
    first = te.compute((128,), lambda i: a[te.clip(p[i].astype("int64"), 0, 89), i % 7], name="c")
    sch = Schedule(te.create_prim_func([a, p, first]))
    (i,) = sch.get_loops("c")
    sch.vectorize(sch.split(i, [None, lanes])[1])
    return build(sch, f"c -march={march}")


@pytest.mark.parametrize("march", ["native", *(["x86-64"] if machine() == "x86_64" else [])])
@pytest.mark.parametrize("places", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("kind", KINDS)
def test_gathered_elements_are_those(kind, places, march):
    kernel = taken(kind, places, {1: 32, 2: 16, 4: 16, 8: 8}[np.dtype(kind).itemsize], march)
    rng = np.random.default_rng(0)
    a = rng.integers(0, 100, (90, 7)).astype(kind)
    p = rng.integers(0, 120, 128).astype(places)
    out = np.empty(128, kind)
    kernel(a, p, out)
    np.testing.assert_array_equal(out, a[np.clip(p.astype("int64"), 0, 89), np.arange(128) % 7])


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_short_vectors(lanes):
    kernel = taken("float64", "int32", lanes)
    a, p = np.random.rand(90, 7), np.arange(128, dtype="int32")
    out = np.empty(128)
    kernel(a, p, out)
    np.testing.assert_array_equal(out, a[np.minimum(p, 89), np.arange(128) % 7])


FORMS = {
    "limited": lambda p, i, size: te.minimum(p[i].astype("int32"), size - 1),
    "computed": lambda p, i, size: (p[i].astype("int64") * 7 + i) % size,
    "negated": lambda p, i, size: size - 1 - te.minimum(p[i].astype("int32"), size - 1),
}


@pytest.mark.parametrize("size", [2, 40, 64, 200, 256])
@pytest.mark.parametrize("kind", ["uint8", "bool", "int16", "float32"])
def test_short_tables(kind, size):
    """Whether they lie in registers or not: vectors of all lengths, places of any form."""
    table, p = te.placeholder((size,), kind, name="t"), te.placeholder((256,), "uint8", name="p")
    rng, number, lane = np.random.default_rng(size), np.arange(256), np.arange(256)
    values = rng.integers(0, 2 if kind == "bool" else 100, size).astype(kind)
    low = np.minimum(number, size - 1)
    wanted = {"limited": low, "computed": (number * 7 + lane) % size, "negated": size - 1 - low}
    outs = [
        te.compute((256,), lambda i, f=form: table[FORMS[f](p, i, size)], name=form)
        for form in FORMS
    ]
    for lanes in (16, 64):
        sch = Schedule(te.create_prim_func([table, p, *outs]))
        for form in FORMS:
            sch.vectorize(sch.split(sch.get_loops(form)[0], [None, lanes])[1])
        got = [np.empty(256, kind) for _ in FORMS]
        build(sch, "c")(values, number.astype("uint8"), *got)
        for each, form in zip(got, FORMS):
            np.testing.assert_array_equal(each, values[wanted[form]])


@pytest.mark.skipif(machine() != "x86_64", reason="gcc does not know the processors")
@pytest.mark.parametrize(
    ("kind", "size", "tables"),
    [("uint8", 256, 4), ("int8", 99, 2), ("uint16", 128, 4), ("float32", 16, 1), ("int32", 65, 0)],
)
def test_tables_that_registers_hold_are_looked_up_there(kind, size, tables):
    table, p = te.placeholder((size,), kind, name="t"), te.placeholder((256,), "uint8", name="p")
    out = te.compute((256,), lambda i: table[FORMS["limited"](p, i, size)], name="c")
    sch = Schedule(te.create_prim_func([table, p, out]))
    sch.vectorize(sch.split(sch.get_loops("c")[0], [None, 64 // np.dtype(kind).itemsize])[1])
    text = source_text(sch.func, "c -march=sapphirerapids")
    assert text.count("p + ") == tables, text
    assert ("__builtin_shuffle(" in text) == (tables > 0)
