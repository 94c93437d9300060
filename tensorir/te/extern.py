"""te.extern: tensors that an extern function makes, row by row, or a program of statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import Expr
from tensorir.externs.extern import ExternFunc, find_extern
from tensorir.func import PrimFunc
from tensorir.te.axis import Axis
from tensorir.te.statements import statements
from tensorir.te.tensor import ExternOp, Shape, Tensor, check_name, make_shape
from tensorir.verifier.extern import unfit_types, unmet_condition


def extern(
    shape: Shape | Sequence[Shape],
    inputs: Tensor | Sequence[Tensor],
    func: Union[str, ExternFunc, PrimFunc],
    name: str = "extern",
    dtype: str | Sequence[str] | None = None,
) -> Any:
    """The output of an extern function, or of statements; a tuple of tensors for several.

    `func` is the name of a registered function, or the ExternFunc itself. Dimensions that the
    inputs have before those of the function's signature are rows: the function runs on each row,
    and loops over rows can be split, run in parallel and so on like those of a te.compute. All
    arguments have the same rows; an input without any is whole in each. `shape` is that of the
    output, rows first; a list of shapes where there are several outputs. `dtype` is needed only
    where the function makes several types of these inputs.

        B = te.extern((m, n), A, "sort", name="B")                  # each row of A[m, n]
        V, I = te.extern([(m, 5), (m, 5)], A, "topk", name="top")   # "(n)->(k),(k)"

    It may also be a program, a PrimFunc as from @te.prim_func: `shape` and `dtype` are those of
    the parameters that it writes, `inputs` stand for the others, in order, and its symbolic sizes
    become those of the tensors. Its blocks, loops and intermediates are parts of the program that
    create_prim_func makes, by names of their own. Where no output has a size that is in no input,
    `x = solve(L, b)` says the same.

        x = te.extern((n,), [L, b], solve, name="x")

    Raises TensorIRError where the function is not known, or shapes and types are not those of its
    declaration; VerifyError where statements are not well formed for them.
    """
    check_name(name, "tensor")
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    for each in given:
        if not isinstance(each, Tensor):
            raise TensorIRError(f"tensor {name!r} is given {each!r}, which is no tensor")
    if isinstance(func, PrimFunc):
        return statements(name, func, given, _shapes(shape, name), dtype)
    if not isinstance(func, (str, ExternFunc)):
        raise _not_a_function(name, func, given, shape)
    return _of_function(name, func, given, _shapes(shape, name), dtype)


def _of_function(
    name: str,
    func: str | ExternFunc,
    given: tuple[Tensor, ...],
    shapes: Sequence[tuple[Expr, ...]],
    dtype: str | Sequence[str] | None,
) -> Any:
    found = find_extern(func if isinstance(func, str) else func.name)
    if isinstance(func, ExternFunc) and found is not func:
        raise TensorIRError(f"extern function {func.name!r} is registered with another meaning")
    if len(shapes) != len(found.outputs):
        raise TensorIRError(
            f"tensor {name!r} has {len(shapes)} shapes; {found.name!r}, {found.signature}, makes "
            f"{len(found.outputs)} outputs: give a list with a shape for each"
        )
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


def _not_a_function(name: str, func: Any, inputs: Sequence[Tensor], shape: Any) -> TensorIRError:
    """For one, a Python function that emits statements with TVM's ir_builder."""
    if not callable(func):
        return TensorIRError(
            f"tensor {name!r} is made by {func!r}; te.extern takes the name of an extern function, "
            "an ExternFunc, or a program: statements are written under @te.prim_func"
        )
    shapes = _shapes(shape, name)
    labels = [f"{name}_{n}" for n in range(len(shapes))] if len(shapes) > 1 else [name]
    params = [(t.name, t.dtype, t.shape) for t in inputs]
    params += [(label, "float32", each) for label, each in zip(labels, shapes)]
    text = ", ".join(f"{n}: {dt.SHORT[d]}[{', '.join(map(repr, s))}]" for n, d, s in params)
    return TensorIRError(
        f"tensor {name!r} is made by {func!r}, a Python function that emits statements (TVM's "
        "ir_builder); statements are written under @te.prim_func, in the language in which "
        "programs are printed, and given in its place:\n"
        f"    @te.prim_func\n    def body({text}):\n        ...\n"
        f"    te.extern({shape!r}, [{', '.join(t.name for t in inputs)}], body, name={name!r})"
    )


def _shapes(shape: Any, name: str) -> list[tuple[Expr, ...]]:
    """The shape of each output. A list of one shape is as good as the shape."""
    nested = isinstance(shape, (tuple, list)) and any(isinstance(s, (tuple, list)) for s in shape)
    given = list(shape) if nested else [shape]
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
