"""Convolutions of every layout are scheduled as contractions, with the stages after them."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, default_candidates, make_space
from autotune.rules.contraction import ContractionPlan
from autotune.rules.group import Group
from backends import build, resolve
from schedule import Schedule, library
from tensorir import (
    Analyzer,
    For,
    ForKind,
    const,
    device_of,
    int_value,
    ops,
    reference,
    substitute,
    te,
    variables,
    walk,
)

TARGET = "c -vector_bits=128 -threads=2"


def conv(c, k, size, r, groups=1, **options):
    last = options.get("layout") == "NHWC"
    x = te.placeholder((1, size, size, c) if last else (1, c, size, size), name="x")
    w = te.placeholder((r, r, c // groups, k) if last else (k, c // groups, r, r), name="w")
    if groups == c == k:
        out = ops.depthwise_conv2d(x, w, name="out", **options)
    else:
        out = ops.conv2d(x, w, groups=groups, name="out", **options)
    return te.create_prim_func([x, w, out], name="conv")


CASES = {
    "3x3": conv(5, 7, 9, 3, padding=1),
    "3x3 s2 relu": conv(4, 6, 8, 3, stride=2, activation="relu"),
    "1x1": conv(6, 5, 7, 1),
    "groups": conv(6, 9, 7, 3, groups=3, padding=1),
    "depthwise": conv(6, 6, 7, 3, groups=6, padding=1),
    "3x3 NHWC": conv(5, 7, 9, 3, padding=1, layout="NHWC"),
    "1x1 s2 NHWC": conv(6, 5, 7, 1, stride=2, activation="relu", layout="NHWC"),
    "groups NHWC": conv(6, 12, 7, 3, groups=3, padding=1, layout="NHWC"),
    "depthwise NHWC": conv(6, 6, 7, 3, groups=6, padding=1, layout="NHWC"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_convolutions_are_contractions(name):
    func = CASES[name]
    space = make_space(func, device_of(resolve(TARGET)))
    # Of small ones a product of copied windows may be estimated to be faster.
    own = next(c for c in default_candidates(space) if "im2col" not in c.sketch)
    assert own.sketch.endswith(":contraction") and len(space.sketches) > 1
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]
    got = build(space.build(own), TARGET)(*inputs)
    np.testing.assert_array_equal(got, reference(func, *inputs)[0])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_stages_after_a_convolution_go_with_it(layout):
    last = layout == "NHWC"
    shape = (1, 7, 7, 5) if last else (1, 5, 7, 7)
    x, r = te.placeholder(shape, name="x"), te.placeholder(shape, name="r")
    w = te.placeholder((3, 3, 5, 5) if last else (5, 5, 3, 3), name="w")
    b = te.placeholder((5,), name="b")
    y = ops.relu(ops.add(ops.conv2d(x, w, b, padding=1, layout=layout), r))
    func = te.create_prim_func([x, w, b, r, y], name="residual")
    space = make_space(func, device_of(resolve(TARGET)))
    assert default_candidate(space).sketch.endswith(":contraction")
    made = space.build(default_candidate(space))
    assert len([name for name in made.get_blocks() if str(name) in ("conv2d", "add")]) == 0
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]
    np.testing.assert_array_equal(build(made, TARGET)(*inputs), reference(func, *inputs)[0])


def blocks(sch):
    return [str(name) for name in sch.get_blocks()]


def test_weights_are_packed_ahead_of_the_call_where_they_are_constants():
    """Panels of them are read by each task; in the call a copy has to pay."""
    few = conv(64, 64, 6, 3)
    assert not any("global" in name for name in blocks(default_schedule(few, TARGET)))
    made = default_schedule(few, TARGET, ("w",))
    assert any("global" in name for name in blocks(made))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in few.inputs]
    np.testing.assert_array_equal(build(made, TARGET)(*inputs), reference(few, *inputs)[0])


def test_a_symbolic_batch():
    x = te.placeholder((te.var("n"), 5, 9, 9), name="x")
    w = te.placeholder((7, 5, 3, 3), name="w")
    func = te.create_prim_func([x, w, ops.conv2d(x, w, name="out")], name="conv")
    space = make_space(func, device_of(resolve(TARGET)), "reassociated")  # no other algorithm
    assert default_candidate(space).sketch.endswith(":contraction")
    rng = np.random.default_rng(0)
    inputs = [
        rng.integers(-3, 4, shape).astype("float32") for shape in ((3, 5, 9, 9), (7, 5, 3, 3))
    ]
    got = build(space.build(default_candidate(space)), TARGET)(*inputs)
    np.testing.assert_array_equal(got, reference(func, *inputs)[0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_bitwise_spaces_keep_the_order_of_sums(name):
    space = make_space(CASES[name], device_of(resolve(TARGET)), "bitwise")
    assert space.build(default_candidate(space)).numerics == "bitwise"


def test_rows_of_a_tile_are_neighbours_in_memory_where_that_decides():
    """A filter for each place: a tile has neighbouring places of one, not one place of several."""
    x = te.placeholder((16, 28, 28), name="x")
    w = te.placeholder((32, 16, 3, 3, 26, 26), name="w")
    terms = [te.reduce_axis(n, name=name) for n, name in ((16, "c"), (3, "dy"), (3, "dx"))]
    c, dy, dx = terms
    out = te.compute(
        (32, 26, 26),
        lambda k, i, j: te.sum(x[c, i + dy, j + dx] * w[k, c, dy, dx, i, j], axis=terms),
        name="out",
    )
    target = resolve(f"{TARGET} -features=avx512vl,fma")  # 32 registers
    space = make_space(te.create_prim_func([x, w, out], name="local"), device_of(target))
    first = default_candidate(space)
    assert first.sketch == "out:contraction"
    _, _, (filters, rows, _), _ = space.decisions(first)["out.tile"]
    assert filters == 1 and rows > 1


BATCHES = {
    "beside": lambda a, b, k: lambda i, j, x: te.sum(a[i, k, x] * b[j, k, x], axis=k),
    "terms first": lambda a, b, k: lambda i, j, x: te.sum(a[k, i, x] * b[k, j, x], axis=k),
    "turned": lambda a, b, k: lambda i, j, x: te.sum(a[k, i, x] * b[j, k, x], axis=k),
    "apart": lambda a, b, k: lambda i, j, x: te.sum(te.abs(a[i, k, x] - b[j, k, x]), axis=k),
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("order", ["ijx", "jix"])
def test_products_side_by_side_share_both_of_their_operands(name, order):
    """Where neighbours in memory are of different products, no operand is the same for all lanes:
    each is read once for a part of the other's rows."""
    n, lanes, k = 24, 16, te.reduce_axis(24, name="k")
    a, b = (te.placeholder((n, n, lanes), name=name) for name in "ab")
    of = BATCHES[name](a, b, k)
    value = of if order == "ijx" else lambda j, i, x: of(i, j, x)
    out = te.compute((n, n, lanes), value, name="out")
    func = te.create_prim_func([a, b, out], name="products")
    sch = default_schedule(func, "c -vector_bits=512 -threads=1")
    block = sch.state.block("out")
    tile = {}
    for loop in sch.get_loops("out"):
        node = sch.state.loop(loop)
        if node.kind in (ForKind.UNROLLED, ForKind.VECTORIZED):
            for it in block.iters:
                if node.var in it.binding.variables:
                    tile[it.var] = tile.get(it.var, 1) * node.const_extent
    i, j = (it.var for it in block.iters[:2])
    assert tile[i] >= 3 and tile[j] >= 3, tile
    given = np.random.default_rng(0).integers(-3, 4, (2, n, n, lanes)).astype("float32")
    np.testing.assert_array_equal(build(sch, "c -threads=1")(*given), reference(func, *given)[0])


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("shape", [(64, 56), (256, 14)])
def test_a_call_with_one_image_has_work_for_all_threads(shape, threads):
    """The size of a batch is known to nobody but the call: tasks along it alone left all threads
    but one idle where it is 1."""
    n, (channels, size) = te.var("n"), shape
    x = te.placeholder((n, channels, size, size), name="x")
    w = te.placeholder((64, channels, 3, 3), name="w")
    sch = default_schedule(
        te.create_prim_func([x, w, ops.conv2d(x, w, padding=1)]), f"c -threads={threads}"
    )
    loops = [s for s in walk(sch.func.body) if isinstance(s, For) and s.kind is ForKind.PARALLEL]
    shared = [loop.extent for loop in loops]
    tasks = [Analyzer().simplify(substitute(e, {n: const(1)})) for e in shared if n in variables(e)]
    assert tasks and all(int_value(count) >= threads for count in tasks)


