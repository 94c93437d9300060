"""Rows of shapes that nobody chose: drawn by a seed, odd, prime, one, large, of several types."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.gpus.rows import (
    LONG_ROWS,
    LONG_SCANS,
    MEMORY,
    PRODUCT,
    WINDOWS,
    Family,
    Row,
    Shapes,
    stencil,
)
from tensorir import ARCHITECTURES, ops

LARGEST = 1 << 26
"""Elements of an array, about, at most; `SMALLEST` of one for the emulator."""

SMALLEST = 1 << 10

ROOM = 17408
"""Elements of a row of float32 that a block has room for when it scans."""

MOST_ROW = ARCHITECTURES["sm_90a"].shared_per_block // 4
"""Elements of a row of float32 from which on no block has room for one in shared memory."""

TYPES = ("float32",) * 4 + ("float16", "float64")

Draw = Callable[["Shape"], tuple[str, Family, Callable[..., Any], Shapes]]
"""What is computed, its limits, the program, and the shapes of its inputs."""


class Shape:
    """Draws extents: about so many elements in all, at the most."""

    def __init__(self, rng: random.Random, elements: int) -> None:
        self.rng, self.elements = rng, elements

    def extent(self, low: int, high: int) -> int:
        """One, log-uniform, and then as often prime as odd, beside a power of two, or as it is."""
        if self.rng.random() < 0.06:
            return low
        about = math.exp(self.rng.uniform(math.log(low), math.log(max(low, high))))
        near = (
            round(about),
            int(about) | 1,
            2 ** round(math.log2(about)) + self.rng.choice((-1, 0, 1)),
            next(n for n in range(max(2, int(about)), 1 << 30) if is_prime(n)),
        )
        return min(max(self.rng.choice(near), low), max(low, high))

    def all(self, rank: int) -> tuple[int, ...]:
        """Of an array, as different as can be."""
        total = self.rng.uniform(0.6, 1.0) * math.log(self.elements)
        ends = sorted(self.rng.random() for _ in range(rank - 1))
        parts = [math.exp(total * (b - a)) for a, b in zip([0.0, *ends], [*ends, 1.0])]
        return tuple(self.extent(1, max(1, round(1.5 * part))) for part in parts)

    def image(self, least: int) -> tuple[int, int, int, int]:
        """Of a batch of images with channels, of which each side has so many pixels at least."""
        side = max(least, min(256, round(self.elements**0.4)))
        n, c = (self.extent(1, max(1, min(64, side))) for _ in range(2))
        return n, c, self.extent(least, side), self.extent(least, side)

    def axis(self, rank: int) -> int:
        return self.rng.randrange(rank)


def is_prime(n: int) -> bool:
    return n > 1 and all(n % m for m in range(2, math.isqrt(n) + 1))


def elementwise(shape: Shape) -> tuple[str, Family, Callable[..., Any], Shapes]:
    full = shape.all(shape.rng.randint(1, 5))
    ones = tuple(extent if shape.rng.random() < 0.5 else 1 for extent in full)
    what, make, shapes = shape.rng.choice((
        ("relu", ops.relu, (full,)),
        ("add", ops.add, (full, full)),
        ("bias", ops.add, (full, full[-1:])),
        ("broadcast", ops.add, (full, ones)),
    ))  # fmt: skip
    return what, MEMORY, make, shapes


def layouts(shape: Shape) -> tuple[str, Family, Callable[..., Any], Shapes]:
    full = shape.all(shape.rng.randint(2, 5))
    order = list(range(len(full)))
    shape.rng.shuffle(order)
    at = shape.axis(len(full))
    other = tuple(shape.extent(1, 2 * n) if k == at else n for k, n in enumerate(full))
    widths = [(shape.rng.randint(0, 3), shape.rng.randint(0, 3)) for _ in full]
    what, make, shapes = shape.rng.choice((
        (f"permute to {order}", lambda x: ops.transpose(x, order), (full,)),
        (f"permute to {order}", lambda x: ops.transpose(x, order), (full,)),
        (f"concat along {at}", lambda x, y: ops.concat([x, y], at), (full, other)),
        (f"pad {widths}", lambda x: ops.pad(x, widths), (full,)),
        (f"flip along {at}", lambda x: ops.flip(x, at), (full,)),
    ))  # fmt: skip
    return what, MEMORY, make, shapes


def reductions(shape: Shape) -> tuple[str, Family, Callable[..., Any], Shapes]:
    full = shape.all(shape.rng.randint(1, 5))
    axes = tuple(n for n in range(len(full)) if shape.rng.random() < 0.5) or (len(full) - 1,)
    make = shape.rng.choice((ops.sum, ops.max, ops.mean))
    return f"{make.__name__} over {axes}", MEMORY, lambda x: make(x, axes), (full,)


def rows(shape: Shape) -> tuple[str, Family, Callable[..., Any], Shapes]:
    full = shape.all(shape.rng.randint(1, 4))
    at, last = shape.axis(len(full)), full[-1:]
    what, make, shapes = shape.rng.choice((
        ("softmax", ops.softmax, (full,)),
        (f"softmax along {at}", lambda x: ops.softmax(x, at), (full,)),
        ("log-softmax", ops.log_softmax, (full,)),
        ("layer norm", ops.layer_norm, (full, last, last)),
        ("rms norm", ops.rms_norm, (full, last)),
        (f"argmax along {at}", lambda x: ops.argmax(x, at), (full,)),
    ))  # fmt: skip
    long = full[at if "along" in what else -1] >= MOST_ROW and "argmax" not in what
    return what, LONG_ROWS if long else MEMORY, make, shapes


def scans(shape: Shape) -> tuple[str, Family, Callable[..., Any], Shapes]:
    full = shape.all(shape.rng.randint(1, 4))
    family = MEMORY if full[-1] <= ROOM else LONG_SCANS
    return "running sums", family, ops.cumsum, (full,)


def windows(shape: Shape) -> tuple[str, Family, Callable[..., Any], Shapes]:
    k, stride = shape.rng.choice((2, 3, 3, 5)), shape.rng.choice((1, 1, 2, 3))
    n, c, h, w = image = shape.image(k)
    pad = shape.rng.choice((0, k // 2))
    text = f"{k}x{k} s{stride} p{pad}"
    how: dict[str, Any] = {"stride": stride, "padding": pad}
    what, make, shapes = shape.rng.choice((
        (f"max pool {text}", lambda x: ops.max_pool2d(x, k, stride, pad), (image,)),
        (f"average pool {text}", lambda x: ops.avg_pool2d(x, k, stride, pad), (image,)),
        ("stencil", stencil, ((n * h + 2, c * w + 2),)),
        (f"depthwise {text}", lambda x, y: ops.depthwise_conv2d(x, y, **how),
         (image, (c, 1, k, k))),
        (f"depthwise, channels last {text}",
         lambda x, y: ops.depthwise_conv2d(x, y, layout="NHWC", **how),
         ((n, h, w, c), (k, k, 1, c))),
    ))  # fmt: skip
    return what, WINDOWS, make, shapes


def products(shape: Shape) -> tuple[str, Family, Callable[..., Any], Shapes]:
    side = round(shape.elements**0.46)
    m, n, k = (shape.extent(1, side) for _ in range(3))
    b = shape.extent(1, max(1, shape.elements // max(m * n, m * k, n * k)))
    what, make, shapes = shape.rng.choice((
        ("matmul", ops.matmul, ((m, k), (k, n))),
        ("batched matmul", ops.batch_matmul, ((min(b, 512), m, k), (min(b, 512), k, n))),
        ("linear", ops.linear, ((m, k), (n, k), (n,))),
    ))  # fmt: skip
    return what, PRODUCT, make, shapes


def convolutions(shape: Shape) -> tuple[str, Family, Callable[..., Any], Shapes]:
    k, stride = shape.rng.choice((1, 2, 3, 3, 5)), shape.rng.choice((1, 1, 2))
    n, c, h, w = shape.image(k)
    out, groups = shape.extent(1, 4 * c), shape.rng.choice((1, 1, 1, 2, 3))
    how: dict[str, Any] = {"stride": stride, "padding": shape.rng.choice((0, k // 2))}
    text = f"{k}x{k} s{stride} p{how['padding']}"
    what, make, shapes = shape.rng.choice((
        (f"conv {text} {groups} groups", lambda x, y: ops.conv2d(x, y, groups=groups, **how),
         ((n, c * groups, h, w), (out * groups, c, k, k))),
        (f"conv, channels last {text}", lambda x, y: ops.conv2d(x, y, layout="NHWC", **how),
         ((n, h, w, c), (k, k, c, out))),
    ))  # fmt: skip
    return what, PRODUCT, make, shapes


FAMILIES: Sequence[Draw] = (
    elementwise, layouts, reductions, rows, scans, windows, products, convolutions,
)  # fmt: skip


def drawn(seed: int, count: int) -> Iterator[Row]:
    """So many rows, the families in turn: each a function of the seed and of its number."""
    for number in range(count):
        draw = FAMILIES[number % len(FAMILIES)]
        key = f"{seed} {number}"
        what, family, make, full = draw(Shape(random.Random(key), LARGEST))
        rng = random.Random(key)
        *_, small_make, small = draw(Shape(rng, SMALLEST))
        kind = rng.choice(TYPES)
        yield Row(
            f"{number} {what} {' '.join('x'.join(map(str, s)) for s in full)} {kind}", family, make,
            full, small, types=(kind,) * len(full),
        )  # fmt: skip
