"""rfactor of all that reduces: tuples, combiners of one's own, symbolic sizes, whole reductions."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import Schedule
from schedule.state import State
from tensorir import Block, blocks, combiner_of, interpret, ops, parse, reference, te, verify

N = te.size_var("n")


def rows(size, fn, inputs=1, dtype="float32"):
    """A compute C over 4 rows of `size`, of `fn(k, *elements)`."""
    given = [te.placeholder((4, size), dtype, name=name) for name in "AB"[:inputs]]
    k = te.reduce_axis(size, name="k")
    made = te.compute((4,), lambda i: fn(k, *[a[i, k] for a in given]), name="C")
    parts = list(made) if isinstance(made, (tuple, list)) else [made]
    return te.create_prim_func([*given, *parts], name="rows")


def _better(x, y):
    """The argmax of TVM's documentation."""
    first = x[1] >= y[1]
    return te.if_then_else(first, x[0], y[0]), te.if_then_else(first, x[1], y[1])


def _product(x, y):
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _pair(d, e):
    return te.const(0, d), te.const(0, e)


ARGMAX = te.comm_reducer(_better, lambda d, e: (te.const(-1, d), te.const(-1000, e)))
COMPLEX = te.comm_reducer(_product, lambda d, e: (te.const(1, d), te.const(0, e)))
BOTH = te.comm_reducer(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), _pair)
LARGER = te.comm_reducer(lambda x, y: te.if_then_else(x > y, x, y), lambda d: te.const(-999, d))

FOLDS = {
    "sum": (lambda k, a: te.sum(a, axis=k), 1),
    "max": (lambda k, a: te.max(a, axis=k), 1),
    "where": (lambda k, a: te.sum(a, axis=k, where=a > 0), 1),
    "argmax": (lambda k, a: te.argmax(a, axis=k), 1),
    "argmin_where": (lambda k, a: te.argmin(a, axis=k, where=a > -3), 1),
    "argmax_of_tvm": (lambda k, a: ARGMAX((k, a), axis=k), 1),
    "sum_and_max": (lambda k, a: BOTH((a, a * a), axis=k), 1),
    "complex": (lambda k, a, b: COMPLEX((a * 0.5, b * 0.25), axis=k), 2),
    "larger": (lambda k, a: LARGER(a, axis=k), 1),
}


def run(sch, *sizes, compiled=True):
    """The schedule, interpreted and compiled, against the reference, for each n of `sizes`."""
    kernel = build(sch) if compiled else None
    for n in sizes:
        inputs = [_numbers(p, n, seed) for seed, p in enumerate(sch.definition.inputs)]
        wanted = reference(sch.definition, *inputs)
        found = [interpret(sch.func, *inputs)]
        if kernel is not None:
            result = kernel(*inputs)
            found.append(result if isinstance(result, tuple) else (result,))
        for a, b in ((a, b) for outputs in found for a, b in zip(outputs, wanted, strict=True)):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


def _numbers(param, n, seed):
    """Distinct whole numbers on both sides of zero."""
    shape = tuple(n if size is N else int(size.value) for size in param.shape)
    count = int(np.prod(shape))
    numbers = np.random.default_rng(seed).permutation(count) - count // 3
    return numbers.reshape(shape).astype("float32")


@pytest.mark.parametrize("name", FOLDS)
def test_every_fold(name):
    """Vector lanes along the reduction, row by row."""
    fn, inputs = FOLDS[name]
    sch = Schedule(rows(13, fn, inputs))
    outer, lane = sch.split("k", [None, 4])
    sch.rfactor("C", lane)
    sch.reorder(outer, lane)
    sch.vectorize(lane)
    sch.merge("i", "i_C")
    verify(sch.func)
    run(sch, 13)


def test_goldens(check, golden):
    fn, inputs = FOLDS["argmax"]
    sch = Schedule(rows(12, fn, inputs))
    sch.rfactor("C", sch.split("k", [None, 4])[1])
    golden(str(sch.func), "argmax")
    assert sch.numerics == "bitwise"
    check(sch)
    sch = Schedule(rows(N, FOLDS["sum"][0]))
    sch.rfactor("C", sch.split("k", [None, 4])[1], 0)
    golden(str(sch.func), "symbolic")
    assert sch.numerics == "reassociated"


