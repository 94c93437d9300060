"""Rows that threads share: whole rows, parts of long ones, and runs over several axes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, make_space
from autotune.rules.lanes import run_length
from backends import build, resolve
from schedule import Schedule, library
from tensorir import Cpu, PrimFunc, Target, device_of, interpret, ops, parse, reference, te

TWO = Cpu(Target(vector_bits=128, threads=2, features=("fma",), l1d=32 << 10, l2=1 << 20))


def reduction(f: Callable[[Any], Any], *shape: int, dtype: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, dtype, name="x")
    return te.create_prim_func([x, f(x)])


def first_sketch(func: PrimFunc) -> str:
    return default_candidate(make_space(func, TWO)).sketch


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [
        ((200_003,), None, "parts_lanes"),
        ((1, 200_003), 1, "parts_lanes"),
        ((3, 70_001), 1, "parts_lanes"),
        ((12_501, 16), None, "parts_lanes"),
        ((5, 401, 101), (1, 2), "parts_lanes"),
        ((4, 50_021), 1, "lanes"),
        ((1, 50_021), 1, "lanes"),
        ((101, 2003), 1, "lanes"),
    ],
)
def test_a_row_is_cut_where_threads_would_rest(shape: Any, axis: Any, expected: str) -> None:
    assert first_sketch(reduction(lambda x: ops.sum(x, axis), *shape)) == f"sum:{expected}"


CASES = [
    (lambda x: ops.sum(x), np.sum, (457, 401), "float32"),
    (lambda x: ops.max(x, (1, 2)), lambda a: a.max((1, 2)), (3, 211, 307), "float32"),
    (lambda x: ops.prod(x, 1), lambda a: a.prod(1), (1, 160_001), "float64"),
    (lambda x: ops.sum(x, dtype="int32"), np.sum, (499, 331), "int8"),
    (lambda x: ops.sum(x, (0, 2)), lambda a: a.sum((0, 2)), (31, 3, 2003), "float32"),
    (lambda x: ops.any(x), np.any, (401, 499), "bool"),
    (lambda x: ops.all(x, 1), lambda a: a.all(1), (3, 70_001), "bool"),
    (lambda x: ops.argmax(x), np.argmax, (10_007, 16), "float32"),
    (lambda x: ops.argmin(x, 1), lambda a: a.argmin(1), (3, 100_003), "float32"),
    (lambda x: ops.std(x), np.std, (577, 301), "float32"),
]


@pytest.mark.parametrize(("f", "numpy", "shape", "dtype"), CASES)
def test_defaults_compute_their_function(
    f: Callable[[Any], Any], numpy: Callable[[Any], Any], shape: tuple[int, ...], dtype: str
) -> None:
    rng = np.random.default_rng(0)
    x: np.ndarray = rng.integers(-128, 128, shape, dtype=np.int8)
    if dtype == "bool":
        x = np.zeros(shape, bool) if numpy is np.any else np.ones(shape, bool)
        x.flat[-1] = not x.flat[-1]
    elif dtype != "int8":
        x = rng.uniform(0.9999, 1.0001, shape).astype(dtype)
    func = reduction(f, *shape, dtype=dtype)
    found = build(default_schedule(func, "c -threads=2"), "c -threads=2")(x)
    wide = (
        x.astype("float64") if dtype == "float32" else x.astype("int64") if dtype == "int8" else x
    )
    np.testing.assert_allclose(found, numpy(wide), rtol=1e-5)


@pytest.mark.parametrize("where", [0, 100_000, 160_000])
def test_nan_is_found_in_any_part(where: int) -> None:
    x = np.zeros((1, 160_001), np.float32)
    x[0, where] = np.nan
    for f in (lambda x: ops.max(x), lambda x: ops.sum(x)):
        func = reduction(f, *x.shape)
        assert np.isnan(build(default_schedule(func, "c -threads=2"), "c -threads=2")(x))


def test_runs_go_over_axes_that_follow_each_other() -> None:
    def run(f: Callable[[Any], Any], *shape: int) -> int | None:
        sch = Schedule(reduction(f, *shape))
        return run_length(library.contiguous_run(sch.state.block(str(sch.get_blocks()[0]))))

    assert run(lambda x: ops.sum(x), 3, 5, 7) == 105
    assert run(lambda x: ops.sum(x, (1, 2)), 3, 5, 7) == 35
    assert run(lambda x: ops.sum(x, (0, 2)), 3, 5, 7) == 7
    assert run(lambda x: ops.sum(x, 0), 3, 5, 7) is None
    assert run(lambda x: ops.sum(x, (1, 2)), 3, 1, 1) is None


def test_an_index_in_the_value_may_go_along_if_it_needs_no_division() -> None:
    def weighted(step: int) -> int | None:
        x = te.placeholder((6, 10), name="x")
        i, j = te.reduce_axis(6, name="i"), te.reduce_axis(10, name="j")
        y = te.compute((), lambda: te.sum(x[i, j] * (i * step + j).astype("float32"), axis=[i, j]))
        sch = Schedule(te.create_prim_func([x, y]))
        return run_length(library.contiguous_run(sch.state.block(str(sch.get_blocks()[0]))))

    assert weighted(10) == 60
    assert weighted(7) == 10


def test_rfactor_of_fused_axes_that_nothing_divides() -> None:
    func = reduction(lambda x: ops.sum(x), 7, 9)
    sch = Schedule(func, debug=True)
    block = sch.get_blocks()[0]
    part, _ = sch.split(sch.fuse(*sch.get_loops(block)), [None, 8])
    sch.rfactor(block, part)
    x = np.arange(63, dtype=np.float32).reshape(7, 9)
    assert interpret(sch.func, x) == x.sum()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((16, 2), "float32"),
        ((17, 5), "float32"),
        ((1003, 10), "float32"),
        ((64, 16), "int32"),
        ((3, 37, 31), "float32"),
        ((100, 9), "float64"),
    ],
)
def test_short_rows_lie_in_lanes_and_keep_their_order(shape: tuple[int, ...], dtype: str) -> None:
    data = (np.random.default_rng(0).standard_normal(shape) * 100).astype(dtype)
    data.flat[3] = data.flat[4] * 1e7 if dtype != "int32" else 2**31 - 1
    func = reduction(lambda x: ops.sum(x, -1), *shape, dtype=dtype)
    space = make_space(func, device_of(resolve("c -vector_bits=512 -threads=2")), "bitwise")
    candidate = default_candidate(space)
    assert candidate.sketch == "sum:short_rows"
    expected = np.zeros(shape[:-1], dtype)
    for term in range(shape[-1]):
        expected += data[..., term]
    np.testing.assert_array_equal(build(space.build(candidate))(data), expected)


@pytest.mark.parametrize(("rows", "terms", "dtype"), [(64, 8, "float32"), (37, 5, "float64")])
def test_short_rows_of_several_operands_are_all_turned(rows: int, terms: int, dtype: str) -> None:
    x, y = (te.placeholder((rows, terms), dtype, name=name) for name in "xy")
    k = te.reduce_axis(terms, "k")
    dots = te.compute((rows,), lambda i: te.sum(x[i, k] * y[i, k], axis=k), name="dots")
    func = te.create_prim_func([x, y, dots])
    space = make_space(func, device_of(resolve("c -vector_bits=512 -threads=2")), "bitwise")
    candidate = default_candidate(space)
    assert candidate.sketch == "dots:short_rows"
    a, b = np.random.default_rng(0).integers(-9, 9, (2, rows, terms)).astype(dtype)
    np.testing.assert_array_equal(build(space.build(candidate))(a, b), (a * b).sum(1))


def rows_of(shape, made, read, terms, kind="float32", wide="float32"):
    """Dot products of the rows of two arrays; `read` gives the indices of a term of a result."""
    x, y = (te.placeholder(shape, kind, name=name) for name in "xy")
    k = [te.reduce_axis(n, f"k{at}") for at, n in enumerate(terms)]

    def dot(*at):
        place = read(at, k)
        return te.sum(x[place].astype(wide) * y[place].astype(wide), axis=k)

    return te.create_prim_func([x, y, te.compute(made, dot, name="dots")])


ROWS = {
    "plain": rows_of((6, 48, 8), (6, 48), lambda i, k: (*i, *k), [8]),
    "terms in two": rows_of((6, 48, 8), (6, 48), lambda i, k: (*i, k[0] * 4 + k[1]), [2, 4]),
    "terms apart": rows_of((6, 48, 2, 4), (6, 48), lambda i, k: (*i, *k), [2, 4]),
    "a term of one": rows_of((6, 48, 8), (6, 48), lambda i, k: (*i, k[0]), [8, 1]),
    "rows in two": rows_of((6, 48, 8), (6, 6, 8), lambda i, k: (i[0], i[1] * 8 + i[2], *k), [8]),
    "one row": rows_of((288, 8), (6, 48), lambda i, k: (i[0] * 48 + i[1], *k), [8]),
    "a unit last": rows_of((6, 48, 8, 1), (6, 48, 1), lambda i, k: (*i[:2], *k, i[2]), [8]),
    "int8": rows_of((6, 48, 8), (6, 48), lambda i, k: (*i, *k), [8], "int8", "int32"),
    "int16": rows_of((5, 47, 7), (5, 47), lambda i, k: (*i, *k), [7], "int16", "int32"),
    "float16": rows_of((5, 47, 7), (5, 47), lambda i, k: (*i, *k), [7], "float16"),
    "float64": rows_of((6, 48, 8), (6, 48), lambda i, k: (*i, *k), [8], "float64", "float64"),
}
"""Short rows that are written in other ways, or of other types."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ROWS)
def test_short_rows_lie_in_lanes_however_they_are_written(name: str) -> None:
    func = ROWS[name]
    space = make_space(func, device_of(resolve("c -vector_bits=512 -threads=2")), "bitwise")
    candidate = default_candidate(space)
    assert candidate.sketch == "dots:short_rows"
    sch = space.build(candidate)
    assert sch.numerics == "bitwise"
    steps = [step.name for step in sch.trace.instructions]
    assert steps.count("vectorize") == 4  # two operands turned, their products, the result
    shape, kind = func.inputs[0].const_shape, func.inputs[0].dtype
    a, b = np.random.default_rng(0).integers(-9, 9, (2, *shape)).astype(kind)
    wide = np.float64(a) * np.float64(b)
    found = build(sch)(a, b)
    terms = shape[-1] if name not in ("terms apart", "a unit last") else 8
    np.testing.assert_array_equal(found.ravel(), wide.reshape(-1, terms).sum(1))


