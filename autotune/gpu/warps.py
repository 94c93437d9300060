"""The warps of a kernel at steps of its loops that are looked at, with the values of variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from autotune.gpu.integers import Path
from autotune.gpu.lanes import Values, values_of
from autotune.rules.group import size
from tensorir import Expr, For, ForKind, Gpu, Let, Stmt, Var, dtype, stmt_exprs, variables, walk

SAMPLES = 256
"""Warps, at steps of their loops, that are looked at for one access."""


@dataclass(frozen=True)
class Warps:
    """Some warps at steps of loops: the values of variables, which lanes run, and how many such
    warps each of them stands for."""

    known: Mapping[Expr, Values]
    running: Values
    each: float


class Place(NamedTuple):
    """Warps at steps of the loops of a path: the values of variables there, which lanes run, how
    many such warps each stands for, and how many of them all run in all."""

    known: Mapping[Expr, Values]
    running: Values
    each: float
    warps: float


class Launch:
    """The blocks of a kernel and the threads in each, and the `body` that each runs."""

    def __init__(self, kernel: For, gpu: Gpu) -> None:
        self.gpu, axes = gpu, list[For]()
        body: Stmt = kernel
        while isinstance(body, For) and body.kind is ForKind.THREAD:
            axes.append(body)
            body = body.body
        self.body = body
        grid = [axis for axis in axes if (axis.thread or "").startswith("blockIdx")]
        self.grid = [(axis.var, size(axis.extent)) for axis in grid]
        inner = sorted((a.thread or "", a.var, size(a.extent)) for a in axes if a not in grid)
        self.inner = [(var, extent) for _, var, extent in inner]
        self.blocks = prod(extent for _, extent in self.grid)
        self.threads = prod(extent for _, extent in self.inner)
        self.seen: dict[tuple[For, ...], Warps] = {}
        self.places: dict[Path, Place] = {}

    @cached_property
    def sizes(self) -> set[Var]:
        """Variables that neither threads nor statements of the body give a value."""
        stmts = list(walk(self.body))
        given = {s.var for s in stmts if isinstance(s, (For, Let))}
        given |= {var for var, _ in (*self.grid, *self.inner)}
        used = {v for s in stmts for e in stmt_exprs(s) for v in variables(e)}
        return {v for v in used - given if dtype.is_int(v.dtype)}

    def at(self, path: Path) -> Place:
        """What is looked at of `path`: the same for all that is done there."""
        if path not in self.places:
            self.places[path] = self._place(path)
        return self.places[path]

    def _place(self, path: Path) -> Place:
        loops = tuple(part for part in path if isinstance(part, For))
        warps = self.seen.get(loops)
        if warps is None:
            warps = self.seen[loops] = self.warps(loops)
        known, running = dict(warps.known), warps.running
        for part in path:
            if isinstance(part, Let):
                value = values_of(part.value, known)
                if value is not None:
                    known[part.var] = value
            elif not isinstance(part, For):
                holds = values_of(part, known)
                if holds is not None:
                    running = running & np.broadcast_to(holds, running.shape).astype(bool)
        return Place(known, running, warps.each, warps.each * float(running.any(axis=1).sum()))

    def warps(self, loops: tuple[For, ...]) -> Warps:
        """All warps at all steps of some loops, or as many as are looked at."""
        count = -(-self.threads // self.gpu.warp)
        outer = [*self.grid, (None, count), *((loop.var, size(loop.extent)) for loop in loops)]
        total = prod(extent for _, extent in outer)
        chosen = _drawn(self.blocks, [extent for _, extent in outer[len(self.grid) :]])[:, None]
        known: dict[Expr, Values] = {}
        rest, warp = chosen, chosen
        for var, extent in reversed(outer):
            place = rest % max(1, extent)
            rest = rest // max(1, extent)
            if var is None:
                warp = place
            else:
                known[var] = place
        threads = left = np.arange(count * self.gpu.warp).reshape(count, self.gpu.warp)
        for var, extent in self.inner:  # x is the fastest
            known[var] = (left % extent)[warp[:, 0]]
            left = left // extent
        free = {v for axis in loops for v in variables(axis.extent)} | self.sizes
        known.update({var: np.asarray(size(var)) for var in free if var not in known})
        return Warps(known, (threads < self.threads)[warp[:, 0]], total / max(1, len(chosen)))


def _drawn(blocks: int, inside: Sequence[int]) -> Values:
    """Numbers of warps at steps of loops, which have such extents inside of a block: all of them,
    or some, among which all those inside of a block are alike often, or where they are many the
    values of each extent (McKay, Beckman and Conover, Technometrics 1979)."""
    own = prod(inside)
    if blocks * own <= SAMPLES:
        return np.arange(blocks * own, dtype=np.int64)
    rng = np.random.default_rng(0)
    count = SAMPLES // own * own or SAMPLES

    def spread(most: int) -> Values:
        values = (np.arange(count) + rng.random(count)) * (most / count)
        return rng.permutation(values.astype(np.int64))

    place = spread(blocks)
    if own <= SAMPLES:
        return place * own + np.arange(count) % own
    for extent in inside:
        place = place * extent + spread(extent)
    return place
