"""What a processor has and what its steps cost: the one description that estimates ask."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorir import Target, dtype

_FUSED = {"fma", "avx512f", "arm_neon"}
"""Features with which a multiply-add is one instruction; else the product takes a register."""


@dataclass(frozen=True)
class Costs:
    """Cycles of a core. Defaults are those of a server processor of 2022 with vectors of 512 bits.

    units      multiply-adds of a vector that begin in a cycle; `ports`: likewise loads
    latency    until a sum can be added to
    both       share of the smaller of arithmetic and loads that is not hidden behind the other
    spill      a sum that has no register, each step
    tile       beginning and ending a register tile, and `sum_` each of its vectors
    turn       of an innermost loop that begins again
    masked     times a load, where padding is computed in place; `asked`: where each lane has to
               look for itself
    transpose  turning a vector of results
    l2, l3, memory   a line of 64 bytes from there, as it comes in order
    copy, copy_turned  an element that is packed in order, or against it
    hidden     share of the smaller of arithmetic and traffic that goes on beside the other
    start      threads that begin to share tasks
    """

    units: float = 2.0
    ports: float = 2.0
    latency: float = 4.0
    both: float = 0.12
    spill: float = 3.0
    tile: float = 24.0
    sum_: float = 1.0
    turn: float = 10.0
    masked: float = 1.3
    asked: float = 8.0
    transpose: float = 5.5
    l2: float = 1.3
    l3: float = 3.0
    memory: float = 10.0
    copy: float = 0.8
    copy_turned: float = 4.0
    hidden: float = 0.5
    start: float = 8000.0


@dataclass(frozen=True)
class Cpu:
    """A processor: what a resolved target says it has, and what its steps cost."""

    target: Target
    costs: Costs = field(default_factory=Costs)

    def lanes(self, kind: str) -> int:
        """Sums of one type in a vector; of narrower types than 32 bits as of those."""
        return self.target.lanes() * 32 // max(32, dtype.bits(kind))

    @property
    def registers(self) -> int:
        """Vector registers for sums and operands."""
        return self.target.vector_registers - (0 if _FUSED & set(self.target.features) else 1)

    @property
    def threads(self) -> int:
        return self.target.thread_count

    @property
    def caches(self) -> tuple[tuple[int, float], ...]:
        """Bytes of each cache of a core, and the cycles of a line from behind it."""
        t, costs = self.target, self.costs
        return ((t.l1d_bytes, costs.l2), (t.l2_bytes, costs.l3), (t.l3_bytes, costs.memory))