@pytest.mark.parametrize("shape", [(100, 7), (100, 7, 1), (4, 25, 1, 7, 1, 1)])
def test_short_rows_with_nan_and_what_follows_them(shape: tuple[int, ...]) -> None:
    axis = shape.index(7)
    x = te.placeholder(shape, name="x")
    func = te.create_prim_func([x, ops.norm(x, axis=axis)])
    space = make_space(func, device_of(resolve("c -vector_bits=512 -threads=2")))
    candidate = default_candidate(space)
    assert "short_rows" in candidate.sketch
    data = np.ones(shape, np.float32)
    data.flat[38], data.flat[692] = np.nan, np.inf
    found = build(space.build(candidate))(data)
    np.testing.assert_allclose(found, np.sqrt((data * data).sum(axis)), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "axis"), [((100, 32), 1), ((7, 5), 1), ((100, 1), 1), ((100, 5), 0), ((9, 5, 20), 1)]
)
def test_other_rows_are_not_turned(shape: tuple[int, ...], axis: int) -> None:
    space = make_space(
        reduction(lambda x: ops.sum(x, axis), *shape), device_of(resolve("c -vector_bits=512"))
    )
    assert not any("short_rows" in name for name in space.sketches)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("f", "numpy", "shape", "dtype"),
    [
        (lambda x: ops.sum(x, 0), lambda a: a.sum(0), (701, 301), "float32"),
        (lambda x: ops.std(x, 0), lambda a: a.std(0), (701, 301), "float64"),
        (lambda x: ops.argmax(x, 0), lambda a: a.argmax(0), (3301, 64), "float32"),
        (lambda x: ops.sum(x, 0, dtype="int32"), lambda a: a.sum(0), (2801, 301), "int8"),
        (lambda x: ops.any(x, 0), lambda a: a.any(0), (701, 301), "bool"),
    ],
)
def test_columns_are_summed_in_parts(
    f: Callable[[Any], Any], numpy: Callable[[Any], Any], shape: tuple[int, int], dtype: str
) -> None:
    func = reduction(f, *shape, dtype=dtype)
    data = (np.random.default_rng(0).standard_normal(shape) * 30).astype(dtype)
    if dtype == "bool":
        data[:], data[502, 300], data[250, 7] = False, True, True
    assert "parts" in first_sketch(func)
    found = build(default_schedule(func, "c -threads=2"), "c -threads=2")(data)
    wide = data.astype("float64") if dtype == "float32" else data
    np.testing.assert_allclose(found, numpy(wide), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(100, 300), (31, 9001), (9, 40_000)])
