"""Merging a consumer into the block that computes its input: when that keeps the meaning.

The consumer's instances then run where the producer's did. So both must have the same instances,
the producer must run each of its own once, and what else the consumer reads must be there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schedule.analysis.uses import (
    accesses,
    is_output,
    producers,
    readers,
    reduces,
    reduction_loops,
    written,
)
from schedule.checks.ownership import require_sole_writer
from schedule.errors import require
from schedule.rewrite.guarded import always_reads, instances_are_elements
from schedule.rewrite.mapped_read import Found, mapped_read
from schedule.rewrite.placement import beyond_extents
from schedule.state import State, extents
from tensorir import (
    Analyzer,
    Block,
    Buffer,
    Digit,
    Expr,
    For,
    ForKind,
    IterKind,
    Load,
    Store,
    Var,
    body_loads,
    const,
    decompose,
    determines,
    int_value,
    relax,
    substitute,
)


class Merge(NamedTuple):
    """A producer and its only consumer, both of one store, and where they meet."""

    producer: Block
    made: Store
    consumer: Block
    store: Store
    load: Load
    values: dict[Var, Expr]
    """The consumer's variables in those of the producer."""
    where: Expr | None
    """The condition, in those of the producer, under which the consumer has an instance; None where
    it always has."""

    def in_producer(self, e: Expr) -> Expr:
        """An expression of the consumer's variables in those of the producer."""
        return substitute(e, self.values)

    def indices(self) -> tuple[Expr, ...]:
        """Where the consumer stores, in the variables of the producer."""
        return tuple(self.in_producer(index) for index in self.store.indices)


def plan_merge(
    state: State, consumer: str, producer: str, any_map: bool = False, part: bool = False
) -> Merge:
    """Check all that does not depend on what is computed; refuses what would change the meaning.

    With `any_map` the consumer may read each element once anywhere, as transposes and reshapes do;
    with `part` it may leave some out.
    """
    node, maker = state.block(consumer), state.block(producer)
    store = node.body
    require(
        isinstance(store, Store) and not node.is_reduction,
        consumer,
        f"block {consumer!r} is a reduction, or stores more than one value",
    )
    assert isinstance(store, Store)
    made = _made(maker)
    _only_link(state, made.buffer, consumer, producer)
    read = _plain_read(state, node, made)
    if read is None and any_map:
        read = mapped_read(node, made, _over(state, node), _over(state, maker))
    left_out = read is not None and read[2] is not None and not part
    require(
        read is not None and not left_out,
        consumer,
        f"block {consumer!r} does not read all of {made.buffer.name!r} at its own variables, each "
        "once" + (", or at places that tell them" if any_map else ""),
        "compute all and store a part of it (part=True)" if left_out else "use reverse_compute_at",
    )
    assert read is not None
    load, values, where = read
    if not always_reads(store, made.buffer):
        at = next(a for a in accesses(node) if a.buffer is made.buffer)
        instances_are_elements(state, node, at, [producer])
    _same_place_once(state, maker, made)
    _runs_everywhere(state, node)
    analyzer = _over(state, node)
    for it in node.iters:
        others = {i.var: i.extent for i in node.iters}
        require(
            int_value(it.extent) == 1 or determines(store.indices, it.var, others, analyzer),
            consumer,
            f"block {consumer!r} writes the same elements of {store.buffer.name!r} at different "
            f"{it.var.name!r}",
        )
    _order(state, node, maker, store.buffer)
    return Merge(maker, made, node, store, load, values, where)


def _over(state: State, block: Block) -> Analyzer:
    """Knows the variables of a block."""
    analyzer = state.analyzer()
    for it in block.iters:
        analyzer.bind(it.var, it.extent)
    return analyzer


def _made(maker: Block) -> Store:
    """The producer's store, which must be to all of its independent variables, once each."""
    made = maker.body
    spatial = [it.var for it in maker.iters if it.kind is not IterKind.REDUCE]
    plain = isinstance(made, Store) and all(
        index in spatial or int_value(index) == 0 for index in made.indices
    )
    used = [i for i in made.indices if i in spatial] if isinstance(made, Store) else []
    require(
        plain and len(used) == len(set(used)) == len(spatial),
        maker.name,
        f"block {maker.name!r} does not store to its own variables, each once",
    )
    assert isinstance(made, Store)
    return made


def _only_link(state: State, buffer: Buffer, consumer: str, producer: str) -> None:
    """The buffer must be an intermediate between these two blocks and no others."""
    require(
        not is_output(state, buffer),
        producer,
        f"{buffer.name!r}, which block {producer!r} writes, is an output of the function",
    )
    hint = "merge before decompose_reduction"
    require_sole_writer(state, buffer, producer, consumer, hint)
    users = readers(state, buffer)
    require(
        consumer in users, consumer, f"block {consumer!r} does not read what {producer!r} makes"
    )
    for other in users:
        require(other == consumer, consumer, f"{buffer.name!r} is also read by block {other!r}")


