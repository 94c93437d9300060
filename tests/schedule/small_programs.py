"""Programs that many schedule tests begin with, and inputs for them."""

from __future__ import annotations

import numpy as np

from schedule import Schedule
from tensorir import PrimFunc, te


def random_inputs(func: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    """Small integers as floats: every order of summation gives the same bits."""
    rng = np.random.default_rng(seed)
    found = []
    for p in func.inputs:
        shape = p.const_shape
        assert shape is not None
        found.append(rng.integers(-4, 5, shape).astype(p.dtype))
    return found


def make_matmul(m: int = 6, n: int = 10, k: int = 7) -> PrimFunc:
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


def make_sum(term, kind: str = "float32") -> PrimFunc:
    """C[i, j] = sum over k of a term of A[i, k], B[k, j] and S[k]."""
    a, b = te.placeholder((5, 3), kind, name="A"), te.placeholder((3, 7), kind, name="B")
    s, k = te.placeholder((3,), kind, name="S"), te.reduce_axis(3, name="k")
    c = te.compute((5, 7), lambda i, j: te.sum(term(a[i, k], b[k, j], s[k]), axis=k), name="C")
    return te.create_prim_func([a, b, s, c], name="sums")


def value(sch: Schedule) -> str:
    """The text of what block C stores."""
    return repr(sch.state.block("C").body.value)


def make_chain(n: int = 12, m: int = 5) -> PrimFunc:
    """B = A + 1, C = B * 2, D = C - A."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] - a[i, j], name="D")
    return te.create_prim_func([a, d], name="chain")


def make_conv(n: int = 11, taps: int = 3) -> PrimFunc:
    """A one-dimensional convolution with padding, bias and relu."""
    a = te.placeholder((n,), name="A")
    w = te.placeholder((taps,), name="W")
    half = taps // 2
    pad = te.compute(
        (n + taps - 1,),
        lambda i: te.if_then_else(te.all(i >= half, i < n + half), a[i - half], 0.0),
        name="pad",
    )
    r = te.reduce_axis(taps, name="r")
    c = te.compute((n,), lambda i: te.sum(pad[i + r] * w[r], axis=r), name="conv")
    d = te.compute((n,), lambda i: te.max(c[i] + 1.0, 0.0), name="relu")
    return te.create_prim_func([a, w, d], name="conv")


WORKLOADS = {"matmul": make_matmul, "chain": make_chain, "conv": make_conv}
