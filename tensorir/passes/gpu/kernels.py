"""kernels: what has loops over threads stands in a loop over blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace as replace_fields

from tensorir.buffer import Buffer
from tensorir.expr import Const, Var
from tensorir.func import PrimFunc
from tensorir.parts import replace_buffers, touched
from tensorir.passes.gpu.axes import has_threads, is_block_loop
from tensorir.passes.rewriting import fresh_names
from tensorir.stmt import For, ForKind, Seq, Stmt, seq
from tensorir.visit import loads, stmt_exprs, walk


def kernels(func: PrimFunc) -> PrimFunc:
    """Put statements with loops over threads, but not over blocks, into a loop over a single block.

    rewrite:
        for k in range(8):                        for block in thread("blockIdx.x", 1):
            for i in thread("threadIdx.x", 4):        for k in range(8):
                S(k, i)                       ->          for i in thread("threadIdx.x", 4):
                                                              S(k, i)

    A kernel is one statement of the outermost sequence. So later passes know what runs together: an
    init that is taken out of a reduction stays in its kernel. Memory that several kernels use is
    global, whatever its scope: nothing else outlives one.
    """
    parts = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    fresh = fresh_names(func.body, [v.name for v in func.free_vars])
    made = []
    for part in parts:
        if has_threads(part) and not is_block_loop(part):
            var = Var(fresh("block"), "int64")
            part = For(var, Const(1, "int64"), part, ForKind.THREAD, {}, "blockIdx.x")
        made.append(part)
    users = Counter(buffer for part in parts for buffer in _used(part))
    moved = {b: b.with_scope("global") for b in func.buffers if users[b] > 1}
    moved = {b: new for b, new in moved.items() if new is not b}
    if not moved and all(a is b for a, b in zip(made, parts)):
        return func
    body = replace_buffers(seq(*made), moved)
    buffers = tuple([moved.get(b, b) for b in func.buffers])
    return replace_fields(func, body=body, buffers=buffers)


def _used(stmt: Stmt) -> set[Buffer]:
    nodes = list(walk(stmt))
    found = {buffer for s in nodes for buffer, _, _ in touched(s)}
    return found | {e.buffer for s in nodes for x in stmt_exprs(s) for e in loads(x)}
