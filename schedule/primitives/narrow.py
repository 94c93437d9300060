"""narrow: compute only those elements of an intermediate that are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from schedule.analysis.parts_read import Part, parts_read, within
from schedule.analysis.uses import is_output, readers
from schedule.checks.buffer_hints import require_unmarked
from schedule.checks.ownership import require_sole_writer
from schedule.checks.verified import require_verified
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.placement import fresh_loops, own_loops
from schedule.rewrite.relayout import said_in
from schedule.state import State, nest, replace_func
from tensorir import (
    TRUE,
    BinOp,
    Block,
    Buffer,
    Const,
    Expr,
    Load,
    Select,
    Stmt,
    Store,
    Var,
    child_stmts,
    const,
    dtype,
    int_value,
    loads,
    map_children,
    map_exprs,
    map_loads,
    replace,
    stmt_exprs,
    transform,
)


@primitive
def narrow(state: State, block: str) -> tuple[State, None]:
    """Let a block compute only those elements of its intermediate buffer that are read: of each
    dimension what lies between the first and the last one, and of these every second, third or so
    where no others are read. The buffer has no more elements then.

    A crop, or every second row, of a long computation takes the time of what is left of it; those
    before it may be narrowed afterwards.

    rewrite:  narrow("B")
        B = alloc(f32[16])                    B = alloc(f32[6])
        for i in range(16):                   for i in range(6):
            B[vi] = f(A[vi])          ->          B[vi] = f(A[vi * 2 + 3])
        for i in range(6):                    for i in range(6):
            C[vi] = B[vi * 2 + 3]                 C[vi] = B[vi]

    requires:
        - the block stores one value, to distinct variables of its own, in an intermediate buffer
          that no other block writes
        - the block is alone in its loops, one for each of its variables, over all of it, which are
          serial and carry no annotation
        - its instances do not depend on each other, and all of them run
        - blocks alone read the buffer, and none that is annotated or calls an extern function; it
          is not marked otherwise (storage_align, swizzle)
        - sizes of the buffer are numbers, and some of its elements are never read
    """
    node = state.block(block)
    around, store = own_loops(state, node, "narrow"), _store(state, node)
    old = store.buffer
    require_sole_writer(state, old, block)
    require_unmarked(state, old, block, "narrow")
    require(node.predicate is TRUE, block, f"block {block!r} runs only where {node.predicate!r}")
    _readable(state, node, old)
    parts = _parts(state, node, store)
    new, users = old.with_shape(tuple(const(part.number) for part in parts)), readers(state, old)
    less = _less(state, node, store, parts)
    made = (stmt for stmt in (less.body, less.init) if isinstance(stmt, Store))
    own = {stmt.indices: store.indices for stmt in made}  # variables, also those of one value
    less = _moved(less, old, new, parts, state, own)
    path = state.block_path(block)
    place = path[: path.index(around[0]) + 1]
    loops, bound = fresh_loops(state.replace(place, None), less, {}, (), state.analyzer())

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Block) and stmt.name in users:
            return _moved(stmt, old, new, parts, state)
        return map_children(stmt, visit)

    body = visit(state.replace(place, nest(loops, bound)).func.body)
    buffers = tuple(new if b is old else b for b in state.func.buffers)
    after = State(replace_func(state.func, body=body, buffers=buffers), state)
    return require_verified(state, after, block, "the part that is read"), None


def _store(state: State, node: Block) -> Store:
    """The store of a block, checked."""
    block, store = node.name, node.body
    own = [i for i in getattr(store, "indices", ()) if int_value(i) is None]
    spatial = {it.var for it in node.spatial}
    require(
        isinstance(store, Store) and len({*own}) == len(own) and spatial.issuperset(own),
        block,
        f"block {block!r} does not store one value to distinct variables of its own",
    )
    assert isinstance(store, Store)
    require(
        not is_output(state, store.buffer),
        block,
        f"{store.buffer.name!r} is a result of the function: callers read all of it",
    )
    return store


def _readable(state: State, node: Block, buffer: Buffer) -> None:
    """Refuse a buffer of which it is not known what is read."""
    pending = [state.func.body]
    for stmt in pending:
        asked = [n.buffer for e in stmt_exprs(stmt) for n in loads(e)]
        require(buffer not in asked, node.name, f"a loop or condition depends on {buffer.name!r}")
        pending += () if isinstance(stmt, Block) else child_stmts(stmt)


def _parts(state: State, node: Block, store: Store) -> list[Part]:
    """Which elements of each dimension are kept."""
    name, sizes = store.buffer.name, store.buffer.shape
    found = parts_read(state, store.buffer)
    require(found is not None, node.name, f"the sizes of {name!r} are no numbers")
    kept = [
        part if isinstance(index, Var) else Part(0, 1, int_value(size) or 0)
        for index, size, part in zip(store.indices, sizes, found or ())
    ]
    less = any(part.number < (int_value(size) or 0) for part, size in zip(kept, sizes))
    require(less, node.name, f"all elements of {name!r} are read")
    return kept


def _less(state: State, node: Block, store: Store, parts: Sequence[Part]) -> Block:
    """The block for what is kept of its elements, which are where they were. Conditions that are
    the same for all of them are none: inside of its source, padding is a copy."""
    own = {i: part for i, part in zip(store.indices, parts) if isinstance(i, Var)}
    values: dict[Var, Expr] = {var: var * part.step + part.first for var, part in own.items()}
    extents = {var: const(part.number) for var, part in own.items()}
    iters = tuple(replace(it, extent=extents.get(it.var, it.extent)) for it in node.iters)
    less = said_in(replace(node, iters=iters), values)
    analyzer = within(state, less)

    def decided(e: Expr) -> Expr | None:
        if isinstance(e, Select) and isinstance(e.cond, Const):
            return e.a if e.cond.value else e.b
        compares = isinstance(e, BinOp) and dtype.is_bool(e.dtype) and not e.has_loads
        known = analyzer.decide(e) if compares else None
        return None if known is None else const(known, e.dtype)

    return replace(less, body=map_exprs(less.body, lambda e: transform(e, decided)))


Indices = tuple[Expr, ...]


def _moved(
    node: Block,
    old: Buffer,
    new: Buffer,
    parts: Sequence[Part],
    state: State,
    known: Mapping[Indices, Indices] = MappingProxyType({}),
) -> Block:
    """A block that reads or writes the elements that are kept where they are now; of some it is
    known where."""
    memo: dict[Expr, Expr] = {}
    analyzer = within(state, node)

    def places(indices: Indices) -> Indices:
        return known.get(indices) or tuple(p.place(i, analyzer) for p, i in zip(parts, indices))

    def load(e: Load) -> Expr | None:
        return Load(new, places(e.indices)) if e.buffer is old else None

    def stores(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, stores)
        if isinstance(stmt, Store) and stmt.buffer is old:
            return Store(new, places(stmt.indices), stmt.value)
        return stmt

    def moved(stmt: Stmt) -> Stmt:
        return stores(map_exprs(stmt, lambda e: map_loads(e, load, memo)))

    init = None if node.init is None else moved(node.init)
    return replace(node, body=moved(node.body), init=init)
