"""The axes of stages: of the memory that they access, and not of the text."""

from __future__ import annotations

from itertools import combinations

from schedule.library.contraction.axes import Axis, Contraction, Operand
from schedule.library.contraction.find import flat_index, read_by
from schedule.library.contraction.normalise import merged_axes, sorted_axes
from schedule.schedule import Schedule
from tensorir import IterKind, Load, Store, body_loads, checked, int_value, numbers_of, walk

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
    stores = [stmt for stmt in walk(node.body) if isinstance(stmt, Store)]
    found: list[Load | Store] = [*stores, *body_loads(node)]
    digits, reader = read_by(node, found if parts else ())
    made, *read = [reader.flat(access) for access in found]
    sums = [node.iters[p.digit.place].kind is IterKind.REDUCE for p in digits]
    raw = Contraction(
        block, block, tuple(Axis((p.digit,), kind) for p, kind in zip(digits, sums)),
        tuple(n for n, kind in enumerate(sums) if kind),
        tuple(Operand(**vars(access)) for access in read), made, made, 0,
        tuple(tuple(reader.steps(n)) for store in stores for n in numbers_of(store.value)),
    )  # fmt: skip
    shifts = {
        abs(steps)
        for a, b in combinations(found[len(stores) :], 2)
        if a.buffer is b.buffer
        and (steps := int_value(reader.analyzer.simplify(flat_index(a) - flat_index(b))))
    }

    def stay(c: Contraction, outer: int, inner: int) -> bool:
        """Whether they are terms, or rows of the inner axis read what others read."""
        if c.axes[inner].reduce:
            return True
        far = {o.strides[outer] for o in c.operands}
        long = (c.axes[inner].extent or 0) >= ROW
        return long and any(step and n % step == 0 for n in shifts for step in far)

    axes = sorted_axes(merged_axes(raw, stay) if merged else raw).axes
    return tuple(axis.joined for axis in axes if not axis.reduce)
