"""Plans for contractions: accepted by the primitives, right, and told apart by the estimate."""

from __future__ import annotations

import dataclasses
import random
from importlib import import_module

import numpy as np
import pytest
from contraction_programs import PROGRAMS, conv, product

from autotune.device import Cpu
from autotune.estimate.estimate import Estimate
from autotune.estimate.varied import varied
from autotune.plans import has_plans, plans
from autotune.rules.group import find_groups
from autotune.rules.inlined import inline_stages
from backends import build, resolve
from schedule import Schedule
from schedule.library import NestPlan, find_contraction, make_nest
from tensorir import Costs, Processor, Target, ops, reference, te

CPU = Cpu(resolve("c -threads=2"))
WIDE = Cpu(Target("c", vector_bits=512, threads=2, features=("avx512f", "avx512bw", "fma")))
"""One with wide vectors and many registers, whatever the tests run on."""


def prepared(func):
    """A schedule, and a pair of group and contraction for each of its reductions."""
    sch = Schedule(func)
    inline_stages(sch)
    groups = [g for g in find_groups(sch) if sch.state.block(g.block).is_reduction]
    return sch, [find_contraction(sch, g.block, g.epilogue, g.padding) for g in groups]


def drawn(c, rng, count):
    """The first plan, and some of all."""
    found = [plan for _, plan in plans(c, CPU)]
    return [found[0], *rng.sample(found, min(count, len(found)))]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number, name", list(enumerate(PROGRAMS)), ids=PROGRAMS)
def test_plans_compute_what_the_program_computes(number, name, cache):
    """The first of each program, and of every other one some plan; test_rules.py draws more."""
    func = PROGRAMS[name]()
    rng = random.Random(name)
    sizes = {var.name: 5 for var in func.size_vars}
    data = np.random.default_rng(0)
    shapes = [[sizes.get(str(n)) or int(str(n)) for n in p.shape] for p in func.params[:-1]]
    args = [data.integers(-8, 8, s).astype(p.dtype) for s, p in zip(shapes, func.params)]
    (want,) = reference(func, *args)
    base, found = prepared(func)
    assert found
    for choice in zip(*(drawn(c, rng, number % 2) for c in found)):
        sch = base.copy()
        for c, plan in zip(found, choice):
            make_nest(sch, c, plan)
        got = build(sch, CPU.target, cache=cache)(*args)
        np.testing.assert_array_equal(got, want, err_msg=str(choice))


def test_a_matrix_times_a_column_has_no_nest():
    """Its rows lie apart in memory, and no element of the matrix is used again."""
    _, (c,) = prepared(product(64, 64, 1))
    assert not has_plans(c, CPU) and plans(c, CPU) == []


def test_plans_are_sorted_and_distinct():
    _, (c,) = prepared(PROGRAMS["conv 1x1"]())
    found = plans(c, CPU)
    assert [cost for cost, _ in found] == sorted(cost for cost, _ in found)
    assert len({plan for _, plan in found}) == len(found) > 20


def test_bitwise_plans_keep_the_order_of_the_sums():
    base, (c,) = prepared(PROGRAMS["conv of primes"]())
    for _, plan in plans(c, CPU, numerics="bitwise")[:8]:
        assert plan.steps == c.written
        sch = base.copy()
        make_nest(sch, c, plan)
        assert sch.numerics == "bitwise"


def test_constants_are_packed_for_nothing():
    _, (c,) = prepared(PROGRAMS["conv of primes"]())
    packed = [(cost, plan) for cost, plan in plans(c, CPU, constants=["w"]) if plan.packs]
    in_calls = {plan: cost for cost, plan in plans(c, CPU)}
    assert all(cost < in_calls[plan] for cost, plan in packed if plan in in_calls)
    assert any(plan in in_calls for _, plan in packed)


def test_more_threads_are_not_slower():
    _, (c,) = prepared(PROGRAMS["product scaled"]())
    one = Cpu(dataclasses.replace(CPU.target, threads=1))
    assert plans(c, CPU)[0][0] <= plans(c, one)[0][0] + CPU.costs.start


