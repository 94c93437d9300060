"""te schedules for GPUs as TVM's users write them, as in its tutorials."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import CHECKS, interpret, parse, prove, te

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from thread_races import race, unseen  # noqa: E402


def met(s, check):
    """The trace replays on the plain definition, the rules hold, and the result is that of it."""
    assert str(Schedule(s.prim_func).apply(s.trace).func) == str(s.func)
    check(s.schedule, compiled=False)
    prove(parse(str(s.func)))
    assert race(s.func) is None and unseen(s.func) is None
    on_the_emulator(s.func)


def on_the_emulator(func, **sizes):
    """Its threads, watched by all checks, compute what the interpreter does."""
    rng = np.random.default_rng(0)
    shapes = [[sizes.get(getattr(n, "name", ""), n) for n in p.shape] for p in func.inputs]
    arrays = [rng.integers(-3, 4, [int(str(n)) for n in shape]) for shape in shapes]
    arrays = [array.astype(p.dtype) for array, p in zip(arrays, func.inputs)]
    checks = ",".join(check for check in CHECKS if check != "counts")
    found = build(func, f"cuda-emulator -check={checks}")(*arrays)
    np.testing.assert_allclose(found, interpret(func, *arrays)[0], rtol=1e-5)


def matmul(n, m, l):  # noqa: E741
    A = te.placeholder((n, l), name="A")
    B = te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C


def gpu_matmul(A, B, C, scale=2, num_thread=2, step=4, bind_first=True):
    """TVM's tutorial on convolutions on GPUs, for a matmul; its numbers are 8, 8 and 8."""
    s = te.create_schedule(C.op)
    (k,) = C.op.reduce_axis
    block_factor = scale * num_thread * 2
    block_x, block_y = te.thread_axis("blockIdx.x"), te.thread_axis("blockIdx.y")
    thread_x = te.thread_axis((0, num_thread), "threadIdx.x")
    thread_y = te.thread_axis((0, num_thread), "threadIdx.y")
    thread_xz = te.thread_axis((0, 2), "vthread", name="vx")
    thread_yz = te.thread_axis((0, 2), "vthread", name="vy")
    AA = s.cache_read(A, "shared", [C])
    BB = s.cache_read(B, "shared", [C])
    AL = s.cache_read(AA, "local", [C])
    BL = s.cache_read(BB, "local", [C])
    CC = s.cache_write(C, "local")
    by, yi = s[C].split(C.op.axis[0], factor=block_factor)
    bx, xi = s[C].split(C.op.axis[1], factor=block_factor)
    s[C].bind(by, block_y)
    s[C].bind(bx, block_x)
    s[C].reorder(by, bx, yi, xi)
    tyz, yi = s[C].split(yi, nparts=2)
    ty, yi = s[C].split(yi, nparts=num_thread)
    txz, xi = s[C].split(xi, nparts=2)
    tx, xi = s[C].split(xi, nparts=num_thread)

    def bind():
        s[C].bind(tyz, thread_yz)
        s[C].bind(txz, thread_xz)
        s[C].bind(ty, thread_y)
        s[C].bind(tx, thread_x)

    if bind_first:
        bind()
    s[C].reorder(tyz, txz, ty, tx, yi, xi)
    s[CC].compute_at(s[C], tx)
    yo, xo = s[CC].op.axis
    ko, ki = s[CC].split(k, factor=step)
    kt, ki = s[CC].split(ki, factor=1)
    s[CC].reorder(ko, kt, ki, yo, xo)
    s[AA].compute_at(s[CC], ko)
    s[BB].compute_at(s[CC], ko)
    s[CC].unroll(kt)
    s[AL].compute_at(s[CC], kt)
    s[BL].compute_at(s[CC], kt)
    for copy in (AA, BB):
        ty_, xi_ = s[copy].split(s[copy].op.axis[0], nparts=num_thread)
        _, xi_ = s[copy].split(s[copy].op.axis[1], factor=num_thread * 2)
        tx_, xi_ = s[copy].split(xi_, nparts=num_thread)
        s[copy].bind(ty_, thread_y)
        s[copy].bind(tx_, thread_x)
        s[copy].vectorize(xi_)
        s[copy].double_buffer()
    if not bind_first:
        bind()
    return s


