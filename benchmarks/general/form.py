"""A form: a program rewritten, and how its arrays belong to those of the plain one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tensorir import Buffer, PrimFunc, TensorIRError, dtype, int_value, reference
from tensorir.arrays import decode, encode

Arrays = list["np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Form:
    """A program that computes what the plain one does, written in another way.

    Its inputs are those of the plain program, in their order, reshaped and converted; inputs that
    come after those are factors, which are 1. Its outputs hold the elements of the plain ones.

    kind     the rewriting, such as "split"
    name     what it did here, such as "split j"
    orders   for each output the order of the plain program's axes in it, where it is another one
    before, after
             programs that run in this one before the plain one, on its input `fed`, and after it,
             on its first output: it is compared with the three run one after the other
    """

    kind: str
    name: str
    func: PrimFunc
    orders: tuple[tuple[int, ...] | None, ...] = ()
    before: PrimFunc | None = None
    after: PrimFunc | None = None
    fed: int = 0

    @property
    def parts(self) -> tuple[PrimFunc, ...]:
        """What runs beside the plain program."""
        return tuple(f for f in (self.before, self.after) if f is not None)


TOLERANCE = {"float16": 1e-2, "bfloat16": 5e-2}
"""Of an output of a type, relative to its largest number; of others 1e-4, of integers nothing."""

Rewriting = Callable[[PrimFunc], Iterator[Form]]
"""The forms of one kind; none where the program has nothing to rewrite in that way."""


def numbers(func: PrimFunc, seed: int = 0) -> Arrays:
    """Whole numbers for the inputs, -2 to 2 or 0 to 4 where there are no negative ones.

    They are exact in all types, so that a form in another type computes the same.
    """
    rng = np.random.default_rng(seed)
    made = []
    for param in func.inputs:
        low, high = (0, 2) if dtype.is_bool(param.dtype) else (-2, 3)
        if param.dtype.startswith("uint"):
            low, high = 0, 5
        made.append(encode(rng.integers(low, high, _shape(param)), param.dtype))
    return made


def given(form: Form, plain: PrimFunc, arrays: Sequence[Any]) -> Arrays:
    """The inputs of a form, made of those of the plain program without a copy where it can."""
    made = []
    for n, param in enumerate(form.func.inputs):
        if n >= len(arrays):
            made.append(encode(np.ones(_shape(param)), param.dtype))
            continue
        array, kind = arrays[n], plain.inputs[n].dtype
        if kind != param.dtype:
            array = encode(decode(array, kind), param.dtype)
        fixed = param.const_shape
        made.append(array if fixed is None else array.reshape(fixed))
    return made


def restored(form: Form, plain: PrimFunc, outputs: Sequence[Any]) -> Arrays:
    """The outputs of a form as those of the plain program, floats as float64.

    They come of a kernel, or as float64 of the reference.
    """
    found = []
    for n, (out, array) in enumerate(zip(form.func.outputs, outputs)):
        values = array if array.dtype == np.float64 else decode(array, out.dtype)
        order = form.orders[n] if form.orders else None
        if order is not None:
            values = values.transpose(np.argsort(order))
        made = form.after if form.after is not None and n == 0 else plain
        found.append(values.reshape(_shape(made.outputs[n])))
    return found


def expected(form: Form, plain: PrimFunc, arrays: Sequence[Any]) -> Arrays:
    """What the untouched plain program gives, with what a form runs before and after it."""
    held = list(arrays)
    if form.before is not None:
        (fed,) = reference(form.before, held[form.fed])
        held[form.fed] = encode(fed, form.before.outputs[0].dtype)
    made = list(reference(plain, *held))
    if form.after is not None:
        (made[0],) = reference(form.after, encode(made[0], plain.outputs[0].dtype))
    return made


def require_close(outputs: Sequence[Buffer], found: Arrays, wanted: Arrays) -> None:
    """Raise TensorIRError where a result is not what is wanted, within the tolerance."""
    for out, got, want in zip(outputs, found, wanted):
        allowed = TOLERANCE.get(out.dtype, 1e-4) if dtype.is_float(out.dtype) else 0.0
        most = float(np.max(np.abs(want), initial=0)) or 1.0
        off = float(np.max(np.abs(got.astype(np.float64) - want), initial=0)) / most
        if not off <= allowed:
            raise TensorIRError(
                f"the result is off by {off:.2g} of the largest number, and {allowed:.2g} is "
                "allowed; no time of it is shown"
            )


def work(form: Form, plain: PrimFunc, dense: bool) -> float:
    """What a form has to do over what the plain program has to, where its types differ: bytes of
    arguments, or of arithmetic in a `dense` program, which is bound by that."""
    kinds = [_arithmetic(f) if dense else bytes_of(f) for f in (form.func, plain)]
    return 1.0 if form.kind != "type" else kinds[0] / kinds[1]


def is_dense(flops: int, func: PrimFunc) -> bool:
    """Whether a program has at least 8 operations for each byte of its arguments."""
    return flops >= 8 * bytes_of(func)


def _arithmetic(func: PrimFunc) -> float:
    """Bytes of the type that most of a program is computed in; of narrow types those of 32 bits."""
    return max(4, max(dtype.itemsize(b.dtype) for b in (*func.params, *func.buffers)))


def bytes_of(func: PrimFunc) -> float:
    """Of all arguments; symbolic sizes count as none."""
    return float(sum(prod(_shape(p)) * dtype.itemsize(p.dtype) for p in func.params))


def _shape(param: Buffer) -> tuple[int, ...]:
    return tuple(int_value(extent) or 0 for extent in param.shape)
