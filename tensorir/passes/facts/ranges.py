"""What is known about the variables of a whole function."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tensorir.analysis.independence import ANALYZERS, analyzer_of
from tensorir.arith import Analyzer
from tensorir.expr import Expr, Var, int_value, maximum
from tensorir.func import PrimFunc
from tensorir.scalars import SizeRanges
from tensorir.stmt import For
from tensorir.visit import walk


class Scope:
    """The analyzer of a place in a program: it knows the sizes, and the loops around.

    A loop of symbolic extent says inside of it that it has an iteration, and says nothing outside.
    Where all extents are constant one analyzer knows all loops and serves everywhere.
    """

    def __init__(self, func: PrimFunc) -> None:
        loops = [s for s in walk(func.body) if isinstance(s, For)]
        self.constant = all(loop.const_extent is not None for loop in loops)
        known = {loop.var: loop.extent for loop in loops} if self.constant else {}
        self.sizes = func.size_ranges
        self.top = analyzer_of(self.sizes, known)

    def within(self, loops: Mapping[Var, Expr]) -> Analyzer:
        """The analyzer inside of `loops`, of copies as many iterations as these have; not to be
        changed."""
        return analyzer_of(self.sizes, loops)

    def inside(self, outer: Analyzer, loops: Mapping[Var, Expr]) -> Analyzer:
        """The analyzer inside of `loops`, variables with their extents, from that outside."""
        if self.constant:
            return outer
        inner = outer.copy()
        inner.bind_all(loops)
        return inner


def function_analyzer(func: PrimFunc) -> Analyzer:
    """An analyzer that knows all loops and sizes of `func`, valid everywhere in it.

    Of loops that were copied with other lengths it knows the longest. Of a loop of symbolic extent
    it does not know that there is an iteration: outside of the loop there need not be one. Every
    answer is a copy, as those of `analyzer_of`: most passes leave the loops as they are.
    """
    extents: dict[Var, Expr | None] = {}
    for loop in walk(func.body):
        if isinstance(loop, For):
            extents[loop.var] = _longer(extents.get(loop.var, loop.extent), loop.extent)
    return _everywhere(func.size_ranges, tuple(extents.items())).copy()


@lru_cache(maxsize=ANALYZERS)
def _everywhere(sizes: SizeRanges, extents: tuple[tuple[Var, Expr | None], ...]) -> Analyzer:
    """Not to be changed; an extent is None where it is not known which one is the longest."""
    analyzer = Analyzer()
    analyzer.bind_sizes(sizes)
    for var, extent in extents:
        if extent is None:
            analyzer.bind_range(var, 0, None)
        elif int_value(extent) is None:
            analyzer.bind_range(var, 0, maximum(extent, 1) - 1)
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
