"""transform_layout by index maps with an exclusive or: what is one to one, inverses, conflicts."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule
from tensorir import Target, interpret, lower, parse, te

MAPS = [
    "i, j: i, j ^ i % 8",
    "i, j: i, (j // 4 ^ i % 2) * 4 + j % 4",
    "i, j: j ^ i % 4, i",
    "i, j: j // 8, i, j % 8 ^ i % 8",
    "i, j: i * 24 + j ^ i % 8",
    "i, j: i, j ^ i % 8 ^ 5",
    "i, j: i, j ^ (i // 2 % 4 ^ i % 2)",
]


def turn(n=11, m=24):
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: b[j, i] * 2.0, name="C")
    return te.create_prim_func([a, c], name="turn")


def on_gpu(func, x):
    low = lower(func, Target.parse("cuda"))
    return interpret(low, x.ravel(), races=True)[0]


@pytest.mark.parametrize("text", MAPS)
def test_same_values(text, check):
    sch = Schedule(turn())
    sch.transform_layout("C", "B", text)
    assert "^" in str(sch.func)
    check(sch)
    x = np.arange(11 * 24, dtype="float32").reshape(11, 24)
    np.testing.assert_array_equal(on_gpu(sch.func, x), ((x.T + 1) * 2).ravel())


@pytest.mark.parametrize("text", MAPS[:4])
def test_the_writer_speaks_of_the_new_places(text):
    """So compute_at moves it as any other block."""
    sch = Schedule(turn())
    sch.transform_layout("C", "B", text)
    (store,) = [line for line in str(sch.func).splitlines() if " B[" in line and "= A[" in line]
    assert "^" not in store.split("=")[0] and "^" in store.split("=")[1]


def test_a_lambda_and_its_inverse_twice(check):
    """What is XORed twice is where it was."""
    sch = Schedule(turn())
    before = str(sch.func)
    sch.transform_layout("C", "B", lambda i, j: (i, j ^ (i % 8)))
    assert str(sch.func) != before
    sch.transform_layout("C", "B", lambda i, j: (i, j ^ (i % 8)))
    assert "^" not in str(lower(sch.func, Target("c", "haswell")))
    check(sch)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("i, j: i, j ^ j % 4", "may send two elements of 'B', of different 'j'"),
        ("i, j: i ^ j % 4, j ^ i % 4", "may send two elements of 'B'"),
        ("i, j: i ^ j", "may send two elements of 'B'"),
        ("i, j: i, j ^ i * 3", r"the new shape \[11, 32\] has places that no element"),
        ("i, j: i ^ j % 4, j", r"the new shape \[12, 24\] has places that no element"),
        ("i, j: i, j ^ -1", "is not known to be 0 or more and bounded"),
    ],
)
def test_refused(text, match):
    sch = Schedule(turn())
    before = str(sch.func)
    refused(sch.transform_layout, "C", "B", text, match=match)
    assert str(sch.func) == before


def test_padded(check):
    sch = Schedule(turn(5, 12))
    sch.transform_layout("C", "B", "i, j: i, j ^ i % 8", pad_value=0)
    assert "f32[5, 16]" in str(sch.func)
    check(sch)


def test_symbolic_rows():
    n = te.var("n")
    a = te.placeholder((n, 16), name="A")
    b = te.compute((n, 16), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((16, n), lambda i, j: b[j, i] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, c], name="rows"))
    sch.transform_layout("B", "B", "i, j: i, j ^ i % 8")
    kernel = build(sch)
    for size in (0, 1, 7, 19):
        x = np.arange(size * 16, dtype="float32").reshape(size, 16)
        np.testing.assert_array_equal(kernel(x), (x.T + 1) * 2)


@pytest.mark.parametrize("vector", ["B", "C"])
@pytest.mark.parametrize("text", MAPS[:3])
def test_vectors_on_processors(text, vector, check):
    """Lanes that an exclusive or moves, and lanes that it leaves side by side."""
    sch = Schedule(turn(8, 32))
    sch.compute_at("B", sch.split(sch.get_loops("C")[0], [None, 8])[0])
    sch.transform_layout("C", "B", text)
    sch.vectorize(sch.split(sch.get_loops(vector)[-1], [None, 4])[-1])
    check(sch)


def test_loops_carry_no_dependence(check):
    """Places tell iterations apart through an exclusive or, whichever operand they are in."""
    sch = Schedule(turn(16, 16))
    sch.transform_layout("C", "B", "i, j: i ^ j, j")
    for loop in sch.get_loops("B"):
        sch.copy().parallel(loop)
    sch.vectorize(sch.get_loops("B")[1])
    sch.parallel(sch.get_loops("B")[0])
    check(sch)


def tile(change=None, n=37, m=41):
    """A transpose by tiles of 32 x 32 in shared memory, columns read by neighbours of a warp."""
    a = te.placeholder((n, m), name="A")
    c = te.compute((m, n), lambda i, j: a[j, i], name="C")
    sch = Schedule(te.create_prim_func([a, c], name="turn"))
    copy = sch.cache_read("C", "A", "shared")
    if change is not None:
        change(sch, copy)
    (i, j) = sch.get_loops("C")
    (i0, i1), (j0, j1) = sch.split(i, [None, 32]), sch.split(j, [None, 32])
    sch.reorder(i0, j0, i1, j1)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.compute_at(copy, j0)
    sch.bind(sch.split(i1, [None, 4])[1], "threadIdx.y")
    sch.bind(j1, "threadIdx.x")
    sch.cooperative_fetch(copy)
    return sch


def conflicts(sch, n=37, m=41):
    kernel = build(sch, "cuda-emulator -check=counts,races")
    x = np.arange(n * m, dtype="float32").reshape(n, m)
    np.testing.assert_array_equal(kernel(x), x.T)
    return sum(c.conflicts for c in kernel.findings.counts if c.space == "shared")


TEXT = "i, j: i, j ^ i % 32"


def test_conflicts_vanish_as_with_a_swizzle():
    by_map = tile(lambda sch, copy: sch.transform_layout(copy, copy, TEXT, pad_value=0))
    by_memory = tile(lambda sch, copy: sch.swizzle(copy, copy, bits=5, base=0, shift=5))
    assert conflicts(by_map) == conflicts(by_memory) == 0 < conflicts(tile())
    for sch in (by_map, by_memory):
        low = str(lower(sch.func, Target.parse("cuda")))
        assert low.count("sync") == 1 and "i64" not in low
        assert str(parse(str(sch.func))) == str(sch.func)
