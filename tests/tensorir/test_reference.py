"""The reference against the interpreter, and the tolerance against float32 arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import Schedule
from tensorir import te
from tensorir.errors import TensorIRError
from tensorir.interpreter.interpret import interpret
from tensorir.reference import reference, reference_with_tolerance, tolerance
from tensorir.reference import run as run_module
from tensorir.reference.contract import contract
from tensorir.stmt import For, ForKind, replace
from tensorir.structural import structural_equal
from tensorir.text.parser import parse
from tensorir.verifier.program import verify

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("float32")


def agree(func, *arrays):
    """Reference and interpreter give the same, up to the rounding of the latter."""
    verify(func)
    found = reference(func, *arrays)
    expected = interpret(func, *arrays, precise=True)
    for got, want in zip(found, expected):
        assert got.shape == want.shape
        if want.dtype.kind == "f":
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, want, rtol=2e-3 if want.dtype == "f2" else 1e-6)
        else:
            np.testing.assert_array_equal(got, want)
    return found


def matmul(n, m, depth, dtype="float32"):
    A = te.placeholder((n, depth), dtype, name="A")
    B = te.placeholder((depth, m), dtype, name="B")
    k = te.reduce_axis(depth)
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_prim_func([A, B, C])


def conv(channels, size, outputs, kernel=3, stride=1, pad=1):
    X = te.placeholder((channels, size, size), name="X")
    W = te.placeholder((outputs, channels, kernel, kernel), name="W")
    padded = te.compute(
        (channels, size + 2 * pad, size + 2 * pad),
        lambda c, y, x: te.if_then_else(
            te.all(y >= pad, y < size + pad, x >= pad, x < size + pad), X[c, y - pad, x - pad], 0.0
        ),
        name="P",
    )
    c, r, s = te.reduce_axis(channels), te.reduce_axis(kernel, "r"), te.reduce_axis(kernel, "s")
    out = (size + 2 * pad - kernel) // stride + 1
    Y = te.compute(
        (outputs, out, out),
        lambda o, y, x: te.sum(
            padded[c, y * stride + r, x * stride + s] * W[o, c, r, s], axis=[c, r, s]
        ),
        name="Y",
    )
    return te.create_prim_func([X, W, Y])


def reducing(shape, reduce, dtype="float32"):
    """Reduce all but the first dimension."""
    A = te.placeholder(shape, dtype, name="A")
    axes = [te.reduce_axis(s, f"k{d}") for d, s in enumerate(shape[1:])]
    B = te.compute(shape[:1], lambda i: reduce(A(i, *axes), axis=axes), name="B")
    return te.create_prim_func([A, B])


def test_matmul():
    agree(matmul(3, 4, 5), normal(3, 5), normal(5, 4))


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution(stride):
    agree(conv(2, 5, 3, stride=stride), normal(2, 5, 5), normal(3, 2, 3, 3))


def test_integer_matmul_wraps():
    a, b = (RNG.integers(-128, 128, size=(3, 3)).astype("int8") for _ in range(2))
    agree(matmul(3, 3, 3, "int8"), a, b)


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_small_chunks_give_the_same(limit, monkeypatch):
    monkeypatch.setattr(run_module, "GRID_LIMIT", limit)
    monkeypatch.setattr(run_module, "DOT_LIMIT", limit)
    agree(conv(2, 4, 2), normal(2, 4, 4), normal(2, 2, 3, 3))
    a = RNG.integers(-3, 3, size=(3, 4, 5)).astype("float32")
    for reduce in (te.sum, te.max, te.argmax, te.argmin, te.prod):
        agree(reducing(a.shape, reduce), a)


@pytest.mark.parametrize("reduce", [te.sum, te.prod, te.max, te.min, te.argmax, te.argmin])
def test_reductions_of_special_values(reduce):
    a = np.array(
        [[1, 2, 2], [np.nan, 1, 2], [np.inf, -np.inf, 0], [-np.inf] * 3, [0, np.nan, np.nan]],
        "float32",
    )
    agree(reducing(a.shape, reduce), a)


@pytest.mark.parametrize("reduce", [te.sum, te.prod, te.any, te.all])
def test_reductions_over_nothing(reduce):
    dtype = "bool" if reduce in (te.any, te.all) else "float32"
    agree(reducing((2, 0), reduce, dtype), np.zeros((2, 0), dtype))


def test_sum_that_does_not_depend_on_its_axis():
    A = te.placeholder((3,), name="A")
    k, r = te.reduce_axis(4, "k"), te.reduce_axis(5, "r")
    B = te.compute((3,), lambda i: te.sum(A[i], axis=k), name="B")
    C = te.compute((3,), lambda i: te.sum(A[i] * A[r % 3], axis=[k, r]), name="C")
    D = te.compute((3,), lambda i: te.sum(te.const(1.0, "float32"), axis=k), name="D")
    agree(te.create_prim_func([A, B, C, D]), normal(3))


def test_user_reduction_of_a_tuple():
    total = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda a, b: (0.0, te.min_value("float32")),
        name="total",
    )
    A = te.placeholder((3, 4), name="A")
    k = te.reduce_axis(4)
    S, M = te.compute((3,), lambda i: total((A[i, k], A[i, k]), axis=k), name="T")
    agree(te.create_prim_func([A, S, M]), normal(3, 4))


def test_where():
    A = te.placeholder((3, 6), name="A")
    k = te.reduce_axis(6)

    def reducer(f, name):
        return te.compute((3,), lambda i: f(A[i, k], axis=k, where=A[i, k] > 0.0), name=name)

    outs = [reducer(f, f.__name__) for f in (te.sum, te.max, te.min, te.prod, te.argmax, te.argmin)]
    agree(te.create_prim_func([A, *outs]), normal(3, 6))


def test_unchosen_sides_may_be_out_of_range():
    A, E = te.placeholder((4,), name="A"), te.placeholder((0,), name="E")
    B = te.compute((9,), lambda i: te.if_then_else(i < 4, A[i], -1.0), name="B")
    C = te.compute((9,), lambda i: te.if_then_else(i < 0, E[i], A[i % 4]), name="C")
    agree(te.create_prim_func([A, E, B, C]), normal(4), normal(0))


def test_gather_and_sizes():
    n = te.var("n")
    A, J = te.placeholder((n,), name="A"), te.placeholder((5,), "int64", name="J")

    def read(i):
        return te.if_then_else(n > 0, A[te.clip(J[i], 0, n - 1)] + te.cast(n, "float32"), -1.0)

    func = te.create_prim_func([A, J, te.compute((5,), read, name="B")])
    agree(func, normal(7), np.array([0, 3, 99, -4, 6]))
    agree(func, normal(0), np.array([0, 3, 99, -4, 6]))


def test_zero_rank_and_zero_extent():
    A = te.placeholder((0, 3), name="A")
    S = te.placeholder((), name="S")
    B = te.compute((0, 3), lambda i, j: A[i, j] + S, name="B")
    C = te.compute((), lambda: S * 2.0, name="C")
    agree(te.create_prim_func([A, S, B, C]), normal(0, 3), np.float32(3))


def test_half_types():
    A = te.placeholder((4,), "float16", name="A")
    B = te.compute((4,), lambda i: te.exp(A[i].astype("float32")).astype("float16"), name="B")
    func = te.create_prim_func([A, B])
    a = normal(4).astype("float16")
    agree(func, a)
    (value,), (bound,) = reference_with_tolerance(func, a)
    assert (abs(interpret(func, a)[0].astype(float) - value) <= bound).all()


def test_casts_and_integers():
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: te.cast(A[i] * 100.0, "int8") // te.const(3, "int8"), name="B")
    C = te.compute((6,), lambda i: te.cast(A[i], "uint8") << te.const(3, "uint8"), name="C")
    D = te.compute((6,), lambda i: te.any(A[i] > 0.0, te.isnan(A[i])), name="D")
    a = np.array([1.9, -1.9, np.nan, np.inf, 300.0, -0.5], "float32")
    agree(te.create_prim_func([A, B, C, D]), a)


def test_large_shapes_take_little_time():
    linear = matmul(1, 200, 3072)
    a, b = normal(1, 3072), normal(3072, 200)
    np.testing.assert_allclose(reference(linear, a, b)[0], a.astype(float) @ b, rtol=1e-9)
    a = normal(8, 3072)
    np.testing.assert_array_equal(reference(reducing(a.shape, te.argmax), a)[0], a.argmax(1))


def test_scheduled_reductions_are_refused():
    """Their bounds are those of all terms in any order, so these have to be seen as one sum."""
    sch = Schedule(matmul(4, 4, 4))
    sch.split(sch.get_loops("C")[-1], [None, 2])
    with pytest.raises(TensorIRError, match="block 'C' of function 'main' is scheduled"):
        reference(sch.func, normal(4, 4), normal(4, 4))


def test_a_block_that_leaves_its_extents_is_refused():
    func = matmul(4, 4, 4)
    split = replace(func.body, extent=func.body.extent * 2)
    with pytest.raises(TensorIRError, match="block 'C' of function 'main' runs at vi = 4, beyond"):
        reference(replace(func, body=split), normal(4, 4), normal(4, 4))


def test_loop_kinds_do_not_matter():
    func = matmul(4, 4, 4)
    assert isinstance(func.body, For)
    parallel = replace(func, body=replace(func.body, kind=ForKind.PARALLEL))
    agree(parallel, normal(4, 4), normal(4, 4))


@pytest.mark.parametrize("special", [(), (0.0, np.inf), (-np.inf, np.inf, np.nan)])
@pytest.mark.parametrize("seed", range(20))
def test_contract_is_einsum(seed, special):
    """Of infinities, too, each term is a product, whatever could be taken out of the sum."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(1, 4, size=5))
    axes = tuple(d for d in range(5) if rng.random() < 0.5)
    a, b = (
        rng.normal(size=[n if rng.random() < 0.6 else 1 for n in sizes]) for _ in range(2)
    )
    for x in (a, b):
        if special:
            x[rng.random(x.shape) < 0.2] = rng.choice(special)
    kept = [1 if d in axes else n for d, n in enumerate(sizes)]
    with np.errstate(invalid="ignore"):
        full = np.broadcast_to(a, sizes) * np.broadcast_to(b, sizes)
        got = np.broadcast_to(contract(a, b, sizes, axes), kept)
        np.testing.assert_allclose(got, full.sum(axis=axes, keepdims=True))


