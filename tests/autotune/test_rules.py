"""Whatever the rules make of a function computes the function."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, make_space
from autotune.rules.stencil import rows_of_registers
from backends import build
from schedule import Schedule
from tensorir import (
    Const,
    Cpu,
    For,
    ForKind,
    PrimFunc,
    Target,
    interpret,
    reference,
    te,
    verify,
    walk,
)

SMALL = Cpu(Target(vector_bits=128, threads=2, features=("fma",), l1d=32 << 10, l2=1 << 20))


def matmul(m: int, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


def linear(m: int, n: int, k: int) -> PrimFunc:
    x, w = te.placeholder((m, k), name="x"), te.placeholder((n, k), name="w")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis(k, name="k")
    y = te.compute((m, n), lambda i, j: te.sum(x[i, r] * w[j, r], axis=r), name="y")
    z = te.compute((m, n), lambda i, j: y[i, j] + bias[j], name="biased")
    relu = te.compute((m, n), lambda i, j: te.max(z[i, j], 0.0), name="relu")
    return te.create_prim_func([x, w, bias, relu], name="linear")


def conv(h: int, w: int, c: int, f: int) -> PrimFunc:
    image, kernel = te.placeholder((h, w, c), name="image"), te.placeholder((3, 3, c, f), name="W")
    pad = te.compute(
        (h + 2, w + 2, c),
        lambda y, x, q: te.if_then_else(
            te.all(y >= 1, y <= h, x >= 1, x <= w), image[y - 1, x - 1, q], 0.0
        ),
        name="pad",
    )
    ry, rx, rc = (te.reduce_axis(e, name=n) for e, n in ((3, "ry"), (3, "rx"), (c, "rc")))
    out = te.compute(
        (h, w, f),
        lambda y, x, o: te.sum(pad[y + ry, x + rx, rc] * kernel[ry, rx, rc, o], axis=[ry, rx, rc]),
        name="conv",
    )
    relu = te.compute((h, w, f), lambda y, x, o: te.max(out[y, x, o], 0.0), name="relu")
    return te.create_prim_func([image, kernel, relu], name="conv")


def softmax(n: int, m: int) -> PrimFunc:
    a = te.placeholder((n, m), name="A")
    k, q = te.reduce_axis(m, name="k"), te.reduce_axis(m, name="q")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="top")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, q], axis=q), name="total")
    out = te.compute((n, m), lambda i, j: e[i, j] / total[i], name="softmax")
    return te.create_prim_func([a, out], name="softmax")


def attention(n: int, m: int, d: int) -> PrimFunc:
    """The last stage divides a product by sums that are computed after it."""
    q, k, v = (te.placeholder((s, d), name=x) for s, x in ((n, "Q"), (m, "K"), (m, "V")))
    r = te.reduce_axis(d, name="r")
    s, t, u = (te.reduce_axis(m, name=x) for x in ("s", "t", "u"))
    score = te.compute((n, m), lambda i, j: te.sum(q[i, r] * k[j, r], axis=r), name="score")
    top = te.compute((n,), lambda i: te.max(score[i, s], axis=s), name="top")
    e = te.compute((n, m), lambda i, j: te.exp(score[i, j] - top[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, t], axis=t), name="total")
    mix = te.compute((n, d), lambda i, j: te.sum(e[i, u] * v[u, j], axis=u), name="mix")
    out = te.compute((n, d), lambda i, j: mix[i, j] / total[i], name="out")
    return te.create_prim_func([q, k, v, out], name="attention")


def layer_norm(n: int, m: int) -> PrimFunc:
    """Two statistics of each row, the second made of the first."""
    x, scale = te.placeholder((n, m), name="x"), te.placeholder((m,), name="scale")
    k, q = te.reduce_axis(m, name="k"), te.reduce_axis(m, name="q")
    total = te.compute((n,), lambda i: te.sum(x[i, k], axis=k), name="total")
    centred = te.compute((n, m), lambda i, j: x[i, j] - total[i] * (1.0 / m), name="centred")
    spread = te.compute(
        (n,), lambda i: te.sum(centred[i, q] * centred[i, q], axis=q), name="spread"
    )
    out = te.compute(
        (n, m),
        lambda i, j: centred[i, j] * te.rsqrt(spread[i] * (1.0 / m) + 1e-5) * scale[j],
        name="out",
    )
    return te.create_prim_func([x, scale, out], name="layer_norm")


def heads(h: int, n: int, m: int, d: int) -> PrimFunc:
    """Attention with several heads: two products in the rows of one softmax."""
    q, k, v = (te.placeholder((h, s, d), name=x) for s, x in ((n, "Q"), (m, "K"), (m, "V")))
    r = te.reduce_axis(d, name="r")
    s, t, u = (te.reduce_axis(m, name=x) for x in ("s", "t", "u"))
    score = te.compute(
        (h, n, m), lambda z, i, j: te.sum(q[z, i, r] * k[z, j, r], axis=r), name="score"
    )
    top = te.compute((h, n), lambda z, i: te.max(score[z, i, s], axis=s), name="top")
    e = te.compute((h, n, m), lambda z, i, j: te.exp(score[z, i, j] - top[z, i]), name="e")
    total = te.compute((h, n), lambda z, i: te.sum(e[z, i, t], axis=t), name="total")
    mix = te.compute((h, n, d), lambda z, i, j: te.sum(e[z, i, u] * v[z, u, j], axis=u), name="mix")
    out = te.compute((h, n, d), lambda z, i, j: mix[z, i, j] / total[z, i], name="out")
    return te.create_prim_func([q, k, v, out], name="heads")


def argmax(n: int, m: int) -> PrimFunc:
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(m, name="k")
    out = te.compute((n,), lambda i: te.argmax(a[i, k], axis=k), name="out")
    return te.create_prim_func([a, out], name="argmax")


def chain(n: int, m: int) -> PrimFunc:
    a, b = te.placeholder((n, m), name="A"), te.placeholder((m,), name="b")
    c = te.compute((n, m), lambda i, j: a[i, j] * 2.0 + b[j], name="c")
    d = te.compute((n, m), lambda i, j: te.max(c[i, j], 0.0), name="d")
    return te.create_prim_func([a, b, d], name="chain")


def total(n: int) -> PrimFunc:
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(n, name="k")
    out = te.compute((), lambda: te.sum(a[k], axis=k), name="out")
    return te.create_prim_func([a, out], name="total")


def transpose_sum(n: int, m: int) -> PrimFunc:
    """A reduction along a strided axis, for which neighbouring outputs are contiguous."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(n, name="k")
    out = te.compute((m,), lambda j: te.sum(a[k, j], axis=k), name="out")
    return te.create_prim_func([a, out], name="transpose_sum")


