"""bind_free: kernels that no schedule bound to threads are given to threads all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var, binary, const, int_value
from tensorir.func import PrimFunc
from tensorir.parts import replace_buffers
from tensorir.passes.facts.accesses import accesses
from tensorir.passes.gpu.axes import has_threads
from tensorir.passes.gpu.free_loops import FreeLoops, Nest
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.stmt import For, ForKind, If, Let, Seq, Stmt, replace, seq
from tensorir.targets.thread_axes import ONE_THREAD as ONE_THREAD
from tensorir.tensorize.tensor_intrin import TENSORIZE
from tensorir.visit import map_children, substitute_stmt, walk

THREADS = 256
"""Threads of a block, where there is work for so many: the middle of what is usual."""


def bind_free(func: PrimFunc) -> PrimFunc:
    """Run independent iterations of kernels without thread loops in threads.

    rewrite:
        for i, j in grid(7, 100):   ->  for block in thread("blockIdx.x", 3):
            B[i, j] = A[i, j]               for thread in thread("threadIdx.x", 256):
                                                if block * 256 + thread < 700:
                                                    B[(block * 256 + thread) // 100,
                                                      (block * 256 + thread) % 100] = ...

    Threads side by side take iterations that are side by side in memory. Where the outermost loops
    pass values on, one block of threads walks through them together and shares the nests inside. A
    kernel of which nothing is proved independent is left to one thread, whose loop says so by an
    annotation. Parallel loops that are left are serial. Requires that lower_blocks ran.
    """
    kernels = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    free = [kernel for kernel in kernels if not has_threads(kernel)]
    if not free:
        return with_body(func, _serial(func.body))
    func, moved = _without_scopes(func, free)
    kernels = tuple([replace_buffers(kernel, moved) for kernel in kernels])
    func = with_body(func, seq(*kernels))
    binder = _Binder(FreeLoops(func, set(moved.values())), fresh_names(func.body))
    body = seq(*[_serial(binder.kernel(kernel)) for kernel in kernels])
    own = {b: b.with_scope("local") for b in binder.own}
    buffers = tuple([own.get(b, b) for b in func.buffers])
    return replace_fields(func, body=replace_buffers(body, own), buffers=buffers)


def _serial(stmt: Stmt) -> Stmt:
    result = map_children(stmt, _serial)
    if isinstance(result, For) and result.kind is ForKind.PARALLEL:
        return replace(result, kind=ForKind.SERIAL)
    return result


def _without_scopes(
    func: PrimFunc, kernels: Iterable[Stmt]
) -> tuple[PrimFunc, dict[Buffer, Buffer]]:
    """Where there are no threads a scope says nothing: whose memory it is, is found out here."""
    used = set().union(*[accesses(kernel) for kernel in kernels])
    scoped = [b for b in func.buffers if b in used and b.scope != "global"]
    moved = {b: b.with_scope("global") for b in scoped}
    buffers = tuple([moved.get(b, b) for b in func.buffers])
    return replace_fields(func, buffers=buffers), moved


@dataclass
class _Binder:
    loops: FreeLoops
    fresh: Callable[[str], str]
    own: dict[Buffer, None] = field(default_factory=dict)
    """Buffers of which each thread gets one for itself."""
    nests: dict[Stmt, Nest] = field(default_factory=dict)
    """What the threads of one block share in the kernel at hand."""

    def kernel(self, kernel: Stmt) -> Stmt:
        if has_threads(kernel):
            return kernel
        nest = self.loops.nest(kernel, ())
        if nest is not None:
            return self.grid(nest)
        self.find(kernel, ())
        if not self.nests:
            busy = any([isinstance(s, For) and s.const_extent != 1 for s in walk(kernel)])
            return self.threads(1, lambda _: kernel, {ONE_THREAD: 1} if busy else None)
        counts = [int_value(nest.count) for nest in self.nests.values()]
        largest = THREADS if None in counts else max([c for c in counts if c is not None])
        return self.block(kernel, min(THREADS, -(-largest // 32) * 32))

    def grid(self, nest: Nest) -> Stmt:
        """Iterations of the nest, shared by as many blocks of threads as they need."""
        self.own |= dict.fromkeys(nest.own)
        size = int_value(nest.count)
        threads = THREADS if size is None else max(1, min(THREADS, size))
        blocks = _quotient(nest.count, threads)
        block = Var(self.fresh("block"), dt.INDEX)
        inner = self.threads(threads, lambda t: _iteration(nest, block * threads + t, threads))
        return For(block, blocks, inner, ForKind.THREAD, thread="blockIdx.x")

    def threads(
        self,
        count: int,
        body: Callable[[Var], Stmt],
        annotations: Mapping[str, int] | None = None,
    ) -> Stmt:
        thread = Var(self.fresh("thread"), dt.INDEX)
        notes = annotations or {}
        return For(thread, const(count), body(thread), ForKind.THREAD, notes, thread="threadIdx.x")

    # one block of threads

    def find(self, stmt: Stmt, outside: tuple[For, ...]) -> None:
        """Collect the nests that threads of a block can share while they walk through `stmt`."""
        nest = self.loops.nest(stmt, outside)
        if nest is not None:
            self.nests[stmt] = nest
        elif _uniform(stmt):
            around = (*outside, stmt) if isinstance(stmt, For) else outside
            map_children(stmt, lambda child: self._found(child, around))

    def _found(self, stmt: Stmt, outside: tuple[For, ...]) -> Stmt:
        self.find(stmt, outside)
        return stmt

    def block(self, stmt: Stmt, threads: int) -> Stmt:
        """`stmt` by one block: its nests shared, and what is between them by the first thread."""
        nest = self.nests.pop(stmt, None)
        if nest is not None:
            self.own |= dict.fromkeys(nest.own)
            return self.threads(threads, lambda t: self.rounds(nest, t, threads))
        if _uniform(stmt):
            return map_children(stmt, lambda child: self.block(child, threads))
        return self.threads(threads, lambda t: If(binary("==", t, const(0)), stmt))

    def rounds(self, nest: Nest, thread: Var, threads: int) -> Stmt:
        part = Var(self.fresh("part"), dt.INDEX)
        body = _iteration(nest, part * threads + thread, threads)
        return For(part, _quotient(nest.count, threads), body)


def _uniform(stmt: Stmt) -> bool:
    """Whether all threads of a block walk through `stmt` alike, whatever they do to memory."""
    if isinstance(stmt, For):
        whole = stmt.kind is ForKind.VECTORIZED or TENSORIZE in stmt.annotations
        return not whole and not stmt.extent.has_loads
    if isinstance(stmt, If):
        return stmt.cond.dtype == "bool" and not stmt.cond.has_loads
    return isinstance(stmt, Seq) or (isinstance(stmt, Let) and not stmt.value.has_loads)


def _iteration(nest: Nest, number: Expr, step: int) -> Stmt:
    """What iteration `number` of the free loops does; nothing beyond the last one."""
    loops = _neighbours_last(nest.free, nest.inside)
    values: dict[Var, Expr] = {}
    rest = number
    for loop in reversed(loops[1:]):
        values[loop.var] = rest % loop.extent
        rest = rest // loop.extent
    values[loops[0].var] = rest
    body = substitute_stmt(nest.inside, values)
    size = int_value(nest.count)
    return body if size is not None and size % step == 0 else If(number < nest.count, body)


def _neighbours_last(loops: Sequence[For], body: Stmt) -> list[For]:
    """The loops, with that one last which most accesses follow from element to element."""
    votes: Counter[Var] = Counter()
    analyzer = Analyzer()
    for uses in accesses(body).values():
        for use in uses:
            if use.indices:
                terms = analyzer.linear(use.indices[-1]).terms
                for loop in loops:
                    if terms.get(loop.var) in (1, -1):
                        votes[loop.var] += 2 if use.is_write else 1
    last = max(reversed(loops), key=lambda loop: votes[loop.var])
    return [*[loop for loop in loops if loop is not last], last]


def _quotient(count: Expr, size: int) -> Expr:
    """How many parts of `size` there are, the last one perhaps smaller."""
    return (count + (size - 1)) // size
