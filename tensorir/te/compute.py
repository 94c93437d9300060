"""te.compute: the definition of one tensor, or of several of one shape, element by element."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import Cast, Expr, Load, Rounded, cast, convert
from tensorir.te.axis import Axis, MovedAxes
from tensorir.te.check import check_body
from tensorir.te.reduce import Reduce
from tensorir.te.tensor import ComputeOp, Shape, Tensor, check_name, make_shape
from tensorir.visit import children
from tensorir.written import too_large


def compute(
    shape: Shape,
    fcompute: Callable[..., Any],
    name: str = "C",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """A tensor of `shape` whose element at `i, j, ...` is `fcompute(i, j, ...)`.

    The names of the arguments of `fcompute` become the names of the loops; `lambda *i:` works for
    any rank. A tuple of expressions defines as many tensors, `<name>_0`, `<name>_1`, ..., computed
    together, and returns them as a tuple. The type of a tensor is that of its expression; a
    reduction of float16 or bfloat16, or one that is converted, is a tensor `<name>_f32` of its own
    before it. `tag` and `attrs` are kept in the operation for those who schedule it, and mean
    nothing here. Raises TensorIRError where the definition makes no sense and VerifyError where it
    can read outside of a tensor.
    """
    check_name(name, "tensor")
    _check_tags(name, tag, attrs)
    extents = make_shape(shape, f"tensor {name!r}")
    axes = _axes(fcompute, extents, name)
    result = fcompute(*axes)
    several = isinstance(result, (tuple, list))
    parts = tuple(map(convert, result if several else (result,)))
    if not parts:
        raise TensorIRError(f"fcompute of tensor {name!r} returned no expression")
    held: tuple[Tensor, ...] = ()
    if not any(map(_is_converted_reduction, parts)):
        made = _define(name, axes, extents, parts, several)
    else:
        sums = tuple(e.operands[0] if _is_converted_reduction(e) else e for e in parts)
        held = _define(f"{name}_{dt.SHORT[sums[0].dtype]}", axes, extents, sums, several)
        own = tuple(Axis(axis.name, axis.extent, False) for axis in axes)
        made = _define(
            name, own, extents, tuple(cast(e.dtype, t[own]) for e, t in zip(parts, held)), several
        )
    op = made[0].op
    assert isinstance(op, ComputeOp)
    if held:
        op.reduce_axis = MovedAxes(op.outputs[0].name, held[0].name)
    op.tag, op.attrs = tag, dict(attrs or {})
    return made if several else made[0]


def _define(
    name: str,
    axes: tuple[Axis, ...],
    extents: tuple[Expr, ...],
    parts: tuple[Expr, ...],
    several: bool,
) -> tuple[Tensor, ...]:
    """The outputs of the operation that computes `parts` at `axes`."""
    parts = tuple(Cast(e.dtype, e.a) if isinstance(e, Rounded) else e for e in parts)
    problem = too_large(parts)
    if problem is not None:
        raise TensorIRError(f"tensor {name!r}: {problem}")
    reduce_axes, early = check_body(name, axes, parts)
    names = [f"{name}_{n}" for n in range(len(parts))] if several else [name]
    ranges = tuple(e for axis in reduce_axes for e in axis.range_exprs)
    op = ComputeOp(name, axes, reduce_axes, parts, _inputs((*parts, *ranges)), early=early)
    op.outputs = tuple(
        Tensor(label, extents, e.dtype, op, n) for n, (label, e) in enumerate(zip(names, parts))
    )
    return op.outputs


def _is_converted_reduction(e: Any) -> bool:
    """Whether the result of a reduction is converted, as that of float16 is: a stage of its own."""
    return isinstance(e, (Rounded, Cast)) and isinstance(e.a, Reduce)


def _check_tags(name: str, tag: Any, attrs: Any) -> None:
    if not isinstance(tag, str):
        raise TensorIRError(f"tag of tensor {name!r} is {tag!r}; give a string")
    if attrs is not None and not (
        isinstance(attrs, Mapping) and all(isinstance(key, str) for key in attrs)
    ):
        raise TensorIRError(f"attrs of tensor {name!r} is {attrs!r}; give a dict by names")


def _axes(fcompute: Callable[..., Any], extents: tuple[Expr, ...], name: str) -> tuple[Axis, ...]:
    names, star = list[str](), False
    if not callable(fcompute):
        raise TensorIRError(f"fcompute of tensor {name!r} is {fcompute!r}, no function of indices")
    for parameter in inspect.signature(fcompute).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            star = True
        elif parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            names.append(parameter.name)
    count, rank = len(names), len(extents)
    if count > rank or (count < rank and not star):
        takes = f"its fcompute takes {count} arguments"
        raise TensorIRError(f"tensor {name!r} has {rank} dimensions, and {takes}")
    names += [f"i{d}" for d in range(len(names), len(extents))]
    labels = [f"i{d}" if label == "_" else label for d, label in enumerate(names)]
    return tuple(Axis(label, extent, False) for label, extent in zip(labels, extents))


def _inputs(parts: tuple[Expr, ...]) -> tuple[Tensor, ...]:
    """The tensors that the expressions read, in order of first appearance."""
    found: dict[Tensor, None] = {}
    seen: set[Expr] = set()
    stack = list(reversed(parts))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Load):
            found[node.buffer] = None  # type: ignore[index]
        stack.extend(reversed(children(node)))
    return tuple(found)


def components(op: ComputeOp) -> list[Reduce]:
    """The distinct reductions of `op`, each by its first component, in order of appearance."""
    found: dict[Any, Reduce] = {}
    for part in op.body:
        if isinstance(part, Reduce):
            found.setdefault((part.reducer, part.args, part.cond, part.init), part)
    return list(found.values())
