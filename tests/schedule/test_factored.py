"""Sums of products that are taken apart: what their factors have to themselves is summed first."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from drawn_inputs import drawn_inputs
from refusal import refused

from autotune import default_schedule
from backends import build
from schedule import Schedule
from tensorir import interpret, ops, te
from tensorir.algorithms.fewest_products import sums_ahead

SIZES = dict(zip("abcdef", (4, 3, 5, 2, 6, 3)))


def einsum(text, dtype="float32", sizes=SIZES):
    given = [
        te.placeholder(tuple(sizes[c] for c in part), dtype, name=f"x{n}")
        for n, part in enumerate(text.partition("->")[0].split(","))
    ]
    return te.create_prim_func([*given, ops.einsum(given, text, name="y")])


def squares():
    """A factor that is there twice has no variable to itself, and both together have."""
    x, s = te.placeholder((4, 5, 3), name="x"), te.placeholder((5,), name="s")
    k, m = te.reduce_axis(5, name="k"), te.reduce_axis(3, name="m")
    e = lambda i: te.sum(x[i, k, m] * s[k] * x[i, k, m], axis=[k, m])  # noqa: E731
    return te.create_prim_func([x, s, te.compute((4,), e, name="y")])


def halves():
    x, z = te.placeholder((4, 5), name="x"), te.placeholder((6, 3), name="z")
    k, m = te.reduce_axis(5, name="k"), te.reduce_axis(6, name="m")
    e = lambda i: te.sum(te.exp(x[i, k]) * 0.5 * z[m, 1], axis=[k, m])  # noqa: E731
    return te.create_prim_func([x, z, te.compute((4,), e, name="y")])


PROGRAMS = {
    "nothing in common": einsum("bc,ad->cb"),
    "no axis": einsum("ab,edc->c"),
    "each something": einsum("abf,cbde->bcd"),
    "one of them": einsum("da,cfedb->cab"),
    "rows of the result": einsum("cde,bade->bdec"),
    "three": einsum("ab,bcf,ce->ae"),
    "three apart": einsum("ab,cd,ef->ace"),
    "whole numbers": einsum("abf,cbde->bcd", "int32"),
    "numbers": halves(),
    "one within another": einsum("abc,bd,cd->ad"),
    "both sides": einsum("fb,abc,fc->fa"),
    "a chain": einsum("ab,bc,cd,de->ae"),
    "twice the same": squares(),
    "steps of whole numbers": einsum("abc,bd,cd->ad", "int32"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    func = PROGRAMS[name]
    sch = Schedule(func)
    sch.use_algorithm("y", "factored")
    assert len(sch.get_blocks()) > 1 and sch.numerics == "reassociated"
    given = drawn_inputs(func)
    wanted, found = interpret(func, *given)[0], interpret(sch.func, *given)[0]
    exact = wanted.dtype.kind == "i"
    np.testing.assert_allclose(found, wanted, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-4)


@pytest.mark.parametrize(
    "func", [einsum("ab,bc->ac"), einsum("abc,bc->a"), einsum("abc->a"), einsum("ab,cb,b->ac")]
)
def test_what_has_all_in_common_stays(func):
    refused(Schedule(func).use_algorithm, "y", "factored", match="variables of the sum in common")


def cost(factors, kept, sizes, steps):
    """Products and sums of such steps, and then of all that is left."""
    total, left = 0, [set(each) for each in factors]
    for over in [*steps, set().union(*left) - set(kept)]:
        used = [each for each in left if each & set(over)] if over in steps else left
        every = set().union(*used)
        total += max(1, len(used) - 1) * prod(sizes[v] for v in every)
        left = [each for each in left if each not in used] + [every - set(over)]
    return total


def orders(factors, kept):
    """All ways to take sums of some factors before the others."""
    every = set().union(*factors) - set(kept)
    for first in every:
        used, others = ([f for f in factors if (first in f) == own] for own in (True, False))
        inside = set().union(*used)
        left = inside & ({*kept}.union(*others))
        if others:
            for rest in orders([*others, left], kept):
                yield [inside - left, *rest]
    yield []


@pytest.mark.parametrize(
    "text", ["abc,bd,cd->ad", "fb,abc,fc->fa", "ab,bc,cd,de->ae", "ab,bc->ac", "abc,ad,be,cf->def"]
)
@pytest.mark.parametrize("seed", range(3))
def test_no_other_order_takes_fewer_products(text, seed):
    drawn = np.random.default_rng(seed).integers(2, 40, 6)
    given, _, result = text.partition("->")
    names = {c: te.var(c) for c in "abcdef"}
    sizes = dict(zip(names.values(), map(int, drawn)))
    factors = [tuple(names[c] for c in part) for part in given.split(",")]
    kept = [names[c] for c in result]
    found = [set(over) for over in sums_ahead(factors, kept, sizes)]
    least = min(cost(factors, kept, sizes, each) for each in orders(list(map(set, factors)), kept))
    assert cost(factors, kept, sizes, found) == least


@pytest.mark.parametrize("length", [9, 40])
def test_long_chains_are_put_in_order_at_once(length):
    """A matrix after the other, however many there are: of orders there are too many to try."""
    names = [te.var(f"v{n}") for n in range(length + 1)]
    factors, kept = [*zip(names, names[1:])], [names[0], names[-1]]
    sizes = {v: 2 if n == length // 2 else 7 for n, v in enumerate(names)}
    found = [set(over) for over in sums_ahead(factors, kept, sizes)]
    one = 7 * 7 * 2
    assert cost(factors, kept, sizes, found) == (length - 1) * one


def test_the_default_sums_within_another_sum(cache):
    """A vector of each row first: one product for a term, and no more stored than the result."""
    func = einsum("abc,c,bd->ad", sizes={"a": 64, "b": 40, "c": 48, "d": 32})
    sch = default_schedule(func, "c -threads=1 -vector_bits=256")
    assert list(sch.func.attrs["algorithms"].values()) == ["factored"]


@pytest.mark.parametrize("text", ["bc,ad->cb", "da,cfedb->cab", "cde,bade->bdec"])
def test_the_default_sums_first(text, cache):
    func = einsum(text, sizes=dict(zip("abcdef", (33, 20, 31, 24, 12, 7))))
    sch = default_schedule(func, "c -threads=1 -vector_bits=256")
    assert list(sch.func.attrs["algorithms"].values()) == ["factored"]
    given = drawn_inputs(func)
    wanted = np.einsum(text, *given, optimize=True)
    np.testing.assert_allclose(build(sch, "c -threads=1")(*given), wanted, rtol=1e-3, atol=1e-2)
