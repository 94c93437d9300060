"""Numbers among the arguments that are no sizes: factors, thresholds and flags of every type."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tensorir import (
    ParseError,
    TensorIRError,
    VerifyError,
    interpret,
    number_of,
    parse,
    reference,
    reference_with_tolerance,
    specialize,
    split_constants,
    structural_equal,
    structural_hash,
    te,
    verify,
)
from tensorir import dtype as dt
from tensorir.arrays import decode, encode
from tensorir.reference.sums import is_exact
from tensorir.text.script import block, f32, prim_func, spatial

VALUES = [kind for kind in dt.SCALARS if kind != dt.INDEX]
SAMPLE = {"bool": True, **dict.fromkeys(dt.FLOATS, -0.75)}


def scaled(kind="float32", order="A alpha C"):
    """C = alpha where A is positive, and what is between them elsewhere."""
    n, alpha = te.var("n"), te.var("alpha", kind)
    a = te.placeholder((n,), name="A")
    by = te.if_then_else(alpha, 2.0, -1.0) if kind == "bool" else te.cast(alpha, "float32")
    c = te.compute((n,), lambda i: te.if_then_else(a[i] > 0, by, a[i] * by + 1), name="C")
    table = {"A": a, "alpha": alpha, "C": c}
    return te.create_prim_func([table[name] for name in order.split()], name="scaled")


def expected(a, value, kind):
    by = (2.0 if value else -1.0) if kind == "bool" else float(value)
    return np.where(a > 0, by, a * by + 1)


@pytest.mark.parametrize("order", ["A alpha C", "alpha A C", "A C alpha"])
@pytest.mark.parametrize("kind", VALUES)
def test_a_value_of_any_type_stands_where_the_arguments_have_it(kind, order):
    func = scaled(kind, order)
    verify(func)
    assert [argument.name for argument in func.arguments] == order.split()
    assert [v.name for v in func.size_vars] == ["n"]
    assert [v.name for v in func.value_vars] == ["alpha"]
    assert f"alpha: {dt.SHORT[kind]}" in str(func)
    again = parse(str(func))
    assert str(again) == str(func) and structural_equal(func, again, names=True)
    a, value = np.array([-2, 0.5, 0], "float32"), SAMPLE.get(kind, 3)
    arguments = [{"A": a, "alpha": value}[name] for name in order.split() if name != "C"]
    for run in (interpret, reference):
        wanted = expected(a, value, kind)
        np.testing.assert_array_equal(run(func, *arguments)[0], wanted)
        np.testing.assert_array_equal(run(func, a, sizes={"alpha": value})[0], wanted)


def test_programs_whose_values_have_other_types_or_places_differ():
    orders = ("A alpha C", "alpha A C", "A C alpha")
    texts = {kind: str(scaled(kind)) for kind in ("float64", "float32")}
    moved = {structural_hash(scaled(order=order)) for order in orders}
    assert len(moved) == 3
    declared = texts["float32"].replace("alpha: f32", "alpha: f32, beta: f32")
    other = texts["float32"].replace("alpha: f32", "alpha: f32, beta: f16")
    assert structural_hash(parse(declared)) != structural_hash(parse(other))
    renamed = parse(texts["float32"].replace("alpha", "factor"))
    assert structural_equal(scaled(), renamed)


def test_infinities_and_nan_are_values():
    func, a = scaled("float64"), np.array([1.0], "float32")
    for run in (interpret, reference):
        assert run(func, a, math.inf)[0].tolist() == [math.inf]
        assert math.isnan(run(func, a, math.nan)[0][0])


def bits_of(value, kind):
    return int(encode([value], kind).view(f"uint{dt.bits(kind)}")[0])


def of_bits(bits, kind):
    held = np.array([bits], f"uint{dt.bits(kind)}")
    return float(decode(held if kind == "bfloat16" else held.view(kind), kind)[0])


def neighbours(value, kind):
    """The finite numbers of the type beside one of them that is not zero."""
    found = [of_bits(bits_of(value, kind) + step, kind) for step in (-1, 1)]
    return [x for x in found if math.isfinite(x)]


@pytest.mark.parametrize("kind", dt.FLOATS)
def test_a_float_becomes_the_nearest_number_of_the_type_ties_to_even(kind):
    """Against its neighbours, exactly: what is rounded twice may become the wrong number."""
    rng = np.random.default_rng(0)
    held = [of_bits(int(b) + 1, kind) for b in rng.integers(0, 2 ** (dt.bits(kind) - 2), 200)]
    middles = [(x + y) / 2 for x in held for y in neighbours(x, kind)]
    near = [s * m * (1 + e * 2.0**-40) for m in middles for e in (-1, 0, 1) for s in (1, -1)]
    ties = 0
    for value in [*near, 0.1, 4097.0, 1 / 3]:
        found = number_of(value, kind, "x")
        assert decode(encode([found], kind), kind)[0] == found, "a number of the type"
        assert math.copysign(1, found) == math.copysign(1, value)
        error = abs(Fraction(found) - Fraction(value))
        for other in neighbours(found, kind) if found else ():
            beyond = abs(Fraction(other) - Fraction(value))
            assert error < beyond or (error == beyond and bits_of(found, kind) % 2 == 0)
            ties += error == beyond
    assert ties > 100 or kind == "float64"
    assert math.copysign(1, number_of(-0.0, kind, "x")) == -1


GOOD = [
    (2, "float32", 2.0), (np.float64(0.1), "float32", float(np.float32(0.1))),
    (np.array(2.5, "float32"), "float64", 2.5), (np.int8(3), "float16", 3.0),
    (Fraction(1, 3), "float64", 1 / 3), (65504.0, "float16", 65504.0), (10**20, "float32", 1e20),
    (np.float32(np.inf), "float16", math.inf), (-math.inf, "bfloat16", -math.inf),
    (True, "bool", True), (np.bool_(False), "bool", False), (np.array(True), "bool", True),
    (255, "uint8", 255), (2**64 - 1, "uint64", 2**64 - 1), (np.array(7), "int16", 7),
    (-(2**31), "int32", -(2**31)), (2**40, "int64", 2**40),
]  # fmt: skip
"""An int64 is a size, whose limits are asked for elsewhere."""


@pytest.mark.parametrize(("value", "kind", "wanted"), GOOD)
def test_numbers_of_python_and_numpy_are_taken(value, kind, wanted):
    found = number_of(value, kind, "x")
    assert type(found) is type(wanted)
    assert found == (wanted if kind != "float32" else float(np.float32(wanted)))


BAD = [
    (1.0, "int32", "x is 1.0 of type float, no integer; pass an int"),
    (True, "uint8", "of type bool, no integer"), (256, "uint8", "256, and uint8 holds 0 to 255"),
    (-1, "uint64", "-1, and uint64 holds 0 to"), (2**31, "int32", "int32 holds -2147483648 to"),
    (np.float32(1), "int8", "no integer"), (1j, "float32", "of type complex, no real number"),
    ("1", "float64", "is '1' of type str, no real number; pass a float"),
    (None, "float32", "of type NoneType, no real number"), (True, "float32", "of type bool"),
    (np.array([1.0]), "float32", "no real number; pass .item"),
    (np.zeros(3, bool), "bool", "no truth value; pass .item"),
    (1, "bool", "is 1 of type int, no truth value; pass True or False"),
    (1e39, "float32", "1e.39, which is beyond the largest float32; pass float.'inf'"),
    (65520.0, "float16", "beyond the largest float16"), (3.4e38, "bfloat16", "beyond the largest"),
    (10**400, "float64", "beyond the largest float64"), (np.complex64(1), "float64", "no real"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind", "words"), BAD)
def test_what_the_type_cannot_hold_is_refused_with_the_remedy(value, kind, words):
    with pytest.raises(TensorIRError, match=words):
        number_of(value, kind, "x")
    for run in (interpret, reference):
        with pytest.raises(TensorIRError, match="number 'alpha' of function 'scaled' is "):
            run(scaled(kind), np.ones(1, "float32"), value)
    with pytest.raises(TensorIRError, match="scaled: number 'alpha' is "):
        specialize(scaled(kind), {"alpha": value})


def test_a_value_is_put_in_its_place():
    func = scaled("float16")
    fixed = specialize(func, {"alpha": 0.1})
    assert fixed.scalars == () and "0.099975586" in str(fixed)
    a = np.array([-1.0, 1.0], "float32")
    np.testing.assert_array_equal(interpret(fixed, a)[0], interpret(func, a, 0.1)[0])
    assert specialize(func, {"n": 2}).value_vars == func.value_vars


def test_work_that_needs_a_value_is_not_done_ahead():
    alpha = te.var("alpha", "float32")
    w, x = te.placeholder((4,), name="W"), te.placeholder((4,), name="X")
    known = te.compute((4,), lambda i: w[i] * 2.0, name="known")
    late = te.compute((4,), lambda i: known[i] * alpha, name="late")
    c = te.compute((4,), lambda i: late[i] + x[i], name="C")
    parts = split_constants(te.create_prim_func([w, x, alpha, c]), ["W"])
    assert [b.name for b in parts.packed] == ["known"]
    assert parts.prepare is not None and parts.prepare.scalars == ()
    assert [a.name for a in parts.main.arguments] == ["X", "alpha", "known", "C"]
    verify(parts.main)


IN_TE = {
    "a dimension": lambda a, v: te.compute((v,), lambda i: 1.0),
    "a compound dimension": lambda a, v: te.compute((v // 2 + 1,), lambda i: 1.0),
    "a placeholder": lambda a, v: te.placeholder((v,)),
    "a reduce axis": lambda a, v: te.reduce_axis(v),
    "a range": lambda a, v: te.reduce_axis((v, 9)),
    "an index": lambda a, v: te.compute((4,), lambda i: a[te.clip(i + v, 0, 3)]),
    "te.at": lambda a, v: te.compute((4,), lambda i: te.at(a, v)),
    "a choice of index": lambda a, v: te.compute((4,), lambda i: a[te.select(v > 0, i, 3 - i)]),
}


@pytest.mark.parametrize("kind", ["float32", "int32", "uint8", "bfloat16"])
@pytest.mark.parametrize("use", IN_TE)
def test_what_shapes_loops_and_indices_depend_on_is_no_value(use, kind):
    a, value = te.placeholder((4,), name="A"), te.var("alpha", kind)
    given = value.astype("int64") if dt.is_float(kind) else value
    with pytest.raises(TensorIRError, match=f"depends on 'alpha', a number of type {kind}.*te.var"):
        IN_TE[use](a, given)
    if dt.is_float(kind) and use != "a choice of index":
        with pytest.raises(TensorIRError, match="alpha|float32|int64"):
            IN_TE[use](a, value)


TEXT = """
@prim_func
def f(A: f32[n], alpha: {kind}, flag: bool, C: f32[n{shape}]):
    for i in range({extent}):
        with block("C"):
            vi = spatial({domain}, {binding})
            {where}
            C[vi] = A[{index}]
