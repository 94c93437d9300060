"""What is known about the variables of a whole function."""

from __future__ import annotations

from tensorir.arith import Analyzer
from tensorir.expr import Expr, Var, int_value
from tensorir.func import PrimFunc
from tensorir.stmt import For
from tensorir.visit import walk


def function_analyzer(func: PrimFunc) -> Analyzer:
    """An analyzer that knows all loops and sizes of `func`, valid everywhere in it.

    Of loops that were copied with other lengths it knows the longest.
    """
    analyzer = Analyzer()
    for size in func.size_vars:
        analyzer.bind_range(size, 0, None)
    extents: dict[Var, Expr | None] = {}
    for loop in walk(func.body):
        if isinstance(loop, For):
            extents[loop.var] = _longer(extents.get(loop.var, loop.extent), loop.extent)
    for var, extent in extents.items():
        if extent is None:
            analyzer.bind_range(var, 0, None)
        else:
            analyzer.bind(var, extent)
    return analyzer


def _longer(a: Expr | None, b: Expr) -> Expr | None:
    if a is None or a is b:
        return a
    left, right = int_value(a), int_value(b)
    if left is None or right is None:
        return None
    return a if left >= right else b
