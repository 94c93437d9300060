"""Where the axes of a contraction are in a schedule: loops and dimensions, found by structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedule.errors import Refusal
from schedule.library.contraction.axes import Axis, Contraction, Digit
from schedule.schedule import Schedule
from schedule.state import LoopRef
from tensorir import IterKind, Store, Var, body_loads, int_value, variables


class NoContraction(Refusal):
    """What a block does is no contraction, whatever else may be said of it."""


def store_of(sch: Schedule, block: str) -> Store:
    """The only store of a block; NoContraction where it has several."""
    body = sch.state.block(block).body
    if not isinstance(body, Store):
        raise NoContraction(f"block {block!r} stores more than one value; schedule it by hand")
    return body


def own_loops(sch: Schedule, block: str) -> list[LoopRef]:
    """The loops around a block that hold no other block, outermost first."""
    return [loop for loop in sch.get_loops(block) if len(sch.state.blocks_inside(loop)) == 1]


def loops_by_place(sch: Schedule, block: str) -> dict[int, LoopRef]:
    """From the position of each variable to the innermost own loop that it depends on."""
    around = own_loops(sch, block)
    found: dict[int, LoopRef] = {}
    for place, it in enumerate(sch.state.block(block).iters):
        used = {var.name for var in variables(it.binding)}
        for loop in around:
            if loop in used:
                found[place] = loop
    return found


def loops_by_dimension(sch: Schedule, block: str) -> list[LoopRef | None]:
    """The own loop of each dimension that a block stores at one of its variables."""
    places = {it.var: place for place, it in enumerate(sch.state.block(block).iters)}
    loops = loops_by_place(sch, block)
    return [
        loops.get(places[index]) if isinstance(index, Var) and index in places else None
        for index in store_of(sch, block).indices
    ]


def long_dimensions(sch: Schedule, block: str) -> list[int]:
    """The dimensions of what a block stores that have more than one element."""
    return [n for n, size in enumerate(store_of(sch, block).buffer.shape) if int_value(size) != 1]


def followers(sch: Schedule, c: Contraction, *stages: str) -> dict[int, Var]:
    """From the position of each variable of the sums to the one that takes its place in the last of
    `stages`, each of which reads what the one before stores, the first what the sums are."""
    made = c.block
    vars_of = {n: it.var for n, it in enumerate(sch.state.block(made).iters)}
    for stage in stages:
        if stage == made:
            continue
        store = store_of(sch, made)
        reads = [n for n in body_loads(sch.state.block(stage)) if n.buffer is store.buffer]
        found = {own: i for load in reads for own, i in zip(store.indices, load.indices)}
        next_of = {p: found.get(v) for p, v in vars_of.items()}
        vars_of = {p: v for p, v in next_of.items() if isinstance(v, Var)}
        made = stage
    return vars_of


def layout(
    sch: Schedule, c: Contraction, stages: Sequence[str], order: Sequence[int], panel: int | None
) -> str:
    """The index map for what the last of `stages` stores: a dimension for each axis, in this order.

    With `panel`, the last axis is in panels of so many elements: the number of the panel is where
    the axis stands in the result, the element last. Refusal where a stage has no variable for
    an axis, as `o // 4` is none.
    """
    vars_of = followers(sch, c, *stages)
    indices = store_of(sch, stages[-1]).indices
    names = {index: f"d{n}" for n, index in enumerate(indices) if isinstance(index, Var)}
    places = {p: names[v] for p, v in vars_of.items() if v in names}
    if any(digit.place not in places for n in order for digit in c.axes[n].digits):
        raise Refusal(
            f"block {stages[-1]!r} has no variable for each axis of {c.block!r}; bring both on "
            "their axes first (library.on_axes)"
        )
    dims = axis_texts([c.axes[n] for n in order], places)
    values = dict(zip(order, dims))
    if panel is not None:
        lane = order[-1]
        dims = [f"({values[n]}) // {panel}" if n == lane else values[n] for n in sorted(order)]
        dims.append(f"({values[lane]}) % {panel}")
    return f"{', '.join(f'd{n}' for n in range(len(indices)))}: {', '.join(dims)}"


def lay_out(sch: Schedule, stage: str, index_map: str) -> None:
    """`transform_layout` of what a stage stores, if the map changes anything."""
    names, _, dims = index_map.partition(": ")
    if names != dims:
        sch.transform_layout(stage, store_of(sch, stage).buffer.name, index_map)


def axis_texts(axes: Sequence[Axis], names: Mapping[int, str]) -> list[str]:
    """Axes as expressions of variables, whose names are given by their places."""
    return [digits_text(axis.joined.digits, names) for axis in axes]


def digits_text(digits: Sequence[Digit], names: Mapping[int, str]) -> str:
    """Digits, outermost first, as one number, an expression of what they are of."""
    value = ""
    for digit in digits:
        text = name = names[digit.place]
        if not digit.whole:
            text = name if digit.lower == 1 else f"{name} // {digit.lower}"
            text = text if digit.top else f"({text}) % {digit.extent}"
        value = f"({value}) * {digit.extent} + {text}" if value else text
    return value


def axis_loops(sch: Schedule, axes: Sequence[Axis], loops: Mapping[int, LoopRef]) -> list[LoopRef]:
    """One loop for each axis; next to each other and in this order, where some are made of several.

    `loops` are those of whole variables, by position, in one nest: they are split into digits, and
    digits fused.
    """
    parts: dict[Digit, LoopRef] = {}
    digits = [digit for axis in axes for digit in axis.digits]
    if any(digit.place not in loops for digit in digits):  # min(n, 1) is 0 or 1, whatever n is
        raise Refusal("a loop of at most one iteration is no axis: fix its extent")
    for place in dict.fromkeys(digit.place for digit in digits):
        mine = sorted((d for d in digits if d.place == place), key=lambda d: -d.lower)
        if len(mine) == 1:
            parts[mine[0]] = loops[place]
        else:
            parts.update(zip(mine, sch.split(loops[place], [None, *(d.extent for d in mine[1:])])))
    if len(digits) > len(axes):  # loops of one iteration may stand between
        idle = [loops[place] for place in sorted(loops.keys() - {d.place for d in digits})]
        sch.reorder(*idle, *(parts[digit] for digit in digits))
    every = [[parts[digit] for digit in axis.digits] for axis in axes]
    return [sch.fuse(*own) if len(own) > 1 else own[0] for own in every]


def reduce_loops(sch: Schedule, c: Contraction, order: Sequence[int]) -> list[LoopRef]:
    """One loop for each of the axes that are summed over, of the sums' own ones.

    Variables of the reduction keep their order whatever is done to the layout of the sums.
    """
    loops = loops_by_place(sch, c.block)
    iters = sch.state.block(c.block).iters
    digits = [d for n in c.reduced for d in c.axes[n].digits]
    before = sorted({d.place for d in digits})
    long = [n for n, it in enumerate(iters) if it.kind is IterKind.REDUCE and n in loops]
    return axis_loops(sch, [c.axes[n] for n in order], dict(zip(before, (loops[n] for n in long))))