def test_columns_stay_whole_where_parts_would_not_fit_or_pay(shape: tuple[int, int]) -> None:
    assert "parts" not in first_sketch(reduction(lambda x: ops.sum(x, 0), *shape))


@pytest.mark.parametrize(("queries", "keys"), [(1, 100), (3, 37), (8, 100)])
def test_few_queries_do_not_pack_their_keys(queries: int, keys: int) -> None:
    shapes = {"q": (2, 4, queries, 32), "k": (2, 2, keys, 32), "v": (2, 2, keys, 32)}
    q, k, v = (te.placeholder(shape, name=name) for name, shape in shapes.items())
    func = te.create_prim_func([q, k, v, ops.attention(q, k, v, causal=True)])
    sch = default_schedule(func, "c -threads=2")
    assert ("k_global" in str(sch.func)) == (queries > 5)
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(shape).astype("float32") for shape in shapes.values()]
    found = build(sch, "c -threads=2")(*data)
    np.testing.assert_allclose(found, reference(func, *data)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("f", "numpy"),
    [
        (lambda x: ops.sum(x, 1), lambda a: a.sum(1)),
        (lambda x: ops.max(x, 1), lambda a: a.max(1)),
        (lambda x: ops.sum(x * x, 1), lambda a: (a * a).sum(1)),
    ],
)
@pytest.mark.parametrize("rows", [37, None])
def test_rows_of_symbolic_size_have_their_lanes_along_the_row(
    f: Callable[[Any], Any], numpy: Callable[[Any], Any], rows: int | None
) -> None:
    """Vectors of neighbours, and none of elements a row apart; rows of any size, on all threads."""
    n = te.size_var("n")
    x = te.placeholder((rows or te.size_var("m"), n), name="x")
    func = te.create_prim_func([x, f(x)])
    assert "lanes" in first_sketch(func)
    sch = default_schedule(func, "c -threads=2")
    assert "parallel(" in str(sch.func)
    kernel = build(sch, "c -threads=2")
    assert "load_strided" not in kernel.source and "f32x" in kernel.source
    rng = np.random.default_rng(0)
    for size in (1, 3, 16, 100, 1000):
        a = rng.integers(-8, 9, (37, size)).astype("float32")
        np.testing.assert_array_equal(kernel(a), numpy(a))


