"""Accepted chains of splits and fuses are programs that the verifier believes."""

from __future__ import annotations

import random

import pytest
from refusal import refused

from schedule import Schedule, ScheduleError
from tensorir import parse, prove, te, verify


def doubled(*shape):
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a[i] * 2.0, name="B")
    return te.create_prim_func([a, b], name="doubled")


def row_sums(n, *shape):
    a = te.placeholder((n, *shape), name="A")
    axes = [te.reduce_axis(size, name=f"k{p}") for p, size in enumerate(shape)]
    b = te.compute((n,), lambda i: te.sum(a[(i, *axes)], axis=axes), name="B")
    return te.create_prim_func([a, b], name="row_sums")


def ask(sch, rng):
    loops = sch.get_loops("B")
    if rng.choice(["split", "fuse"]) == "split":
        factors = [[None, 2], [None, 3], [None, 5], [None, 7], [None, 2, 2], [2, None], [3, None]]
        sch.split(rng.choice(loops), rng.choice(factors))
    else:
        first = rng.randrange(len(loops))
        sch.fuse(*loops[first : first + rng.choice([2, 2, 3])])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(60))
def test_random_chains(seed, check):
    rng = random.Random(seed)
    shape = [rng.choice([0, 1, 2, 2, 3, 5, 8]) for _ in range(3)]
    sch = Schedule(rng.choice([doubled, row_sums])(*shape))
    for _ in range(10):
        try:
            ask(sch, rng)
        except ScheduleError:
            continue
        verify(sch.func)
        assert str(parse(str(sch.func))) == str(sch.func)
    check(sch, compiled=seed % 10 == 0)


def gathered():
    a = te.placeholder((7, 2), name="A")
    at = te.placeholder((3,), "int32", name="at")
    b = te.compute((3, 2), lambda i, j: a[te.clip(at[i], 0, 6).astype("int64"), j], name="B")
    return te.create_prim_func([a, at, b], name="gathered")


def test_places_that_are_read_from_memory(check):
    """A copy of A[at[i]] would read at[3] where the outer loop goes further than its block."""
    sch = Schedule(gathered())
    copy = sch.cache_read("B", "A", "local")
    outer, _ = sch.split("i", [4, None])
    refused(sch.compute_at, copy, outer, match="it cannot be proved that")
    sch.undo()
    sch.compute_at(copy, "i")
    check(sch)


def test_quotients_of_two_loops(check):
    """i * 2 + f // 2 < 1 was not seen to leave f below 2."""
    sch = Schedule(doubled(2, 2, 1))
    sch.split("i1", [None, 5])
    sch.split("i1_1", [None, 2, 2])
    sch.fuse("i1_1_1", "i1_1_2")
    check(sch)


@pytest.mark.parametrize("n", [12, 8])
def test_digits_of_one_loop(check, n):
    """f // 2 % 7 < 2 leaves f % 14 below 4, which no rule says."""
    sch = Schedule(doubled(n))
    for loop, factors in (("i0", [None, 2, 2]), ("i0_1", [None, 7])):
        sch.split(loop, factors)
    sch.fuse("i0_1_1", "i0_2")
    sch.fuse("i0_0", "i0_1_0")
    sch.fuse(*sch.get_loops("B"))
    check(sch)


def test_too_many_values_to_try():
    """The same with more iterations than are tried: refused where it stops being provable."""
    sch = Schedule(doubled(12 << 20))
    for loop, factors in (("i0", [None, 2, 2]), ("i0_1", [None, 7])):
        sch.split(loop, factors)
    sch.fuse("i0_1_1", "i0_2")
    sch.fuse("i0_0", "i0_1_0")
    refused(sch.fuse, *sch.get_loops("B"), match="cannot be proved that block 'B' binds 'vi0'")
    verify(sch.func)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_loops_without_iterations_conflict_with_nothing(size):
    """Rows that `compute_at` moved into a loop over 0 // factor threads wrote one place in each."""
    a = te.placeholder((size,), name="A")
    factor, columns = te.var("factor"), te.var("columns")
    k = te.reduce_axis(factor, name="k")
    rows = te.compute((size // factor,), lambda i: te.sum(a[i * factor + k], axis=k), name="S")
    spread = te.compute((size // factor, columns), lambda i, j: rows[i] + j, name="C")
    sch = Schedule(te.create_prim_func([a, factor, spread, columns]))
    i, j = sch.get_loops("C")
    sch.parallel(i)
    sch.compute_at("S", j)
    prove(sch.func)


def test_indices_that_fall_with_the_loop_tell_it():
    """Rows in turned order: which lane an element belongs to was not found behind a split."""
    a = te.placeholder((6, 2), name="A")
    c = te.compute((6, 2), lambda i, j: a[i, j] * 2.0, name="C")
    e = te.compute((6, 2), lambda i, j: c[5 - i, j] + 1.0, name="E")
    sch = Schedule(te.create_prim_func([a, e]))
    i, j = sch.get_loops("E")
    sch.compute_at("C", i)
    sch.split(j, [2, 2])
    sch.vectorize(i)
    prove(sch.func)
