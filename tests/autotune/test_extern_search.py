"""Programs that call extern functions can be tuned: rules leave the calls alone."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import tune
from autotune.features.nest import nests
from autotune.machine.work import flops
from autotune.measure.externs import declarations, declare
from autotune.rules import default_candidate, make_space
from tensorir import EXTERNS, Cpu, ExternFunc, Target, find_extern, interpret, te
from tests.brief import BRIEF

TARGET = Target(vector_bits=512, threads=2, features=("avx512f",), l1d=32 << 10, l2=1 << 20)
MACHINE = Cpu(TARGET)

NEGATE = ExternFunc(
    "test.negate",
    "(n)->(n)",
    [("float32", "float32")],
    "static void $NAME(const float *x, float *y, i64 n) "
    "{ for (i64 i = 0; i < n; i++) y[i] = -x[i]; }",
    np.negative,
)


def make(n=12, m=10, func="sort"):
    """A cheap stage, rows that an extern function makes, their sums, and a scaled copy."""
    a = te.placeholder((n, m), name="A")
    p = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="P")
    s = te.extern((n, m), p, func, name="S")
    k = te.reduce_axis(m, name="k")
    t = te.compute((n,), lambda i: te.sum(s[i, k], axis=k), name="T")
    q = te.compute((n, m), lambda i, j: s[i, j] * t[i], name="Q")
    return te.create_prim_func([a, q], name="rows")


def test_the_stage_before_is_kept():
    """Inlining P would leave the function without an array to read."""
    space = make_space(make(), MACHINE)
    func = space.build(default_candidate(space)).func
    assert "P" in {b.name for b in func.buffers}
    a = np.random.default_rng(0).integers(-3, 4, (12, 10)).astype("float32")
    np.testing.assert_allclose(interpret(func, a)[0], interpret(make(), a)[0])


@pytest.mark.parametrize(("rows", "parallel"), [(4, False), (4000, True)])
def test_many_rows_are_shared_by_threads(rows, parallel):
    space = make_space(make(rows), MACHINE)
    sch = space.build(default_candidate(space))
    kinds = [str(loop.kind) for loop in sch.state.loops_around("S")]
    assert kinds == (["parallel"] if parallel else ["serial"])


def test_numbers_for_the_cost_model():
    call = next(nest for nest in nests(make(12, 10)) if nest.name == "S")
    assert [loop.extent for loop in call.loops] == [12, 10]
    assert call.useful == 120 and [a.store for a in call.accesses] == [False, True]
    assert flops(make()) is None
    nests(make(te.var("n"), te.var("m")))


def test_workers_are_told_of_functions(extern_cleanup):
    extern_cleanup(NEGATE)
    rows = declarations(make(func="test.negate"))
    assert [row["name"] for row in rows] == ["test.negate"] and not declarations(make())
    del EXTERNS["test.negate"]
    declare(rows)
    assert find_extern("test.negate").signature == "(n)->(n)"


def test_tune(extern_cleanup, tmp_path):
    extern_cleanup(NEGATE)
    func = make(func="test.negate")
    result = tune(func, trials=2, seed=0, database=tmp_path / "tuning.db", settings=BRIEF)
    a = np.random.default_rng(0).integers(-3, 4, (12, 10)).astype("float32")
    np.testing.assert_allclose(result.build()(a), interpret(func, a)[0], rtol=1e-5)
