"""tensorized_matmul: right for every size, in registers, and nothing half done when refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backends import build, resolve
from schedule import Schedule, ScheduleError, Trace, tensorized_matmul
from schedule.library.tensorized_tile import block_tiles, dot_tile
from tensorir import find_intrin, interpret, ops, reference, te

KINDS = {
    "u8i8.dot_16x4": ("uint8", "int8", "int32"),
    "i8i8.dot_16x4": ("int8", "int8", "int32"),
    "i8i8.dot_8x4": ("int8", "int8", "int32"),
    "i8i8.dot_4x4": ("int8", "int8", "int32"),
    "i16i16.dot_16x2": ("int16", "int16", "int32"),
    "i16i16.dot_8x2": ("int16", "int16", "int32"),
    "bf16.dot_16x2": ("bfloat16", "bfloat16", "float32"),
}
CASES = [
    ("u8i8.dot_16x4", (1, 1, 1), False),
    ("u8i8.dot_16x4", (7, 112, 33), True),
    ("u8i8.dot_16x4", (29, 64, 31), False),
    ("i8i8.dot_16x4", (13, 17, 4), False),
    ("i8i8.dot_8x4", (7, 33, 5), True),
    ("i8i8.dot_4x4", (7, 17, 4), False),
    ("i16i16.dot_16x2", (13, 33, 37), True),
    ("i16i16.dot_8x2", (7, 33, 5), False),
    ("bf16.dot_16x2", (7, 112, 33), False),
    ("bf16.dot_16x2", (13, 17, 1), True),
]
SAPPHIRE = "c -march=sapphirerapids"


def product(m, n, k, kinds, by_columns=False):
    a = te.placeholder((m, k), kinds[0], name="A")
    b = te.placeholder((n, k) if by_columns else (k, n), kinds[1], name="B")
    r = te.reduce_axis(k, name="k")

    def term(i, j):
        other = b[j, r] if by_columns else b[r, j]
        return a[i, r].astype(kinds[2]) * other.astype(kinds[2])

    c = te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=r), name="C")
    return te.create_prim_func([a, b, c], name="product")


def operands(func, seed=0):
    """All values of the integers; small whole numbers as bfloat16, whose sums are exact."""
    rng = np.random.default_rng(seed)
    found = []
    for param in func.inputs:
        if param.dtype == "bfloat16":
            whole = rng.integers(-9, 10, param.const_shape).astype(np.float32)
            found.append((whole.view(np.uint32) >> 16).astype(np.uint16))
        else:
            limits = np.iinfo(param.dtype)
            shape, dtype = param.const_shape, param.dtype
            found.append(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    return found


def here(intrinsic):
    return find_intrin(intrinsic).runs_on(resolve("c").features)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("intrinsic", "sizes", "by_columns"), CASES)
def test_every_size(intrinsic, sizes, by_columns):
    sch = Schedule(product(*sizes, KINDS[intrinsic], by_columns))
    tensorized_matmul(sch, "C", intrinsic)
    inputs = operands(sch.definition)
    wanted = reference(sch.definition, *inputs)[0]
    kernel = build(sch, "c -threads=2")
    np.testing.assert_array_equal(kernel(*inputs), wanted)
    assert "no longer" not in kernel.source
    if here(intrinsic):
        assert f"tensor_{re.sub('[.]', '_', intrinsic)}(" in kernel.source
    if sizes[0] < 10:
        np.testing.assert_array_equal(interpret(sch.func, *inputs)[0], wanted)


def test_golden(golden):
    sch = Schedule(product(29, 64, 31, KINDS["u8i8.dot_16x4"]))
    made = tensorized_matmul(sch, "C", "u8i8.dot_16x4")
    golden(str(sch.func), "int8")
    assert made.result == "C_local" and sch.get_loops(made.result)[0] == made.loop
    assert made.packed == "B_pad_global"
    again = Schedule(sch.definition).apply(Trace.from_json(sch.trace.dumps()))
    assert str(again.func) == str(sch.func)


def test_numerics():
    sch = Schedule(product(6, 64, 8, KINDS["u8i8.dot_16x4"]))
    tensorized_matmul(sch, "C", "u8i8.dot_16x4")
    assert sch.numerics == "bitwise"
    sch = Schedule(product(6, 64, 8, KINDS["bf16.dot_16x2"]))
    tensorized_matmul(sch, "C", "bf16.dot_16x2")
    assert sch.numerics == "mixed"


@pytest.mark.parametrize(
    ("intrinsic", "instruction"),
    [
        ("u8i8.dot_16x4", "vpdpbusd"),
        ("i16i16.dot_16x2", "vpdpwssd"),
        ("bf16.dot_16x2", "vdpbf16ps"),
    ],
)
def test_sums_stay_in_registers(intrinsic, instruction):
    """The loop over k stores nothing: 24 products, the operands, and the loop's own counting."""
    sch = Schedule(product(48, 64, 64, KINDS[intrinsic]))
    tensorized_matmul(sch, "C", intrinsic)
    lines = build(sch, f"{SAPPHIRE} -threads=1").asm.splitlines()
    at = [i for i, line in enumerate(lines) if line.strip().startswith(instruction)]
    assert len(at) == 24
    start = max(i for i in range(at[0]) if lines[i].startswith(".L"))
    body = [line.strip() for line in lines[start + 1 : at[-1] + 4]]
    stores = [line for line in body if re.match(r"vmov\w+\s+%zmm\d+, .*\(", line)]
    copies = [line for line in body if re.match(r"vmov\w+\s+%zmm\d+, %zmm", line)]
    assert not stores and len(copies) <= 4, body  # a few copies are renamed, and cost nothing


