"""Vector expressions and vector access to memory, at several widths, against NumPy."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from backends.c.emit.codegen import emit
from backends.c.emit.conversions import conversion_steps
from tensorir import (
    Alloc,
    BinOp,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    For,
    Let,
    Load,
    Not,
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

FLOAT_FUNCTIONS = [row for row in MATH.values() if "float" in row.kinds]
NAN, INF = float("nan"), float("inf")
i = Var("i")
FLOAT_VALUES = [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, NAN, INF, -INF, 1e-40, 100.0, -100.0, 0.3, 88.0]


def vectorized(make, *dtypes: str, result: str, count: int, lanes: int) -> PrimFunc:
    """out[i:i+lanes] = make(a[i:i+lanes], ...) for all i in steps of `lanes`."""
    at = (Ramp(i * lanes, const(1), lanes),)
    inputs = [Buffer("ab"[n], (count,), d) for n, d in enumerate(dtypes)]
    out = Buffer("out", (count,), result)
    body = Store(out, at, make(*(Load(b, at) for b in inputs)))
    return PrimFunc("f", (*inputs, out), (), For(i, const(count // lanes), body))


def table(values, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of values, their number filled up to a multiple of 64."""
    a, b = (v.ravel() for v in np.meshgrid(values, values))
    size = -(-a.size // 64) * 64
    return np.resize(a, size).astype(dtype), np.resize(b, size).astype(dtype)


def ints(dtype: str) -> np.ndarray:
    low, high = dt.int_limits(dtype)
    near = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 8, 100] + ([-1, -2, -7] if low else [])
    return np.array(near, dtype)


