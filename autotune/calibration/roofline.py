"""How close a time is to what the machine can do."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from autotune.calibration.peak import C_TYPES, memory_gbps, peak_gflops
from autotune.machine.machine import this_machine
from autotune.machine.work import flops
from tensorir import PrimFunc, Target, dtype, int_value

BELIEVED = 1.02
"""No kernel is faster than the machine: a share above this means that the peak is wrong."""


@dataclass(frozen=True)
class Share:
    """A rate beside the best one that the machine reaches, both in `unit`."""

    rate: float
    peak: float
    unit: str

    @property
    def share(self) -> float:
        return self.rate / self.peak

    def __str__(self) -> str:
        return f"{self.rate:.1f} {self.unit}, {self.share:.0%} of this machine's {self.peak:.0f}"


def share_of_peak(func: PrimFunc, seconds: float, target: Target) -> Share | None:
    """The share of the rate that bounds `func`: arithmetic, or memory where its arguments do not
    fit into the caches and moving them takes longer.

    The peaks are measured if they are not known yet, and again if `seconds` shows that they were
    measured on a busy machine. None for a symbolic size, and for types and targets without a peak;
    what is computed of narrower floats has none in arithmetic, since some processors have
    instructions for the products of these.
    """
    work, moved = flops(func), argument_bytes(func)
    kinds = {p.dtype for p in func.outputs}
    if (
        not work
        or moved is None
        or target.kind != "c"
        or len(kinds) != 1
        or not kinds <= {*C_TYPES}
    ):
        return None
    kind = kinds.pop()

    def arithmetic(calibrate: bool) -> Share:
        peak = peak_gflops(dtype=kind, target=target, calibrate=calibrate)
        return Share(work / seconds / 1e9, peak, "GFLOP/s")

    def memory(calibrate: bool) -> Share:
        return Share(moved / seconds / 1e9, memory_gbps(target=target, calibrate=calibrate), "GB/s")

    narrow = any(dtype.is_float(p.dtype) and p.dtype not in C_TYPES for p in func.params)
    bounds = [] if narrow else [arithmetic]
    if moved > max(this_machine().caches.values(), default=0):
        bounds.append(memory)
    if not bounds:
        return None
    shares = [(bound(False), bound) for bound in bounds]
    found, bound = max(shares, key=lambda pair: pair[0].share)
    return found if found.share <= BELIEVED else bound(True)


def argument_bytes(func: PrimFunc) -> int | None:
    """Bytes of all arguments together; None where a size is symbolic."""
    total = 0
    for param in func.params:
        extents = [int_value(extent) for extent in param.shape]
        if any(extent is None for extent in extents):
            return None
        total += prod(extent or 0 for extent in extents) * dtype.itemsize(param.dtype)
    return total
