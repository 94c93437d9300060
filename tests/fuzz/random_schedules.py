"""Random workloads and random legal requests, shared by the property tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import layout_requests
import loop_requests
from prepared_requests import PREPARED

from schedule import Schedule, ScheduleError
from schedule.analysis.uses import read_by_others, readers, written
from tensorir import ForKind, PrimFunc, Seq, child_stmts, te

T = TypeVar("T")
Pick = Callable[[list[T]], T]
EXTENTS = [1, 2, 3, 4, 5, 7, 8, 11, 13]


def elementwise(n: int, m: int, _: int) -> PrimFunc:
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + a[i, j], name="C")
    return te.create_prim_func([a, c], name="elementwise")


def matmul_bias(n: int, m: int, r: int) -> PrimFunc:
    a = te.placeholder((n, r), name="A")
    b = te.placeholder((r, m), name="B")
    bias = te.placeholder((m,), name="bias")
    k = te.reduce_axis(r, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, m), lambda i, j: te.max(c[i, j] + bias[j], 0.0), name="D")
    return te.create_prim_func([a, b, bias, d], name="matmul_bias")


def padded_conv(n: int, m: int, r: int) -> PrimFunc:
    taps = min(r, 3)
    a = te.placeholder((n, m), name="A")
    w = te.placeholder((taps,), name="W")
    pad = te.compute(
        (n + taps, m),
        lambda i, j: te.if_then_else(te.all(i >= 1, i <= n), a[i - 1, j], 0.0),
        name="pad",
    )
    k = te.reduce_axis(taps, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(pad[i + k, j] * w[k], axis=k), name="conv")
    return te.create_prim_func([a, w, c], name="padded_conv")


def row_max(n: int, m: int, r: int) -> PrimFunc:
    a = te.placeholder((n, m, r), name="A")
    k = te.reduce_axis(m, name="k")
    q = te.reduce_axis(r, name="q")
    c = te.compute((n,), lambda i: te.max(a[i, k, q], axis=[k, q]), name="C")
    d = te.compute((n, m), lambda i, j: c[i] - a[i, j, 0], name="D")
    return te.create_prim_func([a, d], name="row_max")


def stencil(n: int, m: int, r: int) -> PrimFunc:
    """Sums of neighbouring rows of B."""
    taps = min(r, 4)
    a = te.placeholder((n + taps, m), name="A")
    b = te.compute((n + taps, m), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis(taps, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(b[i + k, j], axis=k), name="C")
    return te.create_prim_func([a, c], name="stencil")


def added_bias(n: int, m: int, r: int) -> PrimFunc:
    """A product, and a sum of its result and something else."""
    a = te.placeholder((n, r), name="A")
    b = te.placeholder((r, m), name="B")
    bias = te.placeholder((m,), name="bias")
    k = te.reduce_axis(r, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] + bias[j], name="D")
    return te.create_prim_func([a, b, bias, d], name="added_bias")


def images(n: int, m: int, r: int) -> PrimFunc:
    """A convolution of small images, which other algorithms take."""
    h, w, o = 3 + n % 3, 3 + m % 3, 1 + r % 2
    x = te.placeholder((1, 4, h, w), name="A")
    f = te.placeholder((o, 4, 3, 3), name="F")
    axes = [te.reduce_axis(size, name=name) for size, name in ((4, "c"), (3, "r"), (3, "s"))]

    def element(i: Any, j: Any, y: Any, z: Any) -> Any:
        c, r, s = axes
        return te.sum(x[i, c, y + r, z + s] * f[j, c, r, s], axis=axes)

    y = te.compute((1, o, h - 2, w - 2), element, name="conv")
    last = te.compute(y.shape, lambda *i: te.max(y[i], 0.0), name="relu")
    return te.create_prim_func([x, f, last], name="images")


def scaled(n: int, m: int, r: int) -> PrimFunc:
    """A sum of differences, of which one part is a product of several factors."""
    a, b = te.placeholder((n, r), name="A"), te.placeholder((r, m), name="B")
    s, k = te.placeholder((r,), name="S"), te.reduce_axis(r, name="k")

    def term(i: Any, j: Any) -> Any:
        return a[i, k] * b[k, j] * s[k] - b[k, j] * s[k]

    c = te.compute((n, m), lambda i, j: te.sum(term(i, j), axis=k), name="C")
    return te.create_prim_func([a, b, s, c], name="scaled")


def counted(n: int, m: int, r: int) -> PrimFunc:
    """Sums and rows of those that have a number, and what is made of them."""
    x, a = te.placeholder((n,), "int32", name="X"), te.placeholder((n, m), name="A")
    k = te.reduce_axis(n, name="k")

    def term(i: Any, j: Any) -> Any:
        return te.if_then_else(x[k] + 1 == i, a[k, j], 0.0)

    c = te.compute((r, m), lambda i, j: te.sum(term(i, j), axis=k), name="C")
    d = te.compute((r, m), lambda i, j: c[i, j] * 2.0, name="D")
    return te.create_prim_func([x, a, d], name="counted")


WORKLOADS = [
    elementwise, matmul_bias, padded_conv, row_max, stencil, added_bias, images, scaled, counted
]  # fmt: skip


@dataclass
class Stress:
    """Applies random requests to a schedule; `pick` chooses from a list."""

    pick: Pick[Any]
    asked: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    last: str = ""

    def workload(self) -> PrimFunc:
        make = self.pick(WORKLOADS)
        return make(*(self.pick(EXTENTS) for _ in range(3)))  # type: ignore[no-any-return]

    def run(self, sch: Schedule, steps: int) -> None:
        """Ask for `steps` primitives, now and then after steps that prepare for one."""
        for step in range(steps):
            name = self.pick(sorted(REQUESTS))
            if step == 0 and self.pick([True, False]):
                self.prepare(sch)  # before other steps stand in the way
            elif name in PREPARED and self.pick([True, False]):
                self.prepare(sch, name)
            else:
                arguments = REQUESTS[name](self, sch)
                if arguments is not None:
                    self.ask(sch, name, *arguments)

    def prepare(self, sch: Schedule, *names: str) -> None:
        """Ask for a primitive after the steps that it needs; for any that has a place here."""
        for name in names or [self.pick(sorted(PREPARED)) for _ in range(3)]:
            arguments = PREPARED[name](self, sch)
            if arguments is not None:
                self.ask(sch, name, *arguments)
                return

    def ask(self, sch: Schedule, name: str, *arguments: Any) -> bool:
        """Whether the request is accepted; a refused one must leave the schedule as it was."""
        self.asked[name] += 1
        before, trace = sch.func, sch.trace
        self.last = f"sch.{name}{arguments!r}"
        try:
            getattr(sch, name)(*arguments)
        except ScheduleError:
            assert sch.func is before, f"{self.last} was refused and changed the program"
            assert sch.trace is trace, f"{self.last} was refused and changed the trace"
            return False
        self.accepted[name] += 1
        return True

    def block(self, sch: Schedule) -> str:
        return self.pick(sch.get_blocks())

    def loops(self, sch: Schedule) -> list[str]:
        return list(sch.get_loops(self.block(sch)))

    def loop(self, sch: Schedule) -> str | None:
        loops = self.loops(sch)
        return self.pick(loops) if loops else None

    def one_loop(self, sch: Schedule) -> tuple[Any, ...] | None:
        loop = self.loop(sch)
        return None if loop is None else (loop,)

    def split(self, sch: Schedule) -> tuple[Any, ...] | None:
        loop = self.loop(sch)
        factors = self.pick([[None, 2], [None, 3], [2, None], [None, 2, 2], [None, 5], [None, 1]])
        return None if loop is None else (loop, factors)

    def fuse(self, sch: Schedule) -> tuple[Any, ...] | None:
        loops = self.loops(sch)
        if len(loops) < 2:
            return None
        start = self.pick(list(range(len(loops) - 1)))
        return tuple(loops[start : start + 2])

    def reorder(self, sch: Schedule) -> tuple[Any, ...] | None:
        loops = self.loops(sch)
        if len(loops) < 2:
            return None
        first = self.pick(loops)
        return first, self.pick([name for name in loops if name != first])

    def compute_at(self, sch: Schedule) -> tuple[Any, ...] | None:
        block = self.block(sch)
        users = sch.get_consumers(block)
        loops = sch.get_loops(self.pick(users)) if users else []
        return (block, self.pick(loops), self.pick([False, False, True])) if loops else None

    def reverse_compute_at(self, sch: Schedule) -> tuple[Any, ...] | None:
        block = self.block(sch)
        makers = sch.get_producers(block)
        loops = sch.get_loops(self.pick(makers)) if makers else []
        return (block, self.pick(loops), self.pick([False, False, True])) if loops else None

    def cache_write(self, sch: Schedule) -> tuple[Any, ...] | None:
        block = self.block(sch)
        return block, self.pick(range(len(written(sch.state.block(block))))), self.scope()

    def cache_read(self, sch: Schedule) -> tuple[Any, ...] | None:
        """For one block, or for several of those that read the buffer."""
        block = self.block(sch)
        found = read_by_others(sch.state.block(block))
        if not found:
            return block, 0, self.scope()
        buffer = self.pick(range(len(found)))
        users = readers(sch.state, found[buffer])
        if len(users) < 2 or self.pick([True, False]):
            return block, buffer, self.scope()
        others = [user for user in users if self.pick([True, True, False])]
        return block, buffer, self.scope(), others

    def scope(self) -> str:
        return self.pick(["local", "global", "shared"])

    def tensorize(self, sch: Schedule) -> tuple[Any, ...] | None:
        innermost = [sch.get_loops(block)[-1:] for block in sch.get_blocks()]
        loops = [sch.state.loop(name) for names in innermost for name in names]
        fitting = [loop.name for loop in loops if loop.const_extent == 4]
        names = fitting or [loop.name for loop in loops]
        return (self.pick(names), self.pick(["f32.fma_4", "f32.copy_4"])) if names else None

    def blockize(self, sch: Schedule) -> tuple[Any, ...] | None:
        """Seldom, since few primitives take what it makes."""
        return self.one_loop(sch) if self.pick([True, False, False, False]) else None

    def block_and_reader(self, sch: Schedule) -> tuple[Any, ...] | None:
        block = self.block(sch)
        users = sch.get_consumers(block)
        return (block, self.pick(users)) if users else None

    def block_and_loop(self, sch: Schedule) -> tuple[Any, ...] | None:
        block = self.block(sch)
        loops = sch.get_loops(block)
        return (block, self.pick(loops)) if loops else None

    def pipeline(self, sch: Schedule) -> tuple[Any, ...] | None:
        loops = [loop for block in sch.get_blocks() for loop in sch.get_loops(block)]
        several = [loop for loop in loops if isinstance(sch.state.loop(loop).body, Seq)]
        if not loops:
            return None
        loop = self.pick(several or loops)
        stages = [0]
        for _ in child_stmts(sch.state.loop(loop).body)[1:]:
            stages.append(stages[-1] + self.pick([0, 1, 1, 2]))
        return loop, stages

    def beside(self, sch: Schedule) -> tuple[Any, ...] | None:
        """A block that shares a loop with others, if there is one."""
        found = [
            block
            for block in sch.get_blocks()
            if any(len(sch.get_child_blocks(loop)) > 1 for loop in sch.get_loops(block))
        ]
        return (self.pick(found or sch.get_blocks()),)

    def in_lanes(self, sch: Schedule) -> tuple[Any, ...] | None:
        """A block in a vectorized loop, if there is one."""
        found = [
            block
            for block in sch.get_blocks()
            if any(f.kind is ForKind.VECTORIZED for f in sch.state.loops_around(block))
        ]
        return (self.pick(found or sch.get_blocks()),)

    def prefetch(self, sch: Schedule) -> tuple[Any, ...] | None:
        block = self.block(sch)
        loops = sch.get_loops(block)
        return (block, 0, self.pick(loops), self.pick([1, 2])) if loops else None

    def spread_prefetch(self, sch: Schedule) -> tuple[Any, ...] | None:
        block = self.block(sch)
        loops = sch.get_loops(block)
        if not loops:
            return None
        loop = self.pick(loops)
        names, state = sch.state.loop_names(), sch.state
        inside = [n for n in names if any(f.name == loop for f in state.loops_outside(n))]
        return (block, 0, loop, self.pick(inside or names), self.pick([0, 1]))


REQUESTS: dict[str, Callable[[Stress, Schedule], tuple[Any, ...] | None]] = {
    "split": Stress.split,
    "fuse": Stress.fuse,
    "reorder": Stress.reorder,
    "parallel": Stress.one_loop,
    "vectorize": Stress.one_loop,
    "unroll": Stress.one_loop,
    "compute_inline": lambda self, sch: (self.block(sch),),
    "compute_at": Stress.compute_at,
    "reverse_compute_at": Stress.reverse_compute_at,
    "reverse_compute_inline": lambda self, sch: (self.block(sch),),
    "fuse_reduction_epilogue": Stress.block_and_reader,
    "tensorize": Stress.tensorize,
    "blockize": Stress.blockize,
    "cache_read": Stress.cache_read,
    "cache_write": Stress.cache_write,
    "cache_value": layout_requests.cache_value,
    "decompose_reduction": Stress.block_and_loop,
    "rfactor": Stress.block_and_loop,
    "scatter": lambda self, sch: (self.block(sch),),
    "reindex": layout_requests.reindex,
    "decompose_padding": layout_requests.decompose_padding,
    "pad_einsum": layout_requests.pad_einsum,
    "use_algorithm": layout_requests.use_algorithm,
    "storage_align": layout_requests.storage_align,
    "swizzle": layout_requests.swizzle,
    "reassociate": layout_requests.reassociate,
    "regroup": layout_requests.regroup,
    "transform_layout": layout_requests.transform_layout,
    "transform_block_layout": layout_requests.transform_block_layout,
    "prefetch": Stress.prefetch,
    "spread_prefetch": Stress.spread_prefetch,
    "add_unit_loop": loop_requests.add_unit_loop,
    "partition": loop_requests.partition,
    "shift": loop_requests.shift,
    "merge": loop_requests.merge,
    "fission": loop_requests.fission,
    "run_before": loop_requests.run_before,
    "narrow": layout_requests.narrow,
    "annotate": loop_requests.annotate,
    "unannotate": loop_requests.unannotate,
    "bind": loop_requests.bind,
    "set_scope": loop_requests.set_scope,
    "sample_perfect_tile": loop_requests.sample_perfect_tile,
    "sample_categorical": loop_requests.sample_categorical,
    "sample_compute_location": loop_requests.sample_compute_location,
    "pipeline": Stress.pipeline,
    "rolling_buffer": Stress.beside,
    "double_buffer": Stress.beside,
    "stream": Stress.in_lanes,
}