def test_candidates_of_symbolic_rows() -> None:
    """Whatever is chosen computes the sums, also of rows without elements."""
    x = te.placeholder((te.size_var("m"), te.size_var("n")), name="x")
    func = te.create_prim_func([x, ops.sum(x, 1)])
    space = make_space(func, TWO)
    rng = random.Random(0)
    for _ in range(6):
        sch = space.build(space.sample(rng))
        for shape in ((3, 0), (0, 5), (5, 7), (9, 40)):
            a = np.arange(shape[0] * shape[1], dtype="float32").reshape(shape)
            np.testing.assert_array_equal(interpret(sch.func, a)[0], a.sum(1))


@pytest.mark.parametrize("op", ["+", "max"])
def test_rows_that_are_stored_at_the_only_place_of_a_dimension(op: str) -> None:
    update = "out[0, vi] + A[vi, vk]" if op == "+" else "max(out[0, vi], A[vi, vk])"
    func = parse(f"""
@prim_func
def rows(A: f32[64, 512], out: f32[1, 64]):
    for i, k in grid(64, 512):
        with block("out"):
            vi = spatial(64, i)
            vk = reduce(512, k)
            with init():
                out[0, vi] = 0.0
            out[0, vi] = {update}
""")
    data = np.random.default_rng(0).integers(1, 5, (64, 512)).astype("float32")
    found = build(default_schedule(func, "c -threads=2"), "c -threads=2")(data)
    wanted = data.sum(1) if op == "+" else data.max(1)
    np.testing.assert_array_equal(found, wanted[None])


