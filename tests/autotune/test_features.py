"""Features: values worked out by hand for small scheduled programs, and their invariants."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import numpy as np
import pytest

from autotune.features.features import extract, extractor
from autotune.features.nest import Form, form_of
from autotune.features.table import COLUMN, FEATURES, TABLE, describe
from schedule import Schedule
from tensorir import (
    PrimFunc,
    Seq,
    Target,
    TensorIRError,
    Var,
    parse,
    te,
)
from tests.counted import calls

CACHES = (32 << 10, 1 << 20, 32 << 20)
MACHINE = Target(
    vector_bits=256, threads=2, features=("fma",), l1d=CACHES[0], l2=CACHES[1], l3=CACHES[2]
)

MATMUL = """
@prim_func
def matmul(A: f32[1024, 1024], B: f32[1024, 1024], C: f32[1024, 1024]):
    for i_0 in parallel(64):
        for j_0, k_0, i_1, k_1 in grid(64, 128, 2, 8):
            for i_2 in unrolled(8):
                for j_1 in vectorized(16):
                    with block("C"):
                        vi = spatial(1024, i_0 * 16 + i_1 * 8 + i_2)
                        vj = spatial(1024, j_0 * 16 + j_1)
                        vk = reduce(1024, k_0 * 8 + k_1)
                        with init():
                            C[vi, vj] = 0.0
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def features(func, **changes):
    row = extract(func, replace(MACHINE, **changes))
    assert row.dtype == np.float32 and row.shape == (len(FEATURES),)
    assert np.isfinite(row).all()
    return {name: float(row[at]) for name, at in COLUMN.items()}


def elementwise(n=1000):
    a = te.placeholder((n,), "float32", name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0 + 1.0, name="B")
    return te.create_prim_func([a, b], name="scale")


def test_register_tile_of_a_matmul():
    f = features(parse(MATMUL))
    assert f["flops"] == 31 and f["waste"] == 0
    assert f["lanes"] == 3 and f["vector_extent"] == 4 and f["vector_chunks"] == 1
    assert f["vector_use"] == 0
    # A is broadcast along j; B and C move to the next element.
    assert (f["vector_broadcasts"], f["vector_contiguous"], f["vector_strided"]) == (1, 2, 0)
    # 8 rows of 2 vectors, and for each step of k 8 broadcasts and 2 loads.
    assert f["accumulators"] == 4 and f["unrolled"] == 3
    assert f["loads_per_op"] == pytest.approx(log2(10 / 16))
    assert f["register_pressure"] == pytest.approx(log2((16 + 2 + 1) / 16))
    # i_1 stands between the reductions k_0 and k_1: only k_1 runs on the registers.
    assert f["reduce_run"] == 3 and f["reduce_total"] == 10
    assert f["memory_accumulators"] == 0
    assert f["code_size"] == pytest.approx(log2(16 * 2))
    assert f["loops"] == 7 and f["guarded"] == 0


def test_cache_traffic_of_a_matmul():
    f = features(parse(MATMUL.replace("1024, 1024]", "1024, 1040]")))  # rows in sets of their own
    # Below k_0 lie 16 rows of A, 8 of B and 16 of C, a line each: that fits, all of k_0 does not.
    assert f["reuse_l1"] == log2(2 * 8 * 8 * 16)
    # For each i_0 and j_0: 16 whole rows of A, 1024 lines of B. C moves with j_0 only.
    fetched = (16 * 4096 + 1024 * 64) * 64 * 64 + 2 * 16 * 4096 * 64
    assert f["traffic_l1"] == pytest.approx(log2(fetched / 2**31))
    assert f["tile_bytes"] == pytest.approx(log2((8 * 64 + 8 * 64 + 8 * 64) / CACHES[0]))
    # Everything fits into L3: each array is fetched once, and C is written too.
    assert f["traffic_l3"] == log2(4 * 4 * 2**20 / 2**31)
    assert f["total_bytes"] == pytest.approx(log2(12 * 2**20 / CACHES[2]))
    assert f["task_bytes"] == pytest.approx(log2((16 * 4096 * 2 + 2**22) / CACHES[1]))