def conv_nchw(h: int, c: int, f: int, step: int = 1) -> PrimFunc:
    """Without padding: the operand that moves along the columns has no dimension of its own."""
    image, kernel = te.placeholder((c, h, h), name="image"), te.placeholder((f, c, 3, 3), name="W")
    q, ry, rx = (te.reduce_axis(e, name=n) for e, n in ((c, "q"), (3, "ry"), (3, "rx")))
    side = (h - 3) // step + 1
    out = te.compute(
        (f, side, side),
        lambda o, y, x: te.sum(
            image[q, y * step + ry, x * step + rx] * kernel[o, q, ry, rx], axis=[q, ry, rx]
        ),
        name="conv",
    )
    return te.create_prim_func([image, kernel, out], name="conv_nchw")


def transposed(b: int, n: int, m: int) -> PrimFunc:
    """Reads one operand along its rows and writes along its columns; the other the usual way."""
    a, c = te.placeholder((b, n, m), name="A"), te.placeholder((m, n), name="c")
    out = te.compute((b, m, n), lambda z, i, j: a[z, j, i] * 2.0 + c[i, j], name="out")
    return te.create_prim_func([a, c, out], name="transposed")


CASES = {
    "matmul_7_13_5": matmul(7, 13, 5),
    "matmul_1_1_1": matmul(1, 1, 1),
    "matmul_1_9_1": matmul(1, 9, 1),
    "matmul_17_3_2": matmul(17, 3, 2),
    "linear_1_5_40": linear(1, 5, 40),
    "linear_3_7_11": linear(3, 7, 11),
    "conv_6_7_3_5": conv(6, 7, 3, 5),
    "conv_1_1_1_8": conv(1, 1, 1, 8),
    "softmax_5_17": softmax(5, 17),
    "softmax_1_40": softmax(1, 40),
    "softmax_37_33": softmax(37, 33),
    "softmax_65_16": softmax(65, 16),
    "softmax_8_2100": softmax(8, 2100),
    "layer_norm_33_37": layer_norm(33, 37),
    "layer_norm_5_19": layer_norm(5, 19),
    "layer_norm_3_7": layer_norm(3, 7),
    "heads_2_7_13_5": heads(2, 7, 13, 5),
    "linear_70_9_5": linear(70, 9, 5),
    "argmax_3_8": argmax(3, 8),
    "attention_5_12_8": attention(5, 12, 8),
    "attention_7_13_9": attention(7, 13, 9),
    "chain_9_11": chain(9, 11),
    "chain_520_513": chain(520, 513),
    "transposed_2_9_13": transposed(2, 9, 13),
    "transposed_1_1_5": transposed(1, 1, 5),
    "conv_nchw_7_3_5": conv_nchw(7, 3, 5),
    "conv_nchw_8_2_3_stride_2": conv_nchw(8, 2, 3, 2),
    "matmul_3_0_5": matmul(3, 0, 5),
    "matmul_3_4_0": matmul(3, 4, 0),
    "softmax_0_8": softmax(0, 8),
    "total_100": total(100),
    "total_1": total(1),
    "column_sums": transpose_sum(6, 19),
}


