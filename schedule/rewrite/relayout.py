"""Rewriting a program for a new layout of one of its buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedule.analysis.uses import plain_store, readers, writers
from schedule.errors import require
from schedule.nest_index import Names, own_names
from schedule.rewrite.index_map import Layout
from schedule.state import State, fresh
from tensorir import (
    Analyzer,
    BinOp,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    If,
    IterVar,
    Let,
    Load,
    SizeRanges,
    Stmt,
    Store,
    Var,
    all_of,
    analyzer_of,
    binary,
    const,
    dtype,
    int_value,
    map_children,
    map_exprs,
    map_loads,
    replace,
    select,
    substitute,
    substitute_stmt,
    transform,
    variables,
    walk,
)

Extents = Mapping[Var, Expr]
"""Variables, outermost first, with their extents."""

Visit = Callable[[Stmt, Extents], Stmt]

SPECIAL = ("inf", "-inf", "nan")


def pad_constant(value: float | int | bool | str | None, kind: str, where: str) -> Const:
    """The constant of a type that a Python value means; refuses one of another type."""
    if isinstance(value, str) and value in SPECIAL and dtype.is_float(kind):
        return Const(float(value), kind)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if dtype.is_bool(kind):
        fits = value in (0, 1) and isinstance(value, int)
        value = bool(value)
    elif dtype.is_int(kind):
        low, high = dtype.int_limits(kind)
        fits = number and isinstance(value, int) and low <= value <= high
    else:
        fits = number and float(value) - float(value) == 0  # type: ignore[arg-type]
    require(fits, where, f"pad_value {value!r} is no value of type {kind}", _hint(value))
    return Const(float(value) if dtype.is_float(kind) else value, kind)  # type: ignore[arg-type]


def _hint(value: object) -> str | None:
    if isinstance(value, float) and value - value != 0:
        return f'write it as a string, "{value}"'
    return None


def relaid(state: State, body: Stmt, old: Buffer, new: Buffer, layout: Layout) -> Stmt:
    """`body` with the elements of `old` in their places in `new`."""
    scope = state.names_in_scope()
    users = {*writers(state, old), *readers(state, old)}
    around = {stmt for name in users for stmt in state.block_path(name)}
    sizes = state.func.size_ranges
    return _Relayout(old, new, layout, scope, around, sizes).visit(body, {})


class _Relayout:
    """The rewrite. `around` are the blocks that use the buffer, and what they stand in: all else
    stays as it is."""

    def __init__(
        self,
        old: Buffer,
        new: Buffer,
        layout: Layout,
        scope: Names,
        around: set[Stmt],
        sizes: SizeRanges,
    ) -> None:
        self.old, self.new, self.layout, self.scope = old, new, layout, scope
        self.around, self.sizes = around, sizes
        self.axes: tuple[Var, ...] = ()
        self.place: tuple[Expr, ...] = ()
        """Where the block at hand stores, in its new variables `axes`, to the old buffer."""

    def visit(self, stmt: Stmt, own: Extents) -> Stmt:
        """`own` are the loops around `stmt`, and the variables of the blocks around it."""
        return self.moved(stmt, own, self.visit) if stmt in self.around else stmt

    def below(self, stmt: Stmt, own: Extents) -> Stmt:
        """What a block that uses the buffer has inside."""
        return self.moved(stmt, own, self.below)

    def knowing(self, own: Extents) -> Analyzer:
        """Of the sizes of the function and of variables."""
        return analyzer_of(self.sizes, own)

    def moved(self, stmt: Stmt, own: Extents, visit: Visit) -> Stmt:
        if isinstance(stmt, Block):
            return self.block(stmt, own)
        if isinstance(stmt, Store):
            return self.store(stmt, own)
        if isinstance(stmt, For):
            own = {**own, stmt.var: stmt.extent}
        moved = map_children(stmt, lambda child: visit(child, own))
        if isinstance(moved, If):
            cond = self.expr(moved.cond, own)
            return moved if cond is moved.cond else replace(moved, cond=cond)
        if isinstance(moved, Let):
            value = self.expr(moved.value, own)
            return moved if value is moved.value else replace(moved, value=value)
        return moved

    def block(self, node: Block, own: Extents) -> Block:
        store = plain_store(node)
        if store is not None and store.buffer is self.old and self.layout.exact:
            moved = on_new_axes(node, store, self.layout, self.knowing(own), self.scope)
            if moved is not node:
                self.axes = tuple(it.var for it in moved.iters[: len(self.layout.shape)])
                self.place = self.stored(moved.body)
            node = moved
        inner = {**own, **{it.var: it.extent for it in node.iters}}
        result = map_children(node, lambda child: self.below(child, inner))
        self.axes = ()
        assert isinstance(result, Block)
        return result

    def store(self, stmt: Store, own: Extents) -> Store:
        value = self.expr(stmt.value, own)
        indices = tuple(self.expr(index, own) for index in stmt.indices)
        if stmt.buffer is self.old:
            return Store(self.new, self.indices(indices, own), value)
        same = value is stmt.value and all(a is b for a, b in zip(indices, stmt.indices))
        return stmt if same else Store(stmt.buffer, indices, value)

    def expr(self, e: Expr, own: Extents) -> Expr:
        return map_loads(e, lambda load: self.load(load, own), {})

    def load(self, load: Load, own: Extents) -> Expr | None:
        if load.buffer is not self.old:
            return None
        return Load(self.new, self.indices(load.indices, own))

    def indices(self, indices: tuple[Expr, ...], own: Extents) -> tuple[Expr, ...]:
        if self.axes and all([a is b for a, b in zip(indices, self.place)]):
            return self.axes
        return tuple(map(self.knowing(own).simplify, self.layout.image(indices)))

    def stored(self, body: Stmt) -> tuple[Expr, ...]:
        """The indices of the one store to the old buffer."""
        found = [s for s in walk(body) if isinstance(s, Store) and s.buffer is self.old]
        return found[0].indices


def in_range(value: Expr, extent: Expr) -> list[Expr]:
    """That a value is from 0 up to an extent; of a quotient as what is divided says it."""
    above, rest = binary("<=", const(0), value), value
    while isinstance(rest, BinOp) and rest.op == "//":
        divisor = int_value(rest.b)
        if divisor is None or divisor < 1:
            break
        rest, extent = rest.a, extent * divisor
    return [above, binary("<", rest, extent)]


def on_new_axes(node: Block, store: Store, layout: Layout, loops: Analyzer, scope: Names) -> Block:
    """A writer with its variables replaced by the new indices; unchanged where it cannot be.

    Its loops and instances stay: the new variables are bound to the images of the old bindings.
    Their names are none of those in `scope`.
    The stores and loads of the buffer are still those of the old one.
    """
    by_var = {it.var: it for it in node.iters}
    iters = [by_var[v] for v in store.indices if isinstance(v, Var)]
    whole = len(iters) == len(layout.sizes) and all(
        it.extent is size for it, size in zip(iters, layout.sizes)
    )
    if layout.inverse is None or not whole:
        return node
    bindings = [loops.simplify(e) for e in layout.image(tuple(it.binding for it in iters))]
    axes = new_axes(node, iters, layout, scope)
    made = [
        IterVar(axis, size, iters[0].kind, binding)
        for axis, size, binding in zip(axes, layout.shape, bindings)
    ]
    rest = [it for it in node.iters if it not in iters]
    return said_in(replace(node, iters=(*made, *rest)), old_values(iters, axes, layout))


def said_in(node: Block, values: dict[Var, Expr]) -> Block:
    """The block, which has new variables already, with the old ones replaced in what it does.

    Indices, and what they are compared with, are simplified: (v // 7) * 7 + v % 7 is v again, as
    others look for it, of padding too. Variables with one value stay where they are.
    """
    analyzer = Analyzer()
    for it in node.iters:
        if int_value(it.extent) != 1:
            analyzer.bind(it.var, it.extent)

    def index(e: Expr) -> Expr:
        return e if isinstance(e, (Var, Const)) else analyzer.simplify(e)

    def place(e: Expr) -> Expr | None:
        if isinstance(e, Load):
            return Load(e.buffer, tuple(map(index, e.indices)))
        if isinstance(e, BinOp) and dtype.is_bool(e.dtype) and not e.has_loads:
            return binary(e.op, index(e.a), index(e.b)) if e.a.dtype == dtype.INDEX else None
        return None

    def places(e: Expr) -> Expr:
        return transform(e, place)

    def visit(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, visit)
        if isinstance(stmt, Store):
            return replace(stmt, indices=tuple(map(index, stmt.indices)))
        return stmt

    body, init = (
        None if part is None else map_exprs(visit(substitute_stmt(part, values)), places)
        for part in (node.body, node.init)
    )
    assert body is not None
    return replace(node, body=body, init=init)


def whole_copy(
    state: State, node: Block, old: Buffer, new: Buffer, layout: Layout, pad: Const
) -> Block:
    """A block over all of the new shape that stores `pad` where no element comes to.

    `node` stores every element of `old` at its own variables, and has no others. The bindings
    are still to be made.
    """
    store = plain_store(node)
    assert store is not None and layout.inverse is not None
    by_var = {it.var: it for it in node.iters}
    iters = [by_var[v] for v in store.indices if isinstance(v, Var)]
    axes = new_axes(node, iters, layout, state.names_in_scope())
    values = old_values(iters, axes, layout)
    analyzer = state.analyzer()
    for axis, size in zip(axes, layout.shape):
        analyzer.bind(axis, size)
    conditions: list[Expr] = []
    for it in iters:
        conditions += in_range(analyzer.simplify(values[it.var]), it.extent)
    back = layout.image(layout.preimage(axes))
    conditions += [binary("==", analyzer.simplify(e), axis) for e, axis in zip(back, axes)]
    inside = all_of(*[c for c in conditions if not analyzer.prove(c)])
    known = analyzer.assuming(inside)
    value = known.simplify(substitute(store.value, values))
    made = tuple(
        IterVar(axis, size, iters[0].kind, const(0)) for axis, size in zip(axes, layout.shape)
    )
    return replace(node, iters=made, body=Store(new, axes, select(inside, value, pad)))


def new_axes(node: Block, iters: list[IterVar], layout: Layout, scope: Names) -> tuple[Var, ...]:
    """Block variables for the new indices: the old one where it stays whole, once; others have
    names that are not in `scope`."""
    own = dict(zip(layout.old, iters))
    taken = scope.beside({*own_names(node)})
    axes: list[Var] = []
    for part in layout.components:
        if isinstance(part, Var) and part in own and own[part].var not in {*axes}:
            axes.append(own[part].var)
            continue
        mentioned = [it.var.name for var, it in own.items() if var in variables(part)]
        base = mentioned[0] if mentioned else "v"
        axes.append(Var(fresh(taken, (f"{base}_0", f"{base}_1", base))))
        taken.add(axes[-1].name)
    return tuple(axes)


def old_values(iters: list[IterVar], axes: tuple[Var, ...], layout: Layout) -> dict[Var, Expr]:
    return {it.var: value for it, value in zip(iters, layout.preimage(axes))}
