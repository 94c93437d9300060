"""reindex: access a buffer through a copy in the order of a block's variables."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.uses import accesses, read, readers, written
from schedule.checks.ownership import require_sole_writer
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import (
    check_scope,
    pick,
    place_beside,
    require_made_before,
    require_whole,
    top_statement,
)
from schedule.rewrite.placement import conditions_of_writes, fresh_loops, names_in
from schedule.state import BlockRef, State, add_buffers, nest
from tensorir import (
    Block,
    Buffer,
    Expr,
    IterKind,
    IterVar,
    Load,
    Stmt,
    Store,
    Var,
    binary,
    const,
    determines,
    map_children,
    map_exprs,
    replace,
    transform,
    variables,
)


@primitive
def reindex(
    state: State, block: str, buffer: str | int, scope: str = "global"
) -> tuple[State, BlockRef]:
    """Make `block` access a buffer through a copy indexed by its own variables; return the copier.

    The copy has one axis for each variable of the block that the access uses, in their order: the
    layout of the copy is then free, and what the block computes has the plain form of an einsum.
    `buffer` is a name or the position among the buffers that the block uses.

    rewrite:  reindex("conv", "A")
                                               for i, r in grid(8, 3):
        for i, r in grid(8, 3):                    A_reindex[vi, vr] = A[vi + vr]
            C[vi] = C[vi] + A[vi + vr]   ->    for i, r in grid(8, 3):
                                                   C[vi] = C[vi] + A_reindex[vi, vr]

    requires:
        - the block uses the buffer, at one place only: it reads it there, or stores to it
        - that place is said in the block's own variables, and is inside the buffer for all of
          their values
        - a buffer that is read is computed as a whole, in nests before
        - a buffer that is written is written by no other block and not read in the same nest
        - a buffer that is written gets each element from one instance, and all instances run
        - a buffer that is written is not updated from what it holds before the block
        - `scope` is one of global, shared, local
    """
    node = state.block(block)
    check_scope(scope, block)
    touched = tuple(dict.fromkeys((*written(node), *read(node))))
    source = pick(touched, buffer, block, "uses")
    indices = _one_place(node, source)
    used = frozenset[Var]().union(*(variables(index) for index in indices))
    iters = [it for it in node.iters if it.var in used]
    foreign = used - {it.var for it in node.iters} - set(state.func.size_vars)
    require(
        not foreign,
        block,
        f"block {block!r} uses {source.name!r} at variables of a block around it",
    )
    analyzer = state.analyzer()
    for it in node.iters:
        analyzer.bind(it.var, it.extent)
    for index, size in zip(indices, source.shape):
        inside = binary("and", binary("<=", const(0), index), binary("<", index, size))
        require(
            analyzer.prove(inside),
            block,
            f"block {block!r} uses {source.name!r} at {index!r}, which may be outside: "
            "not every instance reads it",
        )
    stores = source in written(node)
    if stores:
        iters = [it for it in node.iters if it.kind is not IterKind.REDUCE]
        _written_once(state, node, source, indices, iters)
    else:
        require_made_before(state, source, block, "reindex")
    name = state.fresh_buffer(f"{source.name}_reindex")
    copy = Buffer(name, tuple(it.extent for it in iters), source.dtype, scope)
    return _with_copy(state, node, source, copy, indices, iters)


def _one_place(node: Block, source: Buffer) -> tuple[Expr, ...]:
    """The indices at which the block accesses the buffer."""
    places = [a.indices for a in accesses(node) if a.buffer is source]
    first = places[0]
    same = all(all(a is b for a, b in zip(first, other)) for other in places)
    require(same, node.name, f"block {node.name!r} uses {source.name!r} at more than one place")
    return first


def _written_once(
    state: State,
    node: Block,
    source: Buffer,
    indices: tuple[Expr, ...],
    iters: Sequence[IterVar],
) -> None:
    """The copy back must store exactly what the block did, and nobody may look in between."""
    block, name = node.name, source.name
    require_sole_writer(state, source, block)
    updates = source in read(node) and node.init is None
    require(not updates, block, f"block {block!r} updates what is in {name!r} before")
    inside = names_in(top_statement(state, block))
    near = [reader for reader in readers(state, source) if reader in inside]
    require(
        not near,
        block,
        f"block {''.join(near[:1])!r} reads {name!r} in the same nest",
        "reindex before compute_at or reverse_compute_at",
    )
    analyzer = state.analyzer()
    box = {it.var: it.extent for it in iters}
    for it in iters:
        analyzer.bind(it.var, it.extent)
    once = all(determines(indices, it.var, box, analyzer) for it in iters)
    require(once, block, f"several instances of block {block!r} may write one element of {name!r}")
    missing = conditions_of_writes(state, node)
    require(
        not missing,
        block,
        f"block {block!r} runs only where {missing[0] if missing else None!r}",
    )
    require_whole(state, source, block)


def _with_copy(
    state: State,
    node: Block,
    source: Buffer,
    copy: Buffer,
    indices: tuple[Expr, ...],
    iters: Sequence[IterVar],
) -> tuple[State, BlockRef]:
    """The block on `copy`, and the block that fills it before or stores it away after."""
    own = tuple(it.var for it in iters)
    stores = source in written(node)
    changed = state.replace(state.block_path(node.name), _redirect(node, source, copy, own))
    changed = State(add_buffers(changed.func, copy), changed)
    copier = changed.fresh_block(copy.name)
    body = Store(source, indices, copy[own]) if stores else Store(copy, own, source[indices])
    free = tuple(replace(it, kind=IterKind.SPATIAL) for it in iters)
    loops, bound = fresh_loops(changed, Block(copier, free, body), {}, (), changed.analyzer())
    anchor = top_statement(changed, node.name)
    placed = place_beside(changed, anchor, nest(loops, bound), before=not stores)
    return placed, BlockRef(copier)


def _redirect(node: Block, source: Buffer, copy: Buffer, own: tuple[Var, ...]) -> Stmt:
    """The block with all its uses of `source` moved to its own place in `copy`."""

    def load(e: Expr) -> Expr | None:
        return Load(copy, own) if isinstance(e, Load) and e.buffer is source else None

    def stores(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, stores)
        if isinstance(stmt, Store) and stmt.buffer is source:
            return Store(copy, own, stmt.value)
        return stmt

    def moved(stmt: Stmt) -> Stmt:
        return map_exprs(stores(stmt), lambda e: transform(e, load))

    init = None if node.init is None else moved(node.init)
    return replace(node, body=moved(node.body), init=init)