def test_equal_targets_of_other_processors_have_estimates_of_their_own():
    """What was found of a machine is no part of its target, and plans are remembered."""
    _, (c,) = prepared(product(512, 512, 512))
    target = Target("c", vector_bits=512, threads=1, features=("avx512f", "fma"))
    small = dataclasses.replace(target, processor=Processor(l1d=8 << 10, l2=64 << 10, l3=1 << 20))
    assert small == target
    times = [plans(c, Cpu(each))[0][0] for each in (target, small, target)]
    assert times[0] == times[2] < times[1]


def test_images_are_read_in_place_where_loads_take_masks():
    image, filters = te.placeholder((1, 32, 28, 28), name="x"), te.placeholder((32, 1, 3, 3))
    out = ops.depthwise_conv2d(image, filters, padding=1)
    _, (c,) = prepared(te.create_prim_func([image, filters, out], name="conv"))
    masks = ("avx512bw", "avx512f", "avx512vl", "fma")
    for features, pad in ((("avx512f", "fma"), "task"), (masks, "inline")):
        cpu = Cpu(Target("c", vector_bits=512, threads=1, features=features))
        assert plans(c, cpu)[0][1].pad == pad


def test_the_estimate_asks_the_pass_how_often_a_nest_is_copied(monkeypatch):
    image, filters = te.placeholder((1, 8, 40, 40)), te.placeholder((8, 1, 3, 3))
    out = ops.depthwise_conv2d(image, filters, padding=1)
    _, (c,) = prepared(te.create_prim_func([image, filters, out], name="edges"))
    features = ("avx512bw", "avx512f", "avx512vl", "fma")
    wide = Cpu(Target(vector_bits=512, threads=2, features=features))
    found = [plan for _, plan in plans(c, wide) if plan.pad == "inline"]
    assert found
    before = Estimate(c, wide).arithmetic(found)
    for name in ("FEW", "COPIES"):
        monkeypatch.setattr(import_module("tensorir.passes.partition_loops"), name, 1)
    assert np.all(Estimate(c, wide).arithmetic(found) >= before)
    assert np.any(Estimate(c, wide).arithmetic(found) > before)


