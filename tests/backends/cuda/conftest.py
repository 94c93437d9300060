"""Programs on the emulator of GPUs: in SPMD form as text, or serial code given to threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from backends import CompiledKernel, ObjectCache, build_source
from backends.cuda.text import cuda_text
from tensorir import Const, For, ForKind, PrimFunc, Stmt, Target, Var, const, replace
from tensorir.text.parser import parse

Run = Callable[..., int]


def _threaded(body: Stmt) -> Stmt:
    """Serial code as a kernel: its outermost loop over the threads of one block, if that fits."""
    if isinstance(body, For) and isinstance(body.extent, Const) and body.extent.value <= 1024:
        return replace(body, kind=ForKind.THREAD, thread="threadIdx.x")
    return For(Var("one"), const(1), body, ForKind.THREAD, {}, "threadIdx.x")


@pytest.fixture(scope="session")
def threaded() -> Callable[[Stmt], Stmt]:
    """threaded(body): serial code as a kernel of one block."""
    return _threaded


@pytest.fixture
def emulated(cache: ObjectCache) -> Callable[..., CompiledKernel]:
    """emulated(program): the kernel of a lowered program, which is IR in SPMD form or its text."""

    def emulated_(program: PrimFunc | str, target: str = "cuda-emulator") -> CompiledKernel:
        func = parse(program) if isinstance(program, str) else program
        return build_source(func, cuda_text(func, Target.parse(target)).source, target, cache=cache)

    return emulated_


@pytest.fixture
def run(emulated: Callable[..., CompiledKernel]) -> Run:
    """run(program, *arrays, sizes): serial code on the emulator, as the tests of C run it."""

    def run_(
        program: PrimFunc | str, *arrays: np.ndarray, sizes: tuple[int, ...] = (), **_: object
    ) -> int:
        func = parse(program) if isinstance(program, str) else program
        func = PrimFunc(func.name, func.params, (), _threaded(func.body), func.attrs)
        emulated(func)._executable.run(list(arrays), list(sizes))
        return 0

    return run_
