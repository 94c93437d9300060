"""Programs with threads, written as schedules leave them, and what every pass has to keep."""

from __future__ import annotations

import numpy as np

from schedule import Schedule
from tensorir import (
    For,
    ForKind,
    PrimFunc,
    Target,
    interpret,
    lower,
    map_children,
    parse,
    replace,
    te,
)
from tensorir.passes.rewriting import with_body

X, Y = 'thread("threadIdx.x", ', 'thread("threadIdx.y", '
BLOCK = 'thread("blockIdx.x", '


def program(body, params="A: f32[4, 32], D: f32[4, 32]", buffers=()):
    """A function `f` of these parameters and (name, shape, scope) buffers."""
    lines = [f'    {n} = alloc({shape}, scope="{scope}")' for n, shape, scope in buffers]
    text = "\n".join(["@prim_func", f"def f({params}):", *lines])
    return parse(text + "\n" + "\n".join("    " + line for line in body.strip("\n").splitlines()))


def bound(func: PrimFunc, axes: dict[str, str]) -> PrimFunc:
    """`func` with loops bound to axes, whatever the rules of schedules say."""

    def visit(stmt):
        stmt = map_children(stmt, visit)
        if isinstance(stmt, For) and stmt.name in axes:
            return replace(stmt, kind=ForKind.THREAD, thread=axes[stmt.name])
        return stmt

    return with_body(func, visit(func.body))


def matmul(m, n, k):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


def tiled_matmul(m, n, k, tile=16, step=8, own=4, change=None):
    """Sums in registers across a loop over k outside of the threads, tiles in shared memory.

    `change(sch, k_0)` takes a last step, at the loop over tiles.
    """
    sch = Schedule(matmul(m, n, k))
    sch.cache_write("C", 0, "local")
    i, j, r = sch.get_loops("C")
    threads = tile // own
    i_0, i_1, i_2 = sch.split(i, [None, threads, own])
    j_0, j_1, j_2 = sch.split(j, [None, threads, own])
    k_0, k_1 = sch.split(r, [None, step])
    sch.reorder(i_0, j_0, k_0, i_1, j_1, k_1, i_2, j_2)
    axes = {i_0: "blockIdx.y", j_0: "blockIdx.x", i_1: "threadIdx.y", j_1: "threadIdx.x"}
    for place in (0, 1):
        sch.cache_read("C", place, "shared")
        name = "AB"[place] + "_shared"
        sch.compute_at(name, k_0)
        _, y, x = sch.split(sch.fuse(*sch.get_loops(name)[-2:]), [None, threads, threads])
        axes |= {y: "threadIdx.y", x: "threadIdx.x"}
    sch.reverse_compute_at("C_local", j_0)
    rows, columns = sch.get_loops("C_local")[-2:]
    row_0, row_1 = sch.split(rows, [None, own])
    column_0, column_1 = sch.split(columns, [None, own])
    sch.reorder(row_0, column_0, row_1, column_1)
    if change is not None:
        change(sch, k_0)
        axes |= {f"{i_1}_init": "threadIdx.y", f"{j_1}_init": "threadIdx.x"}
    return bound(sch.func, axes | {row_0: "threadIdx.y", column_0: "threadIdx.x"})


def inputs_of(func, seed=0):
    """Small integers: every order of summation gives the same bits."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-4, 5, p.const_shape).astype(p.dtype) for p in func.inputs]


def run(func, *arrays, races=True, sizes=None):
    """The outputs, flat; of flat parameters as well."""
    given = [a.ravel() if p.ndim == 1 else a for a, p in zip(arrays, func.params)]
    return [found.ravel() for found in interpret(func, *given, races=races, sizes=sizes)]


def check_passes(func, target="cuda", arrays=None, close=0.0, **sizes):
    """Every pass keeps what the program does, and brings no race. Returns the lowered program."""
    arrays = inputs_of(func) if arrays is None else arrays
    wanted = run(func, *arrays, races=False, sizes=sizes)
    last = [func]

    def check(name, made, races=True):
        if made is not last[0] or not races:
            for found, want in zip(run(made, *arrays, races=races, sizes=sizes), wanted):
                np.testing.assert_allclose(found, want, rtol=close, atol=close, err_msg=name)
        last[0] = made

    low = lower(func, Target.parse(target), check)
    check("all", low, races=False)
    return low


def doubled(sch, k):
    """Two versions of the tiles."""
    for block in ("A_shared", "B_shared"):
        sch.double_buffer(block)
