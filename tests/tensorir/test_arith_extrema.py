"""Minima and maxima of numbers keep the pairs they share; what others are beyond is dropped."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tensorir import BinOp, Store, interpret, te, walk, walk_exprs
from tensorir.passes.simplify import simplify

KINDS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def extrema(func) -> int:
    """The different minima and maxima that a program computes."""
    values = [s.value for s in walk(func.body) if isinstance(s, Store)]
    found = {e for value in values for e in walk_exprs(value)}
    return sum(isinstance(e, BinOp) and e.op in ("min", "max") for e in found)


def network(kind, pairs, wires):
    """The numbers of a column, compared and exchanged in pairs; results are the middle ones."""
    x = te.placeholder((wires, 5), kind, name="x")

    def value(j, at):
        found = [x[n, j] for n in range(wires)]
        for a, b in pairs:
            found[a], found[b] = te.minimum(found[a], found[b]), te.maximum(found[a], found[b])
        return found[at]

    middle = (wires // 2, wires // 2 - 1)
    made = [te.compute((5,), lambda j, at=at: value(j, at), name=f"o{at}") for at in middle]
    return te.create_prim_func([x, *made])


MEDIAN = ((1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3), (5, 8),
          (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2))  # fmt: skip
RANDOM = [tuple(random.Random(seed).sample(range(6), 2) for _ in range(9)) for seed in range(4)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pairs", [MEDIAN, *RANDOM], ids=["median", *map(str, range(4))])
def test_pairs_that_several_numbers_share_are_computed_once(kind, pairs):
    func = network(kind, pairs, 9 if pairs is MEDIAN else 6)
    made = simplify(func)
    assert extrema(made) <= extrema(func)
    x = np.random.default_rng(0).integers(0, 100, func.inputs[0].const_shape).astype(kind)
    for mine, theirs in zip(interpret(made, x), interpret(func, x), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    if pairs is MEDIAN:
        np.testing.assert_array_equal(interpret(made, x)[0], np.median(x, axis=0))


FORMS = {
    "low, then lower": (lambda e: te.maximum(te.maximum(e, 5), 3), 1),
    "low, then higher": (lambda e: te.maximum(te.maximum(e, 3), 5), 1),
    "the same again": (lambda e: te.minimum(te.minimum(e, e + 1), e), 1),
    "in pairs": (lambda e: te.maximum(te.maximum(e, -1), te.maximum(-2, e * 2)), 1),
    "never beyond": (lambda e: te.minimum(te.maximum(e, -3), 300), 0),
    "both sides": (lambda e: te.minimum(te.maximum(e, 20), te.minimum(200, 90)), 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_others_are_beyond_is_dropped(form):
    make, count = FORMS[form]
    x = te.placeholder((256,), "uint8", name="x")
    func = te.create_prim_func([x, te.compute((256,), lambda i: make(x[i].astype("int32")))])
    assert extrema(simplify(func)) == count
    every = np.arange(256, dtype="uint8")
    np.testing.assert_array_equal(interpret(simplify(func), every), interpret(func, every))
