"""Rewritten programs get the plans of the plain ones on GPUs too, and move as much; whatever comes
of a rewriting computes what the program does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from autotune.gpu.count import works_of
from autotune.gpu.work import Work, cycles
from autotune.rules import choose
from autotune.rules.gpu.scan import rows_of_scans
from autotune.rules.gpu.sums.reductions import reduction_plans
from autotune.rules.group import Group
from backends import build
from benchmarks.general.form import Form, expected, given, numbers, restored
from benchmarks.general.rewritings import forms_of
from schedule import Schedule
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

TARGET = "cuda-emulator -arch=sm_90a"
DEVICE = Gpu(Target.parse(TARGET))
MORE = 1.05
"""Times the transactions of the plain program that a form may take."""
OF_TERMS = 1.15
"""Times as long as a product that one with a factor for each term may take: what is computed of an
operand as it is fetched is waited for, copies of what memory has run ahead (docs/gpu_counts.md)."""


def program(make, *shapes) -> PrimFunc:
    inputs = [te.placeholder(shape, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


ROWS = ("renamed", "split", "unit")
ALL = (*ROWS, "fused")
ORDERS = ("reordered", "permuted")
ALIKE = {
    "renamed letters", "renamed topi", "renamed of others", "reduce axes reversed", "fused reduce",
    "split first", "split first, inputs too", "split reduce, inputs too", "unit first",
}  # fmt: skip
"""Forms that go the way of others of the same program, which are here; unless they are named."""


def convolution(batch: int, channels: int, size: int, kernel: int, pad: int) -> PrimFunc:
    return program(
        lambda x, w: ops.conv2d(x, w, padding=pad),
        (batch, channels, size, size), (channels, channels, kernel, kernel),
    )  # fmt: skip


def depthwise(batch: int, channels: int, size: int) -> PrimFunc:
    return program(
        lambda x, w: ops.depthwise_conv2d(x, w, padding=1),
        (batch, channels, size, size), (channels, 1, 3, 3),
    )  # fmt: skip


def taken(rows: int, columns: int, count: int) -> PrimFunc:
    inputs = [te.placeholder((rows, columns), name="x"), te.placeholder((count,), "int32")]
    return te.create_prim_func([*inputs, ops.take(*inputs)])


def joined(*shape: int) -> PrimFunc:
    return program(lambda x, y: ops.concat([x, y], 1), shape, shape)


def enlarged(*shape: int) -> PrimFunc:
    return program(lambda x: ops.resize2d(x, (2 * shape[2], 2 * shape[3])), shape)


PROGRAMS = {
    "relu": (program(lambda x: ops.relu(x), (512, 1024)), ALL),
    "transpose": (program(lambda x: ops.transpose(x, (1, 0)), (512, 1024)), ALL),
    "permutation": (program(lambda x: ops.transpose(x, (2, 0, 1)), (16, 64, 128)), ALL),
    "row sums": (program(lambda x: ops.sum(x, (1,)), (2048, 1024)), ROWS),
    "column sums": (program(lambda x: ops.sum(x, (0,)), (2048, 1024)), ROWS),
    "sums of several axes": (
        program(lambda x: ops.sum(x, (0, 2, 3)), (8, 512, 32, 32)), ("reordered",),
    ),
    "softmax": (program(lambda x: ops.softmax(x), (2048, 1024)), ("split", "fused")),
    "softmax along": (program(lambda x: ops.softmax(x, 1), (64, 256, 64)), ALL),
    "softmax of columns": (program(lambda x: ops.softmax(x, 0), (256, 4096)), ("fused", "unit")),
    "layer norm": (
        program(ops.layer_norm, (8192, 1024), (1024,), (1024,)), ("split", "split first"),
    ),
    "group norm": (
        program(
            lambda x, a, b: ops.group_norm(x, a, b, 8), (16, 64, 32, 32), (64,), (64,),
        ), ("reordered", "split last", "split reduce", "fused", "unit"),
    ),
    "group norm alone": (
        program(lambda x: ops.group_norm(x, groups=8), (16, 64, 32, 32)), ("reordered",),
    ),
    "averages of images": (
        program(ops.global_avg_pool, (8, 256, 56, 56)),
        ("permuted", "split reduce", "fused reduce", "unit"),
    ),
    "running sums": (program(ops.cumsum, (2048, 1024)), ("split last", "unit")),
    "running sums of one row": (program(ops.cumsum, (1 << 16,)), ("unit", "unit first")),
    "running sums of images": (
        program(lambda x: ops.cumsum(x, 2), (16, 32, 512)), ("split first", "fused"),
    ),
    "rows at places": (taken(512, 1024, 256), ("split", "fused", "unit")),
    "sums of channels": (
        program(lambda x: ops.sum(x, (1,)), (4, 512, 28, 32)), ("permuted", "unit", "split last"),
    ),
    "rows that share a factor": (
        program(lambda x, s: ops.multiply(x, s), (2048, 1024), (1024,)), ("fused", "unit"),
    ),
    "product": (program(ops.matmul, (512, 256), (256, 512)), ("split", "fused")),
    "product of odd sizes": (program(ops.matmul, (513, 511), (511, 515)), ("unit",)),
    "convolution, channels last": (
        program(
            lambda x, w: ops.conv2d(x, w, padding=1, layout="NHWC"),
            (4, 28, 28, 64), (3, 3, 64, 64),
        ), ("unit",),
    ),
    "convolution": (convolution(4, 64, 28, 3, 1), ("reordered", "fused")),
    "convolution, one tap": (convolution(4, 64, 28, 1, 0), ("split last",)),
    "convolution, tiles across rows": (
        program(ops.conv2d, (8, 256, 28, 28), (512, 256, 1, 1)), ("split last",),
    ),
    "depthwise": (depthwise(4, 64, 28), ("split last", "fused")),
    "pooling": (
        program(lambda x: ops.max_pool2d(x, 3, stride=2), (4, 64, 57, 57)),
        ("split last", "fused", "unit", "unit last"),
    ),
    "depthwise, channels last": (
        program(
            lambda x, w: ops.depthwise_conv2d(x, w, padding=1, layout="NHWC"),
            (4, 28, 28, 64), (3, 3, 1, 64),
        ), ("split last",),
    ),
}


def scheduled(func: PrimFunc) -> tuple[list[str], Schedule]:
    """The default schedule, and the names of its plans."""
    sketch = choose(func, DEVICE, None, ()).sketch
    return [plan.name for plan in sketch.plans], sketch.build(sketch.values())


class Planned(NamedTuple):
    """The names of the plans of a default schedule, and what its kernels ask for."""

    plans: list[str]
    works: list[Work]

    @property
    def sectors(self) -> float:
        """Transactions of all kernels."""
        return sum(work.sectors for work in self.works)

    @property
    def conflicts(self) -> float:
        """Wavefronts of the worst kernel, over those without conflicts of banks."""
        return max([work.wavefronts / work.free for work in self.works if work.free] or [1.0])

    @property
    def cycles(self) -> float:
        """Of all kernels, by the estimate."""
        return cycles(self.works, DEVICE)


def planned(func: PrimFunc) -> Planned:
    names, sch = scheduled(func)
    return Planned(names, works_of(sch.func, DEVICE))


def chosen_forms(func: PrimFunc, kinds: tuple[str, ...]) -> list[Form]:
    """Forms of some kinds, and those that are named."""
    every = {name.partition(" ")[0] for name in kinds}
    found = [form for form in forms_of(func, tuple(every)) if form.name not in ALIKE - {*kinds}]
    return [form for form in found if form.kind in kinds or form.name in kinds]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_forms_have_the_plan_of_the_plain_program(name, samples):
    """A run of all tests has every other form."""
    func, kinds = PROGRAMS[name]
    plain = planned(func)
    forms = chosen_forms(func, kinds)
    missing = [kind for kind in kinds if not any(kind in (f.kind, f.name) for f in forms)]
    assert not missing, "they rewrite nothing here"
    for form in forms[:: 2 if samples else 1]:
        found = planned(form.func)
        assert found.plans == plain.plans, form.name
        assert found.sectors <= MORE * plain.sectors, form.name
        assert found.conflicts <= MORE * plain.conflicts, form.name


SCALED = {
    "product": PROGRAMS["product"][0],
    "product of square matrices": program(ops.matmul, (1024, 1024), (1024, 1024)),
    "batches": program(ops.batch_matmul, (64, 128, 64), (64, 64, 128)),
    "convolution": PROGRAMS["convolution"][0],
    "groups": program(
        lambda x, w: ops.conv2d(x, w, padding=1, groups=4), (4, 64, 28, 28), (64, 16, 3, 3)
    ),
    "space to depth": program(lambda x: ops.space_to_depth(x, 2), (16, 64, 224, 224)),
    "channels last": program(lambda x: ops.transpose(x, (0, 2, 3, 1)), (32, 3, 224, 224)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SCALED)
def test_a_factor_more_takes_no_longer(name):
    func = SCALED[name]
    plain = planned(func)
    forms = chosen_forms(func, ("scaled",))
    assert {form.name for form in forms} >= {"scaled by row", "scaled by column"}
    for form in forms:
        most = OF_TERMS if plain.plans == ["product"] and form.name == "scaled by k" else MORE
        assert planned(form.func).cycles <= most * plain.cycles, form.name


TURNED_RESULTS = {
    "concatenation": (joined(256, 512), "permuted reversed", "turned"),
    "image of twice the size": (enlarged(2, 16, 28, 28), "permuted last first", "turned"),
    "softmax": (program(lambda x: ops.softmax(x), (2048, 1024)), "permuted reversed", "chain"),
    "softmax of long rows": (
        program(lambda x: ops.softmax(x), (512, 5000)), "permuted reversed", "chain",
    ),
    "softmax of matrices": (
        program(lambda x: ops.softmax(x), (16, 4, 128, 256)), "permuted reversed", "chain",
    ),
    "softmax of parts of rows": (
        program(lambda x: ops.softmax(x), (16, 4, 128, 256)), "permuted last first", "chain",
    ),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TURNED_RESULTS)
def test_what_is_turned_moves_no_more_whatever_it_is_computed_of(name):
    func, rewriting, plan = TURNED_RESULTS[name]
    (form,) = (form for form in forms_of(func, ("permuted",)) if form.name == rewriting)
    found = planned(form.func)
    assert found.plans == [plan]
    assert found.sectors <= MORE * planned(func).sectors


def spread(axes: str) -> PrimFunc:
    """p[i] + q[j * 3, i] without and with axes of one value, in result and arrays: `axes` has the
    order of the result's, those called u among them."""
    p, q = te.placeholder((96,), name="p"), te.placeholder((1, 750, 1, 96), name="q")
    shape = {"i": 96, "j": 250, "u": 1}

    def element(*at):
        places = dict(zip(axes, at))
        u = places.get("u", 0)
        return p[places["i"]] + q[u, places["j"] * 3, u, places["i"]]

    made = te.compute([shape[axis] for axis in axes], element, name="made")
    return te.create_prim_func([p, q, made])


