"""Rewritings of what is around an operator: others in the same program, and a symbolic batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.general.form import Form
from benchmarks.general.nests import Axis, Edit, Nest, edited, nests_of, unified
from tensorir import Buffer, Expr, Load, PrimFunc, TensorIRError, Var, dtype, te
from tensorir.te import Tensor


def embedded(func: PrimFunc) -> Iterator[Form]:
    """The operator between two others in one program: rows of its first input less their largest
    number, and the largest number of each row of its first output."""
    fed = next((n for n, p in enumerate(func.inputs) if _is_plain(p)), None)
    out = func.outputs[0]
    if fed is None or not _is_plain(out) or func.scalars or func.in_outs:
        return
    inputs = [te.placeholder(p.shape, p.dtype, name=p.name) for p in func.inputs]
    given = [_less_largest(x) if n == fed else x for n, x in enumerate(inputs)]
    try:
        made = func(*given)
    except TensorIRError:  # it is no function of its inputs
        return
    outputs = [made] if isinstance(made, Tensor) else list(made)
    outputs[0] = _largest(outputs[0])
    x = te.placeholder(inputs[fed].shape, inputs[fed].dtype, name="x")
    y = te.placeholder(out.shape, out.dtype, name="y")
    yield Form(
        "embedded", "between two others",
        te.create_prim_func([*inputs, *outputs], name=f"around_{func.name}"),
        before=te.create_prim_func([x, _less_largest(x)], name="less_largest"),
        after=te.create_prim_func([y, _largest(y)], name="largest"), fed=fed,
    )  # fmt: skip


def _is_plain(buffer: Buffer) -> bool:
    return buffer.ndim > 0 and dtype.is_float(buffer.dtype) and buffer.const_shape is not None


def _largest(x: Tensor) -> Tensor:
    k = te.reduce_axis(x.shape[-1], name="row")
    return te.compute(x.shape[:-1], lambda *i: te.max(x[(*i, k)], axis=k), name="largest")


def _less_largest(x: Tensor) -> Tensor:
    top = _largest(x)
    return te.compute(x.shape, lambda *i: x[i] - top[i[:-1]], name="less")


def symbolic(func: PrimFunc) -> Iterator[Form]:
    """The first axis of the output as a size that each call has, where an input has it too."""
    nests = nests_of(func)
    if not nests or not func.outputs[0].ndim or func.size_vars:
        return
    dims, variables = unified(nests, (func.outputs[0], 0), lambda buffer: True)
    if not any(buffer in func.inputs for buffer, _ in dims) or _bent(nests, dims, variables):
        return
    size = Var("batch", "int64")
    axes = {
        nest.name: tuple(
            Axis(a.var, size if (nest.name, a.var) in variables else a.extent, a.kind, a.loop)
            for a in nest.axes
        )
        for nest in nests
    }
    buffers = {}
    for buffer in {b for b, _ in dims}:
        shape = tuple(size if (buffer, d) in dims else e for d, e in enumerate(buffer.shape))
        buffers[buffer] = (buffer.with_shape(shape), _same)
    changed = edited(func, nests, Edit(axes, buffers=buffers))
    yield Form("symbolic", "symbolic batch", changed)


def _same(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return indices


def _bent(
    nests: Sequence[Nest], dims: set[tuple[Buffer, int]], variables: set[tuple[str, Var]]
) -> bool:
    """Whether a dimension is read at anything but a variable of its own, or these are used for
    anything else, or reduced over."""
    for nest in nests:
        own = {var for name, var in variables if name == nest.name}
        if any(axis.reduces and axis.var in own for axis in nest.axes):
            return True
        loads = [(e.buffer, e.indices) for e in nest.loads]
        for buffer, indices in [*loads, *((s.buffer, s.indices) for s in nest.stores)]:
            for d, index in enumerate(indices):
                if ((buffer, d) in dims) != (index in own):
                    return True
                if index not in own and own & index.variables:
                    return True
        if own & _outside_of_indices(nest):
            return True
    return False


def _outside_of_indices(nest: Nest) -> set[Var]:
    """Variables that values speak of elsewhere than in the places of loads."""
    found: set[Var] = set()
    for store in nest.stores:
        stack = [store.value]
        while stack:
            e = stack.pop()
            if isinstance(e, Var):
                found.add(e)
            if not isinstance(e, Load):
                stack += e.operands
    return found