def test_rows_that_share_the_sets_of_a_cache_do_not_stay_in_it():
    """Rows a page apart: the first cache has eight ways, and 16 rows of A and C are in one set."""
    crowded, apart = (
        features(parse(MATMUL.replace("1024, 1024]", f"1024, {width}]"))) for width in (1024, 1040)
    )
    assert crowded["reuse_l1"] < apart["reuse_l1"]
    assert crowded["traffic_l1"] > apart["traffic_l1"] + 1
    # So large a matrix is in pages of 2 MiB: its rows begin at 32 places of the second cache.
    assert crowded["reuse_l2"] < apart["reuse_l2"] and crowded["reuse_l3"] == apart["reuse_l3"]


@pytest.mark.parametrize("step, loads", [(1, 1), (2, 3.3), (3, 5.6), (16, 16)])
def test_lanes_that_are_a_few_elements_apart_take_a_few_loads(step, loads):
    """As many as there are lanes, at most."""
    x = te.placeholder((64 * step,), name="x")
    func = te.create_prim_func([x, te.compute((64,), lambda i: x[i * step] + 1.0, name="out")])
    sch = Schedule(func)
    sch.vectorize(sch.split(sch.get_loops("out")[0], [None, 16])[1])
    f = features(sch.func, vector_bits=512)
    assert 2 ** f["loads_per_op"] == pytest.approx(loads)
    assert f["vector_strided"] == pytest.approx(0 if step == 1 else loads / 16)


