"""Programs whose use of memory is scheduled, and the check of their lowered form."""

from __future__ import annotations

import numpy as np

from schedule import Schedule
from tensorir import Target, interpret, lower, parse, te

PAIRS = """
@prim_func
def pairs(A: f32[8], C: f32[8], D: f32[8]):
    T = alloc(f32[8])
    U = alloc(f32[8])
    for i in range(8):
        with block("T"):
            vi = spatial(8, i)
            T[vi] = A[vi]
        with block("C"):
            vi = spatial(8, i)
            C[vi] = T[vi] + 1.0
        with block("U"):
            vi = spatial(8, i)
            U[vi] = A[7 - vi]
        with block("D"):
            vi = spatial(8, i)
            D[vi] = U[vi] + T[vi]
"""


def lowered(sch):
    """The lowered program, which the interpreter has compared with the definition."""
    func = lower(sch.func, Target(vector_bits=512))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-4, 5, p.const_shape).astype(p.dtype) for p in sch.definition.inputs]
    expected = interpret(sch.definition, *inputs)
    for found, wanted in zip(interpret(func, *[x.ravel() for x in inputs]), expected, strict=True):
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
    text = str(func)
    assert str(parse(text)) == text
    return text


def affine(n=6, m=40, dtype="float32"):
    a = te.placeholder((n, m), dtype, name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + te.const(1, dtype), name="B")
    return te.create_prim_func([a, b], name="affine")


def stencil(n=20, m=33, taps=3, step=1):
    """C[y] is the sum of `taps` rows of B = 2 * A, from row y * step on."""
    a = te.placeholder(((n - 1) * step + taps, m), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] * 2.0, name="B")
    r = te.reduce_axis(taps, name="r")
    c = te.compute((n, m), lambda i, j: te.sum(b[i * step + r, j], axis=r), name="C")
    return te.create_prim_func([a, c], name="stencil")


def stencils(n=14, m=5, depth=3, step=1):
    """A chain of sums of three rows; the last one, in steps of `step`. Its stages are B, C, ..."""
    found = [te.placeholder((n, m), name="A")]
    for stage in range(depth):
        last, by = found[-1], step if stage == depth - 1 else 1
        rows = (last.shape[0] - 3) // by + 1

        def row(y, j, last=last, by=by):
            return last[y * by, j] + last[y * by + 1, j] * 2.0 + last[y * by + 2, j]

        found.append(te.compute((rows, m), row, name="BCDEF"[stage]))
    return te.create_prim_func([found[0], found[-1]], name="stencils")


def rolled(func, tile=None):
    """A stencil with the rows of B computed at each row of C; the loop over rows of C."""
    sch = Schedule(func)
    loop = sch.get_loops("C")[0]
    outer = None
    if tile is not None:
        outer, loop = sch.split(loop, [None, tile])
    sch.compute_at("B", loop)
    if outer is not None:
        sch.parallel(outer)
    return sch, loop


def packed(func, factor=8):
    """A matmul that copies rows of B to local memory in each step of the reduction."""
    sch = Schedule(func)
    copy = sch.cache_read("C", "B", "local")
    _, j, k = sch.get_loops("C")
    outer, inner = sch.split(k, [None, factor])
    sch.reorder(outer, inner, j)
    sch.compute_at(copy, outer)
    return sch, copy, outer