def test_operands_that_later_rows_read_again_take_registers():
    """Rows along two axes: the vectors of the inner one are at hand for each row of the outer."""
    _, (c,) = prepared(conv(1, 64, 28, 64, 3, groups=16))
    cpu = Cpu(Target("c", vector_bits=512, threads=1, features=("avx512f", "fma")))
    assert cpu.registers == 32
    lane = max(c.spatial, key=lambda n: c.result.strides[n] == 1)
    outer, inner = (n for n in c.spatial[1:] if n != lane)  # filters of a group, rows of the image
    found = [plan for _, plan in plans(c, cpu) if plan.lane == lane and not plan.flat]
    assert found[0].tile[outer] > 1 and found[0].tile[inner] > 1
    vectors = found[0].tile[lane] // 16
    held = found[0].tile[outer] * found[0].tile[inner] + found[0].tile[inner] + 1 / vectors
    assert held * vectors <= cpu.registers


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("size, step, taps", [(14, 2, 2), (15, 3, 3), (30, 2, 2), (13, 2, 3)])
def test_ends_of_rows_that_no_mask_is_for_take_a_register_each(size, step, taps, bits):
    """The last lanes of what is read apart are ever shorter vectors: 14 of 16 are three."""
    wide = step * (size - 1) + taps
    x = te.placeholder((256, 2 * taps, wide), name="x")
    r, s = te.reduce_axis(taps, name="r"), te.reduce_axis(taps, name="s")
    y = te.compute(
        (256, 2, size), lambda c, i, j: te.max(x[c, i * taps + r, j * step + s], axis=[r, s]), "y"
    )
    _, (c,) = prepared(te.create_prim_func([x, y]))
    features = ("avx2", "avx512bw", "avx512f", "avx512vl", "fma")
    cpu = Cpu(Target("c", vector_bits=bits, threads=1, features=features))
    for _, plan in plans(c, cpu)[:3]:
        tile, lanes = plan.tile[plan.lane], plan.lanes
        ends = {min(tile, size), size % tile}
        vectors = max(end // lanes + (end % lanes).bit_count() for end in ends)
        rows = np.prod(plan.tile) // tile
        assert plan.flat == "single" or rows * vectors <= cpu.registers


def test_rows_that_share_sets_of_the_second_cache_are_packed():
    """At distances of large powers of two, and not beside them."""
    for n, crowded in {1024: True, 1008: False, 4096: True, 4080: False}.items():
        _, (c,) = prepared(product(600, 1536, n))
        at, lane = next((at, c.spatial[-1]) for at, o in enumerate(c.operands) if o.strides[1] == 1)
        assert Estimate(c, CPU).crowds(at, lane, 64) == crowded, n
        assert not crowded or plans(c, CPU)[0][1].packs, n


@pytest.mark.parametrize(("terms", "few"), [(64, True), (65, False)])
def test_a_tile_has_no_more_rows_than_a_set_of_the_first_cache(terms, few):
    """Of three factors: what rows share is computed for more of them where these are apart."""
    a, b = te.placeholder((256, 64, terms), name="a"), te.placeholder((64, 64), name="b")
    c, (j, k) = te.placeholder((terms, 64), name="c"), (te.reduce_axis(64), te.reduce_axis(terms))
    out = te.compute((256, 64), lambda i, r: te.sum(a[i, j, k] * b[j, r] * c[k, r], axis=[j, k]))
    _, (found,) = prepared(te.create_prim_func([a, b, c, out], name="mttkrp"))
    cpu = Cpu(Target("c", vector_bits=512, threads=1, features=("avx512f", "fma")))
    _, plan = plans(found, cpu)[0]
    (rows,) = (size for n, size in enumerate(plan.tile) if n != plan.lane)
    assert (rows <= cpu.l1_bytes // cpu.page_bytes) == few


@pytest.mark.parametrize("item", ["float32", "float64"])
def test_of_few_rows_and_many_columns_the_rows_are_packed(item):
    """Lines of one panel come in their order, so that nothing else has to be packed: 0.7 of the
    time of what packs the matrix (64 rows of 4096 terms), which is read along its terms."""
    x, w = (te.placeholder((n, 4096), item) for n in (64, 4096))
    k = te.reduce_axis(4096)
    out = te.compute((64, 4096), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k))
    _, (c,) = prepared(te.create_prim_func([x, w, out], name="linear"))
    cpu = Cpu(Target("c", vector_bits=512, threads=2, features=("avx512f", "fma")))
    _, plan = plans(c, cpu)[0]
    assert [c.operands[pack.operand].shape[0] for pack in plan.packs] == [64]


def test_results_of_few_terms_are_written_where_they_belong():
    """Of large images with few channels: panels that are turned leave the caches on their way."""
    image, filters = te.placeholder((1, 427, 640, 3)), te.placeholder((3, 3, 3, 32))
    out = ops.conv2d(image, filters, padding=1, layout="NHWC")
    _, (c,) = prepared(te.create_prim_func([image, filters, out], name="conv"))
    _, plan = plans(c, CPU)[0]
    assert c.result.strides[plan.lane] == 1


def test_rows_share_what_lanes_read_though_their_number_is_a_symbol(cache):
    """Batch last: only filters have the same lanes of the image, whose number is not known."""
    n, lanes = te.var("n"), 16
    image, filters = te.placeholder((3, 6, 6, lanes)), te.placeholder((n, 3, 3, 3))
    c, r, s = (te.reduce_axis((0, 3)) for _ in range(3))
    out = te.compute((n, 4, 4, lanes), lambda k, y, x, b: te.sum(
        image[c, y + r, x + s, b] * filters[k, c, r, s], axis=[c, r, s]))  # fmt: skip
    func = te.create_prim_func([image, filters, out], name="last")
    base, (found,) = prepared(func)
    (symbol,) = (axis for axis in found.spatial if found.axes[axis].extent is None)
    _, plan = plans(found, CPU)[0]
    assert plan.tile[symbol] > 1
    make_nest(base, found, plan)
    kernel, rng = build(base, CPU.target, cache=cache), np.random.default_rng(0)
    for size in (0, 1, plan.tile[symbol], 13):
        args = [rng.integers(-8, 8, each).astype("float32") for each in
                ((3, 6, 6, lanes), (size, 3, 3, 3))]  # fmt: skip
        np.testing.assert_array_equal(kernel(*args), reference(func, *args)[0])


ANY = {
    "rows": lambda: product(None, 256, 2048),
    "columns": lambda: product(2048, 256, None),
    "batch": lambda: conv(0, 64, 28, 64, 3, symbolic=True),
}
"""Programs of a symbolic size."""


@pytest.mark.parametrize("name", ANY)
def test_plans_of_one_nest_take_as_long(name):
    """Loops over tasks of a symbolic axis come first, whatever order a plan says: an operand that
    no cache holds is read again by each of them, which tasks of several tiles mend."""
    base, (c,) = prepared(ANY[name]())
    (any_,) = [n for n in c.spatial if c.axes[n].extent is None]
    _, best = plans(c, CPU)[0]
    known = [n for n in c.spatial if n != any_]
    orders = [(any_, *known), (*known, any_)]
    made = [dataclasses.replace(best, task=best.tile, order=order) for order in orders]
    texts = set()
    for plan in made:
        make_nest(sch := base.copy(), c, plan)
        texts.add(str(sch.func))
    one, other = Estimate(c, CPU).cycles(made)
    assert len(texts) == 1 and one == other


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [1, 95, 96, 97, 1000])
def test_tasks_of_several_tiles_along_a_symbolic_axis(size, cache):
    func = product(None, 256, 2048)
    base, (c,) = prepared(func)
    best = next(plan for _, plan in plans(c, CPU) if plan.task[0] > plan.tile[0])
    assert best == plans(c, CPU)[0][1]
    make_nest(base, c, best)
    rng = np.random.default_rng(size)
    shapes = [[int(str(n)) if str(n).isdigit() else size for n in p.shape] for p in func.inputs]
    args = [rng.integers(-8, 8, shape).astype("float32") for shape in shapes]
    np.testing.assert_array_equal(build(base, CPU.target, cache=cache)(*args), args[0] @ args[1])