@pytest.mark.parametrize("axes", ["iju", "uij", "iuj", "jiu", "uji"])
def test_axes_of_one_value_turn_nothing(axes, cache):
    """Nor do they keep what is turned from going through tiles or boxes."""
    plain, func = planned(spread(axes.replace("u", ""))), spread(axes)
    found = planned(func)
    assert found.plans == plain.plans
    assert found.sectors <= MORE * plain.sectors
    arrays = numbers(func)
    made = build(scheduled(func)[1], f"{TARGET} -check=races,uninitialised", cache=cache)(*arrays)
    np.testing.assert_array_equal(made, reference(func, *arrays)[0].astype("float32"))


@pytest.mark.parametrize("batches", [8, 64, 30])
def test_batches_that_lie_side_by_side_take_about_as_long(batches, cache):
    """Lanes have those of a sector, and threads a tile of one: tiles of all of them took four times
    as long. What they fetch is too much for registers, so that copies do not run ahead: steps of 16
    terms have fewer waits and transactions than ones of 4, and 8% more wavefronts."""
    func = program(ops.batch_matmul, (batches, 256, 64), (batches, 64, 256))
    small = program(ops.batch_matmul, (batches, 70, 9), (batches, 9, 65))
    names = ("permuted reversed", "permuted first last")
    plain, arrays = planned(func).cycles, numbers(small)
    for form in (form for form in forms_of(func, ("permuted",)) if form.name in names):
        assert planned(form.func).cycles <= 1.3 * plain, form.name
    for form in (form for form in forms_of(small, ("permuted",)) if form.name in names):
        plans, sch = scheduled(form.func)
        assert plans == ["product"]
        kernel = build(sch, f"{TARGET} -check=races,uninitialised", cache=cache)
        (found,) = restored(form, small, [kernel(*given(form, small, arrays))])
        np.testing.assert_array_equal(found, expected(form, small, arrays)[0])


