"""Running compiled kernels in this process."""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import threading
from collections.abc import Mapping
from pathlib import Path

from backends.cache import ObjectCache
from backends.cuda.emulator.compile import compile_runtime
from backends.cuda.emulator.launch import CLaunch, Launch, c_arguments, check_arguments, sizes_of
from backends.cuda.emulator.report import EmulationError, Reporter
from backends.cuda.emulator.signature import Kernels
from backends.errors import BuildError

SLICE_SECONDS = 0.05
"""How long threads are run before Python has a look at signals, Ctrl-C above all."""

REPORT_BYTES = 1 << 16

_serials = itertools.count(1)
_runtime: list[ctypes.CDLL] = []
_lock = threading.Lock()


def load_runtime(cache: ObjectCache | None = None) -> ctypes.CDLL:
    """The one runtime of this process. Kernels find its functions among the global symbols."""
    with _lock:
        if not _runtime:
            library = _load(compile_runtime(cache), ctypes.RTLD_GLOBAL)
            library.ti_emulator_launch.restype = ctypes.c_longlong
            library.ti_emulator_launch.argtypes = [
                ctypes.POINTER(CLaunch),
                ctypes.c_longlong,
                ctypes.c_double,
            ]
            _runtime.append(library)
        return _runtime[0]


class LoadedKernels:
    """The kernels of the object at `path`, to be launched. Raises BuildError where it cannot be
    loaded."""

    def __init__(self, path: Path, kernels: Kernels, cache: ObjectCache | None = None) -> None:
        self._run = load_runtime(cache).ti_emulator_launch
        self._library = _load(path, ctypes.RTLD_LOCAL)
        self._kernels = kernels
        self._entries: Mapping[str, int | None] = {
            name: ctypes.cast(self._library[f"{name}_emulated"], ctypes.c_void_p).value
            for name in kernels
        }

    def launch(self, launch: Launch, reporter: Reporter, *, seed: int, workers: int) -> None:
        """Run a launch to its end. Raises EmulationError."""
        parameters = self._kernels[launch.kernel]
        check_arguments(launch, parameters)
        grid, block = sizes_of(launch)
        addresses, kept = c_arguments(launch, parameters)
        said = ctypes.create_string_buffer(REPORT_BYTES)
        given = CLaunch(
            serial=next(_serials),
            kernel=self._entries[launch.kernel],
            arguments=addresses,
            grid=grid,
            block=block,
            shared_bytes=launch.shared,
            seed=seed,
            workers=workers,
            report_file=-1,
            report=ctypes.addressof(said),
            report_size=REPORT_BYTES,
        )
        blocks, done = math.prod(grid), 0
        while 0 <= done < blocks:
            done = self._run(given, done, SLICE_SECONDS)
        del kept
        if done < 0:
            record = json.loads(said.value.splitlines()[0])
            raise EmulationError([reporter.report(launch.kernel, record)])


def _load(path: Path, mode: int) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path), mode=mode)
    except OSError as error:
        raise BuildError(f"the emulator cannot load {path.name}: {error}") from error
