"""Sums of which data tell the elements, such as histograms and gradients of tables: each term is
added where it belongs (`scatter`), and not every element asked for it.

Threads share the rows of terms, where these are long; else each adds up its part of the terms.
"""

from __future__ import annotations

from math import prod

from autotune.rules.effort import one_thread
from autotune.rules.group import Group, attempt, bytes_of, instances, size, stores_of
from autotune.rules.lanes import is_reduce_loop
from autotune.rules.nest import finish_nest, fuse_outer, loops_by_kind
from autotune.rules.plan import OpenPlan, Values, threads, tried
from schedule import Schedule, library
from tensorir import BinOp, Cpu, IterKind, dtype, int_value, walk_exprs, written

OVERLAP = 0.25
"""Share of the time until a sum can be added to that a term takes: most are for other sums."""


class ScatterPlan(OpenPlan):
    """The terms in their order; threads, if any, share their rows."""

    name, numerics, parts = "scatter", "bitwise", False

    def apply(self, sch: Schedule, values: Values) -> None:
        block, parallel, lanes = self.group.block, self.parallel(values), self.cpu.lanes()
        library.copy_ahead(sch, self.group.padding, parallel)
        made, shared = block, []
        if parallel:
            rows, terms = loops_by_kind(sch, block)
            cut = terms[0] if self.parts else rows[-1]
            shared = [sch.split(cut, [self.cpu.threads, None])[0]]
            made = str(sch.rfactor(block, shared[0], 0)) if self.parts else block
        loops, node = [x for x in sch.get_loops(made) if x not in shared], sch.state.block(made)
        sch.reorder(*shared, *sorted(loops, key=lambda x: not is_reduce_loop(node, x)))
        for name in (str(sch.scatter(made)), made, *filter(None, [self.group.epilogue])):
            if not is_reduce_loop(sch.state.block(name), sch.get_loops(name)[-1]):
                finish_nest(sch, name, self.cpu, unroll_rows=0)
        for loop in shared:
            sch.parallel(loop)
        if made != block:
            *elements, last = sch.get_loops(block)
            outer, inner = sch.split(fuse_outer(sch, elements), [None, 4 * lanes])
            sch.reorder(outer, last, inner)
            sch.vectorize(inner)


class PartsPlan(ScatterPlan):
    """Each thread has a part of the terms, and sums of its own."""

    name, numerics, parts = "scatter_parts", "reassociated", True


def scatter_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[ScatterPlan]:
    """Plans for a sum of which data tell the elements, if that takes less than asking each."""
    block = sch.state.block(group.block)
    nodes = (e for s in stores_of(block) if block.is_reduction for e in walk_exprs(s.value))
    asks = any(isinstance(e, BinOp) and e.op == "==" and e.has_loads for e in nodes)
    if not asks or not attempt({}, "", (made := sch.copy()).scatter, block.name):
        return []
    rows = [made.state.loop(x).extent for x in loops_by_kind(made, block.name)[0]]
    used = max(1, sum(map(bytes_of, written(block))))
    share = prod(map(size, rows)) / max(1, instances(block, IterKind.SPATIAL))
    lines = max(1.0, used * share / cpu.line_bytes) * (1 + cpu.line_bytes * cpu.lines(used) / used)
    each = cpu.costs.latency * max(OVERLAP, share) + lines
    cycles = instances(block, IterKind.REDUCE) * each + cpu.lines(used)
    if cycles > one_thread([block], cpu):
        return []
    merge = 4 * cpu.threads * used / cpu.vector_bytes / cpu.costs.ports  # cleared, written, read
    found = {"threads": threads(cpu, cycles - merge, sch, block)}
    if rows and (int_value(rows[-1]) or 0) >= cpu.threads * cpu.lanes():
        return [tried(sch, ScatterPlan(group, cpu, found, cycles))]
    plans = [ScatterPlan(group, cpu, {"threads": (("serial",), "serial")}, cycles)]
    if cpu.threads > 1 and 2 * merge < cycles:
        plans.insert(0, PartsPlan(group, cpu, found, cycles))
        if not any(dtype.is_float(b.dtype) for b in written(block)):
            plans[0].__dict__["numerics"] = "bitwise"
    return [tried(sch, plan) for plan in plans]
