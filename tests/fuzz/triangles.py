"""Workloads whose loops have extents that depend on outer loops, as texts and in te."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorir import PrimFunc, parse, te

CAUSAL = """
def causal(Q: f32[{n}, {m}], K: f32[{n}, {m}], S: f32[{n}, {n}]):
    for h, g in grid({n}, {n}):
        with block("masked"):
            vh = spatial({n}, h)
            vg = spatial({n}, g)
            S[vh, vg] = -9.0
    for i in range({n}):
        for j in range(i + 1):
            for k in range({m}):
                with block("S"):
                    vi = spatial({n}, i)
                    vj = spatial({n}, j)
                    vk = reduce({m}, k)
                    with init():
                        S[vi, vj] = 0.0
                    S[vi, vj] = S[vi, vj] + Q[vi, vk] * K[vj, vk]
"""

SUMS = """
def sums(A: f32[{n}, {m}], C: f32[{n}, {m}], E: f32[{n}, {m}]):
    for i in range({n}):
        for j in range({m}):
            for k in range({extent}):
                with block("C"):
                    vi = spatial({n}, i)
                    vj = spatial({m}, j)
                    vk = reduce({n}, k)
                    with init():
                        C[vi, vj] = 1.0
                    C[vi, vj] = C[vi, vj] + A[vk, vj]
    for i_E, j_E in grid({n}, {m}):
        with block("E"):
            vi = spatial({n}, i_E)
            vj = spatial({m}, j_E)
            E[vi, vj] = C[vi, vj] * 2.0
"""

BAND = """
def band(A: f32[{n}, {n}], B: f32[{n}, {m}], C: f32[{n}, {m}]):
    for i in range({n}):
        for k in range(min(i + 3, {n}) - max(i - 2, 0)):
            for j in range({m}):
                with block("C"):
                    vi = spatial({n}, i)
                    vj = spatial({m}, j)
                    vk = reduce({n}, max(i - 2, 0) + k)
                    with init():
                        C[vi, vj] = 0.0
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""

POOL = """
def pool(A: f32[{n}, {m}], C: f32[4, {m}]):
    for i in range(4):
        for j in range({m}):
            for k in range(((i + 1) * {n} + 3) // 4 - i * {n} // 4):
                with block("C"):
                    vi = spatial(4, i)
                    vj = spatial({m}, j)
                    vk = reduce({n}, i * {n} // 4 + k)
                    with init():
                        C[vi, vj] = 0.0
                    C[vi, vj] = C[vi, vj] + A[vk, vj]
"""

SOLVE = """
def solve(L: f32[{n}, {n}], B: f32[{n}, {m}], X: f32[{n}, {m}]):
    for i in range({n}):
        for j in range({m}):
            with block("start"):
                vi = opaque({n}, i)
                vj = spatial({m}, j)
                X[vi, vj] = B[vi, vj]
        for k in range(i):
            for j_X in range({m}):
                with block("X"):
                    vi = opaque({n}, i)
                    vj = spatial({m}, j_X)
                    vk = reduce({n}, k)
                    X[vi, vj] = X[vi, vj] - L[vi, vk] * X[vk, vj]
"""

LOWER = """
def lower(A: f32[{n}, {n}], C: f32[{n}]):
    T = alloc(f32[{n}, {n}])
    for i in range({n}):
        for j in range({n} - i):
            with block("T"):
                vi = spatial({n}, i)
                vj = spatial({n}, i + j)
                T[vi, vj] = A[vi, vj] + 1.0
    for i_C in range({n}):
        for k in range(i_C + 1):
            with block("C"):
                vi = spatial({n}, i_C)
                vk = reduce({n}, k)
                with init():
                    C[vi] = 0.0
                C[vi] = C[vi] + T[vk, vi]
"""

TEXTS = (CAUSAL, SUMS, BAND, POOL, SOLVE, LOWER)
NAMES = ("causal", "sums", "band", "pool", "solve", "lower")
"""What the programs of texts are called."""


def by_text(d: Any) -> PrimFunc:
    n, m = d.extent("n", 1), d.extent("m", 1)
    extent = d.pick(["i", "i + 1", f"{n} - i", "i // 2", "min(i, 3)"])
    symbols = {str(s) for s in (n, m) if not isinstance(s, int)}
    text = d.pick([SUMS, *TEXTS]).format(n=n, m=m, extent=extent).strip()
    if "n" in symbols and text.startswith("def pool"):
        text = POOL.format(n=d.sizes["n"], m=m).strip()
    return parse("@prim_func\n" + text)


def by_axes(d: Any) -> PrimFunc:
    n, m = d.extent("n", 1), d.pick([1, 2, 3, 5])
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, m), name="B")
    ranges: list[Callable[[Any], Any]] = [
        lambda i: i + 1,
        lambda i: i,
        lambda i: (i, n),
        lambda i: (te.max(i - 1, 0), te.min(i + 2, n)),
        lambda i: te.min(n - i, 2),
    ]
    some = d.pick(ranges)
    least = 0 if isinstance(n, int) and n == 1 else 1  # of no terms only a sum has a value
    reduce = d.pick([te.sum, te.sum, *[te.max, te.argmax] * least])

    def element(i: Any, j: Any) -> Any:
        k = te.reduce_axis(some(i), name="k")
        return reduce(a[i, k] * b[k, j], axis=k)

    c = te.compute((n, m), element, name="C")
    e = te.compute((n, m), lambda i, j: c[i, j] + 1, name="E")
    return te.create_prim_func([a, b, e if d.flag() else c], name="by_axes")


def solved(d: Any) -> PrimFunc:
    """Forward substitution without division, as a scan whose steps sum up all rows before."""
    n, m = d.pick([2, 3, 5, 8]), d.extent("m")
    low = te.placeholder((n, n), name="L")
    b = te.placeholder((n, m), name="B")
    x = te.placeholder((n, m), name="x")
    first = te.compute((1, m), lambda t, j: b[t, j], name="first")

    def before(t: Any, j: Any) -> Any:
        k = te.reduce_axis(t, name="k")
        return te.sum(low[t, k] * x[k, j], axis=k)

    known = te.compute((n, m), before, name="known")
    step = te.compute((n, m), lambda t, j: b[t, j] - known[t, j], name="step")
    return te.create_prim_func([low, b, te.scan(first, step, x, name="X")], name="solved")
