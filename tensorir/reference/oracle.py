"""reference and tolerance: the truth that kernels are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorir.arrays import decode, match_arguments
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.func import PrimFunc, require_func
from tensorir.reference.balls import Ball, Balls
from tensorir.reference.exact import Array, Exact
from tensorir.reference.run import Runner
from tensorir.rewrite.rectangular import rectangular
from tensorir.scalars import Numbers


def reference(
    func: PrimFunc, *inputs: Any, sizes: Numbers | None = None
) -> tuple[Array, ...]:
    """The outputs of an unscheduled `func`, computed by NumPy in float64 and not rounded.

    `inputs` are arrays of the types and shapes of the inputs and in-out parameters (bfloat16:
    uint16 bits), none of which is written to. Float outputs come as float64, others in their own
    type. Blocks are evaluated on their whole domains where they are as te.create_prim_func makes
    them, and instance by instance where a program is written in another way. Raises TensorIRError
    for arrays that do not fit, for lowered programs, and for reductions that are scheduled, since
    the bounds need all terms of a sum together.
    """
    return tuple(_run(func, Exact(), inputs, sizes))


def tolerance(
    func: PrimFunc, *inputs: Any, growth: str = "order", sizes: Numbers | None = None
) -> tuple[Array, ...]:
    """For each output an array of bounds on |kernel - reference|; see reference_with_tolerance."""
    return reference_with_tolerance(func, *inputs, growth=growth, sizes=sizes)[1]


def reference_with_tolerance(
    func: PrimFunc, *inputs: Any, growth: str = "order", sizes: Numbers | None = None
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """The reference, and elementwise bounds on the error of a kernel.

    Every rounding that the program asks for may go wrong by one unit, unless it is of an exact
    number, and the bounds are carried through the whole program (balls.py). For `growth="order"`
    they hold for all data and any order in which a kernel adds the terms of its sums (sums.py).
    `growth="algebra"` is for kernels that compute the same by other expressions (Winograd's
    convolutions): a sum of n terms adds max(n, 6 sqrt(n)) u times the sum of their magnitudes, and
    exact numbers are no exception; such kernels are known to stay within it, which is no proof.
    A bound is inf where nothing can be said: a condition that rounding may turn over, or an
    intermediate that overflows.
    """
    balls: list[Ball] = _run(func, Balls(growth), inputs, sizes)
    bounds = [np.broadcast_to(b.err, b.value.shape).astype(np.float64) for b in balls]
    return tuple(b.value for b in balls), tuple(bounds)


def _run(func: PrimFunc, algebra: Any, inputs: Any, sizes: Numbers | None) -> list[Any]:
    require_func(func, "reference")
    func = rectangular(func)
    given, values = match_arguments(func, inputs, sizes)
    outputs, in_outs = func.outputs, func.in_outs
    for param in in_outs:
        if param not in given:
            raise TensorIRError(
                f"function {func.name!r} needs what is in {param.name!r} before: give all of "
                f"{', '.join(p.name for p in func.given)}"
            )
    numbers: dict[Buffer, Any] = {}
    for param, array in given.items():
        if param not in outputs:
            numbers[param] = algebra.exact(decode(array, param.dtype))
        elif param in in_outs:  # to be written: a copy
            numbers[param] = algebra.empty(array.shape, param.dtype)
            algebra.assign(numbers[param], algebra.exact(decode(array, param.dtype)))
    runner = Runner(func, algebra, numbers, values)
    with np.errstate(all="ignore"):
        runner.run()
    return [runner.memory[p] for p in outputs]