@pytest.mark.parametrize("name", ["sum", "max", "where", "argmax", "sum_and_max"])
@pytest.mark.parametrize("inner", [False, True])
def test_symbolic_sizes(name, inner):
    """Also of fewer elements than lanes, and of none where that has a meaning."""
    fn, inputs = FOLDS[name]
    sch = Schedule(rows(N, fn, inputs))
    parts = sch.split("k", [None, 4])
    sch.rfactor("C", parts[inner])
    sizes = (1, 3, 4, 7, 9, 0) if name in ("sum", "where") else (1, 3, 4, 7, 9)
    run(sch, *sizes, compiled=name in ("sum", "argmax"))


def test_lanes_along_a_symbolic_sum():
    sch = Schedule(rows(N, FOLDS["sum"][0]))
    outer, lane = sch.split("k", [None, 8])
    partial = sch.rfactor("C", lane)
    sch.reorder(outer, lane)
    sch.compute_at(partial, "i_C")
    node = sch.state.block(partial)
    lane = str(node.iters[1].binding)
    sch.reorder(*[loop for loop in sch.get_loops(partial)[1:] if loop != lane], lane)
    sch.vectorize(lane)
    run(sch, 0, 1, 7, 8, 9, 40, 43)


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("size", [1, 5, N])
def test_the_only_loop(name, size):
    """Each iteration is a partial result of one term."""
    fn, inputs = FOLDS[name]
    sch = Schedule(rows(size, fn, inputs))
    partial = sch.rfactor("C", sch.get_loops("C")[-1], 0)
    node = sch.state.block(partial)
    assert not node.is_reduction and node.init is None
    run(sch, *((5, 1) if size is N else (size,)), compiled=size is N)


@pytest.mark.parametrize(
    ("make", "block"),
    [
        (lambda x: ops.var(x, 1, algorithm="welford"), "moments"),
        (lambda x: ops.softmax(x, algorithm="online"), "normalizer"),
    ],
)
@pytest.mark.parametrize("size", [11, N])
def test_statistics(make, block, size):
    x = te.placeholder((4, size), name="x")
    sch = Schedule(te.create_prim_func([x, make(x)], name="statistics"))
    outer, lane = sch.split(sch.get_loops(block)[-1], [None, 4])
    sch.rfactor(block, lane)
    assert sch.numerics == "reassociated"
    run(sch, *((11, 3) if size is N else (11,)))


def test_nan_and_infinity_as_in_one_row():
    sch = Schedule(rows(9, FOLDS["argmax"][0]))
    sch.rfactor("C", sch.split("k", [None, 4])[1])
    nan, inf = np.nan, np.inf
    a = np.array(
        [
            [1, nan, 3, nan, 5, 6, 7, 8, 9],
            [-inf] * 9,
            [2, 7, 1, 7, 7, 0, 1, 7, 3],
            [nan] * 9,
        ],
        "float32",
    )
    np.testing.assert_array_equal(build(sch)(a), np.argmax(a, axis=1))
    np.testing.assert_array_equal(interpret(sch.func, a)[0], [1, 0, 1, 0])


def test_integer_and_bool_folds(check):
    for dtype, fn in (
        ("int32", lambda k, a: te.argmin(a, axis=k)),
        ("int64", lambda k, a: te.prod(a, axis=k)),
        ("bool", lambda k, a: te.any(a, axis=k)),
    ):
        sch = Schedule(rows(7, fn, 1, dtype))
        sch.rfactor("C", sch.split("k", [2, None])[0])
        check(sch)


def step_of(fn, identity, operands):
    reducer = te.comm_reducer(fn, identity)
    func = rows(6, lambda k, a: reducer(operands(k, a), axis=k))
    return Schedule(func)


