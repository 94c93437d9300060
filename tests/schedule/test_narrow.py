"""narrow: of an intermediate what is read is computed, and what that needs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from refusal import refused

from schedule import Schedule, share_read
from tensorir import interpret, ops, parse, te


def every_second(n=16):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: te.exp(a[i]), name="B")
    c = te.compute((6,), lambda i: b[i * 2 + 3] * 2.0, name="C")
    return te.create_prim_func([a, c], name="every_second")


def running_sums():
    x, state = te.placeholder((5, 4), name="x"), te.state((5, 4), name="S")
    first = te.compute((1, 4), lambda t, i: x[0, i])
    step = te.compute((5, 4), lambda t, i: state[t - 1, i] + x[t, i])
    sums = te.scan(first, step, state, inputs=[x])
    last = te.compute((4,), lambda i: sums[4, i], name="last")
    return te.create_prim_func([x, last], name="running_sums")


def convolved():
    """The crop of a padded convolution, and what it needs of the program before it."""
    x, w = te.placeholder((1, 2, 9, 9), name="x"), te.placeholder((3, 2, 3, 3), name="w")
    y = ops.relu(ops.conv2d(ops.exp(x), w, padding=1))
    return te.create_prim_func([x, w, ops.slice(y, (2, 3), (6, 9), axes=(2, 3))], name="convolved")


def test_golden(check, golden):
    sch = Schedule(every_second())
    sch.narrow("B")
    golden(str(sch.func), "narrow")
    assert sch.numerics == "bitwise"
    check(sch)
    refused(sch.narrow, "B", match="all elements of 'B' are read")


def test_what_is_before_is_narrowed_after(check):
    """Padding that no element needs is a copy then."""
    sch = Schedule(convolved())
    for name in ("relu", "conv2d", "pad", "exp"):
        sch.narrow(name)
    sizes = {buffer.name: buffer.const_shape for buffer in sch.func.buffers}
    assert sizes == {
        "relu": (1, 3, 4, 6), "conv2d": (1, 3, 4, 6), "pad": (1, 2, 6, 8), "exp": (1, 2, 6, 7)
    }  # fmt: skip
    check(sch)
    above = Schedule(parse(str(sch.func)))
    above.compute_inline("pad")
    assert "1 <=" not in str(above.func) and "<= vh" not in str(above.func)


@pytest.mark.parametrize("row", [0, 3])
def test_one_element_of_a_dimension_is_at_a_variable(check, row):
    """Else the stage is none that stores at its variables: it could not be computed in others."""
    a, k = te.placeholder((5, 8, 6), name="A"), te.reduce_axis(6, name="k")
    sums = te.compute((5, 8), lambda i, j: te.sum(a[i, j, k], axis=k), name="sums")
    last = te.compute((8,), lambda j: sums[row, j] * 2.0, name="last")
    sch = Schedule(te.create_prim_func([a, last], name="one_row"))
    sch.narrow("sums")
    block = sch.state.block("sums")
    assert block.body.indices == block.init.indices == tuple(it.var for it in block.spatial)
    sch.compute_at("sums", "j_last")
    check(sch)


def reads(rng: random.Random, n: int, m: int):
    """A stage of which others read some: steps and turns, overlapping or not, windows and rows
    that memory tells; behind conditions too."""
    a, t = te.placeholder((n, m), name="A"), te.placeholder((4,), "int32", name="t")
    k = te.reduce_axis((0, 3), name="k")
    values = [
        lambda i, j: a[i, j] * 2.0 + i,
        lambda i, j: te.sum(a[i, j] * k, axis=k),
        lambda i, j: te.if_then_else(i > 2, a[i - 2, j], 1.0),
    ]
    made = te.compute((n, m), rng.choice(values), name="B")
    outs = []
    for number in range(rng.choice([1, 2, 3])):
        step, first = rng.choice([1, 2, 3]), rng.randrange(4)
        rows = rng.randrange(1, (n - 1 - first) // step + 2)
        r = te.reduce_axis((0, rng.randrange(1, 4)), name=f"r{number}")
        columns = [
            lambda j: m - 1 - j * 3,
            lambda j: j // 2,
            lambda j: j * 3 % m,
            lambda j: te.clip(t[j], 0, m - 1),
        ]
        value = reader(made, n, (rows, step, first), rng.choice([0, 1]), rng.choice(columns), r)
        outs.append(te.compute((rows, 2), value, name=f"C{number}"))
    return te.create_prim_func([a, t, *outs], name="reads")


def reader(made, n, part, turned, column, r):
    rows, step, first = part

    def value(i, j):
        row = step * (rows - 1 - i if turned else i) + first + r
        return te.sum(te.if_then_else(row < n, made[row, column(j)], 0.5), axis=r)

    return value


@pytest.mark.parametrize("seed", range(40))
def test_any_reads(seed):
    rng = random.Random(seed)
    n, m = rng.choice([7, 12, 13]), rng.choice([8, 11])
    sch = Schedule(reads(rng, n, m))
    places = np.array([0, m - 1, 2, 1], np.int32)
    given = np.random.default_rng(seed).standard_normal((n, m)).astype(np.float32)
    expected = interpret(sch.func, given, places)
    if share_read(sch.state, sch.func.buffers[0]) < 1:
        sch.narrow("B")
    else:
        refused(sch.narrow, "B", match="all elements of 'B' are read")
    for found, known in zip(interpret(sch.func, given, places), expected):
        np.testing.assert_array_equal(found, known)


def test_most_of_these_leave_something_out():
    rngs = map(random.Random, range(40))
    states = [Schedule(reads(rng, rng.choice([7, 12, 13]), rng.choice([8, 11]))) for rng in rngs]
    assert sum(share_read(s.state, s.func.buffers[0]) < 0.9 for s in states) > 20


class TestRefuses:
    def test_what_is_stored(self, matmul):
        refused(Schedule(matmul()).narrow, "C", match="'C' is a result of the function")
        turned = str(every_second()).replace("B[vi] =", "B[15 - vi] =")
        words = "does not store one value to distinct variables of its own"
        refused(Schedule(parse(turned)).narrow, "B", match=words)
        refused(Schedule(running_sums()).narrow, "C", match="is also written by block 'C_1'")

    def test_where_it_is(self):
        sch = Schedule(every_second())
        sch.split("i", [None, 4])
        refused(sch.narrow, "B", match="is not alone in loops of its own, one for each variable")
        sch = Schedule(every_second())
        sch.parallel("i")
        refused(sch.narrow, "B", match="loop 'i' is parallel")
        sch = Schedule(every_second())
        sch.compute_at("B", "i_C")
        refused(sch.narrow, "B", match="is not alone in loops of its own")

    def test_instances(self):
        text = str(every_second())
        some = text.replace("B[vi] =", "where(i < 15)\n            B[vi] =")
        refused(Schedule(parse(some)).narrow, "B", match="runs only where i < 15")
        sch = Schedule(running_sums())
        refused(sch.narrow, "C_1", match="instances of block 'C_1' depend on each other")

    def test_readers(self):
        text = str(every_second())
        marked = text.replace("C[vi] =", 'annotate({"x": 1})\n            C[vi] =')
        refused(Schedule(parse(marked)).narrow, "B", match="'C', which uses 'B', is annotated")
        asked = text.replace("C[vi] =", "where(B[0] < 1.0)\n            C[vi] =")
        refused(Schedule(parse(asked)).narrow, "B", match="a loop or condition depends on 'B'")
        sch = Schedule(convolved())
        sch.storage_align("relu", "relu", 1, 8)
        refused(sch.narrow, "relu", match="'relu' is marked align")

    def test_sizes(self):
        n = te.size_var("n")
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: te.exp(a[i]), name="B")
        c = te.compute((n - 1,), lambda i: b[i] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="sized"))
        refused(sch.narrow, "B", match="the sizes of 'B' are no numbers")