def test_few_batches_that_lie_side_by_side_share_what_they_read():
    func = program(ops.batch_matmul, (8, 256, 64), (8, 64, 256))
    (form,) = (f for f in forms_of(func, ("permuted",)) if f.name == "permuted reversed")
    (plan,) = choose(form.func, DEVICE, None, ()).sketch.plans
    assert len(plan.chosen.plan.shared) == 2


def stencil(x):
    return te.compute((510, 510), lambda i, j: x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j])


AROUND = {
    "concatenation": (joined(256, 512), ["chain"]),
    "stencil": (program(stencil, (512, 512)), ["rows", "rows"]),
    "running sums": (program(ops.cumsum, (512, 1024)), ["rows", "scan", "rows"]),
}  # fmt: skip


@pytest.mark.parametrize("name", AROUND)
def test_reductions_have_their_rule_whatever_they_read(name):
    func, expected = AROUND[name]
    (form,) = forms_of(func, ("embedded",))
    assert scheduled(form.func)[0] == expected


def test_batches_of_any_size_have_the_plan_of_the_plain_program():
    func = program(
        lambda x, w: ops.conv2d_transpose(x, w, stride=2, padding=1),
        (8, 64, 28, 28), (64, 32, 4, 4),
    )  # fmt: skip
    (form,) = forms_of(func, ("symbolic",))
    assert scheduled(form.func)[0] == ["product"]