class TestRefuses:
    def test_steps_that_no_combiner_is_found_in(self):
        zero = lambda d: te.const(0, d)  # noqa: E731
        for fn in (
            lambda x, y: x * 2.0 + y,
            lambda x, y: x - y,
            lambda x, y: te.max(x + y, 1.0),
            lambda x, y: (x + y) * 0.5,
            lambda x, y: x + te.exp(y),
        ):
            sch = step_of(fn, zero, lambda k, a: a)
            if "exp" in str(sch.func):
                continue  # a sum of exponentials
            refused(sch.rfactor, "C", "k", match="nor by a combiner of which that is found")
        sch = step_of(
            lambda x, y: (x[0] * y[0] + x[1] * y[1], x[0] * y[1] - x[1] * y[0]),
            _pair,
            lambda k, a: (a, a * 2.0),
        )
        refused(sch.rfactor, "C", "k", match="known to be associative and commutative, nor")

    def test_what_does_not_start_again(self):
        A, S = te.placeholder((4, 6), name="A"), te.placeholder((4,), "int64", name="S")
        k = te.reduce_axis(6, "k")
        C = te.compute((4,), lambda i: te.argmax(A[i, k], axis=k, where=S[i] > k), name="C")
        text = str(te.create_prim_func([A, S, C]))
        given = text.replace("C[vi] = 9223372036854775807", "C[vi] = S[vi]")
        assert given != text
        sch = Schedule(parse(given))
        refused(sch.rfactor, "C", "k", match=r"starts from S\[vi\], -?\S+, which every part")

    def test_parts_start_from_what_changes_nothing(self, check):
        sch = step_of(lambda x, y: x + y, lambda d: te.const(5, d), lambda k, a: a)
        sch.rfactor("C", sch.split("k", [None, 2])[1])
        check(sch)
        sch = step_of(
            lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
            lambda d, e: (te.const(1, d), te.const(0, e)),
            lambda k, a: (a, a),
        )
        sch.rfactor("C", sch.split("k", [None, 4])[0])
        check(sch)

    @pytest.mark.parametrize("whole", [False, True])
    def test_a_sum_that_starts_from_a_tensor(self, check, whole):
        A, B = te.placeholder((6, 11), name="A"), te.placeholder((6,), name="B")
        k = te.reduce_axis(11, "k")
        C = te.compute((6,), lambda i: te.sum(A[i, k], axis=k, init=B[i] * 2), name="C")
        sch = Schedule(te.create_prim_func([A, B, C]))
        sch.rfactor("C", "k" if whole else sch.split("k", [None, 4])[1])
        check(sch)

    def test_a_maximum_may_start_anywhere(self, check):
        sch = step_of(lambda x, y: te.max(x, y), lambda d: te.const(1, d), lambda k, a: a)
        sch.rfactor("C", sch.split("k", [None, 2])[1])
        check(sch)

    def test_terms_left_out_where_no_variable_says_so(self):
        sch = Schedule(parse(DIAGONAL))
        words = "some iterations of loop 'k_1' have no term of block 'C', and its variables cannot"
        refused(sch.rfactor, "C", "k_1", match=words)


DIAGONAL = """
@prim_func
def diagonal(A: f32[6, 8], C: f32[6]):
    for i_0, i_1, k_0, k_1 in grid(3, 2, 4, 2):
        with block("C"):
            vi = spatial(6, i_0 * 2 + i_1)
            vk = reduce(8, k_0 * 2 + k_1)
            where(k_0 * 2 + k_1 < (i_0 * 2 + i_1) % 5)
            with init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""


TRIANGLE = """
@prim_func
def triangle(A: f32[8, 8], C: f32[8]):
    for i in range(8):
        for k in range(i + 1):
            with block("C"):
                vi = spatial(8, i)
                vk = reduce(8, k)
                with init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[vi, vk]
"""


def test_rows_of_different_length():
    a = np.arange(64, dtype="float32").reshape(8, 8)
    for number in (0, 1, None):
        sch = Schedule(parse(TRIANGLE))
        sch.rfactor("C", "k" if number is None else sch.split("k", [None, 4])[number])
        verify(sch.func)
        np.testing.assert_array_equal(interpret(sch.func, a)[0], np.tril(a).sum(1))
    np.testing.assert_array_equal(build(sch)(a), np.tril(a).sum(1))


def test_beside_a_loop_of_data_and_of_the_sum():
    """The fused loop is at its first iteration in the first row only."""
    a = te.placeholder((3, 4, 5), name="A")
    k, q = te.reduce_axis(4, name="k"), te.reduce_axis(5, name="q")
    c = te.compute((3,), lambda i: te.sum(a[i, k, q], axis=[k, q]), name="C")
    sch = Schedule(te.create_prim_func([a, c], name="sums"))
    fused = sch.fuse("i", "k")
    for loop in (fused, "q"):
        refused(sch.rfactor, "C", loop, match=f"loop '{fused}' also chooses the element")


def test_combiners_are_asked_of_every_reduction():
    """What has no init has none."""
    for func in (rows(4, FOLDS["sum"][0]), rows(4, FOLDS["argmax"][0])):
        sch = Schedule(func)
        node = next(b for b in blocks(sch.func.body) if b.is_reduction)
        assert combiner_of(node) is not None
        sch.decompose_reduction("C", "k")
        rest = State(sch.func).block("C")
        assert isinstance(rest, Block) and combiner_of(rest) is None
