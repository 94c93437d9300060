"""Winograd's algorithm for sums over windows of unit stride; see ops.winograd_stages.

Which dimension is what follows from how a block reads and stores: there may be windows in one, two
or three dimensions among any others, in any order.

It is of the class "algebraic", which searches use unless their numerics forbid, and the oracle
holds it to a looser bound than any order of summation has. Weights are transformed ahead: doing it
in the loop over channels, from a third of the bytes, took 1.3 times as long (512 channels of 7x7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.recognise import (
    only_user,
    product_of_sum,
    require,
    variables_of,
    writers,
    zero_padding,
)
from tensorir.arith import Analyzer, slope
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, int_value
from tensorir.func import PrimFunc
from tensorir.ops.winograd_form import Window, Windowed
from tensorir.ops.winograd_transforms import Filtering
from tensorir.stmt import Block, IterKind
from tensorir.te.tensor import Tensor
from tensorir.visit import variables

TILES = ((4, 4), (4, 2), (2, 4), (2, 2), (4,), (2,), (4, 4, 4), (2, 2, 2))
"""Sums that a tile has along each window."""

LEAST_TERMS = 4
"""With fewer terms beside those of the windows, as of channels, the transforms cost more than the
products that they save."""

WINDOWS = {1: "one window axis", 2: "two window axes", 3: "three window axes"}


def _algorithm(outputs: tuple[int, ...]) -> Algorithm:
    def recognise(func: PrimFunc, block: Block) -> Alternative:
        form, image, weight, output = windowed(block, outputs)
        source, form, replaced = _padded_from(func, form, image, block)

        def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
            from tensorir.ops.winograd_stages import winograd_stages

            x, w = given
            return [winograd_stages(form, x, w, outputs, names[0])]

        return Alternative((output,), (source, weight.buffer), compute, replaced)

    sizes = " x ".join(map(str, outputs))
    return Algorithm(
        name="winograd_" + "x".join(map(str, outputs)),
        about=(
            f"sums over windows of unit stride in {len(outputs)} dimensions by F({sizes}, taps): "
            "Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016"
        ),
        recognise=recognise,
        examples=lambda: _examples(len(outputs)),
    )


def windowed(block: Block, outputs: Sequence[int]) -> tuple[Windowed, Load, Load, Buffer]:
    """What a block computes, with the loads of the image and of the weights and where it stores.

    Mismatch for a block that F(outputs[i], taps) is not for, along its i-th window.
    """
    store, *operands = product_of_sum(block)
    spatial = variables_of(block, IterKind.SPATIAL)
    reduced = variables_of(block, IterKind.REDUCE)
    own = [i if isinstance(i, Var) and i in spatial else None for i in store.indices]
    units = all(v is not None or int_value(i) == 0 for v, i in zip(own, store.indices))
    stored = {v for v in own if v is not None}
    unit_vars = {v for v, extent in spatial.items() if int_value(extent) == 1}
    whole = units and stored | unit_vars == set(spatial)
    require(whole, f"block {block.name!r} stores elsewhere than at its own variables")
    require(
        all(v is not None or int_value(size) == 1 for v, size in zip(own, store.buffer.shape)),
        f"block {block.name!r} stores one element of a longer dimension",
    )
    kinds = {load.buffer.dtype for load in operands} | {store.buffer.dtype}
    found = ", ".join(sorted(kinds))
    same = kinds in ({"float32"}, {"float64"})
    require(same, f"block {block.name!r} has {found}; all must be float32, or all float64")
    extents = {**spatial, **reduced}
    best: tuple[list[Window], Load, Load] = ([], operands[0], operands[1])
    for image, weight in (operands, operands[::-1]):
        windows = _windows(image, weight, spatial, reduced, stored)
        if len(windows) > len(best[0]):
            best = (windows, image, weight)
    windows, image, weight = best
    fitting = [
        w for w in windows if any(Filtering(m, w.taps).known for m in sorted(set(outputs)))
    ]
    right = len(fitting) == len(outputs) and all(
        Filtering(m, w.taps).known for m, w in zip(outputs, fitting)
    )
    require(
        right,
        f"block {block.name!r} needs {WINDOWS[len(outputs)]} of unit stride and dilation with "
        f"{_taps(outputs)} taps, each with its own dimension of the image and of the weights; "
        f"it has {_described(windows)}",
    )
    rest = [extent for var, extent in reduced.items() if var not in {w.tap for w in fitting}]
    known = [int_value(extent) for extent in rest]
    terms = prod(size or 0 for size in known)
    require(
        terms >= LEAST_TERMS,
        f"block {block.name!r} sums over fewer than {LEAST_TERMS} terms beside its windows"
        if None not in known
        else f"block {block.name!r} sums over a symbolic number of terms; it must be a constant",
    )
    form = Windowed(
        image.indices, weight.indices, tuple(own),
        {v: extents[v] for v in own if v is not None}, reduced, tuple(fitting),
    )  # fmt: skip
    return form, image, weight, store.buffer


def _windows(
    image: Load,
    weight: Load,
    spatial: dict[Var, Expr],
    reduced: dict[Var, Expr],
    stored: set[Var],
) -> list[Window]:
    """The dimensions of an image that are windows of a fixed size, in order."""
    analyzer = Analyzer({**spatial, **reduced})
    used = [set(variables(index)) for index in image.indices]
    taken = [set(variables(index)) for index in weight.indices]
    found = []
    for dim, index in enumerate(image.indices):
        own = [v for v in used[dim] if v in spatial and v in stored]
        taps = [v for v in used[dim] if v in reduced]
        if len(own) != 1 or len(taps) != 1 or len(used[dim]) != 2:
            continue
        (at,), (tap,) = own, taps
        step = slope(index, tap, analyzer)
        if slope(index, at, analyzer) != 1 or step not in (1, -1):
            continue
        offset = int_value(analyzer.simplify(index - at - tap * step))
        alone = sum(bool(each & {at, tap}) for each in used) == 1
        mine = [d for d, each in enumerate(taken) if tap in each]
        apart = len(mine) == 1 and taken[mine[0]] == {tap} and not any(at in d for d in taken)
        extent, count = int_value(spatial[at]), int_value(reduced[tap])
        size = int_value(image.buffer.shape[dim])
        if None in (offset, extent, count, size) or not (alone and apart and extent):
            continue
        found.append(
            Window(at, tap, extent or 0, count or 0, dim, mine[0], offset or 0, step == -1)
        )
    return found


def _taps(outputs: Sequence[int]) -> str:
    """Which numbers of taps there are transforms for."""
    known = [[r for r in range(2, 8) if Filtering(m, r).known] for m in outputs]
    return " by ".join(" or ".join(map(str, each)) for each in known)


def _described(windows: Sequence[Window]) -> str:
    if not windows:
        return "none"
    return f"{len(windows)}, with {' by '.join(str(w.taps) for w in windows)} taps"


def _padded_from(
    func: PrimFunc, form: Windowed, image: Load, user: Block
) -> tuple[Buffer, Windowed, tuple[str, ...]]:
    """The image that a block reads with zeros around, what the block computes in terms of that, and
    the block that made it if no other needs it; else what it reads itself."""
    made = writers(func, image.buffer)
    found = zero_padding(made[0]) if len(made) == 1 else None
    inside = {window.image for window in form.windows}
    if found is None:
        return image.buffer, form, ()
    source, pads = found
    if any(pad != (0, 0) for dim, pad in enumerate(pads) if dim not in inside):
        return image.buffer, form, ()
    windows = tuple(replace(w, offset=w.offset - pads[w.image][0]) for w in form.windows)
    gone = (made[0].name,) if only_user(func, image.buffer, user) else ()
    return source, replace(form, windows=windows), gone


def _examples(count: int) -> list[tuple[PrimFunc, str]]:
    from tensorir import ops, te

    if count == 2:
        found = []
        cases = (((1, 5, 6, 5), 2, 0), ((2, 4, 4, 4), 3, 1), ((1, 4, 1, 9), 1, 2))
        for shape, filters, padding in cases:
            x = te.placeholder(shape, "float64", name="x")
            weight = te.placeholder((filters, shape[1], 3, 3), "float64", name="weight")
            y = ops.conv2d(x, weight, padding=padding, name="y")
            found.append((te.create_prim_func([x, weight, y]), "y"))
        x = te.placeholder((1, 5, 4, 6), "float64", name="x")
        weight = te.placeholder((3, 3, 6, 2), "float64", name="weight")
        y = ops.conv2d(x, weight, padding=1, layout="NHWC", name="y")
        return [*found, (te.create_prim_func([x, weight, y]), "y")]
    sizes = (7,) if count == 1 else (4, 3, 5)
    x = te.placeholder((2, 4, *sizes), "float64", name="x")
    weight = te.placeholder((3, 4, *[3] * count), "float64", name="weight")
    op = ops.conv1d if count == 1 else ops.conv3d
    return [(te.create_prim_func([x, weight, op(x, weight, padding=1, name="y")]), "y")]


WINOGRAD = tuple(_algorithm(outputs) for outputs in TILES)
