"""CUDA text on the CPU: Emulator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import numpy as np

from backends.c.compiler import DEFAULT_TIMEOUT
from backends.cache import ObjectCache
from backends.cuda.emulator.check import Findings, check, mask_of
from backends.cuda.emulator.compile import compile_kernels, compile_runner, compile_runtime
from backends.cuda.emulator.launch import Launch
from backends.cuda.emulator.report import Reporter
from backends.cuda.emulator.run import LoadedKernels
from backends.cuda.emulator.signature import Kernels, kernels_of
from tensorir import TensorIRError

DEFAULT_CHECKS = ("races", "bounds", "uninitialised", "alignment", "divergence", "lanes")


class Emulator:
    """The kernels of a CUDA text, run by the CPU.

    source   text that begins with the prelude (prelude.cuh)
    lines    what lines of the text are in the program, by number from 1, for reports
    cache    where compiled objects are kept; None is the one of this user
    timeout  seconds for the compiler

    Kernels are compiled when they are first needed, or by `compile`.
    """

    def __init__(
        self,
        source: str,
        *,
        lines: Mapping[int, str] | None = None,
        cache: ObjectCache | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.source = source
        self.kernels: Kernels = kernels_of(source)
        self._reporter = Reporter(source, lines)
        self._cache = cache
        self._timeout = timeout
        self._loaded: LoadedKernels | None = None
        self._checked: tuple[Path, ...] | None = None

    def compile(self, *, checked: bool = False) -> None:
        """Compile the kernels now, for `run` or for `check`. Raises BuildError."""
        if checked:
            self._checked_objects()
        else:
            self._load()

    def run(self, launches: Iterable[Launch] | Launch, *, seed: int = 0, workers: int = 1) -> None:
        """Run launches one after the other, at full speed, on NumPy arrays in place.

        seed     0 gives threads their turns in order; every other number another random order, of
                 the warps and of the lanes in each
        workers  threads of this machine, which share the blocks

        Raises EmulationError where threads cannot go on (a barrier that not all of them reach, a
        shuffle without some lanes of its warp) or a vector is misaligned; TensorIRError for
        arguments and sizes that do not fit; BuildError where the text cannot be compiled.
        """
        loaded = self._load()
        for launch in _listed(launches):
            self._known(launch)
            loaded.launch(launch, self._reporter, seed=seed, workers=workers)

    def check(
        self,
        launches: Iterable[Launch] | Launch,
        checks: str | Collection[str] = DEFAULT_CHECKS,
        *,
        outputs: Collection[np.ndarray] = (),
        seed: int = 0,
        timeout: float = 60.0,
    ) -> Findings:
        """Run launches one after the other in another process, and say what is wrong with them.

        checks   names, or one text with commas: "races" between threads; "uninitialised" reads, of
                 asynchronous copies not waited for too; "lanes" that do not exist in shuffles;
                 "counts" of transactions. "bounds", "alignment" and "divergence" are always checked
        outputs  arrays among the arguments that hold nothing yet
        timeout  seconds for the run

        A thread goes on after what is reported, except where it cannot; an access out of bounds is
        not done. Arrays are changed in place if the launches ended. What ends the process otherwise
        (a crash, the timeout) is a report too. Raises as `run` does, but EmulationError.
        """
        given = _listed(launches)
        for launch in given:
            self._known(launch)
        return check(
            given,
            self.kernels,
            self._checked_objects(),
            self._reporter,
            checks=mask_of(checks),
            outputs=outputs,
            seed=seed,
            timeout=timeout,
        )

    def _checked_objects(self) -> tuple[Path, ...]:
        gone = any(not path.exists() for path in self._checked or ())  # room was made in the cache
        if self._checked is None or gone:
            path = compile_kernels(
                self.source, self.kernels, checked=True, cache=self._cache, timeout=self._timeout
            )
            self._checked = compile_runner(self._cache), compile_runtime(self._cache), path
        return self._checked

    def _load(self) -> LoadedKernels:
        if self._loaded is None:
            path = compile_kernels(
                self.source, self.kernels, cache=self._cache, timeout=self._timeout
            )
            self._loaded = LoadedKernels(path, self.kernels, self._cache)
        return self._loaded

    def _known(self, launch: Launch) -> None:
        if launch.kernel not in self.kernels:
            raise TensorIRError(
                f"there is no kernel {launch.kernel!r} in the text; there are "
                f"{', '.join(self.kernels)}"
            )


def _listed(launches: Iterable[Launch] | Launch) -> list[Launch]:
    return [launches] if isinstance(launches, Launch) else list(launches)
