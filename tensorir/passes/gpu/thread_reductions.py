"""thread_reductions: threads that share a reduction have a part of it each, combined once.

The parts are in registers; a loop over the threads combines them (combine.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from tensorir import dtype as dt
from tensorir.analysis.combiner import Combiner, combiner_of
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, Load, Var, all_of, binary, const
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.passes.gpu.axes import BLOCK_AXES, is_thread_loop
from tensorir.passes.rewriting import fresh_names, replace_stmts
from tensorir.rewrite.reduction import loops_to, reduction_loop, split_init
from tensorir.stmt import Block, For, If, IterKind, IterVar, Let, Stmt, Store, replace, seq
from tensorir.visit import (
    child_stmts,
    map_children,
    map_exprs,
    map_loads,
    substitute,
    variables,
    walk,
)

COMBINE = "combine"
"""Annotation of the loops over threads that combine their parts: how many such loops there are from
this one inwards."""

ALL_THREADS = "all_threads"
"""Annotation of a loop that all threads of a block run, also where what is around is for some."""

COPIES = "copies"
"""Annotation of a loop over threads each of which writes a copy of the same elements."""


def thread_reductions(func: PrimFunc) -> PrimFunc:
    """Give each thread a part of the reduction in registers, and let them combine it at the end.

    rewrite:
        for k in range(8):                      for t in thread("threadIdx.x", 32):
            for t in thread("threadIdx.x", 32):     C_part[t] = 0.0
                with block("C"):                for k in range(8):
                    vk = reduce(256, k * 32 + t)    for t in thread("threadIdx.x", 32):
                    with init():                        with block("C"):
                        C[0] = 0.0          ->              C_part[t] = C_part[t] + A[vk]
                    C[0] = C[0] + A[vk]         for t in thread("threadIdx.x", 32, combine):
                                                    C_all[0] = select(t == 0, C_part[t],
                                                                      C_all[0] + C_part[t])
                                                C[0] = C_all[0]

    The loops over threads and the serial ones may stand in any order, with other statements in
    them. Threads whose element is another one, by a loop over other threads, have parts of their
    own, and so has each element of serial loops inside of the reduction. `spmd` makes exchanges
    between threads of the loop that combines. Tuples, as of argmax, are combined together. Requires
    that blocks have their inits.
    """
    taken = [b.name for b in (*func.params, *func.buffers)]
    taken += [v.name for v in func.free_vars]
    rewriter = _Rewriter(fresh_names(func.body, taken), Names(taken), [])
    body = func.body
    while True:
        found = _first_shared(body, [])
        if found is None:
            break
        anchor, block = found
        body = replace_stmts(body, {anchor: rewriter.combined(anchor, block)})
    if body is func.body:
        return func
    return replace_fields(func, body=body, buffers=(*func.buffers, *rewriter.buffers))


def _first_shared(stmt: Stmt, loops: list[For]) -> tuple[For, Block] | None:
    """A reduction that threads share, and the outermost loop that feeds it."""
    if isinstance(stmt, Block):
        anchor = reduction_loop(loops, stmt) if stmt.init is not None else None
        if anchor is None:
            return None
        fed = _fed(stmt, IterKind.REDUCE)
        shared = [f for f in loops if f.var in fed and is_thread_loop(f)]
        across = [f for f in loops if f.var in fed and f.thread in BLOCK_AXES]
        if across:
            raise TensorIRError(
                f"loop {across[0].name!r}, bound to {across[0].thread}, is a reduction of block "
                f"{stmt.name!r}, and blocks of threads do not wait for each other"
            )
        return (anchor, stmt) if shared else None
    inside = [*loops, stmt] if isinstance(stmt, For) else loops
    for child in child_stmts(stmt):
        found = _first_shared(child, inside)
        if found is not None:
            return found
    return None


def _fed(block: Block, kind: IterKind) -> set[Var]:
    """The loop variables that bindings of this kind speak of."""
    return {v for it in block.iters if it.kind is kind for v in variables(it.binding)}


@dataclass
class _Rewriter:
    fresh: Callable[[str], str]
    names: Names
    buffers: list[Buffer]

    def combined(self, anchor: For, block: Block) -> Stmt:
        """`anchor`, with parts for the threads, and what stands before and after it."""
        found = combiner_of(block)
        if found is None or not found.restarts:
            starts = "" if found is None else f" starts from {found.start!r} and"
            raise TensorIRError(
                f"block {block.name!r}{starts} cannot be reduced by several threads in parts; "
                "rfactor it, and the parts are reduced by one"
            )
        path = loops_to(anchor, block)
        assert path is not None
        reduced, spatial = _fed(block, IterKind.REDUCE), _fed(block, IterKind.SPATIAL)
        for loop in path:
            if loop.var in reduced & spatial:
                raise TensorIRError(
                    f"loop {loop.name!r} is a reduction of block {block.name!r}, which threads "
                    "share, and chooses its element too; split it"
                )
        shared = [f for f in path if f.var in reduced and is_thread_loop(f)]
        chosen = [f for f in path if f.var not in reduced and (f.var in spatial or f.thread)]
        made = _Parts(self, block, found, shared, chosen)
        return seq(
            made.start(),
            replace_stmts(anchor, {block: made.update()}),
            made.combine(),
            made.result(anchor),
        )

    def buffer(self, like: Buffer, suffix: str, loops: list[For]) -> Buffer:
        shape = []
        for loop in loops:
            if loop.const_extent is None:
                raise TensorIRError(
                    f"the extent {loop.extent!r} of loop {loop.name!r} is not a number, and each "
                    f"thread has parts of {like.name!r} in registers for all of its iterations"
                )
            shape.append(loop.extent)
        name = self.names.unique(f"{like.name}_{suffix}")
        made = Buffer(name, tuple(shape) or (const(1),), like.dtype, "local")
        self.buffers.append(made)
        return made


class _Parts:
    """What the threads of `shared` have of the reduction `block`, for each iteration of `chosen`.

    `parts` are in the registers of each thread; `all` is what all of them have together.
    """

    def __init__(
        self,
        owner: _Rewriter,
        block: Block,
        found: Combiner,
        shared: list[For],
        chosen: list[For],
    ) -> None:
        self.owner, self.block, self.found = owner, block, found
        self.shared, self.chosen = shared, chosen
        self.parts: dict[Buffer, Buffer] = {}
        self.all: dict[Buffer, Buffer] = {}
        for store in found.stores:
            self.parts[store.buffer] = owner.buffer(store.buffer, "part", [*chosen, *shared])
            self.all[store.buffer] = owner.buffer(store.buffer, "all", chosen)

    def nest(self, loops: list[For], suffix: str) -> list[For]:
        """Copies of `loops` with variables of their own."""
        renamed: dict[Var, Expr] = {}
        copies: list[For] = []
        for loop in loops:
            var = Var(self.owner.fresh(f"{loop.name}_{suffix}"), loop.var.dtype)
            extent = substitute(loop.extent, renamed)
            copies.append(replace(loop, var=var, extent=extent, annotations={}))
            renamed[loop.var] = var
        return copies

    def start(self) -> Stmt:
        """Every thread has what the reduction starts from, whether it has a term or not."""
        loops = self.nest([*self.chosen, *self.shared], "start")
        stores = [
            Store(self.parts[store.buffer], _places(loops), value)
            for store, value in zip(self.found.stores, self.found.start)
        ]
        return _around([replace(f, annotations={ALL_THREADS: 1}) for f in loops], seq(*stores))

    def iters(self, loops: list[For]) -> tuple[IterVar, ...]:
        """Variables of the block for these loops around it."""
        inner = (s for s in walk(self.block.body) if isinstance(s, (For, Let)))
        names = Names([*(it.var.name for it in self.block.iters), *(s.var.name for s in inner)])
        return tuple(
            [
                IterVar(
                    Var(names.unique(f"v{f.name}"), dt.INDEX), f.extent, IterKind.SPATIAL, f.var
                )
                for f in loops
            ]
        )

    def update(self) -> Block:
        """The block, which reduces into the parts."""
        own = self.iters([*self.chosen, *self.shared])
        at = tuple([it.var for it in own]) or (const(0),)
        memo: dict[Expr, Expr] = {}

        def load(e: Load) -> Expr | None:
            return Load(self.parts[e.buffer], at) if e.buffer in self.parts else None

        def stores(stmt: Stmt) -> Stmt:
            stmt = map_children(stmt, stores)
            if isinstance(stmt, Store) and stmt.buffer in self.parts:
                return Store(self.parts[stmt.buffer], at, stmt.value)
            return stmt

        body = map_exprs(stores(self.block.body), lambda e: map_loads(e, load, memo))
        return replace(self.block, iters=(*self.block.iters, *own), init=None, body=body)

    def combine(self) -> Stmt:
        """Every thread has what all of them have, in the order of their indices."""
        outer, inner = self.nest(self.chosen, "all"), self.nest(self.shared, "all")
        inner = [replace(f, annotations={COMBINE: len(inner) - n}) for n, f in enumerate(inner)]
        at, mine = _places(outer), _places([*outer, *inner])
        keys = [store.buffer for store in self.found.stores]
        own = tuple([Load(self.parts[b], mine) for b in keys])
        before = tuple([Var(f"{self.all[b].name}_before", b.dtype) for b in keys])
        merged = self.found.merge(before, own)
        then = seq(*[Store(self.all[b], at, part) for b, part in zip(keys, own)])
        later = seq(*[Store(self.all[b], at, value) for b, value in zip(keys, merged)])
        for var, b in reversed(list(zip(before, keys))):
            later = Let(var, Load(self.all[b], at), later)
        first = all_of(*[binary("==", f.var, 0) for f in inner])
        return _around([*outer, *inner], If(first, then, later))

    def result(self, anchor: For) -> Stmt:
        """The element gets what all have, where it got what the reduction starts from."""
        own = self.iters(self.chosen)
        at = tuple([it.var for it in own]) or (const(0),)
        init = seq(
            *[Store(s.buffer, s.indices, Load(self.all[s.buffer], at)) for s in self.found.stores]
        )
        block = replace(self.block, iters=(*self.block.iters, *own), init=init)
        result, _ = split_init(replace_stmts(anchor, {self.block: block}), block, self.owner.fresh)  # type: ignore[arg-type]
        if any(store.buffer.scope == "local" for store in self.found.stores):
            each = self.nest(self.shared, "each")
            return _around([replace(f, annotations={COPIES: 1}) for f in each], result)
        return result


def _places(loops: list[For]) -> tuple[Expr, ...]:
    return tuple([loop.var for loop in loops]) or (const(0),)


def _around(loops: list[For], body: Stmt) -> Stmt:
    for loop in reversed(loops):
        body = replace(loop, body=body)
    return body
