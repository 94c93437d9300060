"""What a te.compute must satisfy: checked when it is defined, so errors name the user's words."""

from __future__ import annotations

from tensorir.errors import TensorIRError, VerifyError
from tensorir.expr import Expr
from tensorir.te.axis import Axis
from tensorir.te.bounds import check_indices
from tensorir.te.reduce import Reduce
from tensorir.visit import children, walk_exprs


def check_body(
    name: str, axes: tuple[Axis, ...], parts: tuple[Expr, ...]
) -> tuple[tuple[Axis, ...], VerifyError | None]:
    """Check the expressions of tensor `name` and return the axes it reduces over, and the error
    that it is unless a te.scan uses it; see check_indices."""
    reduce_axes = _check_reductions(name, parts)
    known = {*map(id, axes), *map(id, reduce_axes)}
    for part in parts:
        _check_axes(name, part, known)
    for n, axis in enumerate(reduce_axes):
        _check_range(name, axis, {*map(id, axes), *map(id, reduce_axes[:n])})
    return reduce_axes, check_indices(name, (*axes, *reduce_axes), parts)


def _check_reductions(name: str, parts: tuple[Expr, ...]) -> tuple[Axis, ...]:
    for part in parts:
        inner = children(part) if isinstance(part, Reduce) else (part,)
        for node in (n for e in inner for n in walk_exprs(e)):
            if isinstance(node, Reduce):
                raise TensorIRError(
                    f"the {node.reducer.name} in tensor {name!r} is not at the top of its "
                    "expression; compute it into a tensor of its own and use that"
                )
    reductions = [part for part in parts if isinstance(part, Reduce)]
    if not reductions:
        return ()
    if len(reductions) != len(parts):
        raise TensorIRError(
            f"tensor {name!r} mixes reductions and plain expressions; compute them apart"
        )
    axes = reductions[0].axes
    for other in reductions:
        if len(other.axes) != len(axes) or any(a is not b for a, b in zip(axes, other.axes)):
            raise TensorIRError(
                f"the reductions of tensor {name!r} are over different axes: "
                f"{_names(axes)} and {_names(other.axes)}; compute them apart"
            )
    return axes


def _check_axes(name: str, part: Expr, known: set[int]) -> None:
    for node in walk_exprs(part):
        if not isinstance(node, Axis) or id(node) in known:
            continue
        if node.is_reduce:
            raise TensorIRError(
                f"tensor {name!r} uses the reduce axis {node.name!r} and does not reduce over it"
            )
        raise TensorIRError(
            f"tensor {name!r} uses axis {node.name!r}, which belongs to another te.compute"
        )


def _check_range(name: str, axis: Axis, before: set[int]) -> None:
    for node in (n for e in axis.range_exprs for n in walk_exprs(e)):
        if isinstance(node, Axis) and id(node) not in before:
            raise TensorIRError(
                f"the range of reduce axis {axis.name!r} in tensor {name!r} depends on axis "
                f"{node.name!r}, which is none of its own or does not come before it in axis="
            )


def _names(axes: tuple[Axis, ...]) -> str:
    return f"({', '.join(axis.name for axis in axes)})"
