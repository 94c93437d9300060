"""GPU architectures: what a kernel may use, what fits at once, and how fast the parts are.

Limits are those of "Technical Specifications per Compute Capability", lanes those of "Throughput
of Native Arithmetic Instructions", both in NVIDIA's CUDA Programming Guide, section Compute
Capabilities; how registers and shared memory are dealt out is that of `cuda_occupancy.h`, with
which a test compares `blocks_at_once`. Cards are those of NVIDIA's data sheets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tensorir.errors import TensorIRError

WARP = 32
"""Threads of a warp."""

DEFAULT_ARCH = "sm_80"
"""Where no architecture was given and no device is at hand: the oldest one with bfloat16 and
asynchronous copies, and code for it says most of what is true of the newer ones."""

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class Card:
    """A typical card of an architecture, for estimates where none is at hand.

    sms        streaming multiprocessors
    clock      GHz, at most
    l2         bytes of the cache that all of them share
    bandwidth  GB/s of the memory (10^9 bytes)
    """

    name: str
    sms: int
    clock: float
    l2: int
    bandwidth: float


@dataclass(frozen=True)
class Architecture:
    """What one streaming multiprocessor (SM) has, and what a block of threads may use of it.

    name             as NVRTC takes it; with "a" at its end code uses all instructions of this one
                     architecture, and runs on no other
    capability       (major, minor). Code runs on devices of the same major and no lower minor
    warps, blocks    at once on an SM, at most
    shared_per_sm    bytes of shared memory
    shared_per_block bytes that a block may have if its kernel asks for them before the launch,
                     else `shared_default`
    shared_reserved  bytes that each block takes for itself
    shared_unit      bytes are dealt out in multiples of this
    fp32_lanes       results of multiply-adds in a clock; fp64_lanes likewise
    card             a typical one
    """

    name: str
    capability: tuple[int, int]
    warps: int
    blocks: int
    shared_per_sm: int
    shared_per_block: int
    shared_reserved: int
    shared_unit: int
    fp32_lanes: int
    fp64_lanes: int
    card: Card

    threads_per_block: ClassVar[int] = 1024
    block_limits: ClassVar[tuple[int, int, int]] = (1024, 1024, 64)
    grid_limits: ClassVar[tuple[int, int, int]] = (2**31 - 1, 65535, 65535)
    shared_default: ClassVar[int] = 48 * KIB
    registers: ClassVar[int] = 64 * KIB  # of 32 bits, in an SM
    registers_per_thread: ClassVar[int] = 255
    register_unit: ClassVar[int] = 256  # a warp gets a multiple of this
    partitions: ClassVar[int] = 4  # of an SM; a warp lives in one, with its registers

    # Rates and times for estimates, which are about the same from one architecture to the next:
    # those that Luo et al. measured, "Benchmarking and Dissecting the Nvidia Hopper GPU
    # Architecture via Microbenchmarking", arXiv 2402.13499.
    latency: ClassVar[int] = 600  # cycles until a load from memory is there
    wait: ClassVar[int] = 40  # cycles of a barrier of a block, and of reading what others wrote
    l1_bytes: ClassVar[int] = 128  # between an SM and its first cache, or shared memory, in a cycle
    l2_bytes: ClassVar[int] = 64  # between an SM and the cache that all share, in a cycle
    special_lanes: ClassVar[int] = 16  # results of functions in a cycle
    launch_us: ClassVar[float] = 2.5  # of a kernel that follows another one, in microseconds

    def blocks_at_once(self, threads: int, registers: int, shared: int) -> int:
        """Blocks that an SM runs at once; 0 where not even one can be launched.

        threads    of a block
        registers  of a thread
        shared     bytes of a block, static and dynamic
        """
        warps = -(-threads // WARP)
        if not 0 < threads <= self.threads_per_block or shared > self.shared_per_block:
            return 0
        held = -(-(shared + self.shared_reserved) // self.shared_unit) * self.shared_unit
        by_shared = self.shared_per_sm // held if held else self.blocks
        by_registers = self._by_registers(warps, registers)
        return min(self.blocks, self.warps // warps, by_registers, by_shared)

    def _by_registers(self, warps: int, registers: int) -> int:
        if registers > self.registers_per_thread:
            return 0
        if registers < 1:
            return self.blocks
        each = -(-registers * WARP // self.register_unit) * self.register_unit
        spread = -(-warps // self.partitions) * self.partitions
        if each * spread > self.registers:  # the launch is checked as if all partitions had as many
            return 0
        return self.registers // self.partitions // each * self.partitions // warps

    def occupancy(self, threads: int, registers: int, shared: int) -> float:
        """The share of the warps that an SM can run that such blocks fill, 0 to 1."""
        return self.blocks_at_once(threads, registers, shared) * -(-threads // WARP) / self.warps

    @property
    def runs(self) -> tuple[str, ...]:
        """The architectures whose instructions it has, oldest first, its own among them."""
        return tuple(
            name
            for name, other in ARCHITECTURES.items()
            if name == self.name or (other.capability <= self.capability and name[-1] != "a")
        )

    @property
    def gflops(self) -> float:
        """GFLOP/s in float32 of the card without tensor cores, a multiply-add counted as two."""
        return 2 * self.fp32_lanes * self.card.sms * self.card.clock


H200 = Card("H200", sms=132, clock=1.98, l2=50 * MIB, bandwidth=4800)
B200 = Card("B200", sms=148, clock=1.965, l2=126 * MIB, bandwidth=8000)
RTX_5090 = Card("GeForce RTX 5090", sms=170, clock=2.407, l2=96 * MIB, bandwidth=1792)

_TABLE = (
    Architecture(
        "sm_75", (7, 5), 32, 16, 64 * KIB, 64 * KIB, 0, 256, 64, 2,
        Card("T4", sms=40, clock=1.59, l2=4 * MIB, bandwidth=320),
    ),
    Architecture(
        "sm_80", (8, 0), 64, 32, 164 * KIB, 163 * KIB, KIB, 128, 64, 32,
        Card("A100 80GB", sms=108, clock=1.41, l2=40 * MIB, bandwidth=2039),
    ),
    Architecture(
        "sm_86", (8, 6), 48, 16, 100 * KIB, 99 * KIB, KIB, 128, 128, 2,
        Card("GeForce RTX 3090", sms=82, clock=1.695, l2=6 * MIB, bandwidth=936),
    ),
    Architecture(
        "sm_89", (8, 9), 48, 24, 100 * KIB, 99 * KIB, KIB, 128, 128, 2,
        Card("GeForce RTX 4090", sms=128, clock=2.52, l2=72 * MIB, bandwidth=1008),
    ),
    Architecture("sm_90", (9, 0), 64, 32, 228 * KIB, 227 * KIB, KIB, 128, 128, 64, H200),
    Architecture("sm_100", (10, 0), 64, 32, 228 * KIB, 227 * KIB, KIB, 128, 128, 64, B200),
    Architecture("sm_120", (12, 0), 48, 24, 100 * KIB, 99 * KIB, KIB, 128, 128, 2, RTX_5090),
)  # fmt: skip

_WITH_OWN_INSTRUCTIONS = ("sm_90", "sm_100", "sm_120")


def _known() -> dict[str, Architecture]:
    known = {}
    for row in _TABLE:
        known[row.name] = row
        if row.name in _WITH_OWN_INSTRUCTIONS:
            known[f"{row.name}a"] = replace(row, name=f"{row.name}a")
    return known


ARCHITECTURES = _known()
"""The architectures by their names, oldest first."""


def find_architecture(name: str) -> Architecture:
    """The architecture called `name`; raises TensorIRError, with the known ones, for another."""
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise TensorIRError(f"GPU architecture {name!r} is unknown; known are {known}")
    return ARCHITECTURES[name]


def architecture_of(capability: tuple[int, int]) -> Architecture:
    """The architecture with the most of what a device of this compute capability can run.

    That is its own, with all instructions, else the closest one before it of the same major.
    Raises TensorIRError where there is none.
    """
    major, minor = capability
    same = [a for a in ARCHITECTURES.values() if a.capability[0] == major]
    fitting = [a for a in same if a.capability == capability] or [
        a for a in same if a.capability[1] <= minor and not a.name.endswith("a")
    ]
    if not fitting:
        raise TensorIRError(
            f"the device has compute capability {major}.{minor}, for which there is no "
            f"architecture; known are {', '.join(ARCHITECTURES)}"
        )
    return fitting[-1]
