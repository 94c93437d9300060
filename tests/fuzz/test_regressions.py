"""What the random schedules found, each as the shortest steps that showed it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from backends import build
from schedule import Schedule, ScheduleError
from tensorir import interpret, parse, reference, te, verify

sys.path.insert(0, str(Path(__file__).parent))
from checks import check_bits, check_compiled, check_interpreted, check_text  # noqa: E402
from random_schedules import elementwise, matmul_bias, padded_conv, row_max  # noqa: E402
from workloads import Workload  # noqa: E402


def apply(sch, steps):
    for name, *arguments in steps:
        getattr(sch, name)(*arguments)


def keeps_the_meaning(sch):
    verify(sch.func)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in sch.definition.inputs]
    expected = reference(sch.definition, *inputs)
    for got, want in zip(interpret(sch.func, *inputs), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_consumer_of_strided_iterations():
    """Every other element of a row was taken for the whole row, since its hull covers it."""
    sch = Schedule(elementwise(2, 3, 1))
    apply(sch, [("split", "j_C", [None, 2]), ("reorder", "j_C_1", "i_C"), ("cache_write", "C", 0)])
    with pytest.raises(ScheduleError, match="separate dense parts"):
        sch.reverse_compute_at("C_local", "j_C_1")


def test_consumer_of_overlapping_tiles():
    """Tiles of three where steps are two: the third element belongs to the next iteration."""
    sch = Schedule(elementwise(4, 3, 1))
    apply(
        sch,
        [
            ("cache_write", "B", 0),
            ("split", "i", [2, None]),
            ("split", "i_1", [None, 3]),
            ("fuse", "i_0", "i_1_0"),
            ("reverse_compute_at", "B_local", "i_1_1"),
        ],
    )
    assert str(sch.func).count("i_1_1 < 2") == 2
    keeps_the_meaning(sch)


def test_partial_sums_without_terms():
    """Lanes that no term reaches never got the first value of the reduction."""
    sch = Schedule(row_max(2, 1, 3))
    sch.split("k", [None, 5])
    sch.rfactor("C", "k_1")
    keeps_the_meaning(sch)


def test_copy_of_a_partly_computed_buffer():
    """The last rows of the padded input are computed for nobody, and the copy read them."""
    sch = Schedule(padded_conv(5, 2, 2))
    apply(sch, [("cache_write", "conv", 0), ("compute_at", "pad", "i_conv")])
    sch.compute_at("conv", "ax0")
    with pytest.raises(ScheduleError, match="computes only the part of 'pad' that is needed"):
        sch.cache_write("pad", 0)


@pytest.mark.parametrize("rows", [te.var("n"), 0, 1])
def test_copy_of_what_a_loop_without_iterations_computes(rows):
    """The other result of an argmax is read by nobody, so its copy stayed outside of the loop."""
    a = te.placeholder((3, 4), name="A")
    k = te.reduce_axis(4, name="k")
    best = te.compute((3,), lambda i: te.argmax(a[i, k], axis=k), name="best")
    c = te.compute((rows, 3), lambda i, j: best[j] + i, name="C")
    sch = Schedule(te.create_prim_func([*te.numbers_needed([a, c]), a, c]))
    sch.compute_at("best", "i_C")
    if rows == 1:
        sch.cache_write("best", 1)
        keeps_the_meaning(sch)
    else:
        with pytest.raises(ScheduleError, match="only the part of 'best_value' that is needed"):
            sch.cache_write("best", 1)


@pytest.mark.parametrize(("rows", "columns"), [(0, 7), (7, 0), (0, 0), (2, 3)])
@pytest.mark.parametrize("step", ["merge", "parallel", "compute_at"])
def test_digits_of_loops_without_iterations(rows, columns, step):
    """Whether digits stand clear of each other was asked by dividing by a size of 0."""
    a = te.placeholder((rows, columns), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute(
        a.shape, lambda i, j: te.if_then_else(i + j < rows, b[i + j, j], b[i, j]), name="C"
    )
    sch = Schedule(te.create_prim_func([a, c]))
    try:
        if step == "compute_at":
            sch.compute_at("B", "j_C")
        else:
            loop = sch.merge("i", "i_C")
            if step == "parallel":
                sch.parallel(loop)
    except ScheduleError:
        assert rows, "where nothing runs nothing meets"
    keeps_the_meaning(sch)


def test_fused_digits_bound_each_other():
    """f // 2 < 1 and f % 2 < 1 together: the second was forgotten once f % 2 was read as f."""
    sch = Schedule(matmul_bias(8, 11, 5))
    apply(
        sch,
        [
            ("split", "i_D", [None, 2, 2]),
            ("split", "i_D_0", [None, 2, 2]),
            ("compute_at", "C", "i_D_2"),
            ("split", "i_D_0_0", [None, 5]),
            ("fuse", "i_D_0_0_1", "i_D_0_1"),
        ],
    )
    keeps_the_meaning(sch)


