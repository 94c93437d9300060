"""Work: what one kernel asks of a GPU, and the time that it takes by what binds it.

Source: the roofline model (Williams, Waterman and Patterson, CACM 2009), with a roof for each unit
that a kernel keeps busy, and Little's law for the loads that are under way. Sizes and rates are
those of the one table, tensorir/targets/architectures.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tensorir import ARCHITECTURES, DEFAULT_ARCH, WARP, Architecture, Gpu

BESIDE = 0.01
"""The share that shows of what does not bind."""


class Room(NamedTuple):
    """What a kernel needs to be launched: threads of a block, registers of 32 bits of a thread,
    about, and bytes of shared memory of a block."""

    threads: int
    registers: int
    shared: int

    def at_once(self, gpu: Gpu) -> int:
        """Blocks that a multiprocessor runs at once; 0 where not even one can be launched."""
        return architecture_of(gpu).blocks_at_once(*self)


@dataclass(frozen=True)
class Work:
    """What all blocks of a kernel ask for, or, where it says so, one of them.

    blocks      of threads; `threads` of each
    registers   of a thread, about, of 32 bits
    shared      bytes of a block
    bytes       that come from memory or go there at least once
    sectors     transactions of 32 bytes with global memory; `least` would do for the same bytes
    wavefronts  of shared memory; `free` of them without conflicts of banks
    requests    instructions of warps that touch global memory; `touches` those of shared memory
    float32, float64, special, other
                operations of warps by pipe: `special` are functions and divisions, `other` those of
                integers, comparisons and conversions
    rounds      times that a thread waits for global memory, one after the other
    waits       times that the threads of a block wait for each other
    """

    blocks: float
    threads: int
    registers: int = 32
    shared: int = 0
    bytes: float = 0.0
    sectors: float = 0.0
    least: float = 0.0
    wavefronts: float = 0.0
    free: float = 0.0
    requests: float = 0.0
    touches: float = 0.0
    float32: float = 0.0
    float64: float = 0.0
    special: float = 0.0
    other: float = 0.0
    rounds: float = 1.0
    waits: float = 0.0

    @property
    def warps(self) -> int:
        """Of a block."""
        return -(-self.threads // WARP)

    def at_once(self, gpu: Gpu) -> int:
        """Blocks that a multiprocessor runs at once; 0 where not even one can be launched."""
        return Room(self.threads, self.registers, self.shared).at_once(gpu)

    def occupancy(self, gpu: Gpu) -> float:
        """The share of the warps that a multiprocessor can run, 0 to 1."""
        return architecture_of(gpu).occupancy(self.threads, self.registers, self.shared)

    def cycles_by_limit(self, gpu: Gpu) -> dict[str, float]:
        """Cycles of the device that each unit takes by itself, the launch apart; the largest binds.

        memory   bytes at the bandwidth of the card
        l2       sectors at the rate of the cache that all share
        access   requests, sectors and wavefronts of the busiest multiprocessor
        issue, float32, float64, special
                 instructions of the busiest multiprocessor, parts of which are idle where it has
                 less than a warp for each
        latency  loads and waits of one block after the other, as many blocks at once as fit
        """
        arch = architecture_of(gpu)
        card, fit = arch.card, self.at_once(gpu)
        if not fit:
            return {"latency": float("inf")}
        if not self.blocks:
            return {"latency": 0.0}
        busiest = max(1.0, -(-self.blocks // card.sms) if self.blocks < 4 * card.sms * fit
                      else self.blocks / card.sms) / self.blocks  # fmt: skip
        waves = max(1, -(-self.blocks // (card.sms * fit)))
        there = self.warps * min(fit, max(1.0, -(-self.blocks // card.sms)))
        computing = busiest * max(1.0, arch.partitions / there)
        running = min(card.sms, self.blocks)
        instructions = self.requests + self.touches + self.operations
        access = max(self.requests, self.sectors * Gpu.sector_bytes / arch.l1_bytes)
        return {
            "memory": self.bytes * card.clock / card.bandwidth,
            "l2": self.sectors * Gpu.sector_bytes / (arch.l2_bytes * running),
            "access": (access + self.wavefronts) * busiest,
            "issue": instructions / arch.partitions * computing,
            "float32": self.float32 * WARP / arch.fp32_lanes * computing,
            "float64": self.float64 * WARP / arch.fp64_lanes * computing,
            "special": self.special * WARP / arch.special_lanes * computing,
            "latency": waves * (self.rounds * arch.latency + self.waits * arch.wait),
        }

    @property
    def operations(self) -> float:
        """Instructions that compute, of warps."""
        return self.float32 + self.float64 + self.special + self.other

    @property
    def share_of_floats(self) -> float:
        """The share of all instructions that add and multiply floats."""
        floats = self.float32 + self.float64
        return floats / max(1.0, self.requests + self.touches + self.operations)

    def limit(self, gpu: Gpu) -> str:
        """What binds: the name in `cycles_by_limit` that takes longest."""
        found = self.cycles_by_limit(gpu)
        return max(found, key=lambda name: found[name])


def launch(gpu: Gpu) -> float:
    """Cycles from the end of one kernel to the next."""
    arch = architecture_of(gpu)
    return arch.launch_us * 1e3 * arch.card.clock


def cycles(launches: Iterable[Work], gpu: Gpu) -> float:
    """Cycles of kernels launched one after the other, about."""
    start = launch(gpu)
    return sum(start + _time(work.cycles_by_limit(gpu).values()) for work in launches)


def leaves_little(launches: Sequence[Work], gpu: Gpu, close: float) -> bool:
    """Whether no way to do the same takes less time by more than a factor: one kernel takes at most
    `close` times as long as its bytes, each moved once, without conflicts of banks, and as what
    reads anything waits for at least."""
    if len(launches) != 1:
        return False
    (work,) = launches
    moved = Work(1, work.threads, bytes=work.bytes, rounds=min(1.0, work.rounds))
    quick = cycles(launches, gpu) <= close * cycles([moved], gpu)
    return quick and work.wavefronts <= close * work.free


def under_way(gpu: Gpu) -> float:
    """Bytes that memory moves while one load waits for it (Little's law): whatever moves no more
    takes no less time."""
    arch = architecture_of(gpu)
    return arch.latency * arch.card.bandwidth / arch.card.clock


def is_balanced(work: Work, gpu: Gpu, close: float) -> bool:
    """Whether a kernel takes at most `close` times as long as it would with its work spread evenly
    over all multiprocessors, without waiting for loads: other blocks of it cannot take less time
    by more than that, unless they ask for less."""
    card = architecture_of(gpu).card
    even = replace(work, blocks=4 * card.sms * max(1, work.at_once(gpu)), rounds=0, waits=0)
    return _time(work.cycles_by_limit(gpu).values()) <= close * _time(
        even.cycles_by_limit(gpu).values()
    )


def _time(limits: Collection[float]) -> float:
    """What binds takes its time; of the rest nearly all goes on beside it."""
    most = max(limits)
    return most if most == float("inf") else most + BESIDE * (sum(limits) - most)


def architecture_of(gpu: Gpu) -> Architecture:
    """Of `opencl`, which names none, that where nothing else is known."""
    return gpu.architecture or ARCHITECTURES[DEFAULT_ARCH]
