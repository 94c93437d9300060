"""By how much an integer expression grows with a variable."""

from __future__ import annotations

from tensorir.arith.analyzer import Analyzer
from tensorir.expr import Expr, Var, int_value
from tensorir.visit import substitute


def slope(e: Expr, var: Var, analyzer: Analyzer) -> int | None:
    """How much `e` grows where `var` grows by one, if that is one number everywhere."""
    return int_value(analyzer.simplify(substitute(e, {var: var + 1}) - e))
