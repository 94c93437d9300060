"""Calls of tensor intrinsics, in place of the loops that mean the same.

The loops are compared with the meaning of the intrinsic once more, as they are after lowering.
Where they have become something else, or the target lacks the instruction, the loops are printed.
"""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from tensorir import Analyzer, For, Mismatch, TensorIntrin, find_intrin, loop_nest, match_intrin
from tensorir import dtype as dt

if TYPE_CHECKING:
    from backends.c.codegen import CEmitter


def intrinsic_call(emitter: CEmitter, s: For, trial: TensorIntrin | None = None) -> bool:
    """Print the call for a loop that tensorize has marked; False where the loops are needed."""
    name = s.annotations.get("tensorize")
    intrin = find_intrin(str(name)) if trial is None else trial
    if name is None or intrin is None:
        return False
    if not intrin.runs_on(emitter.target.features):
        emitter.line(f"/* {intrin.name} needs {intrin.needs} */")
        return False
    analyzer = Analyzer()
    analyzer.bind_sizes(emitter.func.size_ranges)
    try:
        operands = match_intrin(intrin, s, analyzer)
    except Mismatch as mismatch:
        emitter.line(f"/* no longer {intrin.name}: {str(mismatch).replace('*/', '')} */")
        return False
    pointers = [f"&{emitter.element(o.buffer, (o.base,))}" for o in operands]
    strides = [emitter.expr(step) for o in operands for step in o.strides]
    call = f"{_function(emitter, intrin)}({', '.join(pointers + strides)});"
    nest = loop_nest(s)
    guards = () if isinstance(nest, str) else nest.guards
    condition = " && ".join(f"({emitter.expr(guard)})" for guard in guards)
    emitter.line(f"if ({condition}) {call}" if guards else call)
    return True


def _function(emitter: CEmitter, intrin: TensorIntrin) -> str:
    """The name of the function; its text comes along once."""
    known = emitter.intrinsics.get(intrin.name)
    if known is not None:
        return known
    for dtype in (dt.INDEX, *(p.dtype for p in intrin.func.params)):
        emitter.type_name(dtype)
    plain = "".join(c if c.isalnum() else "_" for c in intrin.name)
    name = emitter.names.fresh(f"tensor_{plain}")
    emitter.intrinsics[intrin.name] = name
    text = Template(intrin.source.strip()).safe_substitute(NAME=name)
    emitter.declarations[name] = f"/* {intrin.name} */\n{text}"
    return name
