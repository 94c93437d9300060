"""Scaled dot product attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, int_value
from tensorir.ops.arguments import (
    accumulator,
    check_float,
    check_tensor,
    require,
    same_size,
    static,
    wide,
)
from tensorir.ops.broadcast import broadcast_read, broadcast_shape
from tensorir.ops.registry import Example, operator, values
from tensorir.te.tensor import Tensor


def _reference(
    q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    heads = q.shape[-3] // max(k.shape[-3], 1)
    k, v = np.repeat(k, heads, axis=-3), np.repeat(v, heads, axis=-3)
    scores = np.einsum("...md,...nd->...mn", q, k) * (scale or q.shape[-1] ** -0.5)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        m, n = scores.shape[-2:]
        scores = np.where(np.tri(m, n, n - m, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))
    return np.einsum("...mn,...ne->...me", weights, v)


def _check(q: Tensor, k: Tensor, v: Tensor) -> int:
    """Raise TensorIRError where the shapes do not fit; the number of query heads per key head."""
    op = "attention"
    for what, t in (("q", q), ("k", k), ("v", v)):
        check_float(op, what, check_tensor(op, what, t, 4))
        require(
            t.dtype == q.dtype, op,
            f"q {q!r} and {what} {t!r} are {q.dtype} and {t.dtype}; convert one with ops.cast",
        )  # fmt: skip
    require(
        same_size(q.shape[3], k.shape[3]), op,
        f"q {q!r} and k {k!r} have {q.shape[3]!r} and {k.shape[3]!r} features; these must be equal",
    )  # fmt: skip
    require(
        all(map(same_size, k.shape[:3], v.shape[:3])), op,
        f"k {k!r} and v {v!r} differ in batch, heads or length; these must be equal",
    )  # fmt: skip
    require(
        same_size(q.shape[0], k.shape[0]), op,
        f"q {q!r} and k {k!r} have different batches; these must be equal",
    )  # fmt: skip
    if same_size(q.shape[1], k.shape[1]):
        return 1
    heads, shared = (static(op, "the number of heads", t.shape[1]) for t in (q, k))
    require(
        shared > 0 and heads % shared == 0, op,
        f"{heads} heads of q cannot share {shared} heads of k; use a divisor of {heads}",
    )  # fmt: skip
    return heads // shared


def _masked(e: Expr, i: tuple[Expr, ...], mask: Tensor | None, causal: bool, offset: Expr) -> Expr:
    lowest = -te.infinity(e.dtype)
    if mask is not None and dt.is_bool(mask.dtype):
        e = te.if_then_else(broadcast_read(mask, i), e, lowest)
    elif mask is not None:
        e = e + wide(broadcast_read(mask, i))
    return te.if_then_else(i[3] <= i[2] + offset, e, lowest) if causal else e


HALF_MASK = values(True, True, False, True)


@operator(
    reference=_reference,
    examples=[
        Example([(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 3)]),
        Example([(2, 2, 5, 3)] * 3, {"causal": True}),
        Example([(1, 1, 2, 3), (1, 1, 5, 3), (1, 1, 5, 3)], {"causal": True, "scale": 0.5}),
        Example([("b", 2, "m", 4)] * 3, sizes={"b": 2, "m": 3}),
        Example([("b", 2, "m", 4)] * 3, {"causal": True}, sizes={"b": 1, "m": 3}),
        Example([(1, 4, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)], dtypes="float16"),
        Example([(1, 2, 3, 4)] * 3 + [(3, 3)]),
        Example([(2, 2, 4, 3)] * 3 + [(2, 1, 1, 4)], dtypes=(*["float32"] * 3, "bool"),
                data=(None, None, None, HALF_MASK)),
        Example([(1, 1, 1, 1)] * 3, dtypes="bfloat16"),
        Example([(0, 1, 2, 3)] * 3),
    ],
)  # fmt: skip
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    name: str = "attention",
) -> Tensor:
    """softmax(q @ k.T * scale) @ v of q[b, h, m, d], k[b, h, n, d] and v[b, h, n, e].

    `scale` is 1 / sqrt(d) unless it is given. `mask`, broadcast to [b, h, m, n], is added if it
    holds floats; where it is of type bool, False leaves a key out. `causal` lets query i see the
    keys up to i + n - m, so that the last query sees all of them. k and v may have fewer heads,
    each for as many heads of q (grouped queries, arXiv:2305.13245). A query that sees no key gives
    NaN. float16 and bfloat16 are computed in float32 throughout.
    """
    share = _check(q, k, v)
    b, h, m, d = q.shape
    n, acc = k.shape[2], accumulator(q.dtype)
    lengths = int_value(m), int_value(n)
    if causal and None not in lengths:
        require(
            lengths[0] <= lengths[1], "attention",  # type: ignore[operator]
            f"causal=True with {m!r} queries and {n!r} keys leaves the first queries without a key",
        )  # fmt: skip
    if mask is not None:
        _check_mask(q, k, mask)
    factor = _scale(scale, d)

    def head(i: Expr) -> Expr:
        return i if share == 1 else i // share

    r = te.reduce_axis(d, name="d")
    score = te.compute(
        (b, h, m, n),
        lambda b, h, i, j: te.sum(wide(q[b, h, i, r]) * wide(k[b, head(h), j, r]), axis=r),
        "score",
    )
    seen = te.compute(
        score.shape, lambda *i: _masked(score[i] * factor, i, mask, causal, n - m), "seen"
    )
    s, t, u = (te.reduce_axis(n, name=label) for label in "stu")
    top = te.compute((b, h, m), lambda b, h, i: te.max(seen[b, h, i, s], axis=s), "top")
    power = te.compute(
        score.shape, lambda b, h, i, j: te.exp(seen[b, h, i, j] - top[b, h, i]), "power"
    )
    total = te.compute((b, h, m), lambda b, h, i: te.sum(power[b, h, i, t], axis=t), "total")
    shape = (b, h, m, v.shape[3])
    mixed = te.compute(
        shape,
        lambda b, h, i, e: te.sum(power[b, h, i, u] * te.cast(v[b, head(h), u, e], acc), axis=u),
        "mixed",
    )
    return te.compute(  # type: ignore[no-any-return]
        shape, lambda *i: te.cast(mixed[i] / total[i[:3]], q.dtype), name
    )


def _scale(scale: float | None, features: Expr) -> float:
    if scale is not None:
        return float(scale)
    d = static("attention", "the number of features, which decides scale,", features)
    require(d > 0, "attention", "q has no features, so 1 / sqrt(d) is infinite; give scale")
    return 1 / math.sqrt(d)


def _check_mask(q: Tensor, k: Tensor, mask: Tensor) -> None:
    op = "attention"
    check_tensor(op, "mask", mask)
    require(
        dt.is_bool(mask.dtype) or accumulator(mask.dtype) == accumulator(q.dtype), op,
        f"mask {mask!r} is {mask.dtype}; use bool, or {accumulator(q.dtype)} to add it",
    )  # fmt: skip
    scores = te.placeholder((*q.shape[:3], k.shape[2]), q.dtype, name="scores")
    shape = broadcast_shape(op, scores, mask)
    require(
        len(shape) == 4 and all(map(same_size, shape, scores.shape)), op,
        f"mask {mask!r} cannot be broadcast to {scores!r}",
    )  # fmt: skip
