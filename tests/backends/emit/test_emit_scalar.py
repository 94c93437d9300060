"""Scalar expressions as C: every operator and type against NumPy, edge cases included."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

from backends.emit.literals import half_bits, literal
from backends.errors import BuildError
from backends.math.helpers import find_helper
from tensorir import (
    BinOp,
    Buffer,
    Call,
    Cast,
    Const,
    For,
    Load,
    PrimFunc,
    Ramp,
    Select,
    Store,
    Target,
    Var,
    const,
    seq,
)
from tensorir import dtype as dt
from tensorir.numbers.intrin import MATH

i = Var("i")
FLOAT_FUNCTIONS = [row for row in MATH.values() if "float" in row.kinds]
NAN, INF = float("nan"), float("inf")
FLOAT_VALUES = [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, NAN, INF, -INF, 1e-40, 100.0, -100.0, 0.3]


def elementwise(make, *dtypes: str, result: str, count: int) -> PrimFunc:
    """out[i] = make(a[i], b[i], ...)"""
    inputs = [Buffer("ab"[n], (count,), d) for n, d in enumerate(dtypes)]
    out = Buffer("out", (count,), result)
    body = Store(out, (i,), make(*(b[i] for b in inputs)))
    return PrimFunc("f", (*inputs, out), (), For(i, const(count), body))


def check_all(run, cases, *arrays: np.ndarray) -> None:
    """One kernel for all `cases`, which are (value of the inputs' elements, expected array)."""
    count = arrays[0].size
    inputs = [Buffer("ab"[n], (count,), str(a.dtype)) for n, a in enumerate(arrays)]
    outs, stores = [], []
    for make, _ in cases:
        value = make(*(b[i] for b in inputs))
        outs.append(Buffer(f"out{len(outs)}", (count,), value.dtype))
        stores.append(Store(outs[-1], (i,), value))
    func = PrimFunc("f", (*inputs, *outs), (), For(i, const(count), seq(*stores)))
    results = [np.zeros(count, o.dtype) for o in outs]
    assert run(func, *arrays, *results) == 0
    for store, (_, expected), result in zip(stores, cases, results):
        np.testing.assert_array_equal(result, expected, err_msg=repr(store.value))


def operations(table, a: np.ndarray, b: np.ndarray):
    with np.errstate(all="ignore"):
        return [(partial(BinOp, op), reference(a, b)) for op, reference in table.items()]


def int_values(dtype: str) -> np.ndarray:
    low, high = dt.int_limits(dtype)
    near = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 8, 16, 100]
    if low:
        near += [-1, -2, -3, -7, -8, -100]
    return np.array(near, dtype)


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(values, values)
    return a.ravel().copy(), b.ravel().copy()


INT_OPS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.remainder,
    "min": np.minimum,
    "max": np.maximum,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
}
FLOAT_OPS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}
COMPARE = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal}


@pytest.mark.parametrize("dtype", dt.SIGNED + dt.UNSIGNED)
def test_integer_operators_wrap_and_floor_as_numpy(run, dtype):
    a, b = pairs(int_values(dtype))
    check_all(run, operations({**INT_OPS, **COMPARE}, a, b), a, b)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
def test_shifts_by_any_amount(run, dtype):
    amounts = np.array([0, 1, 5, dt.bits(dtype) - 1, dt.bits(dtype), 100], dtype)
    a, b = (v.ravel().copy() for v in np.meshgrid(int_values(dtype), amounts))
    check_all(run, operations({"<<": np.left_shift, ">>": np.right_shift}, a, b), a, b)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "uint64"])
def test_division_by_constants(run, dtype):
    a = int_values(dtype)
    cases = []
    for divisor in (1, 3, 8, 0) if dt.is_unsigned(dtype) else (1, 3, 8, 0, -3, -1):
        for op in ("//", "%"):
            with np.errstate(all="ignore"):
                expected = INT_OPS[op](a, np.array(divisor, dtype))
            known = const(divisor, dtype)
            cases.append((lambda x, op=op, known=known: BinOp(op, x, known), expected))
    check_all(run, cases, a)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_operators(run, dtype):
    a, b = pairs(np.array(FLOAT_VALUES, dtype))
    check_all(run, operations({**FLOAT_OPS, **COMPARE}, a, b), a, b)


