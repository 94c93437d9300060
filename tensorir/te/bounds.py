"""Proof that a te.compute reads inside of its tensors, under the conditions around each read."""

from __future__ import annotations

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.errors import VerifyError
from tensorir.expr import BinOp, Expr, Load, Select, Var, all_of, any_of, binary, int_value
from tensorir.te.axis import Axis
from tensorir.te.reduce import Reduce
from tensorir.visit import children, negate, substitute, variables


def check_indices(name: str, axes: tuple[Axis, ...], parts: tuple[Expr, ...]) -> None:
    """Raise VerifyError, naming the read, where tensor `name` could read outside of a tensor."""
    if any(int_value(axis.extent) == 0 for axis in axes):
        return
    plain = _plain_variables(axes)
    analyzer = Analyzer({plain[axis]: axis.extent for axis in axes})
    sizes = {v for axis in axes for v in variables(axis.extent)}
    for size in sorted(sizes, key=lambda v: v.name):
        analyzer.bind_range(size, 0, None)
    _Walk(name, plain).visit_all(parts, analyzer)


def _plain_variables(axes: tuple[Axis, ...]) -> dict[Axis, Var]:
    """Variables for the axes, named apart: an Analyzer knows variables by name."""
    plain: dict[Axis, Var] = {}
    taken = {v.name for axis in axes for v in variables(axis.extent)}
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

    def __init__(self, name: str, plain: dict[Axis, Var]) -> None:
        self.name = name
        self.plain: dict[Var, Expr] = {axis: v for axis, v in plain.items()}
        self.seen: set[tuple[Expr, int]] = set()
        self.analyzers: list[Analyzer] = []

    def visit_all(self, parts: tuple[Expr, ...], analyzer: Analyzer) -> None:
        self.analyzers.append(analyzer)  # kept alive: `seen` knows them by id
        for part in parts:
            self.visit(part, analyzer)

    def under(self, e: Expr, cond: Expr, analyzer: Analyzer) -> None:
        known = analyzer.assuming(substitute(cond, self.plain), memory=True)
        self.visit_all((e,), known)

    def visit(self, e: Expr, analyzer: Analyzer) -> None:
        if (e, id(analyzer)) in self.seen:
            return
        self.seen.add((e, id(analyzer)))
        if isinstance(e, Select):
            self.visit(e.cond, analyzer)
            self.under(e.a, e.cond, analyzer)
            self.under(e.b, negation(e.cond), analyzer)
        elif isinstance(e, Reduce):
            self.visit(e.cond, analyzer)
            known = analyzer.assuming(substitute(e.cond, self.plain), memory=True)
            self.visit_all(e.args, known)
        else:
            for child in children(e):
                self.visit(child, analyzer)
        if isinstance(e, Load):
            self.check(e, analyzer)

    def check(self, load: Load, analyzer: Analyzer) -> None:
        for d, (index, size) in enumerate(zip(load.indices, load.buffer.shape)):
            value = substitute(index, self.plain)
            if analyzer.prove(binary("<=", 0, value)) and analyzer.prove(binary("<", value, size)):
                continue
            low, high = analyzer.bounds(value)
            name = load.buffer.name
            raise VerifyError(
                f"tensor {self.name!r} can read outside of {name!r}: index {d} of "
                f"{name}[{', '.join(repr(substitute(i, self.plain)) for i in load.indices)}] "
                f"{_range(low, high)}, and that dimension has size {size!r}; "
                "guard the read with te.if_then_else, or limit the index with te.clip"
            )


def _range(low: int | None, high: int | None) -> str:
    if low is None and high is None:
        return "has no known range"
    shown = ("-inf" if low is None else str(low), "inf" if high is None else str(high))
    return f"ranges over [{shown[0]}, {shown[1]}]"
