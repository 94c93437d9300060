"""Every operator on every example, compiled as it is by default, against its NumPy reference.

Many programs are compiled together: each call of the compiler takes as long as a dozen of them.
"""

from __future__ import annotations

import dataclasses

import pytest
from operator_examples import check

from backends import CompiledKernel, ObjectCache, resolve
from backends.build import backend_of
from backends.c.emit.codegen import emit
from backends.c.emit.export import packed_entry
from backends.call.signature import Signature
from tensorir import PrimFunc, lower, ops, prove

TOGETHER = 40
CASES = [(name, n) for name, op in ops.OPERATORS.items() for n in range(len(op.examples))]
SAMPLES = 3
"""A run of all tests has the first of so many examples of each operator."""


def kernels(funcs: list[PrimFunc], cache: ObjectCache) -> list[CompiledKernel]:
    """The kernels of programs, which have names of their own, in one object."""
    target, backend = resolve("c"), backend_of("c")
    for func in funcs:
        prove(func)
    lowered = [lower(func, target) for func in funcs]
    signatures = [Signature.of(func, ir.size_vars) for func, ir in zip(funcs, lowered)]
    *before, last = lowered
    source = emit(last, target, *before) + "".join(map(packed_entry, before, signatures))
    together = backend.compile(last, source, target, signatures[-1], cache, timeout=120.0)
    found = []
    for func, ir, signature in zip(funcs, lowered, signatures):
        made = dataclasses.replace(together, ir=ir, signature=signature)
        kernel = backend.kernel_type(signature)
        found.append(
            kernel(func, ir, source, target, signature, backend, made, backend.load(made))
        )
    return found


@pytest.mark.parametrize("first", range(0, len(CASES), TOGETHER))
def test_operators_compiled(first, cache, samples):
    cases = CASES[first : first + TOGETHER]
    if samples:
        cases = [case for case in cases if case[1] % SAMPLES == 0]
    funcs = [
        dataclasses.replace(ops.prim_func(*case), name="{}_{}_".format(*case)) for case in cases
    ]
    for (name, number), kernel in zip(cases, kernels(funcs, cache)):
        check(name, number, kernel)
