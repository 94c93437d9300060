"""What rows take on the GPU at hand, beside CuPy, torch and torch.compile, in turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from autotune import default_schedule
from backends import Timing, build, interleave, resolve
from benchmarks.gpus.rows import Row
from schedule import Schedule
from schedule.library import gpu
from tensorir import te

WARM_UP = 3
"""Calls ahead of timing: torch.compile compiles in the first ones."""


class Device:
    """CuPy's arrays on the GPU that is current; float32 without TF32."""

    target = "cuda"

    def __init__(self) -> None:
        os.environ["CUPY_TF32"] = "0"
        import cupy

        self.np: Any = cupy
        self.torch: Any = None
        if find_spec("torch") is not None:
            import torch

            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cudnn.allow_tf32 = False
            self.torch = torch

    @property
    def peak(self) -> float:
        """float32 operations in a second, by the data sheet of a card like this one."""
        return 1e9 * resolve(self.target).architecture.gflops

    def wait(self) -> None:
        self.np.cuda.Device().synchronize()


@dataclass(frozen=True)
class Events:
    """A function that is timed by events of the device, as kernels are."""

    cupy: Any
    call: Callable[[], Any]

    def timer(self) -> Callable[[int], float]:
        def seconds(calls: int) -> float:
            start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
            start.record()
            for _ in range(calls):
                self.call()
            end.record()
            end.synchronize()
            return float(self.cupy.cuda.get_elapsed_time(start, end)) / 1e3

        return seconds


@dataclass(frozen=True)
class Figure:
    """Medians in ms of each side, `spread` the half width of the 95 % interval of ours; `share` of
    the rate of a copy where memory decides, else of the card's float32 peak."""

    name: str
    ms: Mapping[str, float]
    spread: float
    share: float
    of: str
    error: float


def figure(row: Row, device: Device, copied: float, rounds: int) -> Figure:
    """Check and time one row; the libraries that are there have to agree with it within 1e-3."""
    inputs = [device.np.asarray(a) for a in row.inputs()]
    kernel = build(default_schedule(row.func(), device.target), device.target)
    found = kernel(*inputs)
    sides: dict[str, Any] = {"ours": (kernel, *inputs, found)}
    error = 0.0
    if row.name.startswith("matmul"):
        sides["cuBLAS"] = Events(device.np, lambda: device.np.matmul(*inputs))
    for name, call in _torch_forms(row, device).items():
        given = [device.torch.from_dlpack(a) for a in inputs]
        for _ in range(WARM_UP):
            wanted = call(*given)
        wanted = device.np.from_dlpack(wanted.contiguous())
        scale = float(device.np.abs(wanted).max())
        error = max(error, float(device.np.abs(found - wanted).max()) / max(scale, 1e-30))
        sides[name] = Events(device.np, lambda call=call, given=given: call(*given))
    assert error < 1e-3, f"{row.name} differs from torch by {error:.1e}"
    device.wait()
    timings = dict(zip(sides, interleave(list(sides.values()), rounds, 1.0)))
    ours: Timing = timings["ours"]
    share = row.bytes / ours.median / copied
    of = "copy"
    if row.flops:
        share, of = row.flops / ours.median / device.peak, "fp32 peak"
    medians = {name: 1e3 * timing.median for name, timing in timings.items()}
    return Figure(row.name, medians, ours.spread, share, of, error)


def _torch_forms(row: Row, device: Device) -> dict[str, Callable[..., Any]]:
    """torch's form of a row, as it is and compiled (by Inductor, whose kernels are Triton's)."""
    if device.torch is None or row.torch is None:
        return {}
    form = row.torch

    def plain(*tensors: Any) -> Any:
        return form(device.torch, *tensors)

    found: dict[str, Callable[..., Any]] = {"torch": plain}
    if find_spec("triton") is not None:
        found["torch.compile"] = device.torch.compile(plain)
    return found


def by_hand(device: Device, n: int, rounds: int) -> float:
    """ms of the product of n x n matrices by the schedule of the library, without a rule."""
    a, b = (te.placeholder((n, n), "float32", name=name) for name in "AB")
    k = te.reduce_axis(n, name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="matmul"))
    gpu.matmul(sch, "C")
    kernel = build(sch, device.target)
    x, y = (device.np.asarray(np.ones((n, n), "float32")) for _ in range(2))
    (timing,) = interleave([(kernel, x, y, kernel(x, y))], rounds, 1.0)
    return 1e3 * timing.median


def copy_rate(device: Device, rounds: int) -> float:
    """Bytes a second of a copy of a large array, read and written ones together."""
    count = 1 << 28
    a = device.np.ones(count, "float32")
    b = device.np.empty_like(a)
    (timing,) = interleave([Events(device.np, lambda: device.np.copyto(b, a))], rounds, 1.0)
    return 8.0 * count / timing.median


def call_overhead(device: Device, rounds: int) -> float:
    """Seconds of a call from Python, as the caller sees it, of a kernel with little to do."""
    a = te.placeholder((32,), "float32", name="A")
    func = te.create_prim_func([a, te.compute((32,), lambda i: a[i] + 1.0, name="B")], name="one")
    kernel = build(func, device.target)
    x, y = (device.np.zeros(32, "float32") for _ in range(2))
    (timing,) = interleave([lambda: kernel(x, y)], rounds, 1.0)
    device.wait()
    return timing.median
