"""Functions of memory and threads: in every text, and compiled once for all kernels."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from backends import build
from backends.c import compiler as cc
from backends.c.objects import SUPPORT
from backends.c.support import split_support
from tensorir import parse

PROGRAM = """
@prim_func
def NAME(A: f32[SIZE], B: f32[SIZE]):
    with alloc(T, f32[SIZE]):
        for i in parallel(SIZE):
            T[i] = A[i] * 2.0
        for j in parallel(SIZE):
            B[j] = T[SIZE - 1 - j]
"""


def program(name, size):
    return parse(PROGRAM.replace("SIZE", str(size)).replace("NAME", name))


@pytest.fixture
def source(cache):
    return build(program("first", 100_000), cache=cache).source


def test_only_declarations_are_compiled_with_a_kernel(source):
    text, found = split_support(source, SUPPORT)
    assert [support.name for support in found] == ["threads", "workspace"]
    for support in found:
        assert support.text not in text and support.declared in text
    assert split_support(text, SUPPORT) == (text, ())


def test_functions_that_somebody_changed_are_those_of_the_text(source):
    changed = source.replace("sizeof *block;", "sizeof *block + 64;")
    assert changed != source
    text, found = split_support(changed, SUPPORT)
    assert [support.name for support in found] == ["threads"]
    assert "sizeof *block + 64;" in text


def test_the_second_kernel_is_linked_with_what_the_first_one_was(cache, monkeypatch):
    build(program("first", 100_000), cache=cache)

    def compile_part(*args):
        raise AssertionError("compiled again")

    monkeypatch.setattr(cc, "compile_part", compile_part)
    for size in (100_000, 70_001):
        kernel = build(program("second", size), cache=cache)
        given = np.random.default_rng(0).random(size, "float32")
        np.testing.assert_array_equal(kernel(given), 2 * given[::-1])


def test_each_kernel_has_its_own_hidden_copy(cache):
    kernel = build(program("first", 100_000), cache=cache)
    library = ctypes.CDLL(str(kernel._executable.path))
    assert library.first_release
    with pytest.raises(AttributeError):
        library.workspace_take  # noqa: B018
