"""Fixtures of the tests that compile: hand-written C, and NVRTC."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backends import CompiledKernel, ObjectCache, build_source
from tensorir import PrimFunc


@pytest.fixture(scope="session")
def compile_text(cache: ObjectCache) -> Callable[[PrimFunc, str], CompiledKernel]:
    """compile_text(func, c_text): the kernel of hand-written C with the arguments of `func`."""

    def compile_(func: PrimFunc, text: str) -> CompiledKernel:
        return build_source(func, text, cache=cache)

    return compile_


@pytest.fixture(scope="session")
def with_nvrtc() -> str:
    """The version of the compiler of CUDA text, which needs no GPU, as "13.0".

    The test is skipped, with the command that installs it, where it is not installed.
    """
    from backends.cuda import nvrtc

    missing = nvrtc.why_not()
    if missing and "cannot be imported" in missing:
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    return "{}.{}".format(*nvrtc.version())
