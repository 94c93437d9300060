"""fission: bodies that keep to their iterations get loops of their own."""

from __future__ import annotations

import pytest
from refusal import refused

from schedule import Schedule
from tensorir import parse, te


def chain(n=6, m=5):
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((n, m), lambda i, j: c[i, m - 1 - j] - b[i, 0], name="D")
    return te.create_prim_func([a, d], name="chain")


def together(func=None):
    """All three stages of a row in one iteration."""
    sch = Schedule(func or chain())
    sch.compute_at("C", "i_D")
    sch.compute_at("B", "i_D")
    return sch


def test_each_statement(check, golden):
    sch = together()
    assert sch.fission("i_D") == ("i_D_0", "i_D_1", "i_D_2")
    golden(str(sch.func), "fission")
    check(sch)
    for loop in ("i_D_0", "i_D_1", "i_D_2"):
        sch.parallel(loop)
    check(sch)


@pytest.mark.parametrize("after", ["B", "C"])
def test_after_a_block(check, after):
    sch = together()
    first, last = sch.fission("i_D", after=after)
    assert sch.get_child_blocks(first)[-1] == after
    assert len(sch.get_child_blocks(first)) + len(sch.get_child_blocks(last)) == 3
    check(sch)


def test_it_is_undone_by_merge(check):
    sch = together()
    before = [sch.get_child_blocks("i_D")]
    merged = sch.merge(*sch.fission("i_D"))
    assert [sch.get_child_blocks(merged)] == before
    check(sch)


def test_loops_around_and_inside(check):
    """The parts of a split loop, one after the other; one of them in a loop that stays."""
    sch = together()
    outer, inner = sch.split("i_D", [None, 4])
    sch.fission(inner)
    check(sch)
    sch.fission(outer)
    check(sch)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_symbolic(n):
    import numpy as np

    from tensorir import interpret, reference

    size = te.size_var("n")
    sch = together(chain(size, 5))
    sch.fission("i_D", "B")
    a = np.arange(n * 5, dtype="float32").reshape(n, 5)
    np.testing.assert_array_equal(interpret(sch.func, a)[0], reference(sch.definition, a)[0])


def test_two_sums_of_one_loop(check):
    """Each goes on alone, its init with it."""
    a = te.placeholder((4, 9), name="A")
    k, q = te.reduce_axis(9, name="k"), te.reduce_axis(9, name="q")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((4,), lambda i: te.max(a[i, q], axis=q), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="sums"))
    loop = sch.merge("i", "i_C")
    both = sch.merge("k", "q")
    check(sch)
    sch.fission(both)
    sch.fission(loop)
    check(sch)


RECURRENT = """
@prim_func
def recurrent(A: f32[6], B: f32[6], C: f32[6]):
    S = alloc(f32[7])
    with block("S"):
        v = spatial(1, 0)
        S[v] = 0.0
    for t in range(6):
        with block("B"):
            vt = opaque(6, t)
            B[vt] = S[vt] + A[vt]
        with block("S_1"):
            vt = opaque(6, t)
            S[vt + 1] = B[vt] * 0.5
    for i in range(6):
        with block("C"):
            vi = spatial(6, i)
            C[vi] = S[vi + 1]
"""


class TestRefuses:
    def test_what_goes_from_one_iteration_to_the_next(self):
        sch = Schedule(parse(RECURRENT))
        words = "block 'S_1' may touch elements of 'S' in an iteration of loop 't' that block 'B'"
        refused(sch.fission, "t", match=words)

    def test_a_sum_that_is_read_before_it_is_complete(self):
        a = te.placeholder((4, 9), name="A")
        k = te.reduce_axis(9, name="k")
        b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
        c = te.compute((4, 9), lambda i, j: b[i] + a[i, j], name="C")
        sch = Schedule(te.create_prim_func([a, c], name="rows"))
        sch.compute_at("B", "j")
        refused(sch.fission, "j", match="touches in a later one")

    def test_overlapping_parts(self):
        a = te.placeholder((10,), name="A")
        b = te.compute((10,), lambda i: a[i] * 2.0, name="B")
        c = te.compute((8,), lambda i: b[i] + b[i + 2], name="C")
        sch = Schedule(te.create_prim_func([a, c], name="window"))
        sch.compute_at("B", "i_C")
        refused(sch.fission, "i_C", match="elements of 'B' in an iteration of loop 'i_C'")

    def test_names_and_kinds(self):
        sch = together()
        refused(sch.fission, "j_D", match="one statement only inside of loop 'j_D'")
        refused(sch.fission, "i_D", "D", match="nothing follows the statement of block 'D'")
        refused(sch.fission, "i_D", "E", match="no block 'E'")
        other = Schedule(chain())
        other.compute_at("C", "i_D")
        refused(other.fission, "i_D", "B", match="block 'B' is not inside of loop 'i_D'")
        sch.parallel("i_D")
        refused(sch.fission, "i_D", match="loop 'i_D' is parallel")
