"""What reads an array twice has the plan of what reads two: a matrix times itself, for one."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from autotune import default_schedule, search_space
from autotune.rules import choose, default_candidates
from autotune.rules.ranked import RankedPlan
from backends import build, resolve
from schedule import Refusal
from tensorir import device_of, interpret, te

TARGETS = ("c -threads=1", "c -threads=2")


def _second(x, same):
    return x if same else te.placeholder(x.shape, x.dtype, name="y")


def _product(shape, first, second, combine, dtype="float32", own=None, batch=False):
    """Of `x[first]` and `y[second]`, indices of i, j, k as letters, b of a batch."""
    own = own or dtype

    def make(same):
        x = te.placeholder(shape, dtype, name="x")
        y = _second(x, same)
        sizes = {}
        for letters in (first, second):
            sizes.update(zip(letters, shape))
        k = te.reduce_axis(sizes["k"], name="k")
        spatial = [*(["b"] if batch else []), "i", "j"]

        def value(*axes):
            at = dict(zip(spatial, axes), k=k)
            a, b = (t[tuple(at[n] for n in names)] for t, names in ((x, first), (y, second)))
            return combine(a.astype(own), b.astype(own), k)

        out = te.compute(tuple(sizes[n] for n in spatial), value, name="out")
        return te.create_prim_func([*dict.fromkeys([x, y]), out])

    return make


def _sum(a, b, k):
    return te.sum(a * b, axis=k)


def _squares(a, b, k):
    return te.sum((a - b) * (a - b), axis=k)


PROGRAMS = {
    "rows": _product((192, 96), "ik", "jk", _sum),
    "columns": _product((200, 128), "ki", "kj", _sum),
    "square": _product((160, 160), "ik", "kj", _sum),
    "distances": _product((192, 24), "ik", "jk", _squares),
    "far rows": _product((150, 33), "ik", "jk", lambda a, b, k: te.max(te.abs(a - b), axis=k)),
    "steps": _product((128, 128), "ik", "kj", lambda a, b, k: te.min(a + b, axis=k)),
    "batch": _product((6, 48, 196), "bik", "bjk", _sum, batch=True),
    "short rows": _product((64, 32, 16), "bik", "bjk", _sum, batch=True),
    "float64": _product((96, 96), "ik", "jk", _sum, "float64"),
    "float16": _product((96, 96), "ik", "jk", _sum, "float16", "float32"),
    "int8": _product((192, 128), "ik", "jk", _sum, "int8", "int32"),
    "uint8 columns": _product((128, 192), "ki", "kj", _sum, "uint8", "int32"),
    "bool": _product((96, 128), "ik", "jk", _sum, "bool", "int32"),
}


def attention(same):
    """softmax(x yᵀ) z, all of them one array."""
    x = te.placeholder((2, 96, 32), name="x")
    y = _second(x, same)
    z = x if same else te.placeholder(x.shape, name="z")
    d, j, j2, j3 = (te.reduce_axis(n, name=f"r{at}") for at, n in enumerate((32, 96, 96, 96)))
    s = te.compute((2, 96, 96), lambda h, i, j: te.sum(x[h, i, d] * y[h, j, d], axis=d), name="s")
    m = te.compute((2, 96), lambda h, i: te.max(s[h, i, j], axis=j), name="m")
    e = te.compute((2, 96, 96), lambda h, i, j: te.exp(s[h, i, j] - m[h, i]), name="e")
    t = te.compute((2, 96), lambda h, i: te.sum(e[h, i, j2], axis=j2), name="t")
    o = te.compute(
        (2, 96, 32), lambda h, i, d: te.sum(e[h, i, j3] * z[h, j3, d], axis=j3), name="o"
    )
    out = te.compute((2, 96, 32), lambda h, i, d: o[h, i, d] / t[h, i], name="out")
    return te.create_prim_func([*dict.fromkeys([x, y, z]), out])


PROGRAMS["attention"] = attention


def parts(same):
    """Products of numbers with parts, of which each is read by the same variables."""
    x = te.placeholder((96, 64, 4), name="x")
    y, k = _second(x, same), te.reduce_axis(64, name="k")
    signs = (1.0, -1.0, -1.0, -1.0)

    def value(i, j):
        terms = [x[i, k, n] * y[j, k, n] * sign for n, sign in enumerate(signs)]
        return te.sum(terms[0] + terms[1] + terms[2] + terms[3], axis=k)

    return te.create_prim_func([*dict.fromkeys([x, y]), te.compute((96, 96), value, name="out")])


PROGRAMS["parts"] = parts


def test_parts_of_numbers_are_packed_each():
    made = default_schedule(parts(False), f"{TARGETS[0]} -march=x86-64-v4")
    assert sum(step.name == "transform_layout" for step in made.trace.instructions) == 4


def _chosen(func, target):
    return choose(func, device_of(resolve(target)), None).sketch


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_reading_twice_costs_no_more(name, target):
    one, two = (_chosen(PROGRAMS[name](same), target) for same in (True, False))
    assert one.name == two.name
    for own, other in zip(one.plans, two.plans, strict=True):
        least, most = own.estimate(), other.estimate()
        assert (least is None) == (most is None)
        if least is not None and most is not None:
            assert least <= 1.1 * most, (own.refused, other.refused)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_definition(name):
    func = PROGRAMS[name](True)
    shape, dtype = func.params[0].const_shape, func.params[0].dtype
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)
    x = x / np.asarray(8, dtype) if "float" in dtype else x
    (want,) = interpret(func, x)
    out = np.empty(func.params[-1].const_shape, func.params[-1].dtype)
    build(default_schedule(func, TARGETS[1]), TARGETS[1])(x, out)
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-3)
    assert prod(out.shape) == out.size


def test_where_all_first_nests_are_refused_another_sketch_is_taken(monkeypatch):
    """A plan is estimated before it is made: what primitives refuse then is told, and is no end."""
    func = PROGRAMS["batch"](False)

    def refuse(plan, constants=()):
        raise Refusal("no such nest")

    monkeypatch.setattr(RankedPlan, "default", refuse)
    with pytest.warns(UserWarning, match="refused .no such nest.; another one is taken"):
        made = default_schedule(func)
    a, b = (np.random.rand(*p.const_shape).astype("float32") for p in func.params[:2])
    out = np.empty(func.params[2].const_shape, "float32")
    build(made)(a, b, out)
    np.testing.assert_allclose(out, np.einsum("bik,bjk->bij", a, b), rtol=1e-4)
    space = search_space(func)
    assert default_candidates(space)[0].sketch in space.sketches
    assert "impossible: values that need no tuning: no such nest" in str(space.describe())