def test_lanes_in_several_rows_take_loads_by_rows():
    """Half of the lanes are at the end of one row, half at the beginning of the next one."""
    x = te.placeholder((32, 8), name="x")
    func = te.create_prim_func([x, te.compute((256,), lambda i: x[i // 8, i % 8], name="out")])
    sch = Schedule(func)
    sch.vectorize(sch.split(sch.get_loops("out")[0], [None, 16])[1])
    assert 2 ** features(sch.func, vector_bits=512)["loads_per_op"] == 2


def test_parallel_tasks_and_the_last_round():
    f = features(parse(MATMUL), threads=24)
    assert f["tasks"] == pytest.approx(log2(64 / 24))
    assert f["imbalance"] == pytest.approx(log2(3 / (64 / 24)))
    assert f["regions"] == 0 and f["task_flops"] == 25
    alone = features(elementwise(), threads=8)
    assert alone["imbalance"] == 3


def test_conflicting_rows_and_pages():
    f = features(parse(MATMUL))
    # Rows of 4096 bytes: 8 of A, 8 of B and 8 of C below the innermost reduction.
    assert f["conflicts"] == 3 and f["pages"] == pytest.approx(log2(24))
    narrow = parse(MATMUL.replace("1024, 1024]", "1024, 1040]"))
    assert features(narrow)["conflicts"] == 0


def test_wider_vectors_change_only_what_depends_on_lanes():
    narrow, wide = features(parse(MATMUL)), features(parse(MATMUL), vector_bits=512)
    assert wide["accumulators"] == 3 and wide["lanes"] == 4
    assert wide["register_pressure"] == pytest.approx(log2((8 + 1 + 1) / 32))
    for name in ("flops", "traffic_l1", "tasks", "reduce_run", "unrolled"):
        assert narrow[name] == wide[name]


def test_padding_and_guards():
    sch = Schedule(elementwise(1000))
    (i,) = sch.get_loops("B")
    _, inner = sch.split(i, [None, 48])
    sch.vectorize(inner)
    f = features(sch.func)
    assert f["waste"] == pytest.approx(log2(1008 / 1000))
    assert f["guarded"] == 1 and f["guard_inside"] == 1 and f["vector_guarded"] == 1
    assert f["vector_chunks"] == pytest.approx(log2(6)) and f["vector_use"] == 0
    assert f["reduce_total"] == 0 and f["memory_accumulators"] == 0


def test_lanes_that_idle():
    sch = Schedule(elementwise(60))
    (i,) = sch.get_loops("B")
    _, inner = sch.split(i, [None, 12])
    sch.vectorize(inner)
    f = features(sch.func)
    assert f["vector_use"] == pytest.approx(log2(12 / 16))
    plain = features(elementwise(60))
    assert plain["vector_use"] == -3 and plain["vector_extent"] == 0


def test_a_gather_is_strided():
    a = te.placeholder((64, 64), "float32", name="A")
    b = te.compute((64, 64), lambda i, j: a[j, i] + 1.0, name="B")
    sch = Schedule(te.create_prim_func([a, b], name="transpose"))
    sch.vectorize(sch.get_loops("B")[1])
    f = features(sch.func)
    assert f["vector_strided"] == 1 and f["vector_contiguous"] == 0
    assert f["vector_store_strided"] == 0


def test_accumulators_in_memory():
    a = te.placeholder((64, 64), "float32", name="A")
    b = te.placeholder((64, 64), "float32", name="B")
    k = te.reduce_axis(64, name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="matmul"))
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    f = features(sch.func)
    assert f["memory_accumulators"] == 6 and f["accumulators"] == 0
    assert f["inner_extent"] == 6 and f["reduce_run"] == 6


def packed(scope):
    a = te.placeholder((64, 64), "float32", name="A")
    b = te.placeholder((64, 64), "float32", name="B")
    k = te.reduce_axis(64, name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="matmul"))
    i, j, k = sch.get_loops("C")
    i0, i1, j0, j1 = sch.tile(i, j, 8, 16)
    sch.reorder(i0, j0, k, i1, j1)
    copy = sch.cache_read("C", "B", scope)
    sch.compute_at(copy, j0)
    return sch.func


def test_packing_is_counted_apart_from_the_anchor():
    f = features(packed("global"))
    assert f["blocks"] == 2
    # The panel of 64 x 16 is allocated inside of j0, and copied for each of 8 x 4 tiles.
    assert f["scratch_bytes"] == pytest.approx(log2(1 + 64 * 16 * 4))
    assert f["local_bytes"] == 0
    touched = 64 * 64 * 4 * 2 + 64 * 16 * 4
    assert f["copied"] == pytest.approx(log2(1 + 8 * 4 * 64 * 16 * 4 / touched))
    assert f["other_waste"] == 3 and f["copied_strided"] == 0
    local = features(packed("local"))
    assert local["local_bytes"] == f["scratch_bytes"] and local["scratch_bytes"] == 0


def test_the_heaviest_block_is_the_anchor():
    a = te.placeholder((256, 256), "float32", name="A")
    k = te.reduce_axis(256, name="k")
    total = te.compute((256,), lambda i: te.sum(a[i, k], axis=k), name="total")
    root = te.compute((256,), lambda i: te.sqrt(total[i]), name="root")
    f = features(te.create_prim_func([a, root], name="norm"))
    assert f["flops"] == 16 and f["blocks"] == 2
    assert f["other_flops"] == pytest.approx(log2(1 + 256 * 10 / 2**16))


def test_symbolic_sizes_have_features():
    n = te.size_var("n")
    a = te.placeholder((n, 64), "float32", name="A")
    b = te.compute((n, 64), lambda i, j: a[i, j] + 1.0, name="B")
    f = features(te.create_prim_func([a, b], name="add"))
    assert f["flops"] == 13


def test_forms_of_indices():
    i, j = Var("i"), Var("j")
    env = {i: Form({0: (1, 7)}), j: Form({1: (1, 3)})}
    fused = i * 4 + j
    assert form_of(fused, env).terms == {0: (4, 7), 1: (1, 3)}
    assert form_of(fused // 4, env).terms == {0: (1, 7)}
    assert form_of(fused % 4, env).terms == {1: (1, 3)}
    assert form_of(i - i, env).terms == {}
    assert form_of(i // 2, env).terms == {0: (1, 3)}
    assert form_of(i + 3 - 1, env).const == 2
    assert form_of(i % 4, env).terms == {0: (1, 3)}


def test_columns_are_named_and_documented_once():
    assert len(set(FEATURES)) == len(FEATURES) and 40 <= len(FEATURES) <= 60
    assert all(meaning for _, meaning in TABLE)
    text = describe(extract(parse(MATMUL), MACHINE), lambda name: name == "flops")
    assert text.split()[:2] == ["flops", "31.000"]


def test_extractor_takes_schedules():
    func = elementwise()
    row = extractor(MACHINE)(Schedule(func))
    assert np.array_equal(row, extract(func, MACHINE))


def test_extraction_takes_few_calls():
    """A fifth more than it is: about 2 ms."""
    func = parse(MATMUL)
    extract(func, MACHINE)
    assert calls(lambda: extract(func, MACHINE)) < 1250


def test_a_program_that_does_nothing_has_no_features():
    with pytest.raises(TensorIRError, match="'nothing' has no block that stores anything"):
        extract(PrimFunc("nothing", (), (), Seq(())), MACHINE)
