"""Elementwise stages that are written in other variables have the rule of the plain ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np
import pytest

from autotune import default_schedule
from autotune.plans import plans
from autotune.rules import choose
from backends import build, source_text
from benchmarks.general.form import given, numbers, require_close, restored
from benchmarks.general.rewritings import forms_of
from schedule import Schedule, library
from tensorir import Costs, Cpu, ForKind, Target, const, device_of, dtype, ops, reference, te

TARGET = Target(vector_bits=256, threads=2)


def stage(shape, made, value):
    a = te.placeholder(shape, name="a")
    return te.create_prim_func([a, te.compute(made, lambda *at: value(a, *at), name="out")])


TURNED = {
    "plain": stage((65, 130), (130, 65), lambda a, i, j: a[j, i]),
    "one axis": stage((65, 130), (8450,), lambda a, v: a[v % 65, v // 65]),
    "a unit last": stage((65, 130), (130, 65, 1), lambda a, i, j, u: a[j, i]),
    "units": stage((65, 1, 130), (1, 130, 65, 1), lambda a, w, i, j, u: a[j, w, i]),
    "two in one": stage((65, 64), (8, 520), lambda a, i, v: a[v % 65, i * 8 + v // 65]),
    "depth to space": stage(
        (64, 9, 10), (16, 18, 20), lambda a, c, h, w: a[c * 4 + h % 2 * 2 + w % 2, h // 2, w // 2]
    ),
}

LARGE = {
    "a unit last": stage((3000, 2000), (2000, 3000, 1), lambda a, i, j, u: a[j, i]),
    "one axis": stage((3000, 2000), (6000000,), lambda a, v: a[v % 3000, v // 3000]),
}
"""Results that are written past the caches."""

SHORT = {
    "space to depth": stage(
        (3, 256, 256),
        (12, 128, 128),
        lambda a, c, h, w: a[c % 3, h * 2 + c // 3 // 2, w * 2 + c // 3 % 2],
    ),
    "pairs": stage((96, 512, 2), (96, 2, 512), lambda a, n, i, j: a[n, j, i]),
    "colours": stage((80, 700, 3), (240, 700), lambda a, v, j: a[v // 3, j, v % 3]),
}
"""Many rows, turned from an axis that is shorter than a vector."""


@pytest.mark.parametrize("name", SHORT)
def test_threads_share_rows_of_tiles_that_are_no_squares(name):
    """What it takes to find a tile is much where that has few elements."""
    func = SHORT[name]
    sch = default_schedule(func, TARGET)
    names = [str(ref) for ref in sch.get_loops("out")]
    shared = [loop for name in names if (loop := sch.state.loop(name)).kind is ForKind.PARALLEL]
    assert len(shared) == 1
    tasks, (made,) = shared[0].const_extent, func.outputs
    assert np.prod(made.const_shape) // tasks >= device_of(TARGET).lanes() ** 2
    if name == "pairs":
        a = np.random.default_rng(0).random(func.inputs[0].const_shape, np.float32)
        np.testing.assert_array_equal(build(sch)(a), reference(func, a)[0])


STRAIGHT = {
    "repeated": stage((40, 30), (40, 60), lambda a, i, j: a[i, j // 2]),
    "side by side": stage((40, 30), (40, 60), lambda a, i, j: a[i, j % 30]),
    "flat": stage((40, 30), (1200,), lambda a, v: a[v // 30, v % 30]),
}


@pytest.mark.parametrize("name", TURNED)
def test_turned_arrays_are_transposed_however_they_are_written(name):
    func = TURNED[name]
    sketch = choose(func, device_of(TARGET), None, ()).sketch
    assert [plan.name for plan in sketch.plans] == ["transposed"]
    sch = sketch.build(sketch.values())
    a = np.random.default_rng(0).random(func.inputs[0].const_shape, np.float32)
    np.testing.assert_array_equal(build(sch)(a), reference(func, a)[0])


def turned(rows, columns, kind="float32", made=None, place=lambda *at: at):
    a = te.placeholder((rows, columns), kind, name="a")

    def value(*at):
        i, j = place(*at)
        return a[j, i]

    return te.create_prim_func([a, te.compute(made or (columns, rows), value, name="out")])


PARTS = {
    "plain": turned(2500, 1500),
    "other types": turned(5000, 2500, "int16"),
    "one axis": turned(2500, 1500, made=(3750000,), place=lambda v: (v // 2500, v % 2500)),
    "a unit last": turned(2500, 1500, made=(1500, 2500, 1), place=lambda i, j, u: (i, j)),
    "a batch": stage((8, 3002, 100), (8, 100, 3002), lambda a, n, i, j: a[n, j, i]),
    "a batch elsewhere": stage((3002, 8, 100), (100, 8, 3002), lambda a, i, n, j: a[j, n, i]),
}
"""Rows of the result begin within lines of memory, in pages of their own, and no cache has room."""

WHOLE = {
    "whole lines": turned(2496, 1500),
    "near rows": turned(500, 8000),
    "few": turned(1100, 500),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [*PARTS, *WHOLE])
@pytest.mark.parametrize("piece", [0.0, 7.5])
def test_parts_of_lines_are_written_one_after_the_other_where_stores_wait(name, piece):
    """Each waited for memory, as no line was whole before others had been begun everywhere; other
    processors wait longer for what is read, which then is not in order."""
    func = (PARTS | WHOLE)[name]
    cpu = Cpu(Target(vector_bits=512, threads=2), Costs(piece=piece))
    sketch = choose(func, cpu, None, ()).sketch
    values = {key.rpartition(".")[2]: value for key, value in sketch.values().items()}
    assert [plan.name for plan in sketch.plans] == ["transposed"]
    assert (values["band"] == 1) == (name in PARTS and piece > 0)
    if name in PARTS:
        assert values["stores"] == "plain"
        bytes_each = values["tile"] * dtype.itemsize(func.outputs[0].dtype)
        assert bytes_each == 32 if piece else bytes_each >= 64
    a = numbers(func)[0]
    made = build(sketch.build(sketch.values()))(a)
    np.testing.assert_array_equal(made, reference(func, a)[0])


@pytest.mark.parametrize("name", STRAIGHT)
def test_what_is_read_in_order_keeps_its_variables(name):
    sketch = choose(STRAIGHT[name], device_of(TARGET), None, ()).sketch
    assert [plan.name for plan in sketch.plans] == ["spatial"]
    trace = sketch.build(sketch.values()).trace
    assert "transform_block_layout" not in [step.name for step in trace.instructions]


def heat(u, i, j):
    return u(i + 1, j + 1) + 0.1 * (u(i, j + 1) + u(i + 2, j + 1) + u(i + 1, j) + u(i + 1, j + 2))


N = 1536
"""Rows and columns of the stencils: enough that rows of registers pay."""


def written(made, place, units=0):
    """A stencil of N + 2 by N + 2 elements; `place` tells the row and column of a result."""
    u = te.placeholder((N + 2, N + 2, *[1] * units), name="u")
    read = lambda i, j: u[(i, j, *[0] * units)]  # noqa: E731
    out = te.compute(made, lambda *at: heat(read, *place(*at)), name="out")
    return te.create_prim_func([u, out])


STENCILS = {
    "plain": written((N, N), lambda i, j: (i, j)),
    "one axis": written((N * N,), lambda v: (v // N, v % N)),
    "a unit last": written((N, N, 1), lambda i, j, u: (i, j), units=1),
    "a unit first": written((1, N, N), lambda u, i, j: (i, j)),
    "units all over": written((1, N, 1, N, 1), lambda u, i, v, j, w: (i, j), units=2),
    "columns in two": written((N, N // 2, 2), lambda i, o, j: (i, o * 2 + j)),
    "rows in two": written((N // 8, 8, N), lambda o, i, j: (o * 8 + i, j)),
    "all in one with a unit": written((N * N, 1), lambda v, u: (v // N, v % N), units=1),
}


def loops_of(sketch):
    """What a default schedule does to loops, whatever they are called."""
    trace = sketch.build(sketch.values()).trace
    steps = [step for step in trace.instructions if step.name != "transform_block_layout"]
    return [(s.name, s.args.get("factors"), len(s.args.get("loops", ()))) for s in steps]


def compare(func, expected):
    a = np.random.default_rng(0).random(func.inputs[0].const_shape, np.float32)
    made = build(default_schedule(func, TARGET))(a)
    np.testing.assert_allclose(np.squeeze(made).reshape(expected(a).shape), expected(a), rtol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", STENCILS)
def test_stencils_have_one_schedule_however_they_are_written(name):
    sketch, plain = (
        choose(STENCILS[which], device_of(TARGET), None, ()).sketch for which in (name, "plain")
    )
    assert [plan.name for plan in sketch.plans] == ["stencil"]
    assert loops_of(sketch) == loops_of(plain)
    assert "vectorize" in [step for step, _, _ in loops_of(sketch)]
    squeezed = lambda u: np.squeeze(u)  # noqa: E731
    compare(STENCILS[name], lambda u: heat(lambda i, j: squeezed(u)[i:, j:][:N, :N], 0, 0))


def test_what_is_read_in_several_places_along_another_axis_is_turned_once():
    """Of a stencil whose result lies across the results are turned, and not five operands."""
    shape, part = (99, 163), (97, 161)
    u = te.placeholder(shape, name="u")
    back = te.compute(part[::-1], lambda j, i: heat(lambda r, c: u[r, c], i, j), name="out")
    func = te.create_prim_func([u, back])
    sketch = choose(func, device_of(TARGET), None, ()).sketch
    assert [plan.name for plan in sketch.plans] == ["across"]
    text = source_text(sketch.build(sketch.values()).func, TARGET)
    once = te.create_prim_func([u, te.compute(part[::-1], lambda j, i: u[i, j], name="out")])
    plain = source_text(default_schedule(once, TARGET).func, TARGET)
    assert 0 < text.count("shuffle") <= 2 * plain.count("shuffle")  # two squares fill a line
    compare(func, lambda u: heat(lambda i, j: u[i:, j:][: part[0], : part[1]], 0, 0).T)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_every_other_element_along_another_axis_is_turned_too(step):
    a = te.placeholder((70, 150), name="a")
    b = te.compute((50, 70), lambda j, i: a[i, j * step] + a[i, j * step + 1], name="out")
    func = te.create_prim_func([a, b])
    names = [plan.name for plan in choose(func, device_of(TARGET), None, ()).sketch.plans]
    assert names == ["across"]
    compare(func, lambda a: (a[:, : 50 * step : step] + a[:, 1 : 50 * step + 1 : step]).T)


@pytest.mark.parametrize("name", LARGE)
def test_large_ones_are_streamed(name):
    sketch = choose(LARGE[name], device_of(TARGET), None, ()).sketch
    trace = sketch.build(sketch.values()).trace
    assert "stream" in [step.name for step in trace.instructions]


def product_of(shapes, made, terms, value):
    arrays = [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(shapes)]
    axes = [te.reduce_axis((0, size), name=f"k{n}") for n, size in enumerate(terms)]
    out = te.compute(made, lambda *at: te.sum(value(*arrays, *at, *axes), axis=axes), name="out")
    return te.create_prim_func([*arrays, out])


PRODUCTS = {
    "of rows": product_of(
        [(96, 72), (128, 72)], (96, 128), [72], lambda a, b, i, j, k: a[i, k] * b[j, k]
    ),
    "bilinear": product_of(
        [(32, 48), (32, 48), (36, 48, 48)], (32, 36), [48, 48],
        lambda a, b, w, i, j, k, m: a[i, k] * w[j, k, m] * b[i, m],
    ),
}  # fmt: skip
"""Products of which an operand is turned ahead."""


@pytest.mark.parametrize("name", PRODUCTS)
def test_no_form_of_a_product_takes_longer_by_the_estimate(name):
    """Axes that are two in the text, or in what is read, are turned ahead as one."""

    def chosen(func):
        sketch = choose(func, device_of(TARGET), None, ()).sketch
        return sketch, sum(plan.estimate() for plan in sketch.plans)

    plain, packed = PRODUCTS[name], set()
    _, least = chosen(plain)
    arrays = numbers(plain)
    for form in forms_of(plain, ["split", "fused", "unit", "reordered"]):
        sketch, cycles = chosen(form.func)
        assert cycles <= 1.05 * least, form.name
        steps = [step.name for step in sketch.build(sketch.values()).trace.instructions]
        packed |= {form.name} if "cache_read" in steps else set()
        if form.name == "split first, inputs too":
            found = build(sketch.build(sketch.values()))(*given(form, plain, arrays))
            require_close(plain.outputs, restored(form, plain, [found]), reference(plain, *arrays))
    assert {"split last", "split last, inputs too"} <= packed


ORDERED = {
    "bilinear": PRODUCTS["bilinear"],
    "conv": product_of(
        [(3, 61, 61), (32, 3, 7, 7)], (32, 28, 28), [3, 7, 7],
        lambda x, w, o, i, j, c, r, s: x[c, 2 * i + r, 2 * j + s] * w[o, c, r, s],
    ),
    "sums of planes": product_of(
        [(96, 8, 512)], (96, 512), [8, 4], lambda a, i, j, m, k: a[i, m, j] * (k + 1)
    ),
    "sum of parts": product_of(
        [(300, 8, 512)], (300,), [8, 500], lambda a, i, m, k: a[i, m, k]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERED)
def test_the_order_of_terms_in_the_text_is_none_of_the_nest(name):
    """Nor are those of partial sums: memory says which step is the innermost one."""

    def chosen(func):
        sketch = choose(func, device_of(TARGET), None, ()).sketch
        return sketch.name, sketch.values(), sketch.plans[0].estimate()

    for form in forms_of(ORDERED[name], ["reordered"]):
        assert chosen(form.func) == chosen(ORDERED[name]), form.name


def padded(kind, wide):
    """A depthwise convolution whose padding converts what it copies."""
    x, w = te.placeholder((1, 8, 13, 13), kind, name="x"), te.placeholder((8, 3, 3), kind, name="w")

    def fill(n, c, y, z):
        inside = (y >= 1) & (y < 14) & (z >= 1) & (z < 14)
        return te.if_then_else(inside, x[n, c, y - 1, z - 1].astype(wide), const(0, wide))

    pad = te.compute((1, 8, 15, 15), fill, name="pad")
    r, s = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 3), name="s")
    out = te.compute(
        (1, 8, 13, 13),
        lambda n, c, y, z: te.sum(pad[n, c, y + r, z + s] * w[c, r, s].astype(wide), axis=[r, s]),
        name="out",
    )
    return te.create_prim_func([x, w, out])


@pytest.mark.parametrize("target", [str(TARGET), "cuda -arch=sm_90a"])
@pytest.mark.parametrize("kind, wide", [("bfloat16", "float32"), ("int8", "int32")])
def test_padding_that_converts_goes_with_what_reads_it(kind, wide, target):
    """Else a whole image of the wide type is stored and read again."""
    func, device = padded(kind, wide), device_of(Target.parse(target))
    sketch = choose(func, device, None, ()).sketch
    assert [(plan.group.block, plan.group.padding) for plan in sketch.plans] == [("out", ("pad",))]
    if device.kind == "cpu":
        arrays = numbers(func)
        found = build(sketch.build(sketch.values()))(*arrays)
        require_close(func.outputs, [found], reference(func, *arrays))


BATCHES = {
    "depthwise": product_of(
        [(96, 58, 58), (96, 3, 3)], (56, 56, 96), [3, 3],
        lambda x, w, i, j, c, r, s: x[c, i + r, j + s] * w[c, r, s],
    ),
    "matrices": product_of(
        [(12, 384, 64), (12, 64, 384)], (384, 384, 12), [64],
        lambda a, b, i, j, n, k: a[n, i, k] * b[n, k, j],
    ),
}  # fmt: skip
"""Products whose batch comes last in the result."""


@pytest.mark.parametrize("name", BATCHES)
def test_tasks_make_whole_lines_of_results_that_lie_across(name):
    """Else single elements of a line are stored; what is to be turned stays in a cache."""
    cpu, sch = device_of(replace(TARGET, vector_bits=512)), Schedule(BATCHES[name])
    c = library.find_contraction(sch, "out")
    found = plans(c, cpu)
    across = [plan for _, plan in found if c.result.strides[plan.lane] != 1]
    assert across
    (last,) = [n for n in c.spatial if c.result.strides[n] == 1]
    assert all(plan.task[last] >= min(plan.lanes, c.axes[last].extent) for plan in across)
    best = found[0][1]
    task = [min(size, c.axes[n].extent) for n, size in zip(c.spatial, best.task)]
    panel = np.prod(task) // task[best.lane] * best.tile[best.lane] * 4
    assert panel <= cpu.caches[1][0]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_what_is_turned_is_made_in_the_order_of_the_plan(order):
    """Whatever order the result has: an image is read from one row to the next."""
    shape = (24, 40, 48)

    def value(x, w, *at):
        (c, i, j), (r, s) = (at[order.index(n)] for n in range(3)), at[3:]
        return x[c, i + r, j + s] * w[c, r, s]

    made = tuple(shape[n] for n in order)
    func = product_of([(24, 42, 50), (24, 3, 3)], made, [3, 3], value)
    cpu, sch = device_of(replace(TARGET, vector_bits=512)), Schedule(func)
    c = library.find_contraction(sch, "out")
    far = sorted(c.spatial, key=lambda n: -max(o.strides[n] for o in c.operands))
    offered = [plan for _, plan in plans(c, cpu) if plan.lane == far[-1] and not plan.packs]
    assert any(tuple(n for n in plan.order if n != plan.lane) == tuple(far[:2]) for plan in offered)
    plan = next(p for p in offered if c.result.strides[p.lane] != 1 or order[-1] == 2)
    for way in (tuple(far[:2]), tuple(far[1::-1])):
        tile, whole = {far[0]: 1, far[1]: 4, far[2]: 16}, tuple(c.axes[n].extent for n in c.spatial)
        made = sch.copy()
        library.make_nest(made, c, replace(
            plan, tile=tuple(tile[n] for n in c.spatial), task=whole, order=(far[2], *way), flat="",
        ))  # fmt: skip
        loops = [made.state.loop(loop) for loop in made.get_loops("out")]
        tiles = [loop.const_extent for loop in loops if loop.const_extent in (24, 10)]
        assert tiles == [{far[0]: 24, far[1]: 10}[n] for n in way]
        arrays = numbers(func)
        require_close(func.outputs, [build(made)(*arrays)], reference(func, *arrays))


ONCE = {
    "local": product_of(
        [(8, 15, 20), (12, 8, 3, 3, 13, 18)], (12, 13, 18), [8, 3, 3],
        lambda x, w, o, i, j, c, r, s: x[c, i + r, j + s] * w[o, c, r, s, i, j],
    ),
    "vectors": product_of(
        [(64, 24), (64, 24, 200)], (64, 200), [24], lambda x, w, n, j, k: x[n, k] * w[n, k, j]
    ),
    "pairs": product_of(
        [(16, 20), (16, 24), (16, 20, 24, 40)], (16, 40), [20, 24],
        lambda x, y, w, n, j, k, m: x[n, k] * w[n, k, m, j] * y[n, m],
    ),
}  # fmt: skip
"""Products of an operand that is read once."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ONCE)
def test_what_is_read_once_is_read_in_its_order_however_the_result_lies(name):
    """Nor are its terms in another order where they are parts of one variable."""
    cpu = device_of(Target.parse("c -vector_bits=512 -threads=1 -l2=40960"))

    def chosen(func):
        sketch = choose(func, cpu, None, ()).sketch
        return sketch, sum(plan.estimate() for plan in sketch.plans)

    plain = ONCE[name]
    _, least = chosen(plain)
    arrays = numbers(plain)
    for form in forms_of(plain, ["permuted", "fused", "reordered", "unit"]):
        sketch, cycles = chosen(form.func)
        assert cycles <= 1.11 * least, form.name
        if form.kind in ("permuted", "fused"):
            found = build(sketch.build(sketch.values()))(*given(form, plain, arrays))
            require_close(plain.outputs, restored(form, plain, [found]), reference(plain, *arrays))


