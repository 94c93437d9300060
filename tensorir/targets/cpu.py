"""Cpu: what a processor has and what its steps cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from tensorir import dtype
from tensorir.targets.costs import Costs
from tensorir.targets.target import Target

_FUSED = {"fma", "avx512f", "arm_neon"}
"""Features with which a multiply-add is one instruction; else the product takes a register."""


@dataclass(frozen=True)
class Cpu:
    """A processor: what a resolved target says it has, and what its steps cost."""

    kind: ClassVar[str] = "cpu"
    line_bytes: ClassVar[int] = 64
    """Of a line of the caches."""
    call_operations: ClassVar[int] = 10
    """What a function such as exp takes, about, in operations."""
    one_operation: ClassVar[frozenset[str]] = frozenset(
        ("ceil", "copysign", "fabs", "floor", "rint", "trunc")
    )
    """The functions that processors have as they have additions."""
    page_bytes: ClassVar[int] = 4096
    """Of memory that the processor's own prefetching keeps to; lines so far apart share a set of
    the first-level cache."""
    busy: ClassVar[float] = 0.25
    """The share of a line's time from memory that arithmetic takes from which on memory rests."""

    target: Target
    costs: Costs = field(default_factory=Costs)

    def lanes(self, kind: str = "float32") -> int:
        """Sums of one type in a vector; of narrower floats than 32 bits as of those."""
        item = dtype.itemsize(kind)
        return self.target.lanes() * 4 // (max(4, item) if dtype.is_float(kind) else item)

    def elements(self, *kinds: str) -> int:
        """Elements of the widest of some types that a vector holds."""
        return max(1, self.target.lanes() * 4 // max(map(dtype.itemsize, kinds)))

    @property
    def vector(self) -> float:
        """The share of 64 bytes that an instruction on a vector takes of a unit."""
        return max(1 / self.costs.narrow, self.vector_bytes / 64)

    @property
    def piece(self) -> float:
        """Cycles of a run of vectors of what callers have made room for, anywhere in a line, where
        rows are stored in turns. Of shorter vectors fewer reach into a second line."""
        return self.costs.piece * min(1.0, self.vector_bytes / self.line_bytes)

    @property
    def registers(self) -> int:
        """Vector registers for sums and operands."""
        return self.target.vector_registers - (0 if _FUSED & set(self.target.features) else 1)

    def kept_bytes(self, level: int) -> int:
        """What stays in the cache of a level (1, 2, 3) while other things pass through it: half."""
        return self.caches[level - 1][0] // 2

    def packing(self, elements: float, item: int, turned: bool) -> float:
        """Cycles of a thread that packs elements of so many bytes, against their order if `turned`:
        in vectors, and their lines behind the caches that do not hold them. These are read and
        written without gaps, for half of a line's time each."""
        copies = elements * (self.costs.copy_turned if turned else self.costs.copy)
        return copies + self.lines(elements * item)

    def lines(self, used: float) -> float:
        """Cycles of the lines of so many bytes, from behind the caches that do not hold them."""
        return sum(cost * used / self.line_bytes for size, cost in self.caches if used > size)

    def worth_threads(self, cycles: float) -> bool:
        """Whether what takes one thread so long is worth starting the others for."""
        return cycles >= self.costs.start

    def asks_ahead(self, cycles: float, lines: float) -> bool:
        """Whether to ask ahead for lines of memory beside so many cycles of arithmetic. Beside few
        of them memory never rests: requests take the place of loads, unless the processor's own
        come too late."""
        return self.costs.late > 0 or cycles >= self.busy * lines * self.costs.memory

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector register."""
        return self.target.lanes("uint8")

    @property
    def threads(self) -> int:
        """Threads of a parallel loop."""
        return self.target.thread_count

    @property
    def l1_bytes(self) -> int:
        """Bytes of the first-level data cache of a core."""
        return self.target.l1d_bytes

    @property
    def l2_bytes(self) -> int:
        """Bytes of the second-level cache of a core."""
        return self.target.l2_bytes

    @property
    def l3_bytes(self) -> int:
        """Bytes of the third-level cache that cores share."""
        return self.target.l3_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes that the caches hold together: what leaves one of a core goes to the shared one."""
        return self.l3_bytes + self.threads * self.l2_bytes

    @cached_property
    def caches(self) -> tuple[tuple[int, float], ...]:
        """Bytes of each cache of a core, and the cycles of a line from behind it."""
        costs = self.costs
        return (
            (self.l1_bytes, costs.l2),
            (self.l2_bytes, costs.l3),
            (self.l3_bytes, costs.memory),
        )
