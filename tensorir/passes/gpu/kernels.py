"""kernels: what has loops over threads stands in a loop over blocks."""

from __future__ import annotations

from tensorir.expr import Const, Var
from tensorir.func import PrimFunc
from tensorir.passes.gpu.axes import has_threads, is_block_loop
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.stmt import For, ForKind, Seq


def kernels(func: PrimFunc) -> PrimFunc:
    """Put statements with loops over threads, but not over blocks, into a loop over a single block.

    rewrite:
        for k in range(8):                        for block in thread("blockIdx.x", 1):
            for i in thread("threadIdx.x", 4):        for k in range(8):
                S(k, i)                       ->          for i in thread("threadIdx.x", 4):
                                                              S(k, i)

    A kernel is one statement of the outermost sequence. So later passes know what runs together: an
    init that is taken out of a reduction stays in its kernel.
    """
    fresh = fresh_names(func.body, [v.name for v in func.size_vars])
    body = func.body
    parts = body.stmts if isinstance(body, Seq) else (body,)
    made = []
    for part in parts:
        if has_threads(part) and not is_block_loop(part):
            var = Var(fresh("block"), "int64")
            part = For(var, Const(1, "int64"), part, ForKind.THREAD, {}, "blockIdx.x")
        made.append(part)
    if all(a is b for a, b in zip(made, parts)):
        return func
    return with_body(func, made[0] if len(made) == 1 else Seq(tuple(made)))
