"""create_prim_func: from a graph of tensors to a program with one block per compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import TRUE, Expr, Load, Var, select
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.stmt import Block, For, IterKind, IterVar, Let, Stmt, Store, seq
from tensorir.te.axis import Axis
from tensorir.te.compute import components
from tensorir.te.reduce import Reduce
from tensorir.te.tensor import ComputeOp, PlaceholderOp, Tensor, check_name
from tensorir.visit import transform, walk_exprs


def create_prim_func(args: Sequence[Tensor], name: str = "main") -> PrimFunc:
    """The program that computes the outputs among `args` from the placeholders among them.

    `args` are the parameters in call order: placeholders first, then outputs. Tensors in between
    that are not listed become intermediate buffers. Every compute becomes a loop nest around a
    block of its own name. Raises TensorIRError where an input is missing or an argument is no
    tensor, is repeated or is out of order.
    """
    check_name(name, "function")
    _check_args(args)
    ops = _ordered_ops(args)
    _check_inputs(args, ops)
    names = Names()
    for size in _sizes(args, ops):
        names.unique(size.name)
    buffers = _buffers(args, ops, names)
    blocks = {op: _block_name(op, buffers, names) for op in ops}
    loops = {op: _loop_vars(op, blocks[op], names) for op in ops}
    body = seq(*(_nest(op, blocks[op], buffers, loops[op], names) for op in ops))
    params = tuple(buffers[_key(t)] for t in args)
    intermediate = tuple(b for b in buffers.values() if b not in params)
    return PrimFunc(name, params, intermediate, body)


def _check_args(args: Sequence[Tensor]) -> None:
    if isinstance(args, Tensor):
        raise TensorIRError("create_prim_func takes a list of tensors: create_prim_func([A, B, C])")
    outputs: list[Tensor] = []
    for n, t in enumerate(args):
        if not isinstance(t, Tensor):
            raise TensorIRError(
                f"argument {n} of create_prim_func is {t!r} of type {type(t).__name__}, no tensor"
            )
        if any(t is other for other in args[:n]):
            raise TensorIRError(f"tensor {t.name!r} is given twice in the arguments")
        if isinstance(t.op, ComputeOp):
            outputs.append(t)
        elif outputs:
            raise TensorIRError(
                f"placeholder {t.name!r} comes after the output {outputs[0].name!r}; "
                "list the inputs first"
            )
    if not outputs:
        raise TensorIRError(
            "create_prim_func needs an output: all of its arguments are placeholders"
        )


def _ordered_ops(args: Sequence[Tensor]) -> list[ComputeOp]:
    """The computes that the outputs need, producers first. Iterative: graphs may be deep."""
    done: dict[ComputeOp, None] = {}
    stack: list[tuple[Any, bool]] = [(t.op, False) for t in reversed(args)]
    while stack:
        op, ready = stack.pop()
        if not isinstance(op, ComputeOp) or op in done:
            continue
        if ready:
            done[op] = None
            continue
        stack.append((op, True))
        stack.extend((t.op, False) for t in reversed(op.inputs))
    return list(done)


def _check_inputs(args: Sequence[Tensor], ops: list[ComputeOp]) -> None:
    given = {id(t) for t in args}
    for op in ops:
        for t in op.inputs:
            if isinstance(t.op, PlaceholderOp) and id(t) not in given:
                raise TensorIRError(
                    f"tensor {op.name!r} reads placeholder {t.name!r}, which is not among the "
                    "arguments; add it"
                )


def _sizes(args: Sequence[Tensor], ops: list[ComputeOp]) -> list[Var]:
    """The symbolic sizes in use; each must be a dimension of an argument."""
    bound = {size for t in args for size in t.shape if isinstance(size, Var)}
    used: dict[Var, str] = {}
    for t in args:
        for extent in t.shape:
            used.update(dict.fromkeys(_size_vars(extent), t.name))
    for op in ops:
        parts = (*op.body, *(axis.extent for axis in (*op.axis, *op.reduce_axis)))
        for e in parts:
            used.update(dict.fromkeys(_size_vars(e), op.name))
    for size, where in used.items():
        if size not in bound:
            raise TensorIRError(
                f"size {size.name!r} in tensor {where!r} is not a dimension of any argument, so "
                "its value cannot be known"
            )
    return list(used)


def _size_vars(e: Expr) -> list[Var]:
    return [n for n in walk_exprs(e) if isinstance(n, Var) and not isinstance(n, Axis)]


Key = tuple[Any, int]


def _key(t: Tensor) -> Key:
    """Outputs are keyed by operation and number: hidden ones have no tensor."""
    return t.op, t.index


def _buffers(args: Sequence[Tensor], ops: list[ComputeOp], names: Names) -> dict[Key, Buffer]:
    """Buffers for all tensors: parameters first, so that they keep their names."""
    table = {_key(t): Buffer(names.unique(t.name), t.shape, t.dtype) for t in args}
    for op in ops:
        for t in op.outputs:
            if _key(t) not in table:
                table[_key(t)] = Buffer(names.unique(t.name), t.shape, t.dtype)
        for number, reduction, n in _hidden(op):
            label = _hidden_name(op, reduction, n)
            dtype = reduction.args[n].dtype
            table[op, number] = Buffer(names.unique(label), op.outputs[0].shape, dtype)
    return table


def _hidden(op: ComputeOp) -> list[tuple[int, Reduce, int]]:
    """Components of tuple reductions that no output asks for, numbered after the outputs."""
    found: list[tuple[int, Reduce, int]] = []
    for reduction in components(op):
        for n in range(len(reduction.args)):
            if _output_number(op, reduction, n) is None:
                found.append((len(op.outputs) + len(found), reduction, n))
    return found


def _hidden_name(op: ComputeOp, reduction: Reduce, n: int) -> str:
    if reduction.reducer.name in ("argmax", "argmin"):
        return f"{op.name}_value"
    return f"{op.name}_part{n}"


def _output_number(op: ComputeOp, reduction: Reduce, n: int) -> int | None:
    wanted = Reduce(reduction.reducer, reduction.args, reduction.axes, reduction.cond, n)
    return next((k for k, part in enumerate(op.body) if part is wanted), None)


def _block_name(op: ComputeOp, buffers: dict[Key, Buffer], names: Names) -> str:
    """Blocks are named after their tensor; those of several outputs after the compute."""
    return buffers[op, 0].name if len(op.outputs) == 1 else names.unique(op.name)


def _loop_vars(op: ComputeOp, block: str, names: Names) -> dict[Axis, Var]:
    found: dict[Axis, Var] = {}
    for axis in (*op.axis, *op.reduce_axis):
        wanted = f"{axis.name}_{block}" if axis.name in names.taken else axis.name
        found[axis] = Var(names.unique(wanted))
    return found


def _nest(
    op: ComputeOp,
    name: str,
    buffers: dict[Key, Buffer],
    loops: dict[Axis, Var],
    names: Names,
) -> Stmt:
    local = Names(names.taken)
    iters = {axis: Var(local.unique(f"v{axis.name}")) for axis in loops}
    block_iters = tuple(
        IterVar(
            iters[axis],
            axis.extent,
            IterKind.REDUCE if axis.is_reduce else IterKind.SPATIAL,
            loops[axis],
        )
        for axis in loops
    )
    init, body = _block_parts(op, buffers, iters, local)
    nest: Stmt = Block(name, block_iters, body, init)
    for axis in reversed(loops):
        nest = For(loops[axis], axis.extent, nest)
    return nest


def _block_parts(
    op: ComputeOp, buffers: dict[Key, Buffer], iters: dict[Axis, Var], names: Names
) -> tuple[Stmt | None, Stmt]:
    memo: dict[Expr, Expr] = {}

    def lower(e: Expr) -> Expr:
        return transform(e, rule, memo)

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Axis):
            return iters[e]
        if isinstance(e, Load):
            return Load(buffers[_key(e.buffer)], e.indices)  # type: ignore[arg-type]
        return None

    where = tuple(iters[axis] for axis in op.axis)
    if not op.reduce_axis:
        stores = [
            Store(buffers[op, n], where, lower(part)) for n, part in enumerate(op.body)
        ]
        return None, seq(*stores)
    hidden = {(id(r), n): number for number, r, n in _hidden(op)}
    inits: list[Stmt] = []
    updates: list[Stmt] = []
    for reduction in components(op):
        targets = []
        for n in range(len(reduction.args)):
            number = _output_number(op, reduction, n)
            targets.append(buffers[op, hidden[id(reduction), n] if number is None else number])
        sources = tuple(lower(a) for a in reduction.args)
        dtypes = tuple(s.dtype for s in sources)
        identity = reduction.reducer.identity(dtypes)
        inits += [Store(b, where, value) for b, value in zip(targets, identity)]
        updates.append(_update(reduction, targets, where, sources, lower(reduction.cond), names))
    return seq(*inits), seq(*updates)


def _update(
    reduction: Reduce,
    targets: list[Buffer],
    where: tuple[Var, ...],
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
