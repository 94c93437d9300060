"""The types of expressions: docs/types.md against the code, and both against NumPy."""

from __future__ import annotations

import itertools
import operator
import re
from pathlib import Path

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import (
    Cast,
    TensorIRError,
    cast,
    interpret,
    ops,
    parse,
    reference_with_tolerance,
    te,
    verify,
)
from tensorir import dtype as dt
from tensorir.arrays import decode, encode
from tensorir.te.promotion import promote
from tensorir.text.printer import format_func

PAGE = Path(__file__).parents[2] / "docs" / "types.md"
PAIRS = list(itertools.product(dt.SCALARS, dt.SCALARS))


def table() -> dict[tuple[str, str], str | None]:
    rows = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if re.match(r"\| (\*\*\w+\*\* )?\|( \w+ +\|| - \|)+$", line)
    ]
    head, *body = rows
    return {
        (dt.LONG[row[0]], dt.LONG[column]): dt.LONG.get(cell)
        for row in body
        for column, cell in zip(head[1:], row[1:], strict=True)
    }


def element(dtype: str, name: str = "A") -> te.Tensor:
    return te.placeholder((4,), dtype, name=name)


def call(outs, *arrays):
    """The results of the kernel; they and the interpreter's are within the reference's bounds."""
    ins, *rest = outs
    func = te.create_prim_func([*ins, *rest])
    verify(func)
    assert format_func(parse(format_func(func))) == format_func(func)
    interpreted = interpret(func, *arrays)
    values, bounds = reference_with_tolerance(func, *arrays)
    results = build(func)(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    for p, *both, value, bound in zip(func.outputs, interpreted, results, values, bounds):
        value = value.astype(float)
        for found in both:
            held = decode(np.asarray(found), p.dtype).astype(float)
            with np.errstate(invalid="ignore"):
                off = np.where(held == value, 0, np.abs(held - value))
            assert ((off <= bound) | (value != value) | np.isinf(bound)).all(), (off, bound)
    return results


def test_the_page_has_the_table():
    assert table() == {pair: promote(*pair) for pair in PAIRS}


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_promotion_is_numpys_but_for_what_the_page_says(a, b):
    found = promote(a, b)
    assert found == promote(b, a)
    if "bfloat16" in (a, b):
        other = a if b == "bfloat16" else b
        wider = dt.is_float(other) and other != "bfloat16"
        assert found == ("bfloat16" if not wider else "float32" if other == "float16" else other)
    elif dt.is_float(a) != dt.is_float(b):
        assert found == (a if dt.is_float(a) else b)
    elif np.result_type(a, b) == np.float64 and not dt.is_float(a):
        assert found is None
    else:
        assert found == np.result_type(a, b)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_every_builder_promotes(a, b):
    x, y = element(a)[0], element(b, "B")[0]
    wanted = promote(a, b)
    made = [lambda: te.if_then_else(x == x, x, y)]
    if not (a == b == "bool"):
        made += [lambda: x + y, lambda: te.max(x, y), lambda: te.minimum(x, y)]
        made += [lambda: x % y, lambda: x // y]
    if wanted is not None and dt.is_float(wanted):
        made += [lambda: x / y, lambda: te.pow(x, y), lambda: te.atan2(x, y)]
    elif wanted is None or dt.is_int(wanted):
        made += [lambda: x << y, lambda: x | y, lambda: x**y]
    for build_one in made:
        if wanted is None:
            with pytest.raises(TensorIRError, match="which no type holds both"):
                build_one()
        else:
            assert build_one().dtype == wanted
    if wanted is not None and wanted != "bool":
        assert (x < y).dtype == (x == y).dtype == "bool"


NUMBERS = [
    ("int8", 1, "int8"), ("uint8", 200, "uint8"), ("float16", 1, "float16"),
    ("float64", 1.5, "float64"), ("int32", 1.5, "float32"), ("int64", 0.5, "float32"),
    ("bool", 2, "int64"), ("bool", 1.5, "float32"), ("float32", np.float64(1.5), "float32"),
    ("int8", np.int64(3), "int8"), ("bfloat16", 0.1, "bfloat16"), ("float32", True, "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "number", "wanted"), NUMBERS)
def test_numbers_take_the_type_of_the_other_operand(dtype, number, wanted):
    x = element(dtype)[0]
    assert (x * number).dtype == (number * x).dtype == wanted


def test_constants():
    given = (1.5, "float32"), (2, "int64"), (True, "bool"), (np.float64(1.5), "float64")
    for value, dtype in (*given, (np.uint8(3), "uint8"), (float("inf"), "float32")):
        found = te.const(value)
        assert (found.dtype, found.value) == (dtype, value)
    assert te.const(0.1, "float16").value == np.float16(0.1)
    assert te.const(0.1, "bfloat16").value == 0.10009765625
    assert te.const(3.4e38, "bfloat16").value == float("inf")
    assert bool(te.const(2) == te.const(2)) and not te.const(2) == te.const(3)


FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, 7.3, -65504.0, 6e-5, np.inf, -np.inf, np.nan, 2049.0]
OPERATIONS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "<": operator.lt, "==": operator.eq,
    "<=": operator.le, "!=": operator.ne,
}  # fmt: skip


def pairs_of(values, dtype):
    grid = np.array(list(itertools.product(values, values))).T
    return [encode(v, dtype) for v in grid]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_computed_in_float32_and_rounded_once(dtype):
    a, b = pairs_of(FLOATS, dtype)
    A, B = (te.placeholder(a.shape, dtype, name=n) for n in "AB")
    names = list(OPERATIONS)
    outs = [
        te.compute(a.shape, lambda i, f=OPERATIONS[n]: f(A[i], B[i]), name=f"C{k}")
        for k, n in enumerate(names)
    ]
    outs.append(te.compute(a.shape, lambda i: te.sqrt(A[i] * A[i] + 1) - B[i], name="chain"))
    outs.append(te.compute(a.shape, lambda i: (A[i] * B[i]).astype(dtype) + A[i], name="twice"))
    outs.append(te.compute(a.shape, lambda i: te.max(-A[i], B[i]), name="most"))
    x, y = (decode(v, dtype).astype(np.float32) for v in (a, b))
    with np.errstate(all="ignore"):
        wanted = [OPERATIONS[n](x, y) for n in names]
        wanted.append(np.sqrt(x * x + np.float32(1)) - y)
        product = decode(encode(x * y, dtype), dtype).astype(np.float32)
        wanted += [product + x, np.maximum(-x, y)]
    for out, found, exact in zip(outs, call([[A, B], *outs], a, b), wanted, strict=True):
        assert out.dtype == ("bool" if exact.dtype == bool else dtype)
        expected = exact if exact.dtype == bool else decode(encode(exact, dtype), dtype)
        held = found if exact.dtype == bool else decode(found, dtype)
        np.testing.assert_array_equal(held, expected, err_msg=out.name)
        if dtype == "float16" and out.name[0] == "C":  # one operation has the bits of NumPy's
            with np.errstate(all="ignore"):
                own = OPERATIONS[names[int(out.name[1:])]](a, b)
            np.testing.assert_array_equal(found, own, err_msg=out.name)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_reductions_of_narrow_floats(dtype):
    rng = np.random.default_rng(3)
    a, b = (encode(rng.normal(size=shape), dtype) for shape in ((5, 300), (300,)))
    A, B = te.placeholder((5, 300), dtype, name="A"), te.placeholder((300,), dtype, name="B")
    k = te.reduce_axis(300, "k")
    dot = te.compute((5,), lambda i: te.sum(A[i, k] * B[k], axis=k), name="dot")
    most = te.compute((5,), lambda i: te.max(A[i, k], axis=k), name="most")
    where = te.compute((5,), lambda i: te.argmax(A[i, k], axis=k), name="where")
    two = te.comm_reducer(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), lambda d, e: (0.0, -1e30))
    both = te.compute((5,), lambda i: two((A[i, k], A[i, k] * 2), axis=k), name="both")
    assert [t.dtype for t in (dot, most, where, *both)] == [dtype, dtype, "int64", dtype, dtype]
    assert dot.op.inputs[0].dtype == "float32" and dot.op.inputs[0].name == "dot_f32"
    assert not dot.op.reduce_axis and dot.op.inputs[0].op.reduce_axis == (k,)
    with pytest.raises(TensorIRError, match="stage 'dot' rounds what stage 'dot_f32' sums"):
        dot.op.reduce_axis[0]
    x, y = decode(a, dtype), decode(b, dtype)
    found = call([[A, B], dot, most, where, *both], a, b)
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    np.testing.assert_allclose(decode(found[0], dtype), x @ y, rtol=1.01 * unit, atol=2e-5)
    np.testing.assert_array_equal(decode(found[1], dtype), x.max(1))
    np.testing.assert_array_equal(found[2], x.argmax(1))
    np.testing.assert_allclose(decode(found[3], dtype), x.sum(1), rtol=1.01 * unit, atol=2e-5)
    np.testing.assert_array_equal(decode(found[4], dtype), 2 * x.max(1))


def test_a_converted_sum_is_a_stage_of_its_own():
    A = te.placeholder((3, 7), name="A")
    k = te.reduce_axis(7, "k")
    C = te.compute((3,), lambda i: te.sum(A[i, k], axis=k).astype("float16"), name="C")
    a = np.random.default_rng(0).normal(size=(3, 7)).astype("float32")
    (found,) = call([[A], C], a)
    np.testing.assert_allclose(found, a.sum(1), rtol=2.0**-10)
    assert [t.name for t in C.op.inputs] == ["C_f32"]


def test_bools():
    a, b = (np.array(column) for column in zip(*itertools.product([False, True], repeat=2)))
    A, B = (te.placeholder((4,), "bool", name=n) for n in "AB")
    k = te.reduce_axis(4, "k")
    each = {
        "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "xor": lambda x, y: x ^ y,
        "twice": lambda x, y: ~~~(~x | y),
        "and": lambda x, y: x & y, "or": lambda x, y: x | y, "not": lambda x, y: ~x,
    }  # fmt: skip
    outs = [te.compute((4,), lambda i, f=f: f(A[i], B[i]), name=f"C_{n}") for n, f in each.items()]
    outs.append(te.compute((4,), lambda i: te.maximum(A[i], B[i]), name="most"))
    outs.append(te.compute((4,), lambda i: A[i] + 1, name="number"))
    outs.append(te.compute((4,), lambda i: A[i] * 0.5, name="half"))
    outs.append(te.compute((), lambda: te.sum(A[k], axis=k), name="count"))
    outs.append(te.compute((), lambda: te.prod(A[k], axis=k), name="all"))
    outs.append(te.compute((), lambda: te.max(A[k], axis=k), name="any"))
    wanted = [f(a, b) for f in each.values()]
    wanted += [np.maximum(a, b), a + 1, (a * np.float32(0.5)), a.sum(), a.prod(), a.max()]
    for out, found, expected in zip(outs, call([[A, B], *outs], a, b), wanted, strict=True):
        np.testing.assert_array_equal(found, expected, err_msg=out.name)
        assert out.dtype == np.asarray(expected).dtype


def test_a_sum_of_bools_of_a_comparison_counts():
    A = te.placeholder((3, 50), name="A")
    k = te.reduce_axis(50, "k")
    C = te.compute((3,), lambda i: te.sum(A[i, k] > 0.25, axis=k, init=7), name="C")
    a = np.random.default_rng(0).random((3, 50), "float32")
    (found,) = call([[A], C], a)
    np.testing.assert_array_equal(found, (a > 0.25).sum(1) + 7)
    assert C.dtype == "int64"


@pytest.mark.parametrize("extent", [0, 1, 13])
def test_reductions_start_from_init(extent):
    A, B = te.placeholder((5, extent), name="A"), te.placeholder((5,), name="B")
    k = te.reduce_axis(extent, "k")
    made = {"sum": (te.sum, np.add), "prod": (te.prod, np.multiply)}
    made |= {"max": (te.max, np.maximum), "min": (te.min, np.minimum)}
    outs = [
        te.compute((5,), lambda i, f=f: f(A[i, k], axis=k, init=B[i]), name=name)
        for name, (f, _) in made.items()
    ]
    a, b = (np.random.default_rng(1).normal(size=s).astype("float32") for s in ((5, extent), (5,)))
    found = call([[A, B], *outs], a, b)
    for (_, ufunc), out in zip(made.values(), found):
        np.testing.assert_allclose(out, ufunc.reduce(np.c_[b, a], axis=1), rtol=1e-6)


def test_schedules_know_that_a_sum_starts_from_something_else():
    A, B = te.placeholder((6, 32), name="A"), te.placeholder((6,), name="B")
    k = te.reduce_axis(32, "k")
    C = te.compute((6,), lambda i: te.sum(A[i, k], axis=k, init=B[i] * 2), name="C")
    func = te.create_prim_func([A, B, C])
    sch = Schedule(func)
    _, inner = sch.split("k", [None, 8])
    sch.rfactor("C", inner)
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    a, b = (np.random.default_rng(1).normal(size=s).astype("float32") for s in ((6, 32), (6,)))
    np.testing.assert_allclose(build(sch)(a, b), 2 * b + a.sum(1), rtol=1e-5)


# Whole tensors


def test_rows_of_tensors():
    A = te.placeholder((3, 4, 5), name="A")
    out = te.compute((3, 4, 5), lambda i, j, k: A[i][j][k] + A[i][j, k] + A[i, j][k], name="C")
    assert out.op.body[0] is A[out.op.axis] + A[out.op.axis] + A[out.op.axis]
    assert A[1].ndim == 2 and repr(A[1][2]) == "A[1, 2]" and A[1].dtype == "float32"


WHOLE = {
    "add": lambda a, b, s: a + b,
    "rsub": lambda a, b, s: 3 - a,
    "mul": lambda a, b, s: 2.5 * a,
    "scalar": lambda a, b, s: a * s + b,
    "less": lambda a, b, s: a < b,
    "greater": lambda a, b, s: a > 0.5,
    "power": lambda a, b, s: a**2,
    "negative": lambda a, b, s: -a,
    "mod": lambda a, b, s: a % b,
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((2, 1, 3), (4, 1)), ((5,), (5,)), ((0, 2), (2,))]
)
def test_whole_tensors_broadcast_as_numpy(name, shapes):
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(0.3, 2, s).astype("float32") for s in shapes)
    s = np.array(1.5, "float32")
    A, B, S = (te.placeholder(v.shape, name=n) for n, v in zip("ABS", (a, b, s)))
    C = WHOLE[name](A, B, S)
    assert isinstance(C, te.Tensor)
    func = te.create_prim_func([A, B, S, C])
    wanted = WHOLE[name](a, b, s)
    (found,) = interpret(func, a, b, s)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64", "int16", "int64"])
