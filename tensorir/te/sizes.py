"""Symbolic sizes of a te graph: those that arrays tell, and those that are arguments themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Union

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, Var
from tensorir.scalars import Scalar, divisors
from tensorir.te.axis import Axis
from tensorir.te.tensor import ComputeOp, ScanOp, StatementsOp, Tensor
from tensorir.visit import loads, walk_exprs

Made = Union[ComputeOp, ScanOp, StatementsOp]


def computes(ops: Sequence[Made]) -> list[ComputeOp]:
    """The computes of `ops` and those of the steps of its scans, in order."""
    return [c for op in ops for c in _parts(op)]


def _parts(op: Made) -> tuple[ComputeOp, ...]:
    if isinstance(op, StatementsOp):
        return ()
    return op.steps if isinstance(op, ScanOp) else (op,)


def split_arguments(args: Any) -> tuple[list[Tensor], list[Var]]:
    """The tensors and the numbers among the arguments of a function.

    Raises TensorIRError for what is neither, and for a number that is given twice.
    """
    if hasattr(args, "dtype") or not isinstance(args, Iterable):
        raise TensorIRError("create_prim_func takes a list of tensors: create_prim_func([A, B, C])")
    tensors: list[Tensor] = []
    numbers: list[Var] = []
    for n, each in enumerate(args):
        if isinstance(each, Tensor):
            tensors.append(each)
        elif isinstance(each, Var) and not isinstance(each, Axis):
            if any(each.name == other.name for other in numbers):
                raise TensorIRError(f"number {each.name!r} is given twice in the arguments")
            numbers.append(each)
        else:
            raise TensorIRError(
                f"argument {n} of create_prim_func is {each!r} of type {type(each).__name__}, no "
                "tensor and no te.var"
            )
    return tensors, numbers


def sizes_of(tensors: Sequence[Tensor], ops: Sequence[Made], numbers: Sequence[Var]) -> list[Var]:
    """The variables in use that a call binds; a size must be a dimension of an argument, or among
    `numbers`, and what is no size among these."""
    used = _used(tensors, ops)
    by_name: dict[str, Var] = {}
    for var in (*used, *numbers):
        other = by_name.setdefault(var.name, var)
        if other is not var:
            raise TensorIRError(
                f"{var.name!r} names a number of type {other.dtype} and one of type {var.dtype}; "
                "give them names of their own"
            )
    given = set(numbers)
    for var in numbers_of(tensors, ops):
        if var not in given:
            raise _untold(var, used[var])
    return list(used)


def numbers_of(tensors: Sequence[Tensor], ops: Sequence[Made]) -> list[Var]:
    """The variables in use that no dimension of an argument tells, in order of appearance."""
    told = {size for t in tensors for size in t.shape if isinstance(size, Var)}
    return [var for var in _used(tensors, ops) if var not in told]


def _untold(var: Var, where: str) -> TensorIRError:
    if var.dtype != dt.INDEX:
        return TensorIRError(
            f"number {var.name!r} in tensor {where!r} is none of the arguments, so its value "
            f"cannot be known; put te.var({var.name!r}, {var.dtype!r}) among them"
        )
    return TensorIRError(
        f"size {var.name!r} in tensor {where!r} is not a dimension of any argument, so its value "
        "cannot be known; add a placeholder that has it as a dimension, or put "
        f"te.var({var.name!r}) itself among the arguments"
    )


def _used(tensors: Sequence[Tensor], ops: Sequence[Made]) -> dict[Var, str]:
    """The variables that a call binds, each with the name of a tensor that it is used in."""
    used: dict[Var, str] = {}
    for t in tensors:
        for extent in t.shape:
            used.update(dict.fromkeys(_size_vars(extent), t.name))
    for stage in ops:
        if isinstance(stage, StatementsOp):
            used.update(dict.fromkeys(stage.func.free_vars, stage.name))
    for op in computes(ops):
        for e in (*op.body, *_extents(op)):
            used.update(dict.fromkeys(_size_vars(e), op.name))
    return used


def _extents(op: ComputeOp) -> tuple[Expr, ...]:
    """The shapes of the outputs of a compute, and the extents and ranges of its axes."""
    made = [e for t in op.outputs for e in t.shape]
    axes = (*op.axis, *op.reduce_axis)
    return (*made, *(e for axis in axes for e in (axis.extent, *axis.range_exprs)))


def _size_vars(e: Expr) -> list[Var]:
    return [n for n in walk_exprs(e) if isinstance(n, Var) and not isinstance(n, Axis)]


def scalars_of(args: Sequence[Tensor | Var], ops: Sequence[Made]) -> tuple[Scalar, ...]:
    """The numbers among the arguments, with the least values for which the graph has a meaning:
    0 for a size, 1 for what a size or an index is divided by."""
    if not any(isinstance(each, Var) for each in args):
        return ()
    extents = [e for each in args if isinstance(each, Tensor) for e in each.shape]
    indices: list[Expr] = []
    for stage in ops:
        if isinstance(stage, StatementsOp):
            extents += [e for p in stage.func.params for e in p.shape]
    for op in computes(ops):
        extents += _extents(op)
        indices += [i for e in op.body for load in loads(e) for i in load.indices]
    sizes = {v for e in extents for v in _size_vars(e)}
    positive = {v for e in (*extents, *indices) for v in divisors(e)}
    return tuple(
        Scalar(each, n, 1 if each in positive else 0 if each in sizes else None)
        for n, each in enumerate(args)
        if isinstance(each, Var)
    )