"""
PLAIN = dict(kind="f32", shape="", extent="n", domain="n", binding="i", where="", index="vi")
IN_TEXT = [
    (dict(extent="i64(alpha)"), "the extent of loop 'i' depends on 'alpha'"),
    (dict(kind="i32", extent="i64(alpha)"), "the extent of loop 'i' depends on 'alpha'"),
    (dict(shape=" + i64(alpha)"), "the shape of 'C' depends on 'alpha'"),
    (dict(domain="max(n, i64(alpha))"), "a variable of block 'C' depends on 'alpha'"),
    (dict(binding="i * i64(flag)"), "a variable of block 'C' depends on 'flag'"),
    (dict(where="where(alpha < 1.0)"), "the predicate of block 'C' depends on 'alpha'"),
    (dict(where="where(flag)"), "the predicate of block 'C' depends on 'flag'"),
    (dict(index="max(min(i64(alpha), n - 1), 0)"), "an index in block 'C' depends on 'alpha'"),
    (dict(index="select(flag, vi, n - 1 - vi)"), "an index in block 'C' depends on 'flag'"),
]


@pytest.mark.parametrize(("change", "words"), IN_TEXT)
def test_texts_may_not_use_a_value_as_a_size(change, words):
    with pytest.raises(VerifyError, match=words):
        verify(parse(TEXT.format(**{**PLAIN, **change})))
    verify(parse(TEXT.format(**PLAIN)))


def test_a_condition_on_a_value_proves_no_access_and_guards_a_store():
    text = TEXT.format(**{**PLAIN, "index": "vi"})
    guarded = text.replace("A[vi]", "select(alpha < 1.0, A[vi + 1], 0.0)")
    with pytest.raises(VerifyError, match=r"reads A\[vi \+ 1\]"):
        verify(parse(guarded))
    stored = text.replace("C[vi] = A[vi]", "if flag:\n                C[vi] = A[vi]")
    func = parse(stored)
    verify(func)
    assert [p.name for p in func.in_outs] == ["C"], "what is there stays where the flag is not set"
    a, c = np.arange(2, dtype="float32"), np.full(2, 7, "float32")
    assert interpret(func, a, 0.0, False, c)[0].tolist() == [7, 7]
    assert interpret(func, a, 0.0, True, c)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("alpha: f32 >= 0", "or a number: f32, or i64 >= 1"),
        ("alpha: f32x4", "or a number: f32"),
        ("alpha: f31", "a type such as f32"),
        ("alpha: f32[]", "[Ee]xpected|syntax"),
    ],
)
def test_texts_say_how_a_value_is_written(argument, words):
    with pytest.raises(ParseError, match=words):
        parse(TEXT.format(**PLAIN).replace("alpha: f32", argument))


def with_the_name(func):
    """`func` with a number that has the name of its output."""
    func.scalars = tuple(replace(s, var=te.var("C", s.dtype)) for s in func.scalars[:1])
    return func


def test_a_name_is_that_of_one_number():
    n, a = te.var("n"), te.placeholder((te.var("n"),), name="A")
    c = te.compute((n,), lambda i: a[i] * te.var("n", "float32"), name="C")
    with pytest.raises(TensorIRError, match="'n' names a number of type int64 and one of type flo"):
        te.create_prim_func([a, te.var("n", "float32"), c])
    b = te.compute((n,), lambda i: a[i] * te.var("x", "float32"), name="B")
    with pytest.raises(TensorIRError, match=r"put te.var\('x', 'float32'\) among them"):
        te.create_prim_func([a, b])
    with pytest.raises(TensorIRError, match="number 'x' is given twice"):
        te.create_prim_func([a, te.var("x", "float32"), te.var("x", "float64"), b])
    with pytest.raises(VerifyError, match="loop 'i' defines 'i', which is also a number among"):
        verify(parse(TEXT.format(**PLAIN).replace("alpha: f32", "i: f32")))
    with pytest.raises(VerifyError, match="'C' names both a number among the arguments and a buf"):
        verify(with_the_name(parse(TEXT.format(**PLAIN))))


def test_a_function_of_python_declares_values():
    alpha = te.var("alpha", "float32")

    @prim_func
    def axpy(alpha: f32, twice: bool, X: f32[n], Y: f32[n], Z: f32[n]):  # noqa: F821
        for i in range(n):  # noqa: F821
            with block("Z"):
                vi = spatial(n, i)  # noqa: F821
                Z[vi] = X[vi] * select(twice, alpha * 2.0, alpha) + Y[vi]  # noqa: F821

    x, y = np.ones(2, "float32"), np.zeros(2, "float32")
    assert axpy.value_vars[0] is alpha
    assert interpret(axpy, 1.5, True, x, y)[0].tolist() == [3, 3]
    with pytest.raises(TensorIRError, match="takes the number 'alpha', and a stage takes tensors"):
        axpy(te.placeholder((2,), name="X"), te.placeholder((2,), name="Y"))


def test_bounds_hold_for_values_that_no_array_has():
    """A value is exact; what is computed of it in float64 is rounded, unless it is not."""
    func = scaled("float64", "alpha A C")
    a = np.array([0.1, -3], "float32")
    value, bound = reference_with_tolerance(func, 0.3, a)
    assert value[0][0] == 0.3 and bound[0].max() < 1e-6
    x, y = te.placeholder((2,), "float64", name="X"), te.var("y", "float64")
    product = te.compute((2,), lambda i: x[i] * y, name="P")
    given = np.array([0.1, 0.25])
    (_,), (off,) = reference_with_tolerance(te.create_prim_func([x, y, product]), given, 0.3)
    assert off[0] > 0, "a kernel may contract a product that was rounded"
    assert reference_with_tolerance(te.create_prim_func([x, y, product]), given, 4.0)[1][0][1] == 0


def test_exact_results_in_float64_are_known():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=600), rng.normal(size=600)
    a[::2], b[::3] = rng.integers(-50, 50, 300) / 8, rng.integers(1, 50, 200) / 4
    for op, ufunc in (("+", np.add), ("-", np.subtract), ("*", np.multiply), ("/", np.divide)):
        made = ufunc(a, b)
        exact = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y}
        true = exact.get(op, lambda x, y: x / y)
        wanted = [true(Fraction(x), Fraction(y)) == Fraction(z) for x, y, z in zip(a, b, made)]
        assert is_exact(op, a, b, made).tolist() == wanted
        assert 0 < sum(wanted) < 600