OPS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
INT_OPS = {
    "//": np.floor_divide,
    "%": np.remainder,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
}


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [
        ("float32", 16),
        ("float32", 8),
        ("float32", 2),
        ("float64", 8),
        ("int8", 64),
        ("uint8", 16),
        ("int16", 8),
        ("int32", 16),
        ("uint32", 8),
        ("int64", 8),
        ("uint64", 4),
    ],
)
def test_operators(run, dtype, lanes):
    a, b = table(FLOAT_VALUES if dt.is_float(dtype) else ints(dtype), dtype)
    ops = {**OPS, "/": np.divide} if dt.is_float(dtype) else {**OPS, **INT_OPS}
    at = (Ramp(i * lanes, const(1), lanes),)
    x, y = Buffer("a", (a.size,), dtype), Buffer("b", (a.size,), dtype)
    outs, stores = [], []
    for n, op in enumerate(ops):
        value = BinOp(op, Load(x, at), Load(y, at))
        outs.append(Buffer(f"out{n}", (a.size,), dt.element(value.dtype)))
        stores.append(Store(outs[-1], at, value))
    func = PrimFunc("f", (x, y, *outs), (), For(i, const(a.size // lanes), seq(*stores)))
    results = [np.zeros(a.size, o.dtype) for o in outs]
    run(func, a, b, *results)
    with np.errstate(all="ignore"):
        for (op, reference), result in zip(ops.items(), results):
            np.testing.assert_array_equal(result, reference(a, b), err_msg=op)


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("int8", 16), ("uint32", 8)])
def test_broadcast_operands_on_either_side(run, dtype, lanes):
    a = np.arange(1, 65).astype(dtype)
    x = Buffer("a", (64,), dtype)
    at = (Ramp(i * lanes, const(1), lanes),)
    scalar, vector = Broadcast(x[i], lanes), Load(x, at)
    five = Broadcast(Const(5, dtype), lanes)
    values = [
        BinOp("*", scalar, vector),
        BinOp("-", vector, scalar),
        BinOp("-", five, vector),
        BinOp("+", scalar, five),
        BinOp("max", vector, five),
    ]
    outs = [Buffer(f"out{n}", (64,), dtype) for n in range(len(values))]
    body = seq(*(Store(o, at, v) for o, v in zip(outs, values)))
    results = [np.zeros(64, dtype) for _ in outs]
    run(PrimFunc("f", (x, *outs), (), For(i, const(64 // lanes), body)), a, *results)
    s, f = np.repeat(a[: 64 // lanes], lanes), np.array(5, dtype)
    expected = [s * a, a - s, f - a, s + f, np.maximum(a, f)]
    for result, wanted in zip(results, expected):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", [*dt.SIGNED, *dt.UNSIGNED, "float32", "float64"])
def test_whatever_a_scalar_is_computed_by_it_is_an_operand_of_vectors(run, dtype):
    """C computes narrow integers in int, of which vectors of others take none."""
    lanes, integer = 16, dt.is_int(dtype)
    a = np.arange(1, 33).astype(dtype)
    x, at = Buffer("a", (32,), dtype), (Ramp(i * lanes, const(1), lanes),)
    one, other, three = x[i], x[i + 1], Const(3, dtype)
    less = BinOp("<", one, other)
    scalars = [BinOp(op, one, other) for op in ("+", "-", "*", "min", "max")]
    scalars += [Select(less, one, three), Select(less, three, Const(5, dtype))]
    scalars += [Select(less, Select(less, one, other), three), Cast(dtype, less)]
    if integer:
        signs = ("//", "%", "<<", ">>", "&")
        scalars += [BinOp(op, one, b) for op in signs for b in (other, three)]
        scalars += [Call("popcount", (one,), dtype)]
    else:
        scalars += [Call("fabs", (one,), dtype)]
    plain = [Buffer(f"plain{n}", (2,), dtype) for n in range(len(scalars))]
    outs = [Buffer(f"out{n}", (32,), dtype) for n in range(2 * len(scalars))]
    body, vector = [], Load(x, at)
    for n, (own, value) in enumerate(zip(plain, scalars)):
        spread = Broadcast(value, lanes)
        sums = BinOp("+", spread, vector), BinOp("-", vector, spread)
        body.append(Store(own, (i,), value))
        body += [Store(out, at, each) for out, each in zip(outs[2 * n :], sums)]
    results = [np.zeros(b.const_shape, dtype) for b in (*plain, *outs)]
    run(PrimFunc("f", (x, *plain, *outs), (), For(i, const(2), seq(*body))), a, *results)
    for n in range(len(scalars)):
        spread, found = np.repeat(results[n], lanes), results[len(scalars) + 2 * n :]
        np.testing.assert_array_equal(found[0], spread + a)
        np.testing.assert_array_equal(found[1], a - spread)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_shifts(run, dtype):
    a = np.resize(ints(dtype), 64)
    at = (Ramp(i * 8, const(1), 8),)
    x = Buffer("a", (64,), dtype)
    outs, stores, expected = [], [], []
    for amount in (0, 3, min(200, dt.int_limits(dtype)[1])):
        for op, reference in (("<<", np.left_shift), (">>", np.right_shift)):
            outs.append(Buffer(f"out{len(outs)}", (64,), dtype))
            value = BinOp(op, Load(x, at), Broadcast(Const(amount, dtype), 8))
            stores.append(Store(outs[-1], at, value))
            expected.append(reference(a, np.array(amount, dtype)))
    results = [np.zeros_like(a) for _ in outs]
    run(PrimFunc("f", (x, *outs), (), For(i, const(8), seq(*stores))), a, *results)
    np.testing.assert_array_equal(results, expected)


def test_index_arithmetic_floors(run):
    at = (Ramp(i * 8, const(1), 8),)
    value = BinOp("-", Ramp(i * 8, const(1), 8), Broadcast(const(20), 8))
    plain = np.arange(64) - 20
    outs, stores, expected = [], [], []
    for divisor in (1, 4, 7, -3):
        for op, reference in (("//", np.floor_divide), ("%", np.remainder)):
            outs.append(Buffer(f"out{len(outs)}", (64,), "int64"))
            by = Broadcast(const(divisor), 8)
            stores.append(Store(outs[-1], at, BinOp(op, value, by)))
            expected.append(reference(plain, divisor))
    results = [np.zeros(64, "int64") for _ in outs]
    run(PrimFunc("f", tuple(outs), (), For(i, const(8), seq(*stores))), *results)
    np.testing.assert_array_equal(results, expected)


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("float32", 4), ("float64", 8)])
def test_math_functions(run, dtype, lanes):
    a = np.resize(np.array(FLOAT_VALUES, dtype), 64)
    b = np.roll(a, 5)
    at = (Ramp(i * lanes, const(1), lanes),)
    x, y = Buffer("a", (64,), dtype), Buffer("b", (64,), dtype)
    outs, stores = [], []
    for row in FLOAT_FUNCTIONS:
        result = "bool" if row.result == "bool" else dtype
        args = tuple(Load(v, at) for v in (x, y)[: row.arity])
        outs.append(Buffer(f"out_{row.name}", (64,), result))
        stores.append(Store(outs[-1], at, Call(row.name, args, dt.with_lanes(result, lanes))))
    results = [np.zeros(64, o.dtype) for o in outs]
    run(PrimFunc("f", (x, y, *outs), (), For(i, const(64 // lanes), seq(*stores))), a, b, *results)
    tolerance = 2e-6 if dtype == "float32" else 2e-14
    for row, result in zip(FLOAT_FUNCTIONS, results):
        with np.errstate(all="ignore"):
            expected = row.numpy(*(a, b)[: row.arity])
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=0, err_msg=row.name)


NUMBERS = (*dt.SIGNED, *dt.UNSIGNED, "bool", "float16", "bfloat16", "float32", "float64")


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    bits = values.astype("float32").view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype(np.uint16)


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("source", NUMBERS)
def test_casts(run, source, lanes):
    if source == "bool":
        values = np.resize([True, False, True], 32)
    elif dt.is_float(source):
        kind = "float32" if source == "bfloat16" else source
        values = np.resize([0.0, -0.0, 1.0, 1.5, 2.75, 100.0, 0.125, 3.0], 32).astype(kind)
    else:
        values = np.resize(ints(source), 32)
    given = to_bfloat16(values) if source == "bfloat16" else values
    at = (Ramp(i * lanes, const(1), lanes),)
    x = Buffer("a", (32,), source)
    outs = [Buffer(f"o_{d}", (32,), d) for d in NUMBERS if d != source]
    stores = [Store(o, at, Cast(dt.with_lanes(o.dtype, lanes), Load(x, at))) for o in outs]
    results = [np.zeros(32, dt.numpy_dtype(o.dtype)) for o in outs]
    body = For(i, const(32 // lanes), seq(*stores))
    run(PrimFunc("f", (x, *outs), (), body), given, *results)
    for out, result in zip(outs, results):
        with np.errstate(all="ignore"):
            brief = out.dtype == "bfloat16"
            expected = to_bfloat16(values) if brief else values.astype(out.dtype)
        np.testing.assert_array_equal(result, expected, err_msg=out.dtype)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_storage_conversions_round_and_keep_nan(run, kind, lanes):
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2**32, 4096, dtype=np.uint32).view(np.float32)
    a[:8] = [NAN, INF, -INF, 65519.99, 65520.0, 2.98e-8, -0.0, 3.3895314e38]
    wide = f"{kind}x{lanes}"
    func = vectorized(lambda x: Cast(wide, x), "float32", result=kind, count=4096, lanes=lanes)
    out = np.zeros(4096, dt.numpy_dtype(kind))
    run(func, a, out)
    with np.errstate(all="ignore"):
        expected = to_bfloat16(a) if kind == "bfloat16" else a.astype("float16")
    np.testing.assert_array_equal(out, expected)


def test_masks_of_several_widths_meet(run):
    x, y = Buffer("x", (64,), "float32"), Buffer("y", (64,), "float64")
    flags = Buffer("flags", (64,), "bool")
    at = (Ramp(i * 8, const(1), 8),)
    a, b, c = (Load(v, at) for v in (x, y, flags))
    zero, zero64 = Broadcast(Const(0.0, "float32"), 8), Broadcast(Const(0.0, "float64"), 8)
    index = BinOp("<", at[0], Broadcast(const(40), 8))
    condition = BinOp(
        "and",
        BinOp("or", BinOp("<", a, zero), Not(BinOp("<", b, zero64))),
        BinOp("and", index, BinOp("!=", c, Call("isnan", (b,), "boolx8"))),
    )
    out, mask, count = (Buffer(n, (64,), t) for n, t in zip("omn", ("float32", "bool", "int32")))
    m = Var("m", "boolx8")
    body = Let(
        m,
        condition,
        seq(
            Store(out, at, Select(m, a, zero)),
            Store(mask, at, BinOp("==", m, c)),
            Store(count, at, Cast("int32x8", Select(BinOp("<", a, zero), m, c))),
        ),
    )
    rng = np.random.default_rng(2)
    a_, b_ = rng.normal(size=64).astype("float32"), rng.normal(size=64)
    b_[::5] = NAN
    c_ = rng.random(64) < 0.5
    results = np.zeros(64, "float32"), np.zeros(64, bool), np.zeros(64, "int32")
    run(
        PrimFunc("f", (x, y, flags, out, mask, count), (), For(i, const(8), body)),
        a_,
        b_,
        c_,
        *results,
    )
    m_ = ((a_ < 0) | ~(b_ < 0)) & ((np.arange(64) < 40) & (c_ != np.isnan(b_)))
    np.testing.assert_array_equal(results[0], np.where(m_, a_, 0))
    np.testing.assert_array_equal(results[1], m_ == c_)
    np.testing.assert_array_equal(results[2], np.where(a_ < 0, m_, c_))


def test_select_with_a_scalar_condition(run):
    func = vectorized(
        lambda x: Select(i < 2, x, Broadcast(Const(7.0, "float32"), 8)),
        "float32",
        result="float32",
        count=64,
        lanes=8,
    )
    a, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    run(func, a, out)
    np.testing.assert_array_equal(out, np.where(np.arange(64) < 16, a, 7))


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8", "float16"])
def test_strided_and_indexed_access(run, dtype):
    kind = np.dtype(dtype)
    a = (np.arange(256) % 3).astype(kind)
    order = np.random.default_rng(3).permutation(64).astype("int32")
    x, index = Buffer("x", (256,), dtype), Buffer("index", (64,), "int32")
    outs = [Buffer(f"out{n}", (256,), dtype) for n in range(4)]
    plain = Ramp(i * 8, const(1), 8)
    loaded = Load(index, (plain,))
    stores = [
        Store(outs[0], (plain,), Load(x, (Ramp(i, const(8), 8),))),
        Store(outs[1], (Ramp(i, const(8), 8),), Load(x, (plain,))),
        Store(outs[2], (plain,), Load(x, (loaded,))),
        Store(outs[3], (Cast("int64x8", loaded),), Load(x, (plain,))),
    ]
    results = [np.zeros(256, kind) for _ in outs]
    body = For(i, const(8), seq(*stores))
    run(PrimFunc("f", (x, index, *outs), (), body), a, order, *results)
    square = a[:64].reshape(8, 8)
    np.testing.assert_array_equal(results[0][:64], square.T.ravel())
    np.testing.assert_array_equal(results[1][:64].reshape(8, 8), square.T)
    np.testing.assert_array_equal(results[2][:64], a[order])
    expected = np.zeros(64, kind)
    expected[order] = a[:64]
    np.testing.assert_array_equal(results[3][:64], expected)


def test_unaligned_and_broadcast_stores(run):
    x, out = Buffer("x", (40,), "float32"), Buffer("out", (40,), "float32")
    at = Ramp(const(3), const(1), 16)
    body = seq(
        Store(out, (at,), Load(x, (Ramp(const(1), const(1), 16),))),
        Store(out, (Ramp(const(20), const(1), 16),), Broadcast(Const(-0.0, "float32"), 16)),
    )
    a, result = np.arange(40, dtype="float32"), np.ones(40, "float32")
    run(PrimFunc("f", (x, out), (), body), a, result)
    np.testing.assert_array_equal(result[3:19], a[1:17])
    assert np.signbit(result[20:36]).all() and (result[:3] == 1).all()


def test_vector_locals_hold_whole_vectors(run):
    acc = Buffer("acc", (2,), "float32x8", "local")
    x, out = Buffer("x", (64,), "float32"), Buffer("out", (16,), "float32")
    zero = Broadcast(Const(0.0, "float32"), 8)

    def part(n):
        at = Ramp(i * 16 + n * 8, const(1), 8)
        return Store(acc, (const(n),), BinOp("+", acc[n], Load(x, (at,))))

    body = Alloc(
        acc,
        seq(
            *(Store(acc, (const(n),), zero) for n in range(2)),
            For(i, const(4), seq(part(0), part(1))),
            *(Store(out, (Ramp(const(n * 8), const(1), 8),), acc[n]) for n in range(2)),
        ),
    )
    a, result = np.arange(64, dtype="float32"), np.zeros(16, "float32")
    run(PrimFunc("f", (x, out), (), body), a, result)
    np.testing.assert_array_equal(result, a.reshape(4, 16).sum(0))


def test_conversion_steps_double_and_pass_equal_widths():
    assert conversion_steps("int8x16", "float32x16") == ["int16x16", "int32x16", "float32x16"]
    assert conversion_steps("uint8x16", "int32x16") == ["uint16x16", "int32x16"]
    assert conversion_steps("float32x16", "int8x16") == ["int32x16", "int16x16", "int8x16"]
    assert conversion_steps("float16x8", "float64x8") == ["float32x8", "float64x8"]


@pytest.mark.parametrize("march", ["x86-64", "haswell", "x86-64-v4"])
def test_text_compiles_without_warnings_for_other_machines(march, tmp_path):
    x, out = Buffer("x", (64,), "float32"), Buffer("out", (64,), "float16")
    flag = Buffer("flag", (64,), "bool")
    at = (Ramp(i * 16, const(1), 16),)
    a = Load(x, at)
    big = BinOp("max", a, Broadcast(Const(0.0, "float32"), 16))
    body = seq(
        Store(out, at, Cast("float16x16", Call("sqrt", (big,), "float32x16"))),
        Store(flag, at, BinOp("<", a, big)),
    )
    text = emit(PrimFunc("f", (x, out, flag), (), For(i, const(4), body)), Target(vector_bits=128))
    (tmp_path / "f.c").write_text(text)
    command = f"gcc -O2 -march={march} -Wall -Werror -Wno-psabi -c f.c -o f.o".split()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
