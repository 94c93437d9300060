"""Reductions: te.sum, te.prod, te.max, te.min, te.any, te.all, te.argmax, te.argmin, comm_reducer.

`max` and `min` of floats give NaN if any part is NaN, as np.max; `argmax` and `argmin` give the
index of the first NaN if there is one, else of the first of equal extremes, as np.argmax.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Union

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import (
    TRUE,
    Compound,
    Expr,
    ExprLike,
    Var,
    all_of,
    any_of,
    binary,
    cast,
    const,
    convert,
    int_value,
)
from tensorir.interning import intern
from tensorir.te.axis import Axis
from tensorir.te.promotion import promote, stored, wide
from tensorir.te.reducer import (
    ALL,
    ANY,
    ARGMAX,
    ARGMIN,
    MAX,
    MIN,
    PROD,
    SUM,
    Parts,
    Reducer,
)

Axes = Union[Axis, Sequence[Axis]]


class Reduce(Compound):
    """Component `index` of reducing `args` over `axes` where `cond`; the top of a compute.

    It starts from `init`, a value for each of `args`, or from the identity of the reducer where
    that is empty.
    """

    __slots__ = ("args", "axes", "cond", "index", "init", "reducer")
    fields = ("reducer", "args", "axes", "cond", "index", "init")
    reducer: Reducer
    args: Parts
    axes: tuple[Axis, ...]
    cond: Expr
    index: int
    init: Parts

    def __new__(
        cls,
        reducer: Reducer,
        args: Parts,
        axes: tuple[Axis, ...],
        cond: Expr,
        index: int = 0,
        init: Parts = (),
    ) -> Reduce:
        key = (reducer, args, axes, cond, index, init)
        operands = (*args, *init, cond)
        return intern(cls, (cls, *key), args[index].dtype, key, operands)  # type: ignore[no-any-return]

    def rebuild(self, parts: tuple[Expr, ...]) -> Expr:
        count = len(self.args)
        args, init = parts[:count], parts[count:-1]
        return Reduce(self.reducer, args, self.axes, parts[-1], self.index, init)

    def component(self, n: int) -> Reduce:
        """Another component of the same reduction."""
        return Reduce(self.reducer, self.args, self.axes, self.cond, n, self.init)

    def describe(self) -> str:
        args = ", ".join(map(repr, self.args))
        axes = ", ".join(axis.name for axis in self.axes)
        start = f", init={', '.join(map(repr, self.init))}" if self.init else ""
        return f"{self.reducer.name}({args}, axis=[{axes}]{start})"


def make_axes(axis: Axes, name: str) -> tuple[Axis, ...]:
    """`axis` as a tuple of distinct reduce axes; raises TensorIRError for anything else."""
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    for a in axes:
        if not isinstance(a, Axis) or not a.is_reduce:
            raise TensorIRError(f"{name} reduces over {a!r}, which is not made by te.reduce_axis")
    if not axes:
        raise TensorIRError(f"{name} has no axis to reduce over")
    if len(set(map(id, axes))) != len(axes):
        raise TensorIRError(f"{name} reduces twice over one axis")
    return axes


def reduce(
    reducer: Reducer,
    args: Sequence[ExprLike],
    axis: Axes,
    where: ExprLike | None = None,
    init: ExprLike | None = None,
) -> tuple[Expr, ...]:
    """The components of reducing the tuple `args`; `where` leaves out some of the parts.

    float16 and bfloat16 are accumulated in float32 and rounded in the end. A single value may
    start from `init`.
    """
    axes = make_axes(axis, reducer.name)
    given = tuple(convert(a) for a in args)
    sources = tuple(wide(a) for a in given)
    cond = TRUE if where is None else convert(where)
    if not dt.is_bool(cond.dtype):
        raise TensorIRError(f"where= of {reducer.name} is {cond.dtype}, not bool")
    for axis_ in axes:
        if reducer.needs_element and init is None and int_value(axis_.extent) == 0:
            raise TensorIRError(
                f"empty {reducer.name}: axis {axis_.name!r} has extent 0, and {reducer.name} "
                "of no elements has no value; give one by init="
            )
    _check_types(reducer, sources)
    start = () if init is None else _start(reducer, init, sources, axes)
    return tuple(
        stored(g.dtype, Reduce(reducer, sources, axes, cond, n, start))
        for n, g in enumerate(given)
    )


def _start(reducer: Reducer, init: ExprLike, sources: Parts, axes: tuple[Axis, ...]) -> Parts:
    """What a reduction starts from in place of the identity."""
    (source,) = sources
    value = convert(init, source.dtype)
    if promote(value.dtype, source.dtype) != source.dtype:
        raise TensorIRError(
            f"init= of {reducer.name} is {value.dtype}, and {source.dtype} is reduced; convert "
            "one with .astype(...)"
        )
    for a in axes:
        if a in value.variables:
            raise TensorIRError(
                f"init= of {reducer.name} uses the axis {a.name!r}, over which it reduces; it is "
                "one value for all of it"
            )
    return (cast(source.dtype, value),)


def _check_types(reducer: Reducer, sources: Parts) -> None:
    dtypes = tuple(s.dtype for s in sources)
    merged = reducer.combine(_dummies("x", dtypes), _dummies("y", dtypes))
    for what, values in (("identity", reducer.identity(dtypes)), ("combiner", merged)):
        got = tuple(e.dtype for e in values)
        if len(got) != len(dtypes):
            raise TensorIRError(
                f"the {what} of {reducer.name} gives {len(got)} values for {len(dtypes)} operands"
            )
        if got != dtypes:
            raise TensorIRError(
                f"the {what} of {reducer.name} gives {', '.join(got)}, and the operands are "
                f"{', '.join(dtypes)}"
            )


def _dummies(name: str, dtypes: tuple[str, ...]) -> Parts:
    return tuple(Var(f"{name}{n}", dtype) for n, dtype in enumerate(dtypes))


def sum(
    expr: ExprLike, axis: Axes, where: ExprLike | None = None, init: ExprLike | None = None
) -> Expr:
    """The sum over `axis`, of the type of `expr`, of bools int64; 0 or `init` over no elements.

    float16 and bfloat16 are added in float32 and rounded in the end. The terms are added to `init`.
    """
    return reduce(SUM, [_number(expr)], axis, where, init)[0]


def prod(
    expr: ExprLike, axis: Axes, where: ExprLike | None = None, init: ExprLike | None = None
) -> Expr:
    """The product over `axis`, of types as for `sum`; 1 or `init` over no elements."""
    return reduce(PROD, [_number(expr)], axis, where, init)[0]


def _number(expr: ExprLike) -> Expr:
    """An expression to add or multiply: of bools the numbers 0 and 1, as in NumPy."""
    value = convert(expr)
    return cast(dt.INDEX, value) if dt.is_bool(value.dtype) else value


def _fold(
    reducer: Reducer,
    op: str,
    args: tuple[Any, ...],
    axis: Axes | None,
    where: Any,
    init: ExprLike | None,
) -> Expr:
    if axis is None and len(args) == 2 and _is_axes(args[1]):
        axis, args = args[1], args[:1]
    if axis is not None:
        if len(args) != 1:
            raise TensorIRError(
                f"{reducer.name} with axis= reduces one expression, not {len(args)}"
            )
        source = convert(args[0])
        if dt.is_bool(source.dtype):
            reducer = ANY if op == "max" else ALL
        return reduce(reducer, [source], axis, where, init)[0]
    for what, value in (("where", where), ("init", init)):
        if value is not None:
            raise TensorIRError(f"{what}= of {reducer.name} needs axis=")
    if len(args) < 2:
        raise TensorIRError(f"{reducer.name} needs axis= to reduce, or two operands to compare")
    result = args[0]
    for other in args[1:]:
        result = binary(op, result, other)
    return result  # type: ignore[no-any-return]


def _is_axes(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return bool(value)
    return isinstance(value, Axis) and value.is_reduce


def max(
    *args: Any,
    axis: Axes | None = None,
    where: ExprLike | None = None,
    init: ExprLike | None = None,
) -> Expr:
    """`max(x, axis=k)` reduces; `max(x, y, ...)` is elementwise. NaN wins, as in np.maximum.

    `init` takes part like one more element.
    """
    return _fold(MAX, "max", args, axis, where, init)


def min(
    *args: Any,
    axis: Axes | None = None,
    where: ExprLike | None = None,
    init: ExprLike | None = None,
) -> Expr:
    """`min(x, axis=k)` reduces; `min(x, y, ...)` is elementwise. NaN wins, as in np.minimum.

    `init` takes part like one more element.
    """
    return _fold(MIN, "min", args, axis, where, init)


def any(*args: Any, axis: Axes | None = None, where: ExprLike | None = None) -> Expr:
    """`any(x, axis=k)` reduces, False over nothing; `any(x, y, ...)` is the disjunction."""
    return any_of(*args) if axis is None else reduce(ANY, args, axis, where)[0]


def all(*args: Any, axis: Axes | None = None, where: ExprLike | None = None) -> Expr:
    """`all(x, axis=k)` reduces, True over nothing; `all(x, y, ...)` is the conjunction."""
    return all_of(*args) if axis is None else reduce(ALL, args, axis, where)[0]


def argmax(expr: ExprLike, axis: Axes, where: ExprLike | None = None) -> Expr:
    """The int64 index of the first maximum, or of the first NaN, as np.argmax.

    Over several axes it is the row-major index in their order. Where `where` leaves out every
    element the index is the largest int64.
    """
    return _arg_reduce(ARGMAX, expr, axis, where)


def argmin(expr: ExprLike, axis: Axes, where: ExprLike | None = None) -> Expr:
    """The int64 index of the first minimum, or of the first NaN, as np.argmin; see argmax."""
    return _arg_reduce(ARGMIN, expr, axis, where)


def _arg_reduce(reducer: Reducer, expr: ExprLike, axis: Axes, where: ExprLike | None) -> Expr:
    value = wide(convert(expr))
    position: Expr = const(0)
    axes = make_axes(axis, reducer.name)
    for a in axes:
        if len(axes) > 1 and int_value(a.start) != 0:
            raise TensorIRError(
                f"{reducer.name} over several axes numbers their values from 0 on, and axis "
                f"{a.name!r} begins at {a.start!r}; add that where the axis is used"
            )
        position = position * a.extent + a
    return reduce(reducer, [position, value], axis, where)[0]


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """A reduction of your own: call the result as `f(expr, axis=..., where=...)`.

    `fcombine(x, y)` merges two partial results and `fidentity(dtype)` starts one. For a reduction
    of n values at once, call `f((e0, e1), axis=...)`; then `fcombine((x0, x1), (y0, y1))` returns a
    tuple and so does `fidentity(dtype0, dtype1)`, and f returns a tuple for te.compute.
    `fcombine` must be associative and commutative.
    """
    _check_arity(fcombine, name)

    def combine(old: Parts, new: Parts) -> Parts:
        if len(old) == 1:
            return (convert(fcombine(old[0], new[0]), old[0].dtype),)
        return _typed(fcombine(old, new), tuple(e.dtype for e in old), name)

    def identity(dtypes: tuple[str, ...]) -> Parts:
        given = fidentity(*dtypes)
        return _typed(given if len(dtypes) > 1 else (given,), dtypes, name)

    reducer = Reducer(name, combine, identity)

    def call(exprs: Any, axis: Axes, where: ExprLike | None = None) -> Any:
        if isinstance(exprs, (tuple, list)):
            return reduce(reducer, exprs, axis, where)
        return reduce(reducer, [exprs], axis, where)[0]

    call.__name__ = name
    call.reducer = reducer  # type: ignore[attr-defined]  # for those that recognise it
    return call


def _typed(values: Any, dtypes: tuple[str, ...], name: str) -> Parts:
    if not isinstance(values, (tuple, list)):
        raise TensorIRError(f"{name} reduces {len(dtypes)} values and got {values!r}; use a tuple")
    padded = dtypes + dtypes[-1:] * len(values)
    return tuple(convert(v, d) for v, d in zip(values, padded))


def _check_arity(fcombine: Callable[..., Any], name: str) -> None:
    try:
        inspect.signature(fcombine).bind(None, None)
    except TypeError:
        raise TensorIRError(
            f"fcombine of {name!r} must take two arguments, the results to merge"
        ) from None
