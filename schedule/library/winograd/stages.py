"""The stages of Winograd's algorithm in a program, and what their dimensions are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from schedule.library.contraction.laid_out import LaidOut
from schedule.library.contraction.places import store_of
from schedule.schedule import Schedule


@dataclass(frozen=True)
class Winograd:
    """The stages, in order, for w windows; see tensorir/ops/winograd_stages.py for what they store.

    strips, pad   the image, cut and with zeros around
    inputs        its transforms, w of them; the last makes what `products` reads
    weights       those of the weights, w of them; if these come transformed none, or the one that
                  copies them
    products      the sums
    results       the transforms of these, w of them; the last makes the result
    outputs, points, tiles   sums and products of a tile, and the tiles, along each window
    result        for each dimension of the result what it is: "h0", "h1".. for the windows, "f" for
                  the filters, "s0".. for what else `products` has, "u0".. for one element
    channels_last whether channels are neighbours in the image
    filters, channels   of the stages, rounded up; `period`: filters with the same channels
    stored        the filters that the result has
    samples       the product of all other dimensions; None where one of them is symbolic
    terms         of a sum of products
    operand       the buffer of the transformed weights, and `filter_dim` its dimension of filters
    weight        that of the weights
    """

    strips: str
    pad: str
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    products: str
    results: tuple[str, ...]
    outputs: tuple[int, ...]
    points: tuple[int, ...]
    tiles: tuple[int, ...]
    result: tuple[str, ...]
    channels_last: bool
    channel: int
    channels: int
    filter: int
    filters: int
    period: int
    stored: int
    samples: int | None
    terms: int
    dtype: str
    operand: str
    weight: str
    filter_dim: int

    @property
    def blocks(self) -> tuple[str, ...]:
        """All of the stages."""
        return (
            self.strips, self.pad, *self.inputs, *self.weights, self.products, *self.results,
        )  # fmt: skip


def stages_of(
    sch: Schedule, found: Winograd
) -> tuple[LaidOut, LaidOut, tuple[LaidOut, ...], LaidOut, tuple[LaidOut, ...]]:
    """The strips, the pad, the inputs, the products and the results of a program in which nothing
    was laid out otherwise, with what each of their dimensions is: "p", "t" and "y" with the number
    of a window are points of a tile, tiles, and sums of a tile, "x" what is no tile yet; "c" are
    channels, "f" filters, "d" and "s" what else image and sums have."""
    count = len(found.outputs)
    others = [f"d{n}" for n in range(store_of(sch, found.pad).buffer.ndim - count - 1)]
    others[found.channel] = "c"
    rest = [f"s{n}" for n in range(store_of(sch, found.products).buffer.ndim - 2 * count)]
    rest[found.filter] = "f"
    raw = [f"x{w}" for w in range(1, count)]
    points, tiles = [f"p{w}" for w in range(count)], [f"t{w}" for w in range(count)]
    pairs = [[f"t{w}", f"p{w}"] for w in range(count)], [[f"t{w}", f"y{w}"] for w in range(count)]
    before = [[n for pair in pairs[0][: w + 1] for n in pair] for w in range(count)]
    after = [[n for pair in pairs[1][: w + 1] for n in pair] for w in range(count)]
    inputs = [[*others, *before[w], *raw[w:]] for w in range(count - 1)]
    results = [[*rest, *after[w], *points[w + 1 :], *tiles[w + 1 :]] for w in range(count - 1)]
    strips = [*others, "x0"] if count == 1 else [*others, "t0", "y0", *raw]
    return (
        LaidOut(sch, found.strips, strips),
        LaidOut(sch, found.pad, [*others, "t0", "y0", *raw]),
        tuple(map(partial(LaidOut, sch), found.inputs, [*inputs, [*points, *others, *tiles]])),
        LaidOut(sch, found.products, [*points, *rest, *tiles]),
        tuple(map(partial(LaidOut, sch), found.results, [*results, list(found.result)])),
    )