def grouped():
    """A product of many small matrices."""
    a = te.placeholder((16, 300, 8), "float32", name="A")
    b = te.placeholder((16, 8, 4096), "float32", name="B")
    k = te.reduce_axis(8, name="k")
    out = te.compute((16, 300, 4096), lambda g, y, x: te.sum(a[g, y, k] * b[g, k, x], axis=k))
    return te.create_prim_func([a, b, out])


def stored_in_turns(c, plan, costs, **change):
    """Cycles of the arithmetic of a plan with costs of pieces, less those without."""
    target = dataclasses.replace(WIDE.target, **change)
    free = dataclasses.replace(costs, piece=0.0)
    all_, others = (Estimate(c, Cpu(target, each)).arithmetic([plan])[0] for each in (costs, free))
    return all_ - others


@pytest.mark.parametrize("func", [product(4800, 8, 4096), grouped()], ids=["plain", "grouped"])
def test_rows_that_are_stored_in_turns_take_longer(func):
    """A cost for each row of a tile where results may begin within lines: of callers, but not of
    intermediates, nor where all that there is stays in the second cache."""
    costs = Costs(piece=15.0)
    _, (c,) = prepared(func)
    lane = c.spatial[-1]
    first = next(p for _, p in plans(c, WIDE) if p.lane == lane and not p.depth)

    def tiled(rows, width):
        tile = tuple({lane: width, lane - 1: rows}.get(n, 1) for n in c.spatial)
        return dataclasses.replace(first, tile=tile)

    once = stored_in_turns(c, tiled(6, 64), costs)
    assert once > 0
    assert stored_in_turns(c, tiled(6, 32), costs) > 1.5 * once
    assert stored_in_turns(c, tiled(1, 256), costs) == 0
    own = dataclasses.replace(c, result=dataclasses.replace(c.result, param=False))
    assert stored_in_turns(own, tiled(6, 64), costs) == 0
    odd = (*(step + 1 for step in c.result.strides[:lane]), *c.result.strides[lane:])
    odd = dataclasses.replace(own, result=dataclasses.replace(own.result, strides=odd))
    assert stored_in_turns(odd, tiled(6, 64), costs) == once
    assert stored_in_turns(c, tiled(6, 64), costs, l2=1 << 30) == 0


def test_runs_go_on_in_the_next_tile():
    """Tiles side by side in a row of a large result write lines as long rows do; those below each
    other leave pieces, which nobody asks for ahead."""
    _, (c,) = prepared(product(4096, 8, 4096))
    plan = next(p for _, p in plans(c, WIDE) if p.lane == c.spatial[-1] and not p.packs)
    whole = tuple(c.axes[n].extent for n in c.spatial)
    nests = [dataclasses.replace(plan, tile=(6, 64), task=whole, order=o) for o in ((0, 1), (1, 0))]
    along, below = Estimate(c, WIDE).cycles(nests)
    assert along < 0.8 * below