def check(func: PrimFunc, space, candidate, compiled: bool, **sizes: int) -> None:
    schedule = space.build(candidate)
    verify(schedule.func)
    rng = np.random.default_rng(0)
    shapes = [
        [s.value if isinstance(s, Const) else sizes[s.name] for s in p.shape] for p in func.inputs
    ]
    inputs = [rng.integers(-3, 4, shape).astype(p.dtype) for p, shape in zip(func.inputs, shapes)]
    expected = reference(func, *inputs)
    large = max(array.size for array in inputs) > 10_000  # takes seconds in the interpreter
    found = expected if large else interpret(schedule.func, *inputs)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    if compiled or large:
        result = build(schedule, "c -vector_bits=128")(*inputs)
        for got, want in zip(
            result if isinstance(result, tuple) else (result,), expected, strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_the_default_and_samples(name):
    """Interpreted; the default and the samples of every third program compiled too."""
    space = make_space(CASES[name], SMALL)
    candidate = default_candidate(space)
    assert space.contains(candidate)
    check(CASES[name], space, candidate, compiled=True)
    rng = random.Random(name)
    third = list(CASES).index(name) % 3 == 0
    for turn in range(4):
        check(CASES[name], space, space.sample(rng), compiled=third and turn == 0)


@pytest.mark.parametrize("symbolic", ["m", "n", "k", "mnk"])
@pytest.mark.parametrize("make", [matmul, softmax])
def test_symbolic_sizes(make, symbolic):
    """Whatever dimensions are symbolic, every candidate is a legal schedule."""
    known = {"m": 7, "n": 13, "k": 5}
    names = list(known)[: 3 if make is matmul else 2]
    func = make(*(te.var(s) if s in symbolic else known[s] for s in names))
    space = make_space(func, SMALL)
    rng = random.Random(symbolic)
    candidates = [default_candidate(space), *(space.sample(rng) for _ in range(3))]
    for turn, candidate in enumerate(candidates):
        check(func, space, candidate, turn == 0, **known)


@pytest.mark.parametrize(
    ("name", "sketch"),
    [
        ("matmul_7_13_5", "C:contraction"),
        ("linear_1_5_40", "y:lanes"),
        ("conv_6_7_3_5", "conv:contraction"),
        ("chain_9_11", "d:spatial"),
        ("softmax_5_17", "softmax:chain"),
        ("layer_norm_5_19", "out:chain"),
        ("heads_2_7_13_5", "out:chain"),
        ("attention_7_13_9", "out:chain"),
        ("linear_70_9_5", "y:contraction"),
        ("transposed_2_9_13", "out:transposed"),
        ("softmax_5_17", "top:lanes+e:spatial+total:lanes+softmax:spatial"),
    ],
)
def test_sketches(name, sketch):
    assert sketch in make_space(CASES[name], SMALL).sketches


def test_relu_is_in_the_kernel_of_its_matmul():
    """The epilogue of a reduction runs inside the loops of the reduction."""
    space = make_space(CASES["linear_1_5_40"], SMALL)
    schedule = space.build(default_candidate(space))
    assert schedule.get_loops("relu")[0] == schedule.get_loops("y")[0]
    assert "biased" not in schedule.get_blocks()


def test_large_outputs_may_be_streamed():
    """Written past the caches, if that is chosen; never where a stage reads the buffer again."""
    space = make_space(CASES["chain_520_513"], SMALL)
    candidate = default_candidate(space)
    values = {**space.decisions(candidate), "d.stores": "stream"}
    schedule = space.sketches[candidate.sketch].build(values)
    assert schedule.func.attrs["stream"] == ["d"]
    small = make_space(CASES["chain_9_11"], SMALL)
    assert "d.stores" not in small.decisions(default_candidate(small))


def test_a_chain_keeps_one_row_of_each_stage():
    """What passes between the stages of a softmax is as large as the rows of one task."""
    space = make_space(CASES["softmax_5_17"], SMALL)
    schedule = space.build(default_candidate(space))
    row = schedule.get_loops("softmax")[0]
    assert all(schedule.get_loops(block)[0] == row for block in schedule.get_blocks())


@pytest.mark.parametrize(
    ("name", "rows"), [("softmax_37_33", 4), ("softmax_65_16", 8), ("softmax_8_2100", 1)]
)
def test_rows_of_a_chain_go_together(name, rows):
    """Short rows, where each thread has several tasks; they ask for the rows after them."""
    space = make_space(CASES[name], SMALL)
    candidate = default_candidate(space)
    assert space.decisions(candidate)["softmax.rows"] == rows
    asked = [
        request
        for loop in walk(space.build(candidate).func.body)
        if isinstance(loop, For)
        for request in loop.annotations.get("spread_prefetch", ())
    ]
    assert [request[1:2] + request[3:] for request in asked] == [["A", 1], ["softmax", 0]]


def test_a_long_row_is_summed_where_it_is_made():
    schedule = make_space(CASES["softmax_8_2100"], SMALL)
    built = schedule.build(default_candidate(schedule))
    loops = [set(built.get_loops(b)[1:]) for b in ("e", "total_rf")]
    assert loops[0] & loops[1]


@pytest.mark.parametrize("shape", [(37, 33), (65, 16), (9, 100)])
def test_lost_rows_do_not_disturb_their_neighbours(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    x[1, 3], x[2, -1], x[4] = np.nan, np.inf, -np.inf
    x[5, ::2] = -np.inf
    func = softmax(*shape)
    space = make_space(func, SMALL)
    with np.errstate(all="ignore"):
        wide = np.exp(x.astype("float64") - x.max(axis=1, keepdims=True))
        expected = wide / wide.sum(axis=1, keepdims=True)
    found = build(space.build(default_candidate(space)))(x)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-12)
    assert np.isnan(expected).any(axis=1).sum() == 3


def test_rows_of_scores_begin_at_whole_vectors():
    """Tails are then vectors with masks; rows that are whole vectors already need nothing."""
    odd, even = (make_space(CASES[f"attention_{n}"], SMALL) for n in ("7_13_9", "5_12_8"))
    aligned = odd.build(default_candidate(odd)).func.attrs["align"]
    assert aligned["score"] == [0, 4, 0]
    assert "score" not in even.build(default_candidate(even)).func.attrs.get("align", {})


@pytest.mark.parametrize("name", ["softmax_5_17", "linear_1_5_40", "heads_2_7_13_5"])
def test_bitwise_spaces_keep_the_order_of_sums(name):
    """numerics="bitwise": no sketch has partial sums."""
    space = make_space(CASES[name], SMALL, "bitwise")
    rng = random.Random(0)
    for _ in range(6):
        assert space.build(space.sample(rng)).numerics == "bitwise"


def chosen(func: PrimFunc, constants: tuple[str, ...] = ()) -> dict:
    """The values of the default candidate by choice."""
    space = make_space(func, SMALL)
    candidate = default_candidate(space, constants)
    names = [choice.name for choice in space.sketches[candidate.sketch].choices]
    return dict(zip(names, candidate.values))


def test_a_constant_that_one_row_multiplies_is_packed_ahead():
    packs, _ = chosen(matmul(1, 640, 320))["C.read"]
    ahead, _ = chosen(matmul(1, 640, 320), ("B",))["C.read"]
    assert (len(packs), len(ahead)) == (0, 1)


def test_one_row_reads_long_pieces_of_a_matrix():
    _, lanes, (columns,), _ = chosen(matmul(1, 640, 320))["C.tile"]
    assert columns >= 6 * lanes


def test_threads_share_the_rows_where_columns_are_unknown():
    m, n = te.var("m"), te.var("n")
    for func in (symbolic_matmul(m, n, 64), symbolic_matmul(m, 640, 64)):
        space = make_space(func, SMALL)
        assert "parallel(" in str(space.build(default_candidate(space)).func)


def symbolic_matmul(m, n, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
@pytest.mark.parametrize("count", [3, 40])
def test_results_for_the_same_elements_are_made_together(order, count):
    """What is computed of one element in several ways is loaded once for all of them, wherever
    their axis stands: parts of a transform took twice as long. Of many each is made by itself."""
    x, w = te.placeholder((9, 70), name="x"), te.placeholder((count,), name="w")
    shape = [(count, 9, 70)[n] for n in order]

    def value(*axes):
        part, i, j = (axes[order.index(n)] for n in range(3))
        return te.if_then_else(part == 0, x[i, j] - w[part], x[i, j] * w[part] + 1.0)

    func = te.create_prim_func([x, w, te.compute(shape, value, name="y")], name="parts")
    sch = default_schedule(func, "c -threads=1 -vector_bits=256")
    kinds = [sch.state.loop(loop).kind for loop in sch.get_loops("y")]
    assert (ForKind.UNROLLED in kinds) is (count == 3)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(p.const_shape, "float32") for p in func.inputs]
    found = build(sch, "c -threads=1")(*given)
    np.testing.assert_allclose(found, reference(func, *given)[0], 1e-5, 1e-6)


def blended(a, b, i, j, c):
    share = a[i, j, a.shape[2] - 1]
    return a[i, j, c] * share + b[i, j, c] * (255 - share)


PIXELS = {
    "parts by themselves": lambda a, b, i, j, c: a[i, j, c] * 3 - b[i, j, c],
    "the last one": blended,
    "the other way around": lambda a, b, i, j, c: a[i, j, a.shape[2] - 1 - c],
    "the next one": lambda a, b, i, j, c: a[i, j, (c + 1) % a.shape[2]] - b[i, j, c],
    "one is copied": lambda a, b, i, j, c: te.if_then_else(c < 1, a[i, j, 0], b[i, j, c] * 2),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int16"])
@pytest.mark.parametrize("shape", [(5, 37, 3), (3, 64, 4), (1, 7, 2), (2, 1, 3)])
@pytest.mark.parametrize("name", PIXELS)
def test_parts_of_pixels_fill_vectors(name, shape, dtype):
    """Colours, complex numbers, points: parts that are too few for a vector took one for each
    element they belong to."""
    a, b = (te.placeholder(shape, dtype, name=name) for name in "ab")
    y = te.compute(shape, lambda i, j, c: PIXELS[name](a, b, i, j, c).astype(dtype), name="y")
    func = te.create_prim_func([a, b, y], name="pixels")
    sch = default_schedule(func, "c -threads=1")
    vector = sch.state.loop(sch.get_loops("y")[-1]).const_extent
    assert vector >= min(16, shape[1] * shape[2])
    given = [np.random.default_rng(n).integers(0, 50, shape).astype(dtype) for n in (0, 1)]
    np.testing.assert_array_equal(build(sch, "c -threads=1")(*given), reference(func, *given)[0])


AT_QUOTIENTS = {
    "nearest": (3, lambda x, i, j: x[i // 3, j // 3]),
    "clamped": (2, lambda x, i, j: x[i // 2, j // 2] + x[i // 2, te.min(j // 2 + 1, 599)]),
    "both ends": (2, lambda x, i, j: x[i, te.max(te.min((j - 1) // 2, 599), 0)]),
    "resampled": (7, lambda x, i, j: x[i, j * 4 // 7] * 2),
    "remainders": (5, lambda x, i, j: x[i, j % 5 + j // 5]),
    "both": (6, lambda x, i, j: x[i, j // 3] + x[i, j * 3 // 6]),
}


@pytest.mark.parametrize("name", AT_QUOTIENTS)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_lanes_of_quotients_are_known_in_long_rows(name, dtype):
    """Rows that are too long to be written out were gathered element by element: vectors begin
    where what they read has the same lanes as the one before."""
    steps, read = AT_QUOTIENTS[name]
    x = te.placeholder((3, 700), dtype, name="x")
    y = te.compute((3, 1181), lambda i, j: read(x, i, j).astype(dtype), name="y")
    func = te.create_prim_func([x, y], name="resized")
    sch = default_schedule(func, "c -threads=1")
    vectors = sch.state.loop(sch.get_loops("y")[-1]).const_extent
    assert vectors % steps == 0
    given = np.random.default_rng(0).integers(0, 50, (3, 700)).astype(dtype)
    made = build(sch, "c -threads=1")(given)
    np.testing.assert_array_equal(made, reference(func, given)[0])


def test_rows_that_share_conversions_are_computed_together():
    """Each pixel of an edge filter is read and widened in three rows of it."""
    x = te.placeholder((512, 512), "uint8", name="x")

    def edges(i, j):
        (a, b, c), (d, _, f), (g, h, k) = (
            [x[i + dy, j + dx].astype("int16") for dx in range(3)] for dy in range(3)
        )
        across, down = c + f * 2 + k - a - d * 2 - g, g + h * 2 + k - a - b * 2 - c
        return te.min(te.abs(across) + te.abs(down), te.const(255, "int16")).astype("uint8")

    sch = Schedule(te.create_prim_func([x, te.compute((510, 510), edges, name="y")]))
    cpu = Cpu(Target(vector_bits=512, threads=1, l1d=32 << 10, l2=1 << 20))
    assert rows_of_registers(sch, sch.state.block("y"), cpu) is not None
