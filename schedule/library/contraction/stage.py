"""The axes of stages: of the memory that they access, and not of the text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, takewhile

from schedule.library.contraction.axes import Axis, Contraction, Operand
from schedule.library.contraction.find import flat_index, read_by
from schedule.library.contraction.normalise import merged_axes, sorted_axes
from schedule.schedule import Schedule
from tensorir import (
    Analyzer,
    Block,
    IterKind,
    IterVar,
    Load,
    Store,
    body_loads,
    checked,
    numbers_of,
    walk,
)

ROW = 64
"""Elements from which on a row stays one where neighbouring rows read the same."""


@checked
def stage_axes(
    sch: Schedule, block: str, merged: bool = True, parts: bool = True
) -> tuple[Axis, ...]:
    """The axes of what a stage makes, in the order of the memory that it writes.

    As in a contraction, what is accessed in parts is several, what lies side by side in every
    access is one, and what has one value is none; distances are those in memory, however many
    indices an access has. Long rows that share what they read stay rows.

    merged  whether what lies side by side is one
    parts   whether variables that are accessed in parts are several

    Of a block with several stores, the order is that of the first one.
    """
    node = sch.state.block(block)
    reads, analyzer = body_loads(node), Analyzer()
    raw = _accessed(node, reads, parts)
    places = [(load.buffer, analyzer.linear(flat_index(load))) for load in reads]
    pairs = (a.minus(b) for (x, a), (y, b) in combinations(places, 2) if x is y)
    shifts = {abs(rest.const) for rest in map(analyzer.recombined, pairs) if not rest.terms}

    def stay(c: Contraction, outer: int, inner: int) -> bool:
        """Whether they are terms, or rows of the inner axis read what others read."""
        if c.axes[inner].reduce:
            return True
        far = {o.strides[outer] for o in c.operands}
        long = (c.axes[inner].extent or 0) >= ROW
        return long and any(step and n % step == 0 for n in shifts for step in far)

    axes = sorted_axes(merged_axes(raw, stay) if merged else raw).axes
    return tuple(axis.joined for axis in axes if not axis.reduce)


def contiguous_run(node: Block) -> list[IterVar]:
    """The last variables of a reduction along which each load of a block moves by one element, or
    stays where it is: through all of them as through one, without divisions in numbers that they
    are. Where memory says what a load reads, that counts for nothing.

    Empty where the last variable of several values moves a load by another step, or no load.
    """
    c = merged_axes(_accessed(node, placed_loads(node)), lambda c, _, n: not c.axes[n].reduce)
    if not c.written:
        return []
    last = c.written[-1]
    steps = {o.strides[last] for o in c.operands}
    if 1 not in steps or steps - {0, 1}:
        return []
    whole = takewhile(lambda digit: digit.whole, reversed(c.axes[last].joined.digits))
    return [node.iters[digit.place] for digit in whole][::-1]


def placed_loads(node: Block) -> list[Load]:
    """The loads of a block whose place no memory says."""
    return [load for load in body_loads(node) if not any(i.has_loads for i in load.indices)]


def _accessed(node: Block, reads: Sequence[Load], parts: bool = True) -> Contraction:
    """A block with all of its variables, and some loads, as a contraction; distances are those in
    memory."""
    stores = [stmt for stmt in walk(node.body) if isinstance(stmt, Store)]
    found: list[Load | Store] = [*stores, *reads]
    digits, reader = read_by(node, found if parts else ())
    made, *read = [reader.flat(access) for access in found]
    sums = [node.iters[p.digit.place].kind is IterKind.REDUCE for p in digits]
    return Contraction(
        str(node.name), str(node.name),
        tuple(Axis((p.digit,), kind) for p, kind in zip(digits, sums)),
        tuple(n for n, kind in enumerate(sums) if kind),
        tuple(Operand(**vars(access)) for access in read), made, made, 0,
        tuple(tuple(reader.steps(n)) for store in stores for n in numbers_of(store.value)),
    )  # fmt: skip
