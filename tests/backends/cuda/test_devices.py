"""Which GPU is here, and why one cannot be used; drivers and devices are imitated."""

from __future__ import annotations

import platform
from types import SimpleNamespace

import pytest

from backends.cuda import devices
from backends.cuda.devices import Device, chosen_arch, why_no_device
from tensorir import ARCHITECTURES, Target, TensorIRError


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


@pytest.fixture
def machine(monkeypatch):
    """machine(driver, cupy, devices): as if CuPy found these; `devices` may be an error."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")

    def made(driver=(13, 0), cupy=13020, found=(), current=0):
        def count():
            if isinstance(found, str):
                raise CUDARuntimeError(found)
            return len(found)

        def properties(number):
            name, (major, minor) = found[number]
            return {"name": name.encode(), "major": major, "minor": minor}

        runtime = SimpleNamespace(
            runtimeGetVersion=lambda: cupy,
            getDeviceCount=count,
            getDeviceProperties=properties,
            getDevice=lambda: current,
            CUDARuntimeError=CUDARuntimeError,
        )
        monkeypatch.setattr(devices, "_runtime", lambda: runtime)
        monkeypatch.setattr(devices, "driver_version", lambda: driver)

    return made


H200 = ("NVIDIA H200", (9, 0))
A10 = ("NVIDIA A10", (8, 6))


def test_no_cupy(monkeypatch):
    monkeypatch.setattr(devices, "_runtime", lambda: None)
    assert why_no_device("sm_80").startswith("running CUDA kernels needs CuPy, which is not inst")
    assert devices.devices() == []
    assert chosen_arch(Target("cuda")) == "sm_80"


def test_no_driver(machine):
    machine(driver=None, found="cudaErrorInsufficientDriver")
    assert why_no_device("sm_80") == (
        "there is no NVIDIA driver, which running CUDA kernels needs: install version 580 or newer "
        "(Debian: apt install nvidia-driver), or build for cuda-emulator"
    )
    assert chosen_arch(Target("cuda")) == "sm_80"


def test_a_driver_that_is_too_old(machine):
    machine(driver=(12, 4), found="cudaErrorInsufficientDriver")
    assert why_no_device("sm_80") == (
        "the NVIDIA driver is for CUDA 12.4 and CuPy for CUDA 13: install a driver of version 580 "
        "or newer, or pip uninstall cupy-cuda13x and pip install cupy-cuda12x "
        "nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12"
    )
    machine(driver=(11, 8), found="cudaErrorInsufficientDriver")
    assert why_no_device("sm_80").endswith("install a driver of version 580 or newer")


def test_an_older_minor_version_is_new_enough(machine):
    machine(driver=(13, 0), cupy=13020, found=[H200])
    assert why_no_device("sm_90a") is None


def test_no_device(machine):
    machine(found="cudaErrorNoDevice: no CUDA-capable device is detected")
    assert why_no_device("sm_80").startswith(
        "the NVIDIA driver shows no device (cudaErrorNoDevice: no CUDA-capable device is detected):"
        " see nvidia-smi and the variable CUDA_VISIBLE_DEVICES"
    )
    machine()
    assert "shows no device (it knows of none): see nvidia-smi" in why_no_device("sm_80")


def test_no_device_of_that_architecture(machine):
    machine(found=[H200, A10])
    assert why_no_device("sm_100") == (
        "no device here runs code for sm_100: there is NVIDIA H200 (compute capability 9.0), "
        "NVIDIA A10 (compute capability 8.6); build for what is there"
    )
    assert why_no_device("sm_80") is None and why_no_device("sm_90a") is None
    with pytest.raises(TensorIRError, match="'sm_1' is unknown"):
        why_no_device("sm_1")


@pytest.mark.parametrize(
    ("capability", "runs"),
    [
        ((7, 5), {"sm_75"}),
        ((8, 0), {"sm_80"}),
        ((8, 7), {"sm_80", "sm_86"}),
        ((8, 9), {"sm_80", "sm_86", "sm_89"}),
        ((9, 0), {"sm_90", "sm_90a"}),
        ((10, 3), {"sm_100"}),
        ((12, 0), {"sm_120", "sm_120a"}),
        ((13, 0), set()),
    ],
)
def test_what_a_device_runs(capability, runs):
    device = Device(0, "some GPU", capability)
    assert {a.name for a in ARCHITECTURES.values() if device.runs(a)} == runs


def test_the_architecture_of_a_target(machine):
    machine(found=[A10, H200], current=1)
    assert chosen_arch(Target("cuda")) == "sm_90a"
    assert chosen_arch(Target("cuda", arch="sm_80")) == "sm_80"
    assert chosen_arch(Target("cuda-emulator")) == "sm_80"  # the same text on every machine
    machine(found=[("Tesla V100", (7, 0))])
    with pytest.raises(TensorIRError, match="compute capability 7.0, for which there is no"):
        chosen_arch(Target("cuda"))


def test_here(with_nvrtc):
    """Whatever this machine has, the questions have answers."""
    found = devices.devices()
    for arch in ARCHITECTURES:
        assert (why_no_device(arch) is None) == any(d.runs(ARCHITECTURES[arch]) for d in found)
