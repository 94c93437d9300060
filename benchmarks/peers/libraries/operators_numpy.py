"""NumPy: the operators of the set `operators` that one call, or a few, of NumPy do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.peers.kinds import operator_out
from benchmarks.peers.task import Call, Task, Unsupported

Attrs = Mapping[str, Any]
Into = Callable[..., np.ndarray]


def _copy(view: Callable[..., np.ndarray]) -> Into:
    """What is another view of its input, copied."""

    def into(a: Attrs, out: np.ndarray, *x: np.ndarray) -> np.ndarray:
        np.copyto(out, view(a, *x), casting="unsafe")
        return out

    return into


def _ufunc(function: Callable[..., Any]) -> Into:
    return lambda a, out, *x: function(*x, out=out)


def _strided(a: Attrs, x: np.ndarray) -> np.ndarray:
    steps = a.get("strides", [1] * len(a["axes"]))
    at = dict(zip(a["axes"], map(slice, a["begin"], a["end"], steps)))
    return x[tuple(at.get(d, slice(None)) for d in range(x.ndim))]


def _pad(a: Attrs, out: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.pad(x, a["padding"], mode=a.get("mode", "constant"))


def _blocks(a: Attrs, x: np.ndarray) -> np.ndarray:
    (n, c, h, w), b = x.shape, a["block"]
    parts = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // b**2, h * b, w * b)


def _depth(a: Attrs, x: np.ndarray) -> np.ndarray:
    (n, c, h, w), b = x.shape, a["block"]
    parts = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b**2, h // b, w // b)


FUNCTIONS: Mapping[str, Into] = {
    "add": _ufunc(np.add),
    "multiply": _ufunc(np.multiply),
    "greater": _ufunc(np.greater),
    "logical_and": _ufunc(np.logical_and),
    "bitwise_xor": _ufunc(np.bitwise_xor),
    "power": _ufunc(np.power),
    **{name: _ufunc(getattr(np, name)) for name in ("tanh", "exp", "sqrt", "isnan", "log", "sin")},
    "relu": lambda a, out, x: np.maximum(x, 0, out=out),
    "clip": lambda a, out, x: np.clip(x, a["low"], a["high"], out=out),
    "where": lambda a, out, c, x, y: np.where(c, x, y),
    "cast": _copy(lambda a, x: x),
    "dequantize": lambda a, out, x: np.multiply(x, np.float32(a["scale"]), out=out),
    "transpose": _copy(lambda a, x: x.transpose(a["axes"])),
    "slice": _copy(_strided),
    "flip": _copy(lambda a, x: np.flip(x, a["axis"])),
    "roll": lambda a, out, x: np.roll(x, a["shift"], a["axis"]),
    "depth_to_space": lambda a, out, x: _blocks(a, x),
    "space_to_depth": lambda a, out, x: _depth(a, x),
    "pad": _pad,
    "concat": lambda a, out, *x: np.concatenate(x, a["axis"], out=out),
    "stack": lambda a, out, *x: np.stack(x, a["axis"], out=out),
    "take": lambda a, out, x, i: np.take(x, i, a.get("axis", 0), out=out, mode="clip"),
    "gather": lambda a, out, x, i: np.take_along_axis(x, i, a["axis"]),
    "repeat": lambda a, out, x: np.repeat(x, a["repeats"], a["axis"]),
    "tile": lambda a, out, x: np.tile(x, a["reps"]),
    "tril": lambda a, out, x: np.tril(x),
    "global_avg_pool": lambda a, out, x: np.mean(
        x, (1, 2) if a.get("layout") == "NHWC" else (2, 3), keepdims=True
    ),
    "cumsum": lambda a, out, x: np.cumsum(x, a.get("axis", -1), out=out),
    "cumprod": lambda a, out, x: np.cumprod(x, a.get("axis", -1), out=out),
    "sort": lambda a, out, x: np.sort(x),
    "argsort": lambda a, out, x: np.argsort(x, kind="stable"),
}


def operator(task: Task) -> dict[str, Call]:
    """The row into an output made once, where the call takes one."""
    s = task.sizes
    if s["op"] not in FUNCTIONS:
        raise Unsupported(f"{s['op']} takes many calls of NumPy")
    function, attrs, arrays = FUNCTIONS[s["op"]], s["attrs"], task.arrays
    out = task.out(operator_out(s))
    return {"numpy": lambda: function(attrs, out, *arrays)}
