"""Calls of tensor intrinsics in the code of one thread."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from backends.emit.intrinsic_calls import IntrinsicCall, intrinsic_call, kept, print_call
from tensorir import Analyzer, For, loads
from tensorir import dtype as dt

if TYPE_CHECKING:
    from backends.gpu.emitter import GpuEmitter


def tensorized_loop(emitter: GpuEmitter, s: For) -> bool:
    """Print the call for a loop that tensorize has marked; False where the loops are needed."""
    call = intrinsic_call(emitter.func, s, emitter.target, emitter.trial)
    if call is None:
        return False
    why = call if isinstance(call, str) else _misaligned(emitter, call)
    if why or isinstance(call, str):
        emitter.line(kept(why))
        return False
    func = call.intrin.func
    (output,) = func.outputs
    updated = any(load.buffer is output for load in loads(call.intrin.nest.store.value))
    written = "update" if updated else "write"
    pointers = [
        emitter.memory_part(
            operand.buffer,
            emitter.expr(operand.indices[0]),
            str(prod(param.const_shape or ())),
            written if param is output else "read",
        )
        for param, operand in zip(func.params, call.operands)
    ]
    print_call(emitter, call, pointers, call.intrin.cuda)
    return True


def _misaligned(emitter: GpuEmitter, call: IntrinsicCall) -> str:
    """Which operand is not known to lie as the intrinsic wants it; "" where all do.

    Memory of threads and of blocks begins at multiples of 16 bytes, arguments do where a call has
    looked.
    """
    analyzer = Analyzer()
    for param, operand in zip(call.intrin.func.params, call.operands):
        size = call.intrin.aligned.get(param.name, 1)
        offset = emitter.kernel.shared_offsets.get(operand.buffer.name, 0)
        elements = max(size // dt.itemsize(param.dtype), 1)
        if offset % size or not analyzer.divides(operand.base, elements):
            return (
                f"{call.intrin.name} needs {operand.buffer.name} at multiples of {size} bytes, "
                "which is not proved"
            )
    return ""
