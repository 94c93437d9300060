"""Random schedules for GPUs: skeletons that real ones have, with random numbers and random steps.

Each step is asked for and may be refused; what is accepted has to keep its meaning, which
gpu_checks.py asks. A skeleton is drawn first, and now and then a step of any kind in between.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import loop_requests
from random_schedules import Stress, elementwise, padded_conv, row_max, stencil

from schedule import Schedule, ScheduleError
from tensorir import PrimFunc, TensorIRError, te

SIZES = [1, 2, 3, 4, 5, 7, 8, 9]
AXES = [
    "blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread.x",
    "vthread.y", "warp", "lane",
]  # fmt: skip
EXTRA: dict[str, Callable[[Stress, Schedule], tuple[Any, ...] | None]] = {
    "split": Stress.split,
    "fuse": Stress.fuse,
    "reorder": Stress.reorder,
    "compute_at": Stress.compute_at,
    "reverse_compute_at": Stress.reverse_compute_at,
    "decompose_reduction": Stress.block_and_loop,
    "merge": loop_requests.merge,
    "fission": loop_requests.fission,
    "partition": loop_requests.partition,
    "shift": loop_requests.shift,
    "set_scope": loop_requests.set_scope,
    "unroll": Stress.one_loop,
    "vectorize": Stress.one_loop,
    "bind": lambda stress, sch: (stress.pick(stress.loops(sch) or ["i"]), stress.pick(AXES)),
    "cache_read": lambda stress, sch: (stress.block(sch), 0, stress.pick(["shared", "local"])),
    "cache_write": lambda stress, sch: (stress.block(sch), 0, stress.pick(["shared", "local"])),
}


class Trace:
    """A schedule in the making; `ask` returns None where a step is refused."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.more = random.Random(f"{seed} more")  # of later additions: the others stay as drawn
        self.stress = Stress(self.rng.choice)
        self.asked: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        self.symbolic = self.rng.random() < 0.15
        skeleton = self.rng.choice(SKELETONS)
        self.name = skeleton.__name__
        self.sch = Schedule(skeleton.program(self))  # type: ignore[attr-defined]
        skeleton(self)
        for _ in range(self.rng.choice([0, 0, 1, 2, 4])):
            self.extra()

    def size(self) -> int:
        return self.rng.choice(SIZES)

    def ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self.asked[name] += 1
        if any(arg is None for arg in args):
            return None
        try:
            made = getattr(self.sch, name)(*args, **kwargs)
        except (ScheduleError, TensorIRError):
            return None
        self.accepted[name] += 1
        return True if made is None else made

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def extra(self) -> None:
        """Any step, now and then."""
        name = self.rng.choice(sorted(EXTRA))
        args = EXTRA[name](self.stress, self.sch)
        if args is not None:
            self.ask(name, *args)

    def loops(self, block: str) -> list[Any]:
        return list(self.sch.get_loops(block))


