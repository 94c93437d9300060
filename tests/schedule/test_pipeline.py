"""pipeline: statements of a loop in stages, several iterations in flight."""

from __future__ import annotations

import numpy as np
import pytest
from memory_programs import PAIRS, lowered, packed, rolled, stencil
from refusal import refused

from backends import build
from schedule import Schedule, ScheduleError
from tensorir import Target, interpret, lower, parse, te, verify

TRIANGLE = """
@prim_func
def triangle(A: f32[8], C: f32[8, 8]):
    T = alloc(f32[8])
    for i in range(8):
        with block("T"):
            vi = spatial(8, i)
            T[vi] = A[vi]
        for j in range(i + 1):
            with block("C"):
                vi = spatial(8, i)
                vj = spatial(8, j)
                C[vi, vj] = T[vi]
"""


def test_golden(check, golden):
    sch = Schedule(parse(PAIRS))
    sch.pipeline("i", [0, 1, 0, 2])
    golden(str(sch.func), "pipeline")
    golden(lowered(sch), "pipeline_lowered")


@pytest.mark.parametrize("stages", [[0, 1], [0, 2], [0, 3]])
@pytest.mark.parametrize(("m", "n", "k"), [(4, 16, 32), (3, 17, 29), (1, 5, 9)])
def test_matmul(matmul, check, m, n, k, stages):
    sch, _, outer = packed(matmul(m, n, k))
    sch.decompose_reduction("C", outer)
    sch.pipeline(outer, stages)
    sch.parallel(sch.get_loops("C")[0])
    assert sch.numerics == "bitwise"
    lowered(sch)
    check(sch)


def test_versions(matmul):
    """Two versions of eight rows for a distance of 1, four for 2 or 3."""
    for stage, rows in ((1, 16), (2, 32), (3, 32)):
        sch, _, outer = packed(matmul(4, 16, 64))
        sch.decompose_reduction("C", outer)
        sch.pipeline(outer, [0, stage])
        assert f"alloc(B_local, f32[{rows * 16}]" in lowered(sch)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 4), (2, 5), (5, 11)])
def test_symbolic(n, m):
    rows, terms = te.var("n"), te.var("m")
    a, b = te.placeholder((rows, terms), name="A"), te.placeholder((terms, rows), name="B")
    k = te.reduce_axis(terms, name="k")
    c = te.compute((rows, rows), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch, _, outer = packed(te.create_prim_func([a, b, c], name="mm"), 4)
    sch.decompose_reduction("C", outer)
    sch.pipeline(outer, [0, 1])
    verify(sch.func)
    rng = np.random.default_rng(0)
    x, y = rng.integers(-4, 5, (n, m)), rng.integers(-4, 5, (m, n))
    arrays = x.astype("float32"), y.astype("float32")
    (found,) = interpret(sch.func, *arrays)
    np.testing.assert_array_equal(found, x @ y)
    np.testing.assert_array_equal(build(sch)(*arrays), x @ y)


def test_loops_stay_as_they_are(matmul):
    sch, _, outer = packed(matmul(4, 16, 32))
    sch.decompose_reduction("C", outer)
    sch.pipeline(outer, [0, 1])
    for call in (sch.unroll, sch.parallel, sch.vectorize):
        refused(call, outer, match="annotated with pipeline|reduction")
    refused(sch.split, outer, [None, 2], match="annotated with pipeline")
    refused(sch.unannotate, outer, "pipeline", match="belongs to the primitive")


def test_memory_between_stages_is_shared():
    """An iteration of `i` inside of a pipeline uses what another one left there."""
    text = PAIRS.replace("for i in range(8):", "for i in range(8, annotations=PIPED):")
    sch = Schedule(parse(text.replace("PIPED", '{"pipeline": [0, 1, 0, 1]}')))
    with pytest.raises(ScheduleError):
        sch.parallel("i")


def test_refuses_stages(matmul):
    sch = Schedule(matmul())
    refused(sch.pipeline, "k", [0], match="loop 'k' has one statement")
    sch = Schedule(parse(PAIRS))
    refused(sch.pipeline, "i", [0, 1], match="2 stages for the 4 statements of loop 'i'")
    refused(sch.pipeline, "i", [0, 1, -1, 2], match="are not integers from 0 on")
    refused(sch.pipeline, "i", [1, 2, 1, 2], match="do not go from 0 up")
    refused(sch.pipeline, "i", [0, 0, 0, 0], match="do not go from 0 up")
    refused(
        sch.pipeline, "i", [1, 0, 0, 1], match="'C' reads 'T' and has an earlier stage than"
    )
    sch.unroll("i")
    refused(sch.pipeline, "i", [0, 1, 0, 1], match="loop 'i' is unrolled")


def test_refuses_dependences(matmul):
    sch, _, outer = packed(matmul(4, 20, 30))
    refused(
        sch.pipeline, outer, [0, 1], match="(?s)reduction of block 'C', .*decompose_reduction"
    )
    sch = Schedule(parse(PAIRS.replace("U[vi] = A[7 - vi]", "U[vi] = A[7 - vi] + C[vi]")))
    refused(sch.pipeline, "i", [0, 1, 0, 1], match="'U' reads 'C' and has an earlier stage")
    sch = Schedule(parse(PAIRS.replace("U[vi] + T[vi]", "U[vi] + T[0]")))
    refused(sch.pipeline, "i", [0, 1, 0, 1], match="do not pass separate parts of 'T'")
    back = PAIRS.replace("T[vi] = A[vi]", "T[vi] = A[vi] + D[vi]")
    sch = Schedule(parse(back))
    refused(sch.pipeline, "i", [0, 0, 0, 1], match="'D' writes 'D', which block 'T' uses")


def test_refuses_overlap():
    sch, loop = rolled(stencil())
    refused(
        sch.pipeline, loop, [0, 1], match="'C', whose init|do not pass separate parts of 'B'"
    )


def test_inner_loops_that_depend_on_the_loop(check):
    sch = Schedule(parse(TRIANGLE))
    sch.pipeline("i", [0, 1])
    a, c = np.arange(8, dtype="float32"), np.zeros((8, 8), "float32")
    want = np.tril(np.repeat(a[:, None], 8, axis=1))
    for made in (sch.func, lower(sch.func, Target())):
        shaped = c if made is sch.func else c.ravel()
        np.testing.assert_array_equal(interpret(made, a, shaped)[0].reshape(8, 8), want)