def holds(sch, **sizes):
    """All checks of the fuzzer: text and replay, interpreter, compiled C, bits."""
    work = Workload(sch.definition, sizes)
    check_text(sch, work)
    check_interpreted(sch, work, 0)
    check_compiled(sch, work, 0)
    check_bits(sch, work, 0)


COPY = """
@prim_func
def copy(A: f32[n, m], B: f32[n, m]):
    for i, j in grid(n, m):
        with block("B"):
            vi = spatial(n, i)
            vj = spatial(m, j)
            B[vi, vj] = A[vi, vj] * 2.0
"""


def test_fused_symbolic_loops():
    """f < n * m was not enough to see f // m < n, since m might have been 0."""
    sch = Schedule(parse(COPY))
    fused = sch.fuse("i", "j")
    holds(sch, n=5, m=3)
    sch.split(fused, [None, 4])
    holds(sch, n=5, m=3)
    holds(sch, n=0, m=0)


def test_fused_loops_of_a_sum_of_sizes():
    """m * m + 10 * m >= 1 says that m is positive as well."""
    sch = Schedule(parse(COPY.replace("[n,", "[m + 10,").replace("(n,", "(m + 10,")))
    sch.fuse("i", "j")
    verify(sch.func)


def test_fused_loops_without_iterations():
    """The init of a sum over nothing was guarded by 0 % 0 == 0."""
    a, b = te.placeholder((3, 0), name="A"), te.placeholder((0, 1), name="B")
    k = te.reduce_axis(0, name="k")
    c = te.compute((3, 1), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    apply(sch, [("split", "j", [2, None]), ("fuse", "j_1", "k")])
    holds(sch)


def test_fused_loops_of_sizes_without_iterations():
    """The init of a sum over sizes of 0 was guarded by 0 // 0 == 0."""
    m, r = te.var("m"), te.var("r")
    a = te.placeholder((2, m, r), name="A")
    q, k = te.reduce_axis(r, name="q"), te.reduce_axis(m, name="k")
    c = te.compute((2,), lambda i: te.sum(a[i, k, q], axis=[q, k]), name="C")
    sch = Schedule(te.create_prim_func([a, c]))
    sch.fuse("q", "k")
    for sizes in ({"m": 0, "r": 1}, {"m": 1, "r": 0}, {"m": 0, "r": 0}, {"m": 3, "r": 2}):
        holds(sch, **sizes)


@pytest.mark.parametrize("loops", [("i", "j")])
def test_loops_without_iterations_are_well_formed(loops):
    """Bindings inside of a loop that never runs were taken to be out of range."""
    sch = Schedule(elementwise(0, 7, 1))
    sch.fuse(*loops)
    holds(sch)


def test_size_beside_an_extent_of_zero():
    """The kernel of f32[0, r] did not take r any more, and building it failed."""
    sch = Schedule(parse(COPY.replace("f32[n, m]", "f32[0, m]").replace("(n", "(0")))
    holds(sch, m=3)


def test_bounds_of_growing_products_end():
    """The search multiplied i_0 * (n // 2) by itself until Python's stack was full."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    pad = te.compute(
        (n + 1,), lambda i: te.if_then_else(te.all(i >= 1, i <= n), a[i - 1], 0.0), name="pad"
    )
    sch = Schedule(te.create_prim_func([a, pad]))
    steps = [
        ("cache_read", "pad", 0, "local"),
        ("split", "i", [2, None]),
        ("compute_at", "A_local", "i_1"),
    ]
    apply(sch, steps)
    holds(sch, n=8)


PADDED = """
@prim_func
def padded(A: f32[2, 6], C: f32[2, 8]):
    P = alloc(f32[2, 8])
    for c, x in grid(2, 8):
        with block("P"):
            vc = spatial(2, c)
            vx = spatial(8, x)
            P[vc, vx] = select(1 <= vx and vx < 7, A[vc, vx - 1], 0.0)
    for c_C, x_C in grid(2, 8):
        with block("C"):
            vc = spatial(2, c_C)
            vx = spatial(8, x_C)
            C[vc, vx] = P[vc, vx] * 2.0
"""


def test_consumer_of_two_writers():
    """It took over the predicate of one of them, and lost what only the other one writes."""
    sch = Schedule(parse(PADDED))
    steps = [
        ("cache_write", "P", 0),
        ("decompose_padding", "P", "x"),
        ("reverse_compute_at", "P_local", "c"),
    ]
    apply(sch, steps)
    holds(sch)


def test_consumer_of_two_writers_of_different_parts():
    sch = Schedule(parse(PADDED))
    apply(sch, [("cache_write", "P", 0), ("partition", "x", [4, None])])
    with pytest.raises(ScheduleError, match="'P' and 'P_1' write different parts of 'P_local'"):
        sch.reverse_compute_at("P_local", "c")


def test_partition_of_a_predicated_block():
    """A block that no iteration of its part runs was taken to read outside of its buffer."""
    sch = Schedule(parse(PADDED))
    apply(sch, [("decompose_padding", "P", "x"), ("partition", "x", [1, None])])
    holds(sch)


def test_numerics_of_a_padded_sum():
    """Comparing the padded extent with the original one built an expression."""
    sch = Schedule(matmul_bias(5, 3, 5))
    sch.pad_einsum("C", [1, 2, 4])
    assert sch.numerics == "reassociated"
    holds(sch)


def test_numerics_of_sums_in_a_tuple():
    """Sums that are computed together with others were not looked at: any order was bitwise."""
    a = te.placeholder((3, 4, 4), name="A")
    k, q = te.reduce_axis(4, name="k"), te.reduce_axis(4, name="q")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.maximum(x[1], y[1])),
        lambda s, t: (te.const(0, s), te.min_value(t)),
    )
    pair = te.compute((3,), lambda i: both((a[i, k, q], a[i, k, q]), axis=[k, q]), name="P")
    sch = Schedule(te.create_prim_func([a, *pair]))
    assert sch.numerics == "bitwise"
    sch.reorder("q", "k")
    assert sch.numerics == "reassociated"
    holds(sch)


def test_layout_of_a_buffer_without_elements():
    """The hull of nothing under i -> 2 * i got the size -1."""
    sch = Schedule(elementwise(0, 1, 1))
    with pytest.raises(ScheduleError, match="a dimension of size -1, which can be negative"):
        sch.transform_layout("C", "B", "i, j: i * 2, j", 0.0)


def test_padding_twice():
    """That (g + 1) // 2 * 2 is at most (g + 3) // 4 * 4 is not known to every proof."""
    g = te.var("g")
    a, b = te.placeholder((g, 7), name="A"), te.placeholder((7,), name="B")
    k = te.reduce_axis(7, name="k")
    c = te.compute((g,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    sch.pad_einsum("C", [2, 1])
    with pytest.raises(ScheduleError, match="is not known to be at least"):
        sch.pad_einsum("C", [4, 1])


def test_facts_of_a_loop_beside():
    """That k runs over n says n >= 1 in the nest of k only: another nest lost its predicate."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(n, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[k, j], axis=k, where=k <= i), name="C")
    sch = Schedule(te.create_prim_func([a, c], name="running_sum"))
    steps = [
        ("reindex", "C", 0, "local"),
        ("merge", "i", "i_C_reindex"),
        ("partition", "i_i_C_reindex", [None, 1]),
    ]
    apply(sch, steps)
    holds(sch, n=7, m=2)
    holds(sch, n=0, m=2)


def test_prefetch_of_a_gather():
    """The index of a later iteration was read, beyond the end of its buffer."""
    table, index = te.placeholder((8, 5), name="T"), te.placeholder((9,), "int32", name="J")
    g = te.compute((9, 5), lambda i, j: table[te.clip(index[i], 0, 7), j], name="G")
    sch = Schedule(te.create_prim_func([table, index, g]))
    with pytest.raises(ScheduleError, match="no constant size"):
        sch.prefetch("G", 0, "i", 2)


def test_rest_of_a_partition():
    """The start of the last part took it that the part before it has an iteration."""
    sch = Schedule(parse(COPY.replace("[n,", "[4,").replace("(n,", "(4,")))
    apply(sch, [("fuse", "i", "j"), ("partition", "i_j", [None, 4])])
    holds(sch, m=7)
    holds(sch, m=1)
    holds(sch, m=0)


def test_fused_rest_of_a_partition():
    """max(n - 1, 0) * m stands for two products, and only one of them was looked at."""
    sch = Schedule(parse(COPY))
    apply(sch, [("partition", "i", [None, 1]), ("fuse", "i_0", "j")])
    holds(sch, n=4, m=3)
    holds(sch, n=1, m=3)
    holds(sch, n=0, m=3)


@pytest.mark.parametrize("loop", ["c", "x"])
def test_blocks_of_predicated_blocks(loop):
    """What a predicate says of the loops was not known inside of a nested block."""
    sch = Schedule(parse(PADDED))
    apply(sch, [("decompose_padding", "P", "c"), ("blockize", loop)])
    verify(sch.func)
    keeps_the_meaning(sch)


def test_memory_beside_a_loop_without_iterations():
    """Where i_0 runs over max(n - 4, 0), rows were counted from n - 4 on in the loop after it."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[i] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, c]))
    sch.partition("i", [None, 4])
    for size in (0, 1, 4, 5, 9):
        holds(sch, n=size)


def test_blocks_of_fused_predicated_blocks():
    """What the predicate says of fused loops does not reach into the block: it is refused."""
    text = PADDED.replace("f32[2, 6]", "f32[2, 5, 6]").replace("f32[2, 8]", "f32[2, 7, 8]")
    text = text.replace("for c, x in grid(2, 8)", "for c, y, x in grid(2, 7, 8)")
    text = text.replace("for c_C, x_C in grid(2, 8)", "for c_C, y_C, x_C in grid(2, 7, 8)")
    text = text.replace("vx = spatial(8, x)", "vy = spatial(7, y)\n            vx = spatial(8, x)")
    text = text.replace(
        "vx = spatial(8, x_C)", "vy = spatial(7, y_C)\n            vx = spatial(8, x_C)"
    )
    text = text.replace("[vc, vx", "[vc, vy, vx").replace("A[vc, vy,", "A[vc, vy - 1,")
    text = text.replace("select(", "select(1 <= vy and vy < 6 and ")
    sch = Schedule(parse(text))
    apply(sch, [("decompose_padding", "P", "x"), ("fuse", "c", "y"), ("add_unit_loop", "P")])
    before = sch.func
    with pytest.raises(ScheduleError, match="cannot be proved that block 'P' reads"):
        sch.blockize("unit")
    assert sch.func is before


def starting_from_a_copy(n=1):
    """Sums that start from a copy of the bias."""
    a, b = te.placeholder((3, n), name="A"), te.placeholder((3,), name="bias")
    k = te.reduce_axis(n, name="k")
    c = te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="C")
    d = te.compute((3,), lambda i: c[i] + b[i], name="D")
    sch = Schedule(te.create_prim_func([a, b, d], name="sums"))
    sch.fuse_reduction_epilogue("C", "D")
    return sch, sch.cache_read("C", "bias", "local")


def test_init_that_reads_what_is_computed_in_the_reduction():
    """The init runs before the loops of the reduction, and read the copy before it was made."""
    sch, copy = starting_from_a_copy()
    with pytest.raises(ScheduleError, match=f"starts from 'bias_local', which block '{copy}'"):
        sch.compute_at(copy, "k")
    sch.compute_at(copy, "i")
    with pytest.raises(ScheduleError, match="starts from 'bias_local'"):
        sch.decompose_reduction("C", "i")
    holds(sch)


def test_init_that_reads_what_is_computed_in_a_merged_loop():
    sch, copy = starting_from_a_copy()
    sch.compute_at(copy, "i")
    sch.add_unit_loop(copy)
    sch.merge("unit", "k")
    holds(sch)


def test_smallest_of_a_row_with_nan():
    """gcc 12 took `a < b || a == b` for "not greater", which NaN satisfies, and lost it."""
    A = te.placeholder((3, 2), name="A")
    k = te.reduce_axis(2, name="k")
    out = te.compute((3,), lambda i: te.argmin(A[i, k], axis=k), name="out")
    sch = Schedule(te.create_prim_func([A, out], name="smallest"))
    apply(sch, [("decompose_reduction", "out", "i"), ("unroll", "k"), ("unroll", "i")])
    rows = np.array([[1.5, np.nan], [np.nan, 1.0], [2.0, 1.0]], np.float32)
    np.testing.assert_array_equal(build(sch)(rows), [1, 0, 1])


def test_a_pipeline_of_two_writers():
    """Their parts were compared by ==, which makes an expression of expressions."""
    a = te.placeholder((2, 6, 4), name="A")
    b = te.compute((2, 6, 4), lambda h, j, i: a[h, j, i] + 1.0, name="B")
    c = te.compute((4, 2, 6), lambda i, h, j: b[h, j, i] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, c]))
    row = sch.get_loops("C")[0]
    sch.compute_at("B", row)
    _, own = [name for name in sch.get_loops("B") if name not in sch.get_loops("C")]
    sch.partition(own, [4, None])
    sch.pipeline(row, [0, 1])
    holds(sch)


