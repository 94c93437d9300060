"""Some of the invented operators as expressions of TVM: those that its tuner is compared on."""

from __future__ import annotations

from typing import Any

from tvm import te

from benchmarks.peers.invented import BINOMIAL
from benchmarks.peers.task import Task, Unsupported

Tensors = dict[str, Any]


def expression(task: Task, inputs: list[Any]) -> Any:
    """The output of a row over its inputs."""
    make = OPERATORS.get(task.sizes["op"])
    if make is None:
        raise Unsupported(f"{task.sizes['op']} is not written for it")
    return make(task.sizes, dict(zip(task.inputs, inputs)))


def _axes(s: Any, *names: str) -> list[Any]:
    return [te.reduce_axis((0, s[name]), name=name) for name in names]


def _min_plus(s: Any, x: Tensors) -> Any:
    (k,) = _axes(s, "k")
    return te.compute(
        (s["m"], s["n"]), lambda i, j: te.min(x["a"][i, k] + x["b"][k, j], axis=k), name="out"
    )


def _distances(s: Any, x: Tensors) -> Any:
    (k,) = _axes(s, "k")

    def term(i: Any, j: Any) -> Any:
        apart = x["a"][i, k] - x["b"][j, k]
        return te.sum(apart * apart, axis=k)

    return te.compute((s["m"], s["n"]), term, name="out")


def _mttkrp(s: Any, x: Tensors) -> Any:
    j, k = _axes(s, "j", "k")
    return te.compute(
        (s["i"], s["r"]),
        lambda i, r: te.sum(x["a"][i, j, k] * x["b"][j, r] * x["c"][k, r], axis=[j, k]),
        name="out",
    )


def _chwn(s: Any, x: Tensors) -> Any:
    n, (c,) = s["size"] - s["r"] + 1, _axes(s, "c")
    dy, dx = (te.reduce_axis((0, s["r"]), name=name) for name in ("dy", "dx"))
    return te.compute(
        (s["k"], n, n, s["n"]),
        lambda k, h, w, b: te.sum(
            x["x"][c, h + dy, w + dx, b] * x["w"][k, c, dy, dx], axis=[c, dy, dx]
        ),
        name="out",
    )


def _blur(s: Any, x: Tensors) -> Any:
    n = s["size"] - 4

    def taps(read: Any) -> Any:
        total = BINOMIAL[0] * read(0)
        for d, w in list(enumerate(BINOMIAL))[1:]:
            total = total + w * read(d)
        return total

    rows = te.compute(
        (s["size"], n), lambda i, j: taps(lambda d: x["u"][i, j + d]), name="rows"
    )
    return te.compute((n, n), lambda i, j: taps(lambda d: rows[i + d, j]), name="out")


def _cosine(s: Any, x: Tensors) -> Any:
    m, a, b = s["m"], x["a"], x["b"]

    def dots(left: Any, right: Any, name: str) -> Any:
        (k,) = _axes(s, "n")
        return te.compute((m,), lambda i: te.sum(left[i, k] * right[i, k], axis=k), name=name)

    both, first, second = dots(a, b, "both"), dots(a, a, "first"), dots(b, b, "second")
    return te.compute((m,), lambda i: both[i] / te.sqrt(first[i] * second[i] + 1e-6), name="out")


OPERATORS = {
    "min_plus": _min_plus,
    "distances": _distances,
    "mttkrp": _mttkrp,
    "chwn": _chwn,
    "blur": _blur,
    "cosine": _cosine,
}
"""By the names of `benchmarks.peers.invented`."""
