"""Operators on the backends of GPUs: which examples, and what their results are held to."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np

from autotune import default_schedule
from backends import CompiledKernel, ObjectCache
from backends.build import backend_of
from backends.call.signature import Signature
from backends.cuda.emulated import Emulated
from backends.cuda.emulator import Emulator
from backends.cuda.text import cuda_text
from tensorir import Target, lower, ops, reference_with_tolerance
from tensorir import dtype as dt
from tensorir.arrays import decode

CONSTANTS = 1e-6
"""How far references are off where the expression has constants: those are float32."""
UNKNOWN = 1e-5
"""The bound on the error where the reference cannot give one."""


def chosen() -> list[tuple[str, int]]:
    """An example of each operator, the first and the last in pairs, of which sizes differ: `make
    fuzz OPERATORS=1` has all of all."""
    return [
        (name, 0 if place // 2 % 2 == 0 else len(op.examples) - 1)
        for place, (name, op) in enumerate(ops.OPERATORS.items())
    ]


def check(name: str, number: int, kernel: CompiledKernel) -> None:
    op = ops.OPERATORS[name]
    example = op.examples[number]
    arrays = example.arrays()
    results = kernel(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    expected = op.expected(example, arrays)
    assert len(results) == len(expected)
    bounds = reference_with_tolerance(kernel.func, *arrays)[1]
    for out, got, want, bound in zip(kernel.func.outputs, results, expected, bounds):
        label = f"{name} {number}: {out.name}"
        assert got.shape == want.shape, label
        if not dt.is_float(out.dtype):
            np.testing.assert_array_equal(got, want, err_msg=label)
            continue
        values, finite = decode(got, out.dtype), np.isfinite(want)
        np.testing.assert_array_equal(values[~finite], want[~finite], err_msg=label)
        allowed = np.where(np.isfinite(bound), bound, UNKNOWN) + CONSTANTS * (1 + np.abs(want))
        assert (np.abs(values[finite] - want[finite]) <= allowed[finite]).all(), label


def emulated(
    cases: Sequence[tuple[str, int]],
    target: Target,
    scheduled: Collection[int],
    cache: ObjectCache | None = None,
) -> list[CompiledKernel]:
    """The kernels of some examples, compiled as one text; those at the places `scheduled` by their
    default schedules, the others as they are written."""
    funcs = [
        dataclasses.replace(ops.prim_func(*case), name="{}_{}_".format(*case)) for case in cases
    ]
    lowered = [
        lower(default_schedule(func, target).func if place in scheduled else func, target)
        for place, func in enumerate(funcs)
    ]
    emulator = Emulator(cuda_text(lowered[-1], target, *lowered[:-1]).source, cache=cache)
    backend, made = backend_of(target.kind), list[CompiledKernel]()
    for func, ir in zip(funcs, lowered):
        signature = Signature.of(func, ir.size_vars)
        code = Emulated(ir, signature, target, emulator)
        kernel = CompiledKernel(
            func, ir, emulator.source, target, signature, backend, code, backend.load(code)
        )
        made.append(kernel)
    return made
