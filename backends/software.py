"""What GPU targets need beside a C compiler: what of it is here, and the commands for the rest."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from backends.errors import BuildError

if TYPE_CHECKING:
    from backends.cuda.devices import Device

PROBE = "int probe(int *data) { return data[0]; }\n"
POCL = "install one, as PoCL, which runs on the CPU (Debian/Ubuntu: apt install pocl-opencl-icd)"


@dataclass(frozen=True)
class Software:
    """One piece: `text` says what was found, `remedy` what to do where it is missing, else ""."""

    name: str
    text: str
    remedy: str = ""


def gpu_software() -> Iterator[Software]:
    """CuPy, NVRTC, CUDA's headers, driver and devices, what the emulator needs, and OpenCL."""
    yield from cuda()
    yield emulator()
    yield opencl()


def cuda() -> Iterator[Software]:
    """What compiles CUDA text, and what runs it."""
    from backends.cuda import devices, nvrtc
    from backends.cuda.packages import cupy_version, driver_version, install

    found = cupy_version()
    if found is None:
        command = install("cupy", "nvrtc", "headers")
        yield Software("cupy", "not installed: only CUDA targets need it", command)
        return
    yield Software("cupy", found)
    missing = nvrtc.why_not()
    if missing is None:
        known = "NVRTC {}.{}".format(*nvrtc.version())
        yield Software("nvrtc", f"{known} compiles CUDA text, with or without a GPU")
    else:
        yield Software("nvrtc", *_split(missing))
    folder = nvrtc.header_folder()
    if folder is not None:
        yield Software("headers", f"{folder}, for float16 and bfloat16 in CUDA")
    else:
        yield Software("headers", "none of CUDA, for float16 and bfloat16", install("headers"))
    driver, present = driver_version(), devices.devices()
    if present:
        shown = ", ".join(map(_with_architecture, present))
        yield Software("gpu", f"{shown}; driver for CUDA {'.'.join(map(str, driver or ()))}")
    else:
        yield Software("gpu", *_split(devices.why_no_device("sm_80") or "none"))


def _with_architecture(device: Device) -> str:
    from tensorir import TensorIRError, architecture_of

    try:
        return f"{device}, {architecture_of(device.capability).name}"
    except TensorIRError:
        return f"{device}, which no architecture is known for"


def emulator() -> Software:
    """What the target cuda-emulator needs: a C++ compiler."""
    from backends.c import compiler as cc

    try:
        compiler = cc.find_cxx_compiler()
    except BuildError as error:
        return Software("emulator", *_split(error.message))
    about = compiler.identity.partition("\n")[0]
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder, "probe.so")
            cc.compile_object(compiler, PROBE, place, ("-fPIC",), "probe", 60, language="c++")
    except BuildError:
        return Software(
            "emulator",
            f"{about}, which compiles no C++",
            "install all of it (Debian/Ubuntu: apt install g++; Fedora: dnf install gcc-c++), or "
            "name another one in CXX",
        )
    return Software("emulator", about)


def opencl() -> Software:
    """What the target opencl needs: pyopencl, and an implementation of OpenCL."""
    if find_spec("pyopencl") is None:
        text = "pyopencl is not installed: only the OpenCL target needs it"
        return Software("opencl", text, "pip install pyopencl")
    import pyopencl

    try:
        platforms = pyopencl.get_platforms()
    except pyopencl.Error:  # which it is where the loader finds no implementation
        platforms = []
    if not platforms:
        return Software("opencl", "pyopencl finds no implementation of OpenCL", POCL)
    shown = ", ".join(f"{each.name.strip()}, {each.version.strip()}" for each in platforms)
    return Software("opencl", f"pyopencl {pyopencl.VERSION_TEXT}: {shown}")


def _split(sentence: str) -> tuple[str, str]:
    """A sentence that ends with its remedy, in two: at the first colon that is in no brackets."""
    found = re.fullmatch(r"((?:\([^()]*\)|[^()])*?): (.*)", sentence)
    return (found[1], found[2]) if found else (sentence, "")
