"""create_schedule: the beginning of a schedule in TVM's tensor-expression style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedule.te.schedule import TESchedule
from tensorir import TensorIRError, te


def create_schedule(ops: Any, args: Sequence[Any] | None = None, name: str = "main") -> TESchedule:
    """A schedule of all computes that `ops`, operations or tensors, need; also te.create_schedule.

    `args` are the parameters of the function in call order, inputs first, te.var numbers anywhere;
    without them they are all placeholders in order of appearance, then the te.var that are no
    dimension of these, then the tensors of `ops`.

        s = te.create_schedule(C.op)
        xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 32, 32)
        s[C].vectorize(yi)
        kernel = build(s)
    """
    several = isinstance(ops, (tuple, list))
    outputs: list[Any] = []
    for op in ops if several else (ops,):
        made = getattr(op, "outputs", None)
        found = (op,) if isinstance(op, te.Tensor) else made
        if not found or isinstance(found[0].op, te.PlaceholderOp):
            raise TensorIRError(f"create_schedule of {op!r}, which computes nothing; give it C.op")
        outputs += [t for t in found if t not in outputs]
    if args is not None:
        return TESchedule(list(args), name)
    tensors = [*_placeholders(outputs), *outputs]
    numbers = te.numbers_needed(tensors)
    at = len(tensors) - len(outputs)
    return TESchedule([*tensors[:at], *numbers, *tensors[at:]], name)


def _placeholders(outputs: Sequence[Any]) -> list[Any]:
    """The placeholders that the outputs read, in order of appearance."""
    found: dict[Any, None] = {}
    seen: set[Any] = set()
    stack = list(reversed(outputs))
    while stack:
        tensor = stack.pop()
        if isinstance(tensor.op, te.PlaceholderOp):
            found[tensor] = None
        elif tensor.op not in seen:
            seen.add(tensor.op)
            stack.extend(reversed(tensor.op.inputs))
    return list(found)