@pytest.mark.parametrize("power", [0, 1, 2, 3, -1, 0.5, 2.0, 3.0])
def test_small_powers_are_products_and_roots(kind, power):
    """A call takes fourteen times as long as a product, and rules see no square in it."""
    if dt.is_int(kind) and power == -1:
        power = -1.0
    special = [0, 1, 3, -5] if dt.is_int(kind) else [0.0, -0.0, 0.3, -1.7, np.inf, -np.inf, np.nan]
    a = encode(np.array(special), kind)
    A = te.placeholder(a.shape, kind, name="A")
    B = te.compute(a.shape, lambda i: te.pow(A[i], power), name="B")
    C = te.compute(a.shape, lambda i: A[i] ** power, name="B")
    assert "pow(" not in repr(B.op.body) and repr(B.op.body) == repr(C.op.body)
    (found,) = interpret(te.create_prim_func([A, B]), a)
    values = decode(a, kind) if dt.is_float(kind) else a
    with np.errstate(all="ignore"):
        wanted = values**power
    rounding = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-51}
    rtol = rounding.get(B.dtype, 2.0**-22)
    np.testing.assert_allclose(decode(found, B.dtype), wanted, rtol=rtol)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(
        np.signbit(decode(found, B.dtype))[known], np.signbit(wanted)[known]
    )


