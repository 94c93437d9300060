"""Products by tiles: which programs get them, in which form, and that they are right."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import default_candidate, make_space
from autotune.rules.defaults import choose
from autotune.space import Candidate
from backends import build, resolve
from schedule import Schedule
from tensorir import Target, device_of, find_intrin, ops, te
from tests.autotune.test_rules_tensorized import (
    BF16,
    FEATURES,
    check,
    conv,
    inputs_of,
    product,
    requantized,
    written,
)

TILES = device_of(
    Target(vector_bits=512, threads=2, features=(*FEATURES, "amx_bf16", "amx_int8", "amx_tile"))
)
"""The rules see this one; a machine that lacks the instructions runs the loops."""


def typed(*types):
    return product(ops.matmul, (64, 64), (64, 64), types=types)


CASES = {
    "u8i8": typed("uint8", "int8"),
    "i8i8": typed("int8", "int8"),
    "i8u8": typed("int8", "uint8"),
    "u8u8": typed("uint8", "uint8"),
    "bf16": product(ops.matmul, (130, 140), (140, 48), types=BF16, out_dtype="float32"),
    "odd": product(ops.matmul, (200, 500), (500, 250)),
    "transposed b": product(ops.matmul, (50, 150), (70, 150), transpose_b=True),
    "transposed a": product(ops.matmul, (64, 40), (64, 48), transpose_a=True),
    "batch": product(ops.batch_matmul, (2, 33, 64), (2, 16, 64), transpose_b=True),
    "conv 1x1": conv((2, 6, 7, 64), (1, 1, 64, 48)),
    "conv 3x3": conv((2, 5, 7, 64), (3, 3, 64, 32), padding=1),
    "conv 3x3 s2 of 3": conv((1, 28, 28, 3), (3, 3, 3, 64), padding=1, stride=2, activation="relu"),
    "conv NCHW": product(ops.conv2d, (1, 16, 6, 7), (20, 16, 3, 3), padding=1),
    "one axis": written((576,), lambda ij: (ij // 48, ij % 48)),
    "turned relu": written((48, 12), lambda j, i: (i, j), follow=lambda x: te.maximum(x, 0)),
    "bf16 one axis": written(
        (576,), lambda ij: (ij // 48, ij % 48), BF16, lambda x: x.astype("bfloat16")
    ),
}


SMALL = ("transposed a", "batch", "conv NCHW", "one axis", "turned relu", "bf16 one axis")
"""What has too few rows, is turned on the way, or is filled up with many zeros: others are as good
or better."""


def tiled(space):
    """The candidate that needs no tuning, of the sketch with tiles."""
    sketch = next(s for s in space.sketches.values() if ":tiled" in s.name)
    return Candidate(sketch.name, sketch.default(("b",)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_tiles_are_offered_and_right(name):
    func = CASES[name]
    space = make_space(func, TILES)
    candidate = tiled(space)
    assert space.contains(candidate)
    if name not in SMALL:
        assert default_candidate(space, ("b",)).sketch == candidate.sketch
    plain = [sketch.name for sketch in space.sketches.values() if not sketch.algorithm]
    assert any(":tensorized" in sketch for sketch in plain) == (
        name not in ("i8u8", "u8u8", "transposed a", "conv 3x3 s2 of 3", "conv NCHW")
    ), "searches have dot products as well"
    sch = space.build(candidate)
    assert sch.numerics == ("mixed" if "bf16" in name else "bitwise")
    check(func, sch)
    source = build(sch, "c -march=sapphirerapids").source
    assert "_on(&" in source and "_in(&" not in source, "sums stay in tiles"


@pytest.mark.parametrize("name", ["odd", "conv 3x3", "batch"])
def test_other_candidates_are_right(name):
    func = CASES[name]
    space = make_space(func, TILES)
    sketch = next(s for s in space.sketches if ":tiled" in s)
    rng = random.Random(0)
    for candidate in [space.sample(rng, sketch) for _ in range(4)]:
        check(func, space.build(candidate))


@pytest.mark.parametrize("scale", [0.0078125, None])
def test_epilogues_follow_tile_by_tile(scale):
    func = requantized(scale)
    space = make_space(func, TILES)
    sch = space.build(tiled(space))
    check(func, sch)
    tasks = sch.get_loops(sch.get_blocks()[-1])[0]
    assert "product" in sch.get_child_blocks(tasks), "no pass over the sums of its own"


def test_thin_products_have_dot_products():
    """A single row fills a sixteenth of a tile."""
    for rows, tiled in ((1, False), (64, True)):
        space = make_space(product(ops.matmul, (rows, 256), (256, 256)), TILES)
        assert (":tiled" in default_candidate(space, ("b",)).sketch) == tiled


@pytest.mark.parametrize("name", ["u8i8", "bf16", "conv 3x3"])
def test_other_processors_keep_what_they_had(name):
    """No rule looks for tiles where there are none."""
    device = device_of(Target(vector_bits=512, threads=2, features=FEATURES))
    space = make_space(CASES[name], device)
    assert not any(":tiled" in sketch for sketch in space.sketches)


def test_by_the_text_of_a_target():
    sch = default_schedule(CASES["odd"], "c -march=sapphirerapids -threads=2", constants=("b",))
    assert "u8i8.tile_" in str(sch.func)


def test_symbolic_rows():
    func = product(ops.linear, (te.var("n"), 200), (64, 200))
    space = make_space(func, TILES)
    sch = space.build(default_candidate(space, ("b",)))
    kernel = build(sch)
    for rows in (0, 1, 7, 200):
        a, b = inputs_of(func, {"n": rows})
        np.testing.assert_array_equal(kernel(a, b), a.astype(np.int32) @ b.T.astype(np.int32))


@pytest.mark.skipif(
    not find_intrin("bf16.tile_16x16x32").runs_on(resolve("c").features),
    reason="this machine has no AMX, or its system does not let processes use it",
)
def test_subnormals_of_bfloat16():
    """What "mixed" means: 2**-130 * 2**100 counts as 0, where the definition has 2**-30."""
    func = product(ops.matmul, (64, 64), (64, 64), types=BF16, out_dtype="float32")
    a = np.full((64, 64), 1 << 3, np.uint16)  # a subnormal, 2**-130
    b = np.full((64, 64), (100 + 127) << 7, np.uint16)
    sch = default_schedule(func)
    assert "bf16.tile_" in str(sch.func)
    assert not build(sch)(a, b).any()
    kept = default_schedule(func, numerics="reassociated")
    assert "bf16.tile_" not in str(kept.func)
    np.testing.assert_array_equal(build(kept)(a, b), np.full((64, 64), 2.0**-24, np.float32))
    assert Schedule(func).numerics == "bitwise"


@pytest.mark.parametrize(("narrow", "wide"), [("bfloat16", "float32"), ("int8", "int32")])
def test_squares_are_no_product_of_two_matrices(narrow, wide):
    x, k = te.placeholder((64, 96), narrow, name="x"), te.reduce_axis(96, name="k")
    square = lambda i: te.sum(x[i, k].astype(wide) * x[i, k].astype(wide), axis=k)  # noqa: E731
    func = te.create_prim_func([x, te.compute((64,), square, name="y")])
    assert not any(":tiled" in name for name in make_space(func, TILES).sketches)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["uint8", "bfloat16"])
@pytest.mark.parametrize("parts", ["rows", "columns", "terms"])
def test_axes_in_two_variables_are_one(parts, kind):
    """Terms were taken for windows of short rows, and columns for a batch of narrow products, both
    filled up to whole tiles."""
    rows, columns, terms = 128, 96, 64
    cut = {"rows": rows, "columns": columns, "terms": terms}
    shapes = {name: (n // 16, 16) if name == parts else (n,) for name, n in cut.items()}
    other, wide = ("int8", "int32") if kind == "uint8" else (kind, "float32")
    a = te.placeholder((*shapes["rows"], *shapes["terms"]), kind, name="a")
    b = te.placeholder((*shapes["terms"], *shapes["columns"]), other, name="b")
    k = [te.reduce_axis(n) for n in shapes["terms"]]

    def sums(*at):
        i, j = at[: len(shapes["rows"])], at[len(shapes["rows"]) :]
        return te.sum(a[(*i, *k)].astype(wide) * b[(*k, *j)].astype(wide), axis=k)

    out = te.compute((*shapes["rows"], *shapes["columns"]), sums, name="out")
    func = te.create_prim_func([a, b, out])
    plain = product(
        ops.matmul, (rows, terms), (terms, columns), types=(kind, other), out_dtype=wide
    )
    (found,) = choose(func, TILES, "mixed", ("b",)).sketch.plans
    (whole,) = choose(plain, TILES, "mixed", ("b",)).sketch.plans
    assert found.name == "tiled" and (found.sizes, found.cycles) == (whole.sizes, whole.cycles)
    check(func, default_schedule(func, "c -march=sapphirerapids", ("b",), numerics="mixed"))
