"""The GPUs that CUDA shows here, and why kernels for an architecture cannot run on one of them."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from backends.cuda.packages import WHEELS, cupy_version, driver_version, install, no_cupy
from tensorir import DEFAULT_ARCH, Architecture, Target, architecture_of, find_architecture

DRIVERS = {12: 525, 13: 580}
"""The oldest driver that runs code of a major version of CUDA (NVIDIA's CUDA Compatibility)."""


@dataclass(frozen=True)
class Device:
    """A GPU as the driver describes it.

    number      by which CuPy knows it
    capability  its compute capability
    """

    number: int
    name: str
    capability: tuple[int, int]

    def runs(self, architecture: Architecture) -> bool:
        """Whether code compiled for `architecture` runs on it."""
        if architecture.name.endswith("a"):
            return self.capability == architecture.capability
        major, minor = architecture.capability
        return self.capability[0] == major and self.capability[1] >= minor

    def __str__(self) -> str:
        return f"{self.name} (compute capability {'.'.join(map(str, self.capability))})"


def devices() -> list[Device]:
    """The devices that a process may use; none without CuPy, or a driver that fits it."""
    runtime = _runtime()
    if runtime is None:
        return []
    count = _count(runtime)
    return [] if isinstance(count, str) else [_device(runtime, n) for n in range(count)]


def current_device() -> Device | None:
    """The device that CuPy uses now, of those there are; None where there is none."""
    found = devices()
    runtime = _runtime()
    return found[runtime.getDevice()] if found and runtime is not None else None


def chosen_arch(target: Target) -> str:
    """The architecture that kernels for `target` are compiled for.

    The one that was asked for; else that of the current device; else, and always for the emulator,
    whose texts are the same on all machines, DEFAULT_ARCH. Raises TensorIRError for a device of
    none that is known.
    """
    if target.arch is not None:
        return target.arch
    device = current_device() if target.kind == "cuda" else None
    return DEFAULT_ARCH if device is None else architecture_of(device.capability).name


def why_no_device(arch: str) -> str | None:
    """Why no kernel for `arch` can run here, with what mends it; None where a device can run it."""
    architecture = find_architecture(arch)
    runtime = _runtime()
    if runtime is None:
        return no_cupy("running CUDA kernels")
    wanted = runtime.runtimeGetVersion() // 1000
    driver, count = driver_version(), _count(runtime)
    if driver is None:
        return (
            "there is no NVIDIA driver, which running CUDA kernels needs: install version "
            f"{_oldest(wanted)} or newer (Debian: apt install nvidia-driver), or build for "
            "cuda-emulator"
        )
    if driver[0] < wanted:
        return _old_driver(driver, wanted)
    if not count or isinstance(count, str):
        return (
            f"the NVIDIA driver shows no device ({count or 'it knows of none'}): see nvidia-smi "
            "and the variable CUDA_VISIBLE_DEVICES, or build for cuda-emulator"
        )
    found = devices()
    if not any(device.runs(architecture) for device in found):
        names = ", ".join(map(str, found))
        return f"no device here runs code for {arch}: there is {names}; build for what is there"
    return None


def _old_driver(driver: tuple[int, int], wanted: int) -> str:
    said = (
        f"the NVIDIA driver is for CUDA {driver[0]}.{driver[1]} and CuPy for CUDA {wanted}: "
        f"install a driver of version {_oldest(wanted)} or newer"
    )
    if driver[0] in WHEELS and wanted in WHEELS:
        other = install("cupy", "nvrtc", "headers", major=driver[0])
        said += f", or pip uninstall {WHEELS[wanted][0]} and {other}"
    return said


def _oldest(major: int) -> int:
    return DRIVERS.get(major, DRIVERS[max(DRIVERS)])


def _count(runtime: ModuleType) -> int | str:
    """How many devices there are, or what CUDA says instead."""
    try:
        count: int = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return str(error)
    return count


def _runtime() -> ModuleType | None:
    """CuPy's binding of the CUDA runtime, which is a part of it; None where there is no CuPy."""
    if cupy_version() is None:
        return None
    try:
        from cupy.cuda import runtime
    except ImportError:
        return None
    module: ModuleType = runtime
    return module


def _device(runtime: ModuleType, number: int) -> Device:
    about = runtime.getDeviceProperties(number)
    return Device(number, about["name"].decode(), (about["major"], about["minor"]))