def test_functions_of_whole_tensors():
    n = te.var("n")
    A, B = te.placeholder((n, 1), name="A"), te.placeholder((n, 4), "float16", name="B")
    C = te.if_then_else(A > 0.5, te.exp(A) + B, te.clip(B, -0.25, 0.25)) / n
    D = te.maximum(te.abs(C), 0.1).astype("float64")
    a = np.random.default_rng(0).random((3, 1)).astype("float32")
    b = np.random.default_rng(1).normal(size=(3, 4)).astype("float16")
    (found,) = interpret(te.create_prim_func([A, B, D]), a, b)
    each = np.where(a > 0.5, np.exp(a) + b, np.clip(b, -0.25, 0.25).astype("float32"))
    np.testing.assert_allclose(found, np.maximum(np.abs(each / np.float32(3)), 0.1), rtol=1e-3)
    assert C.dtype == "float32" and D.shape[0] is n


def test_products_of_whole_tensors():
    A, B = te.placeholder((2, 1, 3, 4), name="A"), te.placeholder((5, 4, 2), name="B")
    a, b = (np.random.default_rng(0).random([int(n.value) for n in t.shape], "f") for t in (A, B))
    (found,) = interpret(te.create_prim_func([A, B, abs(-(A @ B))]), a, b)
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)
    with pytest.raises(TensorIRError, match="matmul: b is 3, not a tensor"):
        A @ 3
    assert abs(A[0, 0, 0, 0]) is te.abs(A[0, 0, 0, 0])


