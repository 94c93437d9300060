"""A case: an operator with data, the right answer, and what a library does for the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.calibration.roofline import Share, share_of_peak
from autotune.default import default_schedule
from autotune.measure import machine_lock
from autotune.measure.busy import Neighbours
from backends import Comparison, CompiledKernel, Timing, build, compare
from benchmarks.timing import side_by_side
from tensorir import PrimFunc, TensorIRError

UNSCHEDULED, DEFAULT, TUNED = "unscheduled", "default", "tuned"
NUMPY, SCIPY = "NumPy", "SciPy"
OURS = (UNSCHEDULED, DEFAULT, TUNED)

Call = Callable[[], np.ndarray]
"""Computes the output into an array that it owns, and returns that array."""


@dataclass(frozen=True, eq=False)
class Case:
    """An operator with data.

    inputs     arrays in the order of the function's inputs
    expected   the output, computed in float64
    library    by name, what a library does for the same inputs; the fastest is what counts
    tolerance  largest error allowed, relative to the largest expected value
    """

    name: str
    func: PrimFunc
    inputs: tuple[np.ndarray, ...]
    expected: np.ndarray
    library: Mapping[str, Call]
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Figures:
    """Times of one case, all taken in turns.

    times   by name: "unscheduled", "default", "tuned" and the forms of the library
    errors  by name, the largest error relative to the largest expected value
    share   the tuned kernel's rate beside the machine's, None where there is no such figure
    others  share of the processors that other programs used meanwhile, None where unknown
    """

    name: str
    times: Mapping[str, Timing]
    errors: Mapping[str, float]
    share: Share | None
    others: float | None

    @property
    def library(self) -> str:
        """The name of the library's fastest form."""
        forms = [name for name in self.times if name not in OURS]
        return min(forms, key=lambda name: self.times[name].median)

    @property
    def gain(self) -> Comparison:
        """The library's time over the tuned kernel's: above 1 the kernel is faster."""
        return compare(self.times[self.library], self.times[TUNED])


def kernels_of(func: PrimFunc, tuned: CompiledKernel) -> dict[str, CompiledKernel]:
    """Kernels of the unscheduled program, of the default schedule, and the tuned one."""
    target = tuned.target
    return {
        UNSCHEDULED: build(func, target),
        DEFAULT: build(default_schedule(func, target), target),
        TUNED: tuned,
    }


def caller(kernel: CompiledKernel, inputs: Sequence[np.ndarray], output: np.ndarray) -> Call:
    """A call of the kernel through Python, into `output`."""
    arguments = (*inputs, output)

    def call() -> np.ndarray:
        kernel(*arguments)
        return output

    return call


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest error, relative to the largest expected value; infinite where it is no number."""
    error = np.max(np.abs(found.astype(np.float64) - expected))
    scale = np.max(np.abs(expected)) or 1.0
    return float(error / scale) if np.isfinite(error) else float("inf")


def check(case: Case, calls: Mapping[str, Call]) -> dict[str, float]:
    """The errors of all calls; raises TensorIRError where one is above the tolerance."""
    errors = {}
    for name, call in calls.items():
        errors[name] = relative_error(call().reshape(case.expected.shape), case.expected)
        if not errors[name] <= case.tolerance:
            raise TensorIRError(
                f"{case.name}: the result of {name!r} is off by {errors[name]:.2g} of the largest "
                f"value, and {case.tolerance:.2g} is allowed; no time of it is shown"
            )
    return errors


def figures(
    case: Case, kernels: Mapping[str, CompiledKernel], rounds: int, min_ms: float
) -> Figures:
    """Check all versions of the case against `expected`, then time them in turns."""
    # One output for all kernels, because no two pieces of memory are equally fast.
    output = kernels[TUNED](*case.inputs)
    calls = {name: caller(kernel, case.inputs, output) for name, kernel in kernels.items()}
    calls |= case.library
    errors = check(case, calls)
    times, others = timed(calls, rounds, min_ms, case.library)
    share = share_of_peak(case.func, times[TUNED].median, kernels[TUNED].target)
    return Figures(case.name, times, errors, share, others)


def timed(
    calls: Mapping[str, Call], rounds: int, min_ms: float, libraries: Collection[str]
) -> tuple[dict[str, Timing], float | None]:
    """The calls timed in turns, while no tuner runs on this machine, and how busy others were."""
    neighbours = Neighbours()
    with machine_lock(), neighbours.watching():
        times = side_by_side(calls, rounds, min_ms, last=libraries)
    return times, neighbours.share()
