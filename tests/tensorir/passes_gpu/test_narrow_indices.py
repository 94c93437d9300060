"""narrow_indices: 32 bits for every place that provably fits, and for no value."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from gpu_programs import BLOCK, X, check_passes, program, run, tiled_matmul

from tensorir import (
    Analyzer,
    For,
    If,
    Store,
    Target,
    Var,
    binary,
    const,
    lower,
    stmt_exprs,
    variables,
    walk,
)
from tensorir.passes.rewriting import with_body


def dtypes(func):
    """The types of the loops, and those of the indices of stores."""
    loops = {s.var.dtype for s in walk(func.body) if isinstance(s, For)}
    return loops, {s.indices[0].dtype for s in walk(func.body) if isinstance(s, Store)}


def lowered(func):
    return lower(func, Target.parse("cuda"))


def test_a_matmul_has_nothing_of_64_bits(golden):
    low = check_passes(tiled_matmul(17, 16, 9))
    used = {v.dtype for s in walk(low.body) for e in stmt_exprs(s) for v in variables(e)}
    assert used == {"int32"}
    golden(str(low), "tiled_matmul")


def rows(count, width):
    return program(
        f"""
for b in {BLOCK}{count}):
    for i in {X}256):
        for j in range({width // 256}):
            D[b, j * 256 + i] = A[b, j * 256 + i]
""",
        f"A: i8[{count}, {width}], D: i8[{count}, {width}]",
    )


@pytest.mark.parametrize(
    ("count", "width", "index"),
    [(1 << 15, 1 << 16, "int32"), ((1 << 15) + 1, 1 << 16, "int64"), (1 << 16, 1 << 16, "int64")],
)
def test_what_has_more_elements_keeps_64_bits(count, width, index):
    """The loops themselves are narrow; places are computed of them in 64 bits."""
    assert dtypes(lowered(rows(count, width))) == ({"int32"}, {index})


def test_parts_that_do_not_fit_though_the_whole_does():
    func = program(
        f"""
for b in {BLOCK}4):
    for i in {X}32):
        D[b, i] = A[b, i * 100000000 // 100000000]
""",
    )
    low = check_passes(func)
    assert dtypes(low) == ({"int32"}, {"int32"})
    func = program(
        f"""
for b in {BLOCK}4):
    for i in {X}32):
        D[b, i] = A[b, i * 700000001 // 100 % 32]
"""
    )
    low = check_passes(func)
    assert "i64(" in str(low)  # the product alone has 64 bits


def test_values_keep_their_types():
    func = program(
        f"""
for b in {BLOCK}4):
    for i in {X}32):
        D[b, i] = (b * 32 + i) * 3000000000 + J[b, i]
        E[b, i] = f32(b - i)
        F[b, i] = i32(b * 1000000 * i)
""",
        "J: i64[4, 32], D: i64[4, 32], E: f32[4, 32], F: i32[4, 32]",
    )
    large = np.full((4, 32), 1 << 40, "int64")
    low = check_passes(func, arrays=[large])
    assert run(low, large)[0].max() == 127 * 3000000000 + (1 << 40)


def test_places_from_memory():
    """What is read of type int64 may be anything; int32 fits, but not what is made of it."""
    for dtype in ("i64", "i32"):
        read = "J[b, i]" if dtype == "i64" else "i64(J[b, i])"
        func = program(
            f"""
for b in {BLOCK}4):
    for i in {X}32):
        D[b, i] = A[b, {read}] + A[b, {read} * 2]
""",
            f"J: {dtype}[4, 32], A: f32[4, 32], D: f32[4, 32]",
        )
        places = np.tile(np.arange(32) // 3, (4, 1)).astype("int64" if dtype == "i64" else "int32")
        low = check_passes(func, arrays=[places, np.arange(128, dtype="float32").reshape(4, 32)])
        assert dtypes(low) == ({"int32"}, {"int32"})
        assert "i64(" in str(low)


ROWS = f"""
for b in {BLOCK}(n + 3) // 4):
    for i in thread("threadIdx.y", 4):
        for t in {X}8):
            for k in range((m + 7) // 8):
                with block("D"):
                    vi = spatial(n, b * 4 + i)
                    vj = spatial(m, k * 8 + t)
                    where(b * 4 + i < n and k * 8 + t < m)
                    D[vi, vj] = A[vi, vj] * 2.0
"""


def test_the_host_chooses_by_the_sizes(golden):
    func = program(ROWS, "A: f32[n, m], D: f32[n, m]")
    low = lowered(func)
    golden(str(low), "symbolic")
    assert isinstance(low.body, If) and low.body.orelse is not None
    assert dtypes(with_body(low, low.body.then)) == ({"int32"}, {"int32"})
    assert dtypes(with_body(low, low.body.orelse))[1] == {"int64"}


@pytest.mark.parametrize("shape", [(1, 1), (3, 9), (7, 20), (6, 33)])
def test_no_size_is_taken_for_one_that_fits(monkeypatch, shape):
    """With types of few values: an index beyond them is an error, and none comes."""
    module = import_module("tensorir.passes.gpu.narrow_indices")
    monkeypatch.setattr(module, "NARROW", "int8")
    monkeypatch.setattr(module, "LOW", -128)
    monkeypatch.setattr(module, "HIGH", 127)
    n, m = shape
    func = program(ROWS, "A: f32[n, m], D: f32[n, m]")
    given = np.arange(n * m, dtype="float32").reshape(shape)
    low = check_passes(func, arrays=[given], n=n, m=m)
    assert {s.var.dtype for s in walk(low.body) if isinstance(s, For)} == {"int8", "int64"}


SIZES = [Var(name, "int64") for name in "abcdefghijkl"]


def left(ends, monkeypatch):
    """Which of some sizes are asked at a call for whether they fit, and how many analyzers that
    assume something were made to find out."""
    module = import_module("tensorir.passes.gpu.narrow_indices")
    made, assuming = [], Analyzer.assuming
    monkeypatch.setattr(
        Analyzer, "assuming", lambda self, *args: made.append(1) or assuming(self, *args)
    )
    analyzer = Analyzer({var: const(1 << 40) for var in SIZES})
    conditions = [binary("<=", end, const(1 << 31)) for end in ends]
    return module._strongest(conditions, analyzer), len(made)


def test_many_conditions_on_sizes_take_few_proofs(monkeypatch):
    a, b, c, d, *_ = SIZES
    large = [a * 64 + 64, b * 64 + 64, c * 64 + 64, d * 64 + 64]
    small = [size * n + n for size in (a, b, c, d) for n in range(1, 24)]
    found, made = left([*small, *large], monkeypatch)
    assert {c.a for c in found} == set(large)
    assert made == len(large)


def test_sizes_of_which_none_follows_are_given_up_early(monkeypatch):
    found, made = left([size * (n + 2) for n, size in enumerate(SIZES)], monkeypatch)
    assert found == []
    assert made <= 9