def test_extremum_with_a_constant_keeps_nan(run):
    a = np.array(FLOAT_VALUES, "float32")
    cases = []
    for bound in (0.0, -INF, NAN):
        known = Const(bound, "float32")
        for op in ("min", "max"):
            expected = FLOAT_OPS[op](a, np.float32(bound))
            cases.append((lambda x, op=op, known=known: BinOp(op, known, x), expected))
            cases.append((lambda x, op=op, known=known: BinOp(op, x, known), expected))
    check_all(run, cases, a)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_math_functions(run, dtype):
    a = np.array([*FLOAT_VALUES, 1e-3, 0.9, 5.0, 88.0, -88.0, 20.5, -0.5], dtype)
    b = np.roll(a, 3)
    inputs = [Buffer(n, (a.size,), dtype) for n in "ab"]
    outs, stores = [], []
    for row in FLOAT_FUNCTIONS:
        result = "bool" if row.result == "bool" else dtype
        out = Buffer(f"out_{row.name}", (a.size,), result)
        args = tuple(x[i] for x in inputs[: row.arity])
        outs.append(out)
        stores.append(Store(out, (i,), Call(row.name, args, result)))
    func = PrimFunc("f", (*inputs, *outs), (), For(i, const(a.size), seq(*stores)))
    results = [np.zeros(a.size, o.dtype) for o in outs]
    run(func, a, b, *results)
    tolerance = 2e-6 if dtype == "float32" else 2e-14
    for row, result in zip(FLOAT_FUNCTIONS, results):
        with np.errstate(all="ignore"):
            expected = row.numpy(*(a, b)[: row.arity])
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=0, err_msg=row.name)


NUMBERS = (*dt.SIGNED, *dt.UNSIGNED, "bool", "float16", "float32", "float64")


@pytest.mark.parametrize("source", NUMBERS)
def test_casts(run, source):
    if dt.is_float(source):
        a = np.array([0.0, -0.0, 1.0, 1.5, 2.75, 100.0, 0.1, 3.0], source)
    else:
        a = np.array([0, 1, 1, 0], bool) if source == "bool" else int_values(source)
    x = Buffer("a", (a.size,), source)
    outs = [Buffer(f"o_{d}", (a.size,), d) for d in NUMBERS if d != source]
    stores = [Store(o, (i,), Cast(o.dtype, x[i])) for o in outs]
    results = [np.zeros(a.size, o.dtype) for o in outs]
    run(PrimFunc("f", (x, *outs), (), For(i, const(a.size), seq(*stores))), a, *results)
    for out, result in zip(outs, results):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(result, a.astype(out.dtype), err_msg=out.dtype)


