"""Sums of products of two arrays, by matrix multiplication."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def contract(a: Array, b: Array, sizes: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """The sum of `a * b` along `axes`, kept with extent 1.

    Both are broadcast against the grid `sizes`: each dimension has extent 1 where the array does
    not depend on it. An axis that neither depends on counts as often as it is long.
    """
    rank = len(sizes)
    a, b = _expand(a, rank), _expand(b, rank)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):  # a term of 0 times infinity is no 0
        whole = tuple(size if d in axes else 1 for d, size in enumerate(sizes))
        a, b = (np.broadcast_to(x, np.broadcast_shapes(x.shape, whole)) for x in (a, b))
    in_a = [a.shape[d] != 1 for d in range(rank)]
    in_b = [b.shape[d] != 1 for d in range(rank)]
    scale = math.prod(sizes[d] for d in axes if not in_a[d] and not in_b[d])
    a = a.sum(axis=tuple(d for d in axes if in_a[d] and not in_b[d]), keepdims=True, dtype=a.dtype)
    b = b.sum(axis=tuple(d for d in axes if in_b[d] and not in_a[d]), keepdims=True, dtype=b.dtype)
    inner = [d for d in axes if in_a[d] and in_b[d]]
    rest = [d for d in range(rank) if d not in axes]
    batch = [d for d in rest if in_a[d] and in_b[d]]
    rows = [d for d in rest if in_a[d] and not in_b[d]]
    columns = [d for d in rest if in_b[d] and not in_a[d]]
    others = [d for d in range(rank) if d not in (*batch, *rows, *columns, *inner)]
    left = a.transpose(*batch, *rows, *inner, *columns, *others)
    right = b.transpose(*batch, *inner, *columns, *rows, *others)
    many = [sizes[d] for d in batch]
    m, n, k = (math.prod(sizes[d] for d in part) for part in (rows, columns, inner))
    product = _matmul(left.reshape(*many, m, k), right.reshape(*many, k, n))
    if scale != 1:
        product = product * np.asarray(scale).astype(product.dtype)
    kept = (*batch, *rows, *columns)
    shaped = product.reshape(*(sizes[d] for d in kept), *([1] * (rank - len(kept))))
    order = (*kept, *(d for d in range(rank) if d not in kept))
    return np.asarray(shaped.transpose(np.argsort(order)))


def _expand(a: Array, rank: int) -> Array:
    return a.reshape((1,) * (rank - a.ndim) + a.shape)


def _matmul(left: Array, right: Array) -> Array:
    if left.shape[-2] == 1 and right.shape[-1] == 1 and left.ndim > 2:
        products = left[..., 0, :] * right[..., 0]
        return np.asarray(products.sum(axis=-1, dtype=products.dtype))
    return np.asarray(np.matmul(left, right))
