"""Rewritings of what is computed with: another type, and one factor more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.general.form import Form
from benchmarks.general.nests import Axis, Edit, Nest, edited, nests_of, writer
from tensorir import (
    BinOp,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    For,
    IterKind,
    IterVar,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
    cast,
    const,
    dtype,
    map_children,
    seq,
    stmt_exprs,
    walk,
    walk_exprs,
)
from tensorir.names import Names
from tensorir.visit import rebuild


def scaled(func: PrimFunc) -> Iterator[Form]:
    """The terms of a sum times a factor for each value of a reduce axis; the output times one for
    each row, and for each column. The factors are an input more."""
    nests = nests_of(func)
    if nests is None or any(p.dtype != "float32" for p in func.params):
        return
    found = {"k": _widest_sum(nests)}
    made = writer(nests, func.outputs[0])
    wide = [axis for axis in made.axes if not axis.reduces and axis.size != 1] if made else []
    if made is not None and wide and _may_scale(made):
        found["row"] = (made, wide[0])
        if len(wide) > 1:
            found["column"] = (made, wide[-1])
    taken = Names(b.name for b in (*func.params, *func.buffers))
    name = taken.unique("s")
    for what, place in found.items():
        if place is not None:
            nest, axis = place
            factor = Buffer(name, (axis.extent,), "float32")
            bodies = {nest.name: _times(nest, factor[axis.var])}
            changed = edited(func, nests, Edit(extra=(factor,), bodies=bodies))
            yield Form("scaled", f"scaled by {what}", changed)


def _widest_sum(nests: Sequence[Nest]) -> tuple[Nest, Axis] | None:
    """The longest reduce axis of a sum that is no sum of exactly what it reads alone."""
    axes = [(n, a) for n in nests if _may_scale(n) for a in n.axes if a.reduces and a.size != 1]
    return max(axes, key=lambda pair: pair[1].size or 0, default=None)


def _may_scale(nest: Nest) -> bool:
    """Whether the nest stores one value, which is no other reduction than a sum."""
    if len(nest.stores) != 1:
        return False
    value = nest.stores[0].value
    return not nest.is_reduction or (isinstance(value, BinOp) and value.op == "+")


def _times(nest: Nest, factor: Expr) -> Callable[[Stmt], Stmt]:
    """What makes of the value that a nest stores, or of the terms that it adds, `factor` times."""

    def change(stmt: Stmt) -> Stmt:
        if stmt is not nest.body:
            return stmt  # the start of the sum
        assert isinstance(stmt, Store)
        value = stmt.value
        if not nest.is_reduction:
            return replace_store(stmt, value * factor)
        assert isinstance(value, BinOp)
        return replace_store(stmt, BinOp("+", value.a, value.b * factor))

    return change


def replace_store(store: Store, value: Expr) -> Store:
    return Store(store.buffer, store.indices, value)


@dataclass(frozen=True)
class Types:
    """One way to type a program of float32.

    compute   the type of arithmetic and intermediates
    inputs    of inputs, which are converted where they are read
    outputs   of outputs
    """

    compute: str
    inputs: str
    outputs: str


TYPES: Mapping[str, Types] = {
    "float64": Types("float64", "float64", "float64"),
    "float16": Types("float32", "float16", "float16"),
    "bfloat16": Types("float32", "bfloat16", "bfloat16"),
    "int32": Types("int32", "int32", "int32"),
    "int16": Types("int32", "int16", "int32"),
    "int8": Types("int32", "int8", "int32"),
}


def typed(func: PrimFunc) -> Iterator[Form]:
    """Other types, where all arrays are float32; integers where all operations mean the same."""
    buffers = (*func.params, *func.buffers)
    if nests_of(func) is None or any(b.dtype != "float32" for b in buffers):
        return
    for name, types in TYPES.items():
        if dtype.is_float(types.compute) or _is_whole(func):
            yield Form("type", name, _typed(func, types))


def _is_whole(func: PrimFunc) -> bool:
    """Whether + - * min max, conditions and whole numbers are all of a program's arithmetic."""
    for stmt in walk(func.body):
        for e in stmt_exprs(stmt):
            for node in walk_exprs(e):
                if not dtype.is_float(node.dtype):
                    continue
                if isinstance(node, (Call, Cast)) or (isinstance(node, BinOp) and node.op == "/"):
                    return False
                if isinstance(node, Const) and abs(node.value) != float("inf"):
                    if node.value != int(node.value):
                        return False
    return True


