"""barriers: threads wait only where one of them touches what another one has touched.

That is tried element by element (touches.py). Where only lanes of one warp meet, it becomes
`sync("warp")`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var, conjuncts
from tensorir.func import PrimFunc
from tensorir.parts import buffers_in, touched
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.gpu.axes import is_kernel, nest_of
from tensorir.passes.gpu.touches import ANY, Ages, Meetings, Touch
from tensorir.passes.rewriting import with_body
from tensorir.stmt import For, If, Seq, Stmt, Sync, seq
from tensorir.visit import child_stmts, loads, map_children, stmt_exprs, walk


def barriers(func: PrimFunc) -> PrimFunc:
    """Drop each Sync that no two accesses need; lanes that meet nobody else wait for their warp.

    rewrite:
        for k in range(8):                       for k in range(8):
            for n in range(4):                       for n in range(4):
                S[n * 32 + t] = A[k, n * 32 + t]         S[n * 32 + t] = A[k, n * 32 + t]
                sync("block")                ->      sync("block")
            sync("block")                            C[k, t] = S[127 - t]
            C[k, t] = S[127 - t]                     sync("block")
            sync("block")

    Two accesses need one between them if different threads may touch one element, one of them
    writing: the last one before the second access is kept, of those in the fewest loops, unless
    those kept after it are enough. A loop is walked through until nothing changes, since an
    iteration follows another one. Requires that flatten_buffers ran.
    """
    if not any(isinstance(s, Sync) for s in walk(func.body)):
        return func
    return with_body(func, _visit(func.body, function_analyzer(func)))


def _visit(stmt: Stmt, analyzer: Analyzer) -> Stmt:
    if is_kernel(stmt):
        return _Kernel(stmt, analyzer).result()
    return map_children(stmt, lambda child: _visit(child, analyzer))


class _Pending(NamedTuple):
    """An access, the Sync that was passed since which is to be kept if one is needed, and how many
    iterations ago it was made of each of the loops that it is in; `lanes` have waited for each
    other since."""

    touch: Touch
    sync: Sync | None = None
    ages: Ages = ()
    lanes: bool = False


State = tuple[_Pending, ...]


class _Kernel:
    def __init__(self, root: Stmt, analyzer: Analyzer) -> None:
        self.nest, body = nest_of(root)
        self.body = _own_syncs(body)
        self.meetings = Meetings(self.nest, analyzer)
        written = {b for s in walk(body) for b, _, is_write in touched(s) if is_write}
        self.seen = {b for b in written if b.scope != "local"}
        self.depth: dict[Sync, int] = {}
        self.inside: dict[Stmt, tuple[Sync, ...]] = {}  # statements in which there are some
        self.silent: set[Stmt] = set()  # statements after which all is as before them
        self.count_loops(self.body, 0)
        self.kept: dict[Sync, str] = {}
        self.touches: dict[Stmt, list[Touch]] = {}
        self.after: dict[tuple[Stmt, State, tuple[str | None, ...]], State] = {}

    def count_loops(self, stmt: Stmt, depth: int) -> tuple[Sync, ...]:
        """In how many loops each Sync is; those in a statement."""
        if isinstance(stmt, Sync):
            self.depth[stmt] = depth
            return (stmt,)
        within = depth + (isinstance(stmt, For) and stmt.const_extent != 1)
        found = tuple([s for c in child_stmts(stmt) for s in self.count_loops(c, within)])
        if found:
            self.inside[stmt] = found
        elif buffers_in(stmt).isdisjoint(self.seen):
            self.silent.add(stmt)
        return found

    def result(self) -> Stmt:
        while self.needs_more():
            pass
        self.drop_needless()
        body = self.pruned(self.body)
        for loop in reversed(self.nest):
            body = For(loop.var, loop.extent, body, loop.kind, loop.annotations, loop.thread)
        return body

    def drop_needless(self) -> None:
        """Keep none that those kept later make needless; those that run most often go first."""
        for sync in sorted(self.kept, key=lambda s: -self.depth[s]) if len(self.kept) > 1 else ():
            found = dict(self.kept)
            del self.kept[sync]
            if self.needs_more():
                self.kept = found

    def needs_more(self) -> bool:
        """Whether one more Sync has to be kept, which is then. The walk begins again with it, since
        it may be one that others were thought to be needed for."""
        try:
            self.run(self.body, (), {}, ())
        except _Kept:
            return True
        return False

    def pruned(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Sync):
            return Sync(self.kept[stmt]) if stmt in self.kept else Seq(())
        result = map_children(stmt, self.pruned)
        return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result

    def run(
        self, stmt: Stmt, state: State, loops: Mapping[Var, Expr], conditions: tuple[Expr, ...]
    ) -> State:
        """What may still be waited for after `stmt`: the same as before where nothing that is kept
        inside has changed, as each walk begins with what the one before it has been through."""
        if stmt in self.silent:
            return state
        if isinstance(stmt, Sync):
            return self.passed(stmt, state)
        key = stmt, state, tuple([self.kept.get(sync) for sync in self.inside.get(stmt, ())])
        found = self.after.get(key)
        if found is None:
            found = self.after[key] = self.run_inside(stmt, state, loops, conditions)
        return found

    def run_inside(
        self, stmt: Stmt, state: State, loops: Mapping[Var, Expr], conditions: tuple[Expr, ...]
    ) -> State:
        if isinstance(stmt, For):
            return self.loop(stmt, state, loops, conditions)
        for touch in self.touched(stmt, loops, conditions):
            state = self.access(touch, state)
        if isinstance(stmt, If):
            given = (*conditions, *conjuncts(stmt.cond))
            then = self.run(stmt.then, state, loops, given)
            if stmt.orelse is None:
                return _union(then, state)
            other = (*conditions, ~stmt.cond)
            return _union(then, self.run(stmt.orelse, state, loops, other))
        for child in child_stmts(stmt):
            state = self.run(child, state, loops, conditions)
        return state

    def passed(self, sync: Sync, state: State) -> State:
        kind = self.kept.get(sync)
        if kind == "block":
            return ()
        lanes = kind == "warp"
        made = [
            _Pending(p.touch, self.rarer(p.sync, sync), p.ages, p.lanes or lanes) for p in state
        ]
        return tuple(dict.fromkeys(made))

    def rarer(self, before: Sync | None, sync: Sync) -> Sync:
        """The one of two that is in fewer loops; the later one, if both are in as many."""
        return sync if before is None or self.depth[sync] <= self.depth[before] else before

    def loop(
        self, loop: For, state: State, loops: Mapping[Var, Expr], conditions: tuple[Expr, ...]
    ) -> State:
        var = loop.var
        inside = {**loops, var: loop.extent}
        before = state
        if loop.const_extent == 1 or loop not in self.inside:
            state = self.run(loop.body, state, inside, conditions)
            return _aged(state, var, left=True)
        while True:
            once = self.run(loop.body, before, inside, conditions)
            now = _union(before, _union(state, _aged(once, var, left=False)))
            if now == before:
                break
            before = now
        return _union(state if loop.const_extent is None else (), _aged(once, var, left=True))

    def touched(
        self, stmt: Stmt, loops: Mapping[Var, Expr], conditions: tuple[Expr, ...]
    ) -> list[Touch]:
        """What `stmt` itself reads, then what it writes."""
        found = self.touches.get(stmt)
        if found is None:
            made: list[tuple[Buffer, Expr, bool]] = []
            for e in stmt_exprs(stmt):
                made += [(load.buffer, load.indices[0], False) for load in loads(e)]
            made += [(buffer, indices[0], write) for buffer, indices, write in touched(stmt)]
            found = self.touches[stmt] = [
                Touch(buffer, index, write, loops, conditions)
                for buffer, index, write in made
                if buffer in self.seen
            ]
        return found

    def access(self, touch: Touch, state: State) -> State:
        """`touch` as one more that may be waited for; raises where it has to wait itself."""
        for p in state:
            if p.sync is None:
                continue  # the program is as it is: nobody waits in between
            scope = self.meetings.scope(p.touch, p.ages, touch)
            if scope == "block" or (scope == "warp" and not p.lanes):
                self.kept[p.sync] = scope
                raise _Kept
        ages = tuple([(var, 0) for var in touch.loops])
        return tuple(dict.fromkeys([*state, _Pending(touch, None, ages)]))


class _Kept(Exception):
    """One more Sync is kept."""


def _aged(state: State, var: Var, left: bool) -> State:
    """`state` one iteration later, or when the loop is over."""
    made = []
    for p in state:
        ages = tuple([(v, (ANY if left or n else 1) if v is var else n) for v, n in p.ages])
        made.append(p if ages == p.ages else p._replace(ages=ages))
    return tuple(dict.fromkeys(made))


def _union(a: State, b: State) -> State:
    return tuple(dict.fromkeys([*a, *b]))


def _own_syncs(stmt: Stmt) -> Stmt:
    """`stmt` with a Sync of its own in each place."""
    if isinstance(stmt, Sync):
        return Sync(stmt.scope)
    return map_children(stmt, _own_syncs)
