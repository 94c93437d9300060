"""Rules for GPUs: which plans they make, what these compute, and what that moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune import default_schedule
from autotune.gpu.count import rooms_of, works_of
from autotune.gpu.work import cycles
from autotune.rules import default_sketch, sketches
from autotune.rules.gpu.move import MovePlan
from autotune.rules.planned import PlannedSketch
from backends import ObjectCache, build
from benchmarks.gpus.rows import LONG_SCANS
from schedule import Schedule, step_memory
from tensorir import Gpu, PrimFunc, Target, Var, ops, reference, te
from tensorir.dtype import itemsize

EMULATOR = "cuda-emulator -arch=sm_90a"
CHECKED = "-check=races,uninitialised"
DEVICE = Gpu(Target.parse(EMULATOR))


def program(make: Callable[..., Any], *shapes: tuple[Any, ...], dtype: str = "float32") -> PrimFunc:
    """The function whose result `make` computes of inputs of these shapes."""
    inputs = [te.placeholder(shape, dtype, name=f"x{n}") for n, shape in enumerate(shapes)]
    return te.create_prim_func([*inputs, make(*inputs)], name="program")


def planned(func: PrimFunc) -> PlannedSketch:
    """What the default schedule is built of."""
    return default_sketch(sketches(func, DEVICE, "reassociated"), ())


def names(sketch: PlannedSketch) -> list[str]:
    """Those of its plans, in program order."""
    return [plan.name for plan in sketch.plans][::-1]


def plans(func: PrimFunc) -> list[str]:
    """The names of the plans of the default schedule, in program order."""
    return names(planned(func))


def arrays(func: PrimFunc, size: int = 7) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [[size if isinstance(d, Var) else d.value for d in p.shape] for p in func.inputs]
    return [rng.integers(-4, 5, shape).astype(p.dtype) for p, shape in zip(func.inputs, shapes)]


def right(func: PrimFunc, sch: Schedule, cache: ObjectCache, size: int = 7) -> None:
    """The schedule computes what the definition does, and no check has a report."""
    given = arrays(func, size)
    kernel = build(sch, f"{EMULATOR} {CHECKED}", cache=cache)
    found = kernel(*given)
    results = found if isinstance(found, tuple) else (found,)
    for one, wanted in zip(results, reference(func, *given), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-4)


def softmax(x: Any) -> Any:
    return ops.softmax(x, name="S")


def by_norm(x: Any) -> Any:
    axes = [te.reduce_axis(extent, name=f"k{n}") for n, extent in enumerate(x.shape)]
    total = te.compute((), lambda: te.sum(x[tuple(axes)] * x[tuple(axes)], axes), name="total")
    return te.compute(x.shape, lambda *at: x[at] / te.sqrt(total[()] + 1.0), name="S")


RULED = {
    "softmax": (program(softmax, (70, 300)), ["chain"]),
    "softmax with one statistic of two values": (
        ops.prim_func("softmax", 9), ["chain"],
    ),
    "softmax along columns": (
        program(lambda x: ops.softmax(x, axis=0, name="S"), (70, 50)), ["chain"],
    ),
    "softmax in the middle": (
        program(lambda x: ops.softmax(x, axis=1, name="S"), (3, 21, 40)), ["chain"],
    ),
    "softmax of a vector": (program(softmax, (3001,)), ["chain"]),
    "argmax of a vector": (program(lambda x: ops.argmax(x, 0, name="S"), (77,)), ["chain"]),
    "a matrix by its norm": (program(by_norm, (17, 33)), ["chain"]),
    "rows that are parts of an axis": (
        program(lambda x: ops.group_norm(x, groups=4, name="S"), (2, 8, 6, 10)), ["chain"],
    ),
    "rows that are parts of an axis, scaled by channel": (
        program(
            lambda x, a, b: ops.group_norm(x, a, b, groups=4, name="S"), (2, 8, 6, 10), (8,), (8,),
        ), ["chain"],
    ),
    "row sums": (program(lambda x: ops.sum(x, (1,), name="S"), (70, 300)), ["rows"]),
    "column sums": (program(lambda x: ops.sum(x, (0,), name="S"), (300, 70)), ["columns"]),
    "one value": (program(lambda x: ops.sum(x, (0,), name="S"), (5000,)), ["rows"]),
    "transpose": (program(lambda x: ops.transpose(x, (1, 0), name="S"), (70, 50)), ["turned"]),
    "short channels last": (
        program(lambda x: ops.transpose(x, (0, 2, 3, 1), name="S"), (2, 3, 7, 20)), ["boxes"],
    ),
    "short channels first": (
        program(lambda x: ops.transpose(x, (0, 3, 1, 2), name="S"), (2, 7, 20, 3)), ["boxes"],
    ),
    "what lies between neighbours": (
        program(lambda x: ops.space_to_depth(x, 2, name="S"), (2, 2, 4, 140)), ["boxes"],
    ),
    "relu": (program(lambda x: ops.relu(x, name="S"), (70, 50)), ["elementwise"]),
    "rank five": (program(lambda x: ops.relu(x, name="S"), (3, 2, 3, 3, 7)), ["elementwise"]),
    "argmax": (program(lambda x: ops.argmax(x, 1, name="S"), (9, 300)), ["chain"]),
    "running sums": (
        program(lambda x: ops.cumsum(x, 1, name="S"), (4, 9)), ["scan"],
    ),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", RULED)
def test_each_family_has_its_rule_and_is_right(name, cache):
    func, expected = RULED[name]
    sketch = planned(func)
    assert names(sketch) == expected
    right(func, sketch.build(sketch.values()), cache)


@pytest.mark.parametrize(
    ("shape", "axes", "plan"),
    [
        ((1 << 22,), (0,), "few_values"),
        ((3, 1 << 20), (1,), "few_values"),
        ((1 << 16, 1 << 10), (1,), "rows"),
        ((1 << 10, 1 << 16), (0,), "columns"),
        ((1 << 16, 64, 64), (0, 2), "few_values"),
        ((4096, 4096, 128), (0, 1), "columns"),
    ],
)
def test_sizes_decide_how_terms_are_shared(shape, axes, plan):
    assert plans(program(lambda x: ops.sum(x, axes, name="S"), shape)) == [plan]


def test_a_vector_is_one_row():
    """Read and written once by one block of threads; a long one is read for its maximum, for its
    sum and for the result, which was seven kernels and 3.25 times the least."""
    (work,) = works_of(default_schedule(program(softmax, (8000,)), EMULATOR).func, DEVICE)
    assert work.sectors * Gpu.sector_bytes == work.bytes == 2 * 4 * 8000
    works = works_of(default_schedule(program(softmax, (1 << 21,)), EMULATOR).func, DEVICE)
    assert sum(work.sectors for work in works) * Gpu.sector_bytes <= 2.1 * 2 * 4 * (1 << 21)


def norm(make: Callable[..., Any], rows: int, columns: int, vectors: int) -> PrimFunc:
    """A norm with `vectors` of scale or shift, which are read for all rows alike."""
    shapes = [(rows, columns), *[(columns,)] * vectors]
    return program(lambda *given: make(*given, name="S"), *shapes)


n = te.var("n")
ANY = {
    "relu of no rows": program(lambda x: ops.relu(x, name="S"), (0, 5)),
    "one element": program(lambda x: ops.relu(x, name="S"), (1,)),
    "sum of one": program(lambda x: ops.sum(x, (1,), name="S"), (1, 1)),
    "sum of none": program(lambda x: ops.sum(x, (1,), name="S"), (3, 0)),
    "softmax of one": program(softmax, (37, 1)),
    "primes": program(softmax, (11, 131)),
    "norm in turns": norm(ops.layer_norm, 1021, 37, 2),
    "rows in all of shared memory": program(softmax, (2, 33003)),
    "symbolic norm": program(
        lambda x, g, b: ops.layer_norm(x, g, b, name="S"), (n, 64), (64,), (64,)
    ),
    "symbolic rows": program(softmax, (n, 65)),
    "symbolic columns": program(lambda x: ops.sum(x, (0,), name="S"), (40, n)),
    "symbolic elements": program(lambda x: ops.relu(x, name="S"), (n, 3, 5)),
    "symbolic transpose": program(lambda x: ops.transpose(x, (1, 0), name="S"), (n, 33)),
    "float64": program(softmax, (5, 70), dtype="float64"),
    "float16": program(lambda x: ops.sum(x, (1,), name="S"), (5, 64), dtype="float16"),
    "int8": program(lambda x: ops.transpose(x, (1, 0), name="S"), (40, 33), dtype="int8"),
    "all axes but one": program(lambda x: ops.sum(x, (0, 2), name="S"), (9, 5, 33)),
    "few columns": program(lambda x: ops.mean(x, (0, 1), name="S"), (17, 131, 3)),
    "few columns of halves": program(
        lambda x: ops.max(x, (1,), name="S"), (2, 517, 7, 1), dtype="float16"
    ),
    "long rows": program(softmax, (2, 32771)),
    "one long row": norm(ops.layer_norm, 1, 1 << 15, 2),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ANY)
def test_any_extent_and_type(name, cache):
    right(ANY[name], default_schedule(ANY[name], EMULATOR), cache, size=19)


def least(func: PrimFunc) -> float:
    """Transactions that read each input and write each output once."""
    sizes = [np.prod([d.value for d in p.shape]) * itemsize(p.dtype) for p in func.params]
    return float(sum(sizes)) / 32


MOVED = {
    "elementwise": program(lambda a, b: ops.add(a, b, name="S"), (64, 1000), (64, 1000)),
    "elementwise, 2^32 elements": program(lambda a: ops.relu(a, name="S"), (1 << 16, 1 << 16)),
    "float16": program(lambda a: ops.relu(a, name="S"), (64, 1000), dtype="float16"),
    "elementwise, odd": program(lambda a: ops.relu(a, name="S"), (7, 13, 501)),
    "bias": program(lambda a, b: ops.add(a, b, name="S"), (4096, 1024), (1024,)),
    "bias of channels last": program(
        lambda a, b: ops.add(a, b, name="S"), (8, 56, 56, 64), (64,)
    ),
    "bias of channels first": program(
        lambda a, b: ops.add(a, b, name="S"), (8, 64, 56, 56), (64, 1, 1)
    ),
    "the same matrix in a batch": program(
        lambda a, b: ops.add(a, b, name="S"), (32, 128, 256), (128, 256)
    ),
    "reshape": program(lambda a: ops.reshape(a, (300, 128), name="S"), (600, 64)),
    "transpose": program(lambda a: ops.transpose(a, (1, 0), name="S"), (512, 1024)),
    "permutation": program(lambda a: ops.transpose(a, (2, 0, 1), name="S"), (8, 64, 96)),
    "channels last": program(lambda a: ops.transpose(a, (0, 2, 3, 1), name="S"), (8, 3, 96, 224)),
    "channels first": program(lambda a: ops.transpose(a, (0, 3, 1, 2), name="S"), (8, 96, 224, 3)),
    "space to depth": program(lambda a: ops.space_to_depth(a, 2, name="S"), (4, 64, 64, 128)),
    "row sums": program(lambda a: ops.sum(a, (1,), name="S"), (512, 1024)),
    "long rows": program(lambda a: ops.sum(a, (1,), name="S"), (300, 40000)),
    "column sums": program(lambda a: ops.sum(a, (0,), name="S"), (2048, 512)),
    "one value": program(lambda a: ops.sum(a, (0,), name="S"), (1 << 22,)),
    "all axes but one": program(lambda a: ops.sum(a, (0, 2), name="S"), (64, 64, 256)),
    "argmax": program(lambda a: ops.argmax(a, 1, name="S"), (512, 1024)),
    "softmax, 1024 columns": program(softmax, (4096, 1024)),
    "softmax, 16384 columns": program(softmax, (64, 1 << 14)),
    "softmax, 32768 columns": program(softmax, (300, 1 << 15)),
    "softmax, 50000 columns": program(softmax, (300, 50000)),
    "layer norm, 16384 columns": norm(ops.layer_norm, 1 << 13, 1 << 14, 2),
    "softmax along columns": program(lambda a: ops.softmax(a, axis=0, name="S"), (256, 512)),
    "layer norm": norm(ops.layer_norm, 4096, 1024, 2),
    "layer norm, many short rows": norm(ops.layer_norm, 1 << 16, 256, 2),
    "layer norm, 8192 columns": norm(ops.layer_norm, 1 << 14, 1 << 13, 2),
    "rms norm, 1000 columns": norm(ops.rms_norm, 9973, 1000, 1),
    "rms norm, 5120 columns": norm(ops.rms_norm, 1 << 14, 5120, 1),
    "softmax, 50257 columns": program(softmax, (300, 50257)),
    "layer norm, 4099 columns": norm(ops.layer_norm, 4096, 4099, 2),
    "sums of three columns": program(lambda a: ops.sum(a, (0,), name="S"), (1 << 20, 3)),
    "sums of ten columns": program(lambda a: ops.sum(a, (0, 1, 3), name="S"), (9, 99999, 10, 1)),
    "sums of columns of several axes": program(
        lambda a: ops.sum(a, (0,), name="S"), (9999, 8, 15, 2), dtype="float16"
    ),
    "short rows behind others": program(
        lambda a: ops.softmax(a, 2, name="S"), (3, 15569, 5), dtype="float16"
    ),
    "sums of short rows side by side": program(
        lambda a: ops.sum(a, (2,), name="S"), (3, 5189, 7, 4)
    ),
    "softmax along few elements of few columns": program(
        lambda a: ops.softmax(a, 2, name="S"), (3, 15569, 5, 4), dtype="float16"
    ),
    "row sums, 1023 columns": program(lambda a: ops.sum(a, (1,), name="S"), (65536, 1023)),
    "argmax, 1009 columns": program(lambda a: ops.argmax(a, 1, name="S"), (8192, 1009)),
    "log-softmax": program(lambda a: ops.log_softmax(a, name="S"), (512, 2048)),
    "logsumexp": program(lambda a: ops.logsumexp(a, (1,), name="S"), (512, 2048)),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MOVED)
def test_memory_is_read_and_written_once(name):
    """By the estimate, which counts what the emulator does; and without conflicts of banks."""
    func = MOVED[name]
    works = works_of(default_schedule(func, EMULATOR).func, DEVICE)
    assert sum(work.sectors for work in works) <= 1.05 * least(func)
    assert sum(work.wavefronts for work in works) <= 1.01 * sum(work.free for work in works)
    assert min(work.occupancy(DEVICE) for work in works) >= 0.5


def normed(x: Any) -> Any:
    """Each channel, the last dimension, over all others."""
    *over, channels = x.shape
    k, q = ([te.reduce_axis(n) for n in over] for _ in range(2))
    total = te.compute((channels,), lambda c: te.sum(x[(*k, c)], axis=k))
    square = te.compute((channels,), lambda c: te.sum(x[(*q, c)] * x[(*q, c)], axis=q))
    return te.compute(x.shape, lambda *i: (x[i] - total[i[-1]]) * te.rsqrt(square[i[-1]] + 1.0))


def softmax_of_all(x: Any) -> Any:
    """As if all elements were one row."""
    k, q = ([te.reduce_axis(n) for n in x.shape] for _ in range(2))
    top = te.compute((), lambda: te.max(x[tuple(k)], axis=k))
    power = te.compute(x.shape, lambda *i: te.exp(x[i] - top[()]))
    total = te.compute((), lambda: te.sum(power[tuple(q)], axis=q))
    return te.compute(x.shape, lambda *i: power[i] / total[()])


LONG = {
    "softmax": program(softmax, (4, 1 << 20)),
    "softmax of a matrix": program(softmax_of_all, (3001, 1007)),
    "softmax of one row": program(softmax, (1, 1 << 20)),
    "layer norm": norm(ops.layer_norm, 8, 1 << 20, 2),
    "log-softmax, odd": program(lambda a: ops.log_softmax(a, name="S"), (3, (1 << 20) - 1)),
    "argmax": program(lambda a: ops.argmax(a, 1, name="S"), (3, 1 << 20)),
    "sums of one row": program(lambda a: ops.sum(a, (1,), name="S"), (1, 1 << 20)),
    "softmax along few columns": program(lambda a: ops.softmax(a, axis=0, name="S"), (1 << 16, 64)),
    "norm of channels, last": program(normed, (32, 56, 56, 64)),
    "norm of few channels, last": program(normed, (1024, 32, 32, 10)),
}


@pytest.mark.parametrize("name", LONG)
def test_few_long_rows_have_many_blocks_each(name):
    """Fewer rows than multiprocessors: what reads them has a block for each of most of these."""
    works = works_of(default_schedule(LONG[name], EMULATOR).func, DEVICE)
    large = [work for work in works if work.sectors > 0.1 * least(LONG[name])]
    assert large and min(work.blocks * work.threads for work in large) > 2**14
    card = DEVICE.architecture.card
    micros = 6 + 3 * len(works) + 3 * 32e-3 * least(LONG[name]) / card.bandwidth
    assert cycles(works, DEVICE) <= 1e3 * micros * card.clock


def decay(m: int, n: int, shift: int = 0) -> PrimFunc:
    """s[t, i] = s[t - 1, i + shift] * s[t - 1, i + shift] + x[t, i], which does not associate."""
    x, state = te.placeholder((m, n), name="x"), te.state((m, n), name="state")
    first = te.compute((1, n), lambda _, i: x[0, i], name="first")

    def step(t: Any, i: Any) -> Any:
        before = state[t - 1, (i + shift) % n] if shift else state[t - 1, i]
        return before * before * 0.01 + x[t, i]

    last = te.compute((m, n), step, name="step")
    return te.create_prim_func([x, te.scan(first, last, state, name="s")], name="decay")


SCANS = {
    "columns": program(lambda a: ops.cumsum(a, 0, name="S"), (37, 45)),
    "rows backwards": program(
        lambda a: ops.cumsum(a, 1, exclusive=True, reverse=True, name="S"), (5, 19, 3)
    ),
    "products of halves": program(lambda a: ops.cumprod(a, 0, name="S"), (5, 40), dtype="float16"),
    "one step": program(lambda a: ops.cumsum(a, 0, name="S"), (2, 3)),
    "symbolic steps": program(lambda a: ops.cumsum(a, 0, name="S"), (n, 3)),
    "what does not associate": decay(21, 35),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SCANS)
def test_rows_of_scans_are_independent(name, cache):
    """A thread has a row, and what steps read is fetched for some of them at once."""
    func = SCANS[name]
    sketch = planned(func)
    assert "recurrence" in names(sketch)
    assert any("each thread takes a row through all of them" in note for note in sketch.notes())
    right(func, sketch.build(sketch.values()), cache, size=6)


SHARED = {
    "rows": program(lambda a: ops.cumsum(a, 1, name="S"), (7, 1003)),
    "symbolic rows": program(lambda a: ops.cumsum(a, 1, exclusive=True, name="S"), (n, 5)),
    "one row": program(lambda a: ops.relu(ops.cumsum(a, reverse=True)), (50,)),
    "products of halves": program(lambda a: ops.cumprod(a, name="S"), (3, 40), dtype="float16"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SHARED)
def test_rows_of_associative_scans_have_many_threads(name, cache):
    sketch = planned(SHARED[name])
    assert names(sketch) == ["scan"]
    right(SHARED[name], sketch.build(sketch.values()), cache, size=6)


def test_threads_of_scans_cost_few_steps():
    """Twice the threads have one more stage of totals: it takes its place in memory, and its loop
    over blocks; those over threads are bound together."""
    traces = [
        default_schedule(program(ops.cumsum, (3, 9 * threads)), EMULATOR).trace
        for threads in (128, 256)
    ]
    few, more = ([step.name for step in trace.instructions] for trace in traces)
    assert "merge" in few and len(more) - len(few) <= 2


@pytest.mark.parametrize(
    ("shape", "axis", "tried"),
    [((65536, 1024), 1, 1), ((65536, 1024), 0, 1), ((256, 1 << 20), 1, 2)],
    ids=["rows", "columns", "few"],
)
def test_what_leaves_little_is_not_followed_by_others(shape, axis, tried, monkeypatch):
    """Rows take hardly longer than their bytes by the first likely point; of columns formulas say
    where multiprocessors wait, but not whether few long rows are to have a second kernel: that
    leaves more than little, however long its kernels take."""
    made, make = [], MovePlan._made
    lowered = []
    monkeypatch.setattr(
        "autotune.gpu.count.works_of", lambda *args: lowered.append(args) or works_of(*args)
    )

    def counted(self, point):
        made.append(point)
        return make(self, point)

    monkeypatch.setattr(MovePlan, "_made", counted)
    plans(program(lambda a: ops.sum(a, (axis,), name="S"), shape))
    assert len(made) == tried and len(lowered) <= 1


@pytest.mark.parametrize("shape", [(2, 2677), (41, 31), (3, 21)])
def test_scans_of_few_rows_are_made_once(shape, monkeypatch):
    """Their rows begin within sectors: what does not copy them from there waits as often."""
    made, make = [], MovePlan._made
    monkeypatch.setattr(MovePlan, "_made", lambda *args: made.append(args[1]) or make(*args))
    (plan,) = planned(program(ops.cumsum, shape)).plans
    assert len(plan.likely) > 1 and made == [plan.likely[0]]
    times = [plan.cycles({plan.key(name): v for name, v in p.items()}) for p in plan.likely]
    assert times[0] <= plan.close * min(times)


def test_scans_keep_to_what_a_device_has():
    """OpenCL promises blocks of 256 threads and 32 KiB of shared memory."""
    small = Gpu(Target.parse("opencl"))
    for kind in ("float32", "float64"):
        func = program(ops.cumsum, (3, 20000), dtype=kind)
        sch = default_schedule(func, "opencl")
        assert "scan_256x" in str(sch.func)
        for room in rooms_of(sch.func, small):
            assert room.threads <= small.threads_per_block and room.shared <= small.shared_most


@pytest.mark.parametrize(("shape", "most"), [
    ((4096, 1024), 1.0), ((1 << 16, 1003), 1.02), ((1 << 16, 6), 1.0),
    ((1 << 22,), LONG_SCANS.most),
])  # fmt: skip
def test_scans_read_and_write_rows_once(shape, most):
    """But where blocks have a part of a row each: these are read twice."""
    func = program(ops.cumsum, shape)
    works = works_of(default_schedule(func, EMULATOR).func, DEVICE)
    assert sum(work.sectors for work in works) <= most * least(func)


@pytest.mark.parametrize("axis", [0, 1])
def test_many_rows_of_a_scan_take_about_as_long_as_memory(axis):
    """Whether neighbours in memory are rows, or follow each other."""
    func = program(lambda a: ops.cumsum(a, axis, name="S"), (4096, 4096))
    works = works_of(default_schedule(func, EMULATOR).func, DEVICE)
    card = DEVICE.architecture.card
    micros = 32e-3 * least(func) / card.bandwidth
    assert cycles(works, DEVICE) <= (1.6, 1.2)[axis] * 1e3 * micros * card.clock


def test_what_no_rule_takes_says_so():
    """Rows that read each other's states: nothing but the elements of a step is independent."""
    sketch = planned(decay(5, 6, shift=1))
    assert any("what is independent in it is bound when it is lowered" in n for n in sketch.notes())


def test_a_program_of_several_kernels_is_made_by_what_its_plans_tried(monkeypatch):
    x, w, v = (te.placeholder((64, 64), name=name) for name in "xwv")
    y = ops.softmax(ops.matmul(ops.gelu(ops.matmul(x, w, name="first")), v, name="second"))
    sketch = planned(te.create_prim_func([x, w, v, y]))
    values = sketch.values()
    assert [plan.name for plan in sketch.plans] == ["chain", "product", "product"]
    again: list[str] = []

    run = step_memory.run

    def counted(state: Any, name: str, args: dict[str, Any]) -> object:
        again.append(name)
        return run(state, name, args)

    monkeypatch.setattr(step_memory, "run", counted)
    monkeypatch.setattr("autotune.gpu.count.lower", lambda *step: again.append("lower"))
    sketch.build(values)
    assert {*again} <= {"merge"}  # which is asked for when all of them are there
