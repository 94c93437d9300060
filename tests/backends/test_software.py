"""What `tensorir doctor` says of GPUs: every piece that is missing comes with its command."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from backends import BuildError, Software, gpu_software
from backends.c import compiler as cc
from backends.cuda import devices, nvrtc, packages


@pytest.fixture(autouse=True)
def on_linux(monkeypatch):
    monkeypatch.setattr(packages.platform, "system", lambda: "Linux")
    monkeypatch.setattr(packages.platform, "machine", lambda: "x86_64")


def named(name: str) -> Software:
    return next(each for each in gpu_software() if each.name == name)


def test_here(with_nvrtc):
    found = {each.name: each for each in gpu_software()}
    assert list(found) == ["cupy", "nvrtc", "headers", "gpu", "emulator", "opencl"]
    assert found["nvrtc"].text.startswith(f"NVRTC {with_nvrtc} ")
    assert not found["cupy"].remedy and not found["nvrtc"].remedy
    assert bool(found["gpu"].remedy) == (not devices.devices())
    assert not any("\n" in each.text for each in found.values())


def test_no_cupy(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda name: None)
    assert named("cupy").remedy.startswith("pip install cupy-cuda")
    assert [each.name for each in gpu_software()] == ["cupy", "emulator", "opencl"]


def test_a_cupy_that_cannot_be_imported(monkeypatch, with_nvrtc):
    broken = "CuPy cannot be imported (libcudart.so: no such file): pip install x --force-reinstall"
    monkeypatch.setattr(nvrtc, "why_not", lambda: broken)
    said = named("nvrtc")
    assert said.text == "CuPy cannot be imported (libcudart.so: no such file)"
    assert said.remedy == "pip install x --force-reinstall"


def test_cupy_without_nvrtc_and_headers(monkeypatch, with_nvrtc):
    from cupy.cuda import nvrtc as binding

    def missing():
        raise RuntimeError("Failure finding libnvrtc.so.13")

    monkeypatch.setattr(binding, "getVersion", missing)
    monkeypatch.setattr(nvrtc, "header_folder", lambda: None)
    assert named("nvrtc").text.endswith("finds no NVRTC, the compiler of CUDA text")
    assert "nvidia-cuda-nvrtc" in named("nvrtc").remedy
    assert "nvidia-cuda-runtime" in named("headers").remedy


def test_devices(monkeypatch, with_nvrtc):
    both = [devices.Device(0, "H200", (9, 0)), devices.Device(1, "V100", (7, 0))]
    monkeypatch.setattr(devices, "devices", lambda: both)
    monkeypatch.setattr(packages, "driver_version", lambda: (13, 0))
    assert named("gpu") == Software(
        "gpu",
        "H200 (compute capability 9.0), sm_90a, V100 (compute capability 7.0), which no "
        "architecture is known for; driver for CUDA 13.0",
    )


def test_no_cxx_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    said = named("emulator")
    assert "no-such-compiler" in said.text + said.remedy
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install g++" in named("emulator").remedy


def test_a_cxx_compiler_that_compiles_nothing(monkeypatch):
    def fails(*args, **options):
        raise BuildError("cannot execute cc1plus")

    assert named("emulator").remedy == ""
    monkeypatch.setattr(cc, "compile_object", fails)
    said = named("emulator")
    assert said.text.endswith("which compiles no C++")
    assert "apt install g++" in said.remedy


class Missing(Exception):
    """As pyopencl.Error."""


def implementations(*names: str):
    def get_platforms():
        if not names:
            raise Missing("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")
        return [SimpleNamespace(name=name, version="OpenCL 3.0 ") for name in names]

    return SimpleNamespace(get_platforms=get_platforms, Error=Missing, VERSION_TEXT="2026.1")


def test_opencl(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", implementations("PoCL"))
    monkeypatch.setattr("backends.software.find_spec", lambda name: object())
    assert named("opencl") == Software("opencl", "pyopencl 2026.1: PoCL, OpenCL 3.0")
    monkeypatch.setitem(sys.modules, "pyopencl", implementations())
    assert "apt install pocl-opencl-icd" in named("opencl").remedy
    monkeypatch.setattr("backends.software.find_spec", lambda name: None)
    assert named("opencl").remedy == "pip install pyopencl"
