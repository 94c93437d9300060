"""The machine at hand: how many threads it runs, and the sizes of its caches."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from tensorir import Processor

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Where Linux lists the caches of the first processor."""

GROUP = Path("/sys/fs/cgroup")
"""Where a container says what it may have."""

MOST_SHARE = 16 << 20
"""Bytes of the last cache for each processor of this machine, at most. A virtual machine may list
the 480 MiB of its whole host, of which its two processors have what the neighbours leave."""


def host_processor() -> Processor:
    """This machine, and of the last cache what its processors can count on; where it does not tell
    the size of a cache, the default of Processor."""
    known = {name.lower(): size for name, size in host_caches().items()}
    usual = Processor()
    return Processor(
        host_threads(),
        known.get("l1d", usual.l1d),
        known.get("l2", usual.l2),
        min(known.get("l3", usual.l3), MOST_SHARE * (os.cpu_count() or 1)),
    )


def host_threads() -> int:
    """How many logical processors this process may use."""
    return len(host_processors())


def host_processors() -> list[int]:
    """The numbers of the logical processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return sorted(affinity(0)) if affinity else list(range(os.cpu_count() or 1))


def host_share(folder: Path = GROUP) -> float | None:
    """How many processors' time the control group of this process may use, which containers limit
    without hiding processors; None where there is no limit, or none is told."""
    first = folder / "cpu" / "cpu.cfs_quota_us", folder / "cpu" / "cpu.cfs_period_us"
    for paths in ((folder / "cpu.max",), first):
        try:
            words = " ".join(path.read_text() for path in paths).split()
        except OSError:
            continue
        if len(words) == 2 and all(map(str.isdecimal, words)) and int(words[1]):
            return int(words[0]) / int(words[1])
    return None


@cache
def host_caches() -> dict[str, int]:
    """Bytes of the data and unified caches: "L1d", "L2", "L3", as far as they are told.

    From sysfs. The C library asks the processor itself, which in a virtual machine may tell the
    third level of the whole host: 384 MiB of which the guest has 32.
    """
    return cache_sizes(CACHES)


def cache_sizes(folder: Path) -> dict[str, int]:
    """The caches that a folder of sysfs lists; empty where there is none."""
    sizes = {}
    for index in sorted(folder.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = (index / "level").read_text().strip()
            size = (index / "size").read_text().strip()
        except OSError:
            continue
        if kind != "Instruction" and size[:-1].isdigit():
            unit = {"K": 1024, "M": 1024**2}.get(size[-1], 1)
            sizes[f"L{level}d" if kind == "Data" else f"L{level}"] = int(size[:-1]) * unit
    return sizes
