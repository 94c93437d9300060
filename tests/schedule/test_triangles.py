"""Loops whose extents depend on outer loops, in every primitive, in te, and in the tuner."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from autotune import default_schedule, tune
from backends import build
from schedule import Schedule
from tensorir import VerifyError, interpret, lower, parse, reference, te, verify
from tensorir.targets.target import Target
from tests.brief import BRIEF
from tests.schedule.refusal import refused

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
import checks  # noqa: E402
import triangles  # noqa: E402
import workloads  # noqa: E402
from random_schedules import Stress  # noqa: E402

PRODUCT = """
@prim_func
def product(A: f32[9, 9], B: f32[9, 5], C: f32[9, 5]):
    for i in range(9):
        for j in range(5):
            for k in range({extent}):
                with block("C"):
                    vi = spatial(9, i)
                    vj = spatial(5, j)
                    vk = reduce(9, k)
                    with init():
                        C[vi, vj] = 2.0
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

RNG = np.random.default_rng(0)
A, B = (RNG.integers(-3, 4, s).astype("float32") for s in ((9, 9), (9, 5)))
EXTENTS = {
    "i": np.tril(np.ones((9, 9)), -1),
    "i + 1": np.tril(np.ones((9, 9))),
    "9 - i": np.fliplr(np.triu(np.ones((9, 9)))),
    "min(i, 1)": np.tril(np.ones((9, 9)), -1) * (np.arange(9) < 1),
    "i // 3": (np.arange(9)[None] < np.arange(9)[:, None] // 3).astype(float),
}
STEPS = [
    [],
    [("fuse", "i", "j")],
    [("reorder", "k", "i")],
    [("reorder", "k", "j", "i")],
    [("split", "i", [None, 4])],
    [("split", "k", [None, 4]), ("reorder", "k_0", "i")],
    [("partition", "i", [4, None])],
    [("split", "k", [None, 4]), ("rfactor", "C", "k_1")],
    [("parallel", "i"), ("vectorize", "j")],
    [("vectorize", "i")],
    [("decompose_reduction", "C", "k"), ("blockize", "k")],
    [("decompose_reduction", "C", "i"), ("partition", "k", [2, None])],
    [("cache_write", "C", 0, "local"), ("reverse_compute_at", "C_local", "i")],
    [("cache_read", "C", "A", "local"), ("compute_at", "A_local", "k")],
    [("reindex", "C", "A"), ("add_unit_loop", "C")],
    [("transform_block_layout", "C", "i, j, k: j, i, k")],
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("steps", STEPS, ids=str)
@pytest.mark.parametrize("extent", EXTENTS)
def test_primitives_keep_the_meaning(extent, steps):
    func = parse(PRODUCT.format(extent=extent))
    want = (2 + (A * EXTENTS[extent]) @ B).astype("float32")
    np.testing.assert_array_equal(interpret(func, A, B)[0], want)
    sch = Schedule(func)
    for name, *args in steps:
        getattr(sch, name)(*args)
    verify(sch.func)
    assert str(parse(str(sch.func))) == str(sch.func)
    np.testing.assert_array_equal(interpret(sch.func, A, B, races=True)[0], want)
    flat = interpret(lower(sch.func, Target(vector_bits=256)), A.ravel(), B.ravel())[0]
    np.testing.assert_array_equal(flat.reshape(9, 5), want)
    assert sch.numerics == ("reassociated" if "rfactor" in str(steps) else "bitwise")


@pytest.mark.parametrize("extent", EXTENTS)
def test_kernels_and_default_schedules(extent):
    func = parse(PRODUCT.format(extent=extent))
    want = (2 + (A * EXTENTS[extent]) @ B).astype("float32")
    for made in (func, Schedule(func), default_schedule(func)):
        np.testing.assert_array_equal(build(made)(A, B), want)


def test_loops_end_where_their_terms_do():
    sch = Schedule(parse(PRODUCT.format(extent="i + 1")))
    assert "for k in range(i + 1):" in str(lower(sch.func, Target(vector_bits=256)))


def by_axis(extent, reduce=te.sum, n=9):
    a = te.placeholder((n, n), name="A")

    def element(i):
        k = te.reduce_axis(extent(i), name="k")
        return reduce(a[i, k], axis=k)

    return te.create_prim_func([a, te.compute((n,), element, name="C")], name="by_axis")


RANGES = {
    "up to i": (lambda i: i, lambda i: (0, i)),
    "with i": (lambda i: i + 1, lambda i: (0, i + 1)),
    "from i": (lambda i: (i, 9), lambda i: (i, 9)),
    "band": (lambda i: (te.max(i - 2, 0), te.min(i + 3, 9)), lambda i: (max(i - 2, 0), i + 3)),
    "constant": (lambda i: (2, 8), lambda i: (2, 8)),
    "fewer than none": (lambda i: 3 - i, lambda i: (0, max(3 - i, 0))),
}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_axes_that_depend_on_axes(name, symbolic):
    given, ends = RANGES[name]
    func = (
        by_axis(given)
        if not symbolic or name in ("from i", "band", "constant", "fewer than none")
        else by_axis(given, n=te.var("n"))
    )
    want = np.array([A[i, slice(*ends(i))].sum() for i in range(9)], "float32")
    verify(func)
    np.testing.assert_array_equal(interpret(func, A)[0], want)
    np.testing.assert_array_equal(reference(func, A)[0], want)
    np.testing.assert_array_equal(build(func)(A), want)
    np.testing.assert_array_equal(build(default_schedule(func))(A), want)


def test_positions_count_from_the_start_of_a_range():
    func = by_axis(lambda i: (i, 9), te.argmax)
    want = [i + A[i, i:].argmax() for i in range(9)]
    for found in (interpret(func, A)[0], reference(func, A)[0], build(func)(A)):
        np.testing.assert_array_equal(found, want)


def test_rows_of_compressed_storage():
    p, d = te.placeholder((10,), "int64", name="P"), te.placeholder((20,), name="D")

    def row(i):
        k = te.reduce_axis(te.min(p[i + 1] - p[i], 20), name="k")
        return te.sum(d[te.clip(p[i] + k, 0, 19)], axis=k)

    func = te.create_prim_func([p, d, te.compute((9,), row, name="C")])
    starts = np.array([0, 2, 2, 5, 9, 9, 12, 13, 20, 20], "int64")
    data = RNG.integers(-3, 4, 20).astype("float32")
    want = [data[a:b].sum() for a, b in zip(starts, starts[1:])]
    for found in (
        interpret(func, starts, data)[0],
        reference(func, starts, data)[0],
        build(func)(starts, data),
        build(default_schedule(func))(starts, data),
    ):
        np.testing.assert_array_equal(found, want)


def test_forward_substitution_by_a_scan():
    work = workloads.Workload(
        triangles.solved(workloads.Draw(lambda options: 5 if 5 in options else options[0])), {}
    )
    low, b = checks.inputs_of(work, 0)
    x = np.zeros_like(b)
    for t in range(len(b)):
        x[t] = b[t] - low[t, :t] @ x[:t]
    np.testing.assert_array_equal(interpret(work.func, low, b)[0], x)
    np.testing.assert_array_equal(build(default_schedule(work.func))(low, b), x)


def test_a_triangular_product_is_tuned(tmp_path):
    func = parse(PRODUCT.format(extent="i + 1"))
    result = tune(func, trials=2, database=str(tmp_path / "records.db"), settings=BRIEF)
    want = (2 + np.tril(A) @ B).astype("float32")
    np.testing.assert_array_equal(result.build()(A, B), want)


UNBOUNDED = """
@prim_func
def unbounded(N: i64[9], A: f32[9], C: f32[9]):
    for i in range(9):
        for k in range(N[i] // 2):
            with block("C"):
                vi = spatial(9, i)
                vk = opaque(9, min(k, 8))
                C[vi] = A[vk]
"""


def test_extents_without_a_bound_are_refused():
    with pytest.raises(VerifyError, match="the extent .* of loop 'k' has no known largest value"):
        Schedule(parse(UNBOUNDED))
    Schedule(parse(UNBOUNDED.replace("N[i] // 2", "min(N[i], 9)")))


BANDED = """
@prim_func
def banded(A: f32[9, 9], C: f32[9]):
    for i, k in grid(9, 3):
        with block("C"):
            vi = spatial(9, i)
            vk = reduce(9, i + k - 1)
            where(1 <= i + k and i + k < 10)
            with init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""


@pytest.mark.parametrize("step", ["rfactor", "parallel"])
def test_bands_by_predicates(step):
    sch = Schedule(parse(BANDED))
    if step == "rfactor":
        sch.rfactor("C", "k")
    else:
        sch.parallel("i")
    want = (A * (np.abs(np.subtract.outer(np.arange(9), np.arange(9))) < 2)).sum(axis=1)
    np.testing.assert_array_equal(interpret(sch.func, A)[0], want)
    np.testing.assert_array_equal(build(sch)(A), want)


MASKED = """
@prim_func
def masked(A: f32[6, 6], S: f32[6, 6]):
    for i in range(6):
        for g in range(6):
            with block("masked"):
                vi = spatial(6, i)
                vg = spatial(6, g)
                S[vi, vg] = -1.0
        for j in range(i + 1):
            for k in range(2):
                with block("S"):
                    vi = spatial(6, i)
                    vj = spatial(6, j)
                    vk = reduce(2, k)
                    with init():
                        S[vi, vj] = 0.0
                    S[vi, vj] = S[vi, vj] + A[vi, vk]
"""


@pytest.mark.parametrize("place", ["t, i", "i, t", "i, k, t"])
@pytest.mark.parametrize("extent", ["9", "i + 1"])
def test_conditions_on_a_loop_that_no_variable_is_bound_to(place, extent):
    """They stay conditions of the block: what is computed uses variables of its own alone."""
    text = ["@prim_func", "def rows(A: f32[9, 9], B: f32[9]):"]
    order = place.split(", ")
    for loop in order if "k" in order else [*order, "k"]:
        runs = {"t": "2", "i": "9", "k": extent}[loop]
        text.append(f"{'    ' * (len(text) - 1)}for {loop} in range({runs}):")
    body = ['with block("B"):', "    vi = spatial(9, i)", "    vk = reduce(9, k)"]
    body += ["    where(t * 9 + k < 9)", "    with init():", "        B[vi] = 0.0"]
    body.append("    B[vi] = B[vi] + A[vi, vk]")
    func = parse("\n".join([*text, *("    " * 4 + line for line in body)]) + "\n")
    verify(func)
    sch = Schedule(func)
    verify(sch.func)
    assert "where(t * 9" in str(sch.func)
    (want,) = interpret(func, A)
    np.testing.assert_array_equal(interpret(sch.func, A)[0], want)
    np.testing.assert_array_equal(build(sch)(A), want)


def test_an_init_does_not_pass_what_else_is_written():
    sch = Schedule(parse(MASKED))
    refused(sch.decompose_reduction, "S", "i", match="'masked' inside loop 'i' also writes it")
    sch.decompose_reduction("S", "j")
    a = A[:6, :6].copy()
    want = np.where(np.tri(6) > 0, a[:, :2].sum(axis=1, keepdims=True), -1)
    np.testing.assert_array_equal(interpret(sch.func, a)[0], want)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(60))
def test_random_schedules(seed):
    pick = random.Random(seed).choice
    d = workloads.Draw(pick)
    func = pick([triangles.by_text, triangles.by_text, triangles.by_axes, triangles.solved])(d)
    work, sch = workloads.Workload(func, d.sizes), Schedule(func)
    Stress(pick).run(sch, 10)
    checks.check_text(sch, work)
    checks.check_interpreted(sch, work, seed)
    if seed % 10 == 0:
        checks.check_compiled(sch, work, seed)


NUMBER = """
@prim_func
def sums(A: f32[9, 8], n: i64, C: f32[8]):
    for i in range(8):
        for {loops}:
            with block("C"):
                vi = spatial(8, i)
                vk = reduce(9, {term})
                with init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vk, vi]
"""


@pytest.mark.parametrize("n", [-1, 0, 2, 3, 100])
@pytest.mark.parametrize(
    ("loops", "term"),
    [
        ("k in range(min(max(n, 0), 9))", "k"),
        ("k, m in grid(min(max(n, 0), 3), 3)", "k * 3 + m"),
        ("k, m in grid(3, min(max(n, 0), 3))", "k * 3 + m"),
    ],
)
def test_sums_may_end_where_a_number_says(loops, term, n):
    """Moving a block makes loops over all values of its variables; those of a sum that a number
    ends were taken for all, since no more than all can be."""
    func = parse(NUMBER.format(loops=loops, term=term))
    a = RNG.integers(-3, 4, (9, 8)).astype("float32")
    want = interpret(func, a, n)
    moved = Schedule(func)
    moved.cache_write("C", 0, "local")
    moved.compute_at("C", "ax0")
    for sch in (moved, default_schedule(func)):
        np.testing.assert_array_equal(interpret(sch.func, a, n), want)
