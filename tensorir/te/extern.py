"""te.extern: tensors that an extern function makes, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import Expr
from tensorir.extern import ExternFunc, find_extern
from tensorir.te.axis import Axis
from tensorir.te.tensor import ExternOp, Shape, Tensor, check_name, make_shape
from tensorir.verifier.extern import unfit_types, unmet_condition


def extern(
    shape: Shape | Sequence[Shape],
    inputs: Tensor | Sequence[Tensor],
    func: Union[str, ExternFunc],
    name: str = "extern",
    dtype: str | Sequence[str] | None = None,
) -> Any:
    """The output of a registered extern function; a tuple of tensors where it has several.

    `func` is its name, or the ExternFunc itself. Dimensions that the inputs have before those of
    the function's signature are rows: the function runs on each row, and loops over rows can be
    split, run in parallel and so on like those of a te.compute. All arguments have the same rows;
    an input without any is whole in each. `shape` is that of the output, rows first; a list of
    shapes where there are several outputs. `dtype` is needed only where the function makes several
    types of these inputs.

        B = te.extern((m, n), A, "sort", name="B")                  # each row of A[m, n]
        V, I = te.extern([(m, 5), (m, 5)], A, "topk", name="top")   # "(n)->(k),(k)"

    Raises TensorIRError where the function is not known, or shapes and types are not those of its
    declaration.
    """
    check_name(name, "tensor")
    if not isinstance(func, (str, ExternFunc)):
        raise TensorIRError(
            f"tensor {name!r} is made by {func!r}; te.extern takes the name of an extern function "
            "or an ExternFunc, and statements are written under @te.prim_func"
        )
    found = find_extern(func if isinstance(func, str) else func.name)
    if isinstance(func, ExternFunc) and found is not func:
        raise TensorIRError(f"extern function {func.name!r} is registered with another meaning")
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    for each in given:
        if not isinstance(each, Tensor):
            raise TensorIRError(f"tensor {name!r} is given {each!r}, which is no tensor")
    shapes = _shapes(shape, found, name)
    if len(given) != len(found.inputs):
        raise TensorIRError(
            f"tensor {name!r} gives {found.name!r} {len(given)} inputs; "
            f"{found.signature} has {len(found.inputs)}"
        )
    rows = _rows(name, found, given, shapes)
    dtypes = _dtypes(name, found, given, dtype)
    labels = ("ijklmnpq"[n % 8] + "_" * (n // 8) for n in range(len(rows)))
    axes = tuple(Axis(label, size, False) for label, size in zip(labels, rows))
    op = ExternOp(name, axes, (), (), given)
    op.func = found
    several = len(shapes) > 1
    names = [f"{name}_{n}" for n in range(len(shapes))] if several else [name]
    op.outputs = tuple(
        Tensor(label, each, kind, op, n)
        for n, (label, each, kind) in enumerate(zip(names, shapes, dtypes))
    )
    return op.outputs if several else op.outputs[0]


def _shapes(shape: Any, func: ExternFunc, name: str) -> list[tuple[Expr, ...]]:
    """The shape of each output. A list of one shape is as good as the shape."""
    nested = isinstance(shape, (tuple, list)) and any(isinstance(s, (tuple, list)) for s in shape)
    given = list(shape) if nested else [shape]
    if len(given) != len(func.outputs):
        raise TensorIRError(
            f"tensor {name!r} has {len(given)} shapes; {func.name!r}, {func.signature}, makes "
            f"{len(func.outputs)} outputs: give a list with a shape for each"
        )
    return [make_shape(s, f"tensor {name!r}") for s in given]


def _rows(
    name: str, func: ExternFunc, inputs: Sequence[Tensor], outputs: Sequence[tuple[Expr, ...]]
) -> tuple[Expr, ...]:
    """The dimensions in front, with all sizes of the signature checked."""
    arguments = [(repr(t), t.shape) for t in inputs]
    arguments += [(f"output {n} of {name!r}", shape) for n, shape in enumerate(outputs)]
    rows: tuple[Expr, ...] | None = None
    sizes: dict[str, Expr] = {}
    places = zip(arguments, func.dims)
    for number, ((label, shape), dims) in reversed([*enumerate(places)]):
        lead = len(shape) - len(dims)
        if lead < 0:
            raise TensorIRError(
                f"{label} has {len(shape)} dimensions; {func.name!r}, {func.signature}, needs "
                f"{len(dims)} at least"
            )
        front = shape[:lead]
        if rows is None:
            rows = front
        whole = number < len(inputs) and not front
        if not whole and (len(front) != len(rows) or any(a is not b for a, b in zip(front, rows))):
            raise TensorIRError(
                f"{label} has the rows {list(front)} in front of {func.signature}, and another "
                f"argument {list(rows)}; all must have the same"
            )
    for (label, shape), dims in zip(arguments, func.dims):
        for dim, size in zip(dims, shape[len(shape) - len(dims) :]):
            if sizes.setdefault(dim, size) is not size:
                raise TensorIRError(
                    f"{label} has {dim} = {size!r}, and another argument of {func.name!r}, "
                    f"{func.signature}, has {dim} = {sizes[dim]!r}"
                )
    unmet = unmet_condition(func, sizes)
    if unmet is not None:
        raise TensorIRError(f"tensor {name!r}: {unmet}")
    return rows or ()


def _dtypes(
    name: str, func: ExternFunc, inputs: Sequence[Tensor], dtype: str | Sequence[str] | None
) -> tuple[str, ...]:
    types = tuple(t.dtype for t in inputs)
    possible = func.output_dtypes(types)
    if dtype is not None:
        asked = (dtype,) * len(func.outputs) if isinstance(dtype, str) else tuple(dtype)
        for each in asked:
            dt.check_dtype(each)
        if asked not in possible:
            raise TensorIRError(f"tensor {name!r}: {unfit_types(func, (*types, *asked))}")
        return asked
    if not possible:
        unknown = ("?",) * len(func.outputs)
        raise TensorIRError(f"tensor {name!r}: {unfit_types(func, (*types, *unknown))}")
    if len(possible) > 1:
        choices = " or ".join(repr(row[0] if len(row) == 1 else row) for row in possible)
        raise TensorIRError(f"tensor {name!r} can be of several types: give dtype={choices}")
    return possible[0]
