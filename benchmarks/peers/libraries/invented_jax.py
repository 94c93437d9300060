"""JAX: the invented operators as one writes them there; jax_forms compiles them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.peers.invented import BINOMIAL, TAPS
from benchmarks.peers.rows import Sizes


def _conv(x: Any, w: Any, layouts: tuple[str, str, str]) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=layouts)


def _capsule(s: Sizes, x: Any, w: Any) -> Any:
    n, r = s["size"] - s["r"] + 1, s["r"]
    return sum(
        jnp.einsum("yxcpq,ckqt->yxkpt", x[dy : dy + n, dx : dx + n], w[dy, dx])
        for dy in range(r)
        for dx in range(r)
    )


def _local(s: Sizes, x: Any, w: Any) -> Any:
    n, r = s["size"] - s["r"] + 1, s["r"]
    return sum(
        jnp.einsum("cyx,kcyx->kyx", x[:, dy : dy + n, dx : dx + n], w[:, :, dy, dx])
        for dy in range(r)
        for dx in range(r)
    )


def _heat2d(s: Sizes, u: Any) -> Any:
    here = u[1:-1, 1:-1]
    near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return here + 0.125 * (near - 4 * here)


def _heat3d(s: Sizes, u: Any) -> Any:
    one = slice(1, -1)
    near = u[:-2, one, one] + u[2:, one, one] + u[one, :-2, one] + u[one, 2:, one]
    near = near + u[one, one, :-2] + u[one, one, 2:]
    return u[one, one, one] + 0.125 * (near - 6 * u[one, one, one])


def _nine_taps(s: Sizes, u: Any) -> Any:
    n = s["size"] - 2
    return sum(TAPS[dy][dx] * u[dy : dy + n, dx : dx + n] for dy in range(3) for dx in range(3))


def _blur(s: Sizes, u: Any) -> Any:
    n = s["size"] - 4
    rows: Any = sum(w * u[:, d : d + n] for d, w in enumerate(BINOMIAL))
    return sum(w * rows[d : d + n] for d, w in enumerate(BINOMIAL))


def _edit(s: Sizes, last: Any, older: Any, a: Any, b: Any) -> Any:
    gap = jnp.minimum(last[:, :-1], last[:, 1:]) + 1
    return jnp.minimum(gap, older + (a != b).astype(jnp.int32))


def _lifting(s: Sizes, x: Any) -> Any:
    even, odd = x[:, ::2], x[:, 1::2]
    detail = odd - 0.5 * (even[:, :-1] + even[:, 1:])
    return even[:, 1:-1] + 0.25 * (detail[:, :-1] + detail[:, 1:]), detail


def _pool_arg(s: Sizes, x: Any) -> Any:
    n = s["size"] // 2
    parts = x[:, : 2 * n, : 2 * n].reshape(-1, n, 2, n, 2).transpose(0, 1, 3, 2, 4)
    parts = parts.reshape(-1, n, n, 4)
    place = jnp.argmax(parts, axis=3).astype(jnp.int32)
    row, column = jnp.arange(n)[:, None] * 2 + place // 2, jnp.arange(n) * 2 + place % 2
    return parts.max(axis=3), (row * s["size"] + column).astype(jnp.int32)


def _life(s: Sizes, cells: Any) -> Any:
    n, wide = s["size"] - 2, cells.astype(jnp.int32)
    around: Any = sum(wide[dy : dy + n, dx : dx + n] for dy in range(3) for dx in range(3))
    alive = cells[1:-1, 1:-1] == 1
    return ((around == 3) | (alive & (around == 4))).astype(jnp.uint8)


def _bilateral(s: Sizes, u: Any) -> Any:
    r, n = s["r"], s["size"] - s["r"] + 1
    here = u[r // 2 : r // 2 + n, r // 2 : r // 2 + n]
    parts = [u[dy : dy + n, dx : dx + n] for dy in range(r) for dx in range(r)]
    weights = [jnp.exp(-((part - here) ** 2)) for part in parts]
    return sum(w * p for w, p in zip(weights, parts)) / sum(weights)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min_plus": lambda s, a, b: jnp.min(a[:, :, None] + b, axis=1),
    "distances": lambda s, a, b: jnp.sum((a[:, None] - b) ** 2, axis=2),
    "mttkrp": lambda s, a, b, c: jnp.einsum("ijk,jr,kr->ir", a, b, c, optimize="optimal"),
    "bilinear": lambda s, x, w, y: jnp.einsum("ni,oij,nj->no", x, w, y, optimize="optimal"),
    "capsule": _capsule,
    "chwn": lambda s, x, w: _conv(x, w, ("CHWN", "OIHW", "CHWN")),
    "local": _local,
    "gated": lambda s, x, w, v: (x @ w) * jax.nn.sigmoid(x @ v),
    "viterbi": lambda s, score, step, emit: jnp.max(score[:, :, None] + step, axis=1) + emit,
    "heat2d": _heat2d,
    "heat3d": _heat3d,
    "nine_taps": _nine_taps,
    "blur": _blur,
    "edit": _edit,
    "lifting": _lifting,
    "short_rows": lambda s, a, b: jnp.max(jnp.sum(a * b, axis=2), axis=1),
    "pool_arg": _pool_arg,
    "life": _life,
    "bilateral": _bilateral,
    "cosine": lambda s, a, b: (
        jnp.sum(a * b, axis=1)
        * jax.lax.rsqrt(jnp.sum(a * a, axis=1) * jnp.sum(b * b, axis=1) + 1e-6)
    ),
}
