"""From one compute to the loop nest of its block; for a step of a scan, inside the time loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import FALSE, TRUE, Expr, Load, Var, all_of, binary, const, select
from tensorir.names import Names
from tensorir.stmt import Block, Extern, For, IterKind, IterVar, Let, Part, Stmt, Store, seq
from tensorir.te.axis import Axis
from tensorir.te.compute import components
from tensorir.te.reduce import Reduce
from tensorir.te.tensor import ComputeOp, ExternOp, ScanOp, Tensor
from tensorir.visit import transform

Key = tuple[Any, int]


def key_of(t: Tensor) -> Key:
    """Outputs are keyed by operation and number: hidden ones have no tensor."""
    return t.op, t.index


@dataclass(frozen=True)
class Step:
    """The time loop of a scan, over its steps after the first rows."""

    scan: ScanOp
    loop: Var

    @property
    def extent(self) -> Expr:
        return self.scan.state[0].shape[0] - self.scan.first

    def holds_rows(self, op: ComputeOp) -> bool:
        """Whether `op` makes rows of the state, rather than something within a step."""
        return any(t.op is op for t in self.scan.update)


def hidden(op: ComputeOp) -> list[tuple[int, Reduce, int]]:
    """Components of tuple reductions that no output asks for, numbered after the outputs."""
    found: list[tuple[int, Reduce, int]] = []
    for reduction in components(op):
        for n in range(len(reduction.args)):
            if _output_number(op, reduction, n) is None:
                found.append((len(op.outputs) + len(found), reduction, n))
    return found


def hidden_name(op: ComputeOp, reduction: Reduce, n: int) -> str:
    if reduction.reducer.name in ("argmax", "argmin"):
        return f"{op.name}_value"
    return f"{op.name}_part{n}"


def _output_number(op: ComputeOp, reduction: Reduce, n: int) -> int | None:
    wanted = reduction.component(n)
    return next((k for k, part in enumerate(op.body) if part is wanted), None)


def make_nest(
    op: ComputeOp,
    name: str,
    buffers: dict[Key, Buffer],
    loops: dict[Axis, Var],
    names: Names,
    *,
    step: Step | None = None,
    rows: Expr | None = None,
) -> Stmt:
    """The block of `op` inside `loops`; inside `step.loop` as well if it is part of a scan.

    `rows` limits the first dimension, where the buffer may have fewer than `op` computes.
    """
    local = Names(names.taken)
    iters = {axis: Var(local.unique(f"v{axis.name}")) for axis in (*op.axis, *op.reduce_axis)}
    block_iters = []
    for axis, var in iters.items():
        if axis not in loops:
            assert step is not None
            block_iters.append(IterVar(var, step.extent, IterKind.OPAQUE, step.loop))
            continue
        kind = IterKind.REDUCE if axis.is_reduce else IterKind.SPATIAL
        block_iters.append(IterVar(var, axis.extent, kind, loops[axis]))
    if isinstance(op, ExternOp):
        init, body = None, _call(op, buffers, tuple(iters.values()))
    else:
        init, body = _block_parts(op, buffers, iters, local, step)
    predicate = TRUE if rows is None else binary("<", loops[op.axis[0]], rows)
    nest: Stmt = Block(name, tuple(block_iters), body, init, predicate)
    for axis in reversed(loops):
        nest = For(loops[axis], axis.extent, nest)
    return nest


def _call(op: ExternOp, buffers: dict[Key, Buffer], rows: tuple[Expr, ...]) -> Stmt:
    """The call of an extern function on one row of each tensor, or on all of one without rows."""
    func = op.func
    assert func is not None

    def part(t: Tensor, dims: tuple[str, ...]) -> Part:
        buffer = buffers[key_of(t)]
        lead = buffer.ndim - len(dims)
        first = (*rows[:lead], *[const(0)] * len(dims))
        return Part(buffer, first, buffer.shape[lead:])

    inputs = tuple(map(part, op.inputs, func.inputs))
    return Extern(func.name, tuple(map(part, op.outputs, func.outputs)), inputs)


def _block_parts(
    op: ComputeOp,
    buffers: dict[Key, Buffer],
    iters: dict[Axis, Var],
    names: Names,
    step: Step | None,
) -> tuple[Stmt | None, Stmt]:
    memo: dict[Expr, Expr] = {}
    analyzer = Analyzer({var: axis.extent for axis, var in iters.items()})
    values: dict[Axis, Expr] = dict(iters)
    stages: tuple[Tensor, ...] = ()
    if step is not None:
        stages = step.scan.stages
        values[op.axis[0]] = iters[op.axis[0]] + step.scan.first

    def lower(e: Expr) -> Expr:
        return transform(e, rule, memo)

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Axis):
            return values[e]
        if isinstance(e, Load) and not isinstance(e.buffer, Buffer):  # a part was lowered before
            indices = e.indices
            read: Any = e.buffer
            if read in stages:  # rows of its own, one for each step
                indices = (iters[op.axis[0]], *indices[1:])
            if step is not None:
                indices = tuple(map(analyzer.simplify, indices))
            return Load(buffers[key_of(e.buffer)], indices)
        return None

    terms: list[Expr] = []
    for axis in op.reduce_axis:
        values[axis] = lower(axis.start) + iters[axis]
        terms += [binary("<", iters[axis], lower(e)) for e in axis.range_exprs[1:]]
    shifted = step is not None and step.holds_rows(op)
    where = tuple((values if shifted else iters)[axis] for axis in op.axis)
    if not op.reduce_axis:
        stores = [Store(buffers[op, n], where, lower(part)) for n, part in enumerate(op.body)]
        return None, seq(*stores)
    unseen = {(id(r), n): number for number, r, n in hidden(op)}
    inits: list[Stmt] = []
    updates: list[Stmt] = []
    for reduction in components(op):
        targets = []
        for n in range(len(reduction.args)):
            number = _output_number(op, reduction, n)
            targets.append(buffers[op, unseen[id(reduction), n] if number is None else number])
        sources = tuple(lower(a) for a in reduction.args)
        dtypes = tuple(s.dtype for s in sources)
        start = tuple(map(lower, reduction.init)) or reduction.reducer.identity(dtypes)
        inits += [Store(b, where, value) for b, value in zip(targets, start)]
        cond = _all_within([*terms, lower(reduction.cond)])
        updates.append(_update(reduction, targets, where, sources, cond, names))
    return seq(*inits), seq(*updates)


def _all_within(terms: Sequence[Expr]) -> Expr:
    """All of `terms`, each of which reads memory where those before it hold: both sides of an `and`
    are evaluated."""
    found: Expr = TRUE
    for term in terms:
        inside = select(found, term, FALSE) if term.has_loads and found is not TRUE else term
        found = all_of(found, inside)
    return found


def _update(
    reduction: Reduce,
    targets: list[Buffer],
    where: tuple[Expr, ...],
    sources: tuple[Expr, ...],
    cond: Expr,
    names: Names,
) -> Stmt:
    """One step: tuples read all old values before the first store."""
    loads = tuple(Load(b, where) for b in targets)
    old: tuple[Expr, ...] = loads
    if len(targets) > 1:
        old = tuple(Var(names.unique(f"{b.name}_old"), b.dtype) for b in targets)
    new = reduction.reducer.combine(old, sources)
    if cond is not TRUE:
        new = tuple(select(cond, a, b) for a, b in zip(new, old))
    body: Stmt = seq(*(Store(b, where, value) for b, value in zip(targets, new)))
    if len(targets) > 1:
        for variable, load in reversed(list(zip(old, loads))):
            body = Let(variable, load, body)  # type: ignore[arg-type]
    return body
