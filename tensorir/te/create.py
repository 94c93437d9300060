"""create_prim_func: from a graph of tensors to a program with one block per compute."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, Var, int_value
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.stmt import For, Stmt, seq
from tensorir.te.axis import Axis
from tensorir.te.create_block import Key, Step, hidden, hidden_name, key_of, make_nest
from tensorir.te.sizes import Made, computes, numbers_of, scalars_of, sizes_of, split_arguments
from tensorir.te.statements import Nest
from tensorir.te.tensor import ComputeOp, PlaceholderOp, ScanOp, StatementsOp, Tensor, check_name


def create_prim_func(args: Sequence[Tensor | Var], name: str = "main") -> PrimFunc:
    """The program that computes the outputs among `args` from the placeholders among them.

    `args` are the parameters in call order: placeholders first, then outputs, and anywhere among
    them te.var numbers that a call gives. Tensors in between that are not listed become
    intermediate buffers. Every compute becomes a loop nest around a block of its own name. A
    number is 0 or more where it stands in a shape or in the extent of an axis, and 1 or more where
    one of these, or an index, is divided by it; else it may be negative. Raises TensorIRError where
    an input is missing or an argument is no tensor or te.var, is repeated or is out of order.
    """
    return create_named_blocks(args, name)[0]


def numbers_needed(tensors: Sequence[Tensor]) -> list[Var]:
    """The te.var that a program of these arguments needs among them: all that are no dimension of
    one, in order of appearance."""
    return numbers_of(tensors, _ordered_ops(tensors))


def create_named_blocks(
    args: Sequence[Tensor | Var], name: str = "main", taken: Collection[str] = ()
) -> tuple[PrimFunc, dict[ComputeOp, str]]:
    """create_prim_func, and the name of the block of each compute. Names in `taken` are not used
    for anything."""
    func, blocks, _ = create_named_tensors(args, name, taken)
    return func, blocks


def create_named_tensors(
    args: Sequence[Tensor | Var], name: str = "main", taken: Collection[str] = ()
) -> tuple[PrimFunc, dict[ComputeOp, str], dict[Key, Buffer]]:
    """create_named_blocks, and the buffer of each tensor, by its operation and number."""
    check_name(name, "function")
    tensors, numbers = split_arguments(args)
    _check_args(tensors)
    ops = _ordered_ops(tensors)
    _check_inputs(tensors, ops)
    names = Names(taken)
    for size in dict.fromkeys((*sizes_of(tensors, ops, numbers), *numbers)):
        names.unique(size.name)
    buffers = _buffers(tensors, ops, names)
    blocks = {op: _block_name(op, buffers, names) for op in computes(ops)}
    written = {op: _statements(op, buffers, names) for op in ops if isinstance(op, StatementsOp)}
    body = seq(*_nests(ops, blocks, buffers, names, written))
    params = tuple(buffers[key_of(t)] for t in tensors)
    scalars = scalars_of(args, ops)
    made = dict.fromkeys(buffers.values())
    made.update(dict.fromkeys(b for nest in written.values() for b in nest.intermediates))
    intermediate = tuple(b for b in made if b not in params)
    return PrimFunc(name, params, intermediate, body, {}, scalars), blocks, buffers


def _check_args(tensors: Sequence[Tensor]) -> None:
    outputs: list[Tensor] = []
    for n, t in enumerate(tensors):
        if any(t is other for other in tensors[:n]):
            raise TensorIRError(f"tensor {t.name!r} is given twice in the arguments")
        if not isinstance(t.op, PlaceholderOp):
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


def _ordered_ops(args: Sequence[Tensor]) -> list[Made]:
    """What the outputs need but placeholders, producers first. Iterative: graphs may be deep."""
    done: dict[Made, None] = {}
    stack: list[tuple[Any, bool]] = [(t.op, False) for t in reversed(args)]
    while stack:
        op, ready = stack.pop()
        if isinstance(op, PlaceholderOp) or op in done:
            continue
        if ready:
            done[op] = None
            continue
        stack.append((op, True))
        stack.extend((t.op, False) for t in reversed(op.inputs))
    return list(done)


def _check_inputs(args: Sequence[Tensor], ops: list[Made]) -> None:
    given = {id(t) for t in args}
    steps = {step: op for op in ops if isinstance(op, ScanOp) for step in op.steps}
    starts = {t.op for op in ops if isinstance(op, ScanOp) for t in op.init}
    for op in ops:
        if op in steps:
            raise TensorIRError(
                f"tensor {op.name!r} is a step of scan {steps[op].name!r} and used outside of it; "
                f"use what te.scan returned, or compute it apart"
            )
    for op in ops:
        for t in op.inputs:
            if isinstance(t.op, PlaceholderOp) and id(t) not in given:
                raise TensorIRError(
                    f"tensor {op.name!r} reads placeholder {t.name!r}, which is not among the "
                    "arguments; add it"
                )
        if isinstance(op, ComputeOp) and op.early is not None and op not in starts:
            raise op.early


def _buffers(args: Sequence[Tensor], ops: list[Made], names: Names) -> dict[Key, Buffer]:
    """Buffers for all tensors: parameters first, so that they keep their names."""
    table = {key_of(t): Buffer(names.unique(t.name), t.shape, t.dtype) for t in args}
    for op in ops:
        if isinstance(op, ScanOp):
            _scan_buffers(op, table, names)
    for t in (t for op in ops if isinstance(op, StatementsOp) for t in op.outputs):
        if key_of(t) not in table:
            table[key_of(t)] = Buffer(names.unique(t.name), t.shape, t.dtype)
    for compute in computes(ops):
        for t in compute.outputs:
            if key_of(t) not in table:
                table[key_of(t)] = Buffer(names.unique(t.name), t.shape, t.dtype)
        for number, reduction, n in hidden(compute):
            label = hidden_name(compute, reduction, n)
            dtype = reduction.args[n].dtype
            shape = table[key_of(compute.outputs[0])].shape
            table[compute, number] = Buffer(names.unique(label), shape, dtype)
    return table


def _scan_buffers(scan: ScanOp, table: dict[Key, Buffer], names: Names) -> None:
    """One buffer for a state, its first rows and its updates; short ones for other stages."""
    for t, *parts in zip(scan.outputs, scan.init, scan.update, scan.state):
        if key_of(t) not in table:
            table[key_of(t)] = Buffer(names.unique(t.name), t.shape, t.dtype)
        for part in parts:
            if key_of(part) in table:
                raise TensorIRError(
                    f"tensor {part.name!r} is part of scan {scan.name!r} and also of another scan "
                    "or an argument; make one of its own for each"
                )
            table[key_of(part)] = table[key_of(t)]
    for t in scan.stages:
        shape = (t.shape[0] - scan.first, *t.shape[1:])
        table[key_of(t)] = Buffer(names.unique(t.name), shape, t.dtype)


def _statements(op: StatementsOp, buffers: dict[Key, Buffer], names: Names) -> Nest:
    given = dict(zip(op.func.inputs, [buffers[key_of(t)] for t in op.inputs]))
    made = dict(zip(op.func.outputs, [buffers[key_of(t)] for t in op.outputs]))
    return Nest(op, {**given, **made}, names)


def _block_name(op: ComputeOp, buffers: dict[Key, Buffer], names: Names) -> str:
    """Blocks are named after their tensor; those of several outputs, and those that make rows of
    a scan, after the compute."""
    buffer = buffers[op, 0]
    shared = sum(b is buffer for b in buffers.values()) > 1
    return buffer.name if len(op.outputs) == 1 and not shared else names.unique(op.name)


def _loop_vars(axes: Sequence[Axis], block: str, names: Names) -> dict[Axis, Var]:
    return {axis: Var(_loop_name(axis, block, names)) for axis in axes}


def _loop_name(axis: Axis, block: str, names: Names) -> str:
    return names.unique(f"{axis.name}_{block}" if axis.name in names.taken else axis.name)


def _nests(
    ops: list[Made],
    blocks: dict[ComputeOp, str],
    buffers: dict[Key, Buffer],
    names: Names,
    written: dict[StatementsOp, Nest],
) -> list[Stmt]:
    """The loop nests of all operations. Loops are named first, then the variables inside."""
    loops: dict[ComputeOp, dict[Axis, Var]] = {}
    times: dict[ScanOp, Step] = {}
    for op in ops:
        if isinstance(op, ScanOp):
            last = op.steps[-1]
            times[op] = Step(op, Var(_loop_name(last.axis[0], blocks[last], names)))
        for compute in computes([op]):
            axes = (*compute.axis, *compute.reduce_axis)
            inner = axes[1:] if isinstance(op, ScanOp) else axes
            loops[compute] = _loop_vars(inner, blocks[compute], names)
    found: list[Stmt] = []
    for op in ops:
        if isinstance(op, ScanOp):
            step = times[op]
            body = seq(
                *(make_nest(c, blocks[c], buffers, loops[c], names, step=step) for c in op.steps)
            )
            found.append(For(step.loop, step.extent, body))
        elif isinstance(op, StatementsOp):
            found.append(written[op].make())
        else:
            rows = _rows(op, buffers)
            found.append(make_nest(op, blocks[op], buffers, loops[op], names, rows=rows))
    return found


def _rows(op: ComputeOp, buffers: dict[Key, Buffer]) -> Expr | None:
    """The size of a scan of symbolic length whose first rows `op` makes: it may be less."""
    if not op.axis:
        return None
    held = buffers[op, 0].shape[0]
    return None if held is op.axis[0].extent or int_value(held) is not None else held
