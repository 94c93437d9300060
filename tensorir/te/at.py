"""te.at: elements at places that are computed or read, whatever these are."""

from __future__ import annotations

from collections.abc import Callable

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, ExprLike, all_of, binary, cast, convert
from tensorir.te.math import clip, floormod, if_then_else
from tensorir.te.tensor import Tensor

_INSIDE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "clip": lambda place, size: clip(place, 0, size - 1),
    "wrap": floormod,
}


def at(tensor: Tensor, *places: ExprLike, mode: str = "clip", fill: ExprLike = 0) -> Expr:
    """The element of `tensor` at integer `places`, one for each dimension, wherever they point.

    `mode` says what a place outside means, as in `np.take`: "clip" is the nearest element, "wrap"
    counts on from the other end, so that -1 is the last one, and "fill" is the value `fill`, and
    reads nothing. The read is proved like any other. With "clip" and "wrap" a dimension of symbolic
    size may turn out empty, and the read is refused unless something around it excludes that.
    Raises TensorIRError for places that are no integers, or too few or too many, and for other
    modes: no read is left unchecked, so TVM's mode "fast" has no counterpart.
    """
    if not isinstance(tensor, Tensor) or len(places) != tensor.ndim:
        raise TensorIRError(f"te.at takes a tensor and a place in each dimension, not {tensor!r}"
                            f" and {len(places)} places")  # fmt: skip
    if mode not in (*_INSIDE, "fill"):
        why = ": no read is left unchecked" if mode == "fast" else ""
        raise TensorIRError(f"te.at has the modes 'clip', 'wrap' and 'fill', not {mode!r}{why}")
    indices = [_index(tensor, place) for place in places]
    if mode != "fill":
        inside = [_INSIDE[mode](i, size) for i, size in zip(indices, tensor.shape)]
        return tensor[tuple(inside)]
    limits = [
        all_of(binary("<=", 0, i), binary("<", i, size)) for i, size in zip(indices, tensor.shape)
    ]
    return if_then_else(all_of(*limits), tensor[tuple(indices)], fill)


def _index(tensor: Tensor, place: ExprLike) -> Expr:
    index = convert(place)
    if not dt.is_int(index.dtype):
        raise TensorIRError(f"place {index!r} in {tensor.name!r} is {index.dtype}, no integer")
    return cast(dt.INDEX, index)
