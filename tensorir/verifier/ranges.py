"""Every access inside its buffer, and every block variable inside its extent.

What was proved of a block in the same loops, or of its body in any, is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tensorir import dtype as dt
from tensorir.analysis.independence import analyzer_of
from tensorir.annotations import checked
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.errors import VerifyError
from tensorir.expr import (
    TRUE,
    BinOp,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
    all_of,
    conjuncts,
    const,
    int_value,
)
from tensorir.func import PrimFunc
from tensorir.parts import touched
from tensorir.scalars import SizeRanges
from tensorir.stmt import Alloc, Block, Extern, For, If, Let, Seq, Stmt, Store
from tensorir.verifier.bounds import (
    always_inside,
    bounds_of,
    inside,
    of_variables,
    outside,
    range_text,
    said_by,
    said_inside,
    shape_text,
)
from tensorir.visit import children, loads, stmt_exprs, substitute, variables, walk

ONE = const(1)
Ranges = tuple[tuple[Var, Expr], ...]
"""Variables from the outermost inwards, with their extents."""

PROOFS = 4096
"""Proofs about blocks that are kept: most primitives leave most blocks alone, and all bodies."""

ANALYZERS = 256
"""Nests whose analyzers are kept; they are larger than the proofs."""


@checked
def check_ranges(func: PrimFunc, everywhere: bool = False) -> None:
    """Raise VerifyError where an access or the binding of a block variable can be out of range.

    Outside of blocks, where lowered programs are, only what is certainly out of range is an error,
    unless proofs are wanted `everywhere`.
    """
    _nests(func.body, (), func.size_ranges, everywhere)


def _nests(s: Stmt, loops: Ranges, sizes: SizeRanges, everywhere: bool) -> None:
    """`s` inside loops alone, block by block."""
    if isinstance(s, Seq):
        for part in s.stmts:
            _nests(part, loops, sizes, everywhere)
    elif isinstance(s, For) and not s.extent.has_loads:
        if int_value(s.extent) != 0:  # or what is inside never runs
            _nests(s.body, (*loops, (s.var, s.extent)), sizes, everywhere)
    elif isinstance(s, Block):
        problem = _problem_of(s, loops, sizes)
        if problem is not None:
            raise VerifyError(problem)
    else:
        _stmt(s, _Scope(_around(loops, sizes), sizes, everywhere=everywhere))


@lru_cache(maxsize=PROOFS)
def _problem_of(s: Block, loops: Ranges, sizes: SizeRanges) -> str | None:
    """What can be out of range in a block inside `loops`; None if nothing can."""
    try:
        _block(s, _Scope(_around(loops, sizes), sizes))
    except VerifyError as error:
        return str(error)
    return None


@lru_cache(maxsize=PROOFS)
def _is_sound(
    init: Stmt | None, body: Stmt, ranges: Ranges, limits: Expr, sizes: SizeRanges
) -> bool:
    """Whether a block is in range whatever the loops around it, which binds variables of `ranges`.

    Those of a block around it come first. `limits` is what its predicate says of them alone.
    """
    analyzer = _around(ranges, sizes).assuming(limits)
    scope = _Scope(analyzer, sizes, "", ranges)
    try:
        if init is not None:
            _stmt(init, scope)
        _stmt(body, scope)
    except VerifyError:
        return False
    return True


@lru_cache(maxsize=ANALYZERS)
def _around(ranges: Ranges, sizes: SizeRanges) -> Analyzer:
    """What is known in `ranges`, with `sizes`; not to be changed."""
    if all([isinstance(extent, Const) for _, extent in ranges]):
        return analyzer_of(sizes, dict(ranges))
    return _with_var(_around(ranges[:-1], sizes), *ranges[-1])


@dataclass
class _Scope:
    """What is known at a statement: ranges and conditions, and the block that it belongs to."""

    analyzer: Analyzer
    sizes: SizeRanges
    block: str | None = None
    ranges: Ranges = ()
    """Those of the block, after those of a block around it."""
    bindings: Mapping[Var, Expr] = field(default_factory=dict)
    guarded: bool = False
    seen: set[Expr] = field(default_factory=set)
    loops: Analyzer | None = None
    """What is known around the block, of its loops and an outer block, its predicate included."""
    conds: tuple[Expr, ...] = ()
    """The conditions assumed since the block began."""
    everywhere: bool = False
    """Whether what is outside of blocks has to be proved too."""

    def assuming(self, cond: Expr, *, memory: bool = False) -> _Scope:
        """With a condition more. What was in range without it still is."""
        known = self.analyzer.assuming(cond, memory=memory)
        conds = (*self.conds, cond)
        return replace(self, analyzer=known, guarded=True, seen=set(self.seen), conds=conds)

    def views(self, index: Expr) -> Iterator[tuple[Expr, Analyzer]]:
        """`index` with what is known of the block's variables, then of the loops around.

        The predicate can exclude values that the extents of the block's variables allow.
        """
        yield index, self.analyzer
        if self.loops is None or index.dtype != dt.INDEX:
            return
        loops, value = self.loops, substitute(index, self.bindings)
        for cond in self.conds:
            loops = loops.assuming(substitute(cond, self.bindings))
        yield value, loops

    def is_never(self) -> bool:
        """Whether the conditions since the block began exclude each other, so that nothing that is
        under them is ever read or written."""
        return _around(self.ranges, self.sizes).decide(all_of(*self.conds)) is False

    def own_limits(self, block: Block) -> Expr:
        """What the predicate says of loops that are variables of the block."""
        if isinstance(block.predicate, Const):
            return TRUE
        plain = {it.binding: it.var for it in block.iters if isinstance(it.binding, Var)}
        said = {*plain.values(), *dict(self.sizes)}
        parts = [p for p in conjuncts(block.predicate) if variables(p) <= {*plain, *said}]
        parts = [substitute(p, plain) for p in parts]
        return all_of(*[p for p in parts if variables(p) <= said])

    def knowing(self, analyzer: Analyzer) -> _Scope:
        return replace(self, analyzer=analyzer, seen=set())

    def reading_for(self, block: Block, cond: Expr) -> _Scope:
        """The scope of what is read to find out where `block` runs, if `cond` holds."""
        known = self if isinstance(cond, Const) else self.assuming(cond)
        return replace(known, block=block.name, seen=set())

    def inside(self, block: Block, own: Ranges, limits: Expr) -> _Scope:
        """The scope of the body of `block`, which speaks of the variables of blocks only.

        This one is around the block and knows its predicate.
        """
        analyzer = _around(own, self.sizes).assuming(limits)
        bindings = {it.var: it.binding for it in block.iters}
        return _Scope(analyzer, self.sizes, block.name, own, bindings, loops=self.analyzer)


def _with_var(analyzer: Analyzer, var: Var, extent: Expr) -> Analyzer:
    """With `var` in [0, extent). What is inside the loop runs only where the extent is positive."""
    known = analyzer.copy()
    known.bind(var, extent)
    return known if isinstance(extent, Const) else known.assuming(BinOp("<=", ONE, extent))


def _with_let(analyzer: Analyzer, s: Let) -> Analyzer:
    if s.var.dtype != dt.INDEX:
        return analyzer
    known = analyzer.copy()
    known.bind_range(s.var, *analyzer.bounds(s.value))
    return known.assuming(BinOp("==", s.var, s.value))


def _stmt(s: Stmt, scope: _Scope) -> None:
    if isinstance(s, Seq):
        for part in s.stmts:
            _stmt(part, scope)
    elif isinstance(s, For):
        _expr(s.extent, scope)
        if int_value(s.extent) == 0:
            return  # what is inside never runs
        _stmt(s.body, scope.knowing(_with_var(scope.analyzer, s.var, s.extent)))
    elif isinstance(s, Block):
        _block(s, scope)
    elif isinstance(s, (Store, Extern)):
        _leaf(s, scope)
    elif isinstance(s, Let):
        _expr(s.value, scope)
        _stmt(s.body, scope.knowing(_with_let(scope.analyzer, s)))
    elif isinstance(s, If):
        _expr(s.cond, scope)
        _stmt(s.then, scope.assuming(s.cond))
        if s.orelse is not None:
            _stmt(s.orelse, scope.assuming(Not(s.cond)))
    elif isinstance(s, Alloc):
        _stmt(s.body, scope)


def _leaf(s: Store | Extern, scope: _Scope) -> None:
    if isinstance(s, Store):
        _access("writes", s.buffer, s.indices, scope)
    else:
        for part in s.parts:  # a part has all of the dimensions after the first `lead`
            verb = "writes" if part in s.outputs else "reads"
            _access(verb, part.buffer, part.indices[: part.lead], scope)
    for e in stmt_exprs(s):
        _expr(e, scope)


def _block(s: Block, scope: _Scope) -> None:
    if s.predicate.has_loads:
        plain = [part for part in conjuncts(s.predicate) if not part.has_loads]
        _expr(s.predicate, scope.reading_for(s, all_of(*plain)))
    if int_value(s.predicate) == 0:
        return  # no instance runs
    said = said_by(s.predicate, scope.analyzer)
    for it in s.iters:
        if it.binding.has_loads:
            _expr(it.binding, scope.reading_for(s, s.predicate))
        if said_inside(it.extent, it.binding, scope.analyzer, said.values()):
            continue
        if inside(it.extent, it.binding, _under(of_variables(said), scope).analyzer):
            continue
        view = it.binding, _where_it_runs(s, scope).analyzer
        if not inside(it.extent, *view) and not always_inside(it.extent, *view):
            bounds, name = bounds_of(*view), it.var.name
            raise VerifyError(
                f"block {s.name!r} binds {name!r} to {it.binding!r}, which "
                f"{range_text(bounds, it.extent)}, but {name!r} runs over [0, {it.extent!r}); "
                "a predicate on the block can exclude the rest"
            )
    own = (*scope.ranges, *((it.var, it.extent) for it in s.iters))
    limits = scope.own_limits(s)
    if _is_sound(s.init, s.body, own, limits, scope.sizes):
        return
    body = _where_it_runs(s, scope).inside(s, own, limits)
    if s.init is not None:
        _stmt(s.init, body)
    _stmt(s.body, body)


def _under(predicate: Expr, scope: _Scope) -> _Scope:
    """The scope where the predicate of a block holds; analyzers remember what they assumed."""
    return scope if isinstance(predicate, Const) else scope.assuming(predicate)


def _where_it_runs(s: Block, scope: _Scope) -> _Scope:
    """The scope of the bindings and the body of a block: what its predicate says of memory that it
    leaves alone still holds."""
    if not s.predicate.has_loads:
        return _under(s.predicate, scope)
    asked = {load.buffer for load in loads(s.predicate)}
    kept = asked.isdisjoint(b for stmt in walk(s) for b, _, is_write in touched(stmt) if is_write)
    return scope.assuming(s.predicate, memory=kept)


def _expr(e: Expr, scope: _Scope) -> None:
    """Check the loads in `e`; each side of a Select under its condition."""
    if not e.has_loads or e in scope.seen:
        return
    scope.seen.add(e)
    if isinstance(e, Load):
        _access("reads", e.buffer, e.indices, scope)
    if isinstance(e, Select):
        _expr(e.cond, scope)
        for side, cond in ((e.a, e.cond), (e.b, Not(e.cond))):
            if side.has_loads and side not in scope.seen:
                _expr(side, scope.assuming(cond, memory=True))
        return
    for child in children(e):
        _expr(child, scope)


def _access(verb: str, buffer: Buffer, indices: tuple[Expr, ...], scope: _Scope) -> None:
    lenient = scope.block is None and not scope.everywhere
    if lenient and scope.guarded:
        return
    for n, (index, size) in enumerate(zip(indices, buffer.shape)):
        if lenient:
            wrong = outside(size, bounds_of(index, scope.analyzer))
        else:
            checks = (inside, always_inside)
            wrong = not any(check(size, *v) for check in checks for v in scope.views(index))
        if wrong and not scope.is_never():
            where = "the function" if scope.block is None else f"block {scope.block!r}"
            reach = range_text(bounds_of(index, scope.analyzer), size)
            raise VerifyError(
                f"{where} {verb} {Load(buffer, indices)!r} where index {n} {reach}, "
                f"but {buffer.name} has shape {shape_text(buffer)}"
            )
