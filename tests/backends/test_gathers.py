"""Vectors of elements from places of their own: values, and the instruction where there is one."""

from __future__ import annotations

from platform import machine

import numpy as np
import pytest

from backends import build
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
