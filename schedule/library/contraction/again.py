"""Operands of one buffer that a contraction reads in several places, as a matrix times itself."""

from __future__ import annotations

from dataclasses import replace

from schedule.errors import Refusal
from schedule.library.contraction.axes import Contraction, Operand
from schedule.library.contraction.places import store_of
from schedule.schedule import Schedule
from tensorir import Block, Load, Select, Store, Var, body_loads, int_value, variables, walk_places


def with_own_buffer(sch: Schedule, c: Contraction, operand: int) -> Operand:
    """Read an operand, and no other of its buffer, from a buffer of its own, which the block `pad`
    of what is returned fills. That buffer has a dimension for each variable that moves it. Of those
    that move with the same variables, which are alike, it is the first one that is left.

    ScheduleError where what is read there cannot be computed ahead.
    """
    node = sch.state.block(c.block)
    found = loads_of(node, c, c.operands[operand])
    if not found:
        raise Refusal(f"{c.operands[operand].buffer!r} is read by variables beside its axes'")
    maker = read_apart(sch, c.block, found[0])
    buffer, node = store_of(sch, maker).buffer, sch.state.block(c.block)
    (load,) = [load for load in body_loads(node) if load.buffer is buffer]
    steps: dict[Var, list[int | None]] = {it.var: [0] * len(c.axes) for it in node.iters}
    for n, axis in enumerate(c.axes):
        for digit in reversed(axis.digits):
            steps[node.iters[digit.place].var][n] = digit.lower
    return replace(
        c.operands[operand], buffer=buffer.name, param=False, pad=maker,
        shape=tuple(int_value(size) for size in buffer.shape),
        dims=tuple(tuple(steps[index]) for index in load.indices if isinstance(index, Var)),
    )  # fmt: skip


def loads_of(node: Block, c: Contraction, operand: Operand) -> list[Load]:
    """The loads of the block of `c` that are an operand, told from others of its buffer by the
    variables that they move with: several that are alike, as the parts of complex numbers."""

    def used(n: int) -> set[Var]:
        return {node.iters[digit.place].var for digit in c.axes[n].digits}

    every = set[Var]().union(*map(used, range(len(c.axes))))
    own = set[Var]().union(*(used(n) for n, step in enumerate(operand.strides) if step != 0))
    loads = [load for load in body_loads(node) if load.buffer.name == operand.buffer]
    return [load for load in loads if len(loads) == 1 or variables(load) & every == own]


def read_apart(sch: Schedule, block: str, load: Load) -> str:
    """Let a block of its own read what `load` alone is, under the condition on its variables."""
    return str(sch.cache_value(block, _place(sch.state.block(block), load)))


def _place(node: Block, load: Load) -> list[int]:
    store = node.body
    assert isinstance(store, Store)
    for e, place in walk_places(store.value, into=lambda e: not isinstance(e, Load)):
        keeps = isinstance(e, Select) and load in {e.a, e.b} and variables(e) == variables(load)
        if e is load or (keeps and [x.has_loads for x in e.operands].count(True) == 1):
            return list(place)
    raise AssertionError(f"{node.name} does not read {load!r}")
