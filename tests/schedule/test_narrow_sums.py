"""Sums of small integers in the narrowest type that holds them: the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from autotune import default_schedule
from backends import build
from schedule import Schedule
from tensorir import interpret, reference, te

KINDS = {"uint8": 8, "int8": 8, "uint16": 16, "int16": 16, "int32": 32, "float32": 32}


def summed(term, terms, *inputs, shape=(5,), where=None):
    """The sum over `terms` of what `term` makes of arrays of rows, of the types `inputs`."""
    x = [te.placeholder((*shape, terms), kind, name=f"x{n}") for n, kind in enumerate(inputs)]
    k = te.reduce_axis(terms, name="k")
    more = {} if where is None else {"where": where(k)}
    y = te.compute(shape, lambda *i: te.sum(term(*[a[(*i, k)] for a in x]), axis=k, **more), "y")
    return te.create_prim_func([*x, y], name="summed")


def wide(x, kind="int64"):
    return x.astype(kind)


NARROWER = {
    "counts": (summed(lambda x: te.if_then_else(x > 0.0, 1, 0), 300, "float32"), "i32"),
    "alike": (summed(lambda x, y: wide(x == y), 255, "uint8", "uint8"), "u8"),
    "one more": (summed(lambda x, y: wide(x == y), 256, "uint8", "uint8"), "u16"),
    "bytes": (summed(lambda x: wide(x, "int32"), 257, "uint8"), "u16"),
    "one byte more": (summed(lambda x: wide(x), 258, "uint8"), "i32"),
    "below zero": (summed(lambda x: wide(x, "int32"), 256, "int8"), "i16"),
    "products": (summed(lambda x, y: wide(x) * wide(y), 1000, "int8", "int8"), "i32"),
    "differences": (summed(lambda x, y: wide(x) - wide(y), 9, "uint8", "uint8"), "i16"),
    "of words": (summed(lambda x: wide(x), 3, "int16"), "i32"),
}
STAY = {
    "any bits": summed(lambda x: wide(x), 3, "int32"),
    "as wide": summed(lambda x: wide(x, "int32"), 258, "uint8"),
    "too many": summed(lambda x, y: wide(x) * wide(y), 2**18, "int8", "int8", shape=(1,)),
    "unsigned": summed(lambda x: wide(x, "uint64"), 5, "int8"),
    "one term": summed(lambda x: wide(x), 1, "uint8"),
    "floats": summed(lambda x: wide(x, "float32"), 5, "uint8"),
    "some terms": summed(lambda x: wide(x), 6, "uint8", where=lambda k: k % 2 == 0),
}


def extremes(func):
    """Inputs of the least and the greatest numbers, and of others."""
    rng = np.random.default_rng(0)
    for low, high in ((0, 0), (1, 1), (0, 1)):
        yield [
            rng.choice(np.array([-1.0, 1.0], "float32")[[low, high]], p.const_shape)
            if p.dtype == "float32"
            else rng.choice(np.array([np.iinfo(p.dtype).min, np.iinfo(p.dtype).max])[[low, high]],
                            p.const_shape).astype(p.dtype)
            for p in func.inputs
        ]  # fmt: skip


@pytest.mark.parametrize("name", NARROWER)
def test_sums_are_as_narrow_as_they_can_be(name):
    func, kind = NARROWER[name]
    sch = Schedule(func)
    sch.use_algorithm("y", "narrow_sums")
    assert f"y_narrow = alloc({kind}[5])" in str(sch.func)
    assert sch.numerics == "bitwise"
    for given in extremes(func):
        np.testing.assert_array_equal(interpret(sch.func, *given)[0], reference(func, *given)[0])


@pytest.mark.parametrize("name", STAY)
def test_others_stay(name):
    refused(Schedule(STAY[name]).use_algorithm, "y", "narrow_sums", match="narrow_sums")


@pytest.mark.parametrize("name", NARROWER)
def test_defaults_are_right_at_both_ends(name, cache):
    func, _ = NARROWER[name]
    kernel = build(default_schedule(func, "c -threads=1"))
    for given in extremes(func):
        np.testing.assert_array_equal(kernel(*given), reference(func, *given)[0])


def test_counts_of_many_rows_take_the_vectors_of_what_they_count():
    func = summed(lambda x: te.if_then_else(x > 0.0, 1, 0), 320, "float32", shape=(500,))
    sch = default_schedule(func, "c -threads=1 -vector_bits=512")
    assert sch.func.attrs["algorithms"] == {"y": "narrow_sums"}
