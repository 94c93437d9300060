"""Other algorithms as sketches of one operator: who gets them, and that they compute the same."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from autotune import Database, default_schedule, search_space, tune
from autotune.rules import default_candidate, default_candidates, make_space
from autotune.rules.alternatives import first_start, with_algorithm
from autotune.rules.generate import sketches_of
from autotune.space import Candidate
from autotune.winograd import winograd_plans
from backends import build, resolve
from schedule import Schedule, Trace, library
from tensorir import device_of, ops, parse, reference, te
from tests.brief import BRIEF

TARGET = "c -vector_bits=128 -threads=2"


@cache
def conv(n=1, c=8, o=8, size=8, stride=1, activation="relu"):
    x = te.placeholder((n, c, size, size), name="x")
    w = te.placeholder((o, c, 3, 3), name="w")
    bias = te.placeholder((o,), name="bias")
    out = ops.conv2d(x, w, bias, stride, 1, activation=activation, name="out")
    return te.create_prim_func([x, w, bias, out], name="layer")


@cache
def space_of(func, numerics):
    return make_space(func, device_of(resolve(TARGET)), numerics)


def test_im2col_is_another_start_for_the_rules():
    space = space_of(conv(stride=2), "reassociated")
    found = [name for name in space.sketches if name.startswith("im2col(conv):")]
    assert any("conv_product:contraction" in name for name in found)
    assert not any(name.startswith("im2col") for name in space_of(conv(), "bitwise").sketches)


def others(func, numerics="algebraic"):
    return [name for name in space_of(func, numerics).sketches if name.startswith("winograd")]


@pytest.mark.parametrize("size, activation", [(5, None), (5, "silu"), (8, "relu")])
def test_winograd_is_another_start(activation, size):
    func = conv(size=size, activation=activation)
    space = space_of(func, "algebraic")
    names = others(func)
    assert len(names) == 4 and all(name.endswith("(conv):conv_products:winograd") for name in names)
    rng = np.random.default_rng(0)
    arrays = [rng.random(p.const_shape, np.float32) - 0.5 for p in func.inputs]
    (wanted,) = reference(func, *arrays)
    for name in names[size % 2 :: 2]:
        schedule = space.build(Candidate(name, space.sketches[name].default()))
        assert schedule.numerics == "algebraic"
        if activation == "relu":
            replayed = Schedule(func).apply(Trace.from_json(schedule.trace.dumps()))
            assert str(replayed.func) == str(schedule.func)
        found = build(schedule, TARGET)(*arrays)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5)


def channels_last(n=1, c=8, o=8, size=8):
    x = te.placeholder((n, size, size, c), name="x")
    w = te.placeholder((3, 3, c, o), name="w")
    out = ops.conv2d(x, w, padding=1, layout="NHWC", name="out")
    return te.create_prim_func([x, w, out], name="layer")


def test_winograd_for_channels_last_and_any_batch():
    func = channels_last(te.var("n"), size=5)
    names = others(func)
    assert len(names) == 4 and all(name.endswith("(out):out_products:winograd") for name in names)
    rng = np.random.default_rng(0)
    arrays = [rng.random(s, np.float32) - 0.5 for s in ((3, 5, 5, 8), (3, 3, 8, 8))]
    (wanted,) = reference(func, *arrays)
    space = space_of(func, "algebraic")
    found = build(space.build(Candidate(names[0], space.sketches[names[0]].default())), TARGET)
    np.testing.assert_allclose(found(*arrays), wanted, rtol=0, atol=2e-5)


def test_the_split_of_the_work_is_open():
    func = conv(c=32, o=64, size=16)
    space = space_of(func, "algebraic")
    sketch = space.sketches[others(func)[0]]
    task, tile = sketch.choices
    assert len(task.options) > 2 and len(tile.options) > 2
    first = Schedule(func)
    first.use_algorithm("conv", "winograd_4x4")
    first.reverse_compute_inline("out")
    found = library.find_winograd(first, "conv_products")
    (_, plan), *_ = winograd_plans(found, device_of(resolve(TARGET)))
    library.make_winograd(first, found, plan)
    values = sketch.decisions(sketch.default())
    task_of, tile_of = "conv_products.task", "conv_products.tile"
    assert values == {task_of: (plan.rows, plan.shares), tile_of: (plan.tiles, plan.panel)}
    assert str(sketch.build(values).func) == str(first.func)
    rng = np.random.default_rng(0)
    arrays = [rng.random(p.const_shape, np.float32) - 0.5 for p in func.inputs]
    (wanted,) = reference(func, *arrays)
    for last in ({task_of: task.options[-1]}, {tile_of: tile.options[-1]}):
        schedule = sketch.build({**values, **last})
        assert str(schedule.func) != str(first.func)
        np.testing.assert_allclose(build(schedule, TARGET)(*arrays), wanted, rtol=0, atol=2e-5)


def test_what_does_not_become_part_of_it_is_told():
    """A stage that reads neighbours of the result stays by itself; a reduction is none to join."""
    x, w = te.placeholder((1, 8, 8, 8), name="x"), te.placeholder((8, 8, 3, 3), name="w")
    made = ops.conv2d(x, w, padding=1, name="conv")
    edges = te.compute((1, 8, 8, 7), lambda n, c, y, x: made[n, c, y, x + 1] - made[n, c, y, x])
    peaks = ops.max_pool2d(made, 2, name="peaks")
    for last, told in ((edges, True), (peaks, False)):
        first = first_start(te.create_prim_func([x, w, last], name="layer"), "algebraic")
        start = with_algorithm(first, "conv", "winograd_4x4")
        assert bool(start.refused) == told
        (sketch, *_) = sketches_of(start, device_of(resolve(TARGET)), "algebraic")
        assert any("in 'conv" in note for note in sketch.notes()) == told


def test_only_where_it_is_allowed_and_fits():
    assert not others(conv(), "reassociated") and not others(conv(), "bitwise")
    assert others(conv(), "mixed")
    assert not others(conv(stride=2)) and not others(conv(c=3))


def test_the_default_is_no_other_algorithm_unless_it_is_asked_for():
    """What a schedule means to its user does not change without being asked for."""
    assert "use_algorithm" not in str(default_schedule(conv(), TARGET).trace.as_python())


def test_a_search_tries_them_and_believes_them(tmp_path):
    func = conv()
    database = Database(tmp_path / "t.db")
    result = tune(func, TARGET, 8, database=database, settings=BRIEF, constants=("w",))
    records = database.records()
    tried = {r.sketch for r in records if r.sketch.startswith("winograd")}
    assert len(tried) == 4, "the first batch holds one candidate of each algorithm"
    for record in records:
        assert record.status in ("ok", "pruned"), record.error
        assert (record.numerics == "algebraic") == (record.sketch in tried)
    rng = np.random.default_rng(0)
    x, w, bias = (rng.random(p.const_shape, np.float32) for p in func.inputs)
    (wanted,) = reference(func, x, w, bias)
    found = result.build(constants={"w": w})(x, bias)
    np.testing.assert_allclose(found, wanted, rtol=2e-5)
    best = database.best(result.record.workload, result.record.target, result.record.machine_key,
                         "reassociated")  # fmt: skip
    assert best is not None and best.sketch not in tried
    database.close()


def test_a_search_does_without_where_it_is_not_allowed(pretended, tmp_path):
    with Database(tmp_path / "t.db") as database:
        tune(conv(), TARGET, 3, database=database, settings=BRIEF, numerics="reassociated")
        assert not any(r.sketch.startswith("winograd") for r in database.records())


def rows(op, **options):
    x = te.placeholder((6, 40), name="x")
    return te.create_prim_func([x, op(x, name="y", **options)], name="rows")


def test_an_algorithm_that_changes_nothing_is_the_default():
    func = rows(ops.argmax, axis=1)
    for numerics in ("bitwise", "reassociated", "algebraic"):
        candidate = default_candidate(space_of(func, numerics))
        assert candidate.sketch.startswith("two_pass_argmax(y)")
    x = np.random.default_rng(0).integers(0, 9, (6, 40)).astype(np.float32)
    schedule = default_schedule(func, TARGET)
    assert schedule.numerics == "bitwise"
    np.testing.assert_array_equal(build(schedule, TARGET)(x), x.argmax(1))


def test_two_blocks_use_it_together():
    x = te.placeholder((6, 40), name="x")
    func = te.create_prim_func([x, ops.argmax(x, 1, name="a"), ops.argmin(x, 1, name="b")])
    steps = str(default_schedule(func, TARGET).trace.as_python())
    assert "two_pass_argmax" in steps and "two_pass_argmin" in steps


@pytest.mark.parametrize(
    "func, name",
    [
        (rows(ops.softmax, algorithm="online"), "two_pass_normalizer(normalizer)"),
        (rows(ops.layer_norm, algorithm="welford"), "two_pass_moments(moments)"),
    ],
)
def test_tuples_get_two_passes_in_lanes(func, name):
    space = space_of(func, "algebraic")
    found = [s for s in space.sketches if s.startswith(name)]
    assert found and default_candidate(space).sketch in found  # one step waits for the other
    x = np.random.default_rng(0).random((6, 40), np.float32)
    (wanted,) = reference(func, x)
    schedule = space.build(next(c for c in default_candidates(space) if c.sketch == found[0]))
    assert schedule.numerics == "algebraic" and "_rf" in str(schedule.func)
    np.testing.assert_allclose(build(schedule, TARGET)(x), wanted, rtol=1e-5, atol=1e-6)


def test_sums_that_stay_where_they_are_stored_are_told_of():
    """They are added to what the caller gave, elsewhere than at a variable."""
    func = parse(
        """
@prim_func
def apart(A: f32[40, 70], C: f32[80]):
    for i, k in grid(40, 70):
        with block("C"):
            vi = spatial(40, i)
            vk = reduce(70, k)
            C[vi * 2] = C[vi * 2] + A[vi, vk]
"""
    )
    told = first_start(func, "reassociated").refused["C"]
    assert told == {"'C' at its variables": "block 'C' updates what is in 'C' before"}
    assert "'C' at its variables: block 'C' updates" in str(search_space(func, TARGET).describe())
