"""exchanges_in_memory: lanes exchange values through shared memory, where there are no shuffles."""

from __future__ import annotations

from dataclasses import replace as replace_fields

from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, const, minimum
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.passes.gpu.axes import WARP, is_kernel, linear_thread, nest_of, threads_of
from tensorir.stmt import Exchange, Stmt, Store, Sync, replace, seq
from tensorir.visit import map_children, walk


def exchanges_in_memory(func: PrimFunc) -> PrimFunc:
    """Let each thread put its value where the others of its block find it.

    rewrite:
        R[0] = exchange(V[0], t % 32 ^ 1)   ->   E[t] = V[0]
                                                 sync("block")
                                                 R[0] = E[t - t % 32 + (t % 32 ^ 1)]
                                                 sync("block")

    `spmd` makes exchanges only where all threads of a block are. A lane that does not exist has no
    value; the thread's own is read instead. Requires that spmd ran.
    """
    rewriter = _Rewriter(Names(b.name for b in (*func.params, *func.buffers)))
    body = rewriter.host(func.body)
    if body is func.body:
        return func
    return replace_fields(func, body=body, buffers=(*func.buffers, *rewriter.made))


class _Rewriter:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.made: list[Buffer] = []
        self.here: dict[str, Buffer] = {}
        self.thread: Expr = const(0)
        self.count = 0

    def host(self, stmt: Stmt) -> Stmt:
        if not is_kernel(stmt):
            return map_children(stmt, self.host)
        if not any(isinstance(s, Exchange) for s in walk(stmt)):
            return stmt
        loops, body = nest_of(stmt)
        self.here, self.thread, self.count = {}, linear_thread(loops), threads_of(loops)
        body = self.code(body)
        for loop in reversed(loops):
            body = replace(loop, body=body)
        return body

    def code(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Exchange):
            return map_children(stmt, self.code)
        memory = self.memory(stmt.value.dtype)
        first = self.thread - self.thread % WARP
        place = first + stmt.source
        if self.count % WARP:  # lanes of the last warp may be missing
            place = minimum(place, const(self.count - 1))
        return seq(
            Store(memory, (self.thread,), stmt.value),
            Sync("block"),
            Store(stmt.buffer, stmt.indices, Load(memory, (place,))),
            Sync("block"),
        )

    def memory(self, dtype: str) -> Buffer:
        """What the threads of the kernel at hand exchange values of a type in."""
        found = self.here.get(dtype)
        if found is None:
            name = self.names.unique("exchanged")
            found = Buffer(name, (const(self.count),), dtype, "shared")
            self.here[dtype] = found
            self.made.append(found)
        return found
