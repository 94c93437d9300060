"""te.extern: what is defined, what is refused, and that text, interpreter and reference agree."""

from __future__ import annotations

import numpy as np
import pytest

from tensorir import (
    BUILT_IN_EXTERNS,
    EXTERNS,
    ExternFunc,
    ParseError,
    TensorIRError,
    VerifyError,
    find_extern,
    interpret,
    parse,
    reference,
    reference_with_tolerance,
    structural_equal,
    structural_hash,
    te,
    verify,
)

NAN = float("nan")


def rows(n=3, m=5, func="sort", dtype="float32"):
    a = te.placeholder((n, m), dtype, name="A")
    return te.create_prim_func([a, te.extern((n, m), a, func, name="S")], name="rows")


def best(n=3, m=5, k=2):
    a = te.placeholder((n, m), name="A")
    values, places = te.extern([(n, k), (n, k)], a, "topk", name="top")
    return te.create_prim_func([a, values, places], name="best")


def stages(n=4, m=6):
    """A stage that rounds, sorted, and used."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 3.0, name="B")
    s = te.extern((n, m), b, "sort", name="S")
    c = te.compute((n, m), lambda i, j: s[i, j] + b[i, j], name="C")
    return te.create_prim_func([a, c], name="stages")


def test_golden(golden):
    golden(str(stages()), "stages")
    golden(str(best()), "topk")


@pytest.mark.parametrize("func", [rows(), best(), stages(), rows(te.var("n"), te.var("m"))])
def test_text_and_structure(func):
    verify(func)
    again = parse(str(func))
    assert str(again) == str(func)
    assert structural_equal(func, again, names=True)
    assert structural_hash(func) == structural_hash(again)


def test_structure_knows_the_function():
    assert not structural_equal(rows(func="sort"), rows(func="argsort", dtype="int64"))
    same = rows(func="sort", dtype="int64"), rows(func="argsort", dtype="int64")
    assert structural_hash(same[0]) != structural_hash(same[1])


def test_records_of_another_function_of_that_name_are_others(extern_cleanup):
    hashes = []
    for text in ("$NAME", "$NAME /* faster */"):
        func = ExternFunc("test.same", "(n)->(n)", [("float32", "float32")], text, np.sort)
        EXTERNS.pop("test.same", None)
        extern_cleanup(func)
        hashes.append(structural_hash(rows(func="test.same")))
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (1, 1), (7, 13)])
def test_rows_of_any_size(shape):
    a = np.random.default_rng(0).integers(-3, 4, shape).astype("float32")
    for func in (rows(*shape), rows(te.var("n"), te.var("m"))):
        verify(func)
        np.testing.assert_array_equal(interpret(func, a)[0], np.sort(a, axis=1))
        np.testing.assert_array_equal(reference(func, a)[0], np.sort(a, axis=1))


def test_nan_comes_last():
    a = np.array([[NAN, 1.0, -np.inf, NAN, np.inf]], "float32")
    np.testing.assert_array_equal(
        interpret(rows(1, 5), a)[0], np.array([[-np.inf, 1.0, np.inf, NAN, NAN]], "float32")
    )
    values, places = interpret(best(1, 5, 3), a)
    np.testing.assert_array_equal(values, np.array([[NAN, NAN, np.inf]], "float32"))
    np.testing.assert_array_equal(places, [[0, 3, 4]])


def test_whole_tensors_have_no_loop():
    a = te.placeholder((6,), name="A")
    func = te.create_prim_func([a, te.extern((6,), a, "argsort", name="I")], name="whole")
    assert "for " not in str(func)
    x = np.array([3, 1, 2, 1, 0, 3], "float32")
    np.testing.assert_array_equal(interpret(func, x)[0], np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(reference(func, x)[0], np.argsort(x, kind="stable"))


def test_an_input_without_rows_is_shared(extern_cleanup):
    extern_cleanup(scaled())
    a = te.placeholder((3, 4), name="A")
    w = te.placeholder((4,), name="W")
    func = te.create_prim_func([a, w, te.extern((3, 4), [a, w], "test.scaled")], name="f")
    verify(func)
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.array([1, 2, 3, 4], "float32")
    np.testing.assert_array_equal(interpret(func, x, y)[0], x * y)


def test_a_step_of_several_dimensions(extern_cleanup):
    """Rows in front of two dimensions, one of them another in the output."""
    flip = ExternFunc("test.flip", "(a,b)->(b,a)", [("int8", "int8")], "$NAME", np.transpose)
    extern_cleanup(flip)
    a = te.placeholder((2, 3, 4), "int8", name="A")
    func = te.create_prim_func([a, te.extern((2, 4, 3), a, flip, name="T")], name="f")
    verify(func)
    x = np.arange(24, dtype="int8").reshape(2, 3, 4)
    np.testing.assert_array_equal(interpret(func, x)[0], x.transpose(0, 2, 1))
    np.testing.assert_array_equal(reference(func, x)[0], x.transpose(0, 2, 1))


class TestBounds:
    def test_exact_inputs_leave_nothing_to_differ(self):
        a = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
        _, bounds = reference_with_tolerance(best(), a)
        assert not bounds[0].any() and not bounds[1].any()

    def test_sorted_values_move_as_far_as_the_inputs(self):
        a = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
        (value,), (bound,) = reference_with_tolerance(stages(), a)
        found = interpret(stages(), a)[0]
        assert np.isfinite(bound).all() and (np.abs(found - value) <= bound).all()
        assert (bound > 0).all() and bound.max() < 1e-5

    def test_nothing_is_known_of_places_of_rounded_values(self):
        a = te.placeholder((2, 3), name="A")
        b = te.compute((2, 3), lambda i, j: a[i, j] * 3.0, name="B")
        func = te.create_prim_func([a, te.extern((2, 3), b, "argsort", name="I")], name="f")
        _, (bound,) = reference_with_tolerance(func, np.full((2, 3), 0.1, "float32"))
        assert np.isinf(bound).all()

    def test_integers_stay_exact(self):
        a = te.placeholder((2, 3), "int32", name="A")
        b = te.compute((2, 3), lambda i, j: a[i, j] * 3, name="B")
        func = te.create_prim_func([a, te.extern((2, 3), b, "argsort", name="I")], name="f")
        _, (bound,) = reference_with_tolerance(func, np.ones((2, 3), "int32"))
        assert not bound.any()

    def test_a_function_that_rounds(self, extern_cleanup):
        extern_cleanup(scaled(rtol=1e-3))
        a, w = te.placeholder((2, 3), name="A"), te.placeholder((3,), name="W")
        func = te.create_prim_func([a, w, te.extern((2, 3), [a, w], "test.scaled")], name="f")
        x, y = np.full((2, 3), 5, "float32"), np.full(3, 4, "float32")
        _, (bound,) = reference_with_tolerance(func, x, y)
        np.testing.assert_allclose(bound, 20 * 1e-3)


def scaled(rtol=0.0):
    return ExternFunc(
        "test.scaled", "(n),(n)->(n)", [("float32",) * 3], "$NAME", np.multiply, rtol=rtol
    )


def placeholder(*shape, dtype="float32"):
    return te.placeholder(shape, dtype, name="A")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: te.extern((3,), placeholder(3), "shuffle"), "there is no extern function"),
        (lambda: te.extern((3,), [placeholder(3)] * 2, "sort"), "2 inputs"),
        (lambda: te.extern((4,), placeholder(3), "sort"), "n = 4"),
        (lambda: te.extern((), placeholder(3), "sort"), "needs 1 at least"),
        (lambda: te.extern((2, 3), placeholder(3, 3), "sort"), "the rows"),
        (lambda: te.extern((3,), placeholder(3), "topk"), "a list with a shape for each"),
        (lambda: te.extern([(4,), (4,)], placeholder(3), "topk"), "k <= n"),
        (lambda: te.extern([(te.var("k"),)] * 2, placeholder(3), "topk"), "k <= n"),
        (lambda: te.extern((3,), placeholder(3), "sort", dtype="int8"), "is not for"),
        (lambda: te.extern((3,), placeholder(3), "sort", dtype="f4"), "unknown dtype"),
        (lambda: te.extern((3,), [1.0], "sort"), "which is no tensor"),
        (lambda: te.extern((3,), placeholder(3), "sort", name="a b"), "not an identifier"),
        (lambda: te.extern((3,), placeholder(3), scaled()), "there is no extern function"),
    ],
)
def test_what_te_extern_refuses(make, message):
    with pytest.raises(TensorIRError, match=message):
        make()


def test_a_scan_has_no_extern_steps():
    x = te.placeholder((5, 3), name="X")
    s = te.placeholder((5, 3), name="s")
    first = te.compute((1, 3), lambda _, i: x[0, i], name="first")
    step = te.extern((5, 3), s, "sort", name="step")
    with pytest.raises(TensorIRError, match="is not a te.compute"):
        te.scan(first, step, s)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"signature": "(n)"}, "is no signature"),
        ({"signature": "(n)->"}, "has no output"),
        ({"signature": "(n*2)->(n)"}, "is no signature"),
        ({"dtypes": []}, "no combination of dtypes"),
        ({"dtypes": [("float32",)]}, "not one for each of 2 arguments"),
        ({"dtypes": [("float32", "float33")]}, "unknown dtype"),
        ({"c": "void f(void);"}, "does not define"),
        ({"bounded": (1,)}, "are no outputs"),
    ],
)
def test_what_a_declaration_must_say(changes, message):
    good = {
        "name": "test.good",
        "signature": "(n)->(n)",
        "dtypes": [("float32", "float32")],
        "c": "$NAME",
        "numpy": np.sort,
    }
    ExternFunc(**good)
    with pytest.raises(TensorIRError, match=message):
        ExternFunc(**{**good, **changes})


def test_a_meaning_of_other_shapes(extern_cleanup):
    extern_cleanup(ExternFunc("test.sum", "(n)->()", [("float32", "float32")], "$NAME", np.sort))
    a = te.placeholder((3,), name="A")
    func = te.create_prim_func([a, te.extern((), a, "test.sum")], name="f")
    with pytest.raises(TensorIRError, match=r"returns shapes \[\(3,\)\] where it says \[\(\)\]"):
        interpret(func, np.ones(3, "float32"))


TEXT = """
@prim_func
def f(A: f32[4, 5], B: f32[4, 5]):
    for i in range(4):
        with block("B"):
            vi = spatial(4, i)
            extern("sort", [part(B[vi, 0], 5)], [part(A[vi, 0], 5)])
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"sort"', '"shuffle"', "the name of an extern function"),
        ("[part(A[vi, 0], 5)]", "part(A[vi, 0], 5)", "a list of parts"),
        ("part(A[vi, 0], 5)", "A[vi, 0]", "a part with its first element"),
        (", [part(A[vi, 0], 5)]", "", "extern"),
    ],
)
def test_text_that_is_no_call(old, new, message):
    with pytest.raises(ParseError, match=message):
        parse(TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("part(A[vi, 0], 5)", "part(A[vi, 0], 4)", "with n = 4 and with n = 5"),
        ("part(A[vi, 0], 5)", "part(A[vi, 1], 5)", "not all of its last"),
        ("A: f32[4, 5], B: f32[4, 5]", "A: f32[4, 5], B: f32[4, 6]", "not all of its last"),
        ("part(A[vi, 0], 5)", "part(A[vi + 1, 0], 5)", "index 0"),
        ("[part(A[vi, 0], 5)]", "[]", "0 inputs"),
        ("A: f32[4, 5]", "A: i32[4, 5]", "is not for"),
        ("part(A[vi, 0], 5)", "part(B[vi, 0], 5)", "twice"),
        ("part(A[vi, 0], 5)", "part(A[vi], 5)", "begins at 1 indices"),
        ("part(A[vi, 0], 5)", "part(A[0, 0], 4, 5)", "asks for 1"),
        ("vi = spatial(4, i)", "vi = reduce(4, i)", "reduction"),
        ("range(4)", "vectorized(4)", "inside the vectorized loop"),
        ("(A: f32[4, 5], ", "(", "a buffer, not 'A'"),
    ],
)
def test_programs_that_call_wrongly(old, new, message):
    verify(parse(TEXT))
    with pytest.raises((VerifyError, ParseError), match=message):
        verify(parse(TEXT.replace(old, new)))


def test_what_was_never_written_is_not_read():
    text = TEXT.replace("    for i", "    T = alloc(f32[4, 5])\n    for i").replace("A[vi", "T[vi")
    with pytest.raises(VerifyError, match="reads 'T' before anything writes it"):
        verify(parse(text))
    with pytest.raises(VerifyError, match="never written"):
        interpret(parse(text), np.ones((4, 5), "float32"))


def test_races_of_rows():
    """All iterations write row 0."""
    text = TEXT.replace("range(4)", "parallel(4)").replace("part(B[vi, 0]", "part(B[0, 0]")
    with pytest.raises(VerifyError, match="race in the parallel loop 'i'"):
        interpret(parse(text), np.ones((4, 5), "float32"), races=True)
    interpret(parse(TEXT), np.ones((4, 5), "float32"), races=True)


def test_built_in_functions_are_known():
    assert all(find_extern(each.name) is each for each in BUILT_IN_EXTERNS)
    assert {each.name for each in BUILT_IN_EXTERNS} == {"sort", "argsort", "topk"}
