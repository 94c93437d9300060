"""Features of a schedule for a GPU: what its kernels are estimated to take, by each limit.

They stand in for those of processors, which speak of worker threads, vectors and caches of a core.
"""

from __future__ import annotations

from math import isfinite, log2

import numpy as np

from autotune.gpu.count import works_of
from autotune.gpu.work import Work, architecture_of, cycles
from schedule import Refusal
from tensorir import Gpu, PrimFunc, Target, TensorIRError, device_of

LIMITS = ("memory", "l2", "access", "issue", "float32", "float64", "special", "latency")
ASKED = ("blocks", "threads", "registers", "shared")
FEATURES = ("seconds", "kernels", *LIMITS, *ASKED)
"""What the numbers of a row say: logarithms, of the estimated time, of the kernels and of the time
by each limit, and of what the kernel that takes longest asks for."""


def extract(func: PrimFunc, machine: Target) -> np.ndarray:
    """The features of a scheduled program: float32, one value for each of FEATURES.

    Raises Refusal where a kernel cannot be lowered or launched.
    """
    gpu = device_of(machine)
    assert isinstance(gpu, Gpu)
    try:
        works = works_of(func, gpu)
    except TensorIRError as error:
        raise Refusal(f"its kernels cannot be made: {error}") from error
    clock = architecture_of(gpu).card.clock * 1e9
    seconds = cycles(works, gpu) / clock
    if not works or not isfinite(seconds):
        raise Refusal("its kernels cannot be launched: a block asks for more than there is")
    limits = [work.cycles_by_limit(gpu) for work in works]
    longest = max(works, key=lambda work: cycles([work], gpu))
    row = [log2(seconds), log2(len(works))]
    row += [_lg(sum(limit.get(name, 0.0) for limit in limits) / clock) for name in LIMITS]
    row += [_asked(longest, name) for name in ASKED]
    return np.array(row, dtype=np.float32)


def draft(rows: np.ndarray) -> np.ndarray:
    """Seconds of one call from features, float64 [rows]: the estimate."""
    seconds: np.ndarray = np.exp2(np.atleast_2d(rows)[:, 0].astype(np.float64))
    return seconds


def _asked(work: Work, name: str) -> float:
    return log2(1.0 + getattr(work, name))


def _lg(seconds: float) -> float:
    """Below a nanosecond nothing is told apart."""
    return log2(max(seconds, 1e-9))