def test_copy_of_a_buffer_of_which_every_other_element_is_computed():
    """Rows from the first to the last were taken for all rows."""
    a = te.placeholder((5, 1), name="A")
    pad = te.compute((5, 1), lambda i, c: a[i, c] + 1.0, name="pad")
    k = te.reduce_axis(2, name="k")
    b = te.compute((2,), lambda i: te.sum(pad[i * 2 + k * 2, 0], axis=k), name="B")
    c = te.compute((2,), lambda i: te.max(b[i], 0.0), name="C")
    sch = Schedule(te.create_prim_func([a, c]))
    sch.compute_at("pad", "k")
    sch.compute_at("B", sch.get_loops("C")[0])
    with pytest.raises(ScheduleError, match="computes only the part of 'pad' that is needed"):
        sch.cache_write("pad", 0, "local")
    holds(sch)


def test_prefetch_of_what_a_nested_block_reads():
    """The request stood outside of the outer block and named its variable."""
    a = te.placeholder((te.var("n"), 1), name="A")
    b = te.compute(a.shape, lambda i, j: te.exp(a[i, j]), name="E")
    sch = Schedule(te.create_prim_func([a, b], name="softmax"))
    sch.prefetch("E", buffer=0, loop="i", distance=1)
    sch.blockize("j")
    x = np.ones((7, 1), "float32")
    np.testing.assert_allclose(build(sch)(x), np.exp(x), rtol=1e-5)
