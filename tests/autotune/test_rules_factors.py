"""Products of several factors by default: a tile shares what it can, whatever order is written."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from autotune import default_schedule
from autotune.partials import partial_plans
from autotune.plans import plans
from autotune.rules import choose, make_space
from backends import build
from schedule import Schedule
from schedule.library import find_contraction, groupings, shared_parts
from tensorir import Cpu, Target, ops, reference, te

CPU = Cpu(
    Target(vector_bits=512, threads=2, features=("avx512f",), l1d=32 << 10, l2=1 << 20, l3=1 << 25)
)

SCALES = {"k": lambda i, j, k: k, "row": lambda i, j, k: i, "column": lambda i, j, k: j}


def product(scale=None, order=(0, 1, 2), right=False, size=96, dtype="float32"):
    """A matmul whose terms have a factor more, in some order, grouped from the left or right."""
    a, b = (te.placeholder((size, size), dtype, name=name) for name in "AB")
    s, axis = te.placeholder((size,), dtype, name="S"), te.reduce_axis(size, name="k")

    def term(i, j):
        if scale is None:
            return a[i, axis] * b[axis, j]
        factors = [a[i, axis], b[axis, j], s[SCALES[scale](i, j, axis)]]
        x, y, z = (factors[n] for n in order)
        return x * (y * z) if right else (x * y) * z

    c = te.compute((size, size), lambda i, j: te.sum(term(i, j), axis=axis), name="C")
    return te.create_prim_func([a, b, c] if scale is None else [a, b, s, c], name="product")


def mttkrp(size=48, groups="left"):
    a = te.placeholder((size, 5, 7), name="A")
    b, c = te.placeholder((5, size), name="B"), te.placeholder((7, size), name="D")
    k, m = te.reduce_axis(5, name="k"), te.reduce_axis(7, name="m")

    def term(i, j):
        x, y, z = a[i, k, m], b[k, j], c[m, j]
        return (x * y) * z if groups == "left" else x * (y * z)

    out = te.compute((size, size), lambda i, j: te.sum(term(i, j), axis=[k, m]), name="C")
    return te.create_prim_func([a, b, c, out], name="mttkrp")


def contraction(func):
    return find_contraction(Schedule(func), "C")


def cycles(func, numerics="reassociated"):
    return plans(contraction(func), CPU, numerics=numerics)[0][0]


@pytest.mark.parametrize("scale", SCALES)
def test_a_factor_more_costs_little_in_whatever_order(scale):
    """One multiply-add for each term of a sum, and the rest for rows or vectors alone."""
    orders = [(o, right) for o in permutations(range(3)) for right in (False, True)]
    found = {cycles(product(scale, order, right)) for order, right in orders}
    assert max(found) <= 1.001 * min(found)
    plain = cycles(product())
    assert max(found) <= 1.2 * plain
    assert cycles(product(scale), "bitwise") >= 1.6 * plain


def test_three_factors_of_two_sums():
    assert cycles(mttkrp()) == pytest.approx(cycles(mttkrp(groups="right")))
    assert cycles(mttkrp()) <= 0.75 * cycles(mttkrp(), "bitwise")


@pytest.mark.parametrize("func", [*(product(s) for s in SCALES), mttkrp()], ids=[*SCALES, "mttkrp"])
def test_defaults_have_it_and_are_right(cache, func):
    sch = default_schedule(func, CPU.target)
    assert {"regroup", "use_algorithm"} & {step.name for step in sch.trace.instructions}
    assert sch.numerics == "reassociated"
    kept = default_schedule(func, CPU.target, numerics="bitwise")
    assert kept.numerics == "bitwise"
    rng = np.random.default_rng(0)
    args = [rng.integers(-2, 3, p.const_shape).astype(p.dtype) for p in func.inputs]
    (want,) = reference(func, *args)
    for made in (sch, kept):
        np.testing.assert_array_equal(build(made, cache=cache)(*args), want)


@pytest.mark.parametrize("scale, right", [(s, r) for s in ("row", "column") for r in (True, False)])
def test_factors_that_all_terms_have_are_taken_out(scale, right):
    """Where that is surely less work; the nest is the one of the product without them."""
    plain, found = (
        choose(product(of, right=right, size=256), CPU, None, ()).sketch for of in (None, scale)
    )
    assert found.algorithm == "factored(C)"
    assert [p.estimate() for p in found.plans] == [p.estimate() for p in plain.plans]
    assert not choose(product("k", size=256), CPU, None, ()).sketch.algorithm


def test_integers_have_it_in_any_class():
    for numerics in ("bitwise", "reassociated"):
        sch = default_schedule(product("k", dtype="int32"), CPU.target, numerics=numerics)
        assert "regroup" in [step.name for step in sch.trace.instructions]
        assert sch.numerics == "bitwise"


def test_partial_sums_have_it():
    """A product with a scaled vector: rows share the scaled vector."""
    a, b = te.placeholder((512, 4096), name="A"), te.placeholder((4096,), name="B")
    s, k = te.placeholder((4096,), name="S"), te.reduce_axis(4096, name="k")
    c = te.compute((512,), lambda i: te.sum(a[i, k] * b[k] * s[k], axis=k), name="C")
    found = partial_plans(contraction(te.create_prim_func([a, b, s, c])), CPU)
    assert {plan.nest.apart for _, plan in found} > {None}


def test_two_factors_have_no_choice():
    c = contraction(product())
    assert groupings(c) == (None,)
    for func, has in ((product(), False), (product("k"), True)):
        found = [n for s in make_space(func, CPU).sketches.values() for n in s.choices]
        assert any(choice.name.endswith(".apart") for choice in found) == has


@pytest.mark.parametrize("scale", SCALES)
def test_tiles_share_what_they_read_as_well(scale):
    """A single row has the fewest products of its own, and reads an operand anew for each sum."""
    _, best = plans(contraction(product(scale, size=512)), CPU)[0]
    assert min(best.tile) > 1


def weighted(order, right):
    """A softmax times a matrix, whose terms have a factor more."""
    x, v = te.placeholder((12, 40), name="X"), te.placeholder((40, 32), name="V")
    s = te.placeholder((40,), name="S")
    k, weights = te.reduce_axis(40, name="k"), ops.softmax(x)

    def term(i, j):
        a, b, c = ((weights[i, k], v[k, j], s[k])[n] for n in order)
        return a * (b * c) if right else (a * b) * c

    out = te.compute((12, 32), lambda i, j: te.sum(term(i, j), axis=k), name="C")
    return te.create_prim_func([x, v, s, out], name="weighted")


def test_products_of_chains_have_it(cache):
    """In whatever order, what a term multiplies first stands still along the rows or the lanes."""
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype("float32") for shape in ((12, 40), (40, 32), (40,))]
    for order, right in [(o, r) for o in permutations(range(3)) for r in (False, True)]:
        func = weighted(order, right)
        (plan,) = choose(func, CPU, None, ()).sketch.plans
        assert plan.name == "chain"
        sch = default_schedule(func, CPU.target)
        c = find_contraction(sch, "C")
        for parts in shared_parts(c, None):
            assert len({n for o in parts for n in c.spatial if c.operands[o].strides[n]}) < 2
        (want,) = reference(func, *args)
        np.testing.assert_allclose(build(sch, cache=cache)(*args), want, rtol=1e-5, atol=1e-5)
