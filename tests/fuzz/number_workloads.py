"""Workloads with numbers among their arguments."""

from __future__ import annotations

from typing import Any

from draws import Draw

from tensorir import PrimFunc, te


def sums_of_parts(d: Draw) -> PrimFunc:
    """Sums of so many neighbours as a call says, spread over so many columns as it says."""
    n, factor = d.extent("n", 0), d.number("factor", [1, 2, 3, 4, 5, 8, 20])
    columns = d.number("columns", [0, 1, 2, 5, 7])
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(factor, name="k")
    s = te.compute((n // factor,), lambda i: te.sum(a[i * factor + k], axis=k), name="S")
    c = te.compute((n // factor, columns), lambda i, j: s[i] * factor + j % 3, name="C")
    outputs = [c] if d.flag() else [s, c]
    return te.create_prim_func([a, factor, *outputs, columns], name="sums_of_parts")


def shifted(d: Draw) -> PrimFunc:
    """Rows moved by a number of either sign, and each so many times as another says."""
    n, m = d.extent("n"), d.extent("m", 0)
    shift, times = d.number("shift", [-20, -2, -1, 0, 1, 3, 20]), d.number("times", [1, 2, 3])
    a = te.placeholder((n, m), "int32" if d.flag() else "float32", name="A")

    def moved(i: Any, j: Any) -> Any:
        return te.if_then_else(te.all(i + shift >= 0, i + shift < n), a[i + shift, j], 0)

    b = te.compute((n, m), moved, name="B")
    c = te.compute((n * times, m), lambda i, j: b[i // times, j] * 2 + shift % 3, name="C")
    e = te.compute((n, m), lambda i, j: b[i, j] + a[(i * times) % n, j], name="E")
    return te.create_prim_func([shift, times, a, c if d.flag() else e], name="shifted")


def scaled(d: Draw) -> PrimFunc:
    """Steps of one element with numbers among the arguments that are no sizes: axpy, a leaky relu
    and a choice."""
    n, m = d.extent("n", 0), d.extent("m", 0)
    kind = d.pick(["float32", "float16", "float64", "int32", "int8", "uint8", "bfloat16"])
    low = 0 if kind[0] == "u" else -2
    alpha = d.number("alpha", [low, 0, 1, 3] if "int" in kind else [-0.5, 0.0, 2.0], kind)
    flag = d.number("flag", [False, True], "bool")
    a, b = (te.placeholder((n, m), "float32", name=name) for name in "AB")
    x = te.compute((n, m), lambda i, j: a[i, j] * alpha.astype("float32") + b[i, j], name="X")
    y = te.compute((n, m), lambda i, j: te.if_then_else(flag, x[i, j], b[i, j] - 1), name="Y")

    def leaky(i: Any, j: Any) -> Any:
        return te.if_then_else(y[i, j] > 0, y[i, j], y[i, j] * alpha.astype("float32"))

    z = te.compute((n, m), leaky, name="Z")
    order = [alpha, a, flag, b] if d.flag() else [a, b, alpha, flag]
    return te.create_prim_func([*order, *([z] if d.flag() else [y, z])], name="scaled")


def weighted_sums(d: Draw) -> PrimFunc:
    """Sums of terms with a factor and an offset that a call gives, and conditions on these."""
    n, m, r = d.extent("n", 0), d.extent("m"), d.extent("r", 0)
    beta = d.number("beta", [-1.0, 0.5, 4.0], "float32")
    k_least = d.number("least", [0, 2], "int16")
    a, b = te.placeholder((n, r), name="A"), te.placeholder((r, m), name="B")
    k = te.reduce_axis(r, name="k")
    where = beta > 0.0 if d.flag() else None

    def term(i: Any, j: Any) -> Any:
        return te.if_then_else(k >= k_least.astype("int64"), a[i, k] * b[k, j], 0.0) * beta

    c = te.compute((n, m), lambda i, j: te.sum(term(i, j), axis=k, where=where), name="C")
    e = te.compute((n, m), lambda i, j: c[i, j] / (beta * beta) + beta, name="E")
    return te.create_prim_func([a, b, e if d.flag() else c, k_least, beta], name="weighted_sums")
