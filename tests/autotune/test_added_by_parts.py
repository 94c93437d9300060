"""Terms that are sums of products: each product is one instruction with the sum."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from autotune import default_schedule
from autotune.device import Cpu
from autotune.estimate.estimate import Estimate
from autotune.plans import plans
from autotune.rules.group import find_groups
from backends import build
from schedule import Schedule
from schedule.library import find_contraction
from tensorir import Target, reference, te

WIDE = Target("c", vector_bits=512, threads=1, features=("avx512f", "fma"))

TERMS = {
    "real": lambda a, b, c, d: a * c - b * d,
    "imaginary": lambda a, b, c, d: a * d + b * c,
    "negated": lambda a, b, c, d: -(b * d) + a * c,
    "quaternion": lambda a, b, c, d: a * c - b * d - a * d - b * c,
    "pairs": lambda a, b, c, d: (a * c - b * d) - (a * d + b * c),
}


def products(term, kind="float32", turned=False, sizes=(48, 64, 24)):
    """Of two matrices of numbers of two parts, each part by itself."""
    n, m, terms = sizes
    a, b = (te.placeholder((n, terms), kind, name=name) for name in "ab")
    c, d = (te.placeholder((terms, m), kind, name=name) for name in "cd")
    k = te.reduce_axis(terms, name="k")

    def at(i, j):
        return te.sum(term(a[i, k], b[i, k], c[k, j], d[k, j]), axis=k)

    shape, body = ((m, n), lambda j, i: at(i, j)) if turned else ((n, m), at)
    return te.create_prim_func([a, b, c, d, te.compute(shape, body, name="out")], name="parts")


def chained(func, numerics=None):
    found = default_schedule(func, WIDE, numerics=numerics)
    return found, any(step.name == "reassociate" for step in found.trace.instructions)


@pytest.mark.parametrize(
    "form", [{}, {"kind": "float64"}, {"turned": True}, {"sizes": (47, 61, 23)}], ids=str
)
@pytest.mark.parametrize("name", TERMS)
def test_products_of_a_term_are_added_one_by_one(name, form, cache):
    func = products(TERMS[name], **form)
    found, parts = chained(func)
    assert parts
    data = np.random.default_rng(0)
    args = [data.integers(-4, 5, p.const_shape).astype(p.dtype) for p in func.params[:-1]]
    (want,) = reference(func, *args)
    np.testing.assert_array_equal(build(found, "c", cache=cache)(*args), want)


def test_bits_are_kept_where_that_is_asked_for():
    found, parts = chained(products(TERMS["real"]), "bitwise")
    assert not parts and found.numerics == "bitwise"


@pytest.mark.parametrize(
    "term",
    [lambda a, b, c, d: a * c, lambda a, b, c, d: a * c + d, lambda a, b, c, d: (a - b) * (c + d)],
)
def test_terms_that_take_no_fewer_instructions_stay(term):
    assert not chained(products(term))[1]


def test_integers_have_no_multiply_adds():
    assert not chained(products(TERMS["real"], "int32"))[1]


def test_parts_wait_for_each_other_where_few_sums_are_in_a_tile():
    """The estimate counts fewer instructions, and a longer chain of them."""
    sch = Schedule(products(TERMS["pairs"]))
    (group,) = find_groups(sch)
    c, cpu = find_contraction(sch, group.block, group.epilogue, group.padding), Cpu(WIDE)
    assert c.chain == (4, 2)
    best = plans(c, cpu)[0][1]

    def cycles(tile, **more):
        nest = dataclasses.replace(best, tile=tile, flat="", packs=(), **more)
        return Estimate(c, cpu).arithmetic([nest])[0]

    assert cycles((6, 64), chained=True) < 0.8 * cycles((6, 64), chained=False)
    assert cycles((1, 16), chained=True) > 1.5 * cycles((1, 16), chained=False)
