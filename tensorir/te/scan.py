"""te.scan: a recurrence along the first dimension, as in TVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from tensorir.errors import TensorIRError
from tensorir.expr import Load, int_value
from tensorir.te.bounds import check_first, check_step
from tensorir.te.tensor import ComputeOp, ExternOp, PlaceholderOp, ScanOp, Tensor, check_name
from tensorir.visit import walk_exprs

Tensors = Union[Tensor, Sequence[Tensor]]


def scan(
    init: Tensors,
    update: Tensors,
    state_placeholder: Tensors,
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
) -> Any:
    """The tensor whose first rows are `init` and whose row t is row t of `update`.

    `update` is a te.compute of the shape of `state_placeholder`, which stands in it for the rows
    before t: `s[t - 1, i]`. Computes between the two take part in each step; their first dimension
    is the time, and row t of them is read at `t` only. Sequences of tensors define several states,
    which are updated together, and return a tuple. `inputs` is kept for programs written for TVM;
    what is read is found by itself. Raises TensorIRError where the parts do not fit and
    VerifyError where a step reads rows that are not computed yet, or outside of a tensor.

        X = te.placeholder((m, n), name="X")
        s = te.placeholder((m, n), name="s")
        first = te.compute((1, n), lambda _, i: X[0, i])
        step = te.compute((m, n), lambda t, i: s[t - 1, i] + X[t, i])
        sums = te.scan(first, step, s, inputs=[X])
    """
    check_name(name, "scan")
    several = isinstance(state_placeholder, (tuple, list))
    inits, updates, states = (_tensors(p, name) for p in (init, update, state_placeholder))
    _check_parts(name, inits, updates, states)
    steps = _steps(name, updates, states)
    _check_reads(name, steps, inits, updates, states)
    own = {id(t) for op in steps for t in op.outputs} | {id(s) for s in states}
    outside = [t for op in steps for t in op.inputs if id(t) not in own]
    op = ScanOp(name, inits, updates, states, steps, tuple(dict.fromkeys((*inits, *outside))))
    labels = [f"{name}_{n}" for n in range(len(states))] if several else [name]
    op.outputs = tuple(
        Tensor(label, s.shape, s.dtype, op, n) for n, (label, s) in enumerate(zip(labels, states))
    )
    return op.outputs if several else op.outputs[0]


def _tensors(part: Tensors, name: str) -> tuple[Tensor, ...]:
    found = tuple(part) if isinstance(part, (tuple, list)) else (part,)
    for t in found:
        if not isinstance(t, Tensor):
            raise TensorIRError(f"scan {name!r} is given {t!r}, which is no tensor")
    return found


def _check_parts(
    name: str,
    inits: tuple[Tensor, ...],
    updates: tuple[Tensor, ...],
    states: tuple[Tensor, ...],
) -> None:
    if not len(inits) == len(updates) == len(states) or not states:
        raise TensorIRError(
            f"scan {name!r} has {len(inits)} inits, {len(updates)} updates and {len(states)} "
            "states; give one of each for every state"
        )
    for what, group in (("init", inits), ("update", updates), ("state", states)):
        if len(set(group)) < len(group):
            raise TensorIRError(f"scan {name!r} is given one {what} twice")
    for init, update, state in zip(inits, updates, states):
        if not isinstance(state.op, PlaceholderOp):
            raise TensorIRError(
                f"state {state.name!r} of scan {name!r} is computed; use a te.placeholder"
            )
        for what, t in (("init", init), ("update", update)):
            if not isinstance(t.op, ComputeOp) or isinstance(t.op, ExternOp):
                raise TensorIRError(f"{what} {t.name!r} of scan {name!r} is not a te.compute")
            if t.dtype != state.dtype:
                raise TensorIRError(
                    f"{what} {t.name!r} of scan {name!r} is {t.dtype}, and its state "
                    f"{state.name!r} is {state.dtype}; convert what it computes with "
                    f".astype({state.dtype!r})"
                )
        _check_shapes(name, init, update, state)
        for what, t, other in (("init", init, inits[0]), ("update", update, updates[0])):
            if t.shape[0] is not other.shape[0]:
                raise TensorIRError(
                    f"{what}s {other.name!r} and {t.name!r} of scan {name!r} have "
                    f"{other.shape[0]!r} and {t.shape[0]!r} rows; all states go the same steps"
                )


def _check_shapes(name: str, init: Tensor, update: Tensor, state: Tensor) -> None:
    same = len(update.shape) == len(state.shape) and all(
        a is b for a, b in zip(update.shape, state.shape)
    )
    if not same or not state.shape:
        raise TensorIRError(
            f"update {update!r} of scan {name!r} and its state {state!r} have different shapes, "
            "or no dimension for the time"
        )
    if len(init.shape) != len(state.shape) or any(
        a is not b for a, b in zip(init.shape[1:], state.shape[1:])
    ):
        raise TensorIRError(
            f"init {init!r} of scan {name!r} has other rows than its state {state!r}"
        )
    first, steps = int_value(init.shape[0]), int_value(state.shape[0])
    if first is None or first < 1 or (steps is not None and first > steps):
        raise TensorIRError(
            f"init {init!r} of scan {name!r} gives {init.shape[0]!r} of {state.shape[0]!r} rows; "
            "it must give a number of rows, 1 at least"
        )


def _steps(
    name: str, updates: tuple[Tensor, ...], states: tuple[Tensor, ...]
) -> tuple[ComputeOp, ...]:
    """The updates and the computes between them and the states, producers first."""
    within: dict[Any, bool] = {}
    stack: list[tuple[Any, bool]] = [(t.op, False) for t in reversed(updates)]
    order: list[Any] = []
    while stack:
        op, ready = stack.pop()
        if ready:
            within[op] = any(t in states or within.get(t.op, False) for t in op.inputs)
            order.append(op)
        elif op not in within:
            within[op] = False
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.inputs) if t.op not in within)
    wanted = {t.op for t in updates}
    found = []
    for op in order:
        if not within[op] and op not in wanted:
            continue
        if not isinstance(op, ComputeOp) or isinstance(op, ExternOp):
            raise TensorIRError(
                f"{op.name!r} reads a state of scan {name!r} and is no te.compute; a step of a "
                "scan consists of computes"
            )
        found.append(op)
    return tuple(found)


def _check_reads(
    name: str,
    steps: tuple[ComputeOp, ...],
    inits: tuple[Tensor, ...],
    updates: tuple[Tensor, ...],
    states: tuple[Tensor, ...],
) -> None:
    for first in (t.op for t in inits):
        assert isinstance(first, ComputeOp)
        check_first(first.name, (*first.axis, *first.reduce_axis), first.body, states[0].shape[0])
    own = {t for op in steps for t in op.outputs}
    for op in steps:
        targets = [t for t in op.outputs if t in updates]
        if targets and len(targets) < len(op.outputs):
            raise TensorIRError(
                f"{op.name!r} computes an update of scan {name!r} and something else; "
                "compute them apart"
            )
        if not op.axis or op.axis[0].extent is not states[0].shape[0]:
            raise TensorIRError(
                f"{op.name!r} reads a state of scan {name!r}, so its first dimension must be the "
                f"time, of extent {states[0].shape[0]!r}"
            )
        for node in (n for part in op.body for n in walk_exprs(part)):
            read: Any = node.buffer if isinstance(node, Load) else None
            if isinstance(node, Load) and read in own:
                if read in updates or node.indices[0] is not op.axis[0]:
                    raise TensorIRError(
                        f"{op.name!r} of scan {name!r} reads {node!r}; a step reads the tensors "
                        "of its own step, and earlier rows of the states only"
                    )
        check_step(op.name, (*op.axis, *op.reduce_axis), op.body, inits[0].shape[0], states)
