"""Calls of tensor intrinsics, in place of the loops that mean the same.

The loops are compared with the meaning of the intrinsic once more, as they are after lowering.
Where they have become something else, or the target lacks the instruction, the loops are printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorir import (
    TENSORIZE,
    Analyzer,
    Buffer,
    Expr,
    For,
    Mismatch,
    Operand,
    PrimFunc,
    Stmt,
    Target,
    TensorIntrin,
    find_intrin,
    loop_nest,
    match_intrin,
    walk,
)


@dataclass(frozen=True)
class IntrinsicCall:
    """An intrinsic, the operand for each of its parameters, and the conditions of the call."""

    intrin: TensorIntrin
    operands: tuple[Operand, ...]
    guards: tuple[Expr, ...]


def intrinsic_call(
    func: PrimFunc, s: For, target: Target, trial: TensorIntrin | None = None
) -> IntrinsicCall | str | None:
    """What a loop that tensorize has marked calls, or why not, in words; None for another loop.

    `trial` is an intrinsic that is being checked, and not yet known.
    """
    name = s.annotations.get(TENSORIZE)
    intrin = find_intrin(str(name)) if trial is None else trial
    if name is None or intrin is None:
        return None
    if not intrin.text_for(target.kind):
        return f"{intrin.name} has no text for {target.kind}"
    if not intrin.runs_on(target.instructions, target.kind):
        return f"{intrin.name} needs {intrin.needs}"
    return _matched(func, s, intrin)


def aligned_operands(func: PrimFunc, body: Stmt) -> Iterator[tuple[Buffer, int]]:
    """The operands of intrinsics below `body` that begin at multiples of so many bytes."""
    for s in walk(body):
        intrin = find_intrin(str(s.annotations.get(TENSORIZE))) if isinstance(s, For) else None
        if isinstance(s, For) and intrin is not None and intrin.aligned:
            call = _matched(func, s, intrin)
            if isinstance(call, IntrinsicCall):
                for param, operand in zip(intrin.func.params, call.operands):
                    yield operand.buffer, intrin.aligned.get(param.name, 1)


def _matched(func: PrimFunc, s: For, intrin: TensorIntrin) -> IntrinsicCall | str:
    analyzer = Analyzer()
    analyzer.bind_sizes(func.size_ranges)
    try:
        operands = match_intrin(intrin, s, analyzer)
    except Mismatch as mismatch:
        return f"no longer {intrin.name}: {mismatch}"
    nest = loop_nest(s)
    return IntrinsicCall(intrin, operands, () if isinstance(nest, str) else nest.guards)


def kept(why: str) -> str:
    """The comment that says why loops are printed."""
    return f"/* {why.replace('*/', '')} */"


def plain_name(intrin: TensorIntrin) -> str:
    """What the function of an intrinsic is called, if the name is free."""
    return "tensor_" + "".join(c if c.isalnum() else "_" for c in intrin.name)