# random graphs


def elementwise(draw, T):
    f = draw(st.sampled_from([
        lambda x: x * 2.0 - 1.0,
        lambda x: te.max(x, 0.5),
        lambda x: te.select(x > 0.0, x, x * 0.5),
        lambda x: te.floor(x * 0.5),
        te.tanh,
        lambda x: te.exp(te.min(x, 1.0)),
        lambda x: te.cast(te.cast(x, "int32") * 3, "float32"),
    ]))
    return te.compute(T.shape, lambda *i: f(T[i]), name="e")


def combined(draw, T):
    op = draw(st.sampled_from([lambda x, y: x + y, lambda x, y: x * y, te.min]))
    n = T.shape[0]
    return te.compute(T.shape, lambda i, j: op(T[i, j], T[n - 1 - i, j]), name="b")


def padded(draw, T):
    n, m = (e.value for e in T.shape)
    low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    return te.compute(
        (n + low + high, m),
        lambda i, j: te.if_then_else(te.all(i >= low, i < n + low), T[i - low, j], 0.0),
        name="p",
    )


def transposed(draw, T):
    n, m = T.shape
    return te.compute((m, n), lambda i, j: T[j, i], name="t")


def product(draw, T):
    n, m = T.shape
    k = te.reduce_axis(m)
    return te.compute((n, n), lambda i, j: te.sum(T[i, k] * T[j, k], axis=k), name="d")


