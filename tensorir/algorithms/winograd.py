"""Winograd's algorithm for 3x3 convolutions of stride 1; see ops.conv2d_winograd.

The dimensions of image, weights and result may be in any order: which is which follows from the
variables that they are read and written at.

It is of the class "algebraic", which searches use unless their numerics forbid, and the oracle
holds it to a looser bound than any order of summation has. Weights are transformed ahead: doing it
in the loop over channels, from a third of the bytes, took 1.3 times as long (512 channels of 7x7).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

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
from tensorir.expr import Expr, Load, Var, int_value
from tensorir.func import PrimFunc
from tensorir.ops.winograd_transforms import ConvAxes
from tensorir.stmt import Block, IterKind, Store
from tensorir.te.tensor import Tensor
from tensorir.visit import variables

TILES = ((4, 4), (4, 2), (2, 4), (2, 2))
SIDE = 3

LEAST_CHANNELS = 4
"""With fewer, the transforms cost more than the products that they save."""


def _algorithm(tile: tuple[int, int]) -> Algorithm:
    def recognise(func: PrimFunc, block: Block) -> Alternative:
        conv = _convolution(block)
        source, padding, replaced = _padded_from(func, conv, block)

        def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
            from tensorir.ops.winograd import winograd_convolution

            x, w = given
            return [
                winograd_convolution(name, x, w, None, tile, padding, None, conv.axes, names[0])
            ]

        inputs = (source, conv.weight.buffer)
        return Alternative((conv.store.buffer,), inputs, compute, replaced)

    name = f"winograd_{tile[0]}x{tile[1]}"
    return Algorithm(
        name=name,
        about=(
            f"a 3x3 convolution of stride 1 by F({tile[0]} x {tile[1]}, 3 x 3): Lavin and Gray, "
            "Fast Algorithms for Convolutional Neural Networks, 2016"
        ),
        recognise=recognise,
        examples=_examples,
    )


@dataclass(frozen=True)
class _Convolution:
    """out[n, o, h, w] += image[n, c, h + r, w + s] * weight[o, c, r, s], dimensions in the orders
    of `axes`."""

    store: Store
    image: Load
    weight: Load
    axes: ConvAxes


def _convolution(block: Block) -> _Convolution:
    """What a block reads and stores if it is such a convolution; Mismatch if not."""
    store, *operands = product_of_sum(block)
    what = f"block {block.name!r} is no 3x3 convolution of stride 1"
    spatial = variables_of(block, IterKind.SPATIAL)
    reduced = variables_of(block, IterKind.REDUCE)
    own = [i for i in store.indices if isinstance(i, Var)]
    require(len(own) == 4 and set(own) == set(spatial) and len(reduced) == 3, what)
    require(all(load.buffer.ndim == 4 for load in operands), what)
    plain = [set(load.indices) <= {*own, *reduced} for load in operands]
    require(sorted(plain) == [False, True], what)
    weight, image = operands if plain[0] else operands[::-1]
    roles = _roles(image, own, reduced, what)
    n, o, h, w, c, r, s = (roles[role] for role in "nohwcrs")
    require(int_value(reduced[r]) == SIDE and int_value(reduced[s]) == SIDE, what)
    names = {var: role for role, var in roles.items()}
    filters = "".join(names[i] for i in weight.indices if isinstance(i, Var))
    require(sorted(filters) == sorted("ocrs"), what)
    sizes = {
        "n": spatial[n], "c": reduced[c],
        "h": spatial[h] + SIDE - 1, "w": spatial[w] + SIDE - 1,
    }  # fmt: skip
    order = "".join(
        next(axis for axis in "nchw" if roles[axis] in variables(i)) for i in image.indices
    )
    whole = all(same_index(a, sizes[axis]) for a, axis in zip(image.buffer.shape, order))
    require(whole, f"{what} of a whole image")
    many = (int_value(reduced[c]) or 0) >= LEAST_CHANNELS
    require(many, f"block {block.name!r} sums over fewer than {LEAST_CHANNELS} channels")
    kinds = {store.buffer.dtype, image.buffer.dtype, weight.buffer.dtype}
    exact = kinds in ({"float32"}, {"float64"})
    found = ", ".join(sorted(kinds))
    require(exact, f"block {block.name!r} has {found}; all must be float32, or all float64")
    result = "".join(names[i] for i in own).replace("o", "c")
    return _Convolution(store, image, weight, ConvAxes(order, filters, result))


def _roles(image: Load, own: Sequence[Var], reduced: Collection[Var], what: str) -> dict[str, Var]:
    """The variables by their roles: samples, output channels, rows, columns, input channels, and
    rows and columns of the filter."""
    windows = []
    rest: list[Expr] = []
    for index in image.indices:
        pairs = [(i, j) for i in own for j in reduced if same_index(index, i + j)]
        windows += pairs
        rest += [] if pairs else [index]
    require(len(windows) == 2 and len(rest) == 2, what)
    (h, r), (w, s) = windows
    samples = [i for i in rest if i in own and i not in (h, w)]
    channels = [i for i in rest if i in reduced and i not in (r, s)]
    require(len(samples) == len(channels) == 1 and h is not w and r is not s, what)
    (n,), (c,) = samples, channels
    (o,) = [i for i in own if i not in (n, h, w)]
    assert isinstance(n, Var) and isinstance(c, Var)
    return {"n": n, "o": o, "h": h, "w": w, "c": c, "r": r, "s": s}


def _padded_from(
    func: PrimFunc, conv: _Convolution, user: Block
) -> tuple[Buffer, int, tuple[str, ...]]:
    """The image that the convolution reads with zeros around, how many, and the block that made it
    if no other needs it; else what it reads itself."""
    buffer = conv.image.buffer
    made = writers(func, buffer)
    found = zero_padding(made[0]) if len(made) == 1 else None
    if found is None:
        return buffer, 0, ()
    source, pads = found
    around = dict(zip(conv.axes.image, pads))
    if around["n"] or around["c"] or around["h"] != around["w"]:
        return buffer, 0, ()
    gone = (made[0].name,) if only_user(func, buffer, user) else ()
    return source, around["h"], gone


def _examples() -> list[tuple[PrimFunc, str]]:
    from tensorir import ops, te

    found = []
    cases = (((1, 5, 6, 5), 2, 0), ((2, 4, 4, 4), 3, 1), ((1, 4, 1, 9), 1, 2))
    for shape, filters, padding in cases:
        x = te.placeholder(shape, "float64", name="x")
        weight = te.placeholder((filters, shape[1], SIDE, SIDE), "float64", name="weight")
        y = ops.conv2d(x, weight, padding=padding, name="y")
        found.append((te.create_prim_func([x, weight, y]), "y"))
    x = te.placeholder((1, 5, 4, 6), "float64", name="x")
    weight = te.placeholder((SIDE, SIDE, 6, 2), "float64", name="weight")
    y = ops.conv2d(x, weight, padding=1, layout="NHWC", name="y")
    return [*found, (te.create_prim_func([x, weight, y]), "y")]


WINOGRAD = tuple(_algorithm(tile) for tile in TILES)
