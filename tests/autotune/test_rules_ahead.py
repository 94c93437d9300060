"""Operands that are expressions: made once, ahead of the nest, where that takes less time."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import make_space
from backends import build
from benchmarks.general.form import numbers, require_close
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
from tensorir import Cpu, Target, body_loads, reference, te, verify

CPU = Cpu(
    Target(vector_bits=512, threads=2, features=("avx512f",), l1d=32 << 10, l2=1 << 20, l3=1 << 25)
)
TERMS = {
    "k": lambda a, b, s, i, j, k: a[i, k] * b[k, j] * s[k],
    "row": lambda a, b, s, i, j, k: s[i] * (a[i, k] * b[k, j]),
    "column": lambda a, b, s, i, j, k: a[i, k] * b[k, j] * s[j],
    "shifted": lambda a, b, s, i, j, k: (a[i, k] - s[k]) * b[k, j],
    "of one operand": lambda a, b, s, i, j, k: (a[i, k] + s[k]) * (b[k, j] + 3),
}
AS_WRITTEN = {"shifted", "of one operand"}
"""Those whose operands are expressions without taking products apart."""


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("of", TERMS)
def test_defaults_make_large_operands_once(of):
    """Whatever they are called; without regrouping products where floats keep the text's."""
    for names, n in (("ABSC", 1024), ("zyxw", 1000)):
        found, sch = steps(product(of, n, n, n, names))
        assert "cache_value" in found
        assert sch.numerics == ("bitwise" if of in AS_WRITTEN else "reassociated")
    found, sch = steps(product(of, 1024, 1024, 1024), numerics="bitwise")
    assert sch.numerics == "bitwise" and ("cache_value" in found) == (of in AS_WRITTEN)


def test_not_where_it_is_hardly_used_again():
    """The matrix is used once; the row may be made ahead, and is small."""
    for of in [name for name in TERMS if name != "row"]:
        found, sch = steps(product(of, 1, 4096, 512))
        assert "cache_value" not in found or of in AS_WRITTEN | {"k"}
        assert of in AS_WRITTEN or all(prod(b.const_shape) <= 4096 for b in sch.func.buffers)
    a, b = te.placeholder((256, 256), name="A"), te.placeholder((256, 256), name="B")
    k = te.reduce_axis(256, name="k")
    c = te.compute((256, 256), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    space = make_space(te.create_prim_func([a, b, c]), CPU)
    assert not any("ahead" in name for name in space.sketches)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("of", TERMS)
def test_searches_have_it_and_it_is_right(cache, of, dtype):
    func = product(of, 24, 40, 17, dtype=dtype)
    rng = np.random.default_rng(0)
    args = [rng.integers(-2, 3, p.const_shape).astype(dtype) for p in func.inputs]
    (want,) = reference(func, *args)
    sch, move = Schedule(func), ahead if of in AS_WRITTEN else factors_ahead
    c = find_contraction(sch, "C")
    for option in move.options(c, CPU):
        made = sch.copy()
        left = move(made.copy(), c, option)
        lane = left.spatial[-1]
        parts = {o.buffer: n for n, o in enumerate(left.operands) if o.buffer not in "ABS"}
        wide = {name for name, n in parts.items() if left.operands[n].strides[lane]}
        packs = tuple(Pack(parts[name], lane, 16) for name in wide)
        nest = NestPlan(lane, 16, (4, 16), (24, 40), left.reduced, left.spatial, packs)
        make_moved_nest(made, c, MovedPlan(((move, option),), nest))
        verify(made.func)
        assert parts.keys() - set(made.get_blocks()) == wide  # which the copy computes
        np.testing.assert_array_equal(build(made, cache=cache)(*args), want)
    assert any(move.name in name for name in make_space(func, CPU).sketches)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [256, 1000])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int16"])
def test_what_is_converted_again_and_again_is_converted_once(cache, dtype, size):
    """Tiles read both operands as they are computed with, and the estimate says what that saves."""
    a, b = (te.placeholder((size, size), dtype, name=name) for name in "AB")
    wide, k = "int32" if dtype == "int16" else "float32", te.reduce_axis(size, name="k")

    def made(columns, kind=wide):
        def term(i, j):
            return a[i, k].astype(kind) * b[k, j].astype(kind)

        out = te.compute((size, columns), lambda i, j: te.sum(term(i, j), axis=k), name="C")
        return te.create_prim_func([a, b, out])

    found, sch = steps(made(size))
    assert found.count("cache_value") == 2 and sch.numerics == "bitwise"
    assert all(load.buffer.dtype == wide for load in body_loads(sch.state.block("C")))
    found, _ = steps(made(8))  # few use an element of A
    assert found.count("cache_value") <= 1
    if size == 256:
        arrays = numbers(func := made(size))
        require_close(func.outputs, [build(sch, cache=cache)(*arrays)], reference(func, *arrays))


def test_windows_stay_where_they_are():
    """Of windows each element would be made for each of them."""
    x, w = te.placeholder((4, 66), name="x"), te.placeholder((8, 4, 3), name="w")
    c, r = te.reduce_axis(4, name="c"), te.reduce_axis(3, name="r")
    y = te.compute((8, 64), lambda o, i: te.sum(te.exp(x[c, i + r]) * w[o, c, r], axis=[c, r]))
    found = find_contraction(sch := Schedule(te.create_prim_func([x, w, y])), sch.get_blocks()[0])
    assert list(ahead.options(found, CPU)) == []
