"""PyTorch: the invented operators as one writes them there, of sizes and tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.peers.invented import BINOMIAL, TAPS
from benchmarks.peers.rows import Sizes


def _parts(s: Sizes, x: Any, first: int = 0) -> list[Any]:
    """The windows of `x`, whose rows and columns are the dimensions `first` and the next one."""
    n, r = s["size"] - s["r"] + 1, s["r"]
    return [x.narrow(first, dy, n).narrow(first + 1, dx, n) for dy in range(r) for dx in range(r)]


def _capsule(s: Sizes, x: Any, w: Any) -> Any:
    taps = w.reshape(-1, *w.shape[2:])
    return sum(
        torch.einsum("yxcpq,ckqt->yxkpt", part, tap) for part, tap in zip(_parts(s, x), taps)
    )


def _chwn(s: Sizes, x: Any, w: Any) -> Any:
    return torch.nn.functional.conv2d(x.permute(3, 0, 1, 2), w).permute(1, 2, 3, 0).contiguous()


def _local(s: Sizes, x: Any, w: Any) -> Any:
    taps = w.flatten(2, 3).unbind(2)
    return sum(torch.einsum("cyx,kcyx->kyx", part, tap) for part, tap in zip(_parts(s, x, 1), taps))


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
    taps = [tap for row in TAPS for tap in row]
    return sum(tap * part for tap, part in zip(taps, _parts({**s, "r": 3}, u)))


def _blur(s: Sizes, u: Any) -> Any:
    n = s["size"] - 4
    rows: Any = sum(w * u[:, d : d + n] for d, w in enumerate(BINOMIAL))
    return sum(w * rows[d : d + n] for d, w in enumerate(BINOMIAL))


def _edit(s: Sizes, last: Any, older: Any, a: Any, b: Any) -> Any:
    gap = torch.minimum(last[:, :-1], last[:, 1:]) + 1
    return torch.minimum(gap, older + (a != b).to(torch.int32))


def _lifting(s: Sizes, x: Any) -> Any:
    even, odd = x[:, ::2], x[:, 1::2]
    detail = odd - 0.5 * (even[:, :-1] + even[:, 1:])
    return even[:, 1:-1] + 0.25 * (detail[:, :-1] + detail[:, 1:]), detail


def _life(s: Sizes, cells: Any) -> Any:
    around: Any = sum(part.to(torch.int32) for part in _parts({**s, "r": 3}, cells))
    alive = cells[1:-1, 1:-1] == 1
    return ((around == 3) | (alive & (around == 4))).to(torch.uint8)


def _bilateral(s: Sizes, u: Any) -> Any:
    parts = _parts(s, u)
    here = parts[len(parts) // 2]
    weights = [torch.exp(-((part - here) ** 2)) for part in parts]
    return sum(w * p for w, p in zip(weights, parts)) / sum(weights)


def _pool_arg(s: Sizes, x: Any) -> Any:
    return torch.nn.functional.max_pool2d(x[None], 2, return_indices=True)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min_plus": lambda s, a, b: torch.amin(a[:, :, None] + b, 1),
    "distances": lambda s, a, b: torch.sum((a[:, None] - b) ** 2, 2),
    "mttkrp": lambda s, a, b, c: torch.einsum("ijk,jr,kr->ir", a, b, c),
    "bilinear": lambda s, x, w, y: torch.einsum("ni,oij,nj->no", x, w, y),
    "capsule": _capsule,
    "chwn": _chwn,
    "local": _local,
    "gated": lambda s, x, w, v: (x @ w) * torch.sigmoid(x @ v),
    "viterbi": lambda s, score, step, emit: torch.amax(score[:, :, None] + step, 1) + emit,
    "heat2d": _heat2d,
    "heat3d": _heat3d,
    "nine_taps": _nine_taps,
    "blur": _blur,
    "edit": _edit,
    "lifting": _lifting,
    "short_rows": lambda s, a, b: torch.amax(torch.sum(a * b, 2), 1),
    "pool_arg": _pool_arg,
    "life": _life,
    "bilateral": _bilateral,
    "cosine": lambda s, a, b: (
        torch.sum(a * b, 1) * torch.rsqrt(torch.sum(a * a, 1) * torch.sum(b * b, 1) + 1e-6)
    ),
}
