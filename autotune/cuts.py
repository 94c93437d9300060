"""What a task of a contraction takes, and the order of the loops in it."""

from __future__ import annotations

from itertools import combinations, product
from math import lcm, prod

from autotune.device import Cpu
from autotune.estimate.estimate import Estimate
from autotune.estimate.varied import varied
from schedule import library

TASKS = (1, 2, 4, 8)
"""Tasks for each thread that are tried."""

TALL = (4, 16)
"""Tiles of a task along a symbolic axis, besides one."""


def exact_axes(c: library.Contraction) -> list[bool]:
    """Whether tiles have to divide each axis: it is a part of a variable of the block."""
    return [not all(d.whole for d in axis.digits) for axis in c.axes]


def steps_of_largest(c: library.Contraction) -> list[int]:
    """The elements between neighbours of each axis in the largest operand; in the result where
    nothing is read."""
    far = max(c.operands, key=lambda o: prod(size or 1 for size in o.shape), default=c.result)
    return [abs(step or 0) for step in far.strides]


class Cuts:
    """The ways to cut a contraction into tasks, for plans that are one task."""

    def __init__(self, c: library.Contraction, cpu: Cpu, estimate: Estimate) -> None:
        self.c, self.cpu, self.estimate = c, cpu, estimate
        self.extents, self.exact = estimate.extents, exact_axes(c)
        self.whole = tuple(self.extents[n] for n in c.spatial)
        self.near = steps_of_largest(c).__getitem__
        self.batch = [n for n in c.spatial if all(o.strides[n] != 0 for o in c.operands)]

    def of(self, plan: library.NestPlan) -> list[library.NestPlan]:
        """What a task takes, and the order of the loops in it."""
        found = []
        c, threads = self.c, self.cpu.threads
        rows = [n for n in plan.order if n != plan.lane]
        apart = sorted(rows, key=self.near, reverse=True)
        orders = {plan.order, (*rows, plan.lane), (plan.lane, *apart)}
        known = [c.axes[n].extent is not None for n in c.spatial]
        alone = [n in self.batch and plan.tile[n] == 1 for n in c.spatial]
        base = [
            self.grain(plan, n) if alone[n] else self.whole[n] if known[n] else plan.tile[n]
            for n in c.spatial
        ]
        already = prod(-(-e // t) for e, t in zip(self.whole, base))
        sizes: dict[int, list[int]] = {}
        for n in c.spatial:
            if not known[n]:
                sizes[n] = [tiles * base[n] for tiles in TALL if tiles * base[n] <= self.whole[n]]
            elif base[n] == self.whole[n]:
                sizes[n] = self.cuts(n, self.grain(plan, n), threads)
        cuts: set[tuple[int, ...]] = {tuple(base)} if already >= threads else set()
        for n, options in sizes.items():
            for size in options:
                cuts.add(tuple(size if m == n else base[m] for m in c.spatial))
        for n, m in combinations(sizes, 2):
            for a, b in product(sizes[n][:2], sizes[m][:2]):
                cuts.add(tuple({n: a, m: b}.get(k, base[k]) for k in c.spatial))
        padded = [n for n in c.spatial if self.is_row(n)]
        for task in cuts:
            cut = any([task[n] < self.whole[n] for n in padded])
            pad = "root" if cut and plan.pad == "task" else plan.pad
            found += [
                varied(plan, task=task, order=order, pad=pad, threads=True) for order in orders
            ]
        work = self.estimate.terms * prod(self.whole)
        if work < 200_000 or not cuts:
            found.append(varied(plan, task=self.whole, threads=False))
        return found

    def is_row(self, axis: int) -> bool:
        """Whether an axis runs along the rows of an operand with padding: a task's part of a row
        has padding at one end or none, and what that is would be asked for each element."""
        return any(
            o.filled[-1:] == (len(o.dims) - 1,) and o.dims[-1][axis] != 0 for o in self.c.operands
        )

    def grain(self, plan: library.NestPlan, axis: int) -> int:
        """What the task's part of an axis is to be a multiple of: vectors that are turned on the
        way out may not reach into what another task writes."""
        result, tile = self.c.result, plan.tile[axis]
        turned = result.strides[plan.lane] != 1 and result.strides[axis] == 1
        return lcm(tile, plan.lanes) if turned else tile

    def cuts(self, axis: int, tile: int, threads: int) -> list[int]:
        """Parts of an axis that make so many tasks for each thread."""
        tiles = -(-self.extents[axis] // tile)
        counts = [k * threads for k in TASKS if k * threads <= tiles] or [tiles]
        if self.exact[axis]:
            counts = [k for k in counts if tiles % k == 0]
        sizes = [-(-tiles // k) * tile for k in [*counts, tiles]]
        return list(dict.fromkeys(min(size, self.extents[axis]) for size in sizes))
