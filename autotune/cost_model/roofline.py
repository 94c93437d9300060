"""The draft: a roofline estimate from the features alone, for when nothing was measured yet.

    time = (max(arithmetic, bytes into L1, L2, L3 / bandwidth) + copies) / cores * imbalance
           + overheads

with the maximum softened, and arithmetic slowed down by idle lanes, by too few independent
accumulators to hide the latency of a multiply-add, by loads and by spilled registers. The learned
models predict the logarithm of measured / draft, so constants that are wrong by a factor cost
nothing; what matters is that the draft orders schedules as the machine does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune.features.table import COLUMN, FEATURES
from tensorir import Cpu, TensorIRError

CLOCK = 3e9
"""Cycles per second."""

RATE = 2.0
"""Multiply-adds of vectors that begin in a cycle, of processors that nobody describes."""

LATENCY = 4.0
"""Cycles until a sum can be added to."""

BANDWIDTH = (120e9, 40e9, 12e9)
"""Bytes per second and core into L1, L2 and L3 (from L2, L3 and memory)."""

COPY = 120e9
"""Bytes per second and core that a copy within the caches stores."""

MEMORY_CORES = 2.0
"""Cores that saturate the memory; more of them do not fetch faster from there."""

FORK = 4e-6
"""Seconds to start and join a parallel loop."""

TASK = 1e-7
"""Seconds to hand out a parallel task."""

TRIMMED = 0.3
"""The exponent of padding in the time that it costs."""

CODE = 2.0**12
"""Vector operations of code that the instruction cache holds."""


def draft(features: np.ndarray, cpu: Cpu | None = None) -> np.ndarray:
    """Estimated seconds for each row of features: float64, positive.

    cpu  the processor, for as many operations as begin there; None for one that nobody describes

    Raises TensorIRError if the rows are not features of this version.
    """
    rows = np.atleast_2d(np.asarray(features, dtype=np.float64))
    if rows.shape[1] != len(FEATURES):
        raise TensorIRError(
            f"rows have {rows.shape[1]} features, not {len(FEATURES)}; extract them again"
        )
    return seconds({name: rows[:, at] for name, at in COLUMN.items()}, cpu)


def seconds(c: Mapping[str, np.ndarray], cpu: Cpu | None) -> np.ndarray:
    """The same, of columns by name: those that are read here."""
    speed_up = 2 ** (c["cores"] - c["imbalance"])
    # Lowering trims loops whose last iterations are padding: most of the waste is not run.
    ops = 2 ** (c["flops"] + TRIMMED * c["waste"])
    parts = [_arithmetic(c, ops, cpu) / speed_up]
    for level, bandwidth in enumerate(BANDWIDTH, 1):
        fetched = 2 ** (c[f"traffic_l{level}"] + c["flops"])
        cores = np.minimum(speed_up, MEMORY_CORES) if level == 3 else speed_up
        parts.append(fetched / (bandwidth * cores))
    time = np.sum(np.stack(parts) ** 4, axis=0) ** 0.25
    return time * _others(c) + _copies(c) / speed_up + _overheads(c)


def _arithmetic(c: Mapping[str, np.ndarray], ops: np.ndarray, cpu: Cpu | None) -> np.ndarray:
    """Seconds of one core for the anchor, if all data were in L1."""
    rate: float | np.ndarray = RATE
    if cpu is not None:  # of short vectors more begin
        used = cpu.vector_bytes / 64 * 2 ** c["vector_use"]
        rate = cpu.costs.units / np.maximum(1 / cpu.costs.narrow, used)
    peak = CLOCK * 2 * rate * 2 ** (c["lanes"] + c["vector_use"])
    reduces = c["reduce_total"] > 0
    sums = c["accumulators"] + c["memory_accumulators"]
    latency = np.where(reduces, LATENCY * rate / 2**sums, 1)
    # An accumulator that is not kept in a register is loaded and stored for every operation.
    # Compilers write out what loops do to few local ones.
    in_memory = (c["memory_accumulators"] > 0) & (c["result_local"] == 0)
    stored = np.where(in_memory, 2.0, 2.0 / 2 ** c["reduce_run"])
    moved = 2 ** c["loads_per_op"] + np.where(reduces, stored, 0)
    spilled = np.maximum(0, 2 ** c["register_pressure"] - 1)
    slow = np.maximum(np.maximum(1, moved), latency) * (1 + 2 * spilled)
    slow *= 1 + 0.05 * c["guard_inside"]
    slow *= np.where(c["vector_reduction"] > 0, 1.5, 1) * np.where(c["selects"] > 0, 1.2, 1)
    # Rows a page apart share few cache sets; more of them than ways evict each other.
    slow *= 1 + 0.1 * np.maximum(0, c["conflicts"] - 3)
    slow *= 1 + 0.2 * np.maximum(0, c["code_size"] - np.log2(CODE))
    return ops / peak * slow


def _others(c: Mapping[str, np.ndarray]) -> np.ndarray:
    """The factor by which the arithmetic of the other blocks lengthens the anchor's time."""
    extra = 2 ** c["other_time"] - 1
    return 1 + extra * (1 + c["copied_strided"])


def _copies(c: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds of one core for copying blocks, which no arithmetic hides."""
    touched = 2 ** (c["flops"] - c["intensity"])
    return touched * (2 ** c["copied"] - 1) * (1 + c["copied_strided"]) / COPY


def _overheads(c: Mapping[str, np.ndarray]) -> np.ndarray:
    """Seconds for starting parallel loops and tasks."""
    parallel = c["tasks"] + c["cores"] > 0
    regions = 2 ** c["regions"]
    return np.where(parallel, regions * (FORK + TASK * 2 ** (c["tasks"] + c["cores"])), 0.0)
