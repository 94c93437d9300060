"""Operators that nobody has a library for: their inputs and right answers. Only NumPy is needed.

They were written down to see how general schedules are. Half of them at most are products; the
others are stencils, steps of dynamic programs, lifting, pooling and formulas over windows and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from benchmarks.peers.rows import Row, Sizes

Shapes = dict[str, str]
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Invented:
    """One operator over all of its sizes.

    shapes   from the sizes to the inputs as texts: "float32 3,4", "int32 3,4 <5" for 0 to 4
    answer   from the sizes and the inputs, floats as float64, to the (first) output
    flops    operations of the usual algorithm; 0 where memory matters
    dtype    of the output
    """

    shapes: Callable[[Sizes], Shapes]
    answer: Callable[[Sizes, Arrays], np.ndarray]
    flops: Callable[[Sizes], int] = lambda s: 0
    dtype: str = "float32"


def invented_inputs(s: Sizes) -> Shapes:
    """The inputs of a row by name, as texts."""
    return INVENTED[s["op"]].shapes(s)


def _floats(**shapes: tuple[int, ...]) -> Shapes:
    return {name: f"float32 {','.join(map(str, shape))}" for name, shape in shapes.items()}


def _times(factor: int, *names: str) -> Callable[[Sizes], int]:
    return lambda s: factor * prod(s[name] for name in names)


def _matrices(s: Sizes) -> Shapes:
    return _floats(a=(s["m"], s["k"]), b=(s["k"], s["n"]))


def _min_plus(s: Sizes, x: Arrays) -> np.ndarray:
    out = np.full((s["m"], s["n"]), np.inf)
    for k in range(s["k"]):
        np.minimum(out, x["a"][:, k, None] + x["b"][k], out=out)
    return out


def _distances(s: Sizes, x: Arrays) -> np.ndarray:
    out = np.zeros((s["m"], s["n"]))
    for k in range(s["k"]):
        out += (x["a"][:, k, None] - x["b"][:, k]) ** 2
    return out


def _mttkrp(s: Sizes, x: Arrays) -> np.ndarray:
    return np.einsum("ijk,jr,kr->ir", x["a"], x["b"], x["c"], optimize=True)


def _bilinear(s: Sizes, x: Arrays) -> np.ndarray:
    return np.einsum("ni,oij,nj->no", x["x"], x["w"], x["y"], optimize=True)


def _out(s: Sizes) -> int:
    """Rows and columns of what a window of r x r gives of a picture of `size`, without padding."""
    return int(s["size"] - s["r"] + 1)


def _capsule_shapes(s: Sizes) -> Shapes:
    p, r, size = s["p"], s["r"], s["size"]
    return _floats(x=(size, size, s["c"], p, p), w=(r, r, s["c"], s["k"], p, p))


def _capsule(s: Sizes, x: Arrays) -> np.ndarray:
    n = _out(s)
    out = np.zeros((n, n, s["k"], s["p"], s["p"]))
    for dy, dx in np.ndindex(s["r"], s["r"]):
        part = x["x"][dy : dy + n, dx : dx + n]
        out += np.einsum("yxcpq,ckqt->yxkpt", part, x["w"][dy, dx], optimize=True)
    return out


def _chwn_shapes(s: Sizes) -> Shapes:
    size, r = s["size"], s["r"]
    return _floats(x=(s["c"], size, size, s["n"]), w=(s["k"], s["c"], r, r))


def _chwn(s: Sizes, x: Arrays) -> np.ndarray:
    n = _out(s)
    out = np.zeros((s["k"], n, n, s["n"]))
    for dy, dx in np.ndindex(s["r"], s["r"]):
        part = x["x"][:, dy : dy + n, dx : dx + n]
        out += np.tensordot(x["w"][:, :, dy, dx], part, 1)
    return out


def _local_shapes(s: Sizes) -> Shapes:
    size, r, n = s["size"], s["r"], _out(s)
    return _floats(x=(s["c"], size, size), w=(s["k"], s["c"], r, r, n, n))


def _local(s: Sizes, x: Arrays) -> np.ndarray:
    n = _out(s)
    out = np.zeros((s["k"], n, n))
    for dy, dx in np.ndindex(s["r"], s["r"]):
        part = x["x"][:, dy : dy + n, dx : dx + n]
        out += np.einsum("cyx,kcyx->kyx", part, x["w"][:, :, dy, dx], optimize=True)
    return out


def _gated(s: Sizes, x: Arrays) -> np.ndarray:
    return (x["x"] @ x["w"]) / (1 + np.exp(-(x["x"] @ x["v"])))


def _viterbi(s: Sizes, x: Arrays) -> np.ndarray:
    best = np.full((s["n"], s["s"]), -np.inf)
    for state in range(s["s"]):
        np.maximum(best, x["score"][:, state, None] + x["step"][state], out=best)
    return best + x["emit"]


def _heat2d(s: Sizes, x: Arrays) -> np.ndarray:
    u = x["u"]
    near = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return u[1:-1, 1:-1] + 0.125 * (near - 4 * u[1:-1, 1:-1])


def _heat3d(s: Sizes, x: Arrays) -> np.ndarray:
    u, one = x["u"], slice(1, -1)
    near = u[:-2, one, one] + u[2:, one, one] + u[one, :-2, one] + u[one, 2:, one]
    near = near + u[one, one, :-2] + u[one, one, 2:]
    return u[one, one, one] + 0.125 * (near - 6 * u[one, one, one])


TAPS = ((0.0625, 0.125, 0.0625), (0.125, 0.25, 0.125), (0.0625, 0.125, 0.0625))
BINOMIAL = (0.0625, 0.25, 0.375, 0.25, 0.0625)


def _nine_taps(s: Sizes, x: Arrays) -> np.ndarray:
    n = s["size"] - 2
    return sum(TAPS[dy][dx] * x["u"][dy : dy + n, dx : dx + n] for dy, dx in np.ndindex(3, 3))  # type: ignore[return-value]


def _blur(s: Sizes, x: Arrays) -> np.ndarray:
    n = s["size"] - 4
    rows = sum(w * x["u"][:, d : d + n] for d, w in enumerate(BINOMIAL))
    return sum(w * rows[d : d + n] for d, w in enumerate(BINOMIAL))  # type: ignore


def _edit_shapes(s: Sizes) -> Shapes:
    p, n = s["pairs"], s["n"]
    return {
        "last": f"int32 {p},{n + 1} <100", "older": f"int32 {p},{n} <100",
        "a": f"int32 {p},{n} <4", "b": f"int32 {p},{n} <4",
    }  # fmt: skip


def _edit(s: Sizes, x: Arrays) -> np.ndarray:
    gap = np.minimum(x["last"][:, :-1], x["last"][:, 1:]) + 1
    return np.minimum(gap, x["older"] + (x["a"] != x["b"])).astype(np.int64)


def _lifting(s: Sizes, x: Arrays) -> np.ndarray:
    even, odd = x["x"][:, ::2], x["x"][:, 1::2]
    detail = odd - 0.5 * (even[:, :-1] + even[:, 1:])
    return even[:, 1:-1] + 0.25 * (detail[:, :-1] + detail[:, 1:])


def _short_shapes(s: Sizes) -> Shapes:
    shape = (s["groups"], s["rows"], s["n"])
    return _floats(a=shape, b=shape)


def _short(s: Sizes, x: Arrays) -> np.ndarray:
    return (x["a"] * x["b"]).sum(axis=2).max(axis=1)


def _windows(s: Sizes, x: Arrays) -> np.ndarray:
    n = s["size"] // 2
    parts = x["x"][:, : 2 * n, : 2 * n].reshape(-1, n, 2, n, 2)
    return parts.transpose(0, 1, 3, 2, 4).reshape(-1, n, n, 4)


def _pool_arg(s: Sizes, x: Arrays) -> np.ndarray:
    return _windows(s, x).max(axis=3)


def _life(s: Sizes, x: Arrays) -> np.ndarray:
    cells, n = x["cells"].astype(np.int64), s["size"] - 2
    around = sum(cells[dy : dy + n, dx : dx + n] for dy, dx in np.ndindex(3, 3))
    alive = cells[1:-1, 1:-1]
    return ((around == 3) | ((alive == 1) & (around == 4))).astype(np.int64)


def _bilateral(s: Sizes, x: Arrays) -> np.ndarray:
    n, r, u = _out(s), s["r"], x["u"]
    centre = u[r // 2 : r // 2 + n, r // 2 : r // 2 + n]
    total = weights = np.zeros((n, n))
    for dy, dx in np.ndindex(r, r):
        part = u[dy : dy + n, dx : dx + n]
        weight = np.exp(-((part - centre) ** 2))
        total, weights = total + weight * part, weights + weight
    return total / weights


def _cosine(s: Sizes, x: Arrays) -> np.ndarray:
    a, b = x["a"], x["b"]
    return (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1) + 1e-6)


def _square(s: Sizes) -> Shapes:
    return _floats(u=(s["size"], s["size"]))


INVENTED: Mapping[str, Invented] = {
    "min_plus": Invented(_matrices, _min_plus, _times(2, "m", "n", "k")),
    "distances": Invented(
        lambda s: _floats(a=(s["m"], s["k"]), b=(s["n"], s["k"])), _distances,
        _times(3, "m", "n", "k"),
    ),
    "mttkrp": Invented(
        lambda s: _floats(a=(s["i"], s["j"], s["k"]), b=(s["j"], s["r"]), c=(s["k"], s["r"])),
        _mttkrp, _times(3, "i", "j", "k", "r"),
    ),
    "bilinear": Invented(
        lambda s: _floats(x=(s["n"], s["i"]), w=(s["o"], s["i"], s["j"]), y=(s["n"], s["j"])),
        _bilinear, _times(3, "n", "o", "i", "j"),
    ),
    "capsule": Invented(
        _capsule_shapes, _capsule,
        lambda s: 2 * _out(s) ** 2 * s["r"] ** 2 * s["c"] * s["k"] * s["p"] ** 3,
    ),
    "chwn": Invented(
        _chwn_shapes, _chwn,
        lambda s: 2 * s["n"] * _out(s) ** 2 * s["r"] ** 2 * s["c"] * s["k"],
    ),
    "local": Invented(_local_shapes, _local),
    "gated": Invented(
        lambda s: _floats(x=(s["m"], s["k"]), w=(s["k"], s["n"]), v=(s["k"], s["n"])), _gated,
        _times(4, "m", "n", "k"),
    ),
    "viterbi": Invented(
        lambda s: _floats(score=(s["n"], s["s"]), step=(s["s"], s["s"]), emit=(s["n"], s["s"])),
        _viterbi, _times(2, "n", "s", "s"),
    ),
    "heat2d": Invented(_square, _heat2d),
    "heat3d": Invented(lambda s: _floats(u=(s["size"],) * 3), _heat3d),
    "nine_taps": Invented(_square, _nine_taps),
    "blur": Invented(_square, _blur),
    "edit": Invented(_edit_shapes, _edit, dtype="int32"),
    "lifting": Invented(lambda s: _floats(x=(s["rows"], 2 * s["n"] + 3)), _lifting),
    "short_rows": Invented(_short_shapes, _short),
    "pool_arg": Invented(lambda s: _floats(x=(s["c"], s["size"], s["size"])), _pool_arg),
    "life": Invented(
        lambda s: {"cells": f"uint8 {s['size']},{s['size']} <2"}, _life, dtype="uint8"
    ),
    "bilateral": Invented(_square, _bilateral),
    "cosine": Invented(lambda s: _floats(a=(s["m"], s["n"]), b=(s["m"], s["n"])), _cosine),
}  # fmt: skip
"""All of them by name; the programs are in programs_invented.py."""


def _row(name: str, op: str, **sizes: int) -> Row:
    return Row(name, "invented", {"op": op, **sizes})


INVENTED_ROWS = (
    _row("min-plus 512", "min_plus", m=512, k=512, n=512),
    _row("distances 1024x1024x64", "distances", m=1024, n=1024, k=64),
    _row("mttkrp 256x64x64x64", "mttkrp", i=256, j=64, k=64, r=64),
    _row("bilinear 64x64x96x96", "bilinear", n=64, o=64, i=96, j=96),
    _row("capsule conv 16->16 3x3 14", "capsule", size=14, c=16, k=16, p=4, r=3),
    _row("conv CHWN 32->32 3x3 28 n16", "chwn", c=32, k=32, size=28, n=16, r=3),
    _row("locally connected 32->32 3x3 28", "local", c=32, k=32, size=28, r=3),
    _row("gated product 256x512x512", "gated", m=256, k=512, n=512),
    _row("viterbi step 64x512", "viterbi", n=64, s=512),
    _row("heat 2d 2048", "heat2d", size=2048),
    _row("heat 3d 160", "heat3d", size=160),
    _row("nine taps 2048", "nine_taps", size=2048),
    _row("separable blur 5+5 2048", "blur", size=2048),
    _row("edit distance 1024 pairs 1024", "edit", pairs=1024, n=1024),
    _row("lifting 1024x1024", "lifting", rows=1024, n=1024),
    _row("max of short rows 4096x16x8", "short_rows", groups=4096, rows=16, n=8),
    _row("max pool with places 64x112", "pool_arg", c=64, size=112),
    _row("game of life 2048", "life", size=2048),
    _row("bilateral 5x5 512", "bilateral", size=512, r=5),
    _row("cosine 8192x256", "cosine", m=8192, n=256),
)
"""Each in a size that people would use."""

INVENTED_QUICK = (
    _row("min-plus 12x9x11", "min_plus", m=12, k=9, n=11),
    _row("distances 10x12x6", "distances", m=10, n=12, k=6),
    _row("mttkrp 6x5x4x8", "mttkrp", i=6, j=5, k=4, r=8),
    _row("bilinear 4x6x5x8", "bilinear", n=4, o=6, i=5, j=8),
    _row("capsule conv 2->3 3x3 5", "capsule", size=5, c=2, k=3, p=2, r=3),
    _row("conv CHWN 3->4 3x3 6 n4", "chwn", c=3, k=4, size=6, n=4, r=3),
    _row("locally connected 3->4 3x3 6", "local", c=3, k=4, size=6, r=3),
    _row("gated product 6x8x10", "gated", m=6, k=8, n=10),
    _row("viterbi step 6x9", "viterbi", n=6, s=9),
    _row("heat 2d 14", "heat2d", size=14),
    _row("heat 3d 8", "heat3d", size=8),
    _row("nine taps 14", "nine_taps", size=14),
    _row("separable blur 5+5 16", "blur", size=16),
    _row("edit distance 5 pairs 12", "edit", pairs=5, n=12),
    _row("lifting 4x9", "lifting", rows=4, n=9),
    _row("max of short rows 6x4x5", "short_rows", groups=6, rows=4, n=5),
    _row("max pool with places 3x8", "pool_arg", c=3, size=8),
    _row("game of life 12", "life", size=12),
    _row("bilateral 5x5 12", "bilateral", size=12, r=5),
    _row("cosine 9x20", "cosine", m=9, n=20),
)
"""The same, tiny."""