def windows(order=(0, 1), kind="float32", terms=31, step=1, mirrored=False):
    """Rows times weights of their own, along windows of another matrix's rows; the axes
    of the result are in any order."""
    n, m = 60, 96
    x = te.placeholder((step * (n - 1) + terms, m), kind, name="x")
    weights = te.placeholder((n, terms), kind, name="weights")
    k = te.reduce_axis(terms, "k")

    def term(*at):
        i, j = (at[order.index(axis)] for axis in (0, 1))
        row = step * i + (terms - 1 - k if mirrored else k)
        return te.sum(weights[i, k] * x[row, j], axis=k)

    out = te.compute(tuple((n, m)[axis] for axis in order), term, name="out")
    return te.create_prim_func([x, weights, out], name="windows")


@pytest.mark.parametrize(
    "form",
    [{}, {"order": (1, 0)}, {"kind": "float64"}, {"kind": "int32"}]
    + [{"terms": 32}, {"step": 2}, {"mirrored": True}],
    ids=str,
)
def test_terms_that_rows_share_are_written_out_together(form, cache):
    """However windows are written: as many at a time as leave code short, whatever divides them."""
    func = windows(**form)
    base, (c,) = prepared(func)
    found = [plan for _, plan in plans(c, Cpu(Target("c", vector_bits=512, features=("fma",))))]
    assert found[0].written > 1 or found[0].flat
    written = [p for _, p in plans(c, WIDE) if p.written > 1]
    fewer = [dataclasses.replace(written[0], written=terms) for terms in (4, 7)]
    data = np.random.default_rng(0)
    args = [data.integers(-8, 8, p.const_shape).astype(p.dtype) for p in func.params[:-1]]
    (want,) = reference(func, *args)
    for plan in (written[0], *fewer):
        sch = base.copy()
        make_nest(sch, c, plan)
        np.testing.assert_array_equal(build(sch, CPU.target, cache=cache)(*args), want)


def test_what_rows_share_is_loaded_once_where_it_is_written_out():
    """The estimate of a tile falls with the terms that are written out, and ends with registers."""
    _, (c,) = prepared(windows())
    cpu = Cpu(Target("c", vector_bits=512, threads=1, features=("avx512f", "fma")))
    lane = next(n for n in c.spatial if c.result.strides[n] == 1)
    tile = tuple(32 if n == lane else 6 for n in c.spatial)
    base = dataclasses.replace(plans(c, cpu)[0][1], flat="", tile=tile, packs=())
    less, more, most = (
        Estimate(c, cpu).arithmetic([dataclasses.replace(base, written=n)])[0] for n in (1, 8, 31)
    )
    assert most < more < less
    tall = tuple(32 if n == lane else 12 for n in c.spatial)
    high = dataclasses.replace(base, tile=tall)
    assert (
        Estimate(c, cpu).arithmetic([high])[0]
        < Estimate(c, cpu).arithmetic([dataclasses.replace(high, written=8)])[0]
    )


@pytest.mark.parametrize("name", ["conv of primes", "conv 1x1"])
def test_windows_of_single_elements_are_not_written_out(name):
    """Each load of one fills a vector for nothing; kept for later terms it takes a register."""
    _, (c,) = prepared(PROGRAMS[name]())
    for _, plan in plans(c, CPU):
        if plan.written > 1:
            rows = [n for n in c.spatial if plan.tile[n] > 1 and n != plan.lane]
            lanes = [n for n, o in enumerate(c.operands) if o.strides[plan.lane] != 0]
            assert any(c.overlap(row, plan.steps[-1], n) for row in rows for n in lanes)


