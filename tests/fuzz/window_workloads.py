"""Workloads that read windows: convolutions, pooling, stencils."""

from __future__ import annotations

from typing import Any

from draws import EXTENTS, Draw

from tensorir import PrimFunc, te


def conv1d(d: Draw) -> PrimFunc:
    taps, stride, gap, pad = (d.pick(x) for x in ([1, 2, 3], [1, 2, 3], [1, 2], [0, 1, 2]))
    size = d.pick([5, 6, 7, 8, 11, 13])
    channels = d.pick([1, 2, 3])
    out = (size + 2 * pad - gap * (taps - 1) - 1) // stride + 1
    a = te.placeholder((size, channels), name="A")
    w = te.placeholder((taps, channels), name="W")
    p = te.compute(
        (size + 2 * pad, channels),
        lambda i, c: te.if_then_else(te.all(i >= pad, i < size + pad), a[i - pad, c], 0.0),
        name="pad",
    )
    k, q = te.reduce_axis(taps, name="k"), te.reduce_axis(channels, name="q")
    c = te.compute(
        (out,), lambda i: te.sum(p[i * stride + k * gap, q] * w[k, q], axis=[k, q]), name="conv"
    )
    e = te.compute((out,), lambda i: te.max(c[i], 0.0), name="relu")
    return te.create_prim_func([a, w, e if d.flag() else c], name="conv1d")


def symbolic_conv(d: Draw) -> PrimFunc:
    d.sizes["n"] = d.pick(EXTENTS)
    n, taps = te.var("n"), d.pick([1, 2, 3])
    a = te.placeholder((n,), name="A")
    w = te.placeholder((taps,), name="W")
    p = te.compute(
        (n + taps,),
        lambda i: te.if_then_else(te.all(i >= 1, i <= n), a[i - 1], 0.0),
        name="pad",
    )
    k = te.reduce_axis(taps, name="k")
    c = te.compute((n,), lambda i: te.sum(p[i + k] * w[k], axis=k), name="conv")
    return te.create_prim_func([a, w, c], name="symbolic_conv")


def conv2d(d: Draw) -> PrimFunc:
    h, v, stride, gap = (d.pick(x) for x in ([4, 5, 6], [3, 4, 5], [1, 2], [1, 1, 2]))
    pad, out = d.pick([0, 1]), d.pick([1, 2, 3])
    rows, cols = ((x + 2 * pad - gap - 1) // stride + 1 for x in (h, v))
    a = te.placeholder((2, h, v), name="A")
    w = te.placeholder((out, 2, 2, 2), name="W")
    p = te.compute(
        (2, h + 2 * pad, v + 2 * pad),
        lambda c, y, x: te.if_then_else(
            te.all(y >= pad, y < h + pad, x >= pad, x < v + pad), a[c, y - pad, x - pad], 0.0
        ),
        name="pad",
    )
    c, y, x = te.reduce_axis(2, name="c"), te.reduce_axis(2, name="y"), te.reduce_axis(2, name="x")
    r = te.compute(
        (out, rows, cols),
        lambda o, i, j: te.sum(
            p[c, i * stride + y * gap, j * stride + x * gap] * w[o, c, y, x], axis=[c, y, x]
        ),
        name="conv",
    )
    return te.create_prim_func([a, w, r], name="conv2d")


def nchw_conv(d: Draw) -> PrimFunc:
    """A 3x3 convolution of many channels, which other algorithms take, and what follows it."""
    n, h, v = d.pick([1, 1, 2]), d.pick([3, 4, 5, 7]), d.pick([3, 4, 6])
    pad, out = d.pick([0, 1]), d.pick([1, 2])
    a = te.placeholder((n, 4, h, v), name="A")
    w = te.placeholder((out, 4, 3, 3), name="W")
    choose = te.select if d.flag() and not pad else te.if_then_else
    p = te.compute(
        (n, 4, h + 2 * pad, v + 2 * pad),
        lambda n, c, y, x: choose(
            te.all(y >= pad, y < h + pad, x >= pad, x < v + pad), a[n, c, y - pad, x - pad], 0.0
        ),
        name="pad",
    )
    c, r, s = te.reduce_axis(4, name="c"), te.reduce_axis(3, name="r"), te.reduce_axis(3, name="s")
    conv = te.compute(
        (n, out, h + 2 * pad - 2, v + 2 * pad - 2),
        lambda n, o, y, x: te.sum(p[n, c, y + r, x + s] * w[o, c, r, s], axis=[c, r, s]),
        name="conv",
    )
    last = te.compute(conv.shape, lambda *i: te.max(conv[i] - 1.0, 0.0), name="relu")
    return te.create_prim_func([a, w, last if d.flag() else conv], name="nchw_conv")


def stencil(d: Draw) -> PrimFunc:
    """Each stage reads neighbouring rows, or rows some way apart, of the one before."""
    n, m = d.extent("n", symbolic=False), d.extent("m")
    taps, gap = d.pick([2, 3, 4]), d.pick([1, 1, 2])
    reach = (taps - 1) * gap
    a = te.placeholder((n + 2 * reach, m), name="A")
    b = te.compute((n + 2 * reach, m), lambda i, j: a[i, j] * 2.0, name="B")
    k, q = te.reduce_axis(taps, name="k"), te.reduce_axis(taps, name="q")
    c = te.compute((n + reach, m), lambda i, j: te.sum(b[i + k * gap, j], axis=k), name="C")
    e = te.compute((n, m), lambda i, j: te.max(c[i + q * gap, j], axis=q), name="E")
    return te.create_prim_func([a, e if d.flag() else c], name="stencil")


def stencil_chain(d: Draw) -> PrimFunc:
    """Stages that each read neighbouring rows of the one before."""
    m, stages = d.extent("m"), d.pick([2, 3])
    t = a = te.placeholder((d.pick([9, 11, 14, 15]), m), name="A")
    for name in "BCD"[:stages]:
        taps, step = d.pick([2, 3]), d.pick([1, 1, 1, 2])
        taps = min(taps, int(t.shape[0].value))
        rows = (int(t.shape[0].value) - taps) // step + 1

        def row(y: Any, j: Any, t: Any = t, taps: int = taps, step: int = step) -> Any:
            total = t[y * step, j] * 2.0
            for k in range(1, taps):
                total = total + t[y * step + k, j]
            return total

        t = te.compute((rows, m), row, name=name)
    return te.create_prim_func([a, t], name="stencil_chain")


def pooling(d: Draw) -> PrimFunc:
    n, window, stride = d.pick([5, 6, 7, 9]), d.pick([1, 2, 3]), d.pick([1, 2, 3])
    m = d.extent("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(window, name="k")
    rows = (n - window) // stride + 1
    c = te.compute((rows, m), lambda i, j: te.max(a[i * stride + k, j], axis=k), name="pool")
    up = te.compute((rows * 2, m), lambda i, j: c[i // 2, j] + a[0, j], name="up")
    return te.create_prim_func([a, up], name="pooling")
