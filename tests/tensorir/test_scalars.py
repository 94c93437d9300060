"""Numbers among the arguments of a program: how they are held, printed, checked and evaluated."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import (
    Scalar,
    TensorIRError,
    Var,
    VerifyError,
    interpret,
    parse,
    reference,
    specialize,
    split_constants,
    structural_equal,
    structural_hash,
    te,
    verify,
)
from tensorir.text.script import block, f32, i64, prim_func, spatial


def parts(order="A factor C"):
    """Sums of `factor` neighbours."""
    n, factor = te.var("n"), te.var("factor")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(factor, name="k")
    c = te.compute((n // factor,), lambda i: te.sum(a[i * factor + k], axis=k), name="C")
    table = {"A": a, "factor": factor, "C": c}
    return te.create_prim_func([table[name] for name in order.split()], name="parts")


def shifted():
    n, shift = te.var("n"), te.var("shift")
    a = te.placeholder((n,), name="A")
    inside = lambda i: te.all(i + shift >= 0, i + shift < n)  # noqa: E731
    c = te.compute((n,), lambda i: te.if_then_else(inside(i), a[i + shift], 0.0), name="C")
    return te.create_prim_func([shift, a, c], name="shifted")


@pytest.mark.parametrize("order", ["A factor C", "factor A C", "A C factor"])
def test_a_number_stands_where_the_arguments_have_it_and_is_printed_and_read_there(order):
    func = parts(order)
    assert [argument.name for argument in func.arguments] == order.split()
    assert [p.name for p in func.params] == ["A", "C"]
    text = str(func)
    assert text.splitlines()[1].count("factor: i64 >= 1") == 1
    again = parse(text)
    assert str(again) == text
    assert structural_equal(func, again, names=True)
    verify(again)


def test_what_a_number_is_used_for_says_the_least_that_it_may_be():
    n, size, step, any_ = (te.var(name) for name in ("n", "size", "step", "any"))
    a = te.placeholder((n,), name="A")
    c = te.compute(
        (n, size), lambda i, j: a[i // step] * any_ + (i * any_) % 2, name="C"
    )
    func = te.create_prim_func([a, size, step, any_, c])
    assert {s.name: s.least for s in func.scalars} == {"size": 0, "step": 1, "any": None}
    assert dict(func.size_ranges) == {n: 0, size: 0, step: 1, any_: None}


def test_a_size_that_divides_in_a_shape_is_positive_whoever_tells_it():
    n, m = te.var("n"), te.var("m")
    a, b = te.placeholder((m,), name="A"), te.placeholder((n,), name="B")
    k = te.reduce_axis(n, name="k")
    c = te.compute((m // n,), lambda i: te.sum(a[i * n + k] * b[k], axis=k), name="C")
    func = te.create_prim_func([a, b, c])
    verify(func)
    assert dict(func.size_ranges) == {m: 0, n: 1}
    a, b = np.arange(7, dtype="float32"), np.ones(3, "float32")
    assert interpret(func, a, b)[0].tolist() == [3, 12]
    with pytest.raises(TensorIRError, match="size 'n' of function 'main' is 0, and has to be 1"):
        interpret(func, a, b[:0])


def test_two_programs_differ_where_their_numbers_do():
    keys = {structural_hash(parts(order)) for order in ("A factor C", "factor A C", "A C factor")}
    assert len(keys) == 3
    text = str(parts())
    other = parse(text.replace("i64 >= 1", "i64 >= 2"))
    assert not structural_equal(parse(text), other)
    renamed = parse(text.replace("factor", "f"))
    assert structural_equal(parse(text), renamed)


@pytest.mark.parametrize("run", [interpret, reference])
def test_values_come_from_the_arguments_or_from_sizes(run):
    a = np.arange(13, dtype="float32")
    for factor in (1, 2, 5, 13, 14, 2**31 - 1):
        whole = a[: len(a) // factor * factor] if factor <= 13 else a[:0]
        expected = whole.reshape(-1, min(factor, 13)).sum(axis=1).tolist() if whole.size else []
        assert run(parts(), a, factor)[0].tolist() == expected
        assert run(parts(), a, sizes={"factor": factor})[0].tolist() == expected
    empty = np.zeros(13 // 5, "float32")
    assert run(parts("A C factor"), a, empty, 5)[0].tolist() == [10, 35]
    for shift in (-20, -1, 0, 3, 20):
        expected = [a[i + shift] if 0 <= i + shift < 13 else 0 for i in range(13)]
        assert run(shifted(), np.int64(shift), a)[0].tolist() == expected


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "is 0, and has to be 1 or more"),
        (-1, "is -1, and has to be 1 or more"),
        (2**31, "is from -2147483648 to 2147483647"),
        (2.0, "is 2.0 of type float, no integer"),
        (True, "is True of type bool, no integer"),
        (np.array([2]), "no integer; pass .item"),
        (None, "of type NoneType, no integer"),
    ],
)
def test_what_is_no_number_for_the_program_is_refused(value, words):
    a = np.arange(4, dtype="float32")
    with pytest.raises(TensorIRError, match=f"size 'factor' of function 'parts' {words}|{words}"):
        interpret(parts(), a, value)
    with pytest.raises(TensorIRError):
        reference(parts(), a, value)


def test_a_wrong_count_says_which_arguments_there_are():
    with pytest.raises(TensorIRError, match=r"takes 2 inputs \(A, factor\), or all 3 parameters"):
        interpret(parts(), np.zeros(3, "float32"))


def test_an_array_and_a_number_for_one_size_agree():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    func = te.create_prim_func([n, a, te.compute((n,), lambda i: a[i] + 1, name="B")])
    assert str(func).splitlines()[1] == "def main(n: i64 >= 0, A: f32[n], B: f32[n]):"
    assert interpret(func, 2, np.zeros(2, "float32"))[0].tolist() == [1, 1]
    with pytest.raises(TensorIRError, match=r"'A' has shape \(2,\), and the parameter \(3,\)"):
        interpret(func, 3, np.zeros(2, "float32"))


def test_a_dimension_that_comes_out_negative_is_named():
    n, gone = te.var("n"), te.var("gone")
    a = te.placeholder((n,), name="A")
    c = te.compute((n - gone,), lambda i: a[i + gone], name="C")
    func = te.create_prim_func([a, gone, c])
    assert interpret(func, np.arange(3, dtype="float32"), 2)[0].tolist() == [2]
    for run in (interpret, reference):
        with pytest.raises(TensorIRError, match="'C' has the dimension n - gone, which is -1 for"):
            run(func, np.arange(3, dtype="float32"), 4)


def test_specialize_puts_a_number_in_its_place_and_keeps_the_order_of_the_others():
    n, first, last = te.var("n"), te.var("first"), te.var("last")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] * first + last, name="C")
    func = te.create_prim_func([first, a, c, last])
    some = specialize(func, {"first": 3})
    assert [s.name for s in some.arguments] == ["A", "C", "last"]
    assert interpret(some, np.ones(2, "float32"), -1)[0].tolist() == [2, 2]
    verify(some)
    assert specialize(some, {"last": 1}).scalars == ()
    with pytest.raises(TensorIRError, match="parts: size 'factor' is 0, and has to be 1 or more"):
        specialize(parts(), {"factor": 0})


def test_numbers_stay_in_their_places_where_constants_go():
    n, m = te.var("n"), te.var("m")
    w = te.placeholder((8,), name="W")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(8, name="k")
    s = te.compute((8,), lambda i: w[i] * 2.0, name="S")
    c = te.compute((n, m), lambda i, j: te.sum(a[i] * s[k] * m, axis=k), name="C")
    found = split_constants(te.create_prim_func([w, m, a, c, te.var("q")]), ["W"])
    assert [x.name for x in found.main.arguments] == ["m", "A", "S", "C", "q"]
    assert found.prepare is not None and found.prepare.scalars == ()
    verify(found.main)
    verify(found.prepare)


def test_a_name_is_that_of_one_argument():
    n, i = te.var("n"), te.var("i")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i_: a[i_] * te.var("i"), name="C")
    func = te.create_prim_func([a, i, c])
    assert interpret(func, np.ones(2, "float32"), 4)[0].tolist() == [4, 4]
    b = te.compute((n,), lambda i: a[i] * te.var("A"), name="B")
    renamed = te.create_prim_func([te.var("A"), a, b])
    assert len({x.name for x in renamed.arguments}) == 3
    verify(renamed)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda n, a, c: [n, a, n, c], "number 'n' is given twice in the arguments"),
        (lambda n, a, c: [a, n + 1, c], "argument 1 of create_prim_func is n . 1 of type BinOp"),
        (lambda n, a, c: [a, 3, c], "argument 1 of create_prim_func is 3 of type int, no tensor"),
        (lambda n, a, c: [a, c.op.axis[0], c], "argument 1 of create_prim_func is i of type Axis"),
        (lambda n, a, c: n, "takes a list of tensors"),
        (lambda n, a, c: [n], "needs an output"),
    ],
)
def test_arguments_that_are_neither_tensors_nor_numbers_are_refused(make, words):
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i], name="C")
    with pytest.raises(TensorIRError, match=words):
        te.create_prim_func(make(n, a, c))


def test_a_size_that_nothing_tells_can_become_an_argument():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n,), name="A")
    c = te.compute((n, m), lambda i, j: a[i] + j, name="C")
    b = te.compute((n,), lambda i: a[i] * m, name="B")
    te.create_prim_func([a, c])  # the array of the output tells it
    with pytest.raises(TensorIRError, match=r"put te.var\('m'\) itself among the arguments"):
        te.create_prim_func([a, b])
    te.create_prim_func([a, m, b])


HEAD = "def f({arguments}):\n    for i in range(4):\n        C[i] = 1.0\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("n: i64 > 0, C: f32[4]", "or a number: f32, or i64 >= 1"),
        ("n: i64 >= m, C: f32[4]", "m"),
        ("n: i64 >= 1.0, C: f32[4]", "or a number: f32, or i64 >= 1"),
        ("n: i32 >= 1, C: f32[4]", "or a number: f32, or i64 >= 1"),
        ("n: f32x4, C: f32[4]", "or a number: f32, or i64 >= 1"),
        ("C: f32[n], n: f32", "i64 for 'n', which is a size in a shape"),
        ("n: q, C: f32[4]", "a type such as f32 or i64"),
        ("n: f32 >= 1, C: f32[4]", "or a number: f32, or i64 >= 1"),
        ("C: f32[4], C: i64", "a name that no other argument has"),
    ],
)
def test_a_text_that_is_no_number_says_how_one_is_written(arguments, words):
    text = "@prim_func\n" + HEAD.format(arguments=arguments)
    if arguments.count("C:") > 1:
        text = text.replace("C: i64", "D: i64").replace("D", "C")
    with pytest.raises(TensorIRError, match=words):
        parse(text)


def test_numbers_that_do_not_fit_together_are_no_program():
    func = parts()
    (scalar,) = func.scalars
    wrong = [
        ((scalar, Scalar(scalar.var, 2)), "given twice"),
        ((scalar, Scalar(Var("m"), 1)), "has no place of its own"),
        ((Scalar(scalar.var, 7),), "has no place of its own"),
        ((Scalar(scalar.var, 1, 2**40),), "calls give -2147483648 to 2147483647"),
        ((Scalar(Var("q", "int32"), 1, 1),), "only sizes, which are int64, have a least"),
        ((Scalar(Var("factor", "int32"), 1),), "'factor' names two numbers"),
        ((Scalar(Var("q", "float32x4"), 1),), "is float32x4; it is one of bool, int8"),
    ]
    for scalars, words in wrong:
        broken = parts()
        broken.scalars = scalars
        with pytest.raises((VerifyError, TensorIRError), match=words):
            verify(broken)


def test_a_function_of_python_declares_numbers():
    @prim_func
    def strided(A: f32[n], step: i64 >= 1, C: f32[n // step]):  # noqa: F821
        for i in range(n // step):  # noqa: F821
            with block("C"):
                vi = spatial(n // step, i)  # noqa: F821
                C[vi] = A[vi * step]

    assert interpret(strided, np.arange(7, dtype="float32"), 3)[0].tolist() == [0, 3]
    assert (i64 >= 1) is i64  # where annotations are evaluated


def test_a_program_with_numbers_is_no_stage_of_tensors():
    a = te.placeholder((8,), name="X")
    with pytest.raises(TensorIRError, match="takes the number 'factor', and a stage takes tensors"):
        parts()(a)
    assert specialize(parts(), {"factor": 2})(a).shape[0].value == 4


def test_index_facts_of_quotients_by_numbers():
    """What the proofs of such programs need, at the edges of what they may assume."""
    n, factor = te.var("n"), te.var("factor")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(factor, name="k")
    with pytest.raises(VerifyError, match="can read outside of 'A'"):
        te.compute((n // factor,), lambda i: te.sum(a[i * factor + k + 1], axis=k))
    with pytest.raises(VerifyError, match="can read outside of 'A'"):
        te.compute((n // factor + 1,), lambda i: te.sum(a[i * factor + k], axis=k))
    te.compute((n,), lambda i: a[i // factor])  # a number, if no array tells it
    with pytest.raises(VerifyError, match="can read outside of 'A'"):  # n may be 0
        te.compute((4,), lambda i: a[i % n])
    shift = te.var("shift")
    with pytest.raises(VerifyError, match="can read outside of 'A'"):
        te.compute((n,), lambda i: te.if_then_else(i + shift < n, a[i + shift], 0.0))
    fixed = te.placeholder((1,), name="A")
    c = te.compute((1 // factor,), lambda i: te.sum(fixed[i * factor + k], axis=k), name="C")
    func = te.create_prim_func([fixed, factor, c])
    verify(func)
    assert [interpret(func, np.ones(1, "float32"), f)[0].tolist() for f in (1, 2)] == [[1], []]
