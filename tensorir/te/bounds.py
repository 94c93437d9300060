"""Proof that a te.compute reads inside of its tensors, under the conditions around each read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorir import dtype as dt
from tensorir.arith import Analyzer, holds_everywhere
from tensorir.errors import VerifyError
from tensorir.expr import BinOp, Expr, Load, Select, Var, all_of, any_of, binary, int_value
from tensorir.scalars import divisors
from tensorir.te.axis import Axis
from tensorir.te.reduce import Reduce
from tensorir.te.tensor import ComputeOp, PlaceholderOp
from tensorir.visit import children, loads, negate, substitute, variables

if TYPE_CHECKING:
    from tensorir.te.tensor import Tensor


def check_indices(name: str, axes: tuple[Axis, ...], parts: tuple[Expr, ...]) -> VerifyError | None:
    """Raise VerifyError, naming the read, where tensor `name` could read outside of a tensor.

    A read of a placeholder some rows before the current one, as the update of a te.scan makes it,
    is returned as the error that it is anywhere else.
    """
    if any(int_value(axis.extent) == 0 for axis in axes):
        return None
    return _walk(name, axes, parts, {}, None).early


def check_step(
    name: str,
    axes: tuple[Axis, ...],
    parts: tuple[Expr, ...],
    first: Expr,
    states: tuple[Tensor, ...],
) -> None:
    """Raise VerifyError where a time step of a te.scan reads outside of a tensor, or reads a row
    of a state that is not computed yet. Steps begin at `first`."""
    if any(int_value(axis.extent) == 0 for axis in axes):
        return
    given = binary("<=", first, axes[0])
    _walk(name, axes, parts, {s: axes[0] for s in states}, given)


def check_first(name: str, axes: tuple[Axis, ...], parts: tuple[Expr, ...], rows: Expr) -> None:
    """Raise VerifyError where the first rows of a te.scan, of which there are `rows`, read
    outside of a tensor. Of a scan of symbolic length only the rows within it are computed."""
    if any(int_value(axis.extent) == 0 for axis in axes):
        return
    _walk(name, axes, parts, {}, binary("<", axes[0], rows))


def _walk(
    name: str,
    axes: tuple[Axis, ...],
    parts: tuple[Expr, ...],
    rows: Mapping[Any, Axis],
    given: Expr | None,
) -> _Walk:
    plain = _plain_variables(axes, parts)
    analyzer = Analyzer()
    read = [extent for part in parts for load in loads(part) for extent in load.buffer.shape]
    sizes = {v for extent in (*read, *(axis.extent for axis in axes)) for v in variables(extent)}
    positive = {v for e in (*read, *(axis.extent for axis in axes)) for v in divisors(e)}
    indices = [i for part in parts for load in loads(part) for i in load.indices]
    numbers = {v for i in indices for v in divisors(i)} - sizes  # an array tells others, or none
    plain_sizes = sorted((sizes | numbers) - plain.keys(), key=lambda v: v.name)
    analyzer.bind_sizes((size, int(size in positive | numbers)) for size in plain_sizes)
    for axis in axes:
        analyzer.bind(plain[axis], axis.extent)
    analyzer = analyzer.assuming(all_of(*[binary("<=", 1, axis.extent) for axis in axes]))
    values: dict[Var, Expr] = {}
    time = axes[0] if given is None and axes and not axes[0].is_reduce else None
    walk = _Walk(name, values, {}, time)
    for axis in axes:
        values[axis] = substitute(axis.start, values) + plain[axis]
        if axis is axes[0] and given is not None:
            analyzer = analyzer.assuming(substitute(given, values))
        walk.visit_all(axis.range_exprs, analyzer)
        if axis.limit is not None:
            ends = binary("<", plain[axis], substitute(axis.limit, values))
            analyzer = analyzer.assuming(ends, memory=True)
    walk.rows = {t: values[axis] for t, axis in rows.items()}
    walk.in_scan = time is not None and any(_may_be_step(part, time) for part in parts)
    walk.visit_all(parts, analyzer)
    return walk


def _may_be_step(part: Expr, time: Axis) -> bool:
    """Whether `part` reads rows before the current one of what may be the state of a te.scan, or
    the current row of what does."""
    for load in loads(part):
        op: Any = load.buffer.op  # type: ignore[attr-defined]
        if not load.indices:
            continue
        if isinstance(op, ComputeOp) and op.early is not None and load.indices[0] is time:
            return True
        back = Analyzer().simplify(time - load.indices[0]) if _may_be_state(load) else time
        if (int_value(back) or 0) > 0:
            return True
    return False


def _may_be_state(load: Load) -> bool:
    op: Any = load.buffer.op  # type: ignore[attr-defined]
    return isinstance(op, PlaceholderOp) and (op.is_state or load.buffer.ndim >= 2)


def _plain_variables(axes: tuple[Axis, ...], parts: tuple[Expr, ...]) -> dict[Axis, Var]:
    """Variables for the axes, named apart: an Analyzer knows variables by name."""
    plain: dict[Axis, Var] = {}
    used = {v for e in (*parts, *(axis.extent for axis in axes)) for v in variables(e)}
    taken = {v.name for v in used if not isinstance(v, Axis)}
    for axis in axes:
        label = axis.name
        while label in taken:
            label += "_"
        taken.add(label)
        plain[axis] = Var(label)
    return plain


def negation(cond: Expr) -> Expr:
    """The opposite of a condition, pushed down to comparisons of integers."""
    if isinstance(cond, BinOp) and cond.op == "and":
        return any_of(negation(cond.a), negation(cond.b))
    if isinstance(cond, BinOp) and cond.op == "or":
        return all_of(negation(cond.a), negation(cond.b))
    if isinstance(cond, BinOp) and dt.is_int(cond.a.dtype):
        if cond.op in ("<", "<="):
            return binary("<=" if cond.op == "<" else "<", cond.b, cond.a)
        return binary("!=" if cond.op == "==" else "==", cond.a, cond.b)
    return negate(cond)


class _Walk:
    """Visits every read together with what the conditions around it say."""

    def __init__(
        self,
        name: str,
        values: Mapping[Var, Expr],
        rows: Mapping[Any, Expr],
        time: Axis | None,
    ) -> None:
        self.name = name
        self.rows = rows
        """How many rows of a tensor are there: fewer than its shape says, in a te.scan."""
        self.time = time
        """The axis whose earlier rows may be read with an error that is kept in `early`."""
        self.in_scan = False
        """Whether this may be a step of a te.scan, which begins later than its time axis."""
        self.early: VerifyError | None = None
        self.plain = values
        """The axes in terms of variables that start at 0."""
        self.seen: set[Expr] = set()
        """What is inside where less is known: it still is where more is."""
        self.inside: set[tuple[Expr, Expr]] = set()
        """Indices that are proved to be within sizes: reads of unrolled bodies share most."""

    def visit_all(self, parts: tuple[Expr, ...], analyzer: Analyzer) -> None:
        """Visit what `analyzer` knows all about that is known around it, and may know more."""
        around = self.seen, self.inside
        self.seen, self.inside = set(self.seen), set(self.inside)
        for part in parts:
            self.visit(part, analyzer)
        self.seen, self.inside = around

    def under(self, e: Expr, cond: Expr, analyzer: Analyzer) -> None:
        if not e.has_loads or e in self.seen or self.anyway(e, analyzer):
            return
        known = analyzer.assuming(substitute(cond, self.plain), memory=True)
        self.visit_all((e,), known)

    def anyway(self, e: Expr, analyzer: Analyzer) -> bool:
        """Whether all reads of `e` are inside whatever the conditions in it say: what follows from
        each of these need not be found then."""
        for load in loads(e):
            for index, size in zip(load.indices, load.buffer.shape):
                if (index, size) not in self.inside:
                    value = substitute(index, self.plain)
                    if load.buffer in self.rows or not analyzer.prove(_within(value, size)):
                        return False
                    self.inside.add((index, size))
        self.seen.add(e)
        return True

    def visit(self, e: Expr, analyzer: Analyzer) -> None:
        if not e.has_loads or e in self.seen:
            return
        self.seen.add(e)
        if isinstance(e, Select):
            self.visit(e.cond, analyzer)
            self.under(e.a, e.cond, analyzer)
            self.under(e.b, negation(e.cond), analyzer)
        elif isinstance(e, Reduce):
            self.visit_all((e.cond, *e.init), analyzer)
            known = analyzer.assuming(substitute(e.cond, self.plain), memory=True)
            self.visit_all(e.args, known)
        else:
            for child in children(e):
                self.visit(child, analyzer)
        if isinstance(e, Load):
            self.check(e, analyzer)

    def check(self, load: Load, analyzer: Analyzer) -> None:
        for d, (index, size) in enumerate(zip(load.indices, load.buffer.shape)):
            if d == 0 and load.buffer in self.rows:
                size = self.rows[load.buffer]
            if (index, size) in self.inside:
                continue
            value = substitute(index, self.plain)
            wanted = _within(value, size)
            if analyzer.prove(wanted) or holds_everywhere(analyzer, wanted):
                self.inside.add((index, size))
                continue
            low, high = analyzer.bounds(value)
            name = load.buffer.name
            error = VerifyError(
                f"tensor {self.name!r} can read outside of {name!r}: index {d} of "
                f"{name}[{', '.join(repr(substitute(i, self.plain)) for i in load.indices)}] "
                f"{_range(low, high)}, and that dimension has size {size!r}; "
                "guard the read with te.if_then_else, or limit the index with te.clip"
            )
            if not self.is_early(load, d, value, analyzer):
                raise error
            self.early = self.early or error

    def is_early(self, load: Load, d: int, value: Expr, analyzer: Analyzer) -> bool:
        """Whether what is wrong may be right in a te.scan: a step reads rows before the current
        one, of its state or of anything else, or the first rows are those of a symbolic length."""
        if self.time is None:
            return False
        now, size = self.plain[self.time], load.buffer.shape[d]
        if self.in_scan and now in variables(value) and analyzer.prove(binary("<", value, size)):
            return True
        if d > 0 or not _may_be_state(load):
            return False
        known = analyzer.assuming(binary("<", now, size))
        inside = known.prove(binary("<=", 0, value)) and known.prove(binary("<", value, size))
        return isinstance(size, Var) and inside


def _within(value: Expr, size: Expr) -> Expr:
    return all_of(binary("<=", 0, value), binary("<", value, size))


def _range(low: int | None, high: int | None) -> str:
    if low is None and high is None:
        return "has no known range"
    shown = ("-inf" if low is None else str(low), "inf" if high is None else str(high))
    return f"ranges over [{shown[0]}, {shown[1]}]"