def _typed(func: PrimFunc, types: Types) -> PrimFunc:
    """`func` in other types. An output of a narrow type that is not stored by one block that only
    writes it gets an intermediate of the type of arithmetic, and a block that converts it."""
    taken = Names(b.name for b in (*func.params, *func.buffers))
    buffers: dict[Buffer, Buffer] = {}
    kept: list[Buffer] = []
    for b in (*func.params, *func.buffers):
        kind = types.compute
        if b in func.inputs:
            kind = types.inputs
        elif b in func.params:
            kind = types.outputs
        if b in func.outputs and kind != types.compute:
            held = Buffer(taken.unique(b.name + "_wide"), b.shape, types.compute)
            kept.append(held)
            buffers[b] = held
            continue
        buffers[b] = Buffer(b.name, b.shape, kind)
    body = _retyped(func.body, buffers, types.compute)
    params = [buffers[p] for p in func.params]
    if kept:
        params = [Buffer(p.name, p.shape, types.outputs) if p in func.outputs else buffers[p]
                  for p in func.params]  # fmt: skip
        pairs = [(out, buffers[p]) for p, out in zip(func.params, params) if p in func.outputs]
        body = seq(body, *(_converted(out, held, body) for out, held in pairs))
    inner = (*[buffers[b] for b in func.buffers], *kept)
    return replace(func, params=tuple(params), buffers=inner, body=body)


def _retyped(stmt: Stmt, buffers: Mapping[Buffer, Buffer], compute: str) -> Stmt:
    """`stmt` with arithmetic of float32 in the type `compute`, and accesses of other buffers."""

    def expr(e: Expr) -> Expr:
        if isinstance(e, Load):
            return cast(compute, Load(buffers[e.buffer], tuple(map(expr, e.indices))))
        if e.dtype != "float32" and not any(n.dtype == "float32" for n in walk_exprs(e)):
            return e
        if isinstance(e, Const):
            return _constant(e, compute)
        if isinstance(e, Call):
            return Call(e.name, tuple(map(expr, e.operands)), compute)
        if isinstance(e, Cast):
            return cast(compute if e.dtype == "float32" else e.dtype, expr(e.a))
        if isinstance(e, BinOp):
            return BinOp(e.op, expr(e.a), expr(e.b))
        return rebuild(e, tuple(map(expr, e.operands)))

    def store(s: Stmt) -> Stmt:
        if isinstance(s, Store):
            return Store(buffers[s.buffer], s.indices, expr(s.value))
        return map_children(s, store)

    return store(stmt)


def _constant(e: Const, kind: str) -> Const:
    if not dtype.is_float(kind) and abs(e.value) == float("inf"):
        low, high = dtype.int_limits(kind)
        return const(high if e.value > 0 else low, kind)
    return const(e.value if dtype.is_float(kind) else int(e.value), kind)


def _converted(out: Buffer, held: Buffer, body: Stmt) -> Stmt:
    """A nest that stores `held` as `out`."""
    taken = Names(node.name for node in walk(body) if isinstance(node, (For, Block)))
    loops = [Var(taken.unique(f"{out.name}_{d}"), "int64") for d in range(out.ndim)]
    iters = tuple(
        IterVar(Var(f"v{loop.name}", "int64"), extent, IterKind.SPATIAL, loop)
        for loop, extent in zip(loops, out.shape)
    )
    where = tuple(it.var for it in iters)
    stmt: Stmt = Block(
        taken.unique(out.name), iters, Store(out, where, cast(out.dtype, Load(held, where)))
    )
    for loop, extent in zip(reversed(loops), reversed(out.shape)):
        stmt = For(loop, extent, stmt)
    return stmt
