"""Fixtures of the tests that compile: one object cache for all, away from the user's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backends import CompiledKernel, ObjectCache, build_source
from tensorir import PrimFunc


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> ObjectCache:
    return ObjectCache(tmp_path_factory.mktemp("objects"))


@pytest.fixture(scope="session")
def compile_text(cache: ObjectCache) -> Callable[[PrimFunc, str], CompiledKernel]:
    """compile_text(func, c_text): the kernel of hand-written C with the arguments of `func`."""

    def compile_(func: PrimFunc, text: str) -> CompiledKernel:
        return build_source(func, text, cache=cache)

    return compile_
