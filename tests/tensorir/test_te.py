"""te: what the definitions mean, as programs and as numbers."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tensorir import te
from tensorir.expr import Const, Load, Var
from tensorir.interpreter.interpret import interpret
from tensorir.numbers.intrin import MATH
from tensorir.stmt import IterKind
from tensorir.structural import structural_equal
from tensorir.text.parser import parse
from tensorir.verifier.program import verify
from tensorir.visit import blocks

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("float32")


def run(inputs, outputs, *arrays):
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    func = te.create_prim_func([*inputs, *outputs])
    verify(func)
    assert structural_equal(parse(repr(func)), func)
    results = interpret(func, *arrays)
    return results[0] if len(outputs) == 1 else results


def matmul(n=4, m=5, depth=6):
    A = te.placeholder((n, depth), name="A")
    B = te.placeholder((depth, m), name="B")
    k = te.reduce_axis(depth, name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C


def test_matmul_prints_as_the_design_says():
    A, B, C = matmul()
    assert repr(te.create_prim_func([A, B, C], name="matmul")).strip() == (
        "@prim_func\n"
        "def matmul(A: f32[4, 6], B: f32[6, 5], C: f32[4, 5]):\n"
        "    for i, j, k in grid(4, 5, 6):\n"
        '        with block("C"):\n'
        "            vi = spatial(4, i)\n"
        "            vj = spatial(5, j)\n"
        "            vk = reduce(6, k)\n"
        "            with init():\n"
        "                C[vi, vj] = 0.0\n"
        "            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"
    )


def test_chain_names_intermediates_loops_and_blocks():
    A, B, C = matmul()
    D = te.compute((4, 5), lambda i, j: te.max(C[i, j], 0.0), name="C")
    func = te.create_prim_func([A, B, D])
    assert [b.name for b in func.params] == ["A", "B", "C"]
    assert [b.name for b in func.buffers] == ["C_1"]
    assert [b.name for b in blocks(func.body)] == ["C_1", "C"]
    a, b = normal(4, 6), normal(6, 5)
    np.testing.assert_allclose(interpret(func, a, b)[0], np.maximum(a @ b, 0), rtol=1e-5)


def test_a_loop_name_in_use_gets_the_name_of_the_block():
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((3,), lambda i: B[i] * 2.0, name="i_D")
    D = te.compute((3,), lambda i: C[i] * 2.0, name="D")
    text = repr(te.create_prim_func([A, D]))
    assert "for i in" in text and "for i_i_D in" in text and "for i_D_1 in" in text


def test_block_variables_do_not_meet_loops():
    A = te.placeholder((2, 3), name="A")
    B = te.compute((2, 3), lambda i, vi: A[i, vi], name="B")
    a = normal(2, 3)
    func = te.create_prim_func([A, B])
    (block,) = blocks(func.body)
    names = [it.var.name for it in block.iters]
    assert len(set(names)) == 2 and "vi" not in names
    np.testing.assert_array_equal(interpret(func, a)[0], a)


def test_two_reduce_axes_of_one_name_are_two():
    A = te.placeholder((4, 5), name="A")
    k, other = te.reduce_axis(4, "k"), te.reduce_axis(5, "k")
    S = te.compute((), lambda: te.sum(A[k, other], axis=[k, other]), name="S")
    a = normal(4, 5)
    np.testing.assert_allclose(run([A], S, a), a.sum(), rtol=1e-5)


def test_star_arguments_and_underscore_name_the_loops_by_position():
    A = te.placeholder((2, 3), name="A")
    B = te.compute((2, 3), lambda *i: A[i] + 1.0, name="B")
    C = te.compute((2, 3), lambda _, j: A[0, j] + 1.0, name="C")
    D = te.compute((2, 3), lambda i, *rest: A(i, *rest), name="D")
    names = [[axis.name for axis in t.op.axis] for t in (B, C, D)]
    assert names == [["i0", "i1"], ["i0", "j"], ["i", "i1"]]


def test_tensor_attributes():
    A, B, C = matmul()
    assert C.ndim == 2 and C.dtype == "float32" and C.name == "C"
    assert [repr(s) for s in C.shape] == ["4", "5"]
    assert C.op.inputs == (A, B)
    assert [a.name for a in C.op.reduce_axis] == ["k"]
    assert A == A and A != B and repr(A) == "Tensor(A: f32[4, 6])"


def test_indices_become_int64():
    A, J = te.placeholder((4,), name="A"), te.placeholder((4,), "int32", name="J")
    load = A[J[2]]
    assert isinstance(load, Load) and load.indices[0].dtype == "int64"


def test_rank_zero_tensors_are_numbers():
    S = te.placeholder((), name="S")
    T = te.placeholder((), name="T")
    out = te.compute((), lambda: (S + 1.0) * 2.0 - T / S + S[()] + te.exp(T) + (2.0 - S), name="O")
    s, t = np.float32(1.5), np.float32(0.5)
    want = (s + 1) * 2 - t / s + s + np.exp(t) + (2 - s)
    np.testing.assert_allclose(run([S, T], out, s, t), want, rtol=1e-6)


def test_several_outputs_share_one_block():
    A = te.placeholder((3, 4), name="A")
    P, Q = te.compute((3, 4), lambda i, j: (A[i, j] + 1.0, A[i, j] * 2.0), name="T")
    func = te.create_prim_func([A, P, Q])
    assert [b.name for b in blocks(func.body)] == ["T"]
    assert [p.name for p in func.params] == ["A", "T_0", "T_1"]
    a = normal(3, 4)
    p, q = interpret(func, a)
    np.testing.assert_allclose(p, a + 1, rtol=1e-6)
    np.testing.assert_allclose(q, a * 2, rtol=1e-6)


def test_an_output_that_is_not_asked_for_is_intermediate():
    A = te.placeholder((3,), name="A")
    P, _ = te.compute((3,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="T")
    func = te.create_prim_func([A, P])
    assert [b.name for b in func.buffers] == ["T_1"]


def test_several_sums_in_one_block():
    A = te.placeholder((3, 4), name="A")
    k = te.reduce_axis(4)
    P, Q = te.compute(
        (3,), lambda i: (te.sum(A[i, k], axis=k), te.sum(A[i, k] * A[i, k], axis=k)), name="T"
    )
    a = normal(3, 4)
    p, q = run([A], [P, Q], a)
    np.testing.assert_allclose(p, a.sum(1), rtol=1e-5)
    np.testing.assert_allclose(q, (a * a).sum(1), rtol=1e-5)


def test_tensor_both_intermediate_and_output():
    A, B, C = matmul()
    D = te.compute((4, 5), lambda i, j: C[i, j] + 1.0, name="D")
    a, b = normal(4, 6), normal(6, 5)
    c, d = run([A, B], [C, D], a, b)
    np.testing.assert_allclose(c + 1, d, rtol=1e-6)


def test_reduce_axis_takes_a_range():
    assert repr(te.reduce_axis((0, 7)).extent) == "7"


REDUCTIONS = {
    "sum": (te.sum, np.sum),
    "prod": (te.prod, np.prod),
    "max": (te.max, np.max),
    "min": (te.min, np.min),
    "argmax": (te.argmax, np.argmax),
    "argmin": (te.argmin, np.argmin),
}
SPECIAL = np.array(
    [
        [1, 3, 3, 2],
        [-np.inf] * 4,
        [np.inf] * 4,
        [1, np.nan, 5, np.nan],
        [np.nan, 1, 2, 3],
        [-0.0, 0.0, -0.0, 0.0],
    ],
    "float32",
)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_float_reductions_are_those_of_numpy(name):
    reduce, expected = REDUCTIONS[name]
    A = te.placeholder(SPECIAL.shape, name="A")
    k = te.reduce_axis(SPECIAL.shape[1])
    B = te.compute(SPECIAL.shape[:1], lambda i: reduce(A[i, k], axis=k), name="B")
    np.testing.assert_array_equal(run([A], B, SPECIAL), expected(SPECIAL, axis=1))


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_integer_reductions_are_those_of_numpy(name, dtype):
    reduce, expected = REDUCTIONS[name]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a = np.array([[low, 3, 3, low], [low] * 4, [high, high, 1, 2]], dtype)
    A = te.placeholder(a.shape, dtype, name="A")
    k = te.reduce_axis(a.shape[1])
    B = te.compute(a.shape[:1], lambda i: reduce(A[i, k], axis=k), name="B")
    given = {"dtype": dtype} if name in ("sum", "prod") else {}
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run([A], B, a), expected(a, axis=1, **given))


def test_argmax_over_two_axes_is_row_major():
    a = RNG.integers(0, 4, size=(3, 4, 5)).astype("float32")
    A = te.placeholder(a.shape, name="A")
    r, s = te.reduce_axis(4, "r"), te.reduce_axis(5, "s")
    B = te.compute((3,), lambda i: te.argmax(A[i, r, s], axis=[r, s]), name="B")
    assert B.dtype == "int64"
    np.testing.assert_array_equal(run([A], B, a), a.reshape(3, -1).argmax(1))


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 5, 0, 4, 1, 3]])
def test_argmax_does_not_depend_on_the_order(order):
    """The combiner, folded over (index, value) pairs in any order, gives np.argmax."""
    from tensorir.te.reducer import ARGMAX
    from tensorir.visit import substitute

    values = [1.0, float("nan"), 7.0, float("nan"), 7.0, -1.0]
    for data in (values, [1.0, 7.0, 2.0, 7.0, 0.0, 7.0]):
        i, a, j, b = Var("i"), Var("a", "float32"), Var("j"), Var("b", "float32")
        merged = ARGMAX.combine((i, a), (j, b))
        best = ARGMAX.identity(("int64", "float32"))
        for n in order:
            env = dict(zip((i, a, j, b), (*best, Const(n, "int64"), Const(data[n], "float32"))))
            best = tuple(_value(substitute(e, env)) for e in merged)
        assert best[0].value == np.argmax(data)


def _value(e):
    """Float comparisons do not fold, so they are run."""
    out = te.compute((), lambda: e, name="O")
    return Const(interpret(te.create_prim_func([out]))[0].item(), e.dtype)


def test_any_and_all():
    a = RNG.integers(0, 2, size=(4, 3)).astype(bool)
    A = te.placeholder(a.shape, "bool", name="A")
    k = te.reduce_axis(3)
    B = te.compute((4,), lambda i: te.any(A[i, k], axis=k), name="B")
    C = te.compute((4,), lambda i: te.all(A[i, k], axis=k), name="C")
    D = te.compute((4,), lambda i: te.all(A[i, 0], te.any(A[i, 1], A[i, 2])), name="D")
    b, c, d = run([A], [B, C, D], a)
    np.testing.assert_array_equal(b, a.any(1))
    np.testing.assert_array_equal(c, a.all(1))
    np.testing.assert_array_equal(d, a[:, 0] & (a[:, 1] | a[:, 2]))


@pytest.mark.parametrize(
    ("reduce", "dtype", "expected"),
    [
        (te.sum, "float32", 0),
        (te.prod, "int32", 1),
        (te.any, "bool", False),
        (te.all, "bool", True),
    ],
)
def test_reductions_over_nothing_give_the_identity(reduce, dtype, expected):
    A = te.placeholder((2, 0), dtype, name="A")
    k = te.reduce_axis(0)
    B = te.compute((2,), lambda i: reduce(A[i, k], axis=k), name="B")
    np.testing.assert_array_equal(run([A], B, np.zeros((2, 0), dtype)), [expected] * 2)


def test_where_leaves_parts_out_and_guards_their_reads():
    A = te.placeholder((6,), name="A")
    k = te.reduce_axis(9)
    S = te.compute((), lambda: te.sum(A[k], axis=k, where=k < 6), name="S")
    negative = te.if_then_else(k < 6, A[k] < 0.0, False)
    both = te.all(k < 6, negative)
    M = te.compute((), lambda: te.max(A[k], axis=k, where=both), name="M")
    a = normal(6)
    s, m = run([A], [S, M], a)
    np.testing.assert_allclose(s, a.sum(), rtol=1e-5)
    assert m == a[a < 0].max()


def test_where_of_argmax():
    A = te.placeholder((6,), name="A")
    k = te.reduce_axis(6)
    B = te.compute((), lambda: te.argmax(A[k], axis=k, where=A[k] < 0.5), name="B")
    a = np.array([1, 0, 0.25, 0.25, 2, -1], "float32")
    assert run([A], B, a) == 2


def test_max_and_min_of_operands_are_elementwise():
    A, B = te.placeholder((3,), name="A"), te.placeholder((3,), name="B")
    C = te.compute((3,), lambda i: te.max(A[i], B[i], 0.5) + te.min(A[i], B[i]), name="C")
    a, b = normal(3), normal(3)
    want = np.maximum(np.maximum(a, b), 0.5) + np.minimum(a, b)
    np.testing.assert_allclose(run([A, B], C, a, b), want, rtol=1e-6)


def test_max_with_a_positional_axis_reduces_as_in_tvm():
    A = te.placeholder((3, 4), name="A")
    k = te.reduce_axis(4)
    B = te.compute((3,), lambda i: te.max(A[i, k], k), name="B")
    C = te.compute((3,), lambda i: te.max(A[i, k], [k]), name="C")
    a = normal(3, 4)
    for t in (B, C):
        np.testing.assert_array_equal(run([A], t, a), a.max(1))


def test_comm_reducer_of_one_value():
    xor = te.comm_reducer(lambda x, y: x ^ y, lambda dtype: te.const(0, dtype), name="xor")
    A = te.placeholder((3, 4), "int32", name="A")
    k = te.reduce_axis(4)
    B = te.compute((3,), lambda i: xor(A[i, k], axis=k), name="B")
    a = RNG.integers(0, 100, (3, 4)).astype("int32")
    np.testing.assert_array_equal(run([A], B, a), np.bitwise_xor.reduce(a, axis=1))


def test_comm_reducer_of_a_tuple():
    """Online softmax: the maximum, and the sum of exponentials relative to it."""

    def combine(x, y):
        top = te.max(x[0], y[0])
        return top, x[1] * te.exp(x[0] - top) + y[1] * te.exp(y[0] - top)

    logsum = te.comm_reducer(combine, lambda t0, t1: (te.min_value(t0), 0.0), name="logsum")
    A = te.placeholder((3, 8), name="A")
    k = te.reduce_axis(8)
    one = te.const(1.0, "float32")
    M, S = te.compute((3,), lambda i: logsum((A[i, k], one), axis=k), name="T")
    a = normal(3, 8)
    m, s = run([A], [M, S], a)
    np.testing.assert_allclose(m, a.max(1))
    np.testing.assert_allclose(s, np.exp(a - a.max(1, keepdims=True)).sum(1), rtol=1e-5)


def test_padding_and_conditions():
    A = te.placeholder((4,), name="A")
    B = te.compute((6,), lambda i: te.if_then_else(te.all(i >= 1, i < 5), A[i - 1], 0.0), name="B")
    C = te.compute((6,), lambda i: te.select(te.any(i < 1, i >= 5), -1.0, A[i - 1]), name="C")
    a = normal(4)
    b, c = run([A], [B, C], a)
    np.testing.assert_array_equal(b, np.pad(a, 1))
    np.testing.assert_array_equal(c, np.pad(a, 1, constant_values=-1))


def test_gather_with_clip_or_condition():
    A, J = te.placeholder((5,), name="A"), te.placeholder((4,), "int32", name="J")
    B = te.compute((4,), lambda i: A[te.clip(J[i], 0, 4)], name="B")
    C = te.compute(
        (4,), lambda i: te.if_then_else(te.all(J[i] >= 0, J[i] < 5), A[J[i]], -1.0), name="C"
    )
    a, index = normal(5), np.array([0, 4, 9, -3], "int32")
    b, c = run([A, J], [B, C], a, index)
    np.testing.assert_array_equal(b, a[np.clip(index, 0, 4)])
    np.testing.assert_array_equal(c, np.where((index >= 0) & (index < 5), b, -1))


def test_symbolic_sizes():
    n, m = te.var("n"), te.size_var("m")
    A, B = te.placeholder((n, m), name="A"), te.placeholder((m, n), name="B")
    k = te.reduce_axis(m)
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n * 2,), lambda i: C[i // 2, i % 2 * 0] + te.cast(n, "float32"), name="D")
    a, b = normal(3, 4), normal(4, 3)
    want = np.repeat((a @ b)[:, 0], 2) + 3
    np.testing.assert_allclose(run([A, B], D, a, b), want, rtol=1e-5)
    assert te.var("n") is n


def test_symbolic_argmax():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    k = te.reduce_axis(n)
    B = te.compute((), lambda: te.argmax(A[k], axis=k), name="B")
    a = normal(9)
    assert run([A], B, a) == a.argmax()


def test_zero_extents_are_legal():
    A = te.placeholder((0, 3), name="A")
    B = te.compute((0, 3), lambda i, j: A[i, j] + 1.0, name="B")
    assert run([A], B, np.zeros((0, 3), "float32")).shape == (0, 3)


def test_a_thousand_stages():
    T = te.placeholder((2,), name="A")
    first = T
    for n in range(1000):
        T = te.compute((2,), lambda i, T=T: T[i] + 1.0, name=f"T{n}")
    func = te.create_prim_func([first, T])
    assert len(list(blocks(func.body))) == 1000
    np.testing.assert_array_equal(interpret(func, np.zeros(2, "float32"))[0], [1000, 1000])


def test_diamonds_are_computed_once():
    T = te.placeholder((2,), name="A")
    first = T
    for n in range(40):
        T = te.compute((2,), lambda i, T=T: T[i] + T[1 - i], name=f"T{n}")
    assert len(list(blocks(te.create_prim_func([first, T]).body))) == 40


def test_placeholder_that_is_not_read_stays_a_parameter():
    A, B = te.placeholder((2,), name="A"), te.placeholder((3,), name="B")
    C = te.compute((2,), lambda i: A[i], name="C")
    assert [p.name for p in te.create_prim_func([A, B, C]).inputs] == ["A", "B"]


def test_block_iters_are_spatial_then_reduce():
    A, B, C = matmul()
    (block,) = blocks(te.create_prim_func([A, B, C]).body)
    assert [it.kind for it in block.iters] == [IterKind.SPATIAL] * 2 + [IterKind.REDUCE]


def test_every_math_function_is_public():
    assert [name for name in MATH if not hasattr(te, name)] == []


FLOAT_FUNCTIONS = [name for name, row in MATH.items() if "float" in row.kinds]


@pytest.mark.parametrize("name", sorted(FLOAT_FUNCTIONS))
def test_math_functions(name):
    arity = MATH[name].arity
    inputs = [te.placeholder((5,), name=f"A{n}") for n in range(arity)]
    B = te.compute((5,), lambda i: getattr(te, name)(*(t[i] for t in inputs)), name="B")
    first = [1.1, 1.25, 1.5, 1.75, 1.9] if name == "acosh" else [0.1, 0.25, 0.5, 0.75, 0.9]
    arrays = [np.array(first, "float32") + n for n in range(arity)]
    want = MATH[name].numpy(*(a.astype(float) for a in arrays))
    np.testing.assert_allclose(run(inputs, B, *arrays), want, rtol=1e-6)


def test_integer_functions():
    pairs = [(a, b) for a in range(-7, 8) for b in (-3, -2, -1, 1, 2, 3)]
    a, b = (np.array(column, "int32") for column in zip(*pairs))
    A = te.placeholder(a.shape, "int32", name="A")
    B = te.placeholder(a.shape, "int32", name="B")
    outs = [
        te.compute(a.shape, lambda i, f=f: f(A[i], B[i]), name=f.__name__)
        for f in (te.truncdiv, te.truncmod, te.floordiv, te.floormod)
    ]
    up = te.compute(a.shape, lambda i: te.ceildiv(A[i], te.abs(B[i])), name="up")
    results = run([A, B], [*outs, up], a, b)
    quotient = np.trunc(a / b).astype("int32")
    wants = (quotient, a - quotient * b, a // b, a % b, np.ceil(a / abs(b)))
    for got, want in zip(results, wants):
        np.testing.assert_array_equal(got, want)


def test_limits_of_types():
    assert te.min_value("int8").value == -128 and te.max_value("uint8").value == 255
    assert te.max_value("float32").value == np.finfo("float32").max
    assert te.min_value("float16").value == -65504.0
    assert te.infinity().value == float("inf") and (-te.infinity()).value == float("-inf")
    assert te.ceildiv(7, 2).value == 4


def test_half_types_are_storage():
    A = te.placeholder((4,), "float16", name="A")
    B = te.compute((4,), lambda i: (A[i].astype("float32") * 3.0).astype("float16"), name="B")
    a = normal(4).astype("float16")
    np.testing.assert_array_equal(run([A], B, a), (a.astype("float32") * 3).astype("float16"))


def test_copies_of_tensors_mean_the_same():
    a, k = te.placeholder((4, 3), name="A"), te.reduce_axis(3, name="k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
    assert copy.copy(k) is copy.deepcopy(k) is k
    for twin in (copy.copy([a, b]), copy.deepcopy([a, b])):
        assert str(te.create_prim_func(twin)) == str(te.create_prim_func([a, b]))