def test_tiles():
    assert dot_tile(16, 1024) == (6, 64)
    assert dot_tile(16, 33 * 16) == (8, 48)
    assert dot_tile(16, 17) == (12, 32)
    assert dot_tile(16, 1) == (24, 16)
    assert dot_tile(16, None) == (6, 64)
    assert dot_tile(4, 1024) == (6, 16)
    assert dot_tile(16, 1024, rows=4, columns=96) == (4, 96)
    assert dot_tile(16, 1024, height=1) == (1, 256), "more columns for few rows"
    assert dot_tile(16, 1024, height=49)[0] == 5, "ten tiles of five rows, the last of four"
    assert dot_tile(16, 96, divide=True)[1] in (16, 32, 48), "no tile of 64"
    assert dot_tile(8, 1024, height=2) == (2, 32)
    assert block_tiles(1024, 6) == 19, "171 tiles in 9 equal blocks"
    assert block_tiles(5, 6) == 1
    assert block_tiles(None, 6) == 24
    for rows in range(1, 700):
        count = block_tiles(rows, 6)
        assert count <= 24 and (count >= 11 or count * 6 >= rows)


REFUSED = [
    ("C", "u8i8.dot_9x9", {}, "intrinsic 'u8i8.dot_9x9' is not known; those of products are"),
    ("C", "f32.fma_16", {}, "intrinsic 'f32.fma_16' is none of products"),
    ("C", "i8.pack_4x16", {}, "intrinsic 'i8.pack_4x16' is none of products"),
    ("C", "u8i8.dot_16x4", {"columns": 24}, "6 rows and 24 columns are no tile"),
    ("C", "u8i8.dot_16x4", {"columns": 0}, "6 rows and 0 columns are no tile"),
    ("C", "u8i8.dot_16x4", {"rows": 0}, "0 rows and 64 columns are no tile"),
    ("C", "u8i8.dot_16x4", {"tiles": -1}, "-1 tiles are no block of rows; use 1 or more"),
    ("C", "u8i8.dot_16x4", {"pack": "there"}, "pack='there' is not one of root, panel, block"),
    ("C", "u8i8.dot_16x4", {"epilogue": "E"}, "epilogue 'E' is not what alone reads block 'C'"),
    (
        "C",
        "bf16.dot_16x2",
        {},
        "multiplies bfloat16 and bfloat16 into float32, and block 'C' uint8 and",
    ),
    ("D", "u8i8.dot_16x4", {}, "there is no block 'D'"),
]