@pytest.mark.parametrize("rows", [64, 77])
@pytest.mark.parametrize("terms", [5, 7])
def test_rows_of_a_sparse_matrix_are_short_rows(rows: int, terms: int) -> None:
    """Where memory says what is read, rows of one length are turned as others: gathers of all that
    lies side by side in a row took twice as long as single elements."""
    values = te.placeholder((rows, terms), name="values")
    places = te.placeholder((rows, terms), "int32", name="places")
    x, k = te.placeholder((50,), name="x"), te.reduce_axis(terms, name="k")

    def term(i: Any) -> Any:
        return te.sum(values[i, k] * x[te.clip(places[i, k], 0, 49)], axis=k)

    func = te.create_prim_func([values, places, x, te.compute((rows,), term, name="y")])
    assert first_sketch(func) == "y:short_rows"
    rng = np.random.default_rng(0)
    given = [
        rng.integers(-3, 4, (rows, terms)).astype("float32"),
        rng.integers(-5, 60, (rows, terms)).astype("int32"),
        rng.integers(-3, 4, 50).astype("float32"),
    ]
    for target in ("c -vector_bits=128", "c"):
        found = build(default_schedule(func, target), target)(*given)
        np.testing.assert_array_equal(found, reference(func, *given)[0])


@pytest.mark.parametrize("rows", [te.size_var("n"), 40])
def test_what_reads_another_result_of_a_block_is_no_epilogue_of_its_rows(rows) -> None:
    """Attention whose result is multiplied by itself had no default for symbolic sizes."""
    q = te.placeholder((2, 2, rows, 13), name="q")
    k, v = te.placeholder((2, 2, 16, 13), name="k"), te.placeholder((2, 2, 16, 31), name="v")
    seen = ops.attention(q, k, v)
    func = te.create_prim_func([q, k, v, ops.matmul(seen, seen, transpose_a=True)], name="gram")
    kernel = build(
        default_schedule(func, constants=("k",)),
        constants={"k": np.ones((2, 2, 16, 13), "float32")},
    )
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, dtype="float32") for shape in ((2, 2, 40, 13), (2, 2, 16, 31)))
    mean = np.broadcast_to(b.mean(axis=2, keepdims=True), (2, 2, 40, 31))  # all keys are alike
    np.testing.assert_allclose(kernel(a, b), mean.swapaxes(2, 3) @ mean, rtol=1e-4)
