"""Axes: the variables of a te.compute, each a leaf of its own."""

from __future__ import annotations

from typing import Any, NoReturn

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, ExprLike, Var, cast, const, convert
from tensorir.rewrite.rectangular import largest_value
from tensorir.scalars import refuse_values
from tensorir.te.tensor import check_extent, check_name
from tensorir.visit import substitute, variables

ZERO = const(0)


class Axis(Var):
    """A loop of a compute, or a reduction. Unlike other variables two of one name differ.

    It takes the values from `start` on, `extent` many of them; of a reduction only the first
    `limit` ones count, where that is not None. `start` and `limit` may depend on other axes of the
    compute and read tensors; `extent` does neither.
    """

    __slots__ = ("extent", "is_reduce", "limit", "start")
    is_axis = True
    extent: Expr
    is_reduce: bool
    limit: Expr | None
    start: Expr

    def __new__(
        cls,
        name: str,
        extent: Expr,
        is_reduce: bool,
        start: Expr = ZERO,
        limit: Expr | None = None,
    ) -> Axis:
        axis = object.__new__(cls)
        put = object.__setattr__
        put(axis, "dtype", dt.INDEX)
        put(axis, "name", name)
        put(axis, "variables", frozenset((axis,)))
        put(axis, "extent", extent)
        put(axis, "is_reduce", is_reduce)
        put(axis, "start", start)
        put(axis, "limit", limit)
        return axis

    @property
    def range_exprs(self) -> tuple[Expr, ...]:
        """What tells which values it takes, apart from the extent."""
        return (self.start,) if self.limit is None else (self.start, self.limit)

    def __copy__(self) -> Axis:
        return self

    def __deepcopy__(self, memo: object) -> Axis:
        return self  # as others that are told apart by what they are, not by their values

    def __reduce__(self) -> NoReturn:
        raise TensorIRError(f"axis {self.name!r} cannot be pickled; pickle the PrimFunc instead")

    def rebuild(self, parts: tuple[Expr, ...]) -> Expr:
        return self

    def describe(self) -> str:
        return self.name


def reduce_axis(extent: ExprLike | tuple[ExprLike, ExprLike], name: str = "k") -> Axis:
    """An axis to reduce over: the integers from 0 up to `extent`, or from the first up to the
    second of a pair.

    Both may depend on the other axes of the compute, and read tensors, as in

        te.compute((n,), lambda i: te.sum(A[i, k := te.reduce_axis(i + 1)], axis=k))

    An axis without values is a reduction of nothing. Raises TensorIRError where the number of
    values has no known bound, as of what is read from memory; te.min(extent, bound) gives it one.
    """
    check_name(name, "reduce axis")
    what = f"reduce axis {name!r}"
    start: Expr = ZERO
    size: Any = extent
    if isinstance(extent, (tuple, list)):
        if len(extent) != 2:
            raise TensorIRError(
                f"{what} has the range {extent!r}; give an extent or the pair (first, end)"
            )
        start = _index(extent[0], what)
        size = extent[1] if start is ZERO else _index(extent[1], what) - start
    if not _depends(size):
        return Axis(name, check_extent(size, what), True, start)
    limit = _index(size, what)
    largest = _largest(limit)
    if largest is None:
        raise TensorIRError(
            f"{what} has the extent {limit!r}, of which no largest value is known; limit it with "
            "te.min(extent, bound)"
        )
    return Axis(name, largest, True, start, limit)


def _index(value: Any, what: str) -> Expr:
    found = convert(value)
    if not dt.is_int(found.dtype):
        raise TensorIRError(f"{what} has the bound {value!r} of type {found.dtype}; use an integer")
    refuse_values(found, what)
    return cast(dt.INDEX, found)


def _depends(e: Any) -> bool:
    e = convert(e)
    return e.has_loads or any(isinstance(v, Axis) for v in variables(e))


def _largest(limit: Expr) -> Expr | None:
    """The largest value of an extent, whatever the axes in it."""
    ranges: dict[Var, Expr] = {}
    analyzer = Analyzer()
    e = limit
    while found := [v for v in variables(e) if isinstance(v, Axis)]:
        steps: dict[Var, Expr] = {}
        for axis in found:
            step = Var(f"{axis.name}_{len(ranges)}")
            ranges[step] = axis.extent
            steps[axis] = axis.start + step
        e = substitute(e, steps)
    for extent in (e, *ranges.values()):
        for size in variables(extent) - ranges.keys():
            analyzer.bind_range(size, 0, None)
    for var, extent in ranges.items():
        analyzer.bind(var, extent)
    return largest_value(e, ranges, analyzer)


class MovedAxes(tuple[Axis, ...]):
    """The reduce axes of a stage that has none since another stage sums: asked for one, it says
    which. `name` is the stage, `held` the other one."""

    def __new__(cls, name: str, held: str) -> MovedAxes:
        made = super().__new__(cls)
        made.text = (
            f"stage {name!r} rounds what stage {held!r} sums in float32, and has no reduce axis: "
            f"schedule s[{name}.op.input_tensors[0]], the stage {held!r}"
        )
        return made

    text: str

    def __getitem__(self, index: Any) -> NoReturn:
        raise TensorIRError(self.text)