def test_mixed_types_of_whole_tensors():
    X, F = te.placeholder((3,), "int32", name="X"), te.placeholder((2, 1), "float16", name="F")
    for made, dtype in ((X + F, "float16"), (X / 2.0, "float32"), (X << 3, "int32"), (~X, "int32")):
        assert made.dtype == dtype
    assert (X + F).shape == (F + X).shape and (np.float32(2) * F).dtype == "float16"


def test_rank_zero_stands_for_its_element():
    S = te.placeholder((), name="S")
    assert (S + 1.0) is S[()] + 1.0 and (2 * S) is 2 * S[()] and te.exp(S) is te.exp(S[()])


def test_operators_of_two_types_are_still_refused():
    x, y = te.placeholder((3,), name="x"), te.placeholder((3,), "int32", name="y")
    with pytest.raises(TensorIRError, match="convert one with ops.cast"):
        ops.add(x, y)


@pytest.mark.parametrize("narrow", [d for d in dt.SCALARS if dt.bits(d) <= 16])
def test_what_a_wider_type_holds_comes_back(narrow):
    """All values of a type through each other one; what is only carried is not converted."""
    patterns = np.arange(2 if narrow == "bool" else 1 << dt.bits(narrow), dtype="uint32")
    stored = patterns.astype(f"uint{dt.bits(narrow)}").view(dt.numpy_dtype(narrow))
    with np.errstate(invalid="ignore"):  # signalling NaN
        values, x = decode(stored, narrow), element(narrow)[0]
    for wide in (d for d in dt.SCALARS if d != narrow):
        if dt.is_float(wide) == dt.is_float(narrow) and "bfloat16" not in (wide, narrow):
            assert dt.holds(wide, narrow) == np.can_cast(narrow, wide)
        assert (cast(narrow, Cast(wide, x)) is x) == dt.holds(wide, narrow)
        if dt.holds(wide, narrow):
            with np.errstate(invalid="ignore"):  # signalling NaN
                back = decode(encode(decode(encode(values, wide), wide), narrow), narrow)
            np.testing.assert_array_equal(back, values)