@pytest.mark.parametrize(("block", "intrinsic", "options", "message"), REFUSED)
def test_refusals_leave_the_schedule_alone(block, intrinsic, options, message):
    sch = Schedule(product(48, 64, 64, KINDS["u8i8.dot_16x4"]))
    before = sch.func
    if "columns" in options:
        options = {"rows": 6, **options}
    with pytest.raises(ScheduleError, match=message):
        tensorized_matmul(sch, block, intrinsic, **options)
    assert sch.func is before and len(sch.trace) == 0


def test_refuses_other_blocks(chain):
    sch = Schedule(chain())
    with pytest.raises(ScheduleError, match="block .B. is no product of two matrices"):
        tensorized_matmul(sch, "B", "u8i8.dot_16x4")
    sch = Schedule(product(48, 64, 64, KINDS["u8i8.dot_16x4"]))
    sch.split("i", [None, 8])
    with pytest.raises(ScheduleError, match="the loops of block 'C' were changed before"):
        tensorized_matmul(sch, "C", "u8i8.dot_16x4")
    a = te.placeholder((8, 16), "uint8", name="A")
    r = te.reduce_axis(16, name="k")
    c = te.compute((8,), lambda i: te.sum(a[i, r].astype("int32"), axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, c], name="rows"))
    with pytest.raises(ScheduleError, match="block 'C' is no product of two matrices"):
        tensorized_matmul(sch, "C", "u8i8.dot_16x4")


@pytest.mark.parametrize(
    ("sizes", "loop"), [((0, 64, 8), "i"), ((8, 0, 8), "j"), ((8, 64, 0), "k")]
)
def test_refuses_empty_products(sizes, loop):
    sch = Schedule(product(*sizes, KINDS["u8i8.dot_16x4"]))
    with pytest.raises(ScheduleError, match=f"loop {loop!r} has no iterations"):
        tensorized_matmul(sch, "C", "u8i8.dot_16x4")


def test_refuses_a_square():
    a = te.placeholder((32, 8), "int8", name="A")
    r = te.reduce_axis(8, name="k")

    def term(i, j):
        return a[i, r].astype("int32") * a[j, r].astype("int32")

    c = te.compute((32, 32), lambda i, j: te.sum(term(i, j), axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, c], name="square"))
    with pytest.raises(ScheduleError, match="block 'C' multiplies 'A' with itself"):
        tensorized_matmul(sch, "C", "i8i8.dot_16x4")


def test_symbolic_rows():
    sch = Schedule(product(te.var("n"), 17, 5, KINDS["u8i8.dot_16x4"]))
    tensorized_matmul(sch, "C", "u8i8.dot_16x4")
    kernel = build(sch)
    assert "no longer" not in kernel.source
    rng = np.random.default_rng(0)
    b = rng.integers(-128, 128, (5, 17), np.int8)
    for rows in (0, 1, 23, 150):
        a = rng.integers(0, 256, (rows, 5), np.uint8)
        np.testing.assert_array_equal(kernel(a, b), a.astype(np.int32) @ b.astype(np.int32))


