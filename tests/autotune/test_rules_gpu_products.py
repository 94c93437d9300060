"""Products, convolutions and pooling on GPUs: right for any shape, and few transactions."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import prod
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.gpu import count
from autotune.gpu.count import rooms_of, works_of
from autotune.gpu.work import cycles
from autotune.rules.defaults import default_sketch, make_space
from autotune.rules.generate import sketches
from autotune.rules.gpu import tiles
from autotune.rules.gpu.product import ProductPlan, contraction_of
from autotune.rules.gpu.tile_cycles import TileCounts
from autotune.rules.gpu.tiles import tile_plans
from autotune.rules.group import find_groups
from autotune.rules.planned import PlannedSketch
from backends import build
from backends.opencl.device import why_no_device
from backends.opencl.text import opencl_text
from schedule import Schedule, library
from schedule.library.gpu import Cut
from tensorir import (
    ARCHITECTURES,
    Device,
    Gpu,
    PrimFunc,
    Target,
    device_of,
    lower,
    ops,
    reference,
    te,
)

CHECKED = "cuda-emulator -arch=sm_90a -check=alignment,bounds,counts,divergence,races"
DEVICE: Device = device_of(Target.parse("cuda -arch=sm_90a"))
X = te.placeholder((2, 3, 16, 32), name="X")


def matmul(
    m: Any, n: Any, k: Any, a: str = "ik", b: str = "kj", dtype: str = "float32", bias: bool = False
) -> PrimFunc:
    """C[i, j] = sum of A * B over k, axes of A and B in this order."""
    size = {"i": m, "j": n, "k": k}
    x = te.placeholder([size[d] for d in a], dtype, name="A")
    y = te.placeholder([size[d] for d in b], dtype, name="B")
    r = te.reduce_axis(k, name="k")

    def at(i: Any, j: Any) -> Any:
        place = {"i": i, "j": j, "k": r}
        return te.sum(x[tuple(place[d] for d in a)] * y[tuple(place[d] for d in b)], axis=r)

    c = te.compute((m, n), at, name="C")
    if not bias:
        return te.create_prim_func([x, y, c], name="product")
    v = te.placeholder((n,), dtype, name="v")
    d = te.compute((m, n), lambda i, j: c[i, j] + v[j])
    return te.create_prim_func([x, y, v, d], name="product")


def conv(shape: tuple[int, ...], weight: tuple[int, ...], **how: Any) -> PrimFunc:
    x, w = te.placeholder(shape, name="x"), te.placeholder(weight, name="w")
    return te.create_prim_func([x, w, ops.conv2d(x, w, **how)], name="conv")


def pool(shape: tuple[int, ...], *how: int) -> PrimFunc:
    x = te.placeholder(shape, "float32", name="x")
    return te.create_prim_func([x, ops.max_pool2d(x, *how)], name="pool")


def batched(b: int, m: int, n: int, k: int) -> PrimFunc:
    x, y = te.placeholder((b, m, k), name="A"), te.placeholder((b, k, n), name="B")
    return te.create_prim_func([x, y, ops.batch_matmul(x, y)], name="batched")


def conv_transposed(shape: tuple[int, ...], weight: tuple[int, ...], **how: Any) -> PrimFunc:
    x, w = te.placeholder(shape, name="x"), te.placeholder(weight, name="w")
    return te.create_prim_func([x, w, ops.conv2d_transpose(x, w, **how)], name="turned")


def lags(b: int, lags: int, terms: int) -> PrimFunc:
    """Rows times themselves, some elements on: batches whose results are one axis."""
    x, k = te.placeholder((b, terms + lags), name="A"), te.reduce_axis(terms, name="k")
    c = te.compute((b, lags), lambda i, j: te.sum(x[i, k] * x[i, k + j], axis=k), name="C")
    return te.create_prim_func([x, c], name="lags")


SMALL = {
    "odd": matmul(37, 53, 21),
    "transposed, bias": matmul(40, 36, 24, "ki", "jk", bias=True),
    "unit axes": conv((1, 1, 5, 5), (1, 1, 3, 3)),
    "long": matmul(5, 6, 512),
    "double": matmul(19, 33, 8, dtype="float64"),
    "bytes": matmul(33, 20, 12, dtype="int8"),
    "halves": matmul(33, 20, 24, dtype="float16"),
    "batched": batched(3, 17, 12, 9),
    "1x1": conv((2, 16, 12, 12), (8, 16, 1, 1)),
    "1x1 of every other": conv((1, 8, 9, 9), (8, 8, 1, 1), stride=2),
    "channels last": conv((1, 9, 9, 6), (3, 3, 6, 20), layout="NHWC", stride=2, padding=1),
    "channels last, long": conv((1, 5, 5, 128), (3, 3, 128, 4), layout="NHWC"),
    "depthwise": conv((2, 6, 12, 12), (6, 1, 3, 3), padding=1, groups=6),
    "depthwise, channels last": conv(
        (1, 9, 9, 12), (3, 3, 1, 12), padding=1, groups=12, layout="NHWC"
    ),
    "groups": conv((1, 8, 7, 7), (8, 4, 3, 3), groups=2, padding=1),
    "odd channels": conv((1, 5, 7, 7), (11, 5, 3, 3), padding=1),
    "batched, odd": batched(2, 40, 70, 19),
    "overlapping windows": pool((2, 3, 13, 13), 3, 2, 1),
    "windows side by side": pool((2, 3, 12, 12), 2, 2),
    "transposed convolution": conv_transposed((1, 8, 5, 5), (8, 4, 3, 3), stride=2, padding=1),
    "transposed convolution in thirds": conv_transposed((1, 4, 5, 7), (4, 8, 5, 5), stride=3),
    "few rows": matmul(3, 300, 37),
    "few rows, transposed": matmul(5, 37, 516, b="jk", bias=True),
    "few rows, all transposed": matmul(7, 40, 516, "ki", "jk"),
    "few rows, odd": matmul(2, 37, 1021, b="jk"),
    "few columns": matmul(300, 3, 516, bias=True),
    "few columns, transposed": matmul(300, 12, 77, "ki", "jk"),
    "few of both": matmul(2, 4, 4096, b="jk"),
    "few rows of bytes": matmul(4, 20, 1024, b="jk", dtype="int8"),
    "few rows of halves": matmul(4, 20, 1024, b="jk", dtype="float16"),
    "few rows of doubles": matmul(4, 100, 300, dtype="float64"),
    "batched vectors": batched(3, 1, 100, 130),
    "batches of lags": lags(3, 64, 301),
    "matrix by vector": matmul(70, 1, 516),
    "vector by matrix": matmul(1, 200, 100),
}  # fmt: skip


def planned(func: PrimFunc) -> PlannedSketch:
    """What the default schedule is built of."""
    return default_sketch(sketches(func, DEVICE, "reassociated"), ())


def tiles_of(sketch: PlannedSketch) -> TileCounts:
    """What its tiles take, of the only block that has some."""
    (plan,) = (plan for plan in sketch.plans if isinstance(plan, ProductPlan))
    return plan.chosen


def plan_of(func: PrimFunc) -> TileCounts:
    """What the tiles of the default schedule take, of the only block that has some."""
    return tiles_of(planned(func))


def given(func: PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SMALL)
def test_any_shape_is_right_without_races(name, cache):
    func, arrays = SMALL[name], given(SMALL[name])
    sketch = planned(func)
    assert {plan.name for plan in sketch.plans} & {"product", "windows"}
    kernel = build(sketch.build(sketch.values()), CHECKED, cache=cache)
    np.testing.assert_allclose(kernel(*arrays), reference(func, *arrays)[0], rtol=1e-5)
    assert not kernel.findings.reports


@pytest.mark.parametrize(
    ("a", "b"), [*combinations_with_replacement(("ijk", "ik", "jk", "k", "ij", "i", "j"), 2)]
)
def test_axes_may_move_any_of_the_operands(a, b):
    """Both, one, or none, which leaves a tile without columns, or without rows."""
    assert planned(matmul(5, 16, 24, a, b)).plans


@pytest.mark.parametrize("shape", [(33, 20, 24), (3, 20, 264)])
def test_bfloat16_is_summed_in_float32(shape, cache):
    m, n, k = shape
    func = matmul(m, n, k, b="jk", dtype="bfloat16")
    x, y = given(matmul(m, n, k, b="jk"))
    bits = [(a.view(np.uint32) >> 16).astype(np.uint16) for a in (x, y)]
    kernel = build(default_schedule(func, CHECKED), CHECKED, cache=cache)
    found = (np.asarray(kernel(*bits)).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(found, x @ y.T, rtol=2**-8)
    assert not kernel.findings.reports


@pytest.mark.parametrize("name", ["odd", "few rows, transposed", "channels last", "depthwise"])
def test_the_same_rules_are_for_opencl(name):
    """Each has a text, and is right where there is a device."""
    func = SMALL[name]
    sch, arrays = default_schedule(func, "opencl"), given(func)
    target = Target("opencl")
    assert "__kernel" in opencl_text(lower(sch.func, target), target)
    if why_no_device() is None:
        found = build(sch, "opencl")(*arrays)
        np.testing.assert_allclose(found, reference(func, *arrays)[0], rtol=1e-5)


@pytest.mark.parametrize(("rows", "columns", "terms"), [(7, 12, 9), (19, 3, 516)])
def test_symbolic_sizes_are_right(cache, rows, columns, terms):
    func = matmul(te.var("n"), columns, terms)
    x, y = np.ones((rows, terms), "float32"), np.ones((terms, columns), "float32")
    kernel = build(default_schedule(func, CHECKED), CHECKED, cache=cache)
    np.testing.assert_allclose(kernel(x, y), x @ y)
    assert not kernel.findings.reports


@pytest.mark.parametrize(
    ("user", "kernels"),
    [
        (lambda c: te.compute((4, 64, 32), lambda h, i, d: c[i, h * 32 + d]), 1),
        (lambda c: te.compute((61, 120), lambda i, j: c[i + 3, j + 7] * 2.0), 1),
        (lambda c: te.compute((62, 255), lambda i, j: c[i, (j + 1) // 2]), 2),  # each is read twice
    ],
    ids=["parts", "cropped", "repeated"],
)
def test_results_are_stored_where_their_only_user_moves_them(user, kernels, cache):
    a, b, k = te.placeholder((64, 40)), te.placeholder((40, 128)), te.reduce_axis(40)
    c = te.compute((64, 128), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    func = te.create_prim_func([a, b, user(c)], name="moved")
    made = default_schedule(func, CHECKED)
    assert isinstance(DEVICE, Gpu) and len(works_of(made.func, DEVICE)) == kernels
    arrays = [np.random.default_rng(0).random(p.const_shape, "float32") for p in func.params[:2]]
    kernel = build(made, CHECKED, cache=cache)
    np.testing.assert_allclose(kernel(*arrays), reference(func, *arrays)[0], rtol=1e-5)
    assert not kernel.findings.reports


@pytest.mark.parametrize("stride", [2, 3])
def test_phases_of_a_stride_are_interleaved_in_one_kernel(stride):
    func = conv_transposed((8, 32, 28, 28), (32, 32, 4, 4), stride=stride, padding=1)
    assert isinstance(DEVICE, Gpu)
    assert len(works_of(default_schedule(func, DEVICE.target).func, DEVICE)) == 1


def test_sums_of_one_term_are_left_to_other_rules():
    func = conv((1, 1, 5, 5), (2, 1, 1, 1))
    sketch = planned(func)
    assert not any(isinstance(plan, ProductPlan) for plan in sketch.plans)


LARGE = {
    "4096": matmul(4096, 4096, 4096),
    "1000, transposed": matmul(1000, 1000, 1000, "ki", "jk"),
    "1021": matmul(1021, 1021, 1021),
    "batched": batched(64, 512, 512, 64),
    "3x3": conv((32, 64, 56, 56), (64, 64, 3, 3), padding=1),
    "1x1": conv((32, 256, 56, 56), (64, 256, 1, 1)),
    "3x3, channels last": conv((8, 56, 56, 64), (3, 3, 64, 64), padding=1, layout="NHWC"),
}


def waits_are_hidden(counts: TileCounts) -> bool:
    """Whether nobody waits for memory in each step: copies run ahead, or, where a step fetches more
    than registers hold, as for all taps of a window, other blocks have as much to compute."""
    others = (counts.at_once - 1) * counts.of.step[counts.row]
    return counts.plan.ahead > 0 or bool(others >= counts.of.waits[counts.row])


@pytest.mark.parametrize("name", LARGE)
def test_large_tiles_where_there_are_two_waves_of_them(name):
    """At least 64 x 64; windows, whose pixels are used for all taps, have more of these."""
    counts = plan_of(LARGE[name])
    c, cuts = counts.of.c, counts.plan.cuts
    a, b = (o.strides for o in c.operands)
    sides = [
        prod(cuts[n].total for n in c.spatial if one[n] and not other[n])
        for one, other in ((a, b), (b, a))
    ]
    assert prod(sides) >= 64 * 64 and min(sides) >= (32 if name == "3x3" else 64)
    assert counts.occupancy >= 0.125 and waits_are_hidden(counts)
    assert all(tile.met[0] == 1 for tile in counts.tiles)


@pytest.mark.parametrize("func", [
    matmul(1021, 1027, 509), batched(4, 100, 130, 277),
    conv((8, 61, 28, 28), (67, 61, 3, 3), padding=1),
], ids=["product", "batched", "convolution"])  # fmt: skip
def test_sizes_that_divide_nothing_are_no_question_for_each_term(func):
    """Tiles are filled up when they are fetched, so that sums ask for nothing; all have room. Of
    three steps each copy asks whether there is a next one."""
    gpu = Gpu(DEVICE.target)
    works = works_of(default_schedule(func, gpu.target).func, gpu)
    sums = [work for work in works if work.float32]
    assert len(sums) == 1 and sums[0].other < 0.55 * sums[0].float32
    assert all(work.at_once(gpu) for work in works)


@pytest.mark.parametrize("func", [
    matmul(17, 4099, 4096), conv((1, 5, 5, 128), (3, 3, 128, 4), layout="NHWC"),
], ids=["product", "convolution"])  # fmt: skip
def test_parts_of_sums_are_accepted_whatever_divides(func):
    sketch = planned(func)
    assert tiles_of(sketch).plan.split > 1
    assert not [note for note in sketch.notes() if note.startswith("impossible: tile ")]


@pytest.mark.parametrize("stride", [1, 2])
def test_taps_beside_channels_are_fetched_once_without_conflicts(stride):
    """Taps and channels that are neighbours in memory are no single axis: a step has all taps."""
    x, w = (8, 56, 56, 64), (3, 3, 64, 64)
    counts = plan_of(conv(x, w, padding=1, layout="NHWC", stride=stride))
    c, cuts = counts.of.c, counts.plan.cuts
    taps = [n for n in c.reduced if c.is_window(n)]
    assert [cuts[n].total for n in taps] == [c.axes[n].extent for n in taps] == [3, 3]
    ahead = [x.cycles for x in tile_plans(c, counts.of.gpu) if x.plan.ahead]
    assert waits_are_hidden(counts) or counts.cycles <= min(ahead)
    assert all(tile.met == (1, 1) for tile in counts.tiles)


def test_rows_of_any_number_of_vectors_are_fetched_ahead(cache):
    """48 columns: where an element of such a tile is from is told by quotients of sums."""
    func = matmul(19, 100, 40)
    plan = library.gpu.TilePlan(
        (Cut(1, 4, 4, 1), Cut(3, 1, 8, 2), Cut(parts=8)), (0, 1), (2,), ahead=1
    )
    counts, sch = plan_of(func), Schedule(func)
    c = counts.of.c
    assert [library.gpu.StagedTile(c, plan, n).vector for n in plan.shared] == [4, 4]
    library.gpu.make_tiles(sch, c, plan)
    kernel = build(sch, CHECKED, cache=cache)
    arrays = given(func)
    np.testing.assert_allclose(kernel(*arrays), arrays[0] @ arrays[1])
    assert not kernel.findings.reports


@pytest.mark.parametrize("func", [
    matmul(19, 21, 37), matmul(21, 19, 37, "ki", "jk", "float16"), batched(2, 9, 21, 19),
    conv((1, 3, 7, 7), (5, 3, 3, 3), padding=1),
], ids=["product", "transposed halves", "batched", "padded windows"])  # fmt: skip
def test_operands_are_laid_out_ahead_in_whole_sectors(func, cache):
    """Rows of no whole sectors: a kernel for each operand, and copies of vectors where a tile has
    them."""
    sch = Schedule(func)
    group = next(g for g in find_groups(sch) if sch.state.block(g.block).is_reduction)
    c = contraction_of(sch, group)
    assert c is not None
    cuts = [Cut()] * len(c.axes)
    cuts[c.spatial[-2]], cuts[c.spatial[-1]] = Cut(parts=4, lanes=4), Cut(parts=2, lanes=8)
    for n in c.reduced:
        cuts[n] = Cut(parts=min(c.axes[n].extent or 0, 16))
    plan = library.gpu.TilePlan(tuple(cuts), (0, 1), c.written, ahead=1, laid=(0, 1))
    library.gpu.make_tiles(sch, c, plan)
    kernel = build(sch, CHECKED, cache=cache)
    assert len(rooms_of(sch.func, Gpu(DEVICE.target))) == 3
    arrays = given(func)
    np.testing.assert_allclose(kernel(*arrays), reference(func, *arrays)[0], rtol=1e-3)
    assert not kernel.findings.reports


@pytest.mark.parametrize(("func", "laid"), [
    (matmul(4097, 4099, 4093), 2), (matmul(2047, 2047, 4099, "ik", "jk", "float16"), 2),
    (matmul(4097, 4096, 4096), 0), (matmul(300, 301, 45), 0),
], ids=["odd", "odd halves", "odd rows", "small"])  # fmt: skip
def test_large_products_read_whole_sectors(func, laid):
    """Operands whose rows begin anywhere are laid out ahead where that moves less in all. Blocks
    are drawn for the second count: of few blocks it is less sure."""
    sketch = planned(func)
    counts = tiles_of(sketch)
    assert len(counts.plan.laid) == laid
    works = works_of(sketch.build(sketch.values()).func, Gpu(DEVICE.target))
    assert len(works) == 1 + laid
    assert counts.transactions == pytest.approx(sum(work.sectors for work in works), rel=0.06)
    for tile in counts.tiles if laid else ():
        assert tile.sectors == tile.elements * tile.item / Gpu.sector_bytes
        assert tile.vector * tile.item == Gpu.access_bytes


def test_defaults_can_be_launched():
    """What lowering keeps of windows in shared memory may be more than the estimate says; it is not
    where lanes have parts of a row and of a pixel."""
    gpu = Gpu(DEVICE.target)
    func = conv((32, 56, 56, 128), (3, 3, 128, 128), padding=1, layout="NHWC")
    sketch = planned(func)
    assert not [note for note in sketch.notes() if note.startswith("impossible: tile ")]
    works = works_of(sketch.build(sketch.values()).func, gpu)
    assert all(work.at_once(gpu) for work in works)


@pytest.mark.parametrize("func", [matmul(2, 300, 512), conv((1, 8, 9, 9), (16, 8, 3, 3))])
def test_a_plan_takes_the_same_beside_any_others(func):
    """Whatever of theirs goes through shared memory, and however many they are."""
    gpu, sch = Gpu(DEVICE.target), Schedule(func)
    c = contraction_of(sch, find_groups(sch)[0])
    found = tile_plans(c, gpu)
    search = tiles._Search(c, gpu, bitwise=False)
    assert len(found) > 8
    for counts in found[::8]:
        (alone,) = search.counts([counts.plan])
        assert (alone.cycles, alone.transactions) == (counts.cycles, counts.transactions)


@pytest.mark.parametrize("ahead", [0, 1])
def test_what_a_launch_needs_is_known_before_all_is_lowered(ahead):
    """Of windows, whose tiles lowering may keep more of, and of pipelines, which hold several."""
    gpu = Gpu(DEVICE.target)
    sch = Schedule(conv((1, 9, 9, 8), (3, 3, 8, 16), padding=1, layout="NHWC"))
    c = contraction_of(sch, find_groups(sch)[0])
    plans = [counts.plan for counts in tile_plans(c, gpu) if counts.plan.ahead == ahead]
    library.gpu.make_tiles(sch, c, plans[0])
    works = works_of(sch.func, gpu)
    assert rooms_of(sch.func, gpu) == [(w.threads, w.registers, w.shared) for w in works]
    most = gpu.registers_per_thread
    told = rooms_of(sch.func, gpu, registers=False)
    assert [(room.threads, room.shared) for room in told] == [(w.threads, w.shared) for w in works]
    assert all(w.registers <= room.registers <= most for room, w in zip(told, works))
    assert max(w.shared for w in works) > 0


@pytest.mark.parametrize("func", [
    conv((1, 9, 9, 8), (3, 3, 8, 16), padding=1, layout="NHWC"),
    te.create_prim_func([X, ops.transpose(X, (0, 2, 3, 1))]),
], ids=["conv", "channels last"])  # fmt: skip
def test_a_space_estimates_no_kernel_twice(func, monkeypatch):
    """What its default is chosen from, and what it holds."""
    lowered, tiled = [], []
    run = tiles._Search.run
    tiles.tile_plans.cache_clear()

    def counted(search):
        tiled.append(search.c)
        return run(search)

    def noted(func, target, **how):
        lowered.append((str(func), *how.values()))
        return lower(func, target, **how)

    monkeypatch.setattr(tiles._Search, "run", counted)
    monkeypatch.setattr(count, "lower", noted)
    make_space(func, DEVICE, "reassociated")
    assert lowered and len(lowered) == len(set(lowered))
    assert len(tiled) == len(set(tiled))


@pytest.mark.parametrize("b", ["kj", "jk"])
@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_few_rows_take_about_as_long_as_reading_the_matrix(rows, b):
    """67 MB at the bandwidth of the card; a second kernel for parts of sums counts. What is large
    is read once, by all lanes side by side."""
    func = matmul(rows, 4096, 4096, b=b)
    works = works_of(default_schedule(func, DEVICE.target).func, DEVICE)
    card = ARCHITECTURES["sm_90a"].card
    assert cycles(works, DEVICE) <= 1.65 * 4096 * 4096 * 4 * card.clock / card.bandwidth
    assert sum(work.sectors for work in works) <= (1.3 + 0.25 * rows) * 4096 * 4096 * 4 / 32
    assert sum(work.wavefronts for work in works) <= 1.01 * sum(work.free for work in works)


@pytest.mark.parametrize("b", ["kj", "jk"])
def test_sixteen_rows_come_through_shared_memory_for_all_that_use_them(b):
    """What all columns use is read once by each block of threads, whole sectors of it."""
    counts = plan_of(matmul(16, 4096, 4096, b=b))
    read = counts.steps * counts.blocks * counts.of.loaded[counts.row]
    assert read <= 1.6 * 4096 * 4096 * 4 / 32


ORDERS = {"width first": (3, 0, 1, 2), "width, height, channels": (0, 3, 2, 1)}


@pytest.mark.parametrize("name", ORDERS)
def test_results_in_another_order_have_tiles_along_what_is_read(name):
    """A convolution of images whose rows lie apart in the result: both are moved by sectors."""
    x, w = te.placeholder((8, 64, 30, 30), name="x"), te.placeholder((64, 64, 3, 3), name="w")
    c, r, s = (te.reduce_axis(n, name=name) for n, name in ((64, "c"), (3, "r"), (3, "s")))

    def value(*at: Any) -> Any:
        n, o, i, j = (at[ORDERS[name].index(axis)] for axis in range(4))
        return te.sum(x[n, c, i + r, j + s] * w[o, c, r, s], axis=(c, r, s))

    sizes = [(8, 64, 28, 28)[axis] for axis in ORDERS[name]]
    func = te.create_prim_func([x, w, te.compute(sizes, value, name="out")])
    counts = plan_of(func)
    box = counts.steps * counts.blocks * sum(t.elements for t in counts.tiles)
    assert counts.transactions <= 1.35 * (box + prod(sizes)) / 8


def test_vectors_keep_the_order_of_the_text_where_that_is_asked_for():
    sketch = default_sketch(sketches(matmul(40, 1, 516), DEVICE, "bitwise"), ())
    assert not any(isinstance(plan, ProductPlan) for plan in sketch.plans)
    assert sketch.build(sketch.values()).numerics == "bitwise"


def test_few_results_of_long_sums_have_blocks_for_parts_of_them():
    counts = plan_of(matmul(64, 64, 8192))
    assert counts.plan.split > 1
    assert counts.blocks >= 64


def test_the_estimate_counts_what_the_emulator_counts(cache):
    """Sectors of the operands of a product of whole tiles, and of its result."""
    func = matmul(128, 128, 32)
    sketch = planned(func)
    counts = tiles_of(sketch)
    kernel = build(sketch.build(sketch.values()), CHECKED, cache=cache)
    kernel(*given(func))
    assert counts.plan.split == 1
    found = sum(c.transactions for c in kernel.findings.counts if c.space == "global")
    assert abs(found - counts.transactions) <= 0.1 * found
    wide = [c for c in kernel.findings.counts if c.space == "shared" and c.what == "store"]
    assert all(c.transactions == c.least for c in wide)
