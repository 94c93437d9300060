"""What loops add to the first lanes of vectors stays in registers."""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import (
    Alloc,
    For,
    If,
    PrimFunc,
    Store,
    Target,
    interpret,
    lower,
    parse,
    te,
    walk,
)
from tensorir.passes.simplify import simplify
from tensorir.passes.vectors.keep_sums import keep_sums

LOOP = """
@prim_func
def f(X: f32[400], Y: f32[400], Z: f32[400]):
    for i in range(400):
        Y[i] = 1.0
        Z[i] = 2.0
    for t in range({extent}):
        {body}
"""
LANES = "ramp(0, 1, 8) < broadcast(5, 8)"


def loop(*body: str, extent: str = "9") -> PrimFunc:
    return parse(LOOP.format(extent=extent, body="\n        ".join(body)).strip())


def masked(*stores: str, lanes: str = LANES) -> list[str]:
    return [f"if {lanes}:", *(f"    {store}" for store in stores)]


def kept(func: PrimFunc) -> tuple[PrimFunc, int]:
    """The function after the pass, which computes the same, and how many vectors it keeps."""
    func = simplify(func)
    made = keep_sums(func)
    x = np.linspace(-1, 1, 400, dtype=np.float32)
    np.testing.assert_array_equal(interpret(made, x), interpret(func, x))
    assert str(parse(str(made))) == str(made)
    allocs = [s.buffer for s in walk(made.body) if isinstance(s, Alloc)]
    assert set(made.attrs.get("loose", ())) == {buffer.name for buffer in allocs}
    return made, sum(int(buffer.const_shape[0]) for buffer in allocs)


SUM = "Y[ramp(16, 1, 8)] = Y[ramp(16, 1, 8)] + X[ramp(t * 8, 1, 8)]"
NEXT = "Y[ramp(24, 1, 8)] = max(Y[ramp(24, 1, 8)], X[ramp(t * 8, 1, 8)])"
WHOLE = "Y[ramp(8, 1, 8)] = Y[ramp(8, 1, 8)] + X[ramp(t * 8, 1, 8)]"
OTHER = "Z[ramp(16, 1, 8)] = Z[ramp(16, 1, 8)] + Y[ramp(16, 1, 8)]"


def test_rewrites_a_sum_as_its_docstring_says():
    lines = [line.strip() for line in str(kept(loop(*masked(SUM)))[0]).splitlines()]
    assert lines[lines.index('with alloc(Y_sums, f32x8[1], scope="local"):') + 1 :] == [
        f"if {LANES}:",
        "Y_sums[0] = Y[ramp(16, 1, 8)]",
        "for t in range(9):",
        f"if {LANES}:",
        "Y_sums[0] = Y_sums[0] + X[ramp(t * 8, 1, 8)]",
        f"if {LANES}:",
        "Y[ramp(16, 1, 8)] = Y_sums[0]",
    ]


@pytest.mark.parametrize(
    "body, count",
    [
        ([WHOLE, *masked(SUM)], 2),  # one vector and the rest of a row
        (masked(SUM, NEXT), 2),
        ([*masked(SUM), *masked(NEXT)], 2),
        (masked(SUM, OTHER), 2),  # what is kept is read by another sum
        (["for k in range(4):", *(f"    {line}" for line in masked(SUM))], 1),
        ([*masked(SUM), "Z[t] = X[t]"], 1),  # others go on as they were
        (masked("Y[ramp(16, 1, 8)] = X[ramp(t * 8, 1, 8)]"), 1),  # the last one counts
    ],
)
def test_keeps(body, count):
    assert kept(loop(*body))[1] == count


@pytest.mark.parametrize(
    "body",
    [
        [SUM],  # compilers do it
        masked("Y[ramp(t * 8, 1, 8)] = Y[ramp(t * 8, 1, 8)] + 1.0"),  # a place for each iteration
        masked(SUM, "Y[ramp(20, 1, 8)] = Y[ramp(20, 1, 8)] + 1.0"),  # places overlap
        [*masked(SUM), "Z[t] = Y[t]"],  # other places are read
        [
            *masked(SUM),
            "Z[ramp(0, 1, 8)] = Y[ramp(16, 1, 8)]",
        ],  # all lanes are read
        [*masked(SUM), *masked(SUM, lanes="ramp(0, 1, 8) < broadcast(3, 8)")],
        masked(SUM, lanes="ramp(0, 1, 8) < broadcast(t, 8)"),  # other lanes in each iteration
        ["if t < 5:", f"    {SUM}"],  # not in all iterations
        [*masked(SUM), "for k in range(3):", "    Z[k] = 1.0"],
        [line for n in range(17) for line in masked(SUM.replace("(16,", f"({16 + 8 * n},"))],
    ],
)
def test_leaves(body):
    func = simplify(loop(*body))
    assert keep_sums(func) is func


def test_a_loop_that_may_not_run_touches_nothing():
    func = parse(LOOP.format(extent="n", body="\n        ".join(masked(SUM))).strip().replace(
        "Z: f32[400])", "Z: f32[400], n: i64)"))  # fmt: skip
    made = str(keep_sums(simplify(func)))
    assert "if n > 0:" in made or "if 0 < n:" in made


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int8"])
@pytest.mark.parametrize("columns", [1, 5, 12, 13, 28, 100])
@pytest.mark.parametrize("features", [("avx512bw", "avx512f", "avx512vl", "fma"), ("avx2", "fma")])
def test_sums_of_rows_that_do_not_fill_their_vectors(columns, kind, features):
    """A schedule as users write it: no masked store is in the loop over terms."""
    a, b = te.placeholder((6, 7), kind, name="A"), te.placeholder((7, columns), kind, name="B")
    k = te.reduce_axis(7, name="k")
    out = te.compute((6, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="out")
    sch = Schedule(te.create_prim_func([a, b, out]))
    i, j, k = sch.get_loops("out")
    outer, lane = sch.split(j, [None, 16])
    sch.reorder(i, outer, k, lane)
    sch.vectorize(lane)
    wide = 512 if "avx512f" in features else 256
    lowered = lower(sch.func, Target(kind="c", vector_bits=wide, features=features))
    terms = [s for s in walk(lowered.body) if isinstance(s, For) and s.var.name == "k"]
    inside = [s for each in terms for s in walk(each.body) if isinstance(s, If)]
    assert all(store.buffer.name != "out" for s in inside for store in walk(s.then)
               if isinstance(store, Store))  # fmt: skip
    rng = np.random.default_rng(0)
    x, y = ((rng.random(shape) * 8).astype(kind) for shape in ((6, 7), (7, columns)))
    np.testing.assert_allclose(build(sch, "c")(x, y), x @ y, rtol=1e-5)