def windows(draw, T):
    n, m = (e.value for e in T.shape)
    size = draw(st.integers(1, min(n, 3)))
    reduce = draw(st.sampled_from([te.sum, te.max, te.min, te.prod]))
    r = te.reduce_axis(size, "r")
    return te.compute((n - size + 1, m), lambda i, j: reduce(T[i + r, j], axis=r), name="w")


def selected(draw, T):
    n, m = T.shape
    k = te.reduce_axis(m)
    reduce = draw(st.sampled_from([te.sum, te.max]))
    row = te.compute((n,), lambda i: reduce(T[i, k], axis=k, where=k % 2 < 1), name="s")
    return te.compute((n, m), lambda i, j: T[i, j] - row[i], name="r")


STAGES = [elementwise, combined, padded, transposed, product, windows, selected]


@st.composite
def graphs(draw):
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    first = T = te.placeholder((n, m), name="A")
    for stage in draw(st.lists(st.sampled_from(STAGES), min_size=1, max_size=4)):
        T = stage(draw, T)
    k = te.reduce_axis(T.shape[1])
    best = te.compute(T.shape[:1], lambda i: te.argmax(T[i, k], axis=k), name="best")
    seed = draw(st.integers(0, 2**16))
    integers = draw(st.booleans())
    rng = np.random.default_rng(seed)
    a = rng.integers(-3, 4, size=(n, m)) if integers else rng.normal(size=(n, m))
    return te.create_prim_func([first, T, best]), a.astype("float32")


