"""What one kernel asks of a GPU and what it gets, in words: counts, resources, the limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.gpu.work import Work, architecture_of
from tensorir import Gpu

PIPES = ("float32", "float64", "special", "other")
"""Kinds of instructions that compute, as in Work."""

SHOWN = 3
"""Limits, and accesses that take more than they need, that are written out."""

WASTED = 1.05
"""Times the least transactions from which on an access is named."""


@dataclass(frozen=True)
class KernelAccount:
    """One kernel of a program.

    name         in the text
    grid, block  blocks, and threads of a block, along x, y and z
    work         what it asks for, with the registers that the compiler gave it
    gpu          what it was compiled for
    resources    what the compiler said; None where there is none, and registers are an estimate
    counts       of the emulator, by line, where it ran; else `work` has those of the estimate
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    work: Work
    gpu: Gpu
    resources: Any = None
    counts: Sequence[Any] = field(default=(), repr=False)

    @property
    def spills(self) -> bool | None:
        """Whether values that did not fit into registers go through memory; None if not known."""
        return None if self.resources is None else bool(self.resources.spills)

    @property
    def conflicts(self) -> float:
        """Wavefronts of shared memory over those without conflicts of banks; 1 without any."""
        return self.work.wavefronts / self.work.free if self.work.free else 1.0

    def __str__(self) -> str:
        blocks, threads = (_product(extents) for extents in (self.grid, self.block))
        head = f"{self.name}: {_plural(blocks, 'block')} of {_plural(threads, 'thread')}"
        if not self.work.blocks:
            return f"{head}: it is not launched"
        return "\n".join([head, *(f"  {name:15}{text}" for name, text in self._rows())])

    def _rows(self) -> Iterator[tuple[str, str]]:
        work = self.work
        over = f", {work.sectors / work.least:.2f} of the least" if work.least else ""
        yield "global memory", (
            f"{work.sectors:,.0f} transactions of 32 bytes{over}, by {work.requests:,.0f} accesses "
            "of warps"
        )
        if work.wavefronts:
            yield "shared memory", (
                f"{work.wavefronts:,.0f} wavefronts, {self.conflicts:.2f} of those without "
                "conflicts of banks"
            )
        for count in sorted(self.counts, key=lambda c: -c.conflicts)[:SHOWN]:
            if count.transactions > WASTED * count.least:
                times = f"{count.transactions / count.least:.2f} of the least"
                yield "", f"{times} for the {count.what} of {count.buffer} in {count.place}"
        pipes = ((name, getattr(work, name)) for name in PIPES)
        done = ", ".join(f"{name} {value:,.0f}" for name, value in pipes if value)
        yield "instructions", f"{done or 'none that compute'} of warps"
        yield "waits", (
            f"{work.waits:g} of a block for its threads, a shuffle counting half; "
            f"{round(work.rounds, 1):g} for memory"
        )
        yield from self._resources()
        yield "limit", self._limits()

    def _resources(self) -> Iterator[tuple[str, str]]:
        work, arch = self.work, architecture_of(self.gpu)
        if self.resources is None:
            yield "registers", f"about {work.registers} of a thread, by the estimate"
        else:
            spilled = f"{self.resources.spill_stores} bytes spilled" if self.spills else "no spills"
            yield "registers", f"{work.registers} of a thread, {spilled}, by the compiler"
        if work.shared:
            yield "shared bytes", f"{work.shared:,} of a block"
        fit = work.at_once(self.gpu)
        yield "occupancy", (
            f"{work.occupancy(self.gpu):.0%}: {_plural(fit, 'block')} on a multiprocessor at once"
            if fit
            else f"none: a multiprocessor of {arch.name} has no room for such a block; give a "
            "block fewer threads, sums or shared bytes"
        )

    def _limits(self) -> str:
        """What takes longest, and what would be next."""
        clock = architecture_of(self.gpu).card.clock * 1e3
        found = self.work.cycles_by_limit(self.gpu)
        order = sorted(found, key=lambda name: -found[name])[:SHOWN]
        first, *rest = [f"{name} {found[name] / clock:.3g} us" for name in order]
        return f"{first}; then {', '.join(rest)}" if rest else first


def _product(extents: tuple[int, int, int]) -> int:
    x, y, z = extents
    return x * y * z


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
