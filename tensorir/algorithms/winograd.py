"""Winograd's algorithm for 3x3 convolutions of stride 1 in layout NCHW; see ops.conv2d_winograd."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.recognise import (
    only_user,
    product_of_sum,
    require,
    same_index,
    variables_of,
    writers,
    zero_padding,
)
from tensorir.buffer import Buffer
from tensorir.expr import Load, Var, int_value
from tensorir.func import PrimFunc
from tensorir.stmt import Block, IterKind, Store
from tensorir.te.tensor import Tensor

TILES = ((4, 4), (4, 2), (2, 4), (2, 2))
SIDE = 3

LEAST_CHANNELS = 4
"""With fewer, the transforms cost more than the products that they save."""


def _algorithm(tile: tuple[int, int]) -> Algorithm:
    def recognise(func: PrimFunc, block: Block) -> Alternative:
        store, image, weight = _convolution(block)
        source, padding, replaced = _padded_from(func, image.buffer, block)

        def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
            from tensorir import ops

            x, w = given
            return [ops.conv2d_winograd(x, w, tile=tile, padding=padding, name=names[0])]

        return Alternative((store.buffer,), (source, weight.buffer), compute, replaced)

    return Algorithm(
        name=f"winograd_{tile[0]}x{tile[1]}",
        about=(
            f"a 3x3 convolution of stride 1 by F({tile[0]} x {tile[1]}, 3 x 3): Lavin and Gray, "
            "Fast Algorithms for Convolutional Neural Networks, 2016"
        ),
        recognise=recognise,
        examples=_examples,
    )


def _convolution(block: Block) -> tuple[Store, Load, Load]:
    """The store of a block and its loads of image and weights:
    out[n, o, h, w] += x[n, c, h + r, w + s] * weight[o, c, r, s]."""
    store, *operands = product_of_sum(block)
    what = f"block {block.name!r} is no 3x3 convolution of stride 1 in layout NCHW"
    spatial = variables_of(block, IterKind.SPATIAL)
    reduced = variables_of(block, IterKind.REDUCE)
    own = [i for i in store.indices if isinstance(i, Var)]
    require(len(own) == 4 and set(own) == set(spatial) and len(reduced) == 3, what)
    require(all(load.buffer.ndim == 4 for load in operands), what)
    n, o, h, w = own
    image, weight = operands if operands[0].indices[0] is n else operands[::-1]
    c, r, s = weight.indices[1:]
    require({c, r, s} == set(reduced) and weight.indices[0] is o, what)
    assert isinstance(c, Var) and isinstance(r, Var) and isinstance(s, Var)
    require(int_value(reduced[r]) == SIDE and int_value(reduced[s]) == SIDE, what)
    wanted = (n, c, h + r, w + s)
    require(all(same_index(i, j) for i, j in zip(image.indices, wanted)), what)
    sizes = (spatial[n], reduced[c], spatial[h] + SIDE - 1, spatial[w] + SIDE - 1)
    whole = all(same_index(a, b) for a, b in zip(image.buffer.shape, sizes))
    require(whole, f"{what} of a whole image")
    many = (int_value(reduced[c]) or 0) >= LEAST_CHANNELS
    require(many, f"block {block.name!r} sums over fewer than {LEAST_CHANNELS} channels")
    kinds = {store.buffer.dtype, image.buffer.dtype, weight.buffer.dtype}
    require(kinds in ({"float32"}, {"float64"}), f"block {block.name!r} mixes types or has no such")
    return store, image, weight


def _padded_from(
    func: PrimFunc, buffer: Buffer, user: Block
) -> tuple[Buffer, int, tuple[str, ...]]:
    """The image that `buffer` is with zeros around, how many, and the block that made it if no
    other needs it; else `buffer` itself."""
    made = writers(func, buffer)
    found = zero_padding(made[0]) if len(made) == 1 else None
    if found is None or found[1][:2] != (0, 0) or found[1][2] != found[1][3]:
        return buffer, 0, ()
    gone = (made[0].name,) if only_user(func, buffer, user) else ()
    return found[0], found[1][2], gone


def _examples() -> list[tuple[PrimFunc, str]]:
    from tensorir import ops, te

    found = []
    cases = (((1, 5, 6, 5), 2, 0), ((2, 4, 4, 4), 3, 1), ((1, 4, 1, 9), 1, 2))
    for shape, filters, padding in cases:
        x = te.placeholder(shape, "float64", name="x")
        weight = te.placeholder((filters, shape[1], SIDE, SIDE), "float64", name="weight")
        y = ops.conv2d(x, weight, padding=padding, name="y")
        found.append((te.create_prim_func([x, weight, y]), "y"))
    return found


WINOGRAD = tuple(_algorithm(tile) for tile in TILES)
