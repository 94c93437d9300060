"""Operands that are expressions: made once, ahead of the nest, where that takes less time."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import make_space
from backends import build
from schedule import Schedule
from schedule.library import (
    MovedPlan,
    NestPlan,
    Pack,
    ahead,
    factors_ahead,
    find_contraction,
    make_moved_nest,
)
from tensorir import Cpu, Target, reference, te, verify

CPU = Cpu(
    Target(vector_bits=512, threads=2, features=("avx512f",), l1d=32 << 10, l2=1 << 20, l3=1 << 25)
)
TERMS = {
    "k": lambda a, b, s, i, j, k: a[i, k] * b[k, j] * s[k],
    "row": lambda a, b, s, i, j, k: s[i] * (a[i, k] * b[k, j]),
    "column": lambda a, b, s, i, j, k: a[i, k] * b[k, j] * s[j],
    "shifted": lambda a, b, s, i, j, k: (a[i, k] - s[k]) * b[k, j],
}


def product(of, m, n, k, names="ABSC", dtype="float32"):
    a, b = (
        te.placeholder((m, k), dtype, name=names[0]),
        te.placeholder((k, n), dtype, name=names[1]),
    )
    s = te.placeholder(({"row": m, "column": n}.get(of, k),), dtype, name=names[2])
    r = te.reduce_axis(k, name="r")
    c = te.compute((m, n), lambda i, j: te.sum(TERMS[of](a, b, s, i, j, r), axis=r), name=names[3])
    return te.create_prim_func([a, b, s, c], name="product")


def steps(func, **options):
    sch = default_schedule(func, CPU.target, **options)
    return [step.name for step in sch.trace.instructions], sch


@pytest.mark.parametrize("of", TERMS)
def test_defaults_make_large_operands_once(of):
    """Whatever they are called; without regrouping products where floats keep the text's."""
    for names, n in (("ABSC", 1024), ("zyxw", 1000)):
        found, sch = steps(product(of, n, n, n, names))
        assert "cache_value" in found
        assert sch.numerics == ("bitwise" if of == "shifted" else "reassociated")
    found, sch = steps(product(of, 1024, 1024, 1024), numerics="bitwise")
    assert sch.numerics == "bitwise" and ("cache_value" in found) == (of == "shifted")


def test_not_where_it_is_hardly_used_again():
    for of in TERMS:
        found, _ = steps(product(of, 1, 4096, 512)) if of != "row" else ([], None)
        assert "cache_value" not in found or of == "shifted"
    a, b = te.placeholder((256, 256), name="A"), te.placeholder((256, 256), name="B")
    k = te.reduce_axis(256, name="k")
    c = te.compute((256, 256), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    space = make_space(te.create_prim_func([a, b, c]), CPU)
    assert not any("ahead" in name for name in space.sketches)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("of", TERMS)
def test_searches_have_it_and_it_is_right(cache, of, dtype):
    func = product(of, 24, 40, 17, dtype=dtype)
    rng = np.random.default_rng(0)
    args = [rng.integers(-2, 3, p.const_shape).astype(dtype) for p in func.inputs]
    (want,) = reference(func, *args)
    sch, move = Schedule(func), ahead if of == "shifted" else factors_ahead
    c = find_contraction(sch, "C")
    for option in move.options(c, CPU):
        made = sch.copy()
        left = move(made.copy(), c, option)
        part = next(n for n, o in enumerate(left.operands) if o.buffer == "C_part")
        lane = left.spatial[-1]
        packs = (Pack(part, lane, 16),) if left.operands[part].strides[lane] else ()
        nest = NestPlan(lane, 16, (4, 16), (24, 40), left.reduced, left.spatial, packs)
        make_moved_nest(made, c, MovedPlan(((move, option),), nest))
        verify(made.func)
        assert ("C_part" in made.get_blocks()) == (not packs)  # the copy computes it
        np.testing.assert_array_equal(build(made, cache=cache)(*args), want)
    assert any(move.name in name for name in make_space(func, CPU).sketches)


def test_windows_and_conversions_stay_where_they_are():
    """Of windows each element would be made for each of them."""
    x, w = te.placeholder((4, 66), name="x"), te.placeholder((8, 4, 3), name="w")
    c, r = te.reduce_axis(4, name="c"), te.reduce_axis(3, name="r")
    y = te.compute((8, 64), lambda o, i: te.sum(te.exp(x[c, i + r]) * w[o, c, r], axis=[c, r]))
    found = find_contraction(sch := Schedule(te.create_prim_func([x, w, y])), sch.get_blocks()[0])
    assert list(ahead.options(found, CPU)) == []
    a, b = te.placeholder((64, 64), "int8", name="A"), te.placeholder((64, 64), "int8", name="B")
    k = te.reduce_axis(64, name="k")

    def term(i, j):
        return a[i, k].astype("int32") * b[k, j].astype("int32")

    z = te.compute((64, 64), lambda i, j: te.sum(term(i, j), axis=k), name="z")
    found = find_contraction(Schedule(te.create_prim_func([a, b, z])), "z")
    assert list(ahead.options(found, CPU)) == list(factors_ahead.options(found, CPU)) == []
