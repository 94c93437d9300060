"""Calls of tensor intrinsics, in place of the loops that mean the same.

The loops are compared with the meaning of the intrinsic once more, as they are after lowering.
Where they have become something else, or the target lacks the instruction, the loops are printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from string import Template
from typing import Protocol

from backends.emit.names import Names
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
from tensorir import dtype as dt


@dataclass(frozen=True)
class IntrinsicCall:
    """An intrinsic, the operand for each of its parameters, and the conditions of the call."""

    intrin: TensorIntrin
    operands: tuple[Operand, ...]
    guards: tuple[Expr, ...]


class Emits(Protocol):
    """What a call needs of the emitter that prints it."""

    intrinsics: dict[str, str]
    declarations: dict[str, str]
    names: Names

    def expr(self, e: Expr, level: int = 0) -> str: ...
    def line(self, text: str) -> None: ...
    def type_name(self, dtype: str) -> str: ...


def print_call(
    emitter: Emits, call: IntrinsicCall, pointers: list[str], source: str, part: str = ""
) -> None:
    """The statement that calls the intrinsic, whose text in the language is `source`, under its
    conditions: with pointers to the operands, then their strides. A `part` of it is a function
    whose name ends so, and may take the first operands only."""
    operands = call.operands[: len(pointers)]
    strides = [emitter.expr(step) for operand in operands for step in operand.strides]
    name = f"{intrinsic_function(emitter, call.intrin, source)}{part}"
    text = f"{name}({', '.join(pointers + strides)});"
    condition = " && ".join(f"({emitter.expr(guard)})" for guard in call.guards)
    emitter.line(f"if ({condition}) {text}" if call.guards else text)


def intrinsic_function(emitter: Emits, intrin: TensorIntrin, source: str) -> str:
    """The name of the function; its text comes along once."""
    known = emitter.intrinsics.get(intrin.name)
    if known is not None:
        return known
    for dtype in (dt.INDEX, *(p.dtype for p in intrin.func.params)):
        emitter.type_name(dtype)
    name = emitter.names.fresh(plain_name(intrin))
    emitter.intrinsics[intrin.name] = name
    text = Template(source.strip()).safe_substitute(NAME=name)
    emitter.declarations[name] = f"/* {intrin.name} */\n{text}"
    return name


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
