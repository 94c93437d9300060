"""The references of pooling: NumPy, window by window."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tensorir.ops.conv_reference import from_first, full, pairs_of, to_first


def _positions(
    n: int, k: int, s: int, d: int, pair: tuple[int, int], ceil: bool
) -> list[tuple[list[int], int]]:
    """For each window the elements it holds, and how many with the padding."""
    low, high = pair
    found: list[tuple[list[int], int]] = []
    for start in itertools.count(-low, s):
        end = start + (k - 1) * d + 1
        if end > n + high and not (ceil and start < n and start - s + (k - 1) * d + 1 < n + high):
            return found
        at = [start + r * d for r in range(k)]
        found.append(([p for p in at if 0 <= p < n], sum(p < n + high for p in at)))
    return found


def pooled(
    x: Any, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, layout: str | None = None, count_include_pad: bool | None = None,
) -> Any:  # fmt: skip
    """Pooling window by window; the mean where `count_include_pad` is given, else the maximum."""
    x = to_first(x, layout)
    rank = x.ndim - 2
    taps, spread = full(kernel, rank), full(dilation, rank)
    steps = taps if stride is None else full(stride, rank)
    pads = pairs_of(padding, np.array(x.shape[2:]), (taps - 1) * spread + 1, steps)
    lists = [
        _positions(int(n), int(k), int(s), int(d), pair, ceil_mode)
        for n, k, s, d, pair in zip(x.shape[2:], taps, steps, spread, pads)
    ]
    y = np.empty((*x.shape[:2], *map(len, lists)), x.dtype)
    for at in np.ndindex(*y.shape[2:]):
        windows = [lists[d][p] for d, p in enumerate(at)]
        seen = x[np.ix_(*map(range, x.shape[:2]), *(held for held, _ in windows))]
        seen = seen.reshape(*x.shape[:2], math.prod(len(held) for held, _ in windows))
        if count_include_pad is None:
            y[(..., *at)] = seen.max(-1)
        else:
            sizes = [with_pad if count_include_pad else len(held) for held, with_pad in windows]
            y[(..., *at)] = seen.sum(-1) / math.prod(sizes)
    return from_first(y, layout)


def mean_pooled(x: Any, *args: Any, **attrs: Any) -> Any:
    return pooled(x, *args, **{"count_include_pad": True, **attrs})
