"""How much memory a candidate may have, so that one that eats all does not take the machine along.

A limit holds for each process: for a compiler, and for the worker that runs the kernel.
"""

from __future__ import annotations

import os
from pathlib import Path

from autotune.measure.reference import Reference

GIB = 1 << 30
COPIES = 8
"""How many times the arrays of a call a worker may need beside its own gigabyte: inputs, expected
results with their bounds in float64, guarded copies, and packed ones in the kernel."""

CGROUPS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where a container says what it may have, in the second and in the first version."""


def run_limit(wanted_gib: float | None, reference: Reference) -> int | None:
    """Bytes for the worker that runs kernels: half of the machine, or what the arrays need if that
    is more, but no more than nine tenths. None where the machine does not tell."""
    if wanted_gib is not None:
        return round(wanted_gib * GIB)
    machine = machine_memory()
    if machine is None:
        return None
    groups = (reference.inputs, reference.expected)
    arrays = sum(array.nbytes for group in groups for array in group.values())
    return min(max(machine // 2, COPIES * arrays + GIB), machine * 9 // 10)


def build_limit(wanted_gib: float | None, jobs: int) -> int | None:
    """Bytes for each of `jobs` workers that build, and for each compiler that they run: together
    half of the machine, but at least one gigabyte each."""
    if wanted_gib is not None:
        return round(wanted_gib * GIB)
    machine = machine_memory()
    return None if machine is None else max(machine // 2 // jobs, min(GIB, machine * 9 // 10))


def machine_memory() -> int | None:
    """Bytes of main memory that this process may use; None where that is not known."""
    found = []
    try:
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        pass
    for path in CGROUPS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return min(found, default=None)


def text_of(error: Exception) -> str:
    """What to say of a candidate that did not get the memory that it asked for."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    text = str(error) or "a kernel or compiler asked for too much"
    if limit != resource.RLIM_INFINITY:
        text = (
            f"a process of a candidate may have {limit / 2**30:.3g} GiB "
            f"(MeasureSettings(memory_gib=...)): {text}"
        )
    return f"out of memory; {text}"
