"""Calls of tensor intrinsics in C.

Calls work on pointers: gcc and clang keep the local array of a register tile in registers across
the loop around them, which tests look up in the assembly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends.emit.intrinsic_calls import intrinsic_call, kept, print_call
from tensorir import For, TensorIntrin

if TYPE_CHECKING:
    from backends.c.emit.codegen import CEmitter


def tensorized_loop(emitter: CEmitter, s: For, trial: TensorIntrin | None = None) -> bool:
    """Print the call for a loop that tensorize has marked; False where the loops are needed."""
    call = intrinsic_call(emitter.func, s, emitter.target, trial)
    if call is None:
        return False
    if isinstance(call, str):
        emitter.line(kept(call))
        return False
    pointers = [f"&{emitter.element(o.buffer, (o.base,))}" for o in call.operands]
    if emitter.held is None:
        print_call(emitter, call, pointers, call.intrin.source)
    else:
        print_call(emitter, call, pointers[:-1], call.intrin.source, "_on")
    return True
