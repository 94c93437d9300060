"""Sums that are written as multiply-adds by one: which ones, and that they are the same numbers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from backends import build, source_text
from schedule import Schedule
from tensorir import Expr, PrimFunc, te

ROWS, WIDTH, TERMS = 6, 16, 33
Term = Callable[[Expr, Expr], Expr]

LOOKED_FOR: dict[str, tuple[Callable[..., Expr], Term]] = {
    "least sum": (te.min, lambda a, b: a + b),
    "largest sum": (te.max, lambda a, b: b + a),
    "largest difference": (te.max, lambda a, b: b - a),
    "least distance": (te.min, lambda a, b: te.max(a - b, b - a)),
}


def in_tiles(reduce: Callable[..., Expr], term: Term, kind: str, rows: int = ROWS) -> Schedule:
    """Terms of rows of `a` and columns of `b`, in vectors that stay in registers."""
    a = te.placeholder((rows, TERMS), kind, name="a")
    b = te.placeholder((TERMS, 2 * WIDTH), kind, name="b")
    k = te.reduce_axis(TERMS, name="k")
    out = te.compute(
        (rows, 2 * WIDTH), lambda i, j: reduce(term(a[i, k], b[k, j]), axis=k), name="out"
    )
    sch = Schedule(te.create_prim_func([a, b, out], name="looked"))
    copy = sch.cache_write("out", 0, "local")
    i, j = sch.get_loops(copy)
    outer, inner = sch.split(j, [None, WIDTH])
    sch.reorder(outer, i, inner)
    sch.compute_at("out", outer)
    sch.vectorize(inner)
    sch.unroll(i)
    *_, i, j, k = sch.get_loops("out")
    sch.reorder(k, i, j)
    sch.vectorize(j)
    sch.unroll(i)
    return sch


def moved(sch: Schedule | PrimFunc, bits: int) -> tuple[int, int]:
    """How many sums of the loop over terms are multiply-adds by one, and how many are sums."""
    text = source_text(sch, f"c -threads=1 -march={'x86-64-v4' if bits == 512 else 'haswell'}")
    lines = [line for line in text.splitlines() if "out_local" in line and " = " in line]
    return sum(line.count("TIMES_ONE(") for line in lines), len(lines)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", LOOKED_FOR)
def test_sums_beside_extrema_are_the_same_numbers(name: str, kind: str) -> None:
    reduce, term = LOOKED_FOR[name]
    sch = in_tiles(reduce, term, kind)
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(kind) for s in ((ROWS, TERMS), (TERMS, 2 * WIDTH)))
    tiny = np.finfo(kind).smallest_subnormal
    odd = [np.inf, -np.inf, np.nan, 0.0, -0.0, np.finfo(kind).max, tiny, -tiny]
    for array in (a, b):
        places = rng.integers(0, array.size, 12)
        array.flat[places] = rng.choice(np.array(odd, kind), 12)
    with np.errstate(all="ignore"):
        x, y = a[:, :, None], b[None]
        terms = {
            "least sum": lambda: (x + y).min(1),
            "largest sum": lambda: (x + y).max(1),
            "largest difference": lambda: (y - x).max(1),
            "least distance": lambda: np.maximum(x - y, y - x).min(1),
        }[name]()
    np.testing.assert_array_equal(build(sch)(a, b), terms)


@pytest.mark.parametrize("name", LOOKED_FOR)
@pytest.mark.parametrize("bits", [256, 512])
def test_units_have_as_much_to_do(name: str, bits: int) -> None:
    """Beside one maximum or minimum sums go to the units for products where comparisons stay with
    the others, and half of them where comparisons make masks."""
    found, _ = moved(in_tiles(*LOOKED_FOR[name], "float32"), bits)
    sums = ROWS * (WIDTH * 32 // bits) * (2 if name == "least distance" else 1)
    assert sums // 2 <= found <= sums


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize(
    ("reduce", "term"),
    [
        (te.sum, lambda a, b: a * b),  # products have their units to themselves
        (te.sum, lambda a, b: a + b),  # what is added to comes later by a product
        (te.min, lambda a, b: a * b),
        (te.min, lambda a, b: a * b + a),  # one instruction as it is
        (te.sum, lambda a, b: te.exp(a + b)),
    ],
)
def test_other_sums_stay(reduce: Callable[..., Expr], term: Term, bits: int) -> None:
    found, lines = moved(in_tiles(reduce, term, "float32"), bits)
    assert lines and not found


def test_memory_is_waited_for_anyway() -> None:
    """A stencil loads as often as it adds."""
    u = te.placeholder((66, 128), "float32", name="u")
    out = te.compute((64, 128), lambda i, j: u[i, j] + u[i + 1, j] + u[i + 2, j], name="out")
    sch = Schedule(te.create_prim_func([u, out], name="stencil"))
    sch.vectorize(sch.split(sch.get_loops("out")[1], [None, 8])[1])
    assert "TIMES_ONE" not in source_text(sch, "c -threads=1 -march=haswell")


@pytest.mark.parametrize(("march", "wanted"), [("znver3", True), ("haswell", False)])
def test_only_where_units_differ(march: str, wanted: bool, tmp_path: Path) -> None:
    text = source_text(in_tiles(*LOOKED_FOR["least sum"], "float32"), "c -threads=1 -march=haswell")
    (tmp_path / "f.c").write_text(text)
    flags = ["-O2", "-std=gnu11", f"-march={march}", "-S", "f.c", "-o", "f.s"]
    done = subprocess.run(["gcc", *flags], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this gcc makes no code for {march}")
    found = (tmp_path / "f.s").read_text()
    assert ("vfmadd" in found) == wanted, found
    assert ("vmulps" not in found) and ("vaddps" in found) != wanted
