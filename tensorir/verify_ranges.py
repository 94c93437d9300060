"""Every access inside its buffer, and every block variable inside its extent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tensorir import dtype as dt
from tensorir.arith import Analyzer, holds_everywhere
from tensorir.buffer import Buffer
from tensorir.errors import VerifyError
from tensorir.expr import (
    BinOp,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Select,
    Var,
    all_of,
    conjuncts,
    const,
    int_value,
)
from tensorir.func import PrimFunc
from tensorir.stmt import Alloc, Block, Extern, For, If, IterVar, Let, Seq, Stmt, Store
from tensorir.visit import children, loads, stmt_exprs, substitute, variables

ZERO = const(0)
ONE = const(1)
Bounds = tuple["int | None", "int | None"]


def check_ranges(func: PrimFunc) -> None:
    """Raise VerifyError where an access or the binding of a block variable can be out of range."""
    _stmt(func.body, _Scope(_sizes(func), func))


@dataclass
class _Scope:
    """What is known at a statement: ranges and conditions, and the block that it belongs to."""

    analyzer: Analyzer
    func: PrimFunc
    block: Block | None = None
    iters: tuple[IterVar, ...] = ()
    guarded: bool = False
    seen: set[Expr] = field(default_factory=set)
    loops: Analyzer | None = None
    """What is known around the block, of its loops and an outer block, its predicate included."""
    conds: tuple[Expr, ...] = ()
    """The conditions assumed since the block began."""

    def assuming(self, cond: Expr, *, memory: bool = False) -> _Scope:
        known = self.analyzer.assuming(cond, memory=memory)
        conds = (*self.conds, cond)
        return replace(self, analyzer=known, guarded=True, seen=set(), conds=conds)

    def views(self, index: Expr) -> Iterator[tuple[Expr, Analyzer]]:
        """`index` with what is known of the block's variables, then of the loops around.

        The predicate can exclude values that the extents of the block's variables allow.
        """
        yield index, self.analyzer
        if self.loops is None or self.block is None or index.dtype != dt.INDEX:
            return
        bindings = {it.var: it.binding for it in self.block.iters}
        loops, value = self.loops, substitute(index, bindings)
        for cond in self.conds:
            loops = loops.assuming(substitute(cond, bindings))
        yield value, loops

    def own_limits(self, block: Block, analyzer: Analyzer) -> Analyzer:
        """With what the predicate says of loops that are variables of the block."""
        if isinstance(block.predicate, Const):
            return analyzer
        plain = {it.binding: it.var for it in block.iters if isinstance(it.binding, Var)}
        said = {*plain.values(), *self.func.size_vars}
        parts = [p for p in conjuncts(block.predicate) if variables(p) <= {*plain, *said}]
        parts = [substitute(p, plain) for p in parts]
        return analyzer.assuming(all_of(*[p for p in parts if variables(p) <= said]))

    def knowing(self, analyzer: Analyzer) -> _Scope:
        return replace(self, analyzer=analyzer, seen=set())

    def inside(self, block: Block) -> _Scope:
        """The scope of the body of `block`, which speaks of the variables of blocks only.

        This one is around the block and knows its predicate.
        """
        iters = (*self.iters, *block.iters)
        analyzer = _sizes(self.func)
        for it in iters:
            analyzer = _with_var(analyzer, it.var, it.extent)
        analyzer = self.own_limits(block, analyzer)
        return _Scope(analyzer, self.func, block, iters, loops=self.analyzer)


def _sizes(func: PrimFunc) -> Analyzer:
    analyzer = Analyzer()
    for size in func.size_vars:
        analyzer.bind_range(size, ZERO, None)
    return analyzer


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
    _expr(s.predicate, scope)
    if int_value(s.predicate) == 0:
        return  # no instance runs
    known = scope if isinstance(s.predicate, Const) else scope.assuming(s.predicate)
    for it in s.iters:
        _expr(it.binding, known)
        view = it.binding, known.analyzer
        if not _inside(it.extent, *view) and not _always_inside(it.extent, *view):
            bounds, name = _bounds(*view), it.var.name
            raise VerifyError(
                f"block {s.name!r} binds {name!r} to {it.binding!r}, which "
                f"{_range_text(bounds, it.extent)}, but {name!r} runs over [0, {it.extent!r}); "
                "a predicate on the block can exclude the rest"
            )
    body = known.inside(s)
    if s.init is not None:
        _stmt(s.init, body)
    _stmt(s.body, body)


def _expr(e: Expr, scope: _Scope) -> None:
    """Check the loads in `e`; each side of a Select under its condition."""
    if e in scope.seen:
        return
    scope.seen.add(e)
    if isinstance(e, Load):
        _access("reads", e.buffer, e.indices, scope)
    if isinstance(e, Select):
        _expr(e.cond, scope)
        for side, cond in ((e.a, e.cond), (e.b, Not(e.cond))):
            if next(loads(side), None) is not None:
                _expr(side, scope.assuming(cond, memory=True))
        return
    for child in children(e):
        _expr(child, scope)


def _access(verb: str, buffer: Buffer, indices: tuple[Expr, ...], scope: _Scope) -> None:
    if scope.block is None and scope.guarded:
        return
    for n, (index, size) in enumerate(zip(indices, buffer.shape)):
        bounds = _bounds(index, scope.analyzer)
        if scope.block is None:
            wrong = _outside(size, bounds)
        else:
            checks = (_inside, _always_inside)
            wrong = not any(check(size, *v) for check in checks for v in scope.views(index))
        if wrong:
            where = "the function" if scope.block is None else f"block {scope.block.name!r}"
            raise VerifyError(
                f"{where} {verb} {Load(buffer, indices)!r} where index {n} "
                f"{_range_text(bounds, size)}, but {buffer.name} has shape {_shape_text(buffer)}"
            )


def _bounds(index: Expr, analyzer: Analyzer) -> Bounds:
    if isinstance(index, Ramp):
        low, high = _bounds(index.base, analyzer)
        stride = int_value(index.stride)
        if low is None or high is None or stride is None:
            return None, None
        span = stride * (index.lanes - 1)
        return low + min(span, 0), high + max(span, 0)
    return analyzer.bounds(index) if index.dtype == dt.INDEX else (None, None)


def _inside(size: Expr, index: Expr, analyzer: Analyzer) -> bool:
    """Whether `index` is proved to stay within [0, size)."""
    low, high = _bounds(index, analyzer)
    extent = int_value(size)
    above = low is not None and low >= 0 or analyzer.prove(BinOp("<=", ZERO, index))
    if not above:
        return False
    if high is not None and extent is not None and high < extent:
        return True
    return analyzer.prove(BinOp("<", index, size))


def _always_inside(size: Expr, index: Expr, analyzer: Analyzer) -> bool:
    """The same by trying all values, which takes longer."""
    if index.dtype != dt.INDEX:
        return False
    return holds_everywhere(analyzer, all_of(BinOp("<=", ZERO, index), BinOp("<", index, size)))


def _outside(size: Expr, bounds: Bounds) -> bool:
    """Whether every value is out of range."""
    low, high = bounds
    extent = int_value(size)
    if high is not None and high < 0:
        return True
    return low is not None and extent is not None and low >= extent


def _range_text(bounds: Bounds, size: Expr) -> str:
    low, high = bounds
    extent = int_value(size)
    if low is not None and low < 0:
        return f"can be {low}"
    if high is not None and extent is not None and high >= extent:
        return f"can be {high}"
    return f"is not known to stay within [0, {size!r})"


def _shape_text(buffer: Buffer) -> str:
    sizes = ", ".join(map(repr, buffer.shape))
    return f"({sizes},)" if buffer.ndim == 1 else f"({sizes})"
