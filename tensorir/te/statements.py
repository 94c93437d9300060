"""Stages that are written as statements: a PrimFunc in te.extern, or called on tensors.

Its sizes become those of the tensors, and `create_prim_func` takes its loops, blocks and
intermediates into the program by names that are free there, so nothing after that knows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError, VerifyError
from tensorir.expr import Expr, Var
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.parts import replace_buffers
from tensorir.rewrite.rename import loops_of, shape_with, with_names, with_sizes
from tensorir.stmt import Alloc, Exchange, For, Prefetch, Stmt, Sync
from tensorir.te.tensor import StatementsOp, Tensor
from tensorir.visit import blocks, walk

BY_NAME = ("prefetch", "spread_prefetch")
"""Annotations of loops that speak of blocks and buffers by name."""


def call(func: PrimFunc, inputs: Sequence[Any]) -> Any:
    """The outputs of `func` for these tensors, called as its parameters are."""
    sizes = _sizes_of_inputs(func.name, func, inputs)
    for p in func.outputs:
        for var in (v for extent in p.shape for v in sorted(extent.variables, key=str)):
            if var not in sizes:
                raise TensorIRError(
                    f"stage {func.name!r}: no input has the size {var.name!r}, so the shape of "
                    f"output {p!r} is not known; give it: te.extern([shape], inputs, {func.name})"
                )
    return _stage(func.name, func, inputs, sizes, [p.name for p in func.outputs])


def statements(
    name: str,
    func: PrimFunc,
    inputs: Sequence[Any],
    shapes: Sequence[tuple[Expr, ...]],
    dtype: str | Sequence[str] | None,
) -> Any:
    """The outputs of te.extern with a program in the place of the extern function."""
    sizes = _sizes_of_inputs(name, func, inputs)
    outputs = func.outputs
    if len(shapes) != len(outputs):
        raise TensorIRError(
            f"stage {name!r} has {len(shapes)} shapes; {func.name!r} writes {len(outputs)} "
            f"outputs, {_listed(outputs)}: give a list with a shape for each"
        )
    wanted = (dtype,) * len(outputs) if isinstance(dtype, str) else dtype
    if wanted is not None and len(wanted) != len(outputs):
        raise TensorIRError(
            f"stage {name!r} has {len(wanted)} dtypes, and {len(outputs)} outputs, "
            f"{_listed(outputs)}"
        )
    for n, (p, shape) in enumerate(zip(outputs, shapes)):
        kind = p.dtype if wanted is None else dt.check_dtype(wanted[n])
        _fit(name, func, p, f"output {n}", shape, kind, sizes)
    _check_compound(name, func, outputs, shapes, sizes)
    several = len(outputs) > 1
    labels = [f"{name}_{n}" for n in range(len(outputs))] if several else [name]
    return _stage(name, func, inputs, sizes, labels)


def _sizes_of_inputs(name: str, func: PrimFunc, inputs: Sequence[Any]) -> dict[Var, Expr]:
    """What the symbolic sizes of `func` are for these inputs."""
    _check_program(name, func)
    for each in inputs:
        if not isinstance(each, Tensor):
            raise TensorIRError(
                f"stage {name!r} is given a {type(each).__name__}; {func.name!r} takes te tensors "
                f"here, and build({func.name}) makes a kernel for arrays"
            )
    if len(inputs) != len(func.inputs):
        raise TensorIRError(
            f"stage {name!r} gives {func.name!r} {len(inputs)} inputs; it has {len(func.inputs)}: "
            f"{_listed(func.inputs) or 'none'} (its outputs {_listed(func.outputs)} are returned)"
        )
    sizes: dict[Var, Expr] = {}
    for p, t in zip(func.inputs, inputs):
        _fit(name, func, p, repr(t), t.shape, t.dtype, sizes)
    _check_compound(name, func, func.inputs, [t.shape for t in inputs], sizes)
    return sizes


def _listed(params: Sequence[Buffer]) -> str:
    return ", ".join(map(repr, params))


def _check_program(name: str, func: PrimFunc) -> None:
    if not func.outputs:
        raise TensorIRError(f"stage {name!r}: {func.name!r} writes no parameter, so it makes none")
    if func.in_outs:
        first = func.in_outs[0].name
        raise TensorIRError(
            f"stage {name!r}: {func.name!r} needs what is in {first!r} before it writes it, and a "
            f"te tensor has one value; take the old values as an input of another name, copy them "
            f"to {first!r} in a block at the start, and write all of it"
        )
    if func.scalars:
        first = func.scalars[0].name
        raise TensorIRError(
            f"stage {name!r}: {func.name!r} takes the number {first!r}, and a stage takes tensors "
            f"alone; specialize({func.name}, {{{first!r}: ...}}) puts a number in its place, a "
            "tensor with such a dimension tells it as a size, and one without dimensions a value"
        )
    for p in func.params:
        if p.scope != "global":
            raise TensorIRError(
                f"stage {name!r}: parameter {p.name!r} of {func.name!r} is in {p.scope} memory; "
                "tensors are in global memory, so copy it to a buffer of alloc(...)"
            )
    hinted = [s for s in walk(func.body) if isinstance(s, For) and {*s.annotations} & {*BY_NAME}]
    lowered = any(isinstance(s, (Alloc, Prefetch, Sync, Exchange)) for s in walk(func.body))
    if func.attrs or hinted or lowered:
        what = "is lowered" if lowered else "has hints for buffers by name"
        raise TensorIRError(
            f"stage {name!r}: {func.name!r} {what}; give the program as it was defined, and "
            "schedule what create_prim_func makes of the whole"
        )


def _fit(
    name: str,
    func: PrimFunc,
    param: Buffer,
    given: str,
    shape: tuple[Expr, ...],
    dtype: str,
    sizes: dict[Var, Expr],
) -> None:
    """Bind the sizes that a parameter has as dimensions to those of what is given for it."""
    start = f"stage {name!r}: parameter {param!r} of {func.name!r} is given {given}"
    if dtype != param.dtype:
        raise TensorIRError(f"{start} of type {dtype}; it is {param.dtype}")
    if len(shape) != param.ndim:
        raise TensorIRError(
            f"{start} of shape {list(shape)}; it has {param.ndim} dimensions, not {len(shape)}"
        )
    for extent, actual in zip(param.shape, shape):
        if not isinstance(extent, Var):
            continue
        known = sizes.setdefault(extent, actual)
        if not _same(known, actual):
            raise TensorIRError(
                f"{start} of shape {list(shape)}, so {extent.name!r} is {actual!r}; by another "
                f"argument it is {known!r}"
            )


def _check_compound(
    name: str,
    func: PrimFunc,
    params: Sequence[Buffer],
    shapes: Sequence[tuple[Expr, ...]],
    sizes: dict[Var, Expr],
) -> None:
    """Dimensions that are numbers, or computed from sizes which others have bound."""
    for param, shape in zip(params, shapes):
        for d, (extent, wanted) in enumerate(zip(param.shape, shape_with(param, sizes))):
            if not _same(wanted, shape[d]):
                raise TensorIRError(
                    f"stage {name!r}: parameter {param!r} of {func.name!r} is given the shape "
                    f"{list(shape)}; its dimension {d} is {extent!r}"
                    + ("" if extent is wanted else f", here {wanted!r}")
                )


def _same(a: Expr, b: Expr) -> bool:
    return a is b or Analyzer().simplify(a) is Analyzer().simplify(b)


def _stage(
    name: str,
    func: PrimFunc,
    inputs: Sequence[Tensor],
    sizes: dict[Var, Expr],
    labels: Sequence[str],
) -> Any:
    from tensorir.verifier.program import verify  # not needed without such stages

    own = with_sizes(func, sizes)
    try:
        verify(own)
    except VerifyError as error:
        raise VerifyError(f"stage {name!r}: {func.name!r} is refused: {error}") from error
    op = StatementsOp(name, own, tuple(inputs))
    op.outputs = tuple(
        Tensor(label, p.shape, p.dtype, op, n)
        for n, (label, p) in enumerate(zip(labels, own.outputs))
    )
    return op.outputs if len(op.outputs) > 1 else op.outputs[0]


class Nest:
    """The statements of a stage in a program: its loops and blocks are named when it is made, the
    variables inside when all loops of the program are."""

    def __init__(self, op: StatementsOp, buffers: dict[Buffer, Buffer], names: Names) -> None:
        """`buffers` has what the parameters are in the program; to it are added the others."""
        self.op, self.buffers, self.names = op, buffers, names
        body, outputs = op.func.body, op.func.outputs
        for b in op.func.buffers:
            buffers[b] = Buffer(names.unique(b.name), b.shape, b.dtype, b.scope)
        made = {b.name: buffers[b].name for b in (*outputs, *op.func.buffers)}
        self.blocks = [made.get(b.name) or names.unique(b.name) for b in blocks(body)]
        self.loops = [
            names.unique(f"{loop.name}_{op.name}" if loop.name in names.taken else loop.name)
            for loop in loops_of(body)
        ]

    @property
    def intermediates(self) -> tuple[Buffer, ...]:
        return tuple(self.buffers[b] for b in self.op.func.buffers)

    def make(self) -> Stmt:
        body = with_names(self.op.func.body, {}, self.loops, self.blocks, self.names)
        return replace_buffers(body, self.buffers)
