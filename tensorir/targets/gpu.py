"""Gpu: what a graphics processor has, for schedules that are made for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tensorir import dtype
from tensorir.targets.architectures import KIB, WARP, Architecture
from tensorir.targets.target import LANE_BITS, Target


@dataclass(frozen=True)
class Gpu:
    """A GPU: what a resolved target says of it.

    Of `opencl`, which names no architecture, what every device has that the specification calls
    complete; threads that are neighbours count as a warp for accesses to memory, and can exchange
    nothing.
    """

    kind: ClassVar[str] = "gpu"
    warp: ClassVar[int] = WARP
    banks: ClassVar[int] = 32
    """Of shared memory; each delivers a word of `bank_bytes` at once."""
    bank_bytes: ClassVar[int] = 4
    access_bytes: ClassVar[int] = LANE_BITS // 8
    """What one access of a thread moves, at most."""
    access_words: ClassVar[int] = access_bytes // bank_bytes
    """Neighbours in shared memory that one access reads."""
    sector_bytes: ClassVar[int] = 32
    """What one transaction moves between the caches and a warp."""
    roomy_registers: ClassVar[int] = Architecture.registers // (4 * Architecture.partitions * WARP)
    """Registers of a thread that leave room for four warps in each partition of a multiprocessor.
    """
    most_held: ClassVar[int] = roomy_registers // 2
    """Elements of what a thread reads again that it keeps in registers, at most."""

    target: Target

    @cached_property
    def architecture(self) -> Architecture | None:
        """Limits and rates of a CUDA device; None for others."""
        return None if self.target.kind == "opencl" else self.target.architecture

    @property
    def shuffles(self) -> bool:
        """Whether lanes of a warp can exchange values without memory."""
        return self.target.has_shuffles

    def elements(self, *kinds: str) -> int:
        """Elements of the widest of some types that one access moves."""
        return max(1, self.access_bytes // max(map(dtype.itemsize, kinds)))

    @cached_property
    def multiprocessors(self) -> int:
        """Of the typical card of the architecture; 1 where nothing is known."""
        known = self.architecture
        return 1 if known is None else known.card.sms

    @property
    def full(self) -> int:
        """Threads that it can run at once: with fewer elements, how they are shared hardly
        matters."""
        known = self.architecture
        return 1 if known is None else known.card.sms * known.warps * self.warp

    @cached_property
    def threads_per_block(self) -> int:
        """Threads of a block, at most."""
        known = self.architecture
        return 256 if known is None else known.threads_per_block

    @cached_property
    def registers_per_thread(self) -> int:
        """Registers of 32 bits that a thread can have at most."""
        known = self.architecture
        return 64 if known is None else known.registers_per_thread

    @cached_property
    def shared_bytes(self) -> int:
        """Shared memory that a block has without asking for more."""
        known = self.architecture
        return 32 * KIB if known is None else known.shared_default

    @property
    def shared_most(self) -> int:
        """Shared memory that a block can ask for."""
        known = self.architecture
        return self.shared_bytes if known is None else known.shared_per_block

    def blocks_at_once(self, threads: int, registers: int, shared: int) -> int:
        """Blocks of a kernel that a multiprocessor runs at once (Architecture.blocks_at_once)."""
        known = self.architecture
        return 1 if known is None else known.blocks_at_once(threads, registers, shared)
