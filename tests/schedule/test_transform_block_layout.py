"""transform_block_layout: the same instances in loops that a map makes of the block's variables."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from schedule import Schedule
from tensorir import interpret, parse, reference, te


def product(n=6, m=8, r=4):
    a, b = te.placeholder((n, r), name="A"), te.placeholder((r, m), name="B")
    k = te.reduce_axis(r, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, m), lambda i, j: te.max(c[i, j], 0.0), name="D")
    return te.create_prim_func([a, b, d], name="product")


def test_elements_of_a_reduction_need_not_fill_the_new_loops(check):
    sch = Schedule(product())
    sch.transform_block_layout("C", "i, j, k: i // 4, j, k, i % 4")
    assert len(sch.get_loops("C")) == 4
    check(sch)


def test_golden(check, golden):
    sch = Schedule(product())
    sch.transform_block_layout("C", lambda i, j, k: (i // 2, j // 4, k, i % 2, j % 4))
    golden(str(sch.func), "product")
    assert len(sch.get_loops("C")) == 5
    assert sch.numerics == "bitwise"
    check(sch)


@pytest.mark.parametrize(
    "index_map",
    [
        "i, j: j, i",
        "i, j: i * 8 + j",
        "i, j: j * 6 + i",
        "i, j: i // 3, j // 2, i % 3, j % 2",
        "i, j: i // 4, j, i % 4",
        "i, j: i, j // 3, j % 3",
        "i, j: i * 2, j",
        "i, j: i, 0, j",
    ],
)
def test_maps(check, index_map):
    """One to one and, where some places have no instance, into."""
    sch = Schedule(product())
    sch.transform_block_layout("D", index_map)
    check(sch, compiled=False)
    for loop in sch.get_loops("D"):
        other = sch.copy()
        other.parallel(loop)
        check(other, compiled=False)


@pytest.mark.parametrize("index_map", ["i, j: i, j, i", "i, j: j, 3, j, i", "i, j: j, j, j, i"])
def test_a_variable_may_be_there_twice(check, index_map):
    sch = Schedule(product())
    sch.transform_block_layout("D", index_map)
    check(sch, compiled=False)


@pytest.mark.parametrize(
    "asks",
    [
        lambda i, j: te.any(i < 1, i >= 11),
        lambda i, j: te.all(1 <= i + j, i + j < 9),
        lambda i, j: i >= j,
        lambda i, j: te.any(j <= i - 7, 3 * i + 2 < j),
    ],
)
@pytest.mark.parametrize("part", [2, 3, 4, 6])
def test_what_conditions_ask_is_said_in_the_new_variables(check, asks, part):
    """i // 4 * 4 + i % 4 is i there as well as in indices: compilers found no padding in it."""
    a = te.placeholder((12, 12), name="A")

    def value(o, p, j):
        i = o * part + p
        return te.select(asks(i, j), a[i, j], 1.0)

    out = te.compute((12 // part, part, 12), value, name="B")
    sch = Schedule(te.create_prim_func([a, out]))
    sch.transform_block_layout("B", f"o, p, j: o * {part} + p, j")
    said = str(sch.state.block("B").body.value)
    assert "//" not in said and "%" not in said
    check(sch, compiled=False)


def test_the_order_of_a_sum(check):
    """Halves of a sum in turns: other terms follow each other."""
    sch = Schedule(product())
    sch.transform_block_layout("C", "i, j, k: i, j, k % 2, k // 2")
    assert sch.numerics == "reassociated"
    check(sch)
    sch = Schedule(product())
    sch.transform_block_layout("C", "i, j, k: k, j * 6 + i")
    assert sch.numerics == "bitwise"
    check(sch)


def test_what_follows(check):
    """The new loops are split, moved into, and computed at like others."""
    sch = Schedule(product())
    sch.transform_block_layout("D", "i, j: i * 8 + j")
    (loop,) = sch.get_loops("D")
    outer, inner = sch.split(loop, [None, 8])
    sch.compute_at("C", outer)
    sch.vectorize(inner)
    check(sch)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_symbolic_rows(n):
    rows = te.size_var("n")
    sch = Schedule(product(rows, 8, 3))
    sch.transform_block_layout("D", "i, j: j // 4, i, j % 4")
    sch.transform_block_layout("C", "i, j, k: i, k, j")
    inputs = [np.arange(s, dtype="float32").reshape(-1, c) for s, c in ((n * 3, 3), (24, 8))]
    wanted = reference(sch.definition, *inputs)[0]
    np.testing.assert_array_equal(interpret(sch.func, *inputs)[0], wanted)


SCAN = """
@prim_func
def steps(A: f32[6, 4], S: f32[7, 4]):
    for i in range(4):
        with block("S"):
            vi = spatial(4, i)
            S[0, vi] = 0.0
    for t, i_1 in grid(6, 4):
        with block("S_1"):
            vt = opaque(6, t)
            vi = spatial(4, i_1)
            S[vt + 1, vi] = S[vt, vi] + A[vt, vi]
"""


class TestRefuses:
    def test_places(self):
        sch = Schedule(product())
        other = sch.copy()
        other.split("i", [None, 2])
        alone = "is not alone in loops of its own, one for each variable"
        refused(other.transform_block_layout, "C", "i, j, k: j, i, k", match=alone)
        other = sch.copy()
        other.compute_at("C", "i_D")
        refused(other.transform_block_layout, "D", "i, j: j, i", match=alone)
        refused(other.transform_block_layout, "C", "i, j, k: j, i, k", match=alone)
        sch.parallel("i")
        refused(sch.transform_block_layout, "C", "i, j, k: j, i, k", match="loop 'i' is parallel")

    def test_steps_keep_their_order(self):
        sch = Schedule(parse(SCAN))
        words = "instances of block 'S_1' depend on each other"
        refused(sch.transform_block_layout, "S_1", "t, i: i, t", match=words)

    def test_maps(self):
        sch = Schedule(product())
        for index_map, words in {
            "i, j": "is no index map",
            "i, i: i": "are not distinct new names",
            "i, j: i +": "cannot be read",
            "i, j: i < 2, j": "is no index",
            "i: i": "has 1 parameters; 'D' has 2",
            "i, j: i - 1, j": "known to be 0 or more",
            "i, j: i + j, i // 2": "may send two elements",
            "i, j: i + 1, j": "cannot be told from the results",
        }.items():
            refused(sch.transform_block_layout, "D", index_map, match=words)

    def test_reductions(self):
        sch = Schedule(product())
        mixed = "mixes variables of the reduction with others"
        refused(sch.transform_block_layout, "C", "i, j, k: i * 4 + k, j", match=mixed)
        words = "places without a term of the reduction 'C'"
        refused(sch.transform_block_layout, "C", "i, j, k: i, j, k // 3, k % 3", match=words)
        words = "no result of the index map has a variable of the reduction 'C'"
        sch = Schedule(product(8, 12, 1))
        refused(sch.transform_block_layout, "C", "i, j, k: i, j", match=words)
        refused(sch.transform_block_layout, "C", "i, j, k: j, i, 0", match=words)
