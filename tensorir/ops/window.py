"""Sliding windows over the spatial dimensions of a picture: layouts, padding, output sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorir import te
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, ExprLike, all_of, const, int_value
from tensorir.ops.arguments import check_choice, per_dim, require, static
from tensorir.ops.naming import name_axes
from tensorir.te.tensor import Tensor

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Layout:
    """Where the batch, the channels and the spatial dimensions of a picture are."""

    first: bool
    """Whether the channels come before the spatial dimensions, as in NCHW."""
    rank: int

    @property
    def channel(self) -> int:
        return 1 if self.first else self.rank + 1

    @property
    def spatial(self) -> tuple[int, ...]:
        return tuple(range(2, self.rank + 2) if self.first else range(1, self.rank + 1))

    def at(self, batch: Any, channel: Any, spatial: Sequence[Any]) -> tuple[Any, ...]:
        """Sizes, indices or names in the order of the layout."""
        return (batch, channel, *spatial) if self.first else (batch, *spatial, channel)

    def names(self, channel: str) -> tuple[str, ...]:
        """Names of the loops over a picture whose channels are called `channel`."""
        return self.at("n", channel, SPATIAL[self.rank].lower())


def layout_names(rank: int) -> tuple[str, str]:
    """The two layouts of pictures of `rank` spatial dimensions: channels first, channels last."""
    return f"NC{SPATIAL[rank]}", f"N{SPATIAL[rank]}C"


def make_layout(op: str, layout: str | None, rank: int) -> Layout:
    """The layout of that name; None is channels first."""
    names = layout_names(rank)
    check_choice(op, "layout", layout or names[0], names)
    return Layout(layout != names[1], rank)


@dataclass(frozen=True)
class Window:
    """Windows along each spatial dimension; all tuples have one entry for each."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: Pairs
    """Elements before and after the picture."""
    output: tuple[int, ...]

    def reads(self, at: Sequence[Expr], taps: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where window `at` finds its element `taps`, in the padded picture."""
        return tuple(y * s + r * d for y, r, s, d in zip(at, taps, self.stride, self.dilation))


def make_window(
    op: str,
    sizes: Sequence[Expr],
    kernel: Sequence[ExprLike],
    stride: Any,
    padding: Any,
    dilation: Any = 1,
    ceil: bool = False,
) -> Window:
    """The windows of `kernel` over a picture of `sizes`, all of which must be numbers.

    `padding` is "valid" (none), "same" (as many windows as sizes / stride, rounded up, with the odd
    element at the end), an integer, one for each dimension, or a pair (before, after) for each.
    With `ceil` a last window may lie over the end, unless it would begin there.
    """
    rank = len(sizes)
    extents = tuple(static(op, f"spatial dimension {d}", s) for d, s in enumerate(sizes))
    taps = tuple(static(op, f"kernel dimension {d}", const_of(s)) for d, s in enumerate(kernel))
    require(min(taps) >= 1, op, f"the kernel {taps} has an empty dimension")
    steps = per_dim(op, "stride", stride, rank, 1)
    spread = per_dim(op, "dilation", dilation, rank, 1)
    reach = tuple((k - 1) * d + 1 for k, d in zip(taps, spread))
    pads = make_padding(op, padding, rank, extents, reach, steps)
    output = []
    for d in range(rank):
        low, high = pads[d]
        room = extents[d] + low + high - reach[d]
        require(
            room >= 0, op,
            f"a kernel that reaches over {reach[d]} elements does not fit into spatial dimension "
            f"{d} of {extents[d]} with padding {pads[d]}; use more padding or a smaller kernel",
        )  # fmt: skip
        count = room // steps[d] + 1
        if ceil and room % steps[d] and count * steps[d] < extents[d] + low:
            count += 1
        output.append(count)
    return Window(extents, taps, steps, spread, pads, tuple(output))


def const_of(size: ExprLike) -> Expr:
    """A size as an expression."""
    return size if isinstance(size, Expr) else const(int(size))


def make_padding(
    op: str,
    padding: Any,
    rank: int,
    sizes: Sequence[int] = (),
    reach: Sequence[int] = (),
    stride: Sequence[int] = (),
) -> Pairs:
    """`padding` in any of its forms as pairs (before, after); see make_window.

    Without `sizes` it cannot be "same" or "valid".
    """
    named = len(sizes) > 0
    word = padding if named and isinstance(padding, str) else ""
    if word == "valid":
        return ((0, 0),) * rank
    if word == "same":
        missing = (max((-(-n // s) - 1) * s + r - n, 0) for n, r, s in zip(sizes, reach, stride))
        return tuple((m // 2, m - m // 2) for m in missing)
    parts = padding if isinstance(padding, (tuple, list)) else (padding,) * rank
    pairs = tuple(tuple(p) if isinstance(p, (tuple, list)) else (p, p) for p in parts)
    good = len(pairs) == rank and all(
        len(p) == 2 and all(isinstance(v, int) and v >= 0 for v in p) for p in pairs
    )
    if not good:
        words = "'same', 'valid', " if named else ""
        raise TensorIRError(
            f"{op}: padding={padding!r} must be {words}an integer of at least 0, {rank} of them, "
            f"or {rank} pairs (before, after)"
        )
    return pairs


def pad_stage(
    x: Tensor,
    pads: Sequence[tuple[ExprLike, ExprLike]],
    value: float,
    names: Sequence[str],
    name: str = "pad",
) -> Tensor:
    """`x` with `value` around it, as many elements as the pairs (before, after) say.

    The stage can be inlined into what reads it. Without any padding that is `x` itself.
    """
    wanted = [d for d, pair in enumerate(pads) if pair != (0, 0)]
    if not wanted:
        return x

    empty = 0 in map(int_value, x.shape)

    def element(*i: Expr) -> Expr:
        inside, at = [], list(i)
        for d in wanted:
            low, high = pads[d]
            if low != 0:
                inside.append(te.const(0) + low <= i[d])
                at[d] = i[d] - low
            if high != 0:
                inside.append(i[d] < x.shape[d] + low)
        filler = const(value, x.dtype)
        return filler if empty else te.if_then_else(all_of(*inside), x[tuple(at)], filler)

    shape = [size + low + high for size, (low, high) in zip(x.shape, pads)]
    return te.compute(shape, name_axes(names, element), name)  # type: ignore[no-any-return]
