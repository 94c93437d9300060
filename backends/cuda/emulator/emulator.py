"""CUDA text on the CPU: Emulator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from backends.c.compiler import DEFAULT_TIMEOUT
from backends.cache import ObjectCache
from backends.cuda.emulator.compile import compile_kernels
from backends.cuda.emulator.launch import Launch
from backends.cuda.emulator.report import Reporter
from backends.cuda.emulator.run import LoadedKernels
from backends.cuda.emulator.signature import Kernels, kernels_of
from tensorir import TensorIRError


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

    def compile(self) -> None:
        """Compile and load the kernels for `run`. Raises BuildError."""
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