@pytest.mark.parametrize("taps", [2, 3, 5, 7])
@pytest.mark.parametrize("step", [2, 3, 4])
def test_sums_have_room_beside_what_lanes_are_chosen_from(step, taps):
    """Each vector of sums takes one of as many neighbours as elements are apart, and is chosen from
    them again for each tap: with more of them than registers, all are put by."""
    image = te.placeholder((step * 512 + taps, step * 512 + taps), name="image")
    weight = te.placeholder((taps, taps), name="weight")
    r, q = te.reduce_axis(taps, "r"), te.reduce_axis(taps, "q")
    out = te.compute(
        (512, 512),
        lambda i, j: te.sum(image[step * i + r, step * j + q] * weight[r, q], axis=[r, q]),
    )
    _, (c,) = prepared(te.create_prim_func([image, weight, out]))
    cpu = Cpu(Target("c", vector_bits=512, threads=1))
    found = [plan for _, plan in plans(c, cpu)]
    assert len(set(found)) == len(found)
    sums = np.prod(found[0].tile) / found[0].lanes
    assert sums * (1 + step) <= cpu.registers


@pytest.mark.parametrize(("window", "layout"), [(2, "NCHW"), (2, "NHWC"), (3, "NCHW")])
def test_of_equal_tiles_those_that_read_whole_rows_are_first(window, layout):
    shape = (1, 64, 114, 114) if layout == "NCHW" else (1, 114, 114, 64)
    x = te.placeholder(shape, name="x")
    func = te.create_prim_func([x, ops.max_pool2d(x, window, window, layout=layout)])
    _, (c,) = prepared(func)
    _, plan = plans(c, WIDE)[0]
    assert plan.tile[plan.lane] >= c.axes[plan.lane].extent


def test_varied_plans_are_those_that_replace_makes():
    plan = NestPlan(0, 16, (16,), (32,), (1,), (0,))
    made = varied(plan, pad="root", written=2)
    assert made == dataclasses.replace(plan, pad="root", written=2) != plan
    with pytest.raises(TypeError, match="NestPlan has no padd"):
        varied(plan, padd="root")


@pytest.mark.parametrize("name", PROGRAMS)
def test_estimates_of_plans_together_are_those_of_each_alone(name):
    """Plans are columns: neither the order of loops nor the lane of one is that of another."""
    rng = random.Random(name)
    for c in prepared(PROGRAMS[name]())[1]:
        some = drawn(c, rng, 12)
        alone = [float(Estimate(c, CPU).cycles([plan])[0]) for plan in some]
        np.testing.assert_allclose(Estimate(c, CPU).cycles(some), alone, rtol=1e-12)


@pytest.mark.parametrize("item", ["float32", "float64", "int32"])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_read_again_leaves_room_in_the_last_cache(item, threads, turned):
    """Other programs use it too, and so do all threads: a product of 2048 took 1.5 times as long
    where each row of tiles read 8 MB again, of 32 (a Zen 3 beside other programs)."""
    a, b = (te.placeholder((2048, 2048), item, name=name) for name in "ab")
    k = te.reduce_axis(2048)
    factor = (lambda j: b[j, k]) if turned else (lambda j: b[k, j])
    out = te.compute((2048, 2048), lambda i, j: te.sum(a[i, k] * factor(j), k))
    _, (c,) = prepared(te.create_prim_func([a, b, out]))
    features, l3 = ("avx2", "fma"), 32 << 20
    cpu = Cpu(Target("c", vector_bits=256, threads=threads, features=features, l3=l3))
    plan = plans(c, cpu, ("b",))[0][1]
    outer = next(n for n in plan.order if plan.tile[n] < plan.task[n])
    inner = next(n for n in c.spatial if n != outer)
    read = 2048 * min(2048, plan.task[inner]) * np.dtype(item).itemsize
    apart = threads if plan.task[inner] < 2048 else 1
    assert read * apart <= l3 // 4


@pytest.mark.parametrize("item", ["float32", "int32"])
@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("size", [192, 256, 320])
def test_short_rows_apart_cost_more_than_a_panel(item, bits, size):
    """Nothing asks for the next of many short rows: a product of 256 took 1.25 times as long."""
    a, b = (te.placeholder((size, size), item, name=name) for name in "ab")
    k = te.reduce_axis(size)
    out = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], k))
    _, (c,) = prepared(te.create_prim_func([a, b, out]))
    cpu = Cpu(Target("c", vector_bits=bits, threads=2, features=("avx2", "fma"), l2=1 << 19))
    plan = plans(c, cpu, ("b",))[0][1]
    assert [c.operands[pack.operand].buffer for pack in plan.packs] == ["b"]