def float_patterns() -> np.ndarray:
    """Floats of all exponents, ties included, as well as infinities and NaN."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 20000, dtype=np.uint32)
    half = rng.integers(0, 2**16, 20000).astype(np.uint16).view(np.float16).astype(np.float32)
    half = half[np.isfinite(half)]
    ties = (half + np.nextafter(half, np.float32(INF))) / 2
    special = np.array([*FLOAT_VALUES, 65504, 65519.99, 65520, 5.96e-8, 2.98e-8, 6.1e-5], "float32")
    return np.concatenate([bits.view(np.float32), half, ties.astype("float32"), special])


@pytest.mark.parametrize("edit", ["", "#undef __FLT16_MANT_DIG__\n"])
def test_float16_conversions_round_as_numpy(run, edit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a = float_patterns()
        func = elementwise(lambda x: Cast("float16", x), "float32", result="float16", count=a.size)
        out = np.zeros(a.size, "float16")
        run(func, a, out, edit=lambda text: edit + text)
        np.testing.assert_array_equal(out, a.astype("float16"))
        bits = np.arange(2**16, dtype=np.uint16).view(np.float16)
        func = elementwise(
            lambda x: Cast("float32", x), "float16", result="float32", count=bits.size
        )
        wide = np.zeros(bits.size, "float32")
        run(func, bits, wide, edit=lambda text: edit + text)
        np.testing.assert_array_equal(wide, bits.astype("float32"))


def bfloat16(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype(np.uint16)


def test_bfloat16_conversions(run):
    a = float_patterns()
    out = np.zeros(a.size, np.uint16)
    run(
        elementwise(lambda x: Cast("bfloat16", x), "float32", result="bfloat16", count=a.size),
        a,
        out,
    )
    np.testing.assert_array_equal(out, bfloat16(a))
    wide = np.zeros(a.size, "float32")
    func = elementwise(lambda x: Cast("float32", x), "bfloat16", result="float32", count=a.size)
    run(func, out, wide)
    np.testing.assert_array_equal(wide.view(np.uint32), out.astype(np.uint32) << 16)


def test_storage_floats_compare_by_value(run):
    a = np.array([0.0, -0.0, 1.0, NAN, INF], "float16")
    x, y = pairs(a)
    func = elementwise(
        lambda p, q: BinOp("==", p, q), "float16", "float16", result="bool", count=x.size
    )
    out = np.zeros(x.size, bool)
    run(func, x, y, out)
    np.testing.assert_array_equal(out, x == y)


def test_select_reads_only_the_chosen_side(run):
    a = np.arange(4, dtype="float32")
    x, out = Buffer("a", (4,), "float32"), Buffer("out", (8,), "float32")
    far = const(1 << 40)
    value = Select(BinOp("<", i, const(4)), x[i], Select(i < 100, Const(-1.0, "float32"), x[far]))
    result = np.zeros(8, "float32")
    run(PrimFunc("f", (x, out), (), For(i, const(8), Store(out, (i,), value))), a, result)
    np.testing.assert_array_equal(result, [0, 1, 2, 3, -1, -1, -1, -1])


def test_selected_constants_are_computed_in_64_bits(run):
    big = Select(i < 1, const(100000), const(200000))
    out = Buffer("out", (2,), "int64")
    result = np.zeros(2, "int64")
    run(PrimFunc("f", (out,), (), For(i, const(2), Store(out, (i,), big * big))), result)
    np.testing.assert_array_equal(result, [10**10, 4 * 10**10])


@pytest.mark.parametrize("dtype", dt.SCALARS)
def test_constants_are_exact(run, dtype):
    if dtype == "bool":
        values = [True, False]
    elif dt.is_float(dtype):
        values = [0.1, -0.0, 1 / 3, NAN, INF, -INF, 1e-40, 3.4e38, 1e300, 16777217.0, 5e-324]
    else:
        values = [int(v) for v in int_values(dtype)]
    out = Buffer("out", (len(values),), dtype)
    body = seq(*(Store(out, (const(n),), Const(v, dtype)) for n, v in enumerate(values)))
    result = np.zeros(len(values), dt.numpy_dtype(dtype))
    run(PrimFunc("f", (out,), (), body), result)
    if dtype == "bfloat16":
        with np.errstate(over="ignore"):
            expected = bfloat16(np.array(values).astype("float32"))
    else:
        with np.errstate(over="ignore"):
            expected = np.array(values, "float64" if dt.is_float(dtype) else dtype).astype(dtype)
    assert result.tobytes() == expected.tobytes()


def test_literals_read_well():
    assert literal(0.1, "float32") == "0.1f"
    assert literal(1.0, "float64") == "1.0"
    assert literal(3, "int64") == "3"
    assert half_bits(1.0, "float16") == 0x3C00
    assert half_bits(1.0, "bfloat16") == 0x3F80


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint32", "float32"])
def test_what_is_no_math_function_is_refused(dtype, lanes):
    """Names of C's builtins, of which `__builtin_abs` takes an int, and of helpers of ours."""
    from backends.c.emit.codegen import emit

    names = {"abs", "labs", "ffs", "shl", "lanediv", "min", "pick", "ratio", "floordiv", "pow"}
    for name in sorted(names):
        row, x = MATH.get(name), Buffer("x", (lanes,), dtype)
        at = (Ramp(const(0), const(1), lanes) if lanes > 1 else const(0),)
        value = Call(name, (Load(x, at),), dt.with_lanes(dtype, lanes))
        func = PrimFunc("f", (x, out := Buffer("y", (lanes,), dtype)), (), Store(out, at, value))
        if row is not None and row.takes(dtype):
            assert name in emit(func, Target())
            continue
        with pytest.raises(BuildError, match=f"f: (there is no math function )?'{name}'"):
            emit(func, Target())
    assert find_helper("pick", "float32") is not None


def test_math_of_storage_types_is_refused():
    from backends.c.emit.codegen import emit

    func = elementwise(lambda x: Call("exp", (x,), "float16"), "float16", result="float16", count=4)
    with pytest.raises(BuildError, match=r"f: 'exp' is not defined for float16; convert"):
        emit(func, Target())
    assert find_helper("popcount", "float32") is None
