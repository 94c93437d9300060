"""What forms have to take more than the plain program, whatever their schedule is.

Another type needs other instructions, counted here and not measured: a sum of products is one for
each vector of terms if it is of floats and two of integers, what is stored in a type that nothing
computes with is converted, and as many elements of a wider type are more vectors. Bytes that are
more may be elsewhere, behind a cache that has the plain program's: a copy of as many tells. And a
result in another order than that of what it is made of may be turned after it was computed, by a
program that does nothing else. The last two are timed beside the forms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod

from autotune.rules.effort import operations_of
from benchmarks.general.form import Form, bytes_of
from benchmarks.general.nests import nests_of
from tensorir import (
    BinOp,
    Buffer,
    Expr,
    Load,
    PrimFunc,
    Select,
    dtype,
    int_value,
    te,
    walk_exprs,
)

CONVERSIONS = {"float16": 1, "bfloat16": 2, "int16": 1, "int8": 1}
"""Instructions that make a vector of a type that is computed with of one that is only stored, of
the processors with the fewest; one makes it narrow again."""

COMPUTED = 4
"""Bytes of the narrowest type that programs are computed in."""


def law(form: Form, plain: PrimFunc, share: float, time: Callable[[PrimFunc], float]) -> float:
    """What a form may take over the plain program and its `share` of that one's work; 1.0 where
    nothing says that it has to take more. `time` tells that of `beside` and the plain program."""
    apart = [time(program) for program in beside(form, plain, share)]
    if form.kind == "type":
        most = instructions(form.func) / instructions(plain) / share
        return max(1.0, most, *([apart[0] / apart[1] / share] if apart else []))
    return 1.0 + sum(apart) / time(plain)


def beside(form: Form, plain: PrimFunc, share: float) -> tuple[PrimFunc, ...]:
    """The programs that are timed beside a form: of a result in another order, one that turns it;
    of more bytes, copies of as many as the form and the plain program have."""
    order, out = form.orders[0] if form.orders else None, plain.outputs[0]
    if order is not None and out.const_shape is not None:
        return (_turning(out.const_shape, out.dtype, order),)
    if form.kind == "type" and share > 1:
        return _copying(bytes_of(form.func)), _copying(bytes_of(plain))
    return ()


def instructions(func: PrimFunc) -> float:
    """On vectors of the narrowest type that programs are computed in, at least: operations, each
    element that is read or written once, and conversions of these."""
    total = 0.0
    for nest in nests_of(func) or ():
        count = prod(axis.size or 1 for axis in nest.axes)
        for store in nest.stores:
            inside = walk_exprs(store.value, into=lambda e: not isinstance(e, Load))
            total += count * _width(store.value.dtype) * sum(map(_operations, inside))
    widest = max(_width(b.dtype) for b in (*func.params, *func.buffers))
    return total + sum(widest * _moved(param, param in func.inputs) for param in func.params)


def _operations(e: Expr) -> int:
    """Of one node of a value, without indices and conditions on these: no instruction multiplies
    integers of 32 bits and adds the product."""
    if isinstance(e, Select):
        return int(e.cond.has_loads)
    if not e.has_loads or e.dtype == "bool":
        return 0
    return 1 if isinstance(e, BinOp) and not dtype.is_float(e.dtype) else operations_of(e)


def _moved(param: Buffer, read: bool) -> float:
    """Instructions that move all elements of a parameter once, a vector of each."""
    elements = prod(int_value(extent) or 1 for extent in param.shape)
    each = CONVERSIONS.get(param.dtype, 0)
    return float(elements * (1 + (each if read else min(each, 1))))


def _width(kind: str) -> float:
    return max(COMPUTED, dtype.itemsize(kind)) / COMPUTED


@lru_cache
def _turning(shape: tuple[int, ...], kind: str, order: tuple[int, ...]) -> PrimFunc:
    made = te.placeholder(shape, kind, name="made")
    turned = te.compute(
        tuple(shape[d] for d in order),
        lambda *at: made[tuple(at[order.index(d)] for d in range(len(order)))],
        name="turned",
    )
    return te.create_prim_func([made, turned], name="turning")


@lru_cache
def _copying(size: float) -> PrimFunc:
    """Half of the bytes are read, and half written."""
    made = te.placeholder((int(size) // 8,), name="made")
    return te.create_prim_func([made, te.compute(made.shape, lambda i: made[i], name="copy")])
