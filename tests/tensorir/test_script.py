"""Programs as Python functions under @prim_func."""

import numpy as np
import pytest

from backends import ObjectCache, build
from schedule import Schedule
from tensorir import te
from tensorir.errors import ParseError, TensorIRError, VerifyError
from tensorir.interpreter.interpret import interpret
from tensorir.structural import structural_equal
from tensorir.text.parser import parse
from tensorir.text.script import (
    alloc,
    block,
    f32,
    grid,
    i64,
    init,
    let,
    opaque,
    prim_func,
    reduce,
    spatial,
    where,
)

n = te.var("n")
ROWS, HALF = 6, np.float32(0.5)


@prim_func
def scaled(A: f32[ROWS, n], B: f32[ROWS, n]):
    """A docstring is no statement."""
    for i, j in grid(ROWS, n):
        with block("B"):
            vi = spatial(ROWS, i)
            vj = spatial(n, j)
            B[vi, vj] = A[vi, vj] * HALF


@te.prim_func
def prefix(A: f32[n], B: f32[n]):
    for i in range(n):
        with block("B"):
            vi = opaque(n, i)
            B[vi] = A[vi] + select(vi < 1, 0.0, B[vi - 1])  # noqa: F821


def test_numbers_and_sizes_around_it():
    assert repr(scaled).strip() == (
        "@prim_func\n"
        "def scaled(A: f32[6, n], B: f32[6, n]):\n"
        "    for i, j in grid(6, n):\n"
        '        with block("B"):\n'
        "            vi = spatial(6, i)\n"
        "            vj = spatial(n, j)\n"
        "            B[vi, vj] = A[vi, vj] * 0.5"
    )


@pytest.mark.parametrize("func", [scaled, prefix], ids=lambda func: func.name)
def test_it_is_a_program_like_any_other(func, tmp_path):
    x = np.random.default_rng(0).normal(size=(6, 5)[2 - len(func.params[0].shape) :])
    x = x.astype("float32")
    expected = interpret(func, x)[0]
    np.testing.assert_allclose(expected, x * 0.5 if func is scaled else x.cumsum(), rtol=1e-5)
    np.testing.assert_array_equal(build(func, cache=ObjectCache(tmp_path))(x), expected)
    assert structural_equal(parse(repr(func)), func)


def test_it_is_scheduled_like_any_other():
    sch = Schedule(scaled)
    i, j = sch.get_loops("B")
    sch.parallel(i)
    assert "parallel(6)" in repr(sch.func)


def closed(rows, scale):
    """The numbers of a function around it; its own names win."""
    j = 100

    @prim_func
    def made(A: f32[rows, 3], B: f32[rows]):
        for i in range(rows):
            for j in range(3):
                with block("B"):
                    vi = spatial(rows, i)
                    vj = reduce(3, j)
                    with init():
                        B[vi] = 0.0
                    B[vi] = B[vi] + A[vi, vj] * scale

    return made, j


@pytest.mark.parametrize("rows", [1, 7])
def test_closures(rows):
    made, _ = closed(rows, -1.5)
    x = np.ones((rows, 3), "float32")
    np.testing.assert_array_equal(interpret(made, x)[0], np.full(rows, -4.5))
    assert interpret(closed(rows, float("inf"))[0], x)[0].tolist() == [np.inf] * rows


def test_a_printed_program_can_be_pasted(tmp_path, monkeypatch):
    """Every program of te is read back as the same from a file, with no name defined but those."""
    X = te.placeholder((te.var("m"), 5), name="X")
    k = te.reduce_axis(5, "k")
    Y = te.compute((te.var("m"),), lambda i: te.max(te.exp(X[i, k]), axis=k), name="Y")
    Z = te.compute((te.var("m"),), lambda i: te.if_then_else(i < 2, Y[i], -Y[i]), name="Z")
    func = te.create_prim_func([X, Z])
    sch = Schedule(func)
    sch.split(sch.get_loops("Z")[0], [None, 4])
    for number, made in enumerate((func, sch.func)):
        head = "from __future__ import annotations\nfrom tensorir.text.script import *\n\n\n"
        (tmp_path / f"pasted{number}.py").write_text(head + repr(made))
        monkeypatch.syspath_prepend(str(tmp_path))
        module = __import__(f"pasted{number}")
        assert structural_equal(module.main, made)


def refused(define):
    with pytest.raises(TensorIRError) as caught:
        define()
    return caught


def unknown_name():
    @prim_func
    def made(A: f32[4], B: f32[4]):
        for i in range(4):
            with block("B"):
                vi = spatial(4, i)
                B[vi] = A[missing]  # noqa: F821  here

    return made


def a_default():
    @prim_func
    def made(A: f32[4], B: f32[4] = None):  # here
        pass


def a_star():
    @prim_func
    def made(A: f32[4], *, B: f32[4]):  # here
        pass


def a_string():
    text = "4"

    @prim_func
    def made(A: f32[4], B: f32[4]):
        for i in range(4):
            with block("B"):
                vi = spatial(4, i)
                B[vi] = A[text]  # here


def no_loop():
    @prim_func
    def made(A: f32[4], B: f32[4]):
        while True:  # here
            pass


@pytest.mark.parametrize("define", [unknown_name, a_default, a_star, a_string, no_loop])
def test_what_is_not_of_the_language_is_named_by_file_and_line(define):
    caught = refused(define)
    assert caught.type is ParseError
    with open(__file__) as file:
        lines = file.read().split("\n")
    start = define.__code__.co_firstlineno
    number = next(k for k in range(start, len(lines)) if lines[k].endswith("here")) + 1
    assert f"test_script.py:{number}: expected" in str(caught.value)


def test_it_is_verified():
    def define():
        @prim_func
        def made(A: f32[4], B: f32[4]):
            for i in range(4):
                with block("B"):
                    vi = spatial(4, i)
                    B[vi] = A[vi + 1]

    assert refused(define).type is VerifyError


def test_it_reads_functions_with_a_source_only():
    assert "reads a function" in str(refused(lambda: prim_func(3)).value)
    space = {"prim_func": prim_func, "f32": f32}
    with pytest.raises(TensorIRError, match="give the text to tensorir.parse"):
        exec("@prim_func\ndef made(A: f32[4]):\n    pass\n", space)


def test_statements_for_te_extern_have_their_place_here():
    A = te.placeholder((4,), name="A")
    with pytest.raises(TensorIRError, match="statements are written under @te.prim_func"):
        te.extern((4,), [A], lambda ins, outs: None, name="B")


def test_its_words_are_no_functions():
    for word in (alloc, block, grid, init, let, opaque, reduce, spatial, where, f32, i64):
        with pytest.raises(TensorIRError, match="is a word of the programs under @prim_func"):
            word(1)
