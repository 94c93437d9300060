"""Axes: the variables of a te.compute, each a leaf of its own."""

from __future__ import annotations

from typing import Any, NoReturn

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, ExprLike, Var, convert, int_value
from tensorir.te.tensor import check_extent, check_name


class Axis(Var):
    """A loop of a compute, or a reduction. Unlike other variables two of one name differ."""

    __slots__ = ("extent", "is_reduce")
    is_axis = True
    extent: Expr
    is_reduce: bool

    def __new__(cls, name: str, extent: Expr, is_reduce: bool) -> Axis:
        axis = object.__new__(cls)
        put = object.__setattr__
        put(axis, "dtype", dt.INDEX)
        put(axis, "name", name)
        put(axis, "variables", frozenset((axis,)))
        put(axis, "extent", extent)
        put(axis, "is_reduce", is_reduce)
        return axis

    def __reduce__(self) -> NoReturn:
        raise TensorIRError(f"axis {self.name!r} cannot be pickled; pickle the PrimFunc instead")

    def rebuild(self, parts: tuple[Expr, ...]) -> Expr:
        return self

    def describe(self) -> str:
        return self.name


def reduce_axis(extent: ExprLike | tuple[ExprLike, ExprLike], name: str = "k") -> Axis:
    """An axis to reduce over: an extent, or the pair (0, extent)."""
    check_name(name, "reduce axis")
    size: Any = extent
    if isinstance(extent, (tuple, list)):
        size = _extent_of_range(tuple(extent), name)
    return Axis(name, check_extent(size, f"reduce axis {name!r}"), True)


def _extent_of_range(bounds: tuple[Any, ...], name: str) -> Any:
    if len(bounds) != 2 or int_value(convert(bounds[0])) != 0:
        raise TensorIRError(
            f"reduce axis {name!r} has the range {bounds!r}; give an extent or (0, extent) "
            "and add the offset where the axis is used"
        )
    return bounds[1]


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
