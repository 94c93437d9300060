"""JAX: a function for each operator of the set `operators`, of attributes and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.peers.kinds import EPSILON

Attrs = Mapping[str, Any]


def _pool(a: Attrs, x: Any, start: float, step: Any) -> Any:
    k, stride, pad = a["kernel"], a.get("stride", a["kernel"]), a.get("padding", 0)
    last = a.get("layout") == "NHWC"

    def full(inner: Any, outer: Any) -> Any:
        return (outer, inner, inner, outer) if last else (outer, outer, inner, inner)

    window, pads = full(k, 1), full((pad, pad), (0, 0))
    return lax.reduce_window(x, start, step, window, full(stride, 1), pads)


def _resize(a: Attrs, x: Any) -> Any:
    size = (a["size"],) * 2
    last = a.get("layout") == "NHWC"
    shape = (x.shape[0], *size, x.shape[3]) if last else (*x.shape[:2], *size)
    if a.get("coordinates") == "align_corners":
        scale = jnp.array([(n - 1) / (o - 1) for n, o in zip(size, x.shape[2:])])
        moved = 0.5 - 0.5 * scale
        return jax.image.scale_and_translate(
            x, shape, (2, 3), scale, moved, "linear", antialias=False
        )
    method = "nearest" if a.get("method") == "nearest" else "linear"
    return jax.image.resize(x, shape, method, antialias=False)


def _slice(a: Attrs, x: Any) -> Any:
    steps = a.get("strides", [1] * len(a["axes"]))
    at = dict(zip(a["axes"], map(slice, a["begin"], a["end"], steps)))
    return x[tuple(at.get(d, slice(None)) for d in range(x.ndim))]


def _to_space(a: Attrs, x: Any) -> Any:
    (n, c, h, w), b = x.shape, a["block"]
    parts = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // b**2, h * b, w * b)


def _to_depth(a: Attrs, x: Any) -> Any:
    (n, c, h, w), b = x.shape, a["block"]
    parts = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b**2, h // b, w // b)


def _batch_norm(a: Attrs, x: Any, mean: Any, var: Any, gamma: Any, beta: Any) -> Any:
    scale = gamma * lax.rsqrt(var + EPSILON)
    shape = (-1,) if a.get("axis") == 3 else (-1, 1, 1)
    return x * scale.reshape(shape) + (beta - mean * scale).reshape(shape)


def _quantize(a: Attrs, x: Any) -> Any:
    return jnp.clip(jnp.round(x / a["scale"]), -128, 127).astype(a["dtype"])


NAMES = (
    "add multiply greater logical_and bitwise_xor power tanh exp sqrt isnan log sin where tril"
).split()

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{n: (lambda f: lambda a, *x: f(*x))(getattr(jnp, n)) for n in NAMES},
    **{
        n: (lambda f: lambda a, x: f(x))(getattr(jax.nn, n))
        for n in ("silu", "mish", "sigmoid", "relu")
    },
    "hardswish": lambda a, x: jax.nn.hard_swish(x),
    "gelu": lambda a, x: jax.nn.gelu(x, approximate=False),
    "erf": lambda a, x: lax.erf(x),
    "clip": lambda a, x: jnp.clip(x, a["low"], a["high"]),
    "prelu": lambda a, x, slope: jnp.where(x > 0, x, x * slope[:, None, None]),
    "batch_norm": _batch_norm,
    "max_pool2d": lambda a, x: _pool(a, x, -jnp.inf, lax.max),
    "avg_pool2d": lambda a, x: _pool(a, x, 0.0, lax.add) / a["kernel"] ** 2,
    "global_avg_pool": lambda a, x: jnp.mean(
        x, (1, 2) if a.get("layout") == "NHWC" else (2, 3), keepdims=True
    ),
    "resize2d": _resize,
    "depth_to_space": _to_space,
    "space_to_depth": _to_depth,
    "pad": lambda a, x: jnp.pad(x, a["padding"], mode=a.get("mode", "constant")),
    "flip": lambda a, x: jnp.flip(x, a["axis"]),
    "roll": lambda a, x: jnp.roll(x, a["shift"], a["axis"]),
    "concat": lambda a, *x: jnp.concatenate(x, a["axis"]),
    "stack": lambda a, *x: jnp.stack(x, a["axis"]),
    "slice": _slice,
    "take": lambda a, x, i: jnp.take(x, i, a.get("axis", 0), mode="clip"),
    "gather": lambda a, x, i: jnp.take_along_axis(x, i, a["axis"], mode="clip"),
    "one_hot": lambda a, i: jax.nn.one_hot(i, a["depth"]),
    "repeat": lambda a, x: jnp.repeat(x, a["repeats"], a["axis"]),
    "tile": lambda a, x: jnp.tile(x, a["reps"]),
    "transpose": lambda a, x: jnp.transpose(x, a["axes"]),
    "cast": lambda a, x: x.astype(a["dtype"]),
    "quantize": _quantize,
    "dequantize": lambda a, x: x.astype(jnp.float32) * a["scale"],
    "cumsum": lambda a, x: jnp.cumsum(x, a.get("axis", -1)),
    "cumprod": lambda a, x: jnp.cumprod(x, a.get("axis", -1)),
    "topk": lambda a, x: lax.top_k(x, a["k"])[0],
    "sort": lambda a, x: jnp.sort(x),
    "argsort": lambda a, x: jnp.argsort(x),
}