SYMBOLIC = {
    "product": program(ops.matmul, (256, 1024), (1024, 512)),
    "long sums": program(ops.matmul, (256, 16384), (16384, 64)),
    "row sums": program(lambda x: ops.sum(x, (1,)), (256, 1024)),
    "softmax": program(lambda x: ops.softmax(x), (256, 1024)),
    "running sums": program(ops.cumsum, (256, 1024)),
    "pooling": program(lambda x: ops.max_pool2d(x, 3, stride=2), (256, 4, 17, 17)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SYMBOLIC)
def test_a_symbolic_size_counts_as_the_usual_one(name):
    func = SYMBOLIC[name]
    (form,) = forms_of(func, ("symbolic",))
    found, usual = planned(form.func), planned(func)
    assert found.plans == usual.plans
    assert found.cycles == pytest.approx(usual.cycles, rel=MORE - 1)


def stage(shape, made, value) -> PrimFunc:
    a = te.placeholder(shape, name="a")
    return te.create_prim_func([a, te.compute(made, lambda *at: value(a, *at), name="out")])


TURNED = {
    "one axis": stage((35, 50), (1750,), lambda a, v: a[v % 35, v // 35]),
    "units": stage((35, 1, 50), (1, 50, 35, 1), lambda a, w, i, j, u: a[j, w, i]),
    "two in one": stage((35, 64), (8, 280), lambda a, i, v: a[v % 35, i * 8 + v // 35]),
    "split": stage((64, 50), (50, 8, 8), lambda a, i, o, j: a[o * 8 + j, i]),
    "read in parts": stage((7, 9, 50), (50, 63), lambda a, i, j: a[j // 9, j % 9, i]),
    "rows of any length": stage(
        (2, 36, 7, 11), (2, 7, 11, 36), lambda a, n, h, w, c: a[n, c, h, w]
    ),
    "depth to space": program(lambda x: ops.depth_to_space(x, 2), (2, 8, 9, 10)),
    "space to depth": program(lambda x: ops.space_to_depth(x, 2), (2, 3, 10, 22)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TURNED)
def test_what_is_turned_goes_through_shared_memory_however_it_is_written(name, cache):
    func = TURNED[name]
    plans, sch = scheduled(func)
    assert set(plans) <= {"turned", "boxes"}
    given = numbers(func)
    kernel = build(sch, f"{TARGET} -check=races,uninitialised", cache=cache)
    np.testing.assert_array_equal(kernel(*given), reference(func, *given)[0])


CHAIN = ("split last, inputs too", "split reduce", "fused output")
SMALL = {
    "relu": (program(lambda x: ops.relu(x), (24, 40)), "elementwise", ("split last",)),
    "transpose": (
        program(lambda x: ops.transpose(x, (1, 0)), (24, 40)), "turned", ("split last, inputs too",)
    ),
    "permutation": (
        program(lambda x: ops.transpose(x, (2, 0, 1)), (6, 10, 14)), "boxes", ("fused output",)
    ),
    "concatenation": (joined(24, 40), "turned", ("permuted reversed",)),
    "concatenation with units": (
        program(lambda x, y: ops.concat([x, y], 0), (45, 40, 1, 1), (7, 40, 1, 1)),
        "turned", ("permuted reversed",),
    ),
    "image of twice the size": (
        enlarged(2, 3, 20, 24), "turned", ("permuted reversed", "permuted last first"),
    ),
    "rows at places": (taken(5, 32, 7), "elementwise", ("fused output", "unit last")),
    "row sums": (program(lambda x: ops.sum(x, (1,)), (12, 40)), "rows", ("split reduce",)),
    "column sums": (
        program(lambda x: ops.sum(x, (0,)), (40, 12)), "columns", ("split last, inputs too",)
    ),
    "means of few columns": (
        program(lambda x: ops.mean(x, (2, 3)), (2, 5, 3, 31, 7)), "columns",
        ("permuted first last, intermediates too",),
    ),
    "sums of several axes": (
        program(lambda x: ops.sum(x, (0, 2, 3)), (2, 5, 6, 7)), "rows", ("reduce axes rotated",)
    ),
    "softmax": (program(lambda x: ops.softmax(x), (6, 48)), "chain", CHAIN),
    "softmax along": (program(lambda x: ops.softmax(x, 1), (3, 40, 5)), "chain", CHAIN),
    "softmax of columns": (program(lambda x: ops.softmax(x, 0), (40, 6)), "chain", CHAIN),
    "layer norm": (
        program(ops.layer_norm, (6, 48), (48,), (48,)), "chain", (*CHAIN, "permuted reversed"),
    ),
    "softmax of parts": (
        program(lambda x: ops.softmax(x), (3, 9, 50)), "chain",
        ("permuted reversed", "permuted last first"),
    ),
    "softmax of matrices": (
        program(lambda x: ops.softmax(x), (2, 3, 16, 40)), "chain",
        ("permuted reversed", "permuted first last", "permuted last first"),
    ),
    "softmax of one row": (
        program(lambda x: ops.softmax(x), (514,)), "chain",
        ("split reduce, inputs too", "split reduce", "split last"),
    ),
    "softmax of rows too long for a warp": (
        program(lambda x: ops.softmax(x), (17, 1100)), "chain", ("permuted reversed",),
    ),
    "group norm": (
        program(lambda x, a, b: ops.group_norm(x, a, b, 4), (2, 8, 5, 6), (8,), (8,)),
        "chain", ("reduce axes rotated", "permuted first last"),
    ),
    "running sums": (
        program(ops.cumsum, (3, 100)), "scan", ("split last", "unit first", "unit last"),
    ),
    "running sums of one row": (program(ops.cumsum, (100,)), "scan", ("unit first",)),
    "product": (
        program(ops.matmul, (24, 16), (16, 40)), "product", ("split last", "scaled by row"),
    ),
    "convolution": (
        convolution(2, 4, 10, 3, 1), "product", ("fused output", "scaled by column"),
    ),
    "convolution, one tap": (convolution(2, 8, 12, 1, 0), "product", ("split last",)),
    "depthwise": (depthwise(2, 4, 12), "windows", ("split last", "scaled by row")),
    "depthwise, channels last": (
        program(
            lambda x, w: ops.depthwise_conv2d(x, w, padding=1, layout="NHWC"),
            (2, 7, 6, 8), (3, 3, 1, 8),
        ), "windows", ("split last",),
    ),
    "pooling": (
        program(lambda x: ops.max_pool2d(x, 3, stride=2), (2, 3, 17, 17)),
        "windows", ("fused output",),
    ),
}  # fmt: skip
"""Of each family a program, its plan, and forms of it, which are all there."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SMALL)
def test_forms_compute_what_the_plain_program_does(name, cache):
    func, plan, names = SMALL[name]
    forms = [form for form in forms_of(func, (*ALL, *ORDERS, "scaled")) if form.name in names]
    assert {form.name for form in forms} == {*names}
    arrays = numbers(func)
    for form in forms:
        plans, sch = scheduled(form.func)
        assert plans == [plan], form.name
        kernel = build(sch, f"{TARGET} -check=races,uninitialised", cache=cache)
        (found,) = restored(form, func, [kernel(*given(form, func, arrays))])
        (wanted,) = expected(form, func, arrays)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=form.name)


def test_rows_of_several_variables_are_filled_up_to_tiles():
    """Where tiles end behind them, and operands have them as one: else each term of a sum is asked
    whether it is of the result, and what threads hold of operands is read again."""
    func = program(ops.matmul, (2007, 11), (11, 1007))
    form = next(form for form in forms_of(func, ("split",)) if form.name == "split last")
    plain, split = planned(func), planned(form.func)
    assert split.cycles <= MORE * plain.cycles
    assert sum(work.other for work in split.works) <= MORE * sum(work.other for work in plain.works)


def test_axes_of_one_value_that_stay_are_told():
    x = te.placeholder((64, 512), name="x")
    k = te.reduce_axis(512, name="k")
    sums = te.compute((64,), lambda i: te.sum(x[i, k], axis=k), name="sums")
    out = te.compute((64, 1), lambda i, u: sums[i] * 2.0, name="out")
    sch = Schedule(te.create_prim_func([x, out]))
    sch.split(sch.get_loops("out")[0], [None, 4])
    (plan,) = reduction_plans(sch, Group("sums", "out"), DEVICE)
    ((what, why),) = plan.refused.items()
    assert what == "'out' without axes of one value"
    assert "not alone in loops of its own" in why


def test_states_that_stay_are_told():
    sch = Schedule(program(ops.cumsum, (8, 64)))
    sch.storage_align("step", "running", 0, 32, 0)
    assert rows_of_scans(sch)["step"].keys() == {"states of 'step' row by row"}
