"""Products of small types: sketches with tensor intrinsics, what they cost in accuracy, replay."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autotune import Database, default_schedule, tune
from autotune.features.features import extract
from autotune.rules import default_candidate, make_space, sketches
from backends import build, resolve, source_text
from schedule import Schedule, Trace
from tensorir import (
    INTRINS,
    Target,
    TensorIntrin,
    TensorIRError,
    device_of,
    find_intrin,
    interpret,
    ops,
    reference,
    te,
)
from tests.brief import BRIEF

FEATURES = ("avx512bf16", "avx512bw", "avx512f", "avx512vl", "avx512vnni", "fma")
MACHINE = device_of(Target(vector_bits=512, threads=2, features=FEATURES))
"""The rules see this one; a machine that lacks the instructions runs the loops."""

PACK = ("root", "panel", "block")


def placeholders(*params):
    return [te.placeholder(shape, dtype, name=name) for name, shape, dtype in params]


def product(op, a, b, *more, types=("uint8", "int8"), **options):
    x, w = placeholders(("a", a, types[0]), ("b", b, types[1]))
    rest = placeholders(*more)
    out = op(x, w, *rest, name="out", **options)
    return te.create_prim_func([x, w, *rest, out], name="product")


def requantized(scale, **options):
    x, w, bias = placeholders(
        ("a", (2, 5, 36), "uint8"), ("b", (50, 36), "int8"), ("bias", (50,), "int32")
    )
    made = [] if isinstance(scale, float) else placeholders(("scale", (50,), "float32"))
    sums = ops.linear(x, w, bias, name="sums")
    out = ops.requantize(sums, *(made or [scale]), name="out", **options)
    return te.create_prim_func([x, w, bias, *made, out], name="requantized")


def conv(x, w, **options):
    return product(ops.conv2d, x, w, layout="NHWC", **options)


def written(shape, place, types=("uint8", "int8"), follow=None):
    """The product of 12 rows and 48 columns, by a result of `shape` at `place(i, j)`'s places."""
    a, b = placeholders(("a", (12, 40), types[0]), ("b", (40, 48), types[1]))
    k = te.reduce_axis(40, name="k")
    total = "int32" if types[0] == "uint8" else "float32"

    def terms(*at):
        i, j = place(*at)
        return te.sum(a[i, k].astype(total) * b[k, j].astype(total), axis=k)

    out = sums = te.compute(shape, terms, name="sums")
    if follow is not None:
        out = te.compute(shape, lambda *at: follow(sums[at]), name="out")
    return te.create_prim_func([a, b, out], name="product")