def test_the_matmul_of_the_tutorials(check, golden):
    s = gpu_matmul(*matmul(16, 16, 8))
    golden(str(s.func), "matmul")
    met(s, check)
    text = str(s.func)
    assert [text.count(f"vthread.{axis}") for axis in "xyz"] == [2, 2, 0]


@pytest.mark.parametrize("bind_first", [True, False])
def test_odd_extents_and_any_order(check, bind_first):
    met(gpu_matmul(*matmul(13, 11, 7), bind_first=bind_first), check)


def test_symbolic_rows():
    n = te.var("n")
    s = gpu_matmul(*matmul(n, 12, 5))
    x = np.arange(65, dtype="float32").reshape(13, 5) % 7
    y = np.arange(60, dtype="float32").reshape(5, 12) % 5
    np.testing.assert_array_equal(interpret(s.func, x, y)[0], x @ y)
    prove(parse(str(s.func)))


def test_tiles_that_are_computed_at_a_loop_over_threads(check):
    """No serial loop is between the threads and the place: the copies are made outside of them."""
    A, B, C = matmul(8, 12, 10)
    s = te.create_schedule(C.op)
    copies = [s.cache_read(t, "shared", [C]) for t in (A, B)]
    by, ty = s[C].split(s[C].op.axis[0], factor=4)
    bx, tx = s[C].split(s[C].op.axis[1], factor=4)
    s[C].reorder(by, bx, ty, tx)
    s[C].bind(by, te.thread_axis("blockIdx.y"))
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(ty, te.thread_axis("threadIdx.y"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    for copy in copies:
        s[copy].compute_at(s[C], tx)
        fused = s[copy].fuse(*s[copy].op.axis)
        outer, x = s[copy].split(fused, factor=4)
        _, y = s[copy].split(outer, factor=4)
        s[copy].bind(y, te.thread_axis("threadIdx.y"))
        s[copy].bind(x, te.thread_axis("threadIdx.x"))
    met(s, check)


def test_a_convolution(check):
    """A tile of the image in each step over the channels, in the middle of four loops."""
    X = te.placeholder((3, 9, 8), name="X")
    W = te.placeholder((3, 3, 3), name="W")
    c, r = te.reduce_axis((0, 3), name="c"), te.reduce_axis((0, 3), name="r")
    Y = te.compute(
        (3, 7, 8), lambda f, y, x: te.sum(X[c, y + r, x] * W[f, c, r], axis=[c, r]), name="Y"
    )
    s = te.create_schedule(Y.op)
    XX = s.cache_read(X, "shared", [Y])
    YL = s.cache_write(Y, "local")
    f, y, x = s[Y].op.axis
    yo, yi = s[Y].split(y, factor=4)
    s[Y].reorder(f, yo, x, yi)
    s[Y].bind(f, te.thread_axis("blockIdx.x"))
    s[Y].bind(yo, te.thread_axis("vthread"))
    s[Y].bind(x, te.thread_axis("threadIdx.x"))
    s[YL].compute_at(s[Y], x)
    c, r = s[YL].op.reduce_axis
    s[YL].reorder(c, r, *s[YL].op.axis)
    s[XX].compute_at(s[YL], c)
    s[XX].bind(s[XX].op.axis[2], te.thread_axis("threadIdx.x"))
    met(s, check)


def test_more_virtual_threads_than_there_are_axes():
    _, _, C = matmul(8, 8, 8)
    s = te.create_schedule(C.op)
    parts = [*s[C].split(s[C].op.axis[0], factor=2), *s[C].split(s[C].op.axis[1], factor=2)]
    for part in parts:
        s[C].bind(part, te.thread_axis("vthread"))
    with pytest.raises(Exception, match="'vthread' is no thread axis"):
        s.normalize()
