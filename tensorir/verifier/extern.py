"""The rules of a call of an extern function: its arguments are what its declaration says."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.errors import TensorIRError, VerifyError
from tensorir.expr import Expr, Var, conjuncts, int_value
from tensorir.externs.extern import ExternFunc, find_extern
from tensorir.stmt import Extern, Part
from tensorir.visit import substitute, variables


def check_call(s: Extern, where: str) -> dict[str, Expr]:
    """The sizes of a call by name; VerifyError where it does not fit the function's declaration."""
    try:
        func = find_extern(s.name)
    except TensorIRError as error:
        raise VerifyError(f"{where}: {error}") from None
    counts, wanted = (len(s.inputs), len(s.outputs)), (len(func.inputs), len(func.outputs))
    if counts != wanted:
        raise VerifyError(
            f"{where} gives {s.name!r} {counts[0]} inputs and {counts[1]} outputs; "
            f"{func.signature} has {wanted[0]} and {wanted[1]}"
        )
    types = tuple(part.buffer.dtype for part in s.parts)
    if types not in [tuple(row) for row in func.dtypes]:
        raise VerifyError(f"{where}: {unfit_types(func, types)}")
    for part in s.parts:
        _check_indices(part, where)
    written = [part.buffer for part in s.outputs]
    for n, part in enumerate((*s.outputs, *s.inputs)):
        if part.buffer in (written if n >= len(written) else written[:n]):
            raise VerifyError(
                f"{where} gives {s.name!r} the buffer {part.buffer.name!r} twice, once to write; "
                "outputs share no memory with other arguments"
            )
    sizes: dict[str, Expr] = {}
    for part, dims in zip(s.parts, func.dims):
        if len(part.shape) != len(dims):
            raise VerifyError(
                f"{where} gives {s.name!r} a part of {part.buffer.name!r} with "
                f"{len(part.shape)} dimensions; {func.signature} asks for {len(dims)}"
            )
        for name, size in zip(dims, part.shape):
            if sizes.setdefault(name, size) is not size:
                raise VerifyError(
                    f"{where} calls {s.name!r}, {func.signature}, with {name} = {sizes[name]!r} "
                    f"and with {name} = {size!r} in {part.buffer.name!r}"
                )
    unmet = unmet_condition(func, sizes)
    if unmet is not None:
        raise VerifyError(f"{where}: {unmet}")
    return sizes


def _check_indices(part: Part, where: str) -> None:
    if len(part.indices) != part.buffer.ndim:
        raise VerifyError(
            f"{where} has a part of {part.buffer!r} that begins at {len(part.indices)} indices"
        )
    for e in (*part.indices, *part.shape):
        if e.dtype != dt.INDEX:
            raise VerifyError(f"{where} has {e!r} of type {e.dtype} in a part; use {dt.INDEX}")


def check_whole(s: Extern, where: str) -> None:
    """VerifyError where a part is not all of the last dimensions of its buffer."""
    for part in s.parts:
        buffer, lead = part.buffer, part.lead
        own = buffer.shape[lead:]
        whole = len(own) == len(part.shape) and all(a is b for a, b in zip(own, part.shape))
        if not whole or any(int_value(i) != 0 for i in part.indices[lead:]):
            raise VerifyError(
                f"{where} gives {s.name!r} a part of {buffer!r} that is not all of its last "
                f"{len(part.shape)} dimensions"
            )


def unfit_types(func: ExternFunc, types: tuple[str, ...]) -> str:
    """The message about types that the function is not declared for."""
    count = len(func.inputs)
    known = [f"({', '.join(row[:count])}) -> ({', '.join(row[count:])})" for row in func.dtypes]
    shown = f"({', '.join(types[:count])}) -> ({', '.join(types[count:])})"
    return f"{func.name!r} is not for {shown}; it is for {', '.join(known)}"


def unmet_condition(func: ExternFunc, sizes: Mapping[str, Expr]) -> str | None:
    """What `where` of the function says and cannot be proved of these sizes; None if all can."""
    if not func.where:
        return None
    from tensorir.text.parser import parse_expr

    own = {name: Var(f"{name}.") for name in sizes}
    values = {own[name]: size for name, size in sizes.items()}
    analyzer = Analyzer()
    for size in sorted({v for e in sizes.values() for v in variables(e)}, key=lambda v: v.name):
        analyzer.bind_range(size, 0, None)
    for part in conjuncts(parse_expr(func.where, own)):
        if not analyzer.prove(substitute(part, values)):
            shown = ", ".join(f"{name} = {size!r}" for name, size in sizes.items())
            return f"{func.name!r} asks that {func.where}, which is not known with {shown}"
    return None