BF16 = ("bfloat16", "bfloat16")
INT16 = ("int16", "int16")
CASES = {
    "matmul": product(ops.matmul, (13, 40), (40, 48)),
    "one": product(ops.matmul, (1, 1), (1, 1)),
    "prime": product(ops.matmul, (7, 31), (31, 17)),
    "signed": product(ops.matmul, (13, 40), (40, 48), types=("int8", "int8")),
    "transposed b": product(ops.matmul, (5, 150), (70, 150), transpose_b=True),
    "long rows": product(ops.matmul, (3, 1100), (80, 1100), transpose_b=True),
    "batch": product(ops.batch_matmul, (3, 8, 36), (3, 36, 33)),
    "batch transposed": product(ops.batch_matmul, (2, 9, 64), (2, 16, 64), transpose_b=True),
    "broadcast": product(ops.matmul, (1, 1, 5, 32), (4, 32, 48)),
    "rank 3": product(ops.linear, (2, 9, 40), (50, 40)),
    "short last axis": product(ops.linear, (9, 1, 40), (50, 40)),
    "bias relu": product(ops.linear, (9, 40), (50, 40), ("c", (50,), "int32"), activation="relu"),
    "requantize": requantized(0.0078125),
    "requantize channels": requantized(None, zero_point=128, dtype="uint8"),
    "conv 1x1": conv((1, 5, 7, 16), (1, 1, 16, 32)),
    "conv 3x3": conv((2, 5, 7, 16), (3, 3, 16, 32), padding=1),
    "conv 3x3 s2": conv((1, 6, 7, 4), (3, 3, 4, 16), padding=1, stride=2, activation="relu"),
    "int16": product(ops.matmul, (13, 40), (40, 48), types=INT16),
    "int16 odd": product(ops.matmul, (13, 41), (37, 41), types=INT16, transpose_b=True),
    "bf16": product(ops.matmul, (13, 40), (40, 48), types=BF16, out_dtype="float32"),
    "bf16 odd": product(ops.matmul, (13, 41), (37, 41), types=BF16, transpose_b=True),
    "columns in two": written((12, 3, 16), lambda i, jo, j: (i, jo * 16 + j)),
    "one axis": written((576,), lambda ij: (ij // 48, ij % 48)),
    "turned": written((48, 12), lambda j, i: (i, j)),
    "with a unit": written((12, 48, 1), lambda i, j, unit: (i, j)),
    "turned relu": written((48, 12), lambda j, i: (i, j), follow=lambda x: te.maximum(x, 0)),
    "bf16 one axis": written(
        (576,), lambda ij: (ij // 48, ij % 48), BF16, lambda x: x.astype("bfloat16")
    ),
    "bf16 batch": product(ops.batch_matmul, (2, 9, 30), (2, 32, 30), types=BF16, transpose_b=True),
}


def inputs_of(func, sizes=None, seed=0):
    """All values of integers; of floats small whole numbers, whose sums are exact."""
    rng = np.random.default_rng(seed)
    found = []
    for p in func.inputs:
        shape = [s if isinstance(s, int) else (sizes or {})[s.name] for s in map(_size, p.shape)]
        if p.dtype == "bfloat16":
            whole = rng.integers(-9, 10, shape).astype(np.float32)
            found.append((whole.view(np.uint32) >> 16).astype(np.uint16))
        elif p.dtype == "float32":
            found.append((2.0 ** rng.integers(-9, -5, shape)).astype(np.float32))
        elif p.dtype == "int32":
            found.append(rng.integers(-999, 999, shape).astype(np.int32))
        else:
            limits = np.iinfo(p.dtype)
            found.append(rng.integers(limits.min, limits.max, shape, p.dtype, endpoint=True))
    return found


def _size(extent):
    return getattr(extent, "value", extent)


def check(func, sch):
    """The schedule gives what the definition means; also the trace does, replayed from JSON."""
    inputs = inputs_of(func)
    wanted = reference(func, *inputs)[0]
    kernel = build(sch, "c -threads=2")
    assert "no longer" not in kernel.source
    got = kernel(*inputs)
    if got.dtype == np.uint16:  # bfloat16, rounded once
        got = (got.astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_allclose(got, wanted, rtol=2.0**-8)
    else:
        np.testing.assert_array_equal(got, wanted)
    again = Schedule(func).apply(Trace.from_json(sch.trace.dumps()))
    assert str(again.func) == str(sch.func)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_the_default_is_tensorized_and_right(name):
    func = CASES[name]
    space = make_space(func, MACHINE)
    candidate = default_candidate(space, ("b",))
    assert ":tensorized" in candidate.sketch, candidate.sketch
    assert space.contains(candidate)
    sch = space.build(candidate)
    assert sch.numerics == ("mixed" if "bf16" in name else "bitwise")
    check(func, sch)
    assert np.isfinite(extract(sch.func, MACHINE.target)).all()


@pytest.mark.parametrize("name", ["prime", "long rows", "batch", "requantize", "conv 3x3", "bf16"])
def test_other_candidates_are_right(name):
    """One for each place where the second operand can be packed."""
    func = CASES[name]
    space = make_space(func, MACHINE)
    sketch = next(s for s in space.sketches if ":tensorized" in s)
    rng = random.Random(0)
    drawn = [space.sample(rng, sketch) for _ in range(60)]
    found = {value: c for c in drawn for value in c.values if value in PACK}
    assert {"root", "panel"} <= set(found)
    for candidate in found.values():
        check(func, space.build(candidate))


@pytest.mark.parametrize(
    ("name", "func"),
    [
        ("floats", product(ops.matmul, (8, 8), (8, 8), types=("float32", "float32"))),
        ("uint16", product(ops.matmul, (8, 8), (8, 8), types=("uint16", "uint16"))),
        ("signs the other way", product(ops.matmul, (8, 8), (8, 8), types=("int8", "uint8"))),
        ("transposed a", product(ops.matmul, (8, 5), (8, 6), transpose_a=True)),
        ("channels", conv((1, 5, 7, 6), (3, 3, 6, 16), padding=1)),
        ("empty sum", product(ops.matmul, (8, 0), (0, 8))),
        ("no rows", product(ops.matmul, (0, 8), (8, 8))),
    ],
)
def test_other_products_are_not(name, func):
    """As they are; some are of int16, or in another order, first."""
    space = make_space(func, MACHINE)
    found = [s.name for s in space.sketches.values() if "_factors" not in s.algorithm]
    assert found and not any("tensorized" in sketch for sketch in found)
    space.build(default_candidate(space))


def test_targets_without_the_instructions():
    plain = device_of(Target(vector_bits=256, threads=2, features=("fma",)))
    assert not any("tensorized" in s for s in make_space(CASES["matmul"], plain).sketches)
    short = device_of(Target(vector_bits=256, threads=2, features=("avxvnni", "fma")))
    space = make_space(CASES["prime"], short)
    sch = space.build(default_candidate(space))
    assert "u8i8.dot_8x4" in str(sch.func)
    check(CASES["prime"], sch)


def test_what_a_target_does_not_have_is_not_parsed(monkeypatch):
    """Descriptions are parsed when they are first asked for, which takes as long as a schedule."""
    unheard = TensorIntrin("unheard", "no program at all", "a text", needs="of_no_processor")
    monkeypatch.setitem(INTRINS, "unheard", unheard)
    func = product(ops.matmul, (13, 24), (24, 37))
    assert "u8i8.dot_16x4" in str(default_schedule(func, MACHINE.target).func)


def test_symbolic_rows():
    func = product(ops.linear, (te.var("n"), 20), (33, 20))
    space = make_space(func, MACHINE)
    kernel = build(space.build(default_candidate(space)))
    for rows in (0, 1, 7, 200):
        a, b = inputs_of(func, {"n": rows})
        np.testing.assert_array_equal(kernel(a, b), a.astype(np.int32) @ b.T.astype(np.int32))


@pytest.mark.parametrize("rows, columns", [(64, 96), (37, 61)])
def test_results_that_lie_across_are_turned_behind(rows, columns):
    """Tile by tile each vector of them was scattered: 1.6 times as long."""
    a, b = placeholders(("a", (rows, 48), "uint8"), ("b", (48, columns), "int8"))
    k = te.reduce_axis(48, name="k")
    terms = lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k)  # noqa: E731
    across = te.compute((columns, rows), lambda j, i: terms(i, j), name="out")
    func = te.create_prim_func([a, b, across])
    sch = default_schedule(func, MACHINE.target)
    assert "tensorize" in [step.name for step in sch.trace.instructions]
    assert "store_strided" not in source_text(sch.func, MACHINE.target)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (rows, 48)).astype("uint8")
    y = rng.integers(-9, 9, (48, columns)).astype("int8")
    (found,) = interpret(sch.func, x, y)
    np.testing.assert_array_equal(found, (x.astype(int) @ y.astype(int)).T)


@pytest.mark.parametrize("turned", [False, True])
def test_constants_are_packed_ahead(turned):
    """For few rows of bfloat16, packing pays only ahead of the call, whatever is contiguous."""
    shape = (48, 64) if turned else (64, 48)
    func = product(ops.matmul, (2, 64), shape, types=BF16, out_dtype="float32", transpose_b=turned)
    space = make_space(func, MACHINE)
    assert "tensorized" not in default_candidate(space).sketch
    known = default_candidate(space, ("b",))
    assert "tensorized" in known.sketch and "root" in known.values
    exact = make_space(product(ops.matmul, (2, 64), (64, 48)), MACHINE)
    assert "tensorized" in default_candidate(exact).sketch
    a, b = inputs_of(func)
    kernel = build(space.build(known), constants={"b": b})
    np.testing.assert_array_equal(kernel(a), reference(func, a, b)[0])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("types", "rows"), [(("uint8", "int8"), 5), (BF16, 12)], ids=str)
def test_rows_from_which_on_padding_pays(types, rows, turned):
    for count in (rows - 1, rows):
        shapes = (count, 66), (33, 66) if turned else (66, 33)
        func = product(ops.matmul, *shapes, types=types, transpose_b=turned)
        sketch = default_candidate(make_space(func, MACHINE)).sketch
        assert ("tensorized" in sketch) == (count == rows), sketch


@pytest.mark.parametrize("rows", [2, 16])
@pytest.mark.parametrize("constants", [(), ("b",)], ids=str)
def test_no_plan_is_made_after_the_default(rows, constants):
    func = product(ops.matmul, (rows, 66), (66, 33))
    made = sketches(func, MACHINE, "reassociated", constants=constants)
    found = [sketch for sketch in made if not sketch.algorithm]
    assert [sketch.suits(constants) for sketch in found].index(True) == len(found) - 1
    assert len(found) > 1 or rows == 16 or constants


@pytest.mark.parametrize("types", [("uint8", "int8"), ("bfloat16", "bfloat16")], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_panels_are_asked_for_where_the_second_cache_does_not_hold_them(types, turned):
    """Of constants, in lines of 4 KiB ahead; what a task packs itself is near."""
    func = product(ops.matmul, (16, 512), (256, 512) if turned else (512, 256), types=types,
                   transpose_b=turned)  # fmt: skip
    held = 512 * 256 * (1 if types[0] == "uint8" else 2)

    def asks(l2, constants=("b",)):
        target = Target(vector_bits=512, threads=1, features=FEATURES, l2=l2, l3=1 << 24)
        text = str(default_schedule(func, target, constants, numerics="mixed").func)
        assert "dot_16x" in text
        return "prefetch" in text

    assert asks(held - 1) and not asks(held) and not asks(held - 1, ())


def test_numerics_decide():
    """vdpbf16ps takes subnormals for zero: that is "mixed", which "reassociated" leaves out."""
    func = CASES["bf16"]
    for numerics, tensorized in (("mixed", True), ("reassociated", False), ("bitwise", False)):
        sketches = make_space(func, MACHINE, numerics).sketches
        assert any("tensorized" in s for s in sketches) == tensorized, numerics
        exact = make_space(CASES["matmul"], MACHINE, numerics).sketches
        assert any("tensorized" in s for s in exact), "integers are the same in any order"
    assert default_schedule(func, numerics="bitwise").numerics == "bitwise"
    with pytest.raises(TensorIRError, match="unknown numerics 'exact'; known are bitwise"):
        default_schedule(func, numerics="exact")


def here(intrinsic):
    return find_intrin(intrinsic).runs_on(resolve("c").features)


@pytest.mark.skipif(not here("bf16.dot_16x2"), reason="needs avx512bf16")
def test_subnormals_of_bfloat16():
    """What "mixed" means: 2**-130 * 2**100 counts as 0 in the default, and not in "bitwise"."""
    func = product(ops.matmul, (16, 16), (16, 16), types=BF16, out_dtype="float32")
    a = np.full((16, 16), 1 << 3, np.uint16)  # a subnormal, 2**-130
    b = np.full((16, 16), (100 + 127) << 7, np.uint16)
    assert not build(default_schedule(func))(a, b).any()
    kept = build(default_schedule(func, numerics="reassociated"))(a, b)
    np.testing.assert_array_equal(kept, np.full((16, 16), 2.0**-26, np.float32))


def test_special_values_stay_where_they_are():
    """Padding adds products of zero and zero; an infinite row or column makes no other NaN."""
    func = CASES["bf16 odd"]
    a, b = inputs_of(func)
    a[3, 5], b[2, 7] = 0x7F80, 0x7FC0  # infinity, NaN
    space = make_space(func, MACHINE)
    got = build(space.build(default_candidate(space, ("b",))))(a, b)
    values = (got.astype(np.uint32) << 16).view(np.float32)
    odd = ~np.isfinite(values)
    assert odd[3].any() and odd[:, 2].all()
    odd[3], odd[:, 2] = False, False
    assert not odd.any()


def test_tuned_records_replay(pretended, tmp_path):
    func = product(ops.matmul, (16, 32), (32, 16), types=BF16, out_dtype="float32")
    with Database(tmp_path / "t.db") as db:
        record = tune(func, "c", trials=2, database=db, settings=BRIEF, progress=False).record
        classes = {r.sketch: r.numerics for r in db.records()}
    if here("bf16.dot_16x2"):
        (used,) = [each for each in classes if each in ("out:tiled", "out:tensorized")][:1]
        assert classes[used] == "mixed"
    inputs = inputs_of(func)
    again = Schedule(func).apply(Trace.from_json(list(record.trace)))
    np.testing.assert_array_equal(build(again)(*inputs), reference(func, *inputs)[0])


def test_columns_that_are_in_two_everywhere():
    """16 columns for each of 6 are 96: in tiles of these, rows are read again for each."""
    a, b = te.placeholder((12, 64), "int8", name="a"), te.placeholder((64, 6, 16), "int8", name="b")
    k = te.reduce_axis(64, "k")

    def term(i, jo, j):
        return a[i, k].astype("int32") * b[k, jo, j].astype("int32")

    out = te.compute((12, 6, 16), lambda *at: te.sum(term(*at), axis=k), name="out")
    func = te.create_prim_func([a, b, out])
    space = make_space(func, MACHINE)
    candidate = default_candidate(space)
    plain = make_space(product(ops.matmul, (12, 64), (64, 96), types=("int8", "int8")), MACHINE)
    assert candidate.values[0] == default_candidate(plain).values[0], "the tile"
    sch = space.build(candidate)
    assert "pack_4x16" in str(sch.func), "neighbours stay neighbours in the copy"
    check(func, sch)


@pytest.mark.parametrize("place", [0, 1])
def test_terms_that_no_operand_has(place):
    """One more axis that is summed over, of one value, has no place in the packed operand."""
    a, b = te.placeholder((6, 64), "uint8", name="a"), te.placeholder((64, 32), "int8", name="b")
    k, unit = te.reduce_axis(64, "k"), te.reduce_axis(1, "unit")
    axes = [unit, k] if place == 0 else [k, unit]
    out = te.compute(
        (6, 32),
        lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=axes),
        name="out",
    )
    func = te.create_prim_func([a, b, out])
    target = Target(vector_bits=512, threads=2, features=FEATURES)
    space = make_space(func, device_of(target))
    candidate = default_candidate(space, ("b",))
    assert candidate.sketch == "out:tensorized"
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, (6, 64), np.uint8), rng.integers(-9, 9, (64, 32), np.int8)
    found = interpret(space.build(candidate).func, x, y)[0]
    np.testing.assert_array_equal(found, reference(func, x, y)[0])
