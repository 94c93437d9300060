"""Groups: the units that sketch rules schedule. A group is a block and what is fused with it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from schedule import Refusal, Schedule, is_filled, writers
from tensorir import (
    Analyzer,
    Block,
    Buffer,
    Const,
    Expr,
    Extern,
    IterKind,
    Load,
    Store,
    Var,
    body_loads,
    const,
    dtype,
    int_value,
    slope,
    substitute,
    variables,
    walk,
    walk_exprs,
    written,
)

Refused = dict[str, dict[str, str]]
"""What is refused of blocks, and why, by the names of these."""

SYMBOLIC_SIZE = 256
"""The extent assumed for a symbolic size when work is estimated."""


@dataclass(frozen=True)
class Group:
    """A block, the elementwise consumer that can be fused behind it, and padding before it."""

    block: str
    epilogue: str | None = None
    padding: tuple[str, ...] = ()

    @property
    def blocks(self) -> tuple[str, ...]:
        """All of its blocks, in the order of the program."""
        return (*self.padding, self.block, *([self.epilogue] if self.epilogue else ()))

    def without(self, stages: Collection[str]) -> Group:
        """The same block, without what is one of `stages`, which others schedule."""
        epilogue = None if self.epilogue in stages else self.epilogue
        return Group(self.block, epilogue, tuple(p for p in self.padding if p not in stages))


def size(extent: Expr) -> int:
    """An extent as a number; symbolic sizes in it count as SYMBOLIC_SIZE."""
    known = int_value(extent)
    return _usual(extent) if known is None else known


@lru_cache(maxsize=1024)
def _usual(extent: Expr) -> int:
    """What an extent is where each size in it is the usual one; what depends on memory is that."""
    usual = {var: const(SYMBOLIC_SIZE, var.dtype) for var in variables(extent)}
    known = int_value(Analyzer().simplify(substitute(extent, usual)))
    return SYMBOLIC_SIZE if known is None else known


def instances(block: Block, kind: IterKind | None = None) -> int:
    """How often a block runs, or how many values its variables of one kind take."""
    return prod(size(it.extent) for it in block.iters if kind is None or it.kind is kind)


def output_store(block: Block) -> Store | None:
    """The only store of a block."""
    return block.body if isinstance(block.body, Store) else None


def stores_at_variables(block: Block) -> bool:
    """Whether a block has one store, at its variables, so that the place tells the value."""
    store = output_store(block)
    return store is not None and {it.var for it in block.spatial} <= set(store.indices)


def stores_of(block: Block) -> tuple[Store, ...]:
    """The stores of a block, one or several."""
    return tuple(stmt for stmt in walk(block.body) if isinstance(stmt, Store))


def widens(block: Block) -> bool:
    """Whether a block is a reduction of a wider type than all it reads."""
    wide = dtype.bits(written(block)[0].dtype) if block.is_reduction else 0
    return max((dtype.bits(x.buffer.dtype) for x in body_loads(block)), default=wide) < wide


def calls_extern(block: Block) -> bool:
    """Whether a block calls an extern function, of which only the loops can be scheduled."""
    return any(isinstance(stmt, Extern) for stmt in walk(block.body))


def elements(block: Block) -> int:
    """How many elements a block makes or reads, about: its instances, of an extern function times
    the size of its largest part."""
    calls = [stmt for stmt in walk(block.body) if isinstance(stmt, Extern)]
    parts = [prod(map(size, part.shape)) for call in calls for part in call.parts]
    return instances(block) * max([*parts, 1])


def is_padding(block: Block) -> bool:
    """Whether a block copies one buffer, converted maybe, with a fill value around it: what is
    read decides neither where that is nor what is there."""
    store = output_store(block)
    return store is not None and not block.is_reduction and is_filled(store.value)


def attempt(refused: dict[str, str], what: str, step: Callable[..., object], *args: Any) -> bool:
    """Whether a step is accepted that a rule can go on without; `refused` learns why it is not."""
    try:
        step(*args)
    except Refusal as error:
        refused[what] = error.reason
        return False
    return True


def bytes_of(buffer: Buffer) -> int:
    """What a buffer takes of memory."""
    return prod(map(size, buffer.shape)) * dtype.itemsize(buffer.dtype)


def moved_bytes(block: Block) -> int:
    """What a block reads and writes, each element once."""
    used = {load.buffer for load in body_loads(block)} | {s.buffer for s in stores_of(block)}
    return sum(min(bytes_of(b), instances(block) * dtype.itemsize(b.dtype)) for b in used)


def operations(block: Block) -> int:
    """The different operations on values, not on indices, in the store of a block."""
    store = output_store(block)
    nodes = walk_exprs(store.value) if store is not None else ()
    leaves = (Const, Load, Var)
    return sum(n.dtype != dtype.INDEX and not isinstance(n, leaves) for n in nodes)


def in_scan(sch: Schedule, block: Block) -> bool:
    """Whether a block is a step of a te.scan, or makes its first rows."""
    steps = any(it.kind is IterKind.OPAQUE for it in block.iters)
    return steps or any(len(writers(sch.state, buffer)) > 1 for buffer in written(block))


def find_groups(sch: Schedule, kept: Collection[str] = ()) -> list[Group]:
    """The blocks of a schedule but `kept` ones, in program order, each in one group: epilogues and
    padding go with their block, and what may be either goes with what it reads."""
    taken: set[str] = set(kept)
    groups: list[Group] = []
    for name in sch.get_blocks():
        block = sch.state.block(name)
        if name in taken or is_padding(block) and _feeds_reduction(sch, name):
            continue
        epilogue = epilogue_of(sch, name) if block.is_reduction else None
        epilogue = None if epilogue in taken else epilogue
        makers = [p for p in sch.get_producers(name) if block.is_reduction and p not in taken]
        padding = [p for p in makers if is_padding(sch.state.block(p)) and _feeds_reduction(sch, p)]
        taken.update(padding, [epilogue] if epilogue else [])
        groups.append(Group(str(name), epilogue, tuple(map(str, padding))))
    return groups


def _feeds_reduction(sch: Schedule, name: str) -> bool:
    """Whether what a stage makes is for one reduction alone, and no output."""
    if any(buffer in sch.func.params for buffer in written(sch.state.block(name))):
        return False
    users = sch.get_consumers(name)
    return len(users) == 1 and sch.state.block(users[0]).is_reduction


def epilogue_of(sch: Schedule, name: str) -> str | None:
    """The elementwise stage that alone reads what a reduction makes, element by element."""
    users = sch.get_consumers(name)
    store = output_store(sch.state.block(name))
    if len(users) != 1 or store is None or store.buffer in sch.func.params:
        return None
    user = sch.state.block(users[0])
    if user.is_reduction or output_store(user) is None:
        return None
    place = sch.state.place
    if any(place(other) > place(name) for other in sch.get_producers(users[0])):
        return None  # what else it reads is not there yet
    reads = [n for n in body_loads(user) if n.buffer is store.buffer]
    once = instances(user) == instances(sch.state.block(name), IterKind.SPATIAL)
    return str(user.name) if once and len(reads) == 1 and _reads_all(user, reads[0]) else None


def _reads_all(user: Block, load: Load) -> bool:
    """Whether each index is a variable of the reader that takes all of its values."""
    extents = {it.var: it.extent for it in user.iters}
    return all(
        extents.get(i) is size if isinstance(i, Var) else int_value(i) == 0 and int_value(size) == 1
        for i, size in zip(load.indices, load.buffer.shape)
    )


@lru_cache(maxsize=1024)
def flat_place(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """Where in memory an element lies, by sizes as numbers."""
    flat: Expr = const(0)
    step = 1
    for index, extent in zip(reversed(indices), reversed(buffer.shape)):
        flat = flat + index * step
        step = min(step * size(extent), 1 << 48)  # nine sizes of 256 are more than int64 holds
    return flat


def stride_in(access: Load | Store, var: Var, block: Block) -> int | None:
    """How far apart in memory the elements of neighbouring values of `var` lie; None if unknown.

    0 where the access does not depend on the variable, 1 where it is contiguous.
    """
    analyzer, flat = Analyzer(), flat_place(access.buffer, access.indices)
    if var not in variables(flat):
        return 0
    return slope(analyzer.simplify(flat), var, analyzer)


def lane_of(block: Block) -> Var | None:
    """The variable along which all that a block stores is contiguous; None where none is."""
    made = stores_of(block)
    long = (it.var for it in reversed(block.iters) if made and int_value(it.extent) != 1)
    return next((v for v in long if all(stride_in(m, v, block) == 1 for m in made)), None)


def bent(block: Block) -> bool:
    """Whether a load reads at quotients, limits or the like of the last axis: where in memory the
    lanes of a vector lie is known only where the vector is."""
    last = lane_of(block)
    if last is None:
        last = block.spatial[-1].var
    return any(
        stride_in(load, last, block) is None
        and not any(_is_computed(index, last) for index in load.indices)
        for load in body_loads(block)
    )


def _is_computed(index: Expr, var: Var) -> bool:
    """Whether `index` depends on `var`, and on memory or on floats made of it: where that lies is
    not known even where `var` is."""
    if var not in variables(index):
        return False
    return index.has_loads or any(
        dtype.is_float(part.dtype) and var in variables(part) for part in walk_exprs(index)
    )
