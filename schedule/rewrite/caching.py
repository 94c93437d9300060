"""What cache_read and cache_write share: the copy block and where it goes."""

from __future__ import annotations

from schedule.analysis.uses import writers
from schedule.errors import require
from schedule.rewrite.placement import conditions_of_writes, fresh_loops
from schedule.state import State, extents, fresh, nest
from tensorir import (
    SCOPES,
    Block,
    Buffer,
    Expr,
    IterKind,
    IterVar,
    Seq,
    Stmt,
    Store,
    Var,
    const,
    is_dense,
    relax,
    seq,
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
    for name in writers(state, buffer):
        left = conditions_of_writes(state, state.block(name))
        require(
            not left,
            where,
            f"block {name!r} leaves out elements of {buffer.name!r}: it runs where "
            + " and ".join(map(repr, left)),
            "have the program write the others too, zeros say",
        )
        require(
            _runs_for_all(state, name, terms),
            where,
            f"block {name!r} computes only the part of {buffer.name!r} that is needed",
            "cache before compute_at",
        )


def _runs_for_all(state: State, name: str, terms: bool) -> bool:
    """Whether the loops of a block give it all values of its variables, or of those that are not
    reduced: from the first to the last of each, and without gaps."""
    block, loops = state.block(name), state.loops_around(name)
    ranges, analyzer = extents(loops), state.analyzer(loops)
    terms = terms and block.init is None  # which writes them all
    asked = [it for it in block.iters if terms or it.kind is not IterKind.REDUCE]
    for it in asked:
        part = relax(it.binding, ranges, analyzer)
        if part is None or not analyzer.prove(part.low <= 0):
            return False
        if not analyzer.prove(it.extent <= part.low + part.extent):
            return False
    if all([isinstance(it.binding, Var) for it in asked]):
        return True
    return is_dense([it.binding for it in asked], ranges, analyzer)


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
