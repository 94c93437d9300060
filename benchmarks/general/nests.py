"""A program as tensor expressions make it, a nest of loops around each block, and edits of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from tensorir import (
    TRUE,
    Analyzer,
    Block,
    Buffer,
    Expr,
    For,
    ForKind,
    IterKind,
    IterVar,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Var,
    const,
    int_value,
    loads,
    seq,
    stmt_exprs,
    substitute,
    walk,
)
from tensorir.names import Names
from tensorir.visit import map_exprs, map_loads

Indices = tuple[Expr, ...]
Remap = Callable[[Indices], Indices]


@dataclass(frozen=True)
class Axis:
    """A variable of a block with the loop that it is bound to."""

    var: Var
    extent: Expr
    kind: IterKind
    loop: str

    @property
    def reduces(self) -> bool:
        return self.kind is IterKind.REDUCE

    @property
    def size(self) -> int | None:
        return int_value(self.extent)


@dataclass(frozen=True)
class Nest:
    """A block that only stores, in a loop for each of its variables, in their order."""

    name: str
    axes: tuple[Axis, ...]
    body: Stmt
    init: Stmt | None

    @property
    def stores(self) -> list[Store]:
        return [stmt for stmt in walk(self.body) if isinstance(stmt, Store)]

    @property
    def loads(self) -> list[Load]:
        """The distinct loads of the body."""
        found: dict[Load, None] = {}
        for stmt in walk(self.body):
            for e in stmt_exprs(stmt):
                found.update(dict.fromkeys(loads(e)))
        return list(found)

    @property
    def is_reduction(self) -> bool:
        return any(axis.reduces for axis in self.axes)

    def axis(self, e: Expr) -> Axis | None:
        """The axis whose variable `e` is."""
        return next((axis for axis in self.axes if axis.var is e), None)


@dataclass(frozen=True)
class Edit:
    """Changes of a program, made all at once.

    axes      by the name of a block, its axes afterwards
    values    by the name of a block, what its former variables are in terms of the new ones
    buffers   other buffers, with what becomes of the indices of an access
    extra     parameters that come after the inputs
    bodies    what is done to stores of a block, by its name, before all else
    """

    axes: Mapping[str, tuple[Axis, ...]] = field(default_factory=dict)
    values: Mapping[str, Mapping[Var, Expr]] = field(default_factory=dict)
    buffers: Mapping[Buffer, tuple[Buffer, Remap]] = field(default_factory=dict)
    extra: tuple[Buffer, ...] = ()
    bodies: Mapping[str, Callable[[Stmt], Stmt]] = field(default_factory=dict)


def nests_of(func: PrimFunc) -> tuple[Nest, ...] | None:
    """The nests of a program; None where it has anything else: calls, steps of a scan, conditions,
    loops that are scheduled."""
    found = []
    for stmt in func.body.stmts if isinstance(func.body, Seq) else (func.body,):
        nest = _nest(stmt)
        if nest is None:
            return None
        found.append(nest)
    return tuple(found)


def _nest(stmt: Stmt) -> Nest | None:
    loops = []
    while isinstance(stmt, For) and stmt.kind is ForKind.SERIAL and not stmt.annotations:
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, Block) or stmt.predicate is not TRUE or stmt.annotations:
        return None
    if not same([it.binding for it in stmt.iters], [loop.var for loop in loops]):
        return None
    if not all(isinstance(node, (Store, Seq)) for node in walk(stmt.body)):
        return None
    axes = [Axis(it.var, it.extent, it.kind, loop.name) for it, loop in zip(stmt.iters, loops)]
    return Nest(stmt.name, tuple(axes), stmt.body, stmt.init)


def edited(func: PrimFunc, nests: Sequence[Nest], edit: Edit) -> PrimFunc:
    """`func`, which has these nests, changed; indices are simplified, and loops have other names
    where two would have the same."""
    params = [edit.buffers[p][0] if p in edit.buffers else p for p in func.params]
    inner = tuple(edit.buffers[b][0] if b in edit.buffers else b for b in func.buffers)
    count = len(func.inputs)
    params[count:count] = edit.extra
    taken = Names(b.name for b in (*params, *inner))
    for size in func.size_vars:
        taken.unique(size.name)
    body = seq(*(_rebuilt(nest, edit, taken) for nest in nests))
    return replace(func, params=tuple(params), buffers=inner, body=body)


def _rebuilt(nest: Nest, edit: Edit, taken: Names) -> Stmt:
    axes = edit.axes.get(nest.name, nest.axes)
    values = edit.values.get(nest.name, {})
    change = edit.bodies.get(nest.name, lambda stmt: stmt)
    # Of a variable with one value nothing is said, which would become that value.
    analyzer = Analyzer({axis.var: axis.extent for axis in axes if axis.size != 1})

    def made(stmt: Stmt) -> Stmt:
        stmt = map_exprs(change(stmt), lambda e: substitute(e, values))
        return _moved(stmt, edit.buffers, analyzer)

    iters, loops = [], []
    for axis in axes:
        var = Var(taken.unique(axis.loop), axis.var.dtype)
        loops.append((var, axis.extent))
        iters.append(IterVar(axis.var, axis.extent, axis.kind, var))
    init = None if nest.init is None else made(nest.init)
    stmt: Stmt = Block(nest.name, tuple(iters), made(nest.body), init)
    for var, extent in reversed(loops):
        stmt = For(var, extent, stmt)
    return stmt


def _moved(stmt: Stmt, buffers: Mapping[Buffer, tuple[Buffer, Remap]], analyzer: Analyzer) -> Stmt:
    """`stmt` with its accesses to some buffers moved to others."""

    def where(buffer: Buffer, indices: Indices) -> tuple[Buffer, Indices]:
        if buffer in buffers:
            buffer, remap = buffers[buffer]
            indices = remap(indices)
        return buffer, tuple(analyzer.simplify(index) for index in indices)

    def load(e: Load) -> Expr:
        return Load(*where(e.buffer, e.indices))

    def stores(s: Stmt) -> Stmt:
        if isinstance(s, Seq):
            return Seq(tuple(stores(part) for part in s.stmts))
        assert isinstance(s, Store)
        value = map_loads(s.value, load, {})
        return Store(*where(s.buffer, s.indices), value)

    return stores(stmt)


def same(a: Sequence[object], b: Sequence[object]) -> bool:
    """Whether two sequences are of the same objects: expressions that are equal are one object."""
    return len(a) == len(b) and all(map(is_, a, b))


def writer(nests: Sequence[Nest], buffer: Buffer) -> Nest | None:
    """The only nest that writes `buffer`; None where there are several."""
    found = [nest for nest in nests if any(s.buffer is buffer for s in nest.stores)]
    return found[0] if len(found) == 1 else None


def accesses(nest: Nest) -> Iterator[tuple[Buffer, Indices]]:
    """All places that a nest reads or writes, each once."""
    stores = [(s.buffer, s.indices) for s in nest.stores]
    return iter(dict.fromkeys([*stores, *((e.buffer, e.indices) for e in nest.loads)]))


def unified(
    nests: Sequence[Nest], start: tuple[Buffer, int], among: Callable[[Buffer], bool]
) -> tuple[set[tuple[Buffer, int]], set[tuple[str, Var]]]:
    """The dimensions of buffers, and the variables of blocks, that are one with a dimension:
    joined by accesses of which the index there is such a variable and nothing else, and of the
    extent of the dimension."""
    dims, variables = {start}, set[tuple[str, Var]]()
    before = -1
    while len(dims) + len(variables) != before:
        before = len(dims) + len(variables)
        for nest in nests:
            for buffer, indices in accesses(nest):
                for d, index in enumerate(indices):
                    if not among(buffer) or not spans(nest, index, buffer, d):
                        continue
                    if (buffer, d) in dims or (nest.name, index) in variables:
                        dims.add((buffer, d))
                        variables.add((nest.name, index))  # type: ignore[arg-type]
    return dims, variables


def spans(nest: Nest, index: Expr, buffer: Buffer, d: int) -> bool:
    """Whether an index is a variable that runs over all of a dimension."""
    axis = nest.axis(index)
    return axis is not None and axis.extent is buffer.shape[d]


def of_size(extent: int) -> Expr:
    return const(extent, "int64")
