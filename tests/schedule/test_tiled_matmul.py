"""Products of tiles by tensorized_matmul: right for every size and form, and nothing half done."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, ScheduleError, Trace, library
from tensorir import find_intrin, interpret, ops, reference, te
from tests.schedule.test_tensorized_matmul import SAPPHIRE, operands, product

U8I8, BF16 = ("uint8", "int8", "int32"), ("bfloat16", "bfloat16", "float32")
KINDS = {
    "i8i8": ("int8", "int8", "int32"),
    "i8u8": ("int8", "uint8", "int32"),
    "u8i8": U8I8,
    "u8u8": ("uint8", "uint8", "int32"),
    "bf16": BF16,
}
CASES = [
    ("u8i8.tile_32x32x64", (64, 64, 128), False, {"tiles": 2}),
    ("u8i8.tile_32x32x64", (61, 70, 130), True, {"tiles": 2, "turned": True}),
    ("u8i8.tile_16x64x64", (65, 130, 64), False, {"tiles": 3, "panels": 1}),
    ("i8i8.tile_16x32x64", (300, 33, 5), False, {"tiles": 4, "turned": True}),
    ("i8u8.tile_16x16x64", (16, 16, 64), True, {"tiles": 1, "pack": "panel"}),
    ("u8u8.tile_32x32x64", (1, 1, 1), False, {"tiles": 1}),
    ("bf16.tile_32x32x32", (40, 33, 70), True, {"tiles": 1, "turned": True, "pack": "panel"}),
    ("bf16.tile_16x64x32", (7, 33, 5), False, {"tiles": 1}),
]


def here(intrinsic):
    return find_intrin(intrinsic).runs_on(resolve("c").features)


def tiled(sizes, intrinsic, by_columns=False, **options):
    sch = Schedule(product(*sizes, KINDS[intrinsic.partition(".")[0]], by_columns))
    return sch, library.tensorized_matmul(sch, "C", intrinsic, **options)


@pytest.mark.parametrize(("intrinsic", "sizes", "by_columns", "options"), CASES)
def test_every_size(intrinsic, sizes, by_columns, options):
    sch, _ = tiled(sizes, intrinsic, by_columns, **options)
    inputs = operands(sch.definition)
    wanted = reference(sch.definition, *inputs)[0]
    kernel = build(sch, "c -threads=2")
    np.testing.assert_array_equal(kernel(*inputs), wanted)
    source = build(sch, f"{SAPPHIRE} -threads=2").source
    assert "no longer" not in source and "_on(&" in source and "_out(&" in source
    assert not re.search(r"_in\(&", source), "sums are not in memory on the way"
    if here(intrinsic):
        assert kernel.source == build(sch, "c -threads=2").source and "_on(&" in kernel.source
    if sizes[0] < 10:
        np.testing.assert_array_equal(interpret(sch.func, *inputs)[0], wanted)
    again = Schedule(sch.definition).apply(Trace.from_json(sch.trace.dumps()))
    assert str(again.func) == str(sch.func)


def test_parts():
    sch, made = tiled((64, 64, 128), "u8i8.tile_32x32x64", turned=True)
    assert (made.rows, made.packed, made.result) == ("A_global", "B_global", "C_local")
    assert sch.get_loops(made.result)[0] == made.loop
    assert tiled((64, 64, 128), "u8i8.tile_32x32x64")[1].rows is None


def test_numerics():
    assert tiled((64, 64, 64), "u8i8.tile_32x32x64")[0].numerics == "bitwise"
    assert tiled((64, 64, 64), "bf16.tile_32x32x32")[0].numerics == "mixed"


@pytest.mark.parametrize("intrinsic", ["u8i8.tile_32x32x64", "bf16.tile_16x64x32"])
def test_sums_stay_in_tiles(intrinsic):
    """Each sum is stored once for all terms, and never loaded."""
    sch, _ = tiled((64, 64, 256), intrinsic)
    lines = build(sch, f"{SAPPHIRE} -threads=1").asm.splitlines()
    codes = [line.split()[0] for line in lines if line.strip()]
    assert codes.count("tilestored") == codes.count("tilezero") == 4
    assert sum(code.startswith("tdp") for code in codes) == 4
    loads = codes.count("tileloadd")
    assert loads == (4 if "32x32" in intrinsic else 5), "rows and columns alone"
    assert codes.count("ldtilecfg") == codes.count("tilerelease") == 1


def conv(x, w, **options):
    a, b = te.placeholder(x, "uint8", name="A"), te.placeholder(w, "int8", name="B")
    out = ops.conv2d(a, b, layout="NHWC", name="C", **options)
    return te.create_prim_func([a, b, out], name="conv")


def turned_a():
    a, b = te.placeholder((40, 70), "uint8", name="A"), te.placeholder((40, 33), "int8", name="B")
    out = ops.matmul(a, b, transpose_a=True, name="C")
    return te.create_prim_func([a, b, out], name="turned")


FORMS = {
    "3x3": conv((2, 5, 7, 16), (3, 3, 16, 20), padding=1),
    "1x1 stride 2": conv((2, 5, 7, 16), (1, 1, 16, 20), stride=2),
    "3x3 of 3": conv((1, 9, 9, 3), (3, 3, 3, 20), padding=1, stride=2),
    "turned": turned_a(),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("turned", [False, True])
def test_matrix_form(name, turned):
    """All rows are one dimension; what makes the first matrix is computed by tasks."""
    func = FORMS[name]
    sch = Schedule(func)
    c = library.find_contraction(sch, "C", None, ())
    made = library.matrix_form(sch, c, c.spatial)
    assert made.copy is not None
    library.tensorized_matmul(
        sch, "C", "u8i8.tile_16x32x64", tiles=2, copy=made.copy, turned=turned, epilogue=made.writer
    )
    inputs = operands(func)
    kernel = build(sch, "c -threads=2")
    np.testing.assert_array_equal(kernel(*inputs), reference(func, *inputs)[0])
    assert "_on(&" in build(sch, f"{SAPPHIRE} -threads=2").source


REFUSED = [
    ("C", "u8i8.tile_9x9x9", {}, "intrinsic 'u8i8.tile_9x9x9' is not known; those of products are"),
    ("C", "u8i8.tile_32x32x64", {"rows": 16}, "a tile of 'u8i8.tile_32x32x64' has 32 rows and 32"),
    ("C", "u8i8.tile_32x32x64", {"tiles": 0}, "0 tiles are no block of rows; use 1 or more"),
    ("C", "u8i8.tile_32x32x64", {"pack": "block"}, "pack='block' is not one of root, panel"),
    ("C", "u8i8.tile_32x32x64", {"epilogue": "E"}, "epilogue 'E' is not what alone reads"),
    ("C", "bf16.tile_32x32x32", {}, "multiplies bfloat16 and bfloat16 into float32"),
    ("D", "u8i8.tile_32x32x64", {}, "there is no block 'D'"),
]


@pytest.mark.parametrize(("block", "intrinsic", "options", "message"), REFUSED)
def test_refusals_leave_the_schedule_alone(block, intrinsic, options, message):
    sch = Schedule(product(48, 64, 64, U8I8))
    before = sch.func
    with pytest.raises(ScheduleError, match=message):
        library.tensorized_matmul(sch, block, intrinsic, **options)
    assert sch.func is before and len(sch.trace) == 0


def test_windows_want_another_form():
    sch = Schedule(FORMS["3x3"])
    with pytest.raises(ScheduleError, match="read at sums of variables"):
        library.tensorized_matmul(sch, "C", "u8i8.tile_32x32x64")


@pytest.mark.skipif(
    not here("bf16.tile_16x16x32"),
    reason="this machine has no AMX, or its system does not let processes use it",
)
def test_the_order_in_which_bfloat16_is_added():
    """The first elements of all pairs one after the other, and the second ones, each product added
    with one rounding; then the two sums. Other orders give other bits for most sums."""
    sch, _ = tiled((16, 16, 32), "bf16.tile_16x16x32", tiles=1)
    kernel, rng = build(sch, "c -threads=1"), np.random.default_rng(0)
    differs = 0
    for _ in range(9):
        a, b = (
            (rng.standard_normal(s) * 2.0 ** rng.integers(-8, 8, s)).astype(np.float32)
            for s in ((16, 32), (32, 16))
        )
        a, b = (x.view(np.uint32) >> 16 for x in (a, b))
        x, y = ((v << 16).view(np.float32).astype(np.float64) for v in (a, b))
        sums = np.zeros((2, 16, 16), np.float32)
        in_order = np.zeros((16, 16), np.float32)
        for k in range(32):
            term = x[:, k, None] * y[None, k]
            sums[k % 2] = (sums[k % 2] + term).astype(np.float32)
            in_order = (in_order + term).astype(np.float32)
        found = kernel(a.astype(np.uint16), b.astype(np.uint16))
        np.testing.assert_array_equal(found, sums[0] + sums[1])
        differs += np.count_nonzero(found != in_order)
    assert differs > 500