def _product(trace: Trace) -> PrimFunc:
    n: Any = te.var("n") if trace.symbolic else trace.size()
    m, r = trace.size(), trace.size()
    a, b = te.placeholder((n, r), name="A"), te.placeholder((r, m), name="B")
    k = te.reduce_axis(r, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    if trace.maybe(0.7):
        return te.create_prim_func([a, b, c], name="product")
    d = te.compute((n, m), lambda i, j: te.max(c[i, j] + b[0, j], 0.0), name="D")
    if trace.more.random() < 0.7:
        return te.create_prim_func([a, b, d], name="product_epilogue")
    alpha, beta = te.var("alpha", "float32"), te.var("beta", "float16")
    e = te.compute((n, m), lambda i, j: alpha * d[i, j] + te.cast(beta, "float32"), name="E")
    return te.create_prim_func([alpha, a, b, beta, e], name="product_scaled")


def tiled(trace: Trace) -> None:
    """Accumulators across k, cooperative copies, registers, pipelines; any of it left out."""
    sch, pick = trace.sch, trace.rng.choice
    store = trace.ask("cache_write", "C", 0, pick(["local", "local", "shared"]))
    i, j, k = sch.get_loops("C")
    tile, own = pick([1, 2, 3]), pick([1, 2, 3])
    virtual = trace.maybe(0.3)
    parts = [None, 2, own, tile] if virtual else [None, own, tile]
    rows, columns = trace.ask("split", i, parts), trace.ask("split", j, parts)
    steps = trace.ask("split", k, [None, pick([1, 2, 3])])
    if not (rows and columns and steps):
        return
    inner = [*rows[1:-1], *columns[1:-1]]
    if not trace.ask(
        "reorder", rows[0], columns[0], steps[0], *inner, steps[1], rows[-1], columns[-1]
    ):
        return
    trace.ask("bind", rows[0], "blockIdx.y")
    trace.ask("bind", columns[0], "blockIdx.x")
    axes = ["vthread.y", "threadIdx.y"] if virtual else ["threadIdx.y"]
    axes += [axis.replace("y", "x") for axis in ("vthread.y", "threadIdx.y")[-len(axes) :]]
    groups = {axis.replace("vthread.x", "vthread.x"): [loop] for axis, loop in zip(axes, inner)}
    if store is not None and trace.ask("reverse_compute_at", store, columns[0]):
        _add_store(trace, store, parts, groups)
    if trace.maybe(0.5):
        init = trace.ask("decompose_reduction", "C", steps[0])
        if init:
            for loops, loop in zip(groups.values(), trace.loops(init)[2:]):
                loops.append(loop)
    for axis, loops in groups.items():
        trace.ask("bind", loops, axis)
    for name in ("A", "B"):
        _copies(trace, name, steps, own)
    if trace.more.random() < 0.4:
        for name in ("A", "B"):
            _through_registers(trace, f"{name}_shared", steps[0])
    if trace.maybe(0.4) and steps[0] in sch.state.loop_names():
        count = len(getattr(sch.state.loop(steps[0]).body, "stmts", (1,)))
        stages, order = pick([[0] * (count - 1) + [1], [*range(count)]]), [*range(count)]
        orders = [None, [*order[:-2], *order[:-3:-1]], [*order[::2], *order[1::2]]]
        kept = trace.more.choice(orders)
        trace.ask("pipeline", steps[0], stages, kept)


def _through_registers(trace: Trace, copy: str, step: Any) -> None:
    """Loads of a tile in loops of their own, from registers to shared memory afterwards."""
    if copy not in trace.sch.get_blocks():
        return
    own = trace.loops(copy)
    if step in own and own[-1] != step:
        registers = trace.ask("cache_read", copy, 0, "local")
        if trace.ask("compute_at", registers, own[-1]):
            trace.ask("fission", own[own.index(step) + 1], registers)


def _add_store(trace: Trace, store: str, parts: list[Any], groups: dict[str, list[Any]]) -> None:
    own = trace.loops(store)[2:]
    made = [trace.ask("split", loop, parts) for loop in own]
    if len(made) == 2 and all(made):
        inner = [*made[0][1:-1], *made[1][1:-1]]
        if trace.ask("reorder", made[0][0], made[1][0], *inner, made[0][-1], made[1][-1]):
            for loops, loop in zip(groups.values(), inner):
                loops.append(loop)


def _copies(trace: Trace, name: str, steps: list[Any], own: int) -> None:
    pick = trace.rng.choice
    copy = trace.ask("cache_read", "C", name, pick(["shared", "shared", "shared", "local"]))
    if not trace.ask("compute_at", copy, steps[0]):
        return
    if trace.maybe(0.8):
        threads = pick([None, {"threadIdx.y": own, "threadIdx.x": own}])
        trace.ask("cooperative_fetch", copy, threads, pick([1, 1, 2, 4]))
    if trace.maybe(0.3):
        trace.ask("swizzle", copy, f"{name}_shared", pick([1, 2, 3]), pick([0, 2]), pick([1, 3]))
    if trace.more.random() < 0.4:
        wide, run = trace.more.choice([(1, 2), (1, 4), (2, 2), (4, 2)]), trace.more.choice([1, 2])
        text = f"i, j: i, (j // {run} ^ i // {wide[0]} % {wide[1]}) * {run} + j % {run}"
        trace.ask("transform_layout", copy, f"{name}_shared", text)
    if trace.maybe(0.2):
        trace.ask("double_buffer", copy)
    if trace.maybe(0.3):
        registers = trace.ask("cache_read", "C", f"{name}_shared", "local")
        trace.ask("compute_at", registers, pick(trace.loops("C")))


def _rows(trace: Trace) -> PrimFunc:
    n: Any = te.var("n") if trace.symbolic else trace.size()
    m = trace.rng.choice([1, 5, 8, 33, 40])
    a = te.placeholder((n, m), name="A")
    k, q = te.reduce_axis(m, name="k"), te.reduce_axis(m, name="q")
    reduced = te.argmax if trace.more.random() < 0.3 else te.max
    best = te.compute((n,), lambda i: reduced(a[i, k], axis=k), name="M")

    def high(i: Any) -> Any:
        return best[i].astype("float32")

    total = te.compute((n,), lambda i: te.sum(a[i, q] - high(i), axis=q), name="S")
    d = te.compute((n, m), lambda i, j: a[i, j] * 2.0 - total[i] + high(i), name="D")
    return te.create_prim_func([a, d], name="rows")


def reductions(trace: Trace) -> None:
    """Statistics of rows by threads, warps and lanes, in loops of any order, used by all."""
    sch, pick = trace.sch, trace.rng.choice
    row = sch.get_loops("D")[0]
    per_row = trace.maybe(0.5)
    if not per_row:
        parts = trace.ask("split", row, [None, pick([1, 2])])
        row = parts[1] if parts else row
        trace.ask("bind", row, pick(["threadIdx.y", "threadIdx.z"]))
        trace.ask("bind", parts[0] if parts else None, "blockIdx.x")
    else:
        trace.ask("bind", row, pick(["blockIdx.x", "blockIdx.y"]))
    for block in ("S", "M"):
        if trace.maybe(0.9):
            trace.ask("set_scope", block, 0, pick(["shared", "local"]))
        if trace.maybe(0.95):
            trace.ask("compute_at", block, row)
    axes = pick([["threadIdx.x"], ["lane"], ["warp", "lane"], ["threadIdx.z", "threadIdx.x"]])
    sizes = {"lane": 32, "warp": 2}
    other = pick([2, 3, 4])
    for block in ("D", "S", "M"):
        if block not in sch.get_blocks() or not trace.maybe(0.9):
            continue
        factors = [None, *[sizes.get(axis, other) for axis in axes]]
        parts = trace.ask("split", trace.loops(block)[-1], factors)
        if parts and trace.maybe(0.4):
            shuffled = list(parts)
            trace.rng.shuffle(shuffled)
            trace.ask("reorder", *shuffled)
        for part, axis in zip(parts[1:] if parts else (), axes):
            trace.ask("bind", part, axis)


def kernels(trace: Trace) -> None:
    """Several kernels, or one that several became; loops bound as they come."""
    sch, pick = trace.sch, trace.rng.choice
    for block in list(sch.get_blocks()):
        if trace.maybe(0.3):
            loops = [x for other in sch.get_blocks() for x in sch.get_loops(other)]
            trace.ask("compute_at", block, pick(loops) if loops else None)
        if block not in sch.get_blocks():
            continue
        for loop in trace.loops(block)[:2]:
            split = trace.ask("split", loop, [None, pick([2, 3, 4])]) if trace.maybe(0.6) else None
            axis = pick(["blockIdx.x", "blockIdx.y"])
            trace.ask("bind", split[0] if split else loop, axis)
            if split:
                trace.ask("bind", split[1], pick(["threadIdx.x", "threadIdx.y", "vthread.x"]))
        if trace.maybe(0.3):
            trace.extra()


def _any(trace: Trace) -> PrimFunc:
    make = trace.rng.choice([elementwise, padded_conv, row_max, stencil])
    return make(*(trace.rng.choice([1, 2, 3, 4, 5, 7]) for _ in range(3)))


SKELETONS = [tiled, reductions, kernels]
tiled.program = _product  # type: ignore[attr-defined]
reductions.program = _rows  # type: ignore[attr-defined]
kernels.program = _any  # type: ignore[attr-defined]
