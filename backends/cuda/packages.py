"""What of CUDA is installed with Python, and the commands that install what is not."""

from __future__ import annotations

import ctypes
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

WHEELS = {
    12: ("cupy-cuda12x", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12"),
    13: ("cupy-cuda13x", "'nvidia-cuda-nvrtc==13.*'", "'nvidia-cuda-runtime==13.*'"),
}
"""For each major version: CuPy, the compiler NVRTC, and the headers. The extras name the same."""

DISASSEMBLER = "nvidia-cuda-nvdisasm"
"""Reads the machine code of every version of CUDA."""

NEWEST = max(WHEELS)


def cupy_version() -> str | None:
    """The version of CuPy; None where it is not installed."""
    if find_spec("cupy") is None:
        return None
    for name in (*(wheels[0] for wheels in WHEELS.values()), "cupy"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"


def cuda_major() -> int:
    """The major version of CUDA that is used here.

    That of the installed CuPy; else the newest that the driver runs, and the newest without one.
    """
    for major, wheels in WHEELS.items():
        try:
            version(wheels[0])
        except PackageNotFoundError:
            continue
        return major
    driver = driver_version()
    fitting = [major for major in WHEELS if driver is None or major <= driver[0]]
    return max(fitting, default=NEWEST)


def driver_version() -> tuple[int, int] | None:
    """The version of CUDA that NVIDIA's driver is for, as (13, 0); None where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int(0)
    if driver.cuDriverGetVersion(ctypes.byref(number)) or not number.value:
        return None
    return number.value // 1000, number.value % 1000 // 10


def install(*parts: str, major: int | None = None) -> str:
    """The command that installs "cupy", "nvrtc", "headers", or why there is none."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        here = f"{platform.system()} on {platform.machine()}"
        return f"there are no such packages for {here}; use Linux on x86_64 or aarch64"
    wheels = dict(zip(("cupy", "nvrtc", "headers"), WHEELS[major or cuda_major()]))
    return f"pip install {' '.join(wheels[part] for part in parts)}"


def no_cupy(purpose: str) -> str:
    """The sentence for who needs CuPy and has none."""
    return f"{purpose} needs CuPy, which is not installed: {install('cupy', 'nvrtc', 'headers')}"
