"""The invented operators as tensor expressions: what invented.py has the answers of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.peers.invented import BINOMIAL, TAPS, invented_inputs
from benchmarks.peers.rows import Sizes
from tensorir import Expr, PrimFunc, any_of, te
from tensorir.te import Tensor

Inputs = Mapping[str, Tensor]


def invented(s: Sizes) -> PrimFunc:
    """The program of a row: its inputs in order, then its outputs."""
    inputs = {}
    for name, text in invented_inputs(s).items():
        dtype, shape, *_ = text.split()
        inputs[name] = te.placeholder(tuple(map(int, shape.split(","))), dtype, name=name)
    made = OPERATORS[s["op"]](s, inputs)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    return te.create_prim_func([*inputs.values(), *outputs], name=s["op"])


def _axes(s: Sizes, *names: str) -> list[Any]:
    return [te.reduce_axis(s[name], name=name) for name in names]


def _min_plus(s: Sizes, x: Inputs) -> Tensor:
    (k,) = _axes(s, "k")
    return te.compute(
        (s["m"], s["n"]), lambda i, j: te.min(x["a"][i, k] + x["b"][k, j], axis=k), name="out"
    )


def _distances(s: Sizes, x: Inputs) -> Tensor:
    (k,) = _axes(s, "k")

    def term(i: Expr, j: Expr) -> Expr:
        apart = x["a"][i, k] - x["b"][j, k]
        return te.sum(apart * apart, axis=k)

    return te.compute((s["m"], s["n"]), term, name="out")


def _mttkrp(s: Sizes, x: Inputs) -> Tensor:
    j, k = _axes(s, "j", "k")
    return te.compute(
        (s["i"], s["r"]),
        lambda i, r: te.sum(x["a"][i, j, k] * x["b"][j, r] * x["c"][k, r], axis=[j, k]),
        name="out",
    )


def _bilinear(s: Sizes, x: Inputs) -> Tensor:
    i, j = _axes(s, "i", "j")
    return te.compute(
        (s["n"], s["o"]),
        lambda n, o: te.sum(x["x"][n, i] * x["w"][o, i, j] * x["y"][n, j], axis=[i, j]),
        name="out",
    )


def _window(s: Sizes) -> tuple[int, Any, Any]:
    return s["size"] - s["r"] + 1, te.reduce_axis(s["r"], "dy"), te.reduce_axis(s["r"], "dx")


def _capsule(s: Sizes, x: Inputs) -> Tensor:
    (size, dy, dx), (c, q) = _window(s), _axes(s, "c", "p")
    return te.compute(
        (size, size, s["k"], s["p"], s["p"]),
        lambda h, w, k, p, t: te.sum(
            x["x"][h + dy, w + dx, c, p, q] * x["w"][dy, dx, c, k, q, t], axis=[dy, dx, c, q]
        ),
        name="out",
    )


def _chwn(s: Sizes, x: Inputs) -> Tensor:
    (size, dy, dx), (c,) = _window(s), _axes(s, "c")
    return te.compute(
        (s["k"], size, size, s["n"]),
        lambda k, h, w, n: te.sum(
            x["x"][c, h + dy, w + dx, n] * x["w"][k, c, dy, dx], axis=[c, dy, dx]
        ),
        name="out",
    )


def _local(s: Sizes, x: Inputs) -> Tensor:
    (size, dy, dx), (c,) = _window(s), _axes(s, "c")
    return te.compute(
        (s["k"], size, size),
        lambda k, h, w: te.sum(
            x["x"][c, h + dy, w + dx] * x["w"][k, c, dy, dx, h, w], axis=[c, dy, dx]
        ),
        name="out",
    )


def _gated(s: Sizes, x: Inputs) -> Tensor:
    shape, (k,), (q,) = (s["m"], s["n"]), _axes(s, "k"), _axes(s, "k")
    value = te.compute(shape, lambda i, j: te.sum(x["x"][i, k] * x["w"][k, j], axis=k), name="y")
    gate = te.compute(shape, lambda i, j: te.sum(x["x"][i, q] * x["v"][q, j], axis=q), name="gate")
    return te.compute(shape, lambda i, j: value[i, j] * te.sigmoid(gate[i, j]), name="out")


def _viterbi(s: Sizes, x: Inputs) -> Tensor:
    shape, state = (s["n"], s["s"]), te.reduce_axis(s["s"], "state")
    best = te.compute(
        shape, lambda n, t: te.max(x["score"][n, state] + x["step"][state, t], axis=state), name="m"
    )
    return te.compute(shape, lambda n, t: best[n, t] + x["emit"][n, t], name="out")


def _heat2d(s: Sizes, x: Inputs) -> Tensor:
    def step(i: Expr, j: Expr) -> Expr:
        u = x["u"]
        near = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]
        return u[i + 1, j + 1] + 0.125 * (near - 4.0 * u[i + 1, j + 1])

    return te.compute((s["size"] - 2,) * 2, step, name="out")


def _heat3d(s: Sizes, x: Inputs) -> Tensor:
    def step(i: Expr, j: Expr, k: Expr) -> Expr:
        u, here = x["u"], x["u"][i + 1, j + 1, k + 1]
        near = u[i, j + 1, k + 1] + u[i + 2, j + 1, k + 1] + u[i + 1, j, k + 1]
        near = near + u[i + 1, j + 2, k + 1] + u[i + 1, j + 1, k] + u[i + 1, j + 1, k + 2]
        return here + 0.125 * (near - 6.0 * here)

    return te.compute((s["size"] - 2,) * 3, step, name="out")


def _summed(terms: Sequence[Expr]) -> Expr:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _nine_taps(s: Sizes, x: Inputs) -> Tensor:
    return te.compute(
        (s["size"] - 2,) * 2,
        lambda i, j: _summed(
            [TAPS[dy][dx] * x["u"][i + dy, j + dx] for dy in range(3) for dx in range(3)]
        ),
        name="out",
    )


def _blur(s: Sizes, x: Inputs) -> Tensor:
    n = s["size"] - 4
    rows = te.compute(
        (s["size"], n),
        lambda i, j: _summed([w * x["u"][i, j + d] for d, w in enumerate(BINOMIAL)]),
        name="rows",
    )
    return te.compute(
        (n, n), lambda i, j: _summed([w * rows[i + d, j] for d, w in enumerate(BINOMIAL)]),
        name="out",
    )  # fmt: skip


def _edit(s: Sizes, x: Inputs) -> Tensor:
    def step(p: Expr, i: Expr) -> Expr:
        change = te.if_then_else(x["a"][p, i] == x["b"][p, i], 0, 1).astype("int32")
        gap = te.min(x["last"][p, i], x["last"][p, i + 1]) + 1
        return te.min(gap, x["older"][p, i] + change)

    return te.compute((s["pairs"], s["n"]), step, name="out")


def _lifting(s: Sizes, x: Inputs) -> tuple[Tensor, Tensor]:
    m, n, u = s["rows"], s["n"], x["x"]
    detail = te.compute(
        (m, n + 1),
        lambda r, i: u[r, 2 * i + 1] - 0.5 * (u[r, 2 * i] + u[r, 2 * i + 2]), name="detail",
    )  # fmt: skip
    smooth = te.compute(
        (m, n),
        lambda r, i: u[r, 2 * i + 2] + 0.25 * (detail[r, i] + detail[r, i + 1]), name="smooth",
    )  # fmt: skip
    return smooth, detail


def _short_rows(s: Sizes, x: Inputs) -> Tensor:
    k, row = te.reduce_axis(s["n"], "k"), te.reduce_axis(s["rows"], "row")
    dots = te.compute(
        (s["groups"], s["rows"]),
        lambda g, r: te.sum(x["a"][g, r, k] * x["b"][g, r, k], axis=k), name="dots",
    )  # fmt: skip
    return te.compute((s["groups"],), lambda g: te.max(dots[g, row], axis=row), name="out")


def _later(old: Any, new: Any) -> tuple[Expr, Expr]:
    """Of two places with their values the one of the larger value, the first of equals."""
    keep = any_of(old[1] > new[1], (old[1] == new[1]) & (old[0] <= new[0]))
    return te.if_then_else(keep, old[0], new[0]), te.if_then_else(keep, old[1], new[1])


def _pool_arg(s: Sizes, x: Inputs) -> tuple[Tensor, Tensor]:
    n, dy, dx = s["size"] // 2, te.reduce_axis(2, "dy"), te.reduce_axis(2, "dx")
    largest = te.comm_reducer(
        _later, lambda place, value: (te.max_value(place), te.min_value(value)), name="largest"
    )

    def window(c: Expr, h: Expr, w: Expr) -> Any:
        place = ((h * 2 + dy) * s["size"] + w * 2 + dx).astype("int32")
        return largest((place, x["x"][c, h * 2 + dy, w * 2 + dx]), axis=[dy, dx])

    place, value = te.compute((s["c"], n, n), window, name="pooled")
    return value, place


def _life(s: Sizes, x: Inputs) -> Tensor:
    def step(i: Expr, j: Expr) -> Expr:
        around = [x["cells"][i + dy, j + dx].astype("int32") for dy in range(3) for dx in range(3)]
        count, alive = _summed(around), x["cells"][i + 1, j + 1] == 1
        return te.if_then_else(
            any_of(count == 3, alive & (count == 4)), te.const(1, "uint8"), te.const(0, "uint8")
        )

    return te.compute((s["size"] - 2,) * 2, step, name="out")


def _bilateral(s: Sizes, x: Inputs) -> Tensor:
    (n, dy, dx), (ey, ex), half = _window(s), _window(s)[1:], s["r"] // 2
    shape, u = (n, n), x["u"]

    def weight(i: Expr, j: Expr, a: Expr, b: Expr) -> Expr:
        apart = u[i + a, j + b] - u[i + half, j + half]
        return te.exp(-(apart * apart))

    total = te.compute(
        shape,
        lambda i, j: te.sum(weight(i, j, dy, dx) * u[i + dy, j + dx], axis=[dy, dx]), name="total",
    )  # fmt: skip
    weights = te.compute(
        shape, lambda i, j: te.sum(weight(i, j, ey, ex), axis=[ey, ex]), name="weights"
    )
    return te.compute(shape, lambda i, j: total[i, j] / weights[i, j], name="out")


def _cosine(s: Sizes, x: Inputs) -> Tensor:
    m, a, b = s["m"], x["a"], x["b"]

    def dots(left: Tensor, right: Tensor, name: str) -> Tensor:
        (k,) = _axes(s, "n")
        return te.compute((m,), lambda i: te.sum(left[i, k] * right[i, k], axis=k), name=name)

    both, first, second = dots(a, b, "both"), dots(a, a, "first"), dots(b, b, "second")
    return te.compute((m,), lambda i: both[i] * te.rsqrt(first[i] * second[i] + 1e-6), name="out")


OPERATORS: Mapping[str, Callable[[Sizes, Inputs], Any]] = {
    "min_plus": _min_plus,
    "distances": _distances,
    "mttkrp": _mttkrp,
    "bilinear": _bilinear,
    "capsule": _capsule,
    "chwn": _chwn,
    "local": _local,
    "gated": _gated,
    "viterbi": _viterbi,
    "heat2d": _heat2d,
    "heat3d": _heat3d,
    "nine_taps": _nine_taps,
    "blur": _blur,
    "edit": _edit,
    "lifting": _lifting,
    "short_rows": _short_rows,
    "pool_arg": _pool_arg,
    "life": _life,
    "bilateral": _bilateral,
    "cosine": _cosine,
}
