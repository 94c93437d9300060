"""Rows that begin elsewhere within sectors of memory than what is read for them: each sector is
moved once, in shifted rows, in short rows of scans, and in places of extremes of long ones."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.explain import least_transactions
from autotune.gpu.count import works_of
from autotune.rules import choose
from autotune.rules.gpu.move import bound_part
from backends import build
from benchmarks.gpus.counts import EMULATOR, default
from schedule import Schedule, ScheduleError, library
from tensorir import Gpu, PrimFunc, Target, ops, reference, te

DEVICE = Gpu(Target.parse("cuda -arch=sm_90a"))
CHECKED = f"{EMULATOR},races,uninitialised,bounds"


def program(make, *shapes: tuple[int, ...], kind: str = "float32") -> PrimFunc:
    given = [te.placeholder(shape, kind, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*given, make(*given)], name="program")


def rolled(x):
    rows, columns = x.shape
    return te.compute((rows, columns), lambda i, j: x[(i + 7) % rows, j], "rolled")


def joined(*given):
    return ops.concat(list(given), 1)


def flipped(x):
    return ops.flip(x, 0)


def padded(x):
    return ops.pad(x, [(1, 2), (3, 0)])


SHIFTED = {
    "concatenation": program(joined, (54, 3, 2113), (54, 5, 2113)),
    "of three": program(joined, (64, 31, 1001), (64, 1, 1001), (64, 3, 1001), kind="float16"),
    "padding": program(padded, (2048, 1001)),
    "rows backwards": program(flipped, (2, 6, 7, 2593)),
    "rolled": program(rolled, (2048, 501), kind="float64"),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_shifted_rows_ask_for_each_sector_once(name):
    (plan,) = choose(SHIFTED[name], DEVICE, None, ()).sketch.plans
    works = works_of(default(SHIFTED[name])[0].func, DEVICE)
    assert plan.name == "realigned"
    assert sum(work.sectors for work in works) <= 1.05 * least_transactions(SHIFTED[name], {})
    assert all(work.wavefronts == work.free for work in works)


@pytest.mark.parametrize("shape", [(2048, 1024), (4, 3, 64, 1001), (7, 13)])
def test_rows_that_are_read_where_they_are_written_are_not(shape):
    """Whole sectors, or few bytes: a copy in shared memory would save nothing."""
    make = flipped if shape[-1] % 8 == 0 else ops.relu if len(shape) > 2 else padded
    (plan,) = choose(program(make, shape), DEVICE, None, ()).sketch.plans
    assert plan.name == "elementwise"


@pytest.mark.parametrize("kind", ["float32", "float16"])
@pytest.mark.parametrize(
    "func, shapes",
    [
        (joined, [(3, 2, 77), (3, 5, 77)]),
        (joined, [(3, 70), (3, 45)]),
        (joined, [(1, 70), (1, 1)]),
        (flipped, [(3, 7, 41)]),
        (lambda x: ops.flip(x, 1), [(3, 41)]),
        (padded, [(3, 41)]),
        (ops.relu, [(5,)]),
    ],
)
def test_shifted_rows_are_right(func, shapes, kind, cache):
    func = program(func, *shapes, kind=kind)
    rng = np.random.default_rng(0)
    given = [rng.integers(-9, 9, shape).astype(kind) for shape in shapes]
    sch = Schedule(func)
    library.gpu.realigned(sch, sch.get_blocks()[0], warps=2, items=3)
    np.testing.assert_array_equal(
        build(sch, CHECKED, cache=cache)(*given), reference(func, *given)[0]
    )


def test_what_cannot_be_realigned_says_why():
    func = program(lambda x: ops.sum(x, 1), (5, 7))
    sch = Schedule(func)
    with pytest.raises(ScheduleError, match="is a reduction"):
        library.gpu.realigned(sch, "sum")
    with pytest.raises(ScheduleError, match="0 warps of 4 items are too few"):
        library.gpu.realigned(Schedule(program(ops.relu, (5,))), "relu", warps=0)


@pytest.mark.parametrize("shape", [(65536, 131), (99999, 7), (40000, 100)])
def test_short_rows_of_scans_fill_whole_sectors_together(shape):
    """Blocks of eight rows of 131 halves began within sectors."""
    func = program(ops.cumsum, shape, kind="float16")
    works = works_of(default(func)[0].func, DEVICE)
    assert sum(work.sectors for work in works) <= 1.05 * least_transactions(func, {})


@pytest.mark.parametrize("shape", [(1743693,), (3, 1 << 20), (2, 654321)])
def test_places_of_extremes_of_long_rows_are_found_in_one_pass(shape):
    """Two passes read a row for its maximum, and again for the place, in five kernels."""
    func = program(lambda x: ops.argmax(x, len(shape) - 1), shape, kind="float64")
    chosen = choose(func, DEVICE, None, ())
    works = works_of(default(func)[0].func, DEVICE)
    assert chosen.start.name == "" and len(works) == 2
    assert sum(work.sectors for work in works) <= 1.05 * least_transactions(func, {})


@pytest.mark.parametrize("shape, kind", [((4099,), "float32"), ((3, 2051), "float16")])
def test_places_of_extremes_by_blocks_are_right(shape, kind, cache):
    axis = len(shape) - 1
    func = program(lambda x: ops.argmax(x, axis, name="S"), shape, kind=kind)
    given = np.random.default_rng(0).integers(-9, 9, shape).astype(kind)
    given[..., 2000] = np.nan
    sch = Schedule(func)
    library.gpu.whole(sch, "S", blocks=4, warps=2)
    np.testing.assert_array_equal(build(sch, CHECKED, cache=cache)(given), given.argmax(axis))


def upsampled(size: int) -> PrimFunc:
    """Two tensors side by side, one of them upsampled, which a convolution pads and reads."""
    shapes = (1, 64, size, size), (1, 32, 2 * size, 2 * size), (64, 32, 2, 2), (32, 64, 3, 3)
    x, skipped, up, w = (te.placeholder(s, "float32", name=f"x{n}") for n, s in enumerate(shapes))
    both = ops.concat([ops.conv2d_transpose(x, up, stride=2), skipped], 1)
    made = ops.relu(ops.conv2d(both, w, padding=1))
    return te.create_prim_func([x, skipped, up, w, made], name="program")


@pytest.mark.parametrize("size", (27, 28))
def test_rows_that_another_kernel_reads_have_a_default(size):
    """What shifted rows waste is asked of them alone, while the kernel that reads them is there."""
    sch, *_ = default(upsampled(size))
    assert len(works_of(sch.func, DEVICE)) == 3


@pytest.mark.parametrize("kind", ("float32", "float64", "int32"))
def test_what_kernels_store_for_others_is_counted(kind):
    """Each kernel by itself counts as it does in the whole program: nothing is left out because
    those who read it are not there."""
    x = te.placeholder((300, 1001), kind, name="x")
    t = te.compute((1001, 300), lambda i, j: x[j, i] + x[j, i], "t")
    r = te.reduce_axis(1001, name="r")
    y = te.compute((300,), lambda j: te.sum(t[r, j] * t[1000 - r, j], axis=r), "y")
    sch = Schedule(te.create_prim_func([x, y], name="program"))
    one = sch.copy()
    thread_by_thread(one, "t")
    both = one.copy()
    thread_by_thread(both, "y")
    first, second = bound_part(one.func, sch.func), bound_part(both.func, one.func)
    apart = works_of(first, DEVICE) + works_of(second, DEVICE)
    assert len(apart) == 2 and apart == works_of(both.func, DEVICE)


def thread_by_thread(sch: Schedule, block: str) -> None:
    i, *_ = sch.get_loops(block)
    blocks, threads = sch.split(i, factors=[None, 32])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