@settings(max_examples=50, deadline=None, derandomize=True)
@given(graphs())
def test_random_graphs(case):
    """Reference = interpreter, and rounding at every store stays within the tolerance."""
    func, a = case
    verify(func)
    assert structural_equal(parse(repr(func)), func)
    values, bounds = reference_with_tolerance(func, a)
    for got, want in zip(reference(func, a), values):
        np.testing.assert_array_equal(got, want)
    sure = bounds[1] == 0
    precise = interpret(func, a, precise=True)
    rounded = interpret(func, a)
    np.testing.assert_allclose(values[0], precise[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(values[1][sure], precise[1][sure])
    np.testing.assert_array_equal(values[1][sure], rounded[1][sure])
    known = np.isfinite(values[0])
    assert (abs(rounded[0] - values[0])[known] <= bounds[0][known]).all()


# the tolerance


def in_float32(func, a, b, rng):
    """The matrix product in float32, its terms added in a random order."""
    order = rng.permutation(a.shape[1])
    total = np.zeros((a.shape[0], b.shape[1]), "float32")
    for k in order:
        total += a[:, k, None] * b[None, k]
    return total


@pytest.mark.parametrize("growth", ["order", "algebra"])
@pytest.mark.parametrize("depth", [1, 7, 300])
def test_float32_sums_stay_within_the_tolerance(growth, depth):
    rng = np.random.default_rng(depth)
    func = matmul(4, 5, depth)
    for scale in (1.0, 1e-30, 1e15):
        a = (rng.normal(size=(4, depth)) * scale).astype("float32")
        b = rng.normal(size=(depth, 5)).astype("float32")
        (value,), (bound,) = reference_with_tolerance(func, a, b, growth=growth)
        for _ in range(5):
            assert (abs(in_float32(func, a, b, rng) - value) <= bound).all()


def test_a_missing_term_is_outside_of_the_tolerance():
    a, b = normal(4, 256), normal(256, 5)
    func = matmul(4, 5, 256)
    (value,), (bound,) = reference_with_tolerance(func, a, b)
    wrong = a[:, 1:].astype(float) @ b[1:]
    assert (abs(wrong - value) > bound).any()
    (looser,) = tolerance(func, a, b, growth="algebra")
    assert (looser >= bound).all()


def test_exact_work_has_no_tolerance():
    A = te.placeholder((3, 4), name="A")
    B = te.compute((4, 3), lambda i, j: te.max(A[j, i], 0.0), name="B")
    (bound,) = tolerance(te.create_prim_func([A, B]), normal(3, 4))
    assert (bound == 0).all()


def test_errors_of_intermediates_are_carried_on():
    A = te.placeholder((1, 64), name="A")
    k = te.reduce_axis(64)
    S = te.compute((1,), lambda i: te.sum(A[i, k], axis=k), name="S")
    B = te.compute((1,), lambda i: te.exp(S[i]), name="B")
    func = te.create_prim_func([A, S, B])
    _, (inner, outer) = reference_with_tolerance(func, normal(1, 64) + np.float32(0.1))
    values = reference(func, normal(1, 64))
    assert inner[0] > 0 and outer[0] > 0 and len(values) == 2


def test_a_condition_that_rounding_can_turn_over_widens_the_bound():
    A = te.placeholder((3,), name="A")
    k = te.reduce_axis(3)
    S = te.compute((), lambda: te.sum(A[k], axis=k), name="S")
    B = te.compute((), lambda: te.select(S > 0.0, S + 100.0, S), name="B")
    F = te.compute((), lambda: te.cast(te.floor(S), "int32"), name="F")
    func = te.create_prim_func([A, B, F])
    near = np.array([1e8, -1e8, 1e-3], "float32")
    bounds = tolerance(func, near)
    assert bounds[0] >= 100 and bounds[1] == np.inf
    bounds = tolerance(func, np.array([1.25, 2.25, 3.25], "float32"))
    assert bounds[0] < 1e-4 and bounds[1] == 0


def test_an_index_that_rounding_can_change_is_not_judged():
    A = te.placeholder((2, 3), name="A")
    k = te.reduce_axis(3)
    E = te.compute((2, 3), lambda i, j: te.exp(A[i, j]), name="E")
    B = te.compute((2,), lambda i: te.argmax(E[i, k], axis=k), name="B")
    a = np.array([[1, 2, 3], [1, 2, np.nextafter(np.float32(2), np.float32(3))]], "float32")
    (bound,) = tolerance(te.create_prim_func([A, B]), a)
    assert list(bound) == [0, np.inf]


def test_masked_softmax_has_a_finite_tolerance():
    a = normal(2, 5)
    a[0, 3:] = -np.inf
    A = te.placeholder((2, 5), name="A")
    k, r = te.reduce_axis(5), te.reduce_axis(5, "r")
    M = te.compute((2,), lambda i: te.max(A[i, k], axis=k), name="M")
    E = te.compute((2, 5), lambda i, j: te.exp(A[i, j] - M[i]), name="E")
    S = te.compute((2,), lambda i: te.sum(E[i, r], axis=r), name="S")
    P = te.compute((2, 5), lambda i, j: E[i, j] / S[i], name="P")
    func = te.create_prim_func([A, P])
    (value,), (bound,) = reference_with_tolerance(func, a)
    assert (bound < 1e-5).all() and (value[0, 3:] == 0).all()
    assert (abs(interpret(func, a)[0] - value) <= bound).all()


def test_overflow_of_an_intermediate_is_not_judged():
    A = te.placeholder((2,), name="A")
    B = te.compute((2,), lambda i: te.exp(A[i]), name="B")
    C = te.compute((2,), lambda i: B[i] / B[i], name="C")
    (bound,) = tolerance(te.create_prim_func([A, C]), np.array([1, 100], "float32"))
    assert bound[0] < 1e-5 and bound[1] == np.inf


def test_growth_is_checked():
    with pytest.raises(TensorIRError, match="growth is 'order' or 'algebra', not 'best'"):
        tolerance(matmul(1, 1, 1), normal(1, 1), normal(1, 1), growth="best")


LARGE = np.array([2**31 - 1, 2**31 - 129, 65535, 65521, 2**24 + 1, -(2**31) + 1, 3, 0], "int32")
BOUNDED = {
    "a wave beyond its peak": lambda x: te.sin(x.astype("float32") + 1.5),
    "a tangent across its pole": lambda x: te.tan(x.astype("float32") * 1.5707),
    "an odd or even power": lambda x: te.pow(te.const(-1.0), x.astype("float32")),
    "the logarithm of what cancels": lambda x: te.log(x.astype("float32") - x.astype("float64")),
    "an overflow to infinity, times zero": lambda x: x.astype("float16").astype("float32") * 0.0,
    "an overflow within a function": lambda x: te.tanh(x.astype("float16").astype("float32")),
    "an overflow that is asked for": lambda x: te.isinf(x.astype("float16").astype("float32")),
    "an overflow of a narrower range": lambda x: te.exp2(
        x.astype("float32") * 1e-8
    ).astype("bfloat16").astype("float16") * 3,
    "a remainder that jumps": lambda x: te.floormod(x.astype("float32"), 32.0),
    "a truth of what may be zero": lambda x: te.fmod(x.astype("float32"), 32.0).astype("bool"),
    "an integer of what overflows": lambda x: te.min(
        x.astype("float16").astype("float32") * 0.0, 7.0
    ) == 0.0,
    "an angle around the origin": lambda x: te.atan2(
        x.astype("float32") - x.astype("float64"), x.astype("float64") - x.astype("float32")
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BOUNDED)
def test_bounds_hold_where_functions_turn_and_jump(what):
    A = te.placeholder(LARGE.shape, "int32", name="A")
    B = te.compute(LARGE.shape, lambda i: BOUNDED[what](A[i]), name="B")
    func = te.create_prim_func([A, B])
    ((value,), (bound,)) = reference_with_tolerance(func, LARGE)
    (found,) = interpret(func, LARGE)
    with np.errstate(invalid="ignore"):
        off = np.abs(found.astype(float) - value.astype(float))
    right = (off <= bound) | np.isinf(bound) | ((found != found) & (value != value))
    right |= found == value
    assert right.all(), (found, value, bound)


def test_conversions_of_small_integers_are_exact():
    A = te.placeholder(LARGE.shape, "int32", name="A")
    B = te.compute(LARGE.shape, lambda i: A[i].astype("float32") * 2, name="B")
    (bound,) = tolerance(te.create_prim_func([A, B]), LARGE)
    np.testing.assert_array_less(bound[np.abs(LARGE) < 2**16], 0.02)
    C = te.compute(LARGE.shape, lambda i: A[i].astype("float32"), name="C")
    (bound,) = tolerance(te.create_prim_func([A, C]), LARGE)
    np.testing.assert_array_equal(bound > 0, np.abs(LARGE.astype("int64")) > 2**24)