def test_axes_that_are_refused_are_told():
    x, k = te.placeholder((4, 6, 16), name="x"), te.reduce_axis(16, name="k")
    out = te.compute((24,), lambda o: te.sum(x[o % 4, o // 4, k], axis=k), name="out")
    sch = Schedule(te.create_prim_func([x, out], name="parts"))
    c = library.find_contraction(sch, "out")
    device = device_of(resolve(TARGET))
    assert ContractionPlan(Group("out"), sch, c, device).on_axes() is not None
    sch.split(sch.get_loops("out")[0], [None, 5])
    plan = ContractionPlan(Group("out"), sch, c, device)
    assert plan.on_axes() is None
    assert list(plan.refused) == ["'out' on its axes"]


@pytest.mark.parametrize("name", ["3x3", "1x1 s2 NHWC"])
def test_nests_of_defaults_are_made_once(name, monkeypatch):
    """What was tried is what the schedule takes; other values, and other schedules, are made."""
    made = []

    def counted(sch, c, plan, make=library.make_nest):
        made.append(plan)
        make(sch, c, plan)

    monkeypatch.setattr(library, "make_nest", counted)
    sch = default_schedule(CASES[name], TARGET)
    assert len(made) == 1
    again = Schedule(CASES[name]).apply(sch.trace)
    assert again.trace == sch.trace and str(again.func) == str(sch.func)
    sketch = next(iter(make_space(CASES[name], device_of(resolve(TARGET))).sketches.values()))
    values = sketch.values()
    first, made[:] = sketch.build(values), []
    (shared,) = [n for n in values if n.endswith(".threads")]
    assert values[shared] == "serial"
    other = sketch.build(values | {shared: "parallel"})
    assert len(made) == 1 and len(other.trace)
    assert str(sketch.build(values).func) == str(first.func) == str(sch.func)


def product(n, dtype="float32", rows=64, terms=2048, axis=1):
    """A product whose second operand is read along its rows, or along its columns."""
    x = te.placeholder((rows, terms), dtype, name="x")
    w = te.placeholder((n, terms) if axis else (terms, n), dtype, name="w")
    k = te.reduce_axis(terms, name="k")
    out = te.compute(
        (rows, n), lambda i, j: te.sum(x[i, k] * (w[j, k] if axis else w[k, j]), axis=k), name="out"
    )
    return te.create_prim_func([x, w, out], name="product")


SIDE_BY_SIDE = te.placeholder((3, 128, 3072), name="a"), te.placeholder((3, 3072, 384), name="b")
PACKED = {
    "rows": product(768), "columns": product(768, rows=128, terms=3072, axis=0),
    "no whole panels": product(777), "float64": product(512, "float64"),
    "float16": product(768, "float16"), "pixels": conv(512, 1024, 7, 1),
    "batch": te.create_prim_func([*SIDE_BY_SIDE, ops.batch_matmul(*SIDE_BY_SIDE)], name="products"),
}  # fmt: skip


@pytest.mark.parametrize("name", PACKED)
def test_what_is_packed_ahead_is_shared_by_threads(name):
    """Whether panels divide it or are filled up, and however many dimensions it has."""
    sch = default_schedule(PACKED[name], resolve("c -vector_bits=512 -threads=2"))
    copies = [block for block in sch.get_blocks() if "global" in block]
    assert copies
    for block in copies:
        kinds = [sch.state.loop(loop).kind for loop in sch.get_loops(block)]
        assert ForKind.PARALLEL in kinds


@pytest.mark.parametrize("at", range(3))
def test_sums_keep_dimensions_of_one_element(at):
    """Wherever they are: the layout of a tile is that of its axes, whatever else it has."""
    k = te.reduce_axis(20, name="k")
    a, b = te.placeholder((13, 20), name="a"), te.placeholder((20, 24), name="b")
    shape = [13, 24]
    shape.insert(at, 1)

    def product(*place):
        i, j = (var for n, var in enumerate(place) if n != at)
        return te.sum(a[i, k] * b[k, j], axis=k)

    func = te.create_prim_func([a, b, te.compute(tuple(shape), product, name="out")], name="f")
    sch = default_schedule(func, TARGET)
    assert "transform_layout" not in [step.name for step in sch.trace.instructions]
    rng = np.random.default_rng(0)
    args = [rng.random(p.const_shape).astype("float32") for p in func.inputs]
    np.testing.assert_allclose(build(sch)(*args), *reference(func, *args), rtol=1e-5)
