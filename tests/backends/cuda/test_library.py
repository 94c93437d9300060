"""Schedules of the library for GPUs, on the emulator, under its checks, and by the compiler."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from backends import ObjectCache, build
from backends.cuda import nvrtc
from backends.cuda.resources import read_resources
from backends.cuda.text import cuda_text
from backends.gpu.launches import Launches
from schedule import Schedule, ScheduleError, Trace
from schedule.library import gpu
from schedule.state import replace_func
from tensorir import PrimFunc, Target, Var, lower, ops, reference, te


def inputs_of(func: PrimFunc, rows: int) -> list[np.ndarray]:
    """Small integers as floats: every order of summation gives the same bits."""
    rng = np.random.default_rng(0)
    shapes = [[rows if isinstance(d, Var) else d.value for d in p.shape] for p in func.inputs]
    return [rng.integers(-4, 5, shape).astype(p.dtype) for p, shape in zip(func.inputs, shapes)]


def replays(sch: Schedule) -> Schedule:
    again = Schedule(sch.definition).apply(Trace.from_json(sch.trace.dumps()))
    assert str(again.func) == str(sch.func)
    return sch


def right(sch: Schedule, cache: ObjectCache, rows: int = 7) -> None:
    """The emulator gives what NumPy does."""
    arrays = inputs_of(sch.definition, rows)
    result = build(sch, "cuda-emulator", cache=cache)(*arrays)
    found = result if isinstance(result, tuple) else (result,)
    for one, wanted in zip(found, reference(sch.definition, *arrays), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-5)


def clean(sch: Schedule, rows: int = 7) -> None:
    """No check of the emulator has anything to report."""
    findings = sch.sanitize(*inputs_of(sch.definition, rows))
    assert not findings.reports, str(findings)


def counted(sch: Schedule) -> dict[str, list]:
    """What a run costs, by access: "load A", or "ti_sync "."""
    found: dict[str, list] = {}
    arrays = inputs_of(sch.definition, 7)
    for count in sch.sanitize(*arrays, checks="counts").counts:
        found.setdefault(f"{count.what} {count.buffer}".strip(), []).append(count)
    return found


def product(
    shape: tuple[int | Var, int, int], left: str = "ik", right: str = "kj", relu: bool = False
) -> PrimFunc:
    """C[i, j] = sum of A[i, k] * B[k, j], A and B with their axes in that order."""
    sizes = dict(zip("ijk", shape))
    a = te.placeholder(tuple(sizes[x] for x in left), name="A")
    b = te.placeholder(tuple(sizes[x] for x in right), name="B")
    k = te.reduce_axis(sizes["k"], name="k")

    def term(i, j):
        at = {"i": i, "j": j, "k": k}
        return te.sum(a[tuple(at[x] for x in left)] * b[tuple(at[x] for x in right)], axis=k)

    c = te.compute((sizes["i"], sizes["j"]), term, name="C")
    if not relu:
        return te.create_prim_func([a, b, c], name="matmul")
    bias = te.placeholder((sizes["j"],), name="bias")
    d = te.compute(c.shape, lambda i, j: te.max(c[i, j] + bias[j], 0.0), name="D")
    return te.create_prim_func([a, b, bias, d], name="dense")


SMALL = {"warps": (2, 1), "registers": (4, 4), "depth": 8}


def tiled(func: PrimFunc, **options: object) -> Schedule:
    sch = Schedule(func)
    gpu.matmul(sch, "C", **options)
    return sch


class TestMatmul:
    @pytest.mark.parametrize("shape", [(131, 37, 19), (1, 1, 1), (64, 64, 16), (5, 64, 12)])
    def test_any_extents(self, shape, cache):
        right(replays(tiled(product(shape), **SMALL)), cache)

    @pytest.mark.parametrize("ahead", [0, 2])
    def test_copies_that_run_ahead(self, ahead, cache):
        right(tiled(product((33, 37, 19)), ahead=ahead, **SMALL), cache)

    def test_symbolic_rows(self, cache):
        right(tiled(product((te.var("n"), 36, 20)), **SMALL), cache, rows=37)

    @pytest.mark.parametrize(("left", "right_"), [("ki", "kj"), ("ik", "jk"), ("ki", "jk")])
    def test_any_order_of_axes(self, left, right_, cache):
        right(tiled(product((33, 40, 12), left, right_), **SMALL), cache)

    @pytest.mark.parametrize("shape", [(33, 37, 5), (32, 32, 8)])
    def test_an_epilogue_is_computed_from_registers(self, shape, cache):
        sch = tiled(product(shape, relu=True), epilogue="D", **SMALL)
        right(sch, cache)
        assert len(Launches.of(lower(sch.func, Target.parse("cuda"))).kernels) == 1

    def test_batches_and_more_terms(self, cache):
        a = te.placeholder((3, 5, 2, 6), name="A")
        b = te.placeholder((3, 2, 6, 9), name="B")
        r, k = te.reduce_axis(2, name="r"), te.reduce_axis(6, name="k")
        c = te.compute(
            (3, 5, 9), lambda n, i, j: te.sum(a[n, i, r, k] * b[n, r, k, j], axis=[r, k]), name="C"
        )
        right(tiled(te.create_prim_func([a, b, c], name="batched"), **SMALL), cache)

    @pytest.mark.parametrize("ahead", [0, 1])
    def test_no_check_has_anything_to_report(self, ahead):
        clean(tiled(product((35, 37, 9), relu=True), epilogue="D", ahead=ahead, **SMALL))

    def test_what_is_no_product(self):
        sch = Schedule(product((4, 4, 4), relu=True))
        before = sch.func
        with pytest.raises(ScheduleError, match="block 'D' is no product of two matrices"):
            gpu.matmul(sch, "D")
        with pytest.raises(ScheduleError, match="4 x 4 lanes are no warp of 32"):
            gpu.matmul(sch, "C", lanes=(4, 4))
        with pytest.raises(ScheduleError, match="'C' is not what alone reads block 'C'"):
            gpu.matmul(sch, "C", epilogue="C")
        assert sch.func is before and not sch.trace.instructions

    @pytest.mark.parametrize(("ahead", "waits"), [(0, 2 * 3), (1, 3), (2, 3)])
    def test_counts(self, ahead, waits):
        """Two barriers a step, or one where tiles are copied ahead; no two lanes come to one bank
        in either tile; wide accesses."""
        found = counted(tiled(product((128, 128, 24)), ahead=ahead))
        assert sum(c.instructions for c in found["ti_sync"]) == waits
        for name in ("A_shared", "B_shared"):
            for count in found[f"load {name}"] + found[f"store {name}"]:
                assert count.conflicts == 0
        for name in ("load A", "load B", "store C"):
            assert all(c.transactions == c.least for c in found[name])
            assert all(c.bytes == 16 for c in found[name])


def turned(shape: tuple[int | Var, ...], order: tuple[int, ...]) -> PrimFunc:
    """B with the axes of A in another order."""
    a = te.placeholder(shape, name="A")
    back = [order.index(n) for n in range(len(order))]
    b = te.compute(
        tuple(shape[n] for n in order), lambda *i: a[tuple(i[n] for n in back)] * 2.0, name="B"
    )
    return te.create_prim_func([a, b], name="turned")


def summed(shape: tuple[int | Var, ...], axes: tuple[int, ...]) -> PrimFunc:
    """B, the sums of A over some axes."""
    a = te.placeholder(shape, name="A")
    over = {n: te.reduce_axis(shape[n], name=f"k{n}") for n in axes}
    kept = [n for n in range(len(shape)) if n not in over]

    def term(*i):
        at = {**dict(zip(kept, i)), **over}
        return te.sum(a[tuple(at[n] for n in range(len(shape)))], axis=list(over.values()))

    b = te.compute(tuple(shape[n] for n in kept), term, name="B")
    return te.create_prim_func([a, b], name="summed")


def softmax(shape: tuple[int | Var, ...]) -> PrimFunc:
    a = te.placeholder(shape, name="A")
    return te.create_prim_func([a, ops.softmax(a)], name="softmax")


def scheduled(func: PrimFunc, schedule, block: str = "B", **options: object) -> Schedule:
    sch = Schedule(func)
    schedule(sch, block, **options)
    return sch


class TestTranspose:
    @pytest.mark.parametrize(
        ("shape", "order"),
        [((37, 41), (1, 0)), ((1, 1), (1, 0)), ((3, 5, 2, 33), (0, 3, 2, 1))],
    )
    def test_any_order_of_axes(self, shape, order, cache):
        right(replays(scheduled(turned(shape, order), gpu.transpose)), cache)

    def test_symbolic_extents(self, cache):
        n = te.var("n")
        right(scheduled(turned((n, 40), (1, 0)), gpu.transpose), cache, rows=37)

    def test_counts(self):
        """Wide in both arrays, no two lanes at one bank, one wait."""
        found = counted(scheduled(turned((64, 64), (1, 0)), gpu.transpose))
        for name in ("load A", "store A_shared", "load A_shared", "store B"):
            assert all(c.transactions == c.least for c in found[name]), name
        assert sum(c.instructions for c in found["ti_sync"]) == 4

    def test_no_check_has_anything_to_report(self):
        clean(scheduled(turned((33, 35), (1, 0)), gpu.transpose))

    def test_what_is_none(self):
        sch = Schedule(turned((4, 5), (0, 1)))
        with pytest.raises(ScheduleError, match="block 'B' is no transpose"):
            gpu.transpose(sch, "B")


class TestRows:
    @pytest.mark.parametrize("by", ["warp", "block"])
    @pytest.mark.parametrize("keep", [None, "shared", "nothing"])
    def test_softmax(self, by, keep, cache):
        options = {"by": by, "warps": 2, "keep": keep}
        right(scheduled(softmax((5, 261)), gpu.rows, "softmax", **options), cache)

    @pytest.mark.parametrize("shape", [(5, 300), (3, 1), (2, 3, 64), (te.var("n"), 101)])
    def test_any_extents(self, shape, cache):
        right(replays(scheduled(softmax(shape), gpu.rows, "softmax", warps=2)), cache)

    @pytest.mark.parametrize("shape", [(300,), (3, 5, 6, 50), (te.var("n"), te.var("n"))])
    def test_sums(self, shape, cache):
        axes = (2, 3) if len(shape) == 4 else (len(shape) - 1,)
        right(scheduled(summed(shape, axes), gpu.rows, warps=2), cache, rows=65)

    def test_a_norm(self, cache):
        a = te.placeholder((3, 132), name="A")
        g, b = (te.placeholder((132,), name=name) for name in ("G", "Z"))
        func = te.create_prim_func([a, g, b, ops.layer_norm(a, g, b)], name="norm")
        right(scheduled(func, gpu.rows, "layer_norm", by="warp", warps=2), cache)

    @pytest.mark.parametrize(("by", "waits"), [("warp", 0), ("block", 2)])
    def test_counts(self, by, waits):
        """One read, one write, of 16 bytes each; a block waits once for each reduction."""
        found = counted(scheduled(softmax((4, 256)), gpu.rows, "softmax", by=by, warps=2))
        for name in ("load A", "store softmax"):
            assert all(c.transactions == c.least and c.bytes == 16 for c in found[name])
            assert sum(c.transactions for c in found[name]) == 4 * 256 * 4 // 32
        waiting = [c for name in found if "sync" in name for c in found[name]]
        assert sum(c.instructions for c in waiting) == waits * 4

    def test_no_check_has_anything_to_report(self):
        clean(scheduled(softmax((3, 101)), gpu.rows, "softmax", warps=2))
        clean(scheduled(softmax((3, 101)), gpu.rows, "softmax", by="warp", warps=2))

    def test_what_has_no_rows(self):
        with pytest.raises(ScheduleError, match="block 'B' and what it alone uses reduce in 0"):
            gpu.rows(Schedule(turned((4, 5), (0, 1))), "B")


class TestColumns:
    @pytest.mark.parametrize("shape", [(50, 70), (1, 1), (te.var("n"), 33), (3, 37, 41)])
    @pytest.mark.parametrize("parts", [1, 3])
    def test_any_extents(self, shape, parts, cache):
        func = summed(shape, (len(shape) - 2,))
        right(replays(scheduled(func, gpu.columns, warps=4, parts=parts)), cache, rows=37)

    def test_counts(self):
        """All that is read is read once, and no two lanes come to one bank."""
        found = counted(scheduled(summed((64, 96), (0,)), gpu.columns, warps=4))
        assert all(c.transactions == c.least for counts in found.values() for c in counts)
        assert sum(c.transactions for c in found["load A"]) == 64 * 96 * 4 // 32

    def test_no_check_has_anything_to_report(self):
        clean(scheduled(summed((37, 35), (0,)), gpu.columns, warps=4, parts=2))


class TestWhole:
    @pytest.mark.parametrize("shape", [(1000,), (1,), (te.var("n"),), (37, 41)])
    def test_one_value(self, shape, cache):
        func = summed(shape, tuple(range(len(shape))))
        right(replays(scheduled(func, gpu.whole, blocks=3, warps=2)), cache, rows=517)

    def test_few_values(self, cache):
        func = summed((3, 37, 44), (1, 2))
        sch = scheduled(func, gpu.whole, blocks=3, warps=2)
        right(sch, cache)
        assert len(Launches.of(lower(sch.func, Target.parse("cuda"))).kernels) == 2

    def test_no_check_has_anything_to_report(self):
        clean(scheduled(summed((1003,), (0,)), gpu.whole, blocks=2, warps=2))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nothing_is_spilled(arch, with_nvrtc):
    target = Target.parse(f"cuda -arch={arch}")
    funcs = []
    for number, (sch, _) in enumerate(MODELS):
        made = sch()
        funcs.append(lower(replace_func(made.func, name=f"k{number}"), target))
    text = cuda_text(funcs[0], target, *funcs[1:]).source
    found = read_resources(nvrtc.compile_cubin(text, arch).log)
    assert len(found) >= len(MODELS)
    assert not any(r.spills or r.stack for r in found.values()), found
    for number, (_, most) in enumerate(MODELS):
        assert found[f"k{number}_0"].registers <= most, found


def test_a_product_is_checked_for_races_in_a_second(cache):
    sch = tiled(product((256, 256, 256)))
    kernel = build(sch, "cuda-emulator -check=races", cache=cache)
    arrays = inputs_of(sch.definition, 256)

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        kernel(*arrays)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    assert any(seconds() < 1 for _ in range(20)), "0.35 s of a processor when this was written"


MODELS = [
    (lambda: tiled(product((256, 256, 64))), 128),
    (lambda: tiled(product((131, 130, 19), relu=True), epilogue="D"), 168),
    (lambda: scheduled(turned((131, 130), (1, 0)), gpu.transpose), 40),
    (lambda: scheduled(softmax((8, 8192)), gpu.rows, "softmax"), 96),
    (lambda: scheduled(softmax((8, 1001)), gpu.rows, "softmax", by="warp"), 96),
    (lambda: scheduled(summed((8, 1001), (1,)), gpu.rows), 64),
    (lambda: scheduled(summed((1001, 70), (0,)), gpu.columns, parts=4), 64),
    (lambda: scheduled(summed((100000,), (0,)), gpu.whole), 64),
]
"""Schedules, and how many registers a thread may take."""
