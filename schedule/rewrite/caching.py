"""What cache_read and cache_write share: the copy block and where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schedule.analysis.uses import accesses, plain_store, writers
from schedule.errors import require
from schedule.rewrite.placement import conditions_of_writes, fresh_loops, names_in
from schedule.state import State, extents, fresh, nest
from tensorir import (
    SCOPES,
    Block,
    Buffer,
    Expr,
    For,
    IterKind,
    IterVar,
    Seq,
    Stmt,
    Store,
    Var,
    all_of,
    binary,
    const,
    fills,
    int_value,
    is_dense,
    relax,
    seq,
    substitute,
    variables,
    walk,
)


def check_scope(scope: str, where: str) -> None:
    require(scope in SCOPES, where, f"scope {scope!r} is none of {', '.join(SCOPES)}")


def pick(found: tuple[Buffer, ...], wanted: str | int, where: str, verb: str) -> Buffer:
    """The buffer among `found` that `wanted`, a name or a position, means."""
    names = [b.name for b in found]
    listing = f"block {where!r} {verb} {', '.join(names) or 'nothing'}"
    if isinstance(wanted, int):
        require(0 <= wanted < len(found), where, f"there is no buffer number {wanted}: {listing}")
        return found[wanted]
    require(wanted in names, where, f"{wanted!r} is not among them: {listing}")
    return found[names.index(wanted)]


def require_whole(state: State, buffer: Buffer, where: str, terms: bool = True) -> None:
    """Refuse a copy of all of a buffer that is computed only in part, where it is needed.

    Without `terms` it does not matter whether reductions provably have all of theirs.
    """
    _require_parts(state, buffer, writers(state, buffer), where, terms)


def require_whole_before(state: State, buffer: Buffer, reader: str) -> None:
    """Refuse to read all of a buffer before the nest of `reader` where it is not computed by then:
    parts of it may be made later, as by a stage that rolls, or in that nest."""
    made = writers(state, buffer)
    if not made:
        return
    before = _before(state, made, reader)
    _require_all(bool(before) or buffer in state.func.params, made[0], buffer, reader)
    _require_parts(state, buffer, before, reader)


def require_filled_before(state: State, buffer: Buffer, reader: str) -> None:
    """Refuse a copy of all of a buffer before the nest of `reader` where an element has no value by
    then: a later block makes it, or none, since nobody reads it."""
    require_whole_before(state, buffer, reader)
    made = writers(state, buffer)
    if not made or buffer in state.func.in_outs:
        return
    require(
        fills_all(state, buffer, _before(state, made, reader)),
        made[0],
        f"block {made[0]!r} writes a part of {buffer.name!r} only, and the copy would be whole",
        "reindex copies what the block reads",
    )


def fills_all(state: State, buffer: Buffer, names: Sequence[str]) -> bool:
    """Whether blocks that run for all values of their variables store to each element of `buffer`:
    nearly all do, at a variable for each dimension that runs over all of it."""
    for name in names:
        node = state.block(name)
        store, extents = plain_store(node), {it.var: it.extent for it in node.iters}
        sizes = zip(store.indices, buffer.shape) if store is not None else ()
        if store is not None and all([extents[i] is n for i, n in sizes]):  # type: ignore[index]
            return True
    return fills(state.func, buffer, names)


def _before(state: State, names: Sequence[str], reader: str) -> list[str]:
    """Those of some blocks that are in nests before that of `reader`."""
    body = state.func.body
    nests = body.stmts if isinstance(body, Seq) else (body,)
    earlier = nests[: nests.index(top_statement(state, reader))]
    return [name for name in names if any([name in names_in(nest) for nest in earlier])]


def _require_parts(
    state: State, buffer: Buffer, names: Sequence[str], where: str, terms: bool = True
) -> None:
    """Refuse unless the blocks of these names compute all of a buffer, one part each."""
    parts: dict[object, list[_Part]] = {}
    for name in names:
        left = _left_out(state, state.block(name), buffer)
        require(
            not left,
            where,
            f"block {name!r} leaves out elements of {buffer.name!r}: it runs where "
            + " and ".join(map(repr, left)),
            "have the program write the others too, zeros say",
        )
        part = _part_that_runs(state, name, terms)
        _require_all(part is not None, name, buffer, where)
        assert part is not None
        parts.setdefault(part.key(state.block(name), buffer), []).append(part)
    for found in parts.values():
        _require_all(_are_all(found), found[0].block, buffer, where)


def _left_out(state: State, block: Block, buffer: Buffer) -> list[Expr]:
    """What a block's predicate says of the elements of `buffer` that it writes: more than that they
    are in it, as the first row of one that has `n` rows is where `0 < n`."""
    conditions = conditions_of_writes(state, block)
    if not conditions:
        return []
    known = state.analyzer(state.loops_around(block.name))
    places = [a.in_loops() for a in accesses(block) if a.is_write and a.buffer is buffer]
    inside = [
        known.assuming(all_of(*(binary("<", *pair) for pair in zip(place, buffer.shape))))
        for place in places
    ]
    return [part for part in conditions if not all([an.prove(part) for an in inside])]


def require_made_before(state: State, buffer: Buffer, block: str, step: str) -> None:
    """Refuse a buffer that is not whole before the nest of a block begins, which `step` reads there
    for it."""
    inside = names_in(top_statement(state, block))
    near = [name for name in writers(state, buffer) if name in inside]
    require(
        not near,
        block,
        f"block {''.join(near[:1])!r} writes {buffer.name!r} in the same nest",
        f"{step} before compute_at or reverse_compute_at",
    )
    require_whole_before(state, buffer, block)


def _require_all(all_of_it: bool, name: str, buffer: Buffer, where: str) -> None:
    missing = f"block {name!r} computes only the part of {buffer.name!r} that is needed"
    require(all_of_it, where, missing, "cache before compute_at")


class _Part(NamedTuple):
    """What a block runs for: all values of its variables, but of one at most, at position `cut`,
    those from `low` on, `high` excluded, of `extent`."""

    block: str
    cut: int | None
    low: int = 0
    high: int = 0
    extent: int = 0

    def key(self, block: Block, buffer: Buffer) -> object:
        """Equal for blocks that are parts of one, as `partition` makes them."""
        if self.cut is None:
            return self.block
        order = {it.var: Var(f"{n}") for n, it in enumerate(block.iters)}
        stores = [s for s in walk(block.body) if isinstance(s, Store) and s.buffer is buffer]
        places = [[repr(substitute(i, order)) for i in s.indices] for s in stores]
        return self.cut, repr([it.extent for it in block.iters]), repr(places)


def _are_all(parts: Sequence[_Part]) -> bool:
    """Whether blocks that run for parts of a variable run for all of it, one after the other."""
    end = 0
    for part in sorted(parts, key=lambda part: part.low):
        if part.low > end:
            return False
        end = max(end, part.high)
    return parts[0].cut is None or end >= parts[0].extent


def _part_that_runs(state: State, name: str, terms: bool) -> _Part | None:
    """For which values of its variables, or of those that are not reduced, the loops of a block run
    it; None where that leaves out more than the ends of one, or has gaps."""
    block, loops = state.block(name), state.loops_around(name)
    ranges, analyzer = extents(loops), state.analyzer(loops)
    terms = terms and block.init is None  # which writes them all
    asked = [n for n, it in enumerate(block.iters) if terms or it.kind is not IterKind.REDUCE]
    found = _Part(name, None)
    if _may_not_run(state, block, loops):
        return None
    for n in asked:
        it = block.iters[n]
        run = relax(it.binding, ranges, analyzer)
        if run is None:
            return None
        if run.low is const(0) and run.extent is it.extent:
            continue
        end = run.low + run.extent
        if analyzer.prove(run.low <= 0) and analyzer.prove(it.extent <= end):
            continue
        known = [int_value(analyzer.simplify(e)) for e in (run.low, end, it.extent)]
        if found.cut is not None or None in known:
            return None
        low, high, extent = (number or 0 for number in known)
        found = _Part(name, n, low, high, extent)
    bindings = [block.iters[n].binding for n in asked]
    if all([isinstance(binding, Var) for binding in bindings]):
        return found
    if is_dense(bindings, ranges, analyzer):
        return found
    in_range = [binary("<", it.binding, it.extent) for it in block.iters]  # a tail leaves these out
    return found if is_dense(bindings, ranges, analyzer.assuming(all_of(*in_range))) else None


def _may_not_run(state: State, block: Block, loops: Sequence[For]) -> bool:
    """Whether a loop that chooses nothing may have no iterations, where there are elements."""
    choosing = {var for it in block.iters for var in variables(it.binding)}
    data = [it for it in block.iters if it.kind is not IterKind.REDUCE]
    some = all_of(*(binary("<=", const(1), it.extent) for it in data))
    return any(
        not state.analyzer(loops[:at]).assuming(some).prove(loop.extent >= 1)
        for at, loop in enumerate(loops)
        if loop.var not in choosing
    )


def copy_nest(state: State, name: str, source: Buffer, target: Buffer) -> Stmt:
    """Loops around a block `name` that copies all of `source` to `target`."""
    iters = axis_variables(state, source.shape)
    indices = tuple(it.var for it in iters)
    block = Block(name, iters, Store(target, indices, source[indices]))
    return nest(*fresh_loops(state, block, {}, (), state.analyzer(), unit_loops=True))


def axis_variables(state: State, shape: tuple[Expr, ...]) -> tuple[IterVar, ...]:
    """Variables of a new block, one for each axis of a buffer, over all of it; yet to be bound."""
    scope = state.names_in_scope()
    iters: list[IterVar] = []
    for dim, extent in enumerate(shape):
        var = Var(fresh(scope, (f"vax{dim}",)))
        scope.add(var.name)
        iters.append(IterVar(var, extent, IterKind.SPATIAL, const(0)))
    return tuple(iters)


def top_statement(state: State, block: str) -> Stmt:
    """The statement of the function's outermost sequence that contains `block`."""
    path = state.block_path(block)
    return path[1] if isinstance(path[0], Seq) else path[0]


def place_beside(state: State, anchor: Stmt, new: Stmt, before: bool) -> State:
    """Put `new` before or after a statement of the outermost sequence."""
    path = (state.func.body,) if anchor is state.func.body else (state.func.body, anchor)
    return state.replace(path, seq(new, anchor) if before else seq(anchor, new))
