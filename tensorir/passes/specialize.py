"""specialize: numbers for symbolic sizes, and for what else is a number among the arguments."""

from __future__ import annotations

from dataclasses import replace as replace_fields

from tensorir.annotations import checked
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import Const, Expr, Var
from tensorir.func import PrimFunc
from tensorir.parts import replace_buffers
from tensorir.scalars import Numbers, Scalar, check_limits, number_of, split_order
from tensorir.visit import substitute, substitute_stmt


@checked
def specialize(func: PrimFunc, sizes: Numbers) -> PrimFunc:
    """`func` with numbers in place of the symbolic sizes, and of the numbers among the arguments,
    that are named in `sizes`; others stay as they are.

    Loops, blocks and their names stay as they are, so a schedule of `func` is one of the result.
    What was a number among the arguments is none any more. Raises TensorIRError for a name that is
    no size of `func`, and for a number that it cannot have, such as a negative one.
    """
    values: dict[Var, Expr] = {}
    names = {v.name: v for v in func.free_vars}
    least, scalars = dict(func.size_ranges), {scalar.name for scalar in func.scalars}
    for name, value in sizes.items():
        if name not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise TensorIRError(f"{func.name}: {name!r} is not a symbolic size; it has {known}")
        var = names[name]
        where = f"{func.name}: {'size' if var in least else 'number'} {name!r}"
        number = number_of(value, var.dtype, where)
        if var in least:
            check_limits(int(number), least[var], name in scalars, where)
        values[var] = Const(number, var.dtype)
    if not values:
        return func

    def shaped(buffer: Buffer) -> Buffer:
        return buffer.with_shape(tuple(substitute(dim, values) for dim in buffer.shape))

    buffers = {b: shaped(b) for b in (*func.params, *func.buffers)}
    kept = [a for a in func.arguments if not isinstance(a, Scalar) or a.var not in values]
    return replace_fields(
        func,
        params=tuple(buffers[p] for p in func.params),
        buffers=tuple(buffers[b] for b in func.buffers),
        body=replace_buffers(substitute_stmt(func.body, values), buffers),
        scalars=split_order(kept),
    )
