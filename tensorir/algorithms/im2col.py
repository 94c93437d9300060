"""Convolutions as products of matrices: the inputs of each output in a column, written out.

The matrix has an image many times over, which costs memory; the product of it is like any other.
Source: Chellapilla, Puri and Simard, "High Performance Convolutional Neural Networks for Document
Processing", 2006.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.recognise import product_of_sum, require, variables_of
from tensorir.expr import Const, Expr, Load, Var, int_value
from tensorir.func import PrimFunc
from tensorir.stmt import Block, IterKind, Store
from tensorir.te.tensor import Tensor
from tensorir.visit import substitute, variables

LEAST_TAPS = 2
"""Reduction axes of a window; with one, there is a product of matrices already."""


@dataclass(frozen=True)
class _Window:
    """out[rows, filters, pixels] += image[f(rows, pixels, steps)] * weight[filters, steps].

    `rows` are spatial variables before those of the filters in the result, `pixels` those after.
    All but the extents of `rows` are numbers.
    """

    store: Store
    image: Load
    weight: Load
    rows: tuple[Var, ...]
    filters: tuple[Var, ...]
    pixels: tuple[Var, ...]
    steps: tuple[Var, ...]
    extents: dict[Var, Expr]

    def size(self, over: Sequence[Var]) -> int:
        return prod(int_value(self.extents[var]) or 0 for var in over)


def _recognise(func: PrimFunc, block: Block) -> Alternative:
    window = _window(block)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        return [_product(window, given[0], given[1], names[0])]

    return Alternative((window.store.buffer,), (window.image.buffer, window.weight.buffer), compute)


def _window(block: Block) -> _Window:
    """The parts of a convolution with its channels before the pixels; Mismatch for other blocks."""
    store, *operands = product_of_sum(block)
    what = f"block {block.name!r} is no convolution whose channels come before the pixels"
    spatial = variables_of(block, IterKind.SPATIAL)
    reduced = variables_of(block, IterKind.REDUCE)
    own = tuple(i for i in store.indices if isinstance(i, Var))
    require(len(own) == len(store.indices) and set(own) == set(spatial), what)
    for image, weight in (operands, operands[::-1]):
        used = [variables(i) for i in image.indices]
        read = {var for each in used for var in each}
        slides = any(each & set(spatial) and each & set(reduced) for each in used)
        plain = tuple(i for i in weight.indices if isinstance(i, Var))
        simple = all(isinstance(i, (Var, Const)) for i in weight.indices)
        if slides and simple and set(plain) >= set(reduced):
            break
    else:
        require(False, what)
    filters = tuple(v for v in own if v in plain and v not in read)
    pixels = own[own.index(filters[-1]) + 1 :] if filters else ()
    rows = own[: own.index(filters[0])] if filters else ()
    steps = tuple(reduced)
    require(bool(filters and pixels) and (*rows, *filters, *pixels) == own, what)
    require(set(plain) == {*filters, *steps}, f"{what} and in one group")
    require(len(steps) >= LEAST_TAPS, what)
    extents = {**spatial, **reduced}
    fixed = all(int_value(extents[var]) for var in (*filters, *pixels, *steps))
    require(fixed, f"sizes of block {block.name!r} are symbolic or zero")
    return _Window(store, image, weight, rows, filters, pixels, steps, extents)


def _product(window: _Window, image: Tensor, weight: Tensor, name: str) -> Tensor:
    """The matrix of windows, that of the weights, their product, and the result in its shape."""
    from tensorir import te

    depth, count = window.size(window.steps), window.size(window.pixels)
    outer = tuple(window.extents[var] for var in window.rows)

    def column(*i: Expr) -> Expr:
        rows, (k, p) = i[: len(outer)], i[len(outer) :]
        values = {**dict(zip(window.rows, rows)), **_digits(window, window.steps, k)}
        values.update(_digits(window, window.pixels, p))
        return image[tuple(substitute(index, values) for index in window.image.indices)]

    def row(o: Expr, k: Expr) -> Expr:
        values = {**_digits(window, window.filters, o), **_digits(window, window.steps, k)}
        return weight[tuple(substitute(index, values) for index in window.weight.indices)]

    filters = window.size(window.filters)
    columns = te.compute((*outer, depth, count), column, f"{name}_columns")
    rows = te.compute((filters, depth), row, f"{name}_weights")
    k = te.reduce_axis(depth, name="k")

    def dot(*i: Expr) -> Expr:
        lead, (o, p) = i[: len(outer)], i[len(outer) :]
        return te.sum(columns[(*lead, k, p)] * rows[o, k], axis=k)

    product: Tensor = te.compute((*outer, filters, count), dot, f"{name}_product")

    def element(*i: Expr) -> Expr:
        at = dict(zip((*window.rows, *window.filters, *window.pixels), i))
        lead = tuple(at[var] for var in window.rows)
        o, p = (_place(window, over, at) for over in (window.filters, window.pixels))
        return product[(*lead, o, p)]

    return te.compute(window.store.buffer.shape, element, name)  # type: ignore[no-any-return]


def _digits(window: _Window, over: Sequence[Var], place: Expr) -> dict[Var, Expr]:
    """The values of variables at a place in the row-major order of their ranges."""
    found: dict[Var, Expr] = {}
    for number, var in enumerate(over):
        below = window.size(over[number + 1 :])
        digit = place // below if below > 1 else place
        found[var] = digit % window.size([var]) if number else digit
    return found


def _place(window: _Window, over: Sequence[Var], values: dict[Var, Expr]) -> Expr:
    """The place of values in the row-major order of their ranges."""
    place = values[over[0]]
    for var in over[1:]:
        place = place * window.size([var]) + values[var]
    return place


def _examples() -> list[tuple[PrimFunc, str]]:
    from tensorir import ops, te

    found = []
    for shape, taps, options in (
        ((2, 3, 6, 5), (3, 3), {"padding": 1}),
        ((1, 2, 7, 8), (2, 3), {"stride": 2, "dilation": (1, 2)}),
    ):
        x = te.placeholder(shape, "float64", name="x")
        w = te.placeholder((4, shape[1], *taps), "float64", name="w")
        found.append((te.create_prim_func([x, w, ops.conv2d(x, w, name="y", **options)]), "y"))
    return found


IM2COL = Algorithm(
    name="im2col",
    about="a convolution as the product of the weights and of a matrix of all windows",
    recognise=_recognise,
    examples=_examples,
    numerics="reassociated",
)
