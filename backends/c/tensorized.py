"""Calls of tensor intrinsics in C."""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from backends.intrinsic_calls import intrinsic_call, kept, plain_name
from tensorir import For, TensorIntrin
from tensorir import dtype as dt

if TYPE_CHECKING:
    from backends.c.codegen import CEmitter


def tensorized_loop(emitter: CEmitter, s: For, trial: TensorIntrin | None = None) -> bool:
    """Print the call for a loop that tensorize has marked; False where the loops are needed."""
    call = intrinsic_call(emitter.func, s, emitter.target, trial)
    if call is None:
        return False
    if isinstance(call, str):
        emitter.line(kept(call))
        return False
    pointers = [f"&{emitter.element(o.buffer, (o.base,))}" for o in call.operands]
    strides = [emitter.expr(step) for o in call.operands for step in o.strides]
    text = f"{_function(emitter, call.intrin)}({', '.join(pointers + strides)});"
    condition = " && ".join(f"({emitter.expr(guard)})" for guard in call.guards)
    emitter.line(f"if ({condition}) {text}" if call.guards else text)
    return True


def _function(emitter: CEmitter, intrin: TensorIntrin) -> str:
    """The name of the function; its text comes along once."""
    known = emitter.intrinsics.get(intrin.name)
    if known is not None:
        return known
    for dtype in (dt.INDEX, *(p.dtype for p in intrin.func.params)):
        emitter.type_name(dtype)
    name = emitter.names.fresh(plain_name(intrin))
    emitter.intrinsics[intrin.name] = name
    text = Template(intrin.source.strip()).safe_substitute(NAME=name)
    emitter.declarations[name] = f"/* {intrin.name} */\n{text}"
    return name