def _plain_read(state: State, node: Block, made: Store) -> Found | None:
    """As `mapped_read`, where the load is at the consumer's own variables, of all elements."""
    buffer = made.buffer
    found = body_loads(node, buffer)
    own = {it.var: it for it in node.iters}
    analyzer = state.analyzer()
    values: dict[Var, Expr] = {}
    plain = len(found) == 1
    for index, size, wanted in zip(found[0].indices, buffer.shape, made.indices):
        if int_value(index) == 0 and int_value(size) == 1:
            continue
        it = own.get(index) if isinstance(index, Var) else None
        # More instances than elements read under a condition, and would have nowhere to run.
        same = it is not None and all(map(analyzer.prove, (size <= it.extent, it.extent <= size)))
        if it is None or it.var in values or not same:
            plain = False
            continue
        values[it.var] = wanted
    for it in node.iters:
        if int_value(it.extent) == 1:
            values.setdefault(it.var, const(0))
    return (found[0], values, None) if plain and len(values) == len(node.iters) else None


def _same_place_once(state: State, maker: Block, made: Store) -> None:
    """No loop may repeat an element: the consumer would run twice, or on half of a sum."""
    around = state.loops_around(maker.name)
    known = state.analyzer(around).assuming(maker.predicate)
    values = {it.var: it.binding for it in maker.iters}
    indices = [substitute(index, values) for index in made.indices]
    for loop in around:
        once = loop.const_extent == 1 or reduces(maker, loop.var)
        require(
            once or determines(indices, loop.var, extents(around), known),
            loop.name,
            f"loop {loop.name!r} may repeat instances of block {maker.name!r}",
            "merge before compute_at",
        )


def _runs_everywhere(state: State, node: Block) -> None:
    """Every point of the consumer's domain has an instance; the producer's are all of them."""
    around = state.loops_around(node.name)
    analyzer, ranges = state.analyzer(around), extents(around)
    used: dict[Var, list[Digit]] = {}
    reason = f"block {node.name!r} may leave out some elements"
    hint = "merge it before splitting, fusing or moving its loops"
    require(not beyond_extents(state, node), node.name, reason, hint)
    for it in node.iters:
        parts = decompose(it.binding, ranges, analyzer)
        reach = relax(it.binding, ranges, analyzer)
        whole = (
            parts is not None
            and reach is not None
            and is_dense(parts[0])
            and analyzer.prove(reach.low <= 0)
            and analyzer.prove(it.extent <= reach.low + reach.extent)
        )
        require(whole, node.name, reason, hint)
        assert parts is not None
        for digit in parts[0]:
            used.setdefault(digit.var, []).append(digit)
    for loop in around:
        digits = used.get(loop.var, [])
        require(len(digits) < 2 or _independent(digits, loop), node.name, reason, hint)


def is_dense(digits: Sequence[Digit]) -> bool:
    """Whether sums of the digits take every value from 0 up to their largest."""
    covered = 1
    ordered = sorted(digits, key=lambda d: d.scale)
    for digit in ordered:
        if digit.extent == 1:
            continue
        if digit.scale != covered:
            return False
        if digit.extent is None:  # of symbolic size: it must be the most significant
            return digit is ordered[-1]
        covered *= digit.extent
    return True


def _independent(digits: Sequence[Digit], loop: For) -> bool:
    """Whether digits of one loop take all combinations of their values."""
    reached = 1
    for digit in sorted(digits, key=lambda d: d.divisor):
        if digit.divisor != reached or digit.extent is None:
            return False
        reached *= digit.extent
    return reached == loop.const_extent


def _order(state: State, node: Block, maker: Block, target: Buffer) -> None:
    """Running the consumer earlier must not pass it over anything that it depends on."""
    name, order = node.name, state.block_names()
    place = order.index(maker.name)
    require(place < order.index(name), name, f"block {name!r} runs before {maker.name!r}")
    mine, theirs = state.loops_around(name), state.loops_around(maker.name)
    for loop in reduction_loops(maker, [f for f in theirs if f in mine]):
        require(False, loop.name, f"block {name!r} is inside loop {loop.name!r} of the reduction")
    for other in producers(state, name):
        if other == maker.name:
            continue
        shared = [f for f in state.loops_around(other) if f in theirs]
        require(
            order.index(other) < place and not shared,
            name,
            f"block {other!r}, which {name!r} reads, may run after block {maker.name!r}",
        )
    require(
        all(a.buffer is not target or a.is_write for a in accesses(node)),
        name,
        f"block {name!r} reads {target.name!r}, which it also writes",
    )
    for other in order:
        if other == name or all(a.buffer is not target for a in accesses(state.block(other))):
            continue
        shared = [f for f in state.loops_around(other) if f in mine]
        later = order.index(other) > order.index(name)
        require(
            later
            and target not in written(state.block(other))
            and not (shared and target in state.func.params),
            name,
            f"block {other!r} also uses {target.name!r}, which {name!r} writes",
        )
    threads = [f for f in theirs if f.kind is ForKind.THREAD]
    require(
        not threads or target.scope == "global",
        name,
        f"{target.name!r} is in {target.scope} memory, and {maker.name!r} is bound to threads",
        "merge before bind",
    )
