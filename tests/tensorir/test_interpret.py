"""The interpreter: it defines the IR, so every rule of the IR has a test here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tensorir import te
from tensorir.arrays import decode, encode
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError, VerifyError
from tensorir.expr import BinOp, Cast, Const, Load, Select, Var, cast, const, convert, select
from tensorir.func import PrimFunc
from tensorir.interpreter.interpret import interpret, interpret_source
from tensorir.stmt import (
    Alloc,
    Block,
    For,
    ForKind,
    If,
    IterKind,
    IterVar,
    Let,
    Seq,
    Store,
    seq,
)
from tensorir.vector_expr import Broadcast, Ramp

i, j, k = Var("i"), Var("j"), Var("k")
A = Buffer("A", (8,), "float32")
C = Buffer("C", (8,), "float32")
X = np.arange(8, dtype="float32") + 1


def loop(var, extent, body, kind=ForKind.SERIAL):
    return For(var, const(extent), body, kind)


def func(body, params=(A, C), buffers=()):
    return PrimFunc("f", tuple(params), tuple(buffers), body)


def evaluate(e):
    """The value of an expression of no variables."""
    out = Buffer("O", (), e.dtype)
    return interpret(func(Store(out, (), e), [out]))[0].item()


def lit(value, dtype):
    """A constant that no folding sees through."""
    return BinOp("+", const(value, dtype), const(0, dtype))


# loops, blocks and statements


@pytest.mark.parametrize("kind", ForKind)
def test_loops_of_every_kind_run_in_order(kind):
    body = loop(i, 8, Store(C, (i,), A[i] * 2.0), kind)
    np.testing.assert_array_equal(interpret(func(body), X)[0], X * 2)


def test_block_with_bindings_predicate_and_init():
    v, r = Var("v"), Var("r")
    S = Buffer("S", (3,), "float32")
    block = Block(
        "S",
        (
            IterVar(v, const(3), IterKind.SPATIAL, i),
            IterVar(r, const(2), IterKind.REDUCE, j),
        ),
        Store(S, (v,), S[v] + A[v * 2 + r]),
        init=Store(S, (v,), const(10.0, "float32")),
        predicate=i < 3,
    )
    body = loop(i, 4, loop(j, 2, block))
    np.testing.assert_array_equal(interpret(func(body, [A, S]), X)[0], [13, 17, 21])


def test_init_runs_where_all_reduce_variables_are_zero():
    r, s = Var("r"), Var("s")
    S = Buffer("S", (), "float32")
    iters = [IterVar(v, const(2), IterKind.REDUCE, b) for v, b in ((r, i), (s, j))]
    block = Block("S", tuple(iters), Store(S, (), S[()] + 1.0), Store(S, (), const(0.0, "float32")))
    assert interpret(func(loop(i, 2, loop(j, 2, block)), [S]))[0] == 4


def test_empty_symbolic_reduction_gives_the_identity():
    n = te.var("n")
    P = te.placeholder((3, n), name="P")
    r = te.reduce_axis(n)
    T = te.compute((3,), lambda v: te.sum(P[v, r], axis=r) , name="T")
    f = te.create_prim_func([P, T])
    np.testing.assert_array_equal(interpret(f, np.ones((3, 0), "float32"))[0], [0, 0, 0])
    np.testing.assert_array_equal(interpret(f, np.ones((3, 2), "float32"))[0], [2, 2, 2])


def test_let_keeps_the_value_of_its_time():
    x = Var("x", "float32")
    swap = Let(x, A[0], seq(Store(A, (const(0),), A[1]), Store(A, (const(1),), x)))
    (a,) = interpret(func(swap, [A]), X)
    assert list(a[:2]) == [2, 1]


def test_if_else():
    body = loop(i, 8, If(i < 3, Store(C, (i,), A[i]), Store(C, (i,), -A[i])))
    np.testing.assert_array_equal(interpret(func(body), X)[0], np.where(np.arange(8) < 3, X, -X))


def test_alloc_is_fresh_at_every_entry():
    T = Buffer("T", (1,), "float32", "local")
    zero = const(0)
    body = loop(i, 8, Alloc(T, If(i < 1, Store(T, (zero,), A[i]), Store(C, (i,), T[0]))))
    with pytest.raises(VerifyError, match=r"'f' reads T\[0\], which was never written"):
        interpret(func(body), X)


def test_empty_sequence():
    (c,) = interpret(func(loop(i, 8, seq(Seq(()), Store(C, (i,), A[i])))), X)
    np.testing.assert_array_equal(c, X)


def test_forty_nested_loops():
    body = Store(C, (const(0),), C[0] + 1.0)
    for n in range(40):
        body = loop(Var(f"l{n}"), 2 if n % 13 == 0 else 1, body)
    body = seq(loop(i, 8, Store(C, (i,), const(0.0, "float32"))), body)
    assert interpret(func(body, [C]))[0][0] == 16


def test_long_chains_of_operations():
    e = convert(0.0)
    for n in range(250):
        e = e + A[n % 8]
    (c,) = interpret(func(loop(i, 8, Store(C, (i,), e))), X)
    assert c[0] == sum(X[n % 8] for n in range(250))


def test_names_that_python_uses():
    body = loop(Var("lane"), 2, loop(Var("value"), 2, loop(Var("range"), 2, Store(
        C, (Var("lane") * 4 + Var("value") * 2 + Var("range"),), A[Var("range")]))))
    np.testing.assert_array_equal(interpret(func(body), X)[0], [1, 2] * 4)


def test_source_is_readable_python():
    source = interpret_source(func(loop(i, 8, Store(C, (i,), A[i] * 2.0))))
    assert "for i in range(8):" in source and "store_C(i, load_A(i, 'f') * 2.0, 'f')" in source
    compile(source, "f", "exec")


# vectors: lowered programs


def test_vector_store_of_ramps_and_broadcasts():
    where = Ramp(i * 4, const(1), 4)
    back = Ramp(7 - i * 4, const(-1), 4)
    value = Load(A, (back,)) * Broadcast(A[0] + 1.0, 4)
    (c,) = interpret(func(loop(i, 2, Store(C, (where,), value))), X)
    np.testing.assert_array_equal(c, X[::-1] * 2)


def test_vector_store_reads_all_lanes_before_it_writes():
    body = Store(A, (Ramp(const(0), const(1), 8),), Load(A, (Ramp(const(7), const(-1), 8),)))
    np.testing.assert_array_equal(interpret(func(body, [A]), X)[0], X[::-1])


def test_vector_let_and_select():
    x = Var("x", "float32x8")
    lanes = Ramp(const(0), const(1), 8)
    value = Select(BinOp("<", lanes, Broadcast(const(4), 8)), x, x + x)
    body = Let(x, Load(A, (lanes,)), Store(C, (lanes,), value))
    np.testing.assert_array_equal(interpret(func(body), X)[0], np.where(X <= 4, X, 2 * X))


def test_select_does_not_evaluate_the_other_side_of_a_lane():
    lanes = Ramp(const(0), const(1), 8)
    inside = BinOp("<", lanes, Broadcast(const(7), 8))
    shifted = Load(A, (lanes + Broadcast(const(1), 8),))
    body = Store(C, (lanes,), Select(inside, shifted, Broadcast(convert(0.0), 8)))
    np.testing.assert_array_equal(interpret(func(body), X)[0], [*X[1:], 0])


@pytest.mark.parametrize("op", ["and", "or"])
def test_and_and_or_evaluate_both_operands(op):
    known = BinOp("<", i, const(8)) if op == "and" else BinOp("<", i, const(0))
    known = BinOp("==", known, const(op == "or", "bool"))
    cond = BinOp(op, known, Load(A, (i + 1,)) < 0.0)
    with pytest.raises(VerifyError, match=r"reads A\[8\]"):
        interpret(func(loop(i, 8, If(cond, Store(C, (i,), A[i])))), X)


def test_vector_cast():
    D = Buffer("D", (8,), "int8")
    lanes = Ramp(const(0), const(1), 8)
    body = Store(D, (lanes,), Cast("int8x8", Load(A, (lanes,)) * Broadcast(convert(50.0), 8)))
    want = (X * 50).astype("int64").astype("int8")
    np.testing.assert_array_equal(interpret(func(body, [A, D]), X)[0], want)


def test_buffers_of_vectors():
    T = Buffer("T", (2,), "float32x4", "local")
    body = Alloc(
        T,
        seq(
            loop(i, 2, Store(T, (i,), Load(A, (Ramp(i * 4, const(1), 4),)))),
            loop(i, 2, Store(C, (Ramp(i * 4, const(1), 4),), T[1 - i] + T[i])),
        ),
    )
    np.testing.assert_array_equal(interpret(func(body), X)[0], np.tile(X[:4] + X[4:], 2))


# integers


@pytest.mark.parametrize(
    ("op", "a", "b", "dtype", "expected"),
    [
        ("+", 127, 1, "int8", -128),
        ("-", 0, 1, "uint8", 255),
        ("*", 2**30, 4, "int32", 0),
        ("*", 2**31, 2, "uint32", 0),
        ("//", -7, 2, "int32", -4),
        ("%", -7, 2, "int32", 1),
        ("//", 7, -2, "int32", -4),
        ("%", 7, -2, "int32", -1),
        ("//", -128, -1, "int8", -128),
        ("<<", 1, 31, "int32", -(2**31)),
        (">>", -8, 1, "int32", -4),
        ("&", -2, 7, "int8", 6),
        ("|", -8, 1, "int8", -7),
        ("^", -1, 5, "int16", -6),
        ("+", 2**63 - 1, 1, "int64", -(2**63)),
        ("+", 2**64 - 1, 1, "uint64", 0),
        ("min", -3, 2, "int32", -3),
        ("max", -3, 2, "int32", 2),
    ],
)
def test_integers_wrap_as_in_c_and_divide_as_in_python(op, a, b, dtype, expected):
    assert evaluate(BinOp(op, lit(a, dtype), lit(b, dtype))) == expected


def test_intermediate_results_wrap_as_well():
    e = BinOp("//", BinOp("+", lit(100, "int8"), lit(100, "int8")), lit(2, "int8"))
    assert evaluate(e) == -28


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (300, "int32", "uint8", 44),
        (-1, "int32", "uint32", 2**32 - 1),
        (2**31, "int64", "int32", -(2**31)),
        (3, "int32", "bool", True),
        (1, "bool", "int32", 1),
        (-1.9, "float32", "int32", -1),
        (1.9, "float64", "uint8", 1),
        (0.5, "float32", "bool", True),
        (math.nan, "float32", "int32", -(2**31)),
        (2**24 + 1, "int32", "float32", 2.0**24),
        (1.0 + 2.0**-30, "float64", "float32", 1.0),
        (True, "bool", "float32", 1.0),
    ],
)
def test_casts(value, source, target, expected):
    assert evaluate(Cast(target, Const(value, source))) == expected


def test_values_of_64_bits_wrap():
    A = te.placeholder((2,), "int64", name="A")
    B = te.compute((2,), lambda i: te.popcount(A[i] * A[i]), name="B")
    (found,) = interpret(te.create_prim_func([A, B]), np.array([2**33 + 1, 3]))
    assert found.tolist() == [2, 2]


@pytest.mark.parametrize("count", [-1, 32, 64, 2**31 - 1])
def test_shifts_by_all_bits_and_more(count):
    amount = lit(count, "int32")
    assert evaluate(BinOp("<<", lit(5, "int32"), amount)) == 0
    assert evaluate(BinOp(">>", lit(5, "int32"), amount)) == 0
    assert evaluate(BinOp(">>", lit(-5, "int32"), amount)) == -1


@pytest.mark.parametrize("op", ["//", "%"])
def test_division_by_zero(op):
    with pytest.raises(VerifyError, match="function 'f' divides an integer by zero"):
        evaluate(BinOp(op, lit(1, "int32"), lit(0, "int32")))


# floats


def number(value):
    return Cast("float32", Const(value, "float64"))


@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_propagate_nan(op):
    for a, b in ((math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan)):
        assert math.isnan(evaluate(BinOp(op, number(a), number(b))))
    low, one = number(-math.inf), number(1.0)
    assert evaluate(BinOp(op, low, one)) == (1.0 if op == "max" else -math.inf)


def test_division_is_that_of_ieee():
    assert evaluate(number(1.0) / number(0.0)) == math.inf
    assert evaluate(number(-1.0) / number(0.0)) == -math.inf
    assert math.isnan(evaluate(number(0.0) / number(0.0)))


def test_comparisons_with_nan_are_false():
    for op, expected in (("<", False), ("<=", False), ("==", False), ("!=", True)):
        assert evaluate(BinOp(op, number(math.nan), number(1.0))) is expected


def test_math_functions_at_the_ends_of_their_domain():
    assert math.isnan(evaluate(te.sqrt(number(-1.0))))
    assert evaluate(te.log(number(0.0))) == -math.inf
    assert evaluate(te.exp(number(1000.0))) == math.inf
    assert evaluate(te.rsqrt(number(0.0))) == math.inf
    assert evaluate(te.isnan(number(math.nan))) is True
    assert evaluate(te.rint(number(2.5))) == 2.0
    assert evaluate(te.round(number(2.5))) == 3.0


def test_constants_have_the_value_of_their_type():
    assert evaluate(convert(0.1)) == float(np.float32(0.1))
    assert evaluate(cast("float64", convert(0.1))) == float(np.float32(0.1))
    assert evaluate(Const(0.1, "float64")) == 0.1


def test_stores_round_unless_precise():
    S, D = Buffer("S", (), "float32"), Buffer("D", (), "float64")
    tiny = const(2.0**-40, "float32")
    body = seq(
        Store(S, (), const(1.0, "float32")),
        loop(i, 8, Store(S, (), S[()] + tiny)),
        Store(D, (), cast("float64", S[()])),
    )
    f = func(body, [S, D])
    assert interpret(f)[1] == 1.0
    s, d = interpret(f, precise=True)
    assert s == 1.0 and s.dtype == np.float32 and d == 1.0 + 2.0**-37


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_round_at_stores_and_casts(dtype):
    H = Buffer("H", (2,), dtype)
    x = const(1.0 + 2.0**-9, "float32")
    body = seq(
        Store(H, (const(0),), Cast(dtype, x)),
        Store(H, (const(1),), Cast(dtype, Cast("float32", Cast(dtype, x)) + x)),
    )
    (h,) = interpret(func(body, [H]))
    first = 1.0 + 2.0**-9 if dtype == "float16" else 1.0
    second = float(decode(encode([first + 1.0 + 2.0**-9], dtype), dtype)[0])
    assert list(decode(h, dtype)) == [first, second]


def test_bfloat16_is_rounded_to_even_and_keeps_nan():
    values = [1.0, 1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, -0.0, math.inf, 1e39, 3.0e38]
    bits = encode(values, "bfloat16")
    back = decode(bits, "bfloat16")
    assert bits.dtype == np.uint16 and list(back[:3]) == [1.0, 1.0, 1.0 + 2.0**-6]
    assert math.copysign(1, back[3]) == -1 and back[4] == back[5] == math.inf
    assert abs(back[6] / 3.0e38 - 1) < 2.0**-8
    assert math.isnan(decode(encode([math.nan], "bfloat16"), "bfloat16")[0])


def test_overflow_gives_infinity():
    assert evaluate(number(3e38) * number(10.0)) == math.inf


# what it refuses


def test_index_out_of_range():
    body = loop(i, 9, Store(C, (i,), A[i]))
    with pytest.raises(VerifyError, match=r"'f' reads A\[8\], outside of the shape \(8,\)"):
        interpret(func(body), X)


def test_negative_index_is_out_of_range():
    body = loop(i, 8, Store(C, (i - 1,), A[i]))
    with pytest.raises(VerifyError, match=r"'f' writes C\[-1\], outside of the shape \(8,\)"):
        interpret(func(body), X)


def test_every_dimension_is_checked():
    M = Buffer("M", (2, 4), "float32")
    body = loop(i, 8, Store(M, (const(0), i), A[i]))
    with pytest.raises(VerifyError, match=r"writes M\[0, 4\], outside of the shape \(2, 4\)"):
        interpret(func(body, [A, M]), X)


def test_unwritten_intermediate_names_block_and_index():
    T = Buffer("T", (8,), "float32")
    v = Var("v")
    iters = (IterVar(v, const(8), IterKind.SPATIAL, i),)
    body = loop(i, 8, Block("last", iters, Store(C, (v,), T[v] + A[v])))
    with pytest.raises(VerifyError, match=r"block 'last' reads T\[0\], which was never written"):
        interpret(func(body, buffers=[T]), X)


def test_unwritten_output():
    with pytest.raises(VerifyError, match=r"element C\[5\] of output 'C' is never written"):
        interpret(func(loop(i, 5, Store(C, (i,), A[i]))), X)


def test_reduction_without_init():
    body = loop(i, 8, Store(C, (const(0),), C[0] + A[i]))
    with pytest.raises(VerifyError, match=r"reads C\[0\], which was never written"):
        interpret(func(body), X)


def test_block_variable_outside_of_its_domain():
    v = Var("v")
    block = Block("b", (IterVar(v, const(4), IterKind.SPATIAL, i),), Store(C, (v,), A[v]))
    with pytest.raises(VerifyError, match=r"block 'b' runs with v = 4, outside .*\[0, 4\)"):
        interpret(func(loop(i, 8, block)), X)


# arrays and sizes


def test_all_parameters_may_be_given_and_are_not_changed():
    body = loop(i, 8, Store(C, (i,), C[i] + A[i]))
    c = np.ones(8, "float32")
    np.testing.assert_array_equal(interpret(func(body), X, c)[0], X + 1)
    assert (c == 1).all()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((), r"takes 1 inputs \(A\), or all 2 parameters; got 0 arrays"),
        ((X, X, X), "got 3 arrays"),
        ((X.astype("float64"),), "array for 'A' has dtype float64, and the parameter is float32"),
        ((X[:4],), r"array for 'A' has shape \(4,\), and the parameter \(8,\)"),
        ((X.reshape(2, 4),), "array for 'A' has 2 dimensions, and the parameter has 1"),
    ],
)
def test_arrays_that_do_not_fit(arrays, message):
    with pytest.raises(TensorIRError, match=message):
        interpret(func(loop(i, 8, Store(C, (i,), A[i]))), *arrays)


def test_sizes_must_agree():
    n = te.var("n")
    P, Q = te.placeholder((n,), name="P"), te.placeholder((n,), name="Q")
    f = te.create_prim_func([P, Q, te.compute((n,), lambda v: P[v] + Q[v], name="R")])
    with pytest.raises(TensorIRError, match=r"array for 'Q' has shape \(4,\), .* \(8,\)"):
        interpret(f, X, X[:4])


def test_sizes_can_be_given():
    n = te.var("n")
    f = te.create_prim_func([te.compute((n,), lambda v: te.cast(v, "float32"), name="R")])
    np.testing.assert_array_equal(interpret(f, sizes={"n": 3})[0], [0, 1, 2])
    with pytest.raises(TensorIRError, match="size 'n' .* give it as sizes="):
        interpret(f)


def test_select_of_scalars_is_lazy():
    e = select(i < 7, Load(A, (i + 1,)), convert(0.0))
    (c,) = interpret(func(loop(i, 8, Store(C, (i,), e))), X)
    np.testing.assert_array_equal(c, [*X[1:], 0])