PADDED = {
    "depthwise": ((2, 6, 40, 40), (6, 1, 3, 3), partial(ops.depthwise_conv2d, stride=2, padding=1)),
    "conv": ((2, 6, 40, 40), (4, 6, 3, 3), partial(ops.conv2d, padding=1)),
    "conv1d": ((2, 6, 40), (5, 6, 3), partial(ops.conv1d, padding=2)),
}  # fmt: skip


@pytest.mark.parametrize("name", PADDED)
def test_rows_that_are_normalised_stay_so_before_padding(name):
    """Else each is read for its statistic, and again to be filled up."""
    *shapes, made = PADDED[name]
    x, w = (te.placeholder(shape, name=name) for shape, name in zip(shapes, "xw"))
    func = te.create_prim_func([x, w, made(x, w)])
    (form,) = forms_of(func, ["embedded"])

    def rules(*funcs):
        found = (choose(each, device_of(TARGET), None, ()).sketch.plans for each in funcs)
        return sorted(plan.name for plans in found for plan in plans)

    assert rules(form.func) == rules(form.before, func, form.after)


@pytest.mark.parametrize("place", [None, 0, 1, 2, 3])
def test_results_are_turned_in_registers_wherever_a_unit_is(place):
    """A loop of one iteration within a tile that is turned is no part of it."""

    def value(x, w, *at):
        j, i, c, r, s = at if place is None else (*at[:place], *at[place + 1 :])
        return x[c, i + r, j + s] * w[c, r, s]

    made = [16, 16, 16]
    if place is not None:
        made.insert(place, 1)
    func = product_of([(16, 18, 18), (16, 3, 3)], tuple(made), [3, 3], value)
    sch = default_schedule(func, replace(TARGET, vector_bits=512))
    text = source_text(sch.func, replace(TARGET, vector_bits=512))
    assert "shuffle" in text and "strided" not in text
    if place == 3:
        arrays = numbers(func)
        require_close(func.outputs, [build(sch)(*arrays)], reference(func, *arrays))