def test_an_epilogue_follows():
    """The block that writes the result can take what is done with it."""
    a = te.placeholder((13, 20), "uint8", name="A")
    b = te.placeholder((20, 64), "int8", name="B")
    r = te.reduce_axis(20, name="k")
    c = te.compute(
        (13, 64),
        lambda i, j: te.sum(a[i, r].astype("int32") * b[r, j].astype("int32"), axis=r),
        name="C",
    )
    d = te.compute((13, 64), lambda i, j: c[i, j].astype("float32") * 0.25, name="D")
    sch = Schedule(te.create_prim_func([a, b, d], name="scaled"))
    made = tensorized_matmul(sch, "C", "u8i8.dot_16x4")
    sch.reverse_compute_inline("D")
    assert made.result in sch.get_blocks() or "D" in sch.get_blocks()
    inputs = operands(sch.definition)
    np.testing.assert_array_equal(build(sch)(*inputs), reference(sch.definition, *inputs)[0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("pack", ["root", "panel", "block"])
@pytest.mark.parametrize("sizes", [(5, 48, 64), (3, 16, 1300), (13, 130, 67)])
def test_every_place_to_pack(pack, sizes, by_columns):
    """Terms that are contiguous are transposed 16 groups at a time, and those left over apart."""
    sch = Schedule(product(*sizes, KINDS["u8i8.dot_16x4"], by_columns))
    made = tensorized_matmul(sch, "C", "u8i8.dot_16x4", pack=pack, tiles=1, columns=16)
    at_root = sch.get_loops(made.packed)[0] != made.loop
    assert at_root == (pack == "root")
    assert ("i8.transpose_16x16x4" in str(sch.func)) == by_columns
    inputs = operands(sch.definition)
    kernel = build(sch, "c -threads=2")
    assert "no longer" not in kernel.source
    np.testing.assert_array_equal(kernel(*inputs), reference(sch.definition, *inputs)[0])


def test_serial():
    sch = Schedule(product(70, 96, 64, KINDS["u8i8.dot_16x4"]))
    tensorized_matmul(sch, "C", "u8i8.dot_16x4", parallel=False)
    assert "parallel" not in str(sch.func)


def scaled(rows, columns):
    a, b = te.placeholder((rows, 20), "uint8", name="A"), te.placeholder((20, columns), "int8", "B")
    r = te.reduce_axis(20, name="k")
    c = te.compute(
        (rows, columns),
        lambda i, j: te.sum(a[i, r].astype("int32") * b[r, j].astype("int32"), axis=r),
        name="C",
    )
    d = te.compute((rows, columns), lambda i, j: c[i, j].astype("float32") * 0.25, name="D")
    return te.create_prim_func([a, b, d], name="scaled")


@pytest.mark.parametrize("columns", [64, 33])
def test_epilogue_by_tiles(columns):
    sch = Schedule(scaled(13, columns))
    made = tensorized_matmul(sch, "C", "u8i8.dot_16x4", epilogue="D")
    assert made.result == "D" and sch.get_loops("D")[0] == made.loop
    inputs = operands(sch.definition)
    np.testing.assert_array_equal(build(sch)(*inputs), reference(sch.definition, *inputs)[0])


def test_what_cannot_be_padded():
    """A convolution reads at sums of variables: its channels have to divide."""
    x = te.placeholder((1, 6, 6, 6), "uint8", name="X")
    w = te.placeholder((3, 3, 6, 16), "int8", name="W")
    out = ops.conv2d(x, w, layout="NHWC", name="C")
    sch = Schedule(te.create_prim_func([x, w, out], name="conv"))
    with pytest.raises(ScheduleError, match="loop '.*' has 6 iterations, no multiple of 4"):
        tensorized_matmul(sch, "C", "u8i8.dot_16x4")
    assert len(sch.trace) == 0


@pytest.mark.parametrize(("terms", "steps"), [(1000, [500, 2]), (1024, [32, 16, 2])])
def test_blocks_of_terms_that_are_turned_are_whole_squares(terms, steps):
    """Else most of their terms would be moved one by one: 500 steps have blocks of 10 alone."""
    sch = Schedule(product(1, 384, terms, KINDS["bf16.dot_16x2"], by_columns=True))
    tensorized_matmul(sch, "C", "bf16.dot_16x2", columns=384, pack="block")
    loops = [loop for loop in sch.get_loops("C") if loop.startswith("k")]
    assert [sch.state.loop(loop).const_extent for loop in loops] == steps
