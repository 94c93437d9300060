"""Reductions written in parts, which are one: how they are computed is the schedule's."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_inputs import drawn_inputs
from refusal import refused

from autotune.rules import choose
from schedule import Schedule
from tensorir import Target, device_of, interpret, te

TARGET = Target(vector_bits=256, threads=1)


def product(parts, shape=(6, 16, 5), dtype="float32", size=4):
    """a @ b, in `parts` of the terms; of 3 these are in two dimensions, the last one turned."""
    (m, k, n), few = shape, size
    a, b = te.placeholder((m, k), dtype, name="a"), te.placeholder((k, n), dtype, name="b")
    q, o = te.reduce_axis(k if parts == 1 else few, name="q"), te.reduce_axis(k // few, name="o")
    if parts == 1:
        c = te.compute((m, n), lambda i, j: te.sum(a[i, q] * b[q, j], axis=q), name="c")
        return te.create_prim_func([a, b, c])

    def term(i, j, p):
        return te.sum(a[i, p * few + q] * b[p * few + q, j], axis=q)

    if parts == 2:
        some = te.compute((m, n, k // few), term, name="some")
        c = te.compute((m, n), lambda i, j: te.sum(some[i, j, o], axis=o), name="c")
        return te.create_prim_func([a, b, c])
    o, p = te.reduce_axis(k // few // 2, name="o"), te.reduce_axis(2, name="p")
    half = k // few // 2
    some = te.compute((2, n, half, m), lambda p, j, o, i: term(i, j, p * half + o), "some")
    more = te.compute((m, 2, n), lambda i, p, j: te.sum(some[p, j, o, i], axis=o), name="more")
    c = te.compute((m, n), lambda i, j: te.sum(more[i, p, j], axis=p), name="c")
    return te.create_prim_func([a, b, c])


def pool(whole, shape=(3, 10, 12), reduce=te.max, dtype="float32"):
    x = te.placeholder(shape, dtype, name="x")
    size = (shape[0], shape[1] // 2, shape[2] // 2)
    r, s = te.reduce_axis(2, name="r"), te.reduce_axis(2, name="s")
    if whole:
        e = lambda c, i, j: reduce(x[c, 2 * i + r, 2 * j + s], axis=[r, s])  # noqa: E731
        return te.create_prim_func([x, te.compute(size, e, name="c")])
    row = te.compute(
        (shape[0], shape[1], size[2]), lambda c, i, j: reduce(x[c, i, 2 * j + s], axis=s), "row"
    )
    c = te.compute(size, lambda c, i, j: reduce(row[c, 2 * i + r, j], axis=r), name="c")
    return te.create_prim_func([x, c])


def taps(whole, shape=(4, 9, 9)):
    x, w = te.placeholder(shape, name="x"), te.placeholder((shape[0], 3, 3), name="w")
    size = (shape[0], shape[1] - 2, shape[2] - 2)
    r, s = te.reduce_axis(3, name="r"), te.reduce_axis(3, name="s")
    if whole:
        e = lambda c, i, j: te.sum(x[c, i + r, j + s] * w[c, r, s], axis=[r, s])  # noqa: E731
        return te.create_prim_func([x, w, te.compute(size, e, name="c")])
    row = te.compute(
        (3, *size), lambda r, c, i, j: te.sum(x[c, i + r, j + s] * w[c, r, s], axis=s), name="row"
    )
    c = te.compute(size, lambda c, i, j: te.sum(row[r, c, i, j], axis=r), name="c")
    return te.create_prim_func([x, w, c])


PROGRAMS = {
    "product": (product(2), True),
    "product of integers": (product(2, dtype="int32"), False),
    "product in two dimensions of parts": (product(3), True),
    "pool": (pool(False), False),
    "pool of smallest": (pool(False, reduce=te.min, dtype="int8"), False),
    "pool of sums": (pool(False, reduce=te.sum), True),
    "taps": (taps(False), True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    """Maxima and whole sums have the same bits, other sums are added in another order."""
    func, rounds = PROGRAMS[name]
    sch = Schedule(func)
    sch.use_algorithm("c", "joined_sums" if rounds else "joined")
    assert len(sch.get_blocks()) == 1
    assert sch.numerics == ("reassociated" if rounds else "bitwise")
    given = drawn_inputs(func)
    (wanted,), (found,) = interpret(func, *given), interpret(sch.func, *given)
    np.testing.assert_allclose(found, wanted, rtol=1e-5 * rounds, atol=1e-5 * rounds)
    other = "joined" if rounds else "joined_sums"
    refused(Schedule(func).use_algorithm, "c", other, match="sum of floats")


def several(reads=1, after=False, started=0.0, op=te.sum, out=False):
    """Sums of rows of parts that are read so often, or are something else than that."""
    x = te.placeholder((5, 12), name="x")
    k, m = te.reduce_axis(4, name="k"), te.reduce_axis(3, name="m")
    s = te.compute((5, 3), lambda i, m: op(x[i, m * 4 + k], axis=k), name="some")
    rows = te.compute((5, 3), lambda i, m: te.exp(s[i, m]), name="rows") if after else s
    start = te.const(started)
    c = te.compute((5, reads), lambda i, j: te.sum(rows[i, m], axis=m, init=start), name="c")
    return te.create_prim_func([x, *([s] if out else []), c])


@pytest.mark.parametrize(
    "func, why",
    [
        (several(reads=2), "several times"),
        (several(after=True), "no parts of a reduction"),
        (several(out=True), "no parts of a reduction"),
        (several(op=te.max), "is no sum of floats"),
        (several(started=1.0), "starts from"),
        (product(1), "no parts of a reduction"),
    ],
)
def test_others_are_refused(func, why):
    refused(Schedule(func).use_algorithm, "c", "joined_sums", match=why)


FORMS = {
    "product": (product(2, (64, 256, 96), size=16), product(1, (64, 256, 96))),
    "product in two dimensions": (product(3, (64, 256, 96), size=16), product(1, (64, 256, 96))),
    "pool": (pool(False, (32, 56, 56)), pool(True, (32, 56, 56))),
    "taps": (taps(False, (32, 30, 30)), taps(True, (32, 30, 30))),
}


@pytest.mark.parametrize("name", FORMS)
def test_parts_take_no_longer_than_the_whole(name):
    """They took up to 2.7 times as long: whole parts were stored and read again. An algorithm has
    to win by a tenth."""

    def cycles(func):
        sketch = choose(func, device_of(TARGET), None, ()).sketch
        return sum(plan.estimate() for plan in sketch.plans)

    parts, whole = FORMS[name]
    assert cycles(parts) <= 1.1 * cycles(whole)
