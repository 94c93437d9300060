"""What GPUs take: schedules of schedule.library.gpu and default ones beside cuBLAS and a copy.

    python benchmarks/gpu.py               on a GPU, in under five minutes
    python benchmarks/gpu.py --dry-run     tiny sizes on the emulator: shows that everything works

Kernels are checked against the library before they are timed, in turns, by events of the device.
The second table is about the tools, and the same on machines without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune import default_schedule
from backends import (
    ObjectCache,
    Timing,
    build,
    compare,
    have_compiler,
    interleave,
    source_text,
    why_not_here,
)
from schedule import Schedule
from schedule.library import gpu
from tensorir import PrimFunc, TensorIRError, ops, te


class Emulator:
    """NumPy's arrays, and the emulator: times say nothing."""

    target, quick = "cuda-emulator", True
    np: Any = np

    def array(self, values: np.ndarray) -> Any:
        return values

    def timed(self, call: Callable[[], Any]) -> Any:
        return call

    def wait(self) -> None: ...


class Device:
    """CuPy's arrays on the GPU that is current; float32 without TF32."""

    target, quick = "cuda", False

    def __init__(self) -> None:
        os.environ["CUPY_TF32"] = "0"
        import cupy

        self.np = cupy

    def array(self, values: np.ndarray) -> Any:
        return self.np.asarray(values)

    def timed(self, call: Callable[[], Any]) -> Any:
        return Events(self.np, call)

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
class Case:
    """A scheduled program, what the library does instead, and its work: 10^9 of `unit` a second."""

    name: str
    schedule: Schedule
    shapes: tuple[tuple[int, ...], ...]
    library: Callable[..., Any]
    work: float
    unit: str
    against: str


@dataclass(frozen=True)
class Figure:
    """Medians in ms with the half width of their 95 % interval; `share` of the library's rate."""

    name: str
    ms: float
    spread: float
    rate: float
    unit: str
    against: str
    library_ms: float
    share: float


def cases(device: Emulator | Device) -> Iterator[Case]:
    """All rows, matrix products first."""
    for n in (40,) if device.quick else (4096, 6144, 8192):
        yield matmul(n)
        yield matmul(n, default=True)
    yield batched(*((3, 20, 8) if device.quick else (256, 512, 64)))
    yield long_sum(*((8, 600) if device.quick else (64, 65536)))
    channels, size = (6, 12) if device.quick else (128, 56)
    for kernel in (1, 3):
        yield convolution(channels, size, kernel)
    yield convolution(channels, size, 3, groups=channels)
    yield pooling(channels, size)
    yield transpose(*((40, 50) if device.quick else (8192, 16384)))
    rows = ((7, 70), (3, 300)) if device.quick else ((65536, 1024), (1024, 65536))
    for unit, shape in zip(("warp", "block"), rows):
        yield row_sum(unit, *shape)
        yield softmax(unit, *shape)


def matmul(n: int, default: bool = False) -> Case:
    a, b = (te.placeholder((n, n), "float32", name=name) for name in "AB")
    k = te.reduce_axis(n, name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    func = te.create_prim_func([a, b, c], name="matmul")
    sch = by_default(func) if default else Schedule(func)
    if not default:
        gpu.matmul(sch, "C")
    library, work = (lambda x, xp: xp.matmul(*x)), 2.0 * n**3
    name = f"matmul {n}{', by default' if default else ''}"
    return Case(name, sch, ((n, n), (n, n)), library, work, "GFLOP/s", "cuBLAS")


def by_default(func: PrimFunc) -> Schedule:
    return default_schedule(func, "cuda -arch=sm_90a")


def batched(b: int, n: int, k: int) -> Case:
    """Products of short sums, one for each batch."""
    x, y = te.placeholder((b, n, k), name="x"), te.placeholder((b, k, n), name="y")
    sch = by_default(te.create_prim_func([x, y, ops.batch_matmul(x, y)], name="batched"))
    name, work = f"batched product {b}x{n}x{n}x{k}", 2.0 * b * n * n * k
    shapes = ((b, n, k), (b, k, n))
    return Case(name, sch, shapes, lambda x, xp: xp.matmul(*x), work, "GFLOP/s", "cuBLAS")


def long_sum(n: int, k: int) -> Case:
    """A product with few results, whose sums are parted."""
    x, y = te.placeholder((n, k), name="x"), te.placeholder((k, n), name="y")
    sch = by_default(te.create_prim_func([x, y, ops.matmul(x, y)], name="long_sum"))
    name, work = f"product {n}x{n}x{k}", 2.0 * n * n * k
    return Case(name, sch, ((n, k), (k, n)), lambda x, xp: xp.matmul(*x), work, "GFLOP/s", "cuBLAS")


def convolution(c: int, n: int, k: int, groups: int = 1) -> Case:
    """`c` channels to as many, images of n x n, windows of k x k; the library's is a product of all
    windows, copied, with the weights."""
    batch, each = 2, c // groups
    shapes = ((batch, c, n + k - 1, n + k - 1), (c, each, k, k))
    x, w = (te.placeholder(shape, name=name) for shape, name in zip(shapes, "xw"))
    func = te.create_prim_func([x, w, ops.conv2d(x, w, groups=groups)], name="convolution")

    def library(inputs: list[Any], xp: Any) -> Any:
        image, weight = inputs
        found = xp.lib.stride_tricks.sliding_window_view(image, (k, k), axis=(2, 3))
        if each == 1:
            return xp.einsum("bchwrs,crs->bchw", found, weight[:, 0])
        columns = xp.ascontiguousarray(found.transpose(0, 2, 3, 1, 4, 5)).reshape(-1, c * k * k)
        made = xp.matmul(columns, weight.reshape(c, -1).T)
        return xp.ascontiguousarray(made.reshape(batch, n, n, c).transpose(0, 3, 1, 2))

    work = 2.0 * batch * c * each * (k * n) ** 2
    name = f"convolution {c} channels {n}x{n}, {k}x{k}{', depthwise' if groups > 1 else ''}"
    return Case(name, by_default(func), shapes, library, work, "GFLOP/s", "windows")


def pooling(c: int, n: int) -> Case:
    """The largest one of windows of 3 x 3 that overlap."""
    shape = (2, c, 2 * n + 1, 2 * n + 1)
    x = te.placeholder(shape, name="x")
    func = te.create_prim_func([x, ops.max_pool2d(x, 3, 2)], name="pooling")

    def library(inputs: list[Any], xp: Any) -> Any:
        found = xp.lib.stride_tricks.sliding_window_view(inputs[0], (3, 3), axis=(2, 3))
        return found[:, :, ::2, ::2].max(axis=(4, 5))

    work = 4.0 * 2 * c * ((2 * n + 1) ** 2 + n * n)
    return Case(f"pooling {c} channels {n}x{n}", by_default(func), (shape,), library, work, "GB/s",
                "copy")  # fmt: skip


def transpose(m: int, n: int) -> Case:
    a = te.placeholder((m, n), "float32", name="A")
    sch = Schedule(
        te.create_prim_func([a, te.compute((n, m), lambda i, j: a[j, i], name="B")], name="turn")
    )
    gpu.transpose(sch, "B")
    library = lambda x, xp: xp.ascontiguousarray(x[0].T)  # noqa: E731
    return Case(f"transpose {m}x{n}", sch, ((m, n),), library, 8.0 * m * n, "GB/s", "copy")


def row_sum(unit: str, m: int, n: int) -> Case:
    a, k = te.placeholder((m, n), "float32", name="A"), te.reduce_axis(n, name="k")
    b = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="B")
    sch = Schedule(te.create_prim_func([a, b], name="row_sum"))
    gpu.rows(sch, "B", by=unit)
    library = lambda x, xp: x[0].sum(axis=1)  # noqa: E731
    name = f"row sum {m}x{n}, a {unit} a row"
    return Case(name, sch, ((m, n),), library, 4.0 * m * (n + 1), "GB/s", "copy")


def softmax(unit: str, m: int, n: int) -> Case:
    a = te.placeholder((m, n), "float32", name="A")
    sch = Schedule(te.create_prim_func([a, ops.softmax(a, name="S")], name="softmax"))
    gpu.rows(sch, "S", by=unit)

    def library(x: list[Any], xp: Any) -> Any:
        e = xp.exp(x[0] - x[0].max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    name = f"softmax {m}x{n}, a {unit} a row"
    return Case(name, sch, ((m, n),), library, 8.0 * m * n, "GB/s", "copy")


def copy_rate(device: Emulator | Device, rounds: int) -> float:
    """GB/s of a copy of a large array, read and written bytes together."""
    count = 1 << (10 if device.quick else 28)
    a = device.array(np.ones(count, "float32"))
    b = device.np.empty_like(a)
    (timing,) = interleave([device.timed(lambda: device.np.copyto(b, a))], rounds, 1.0)
    return 8e-9 * count / timing.median


def figure(case: Case, device: Emulator | Device, copied: float, rounds: int) -> Figure:
    """Check and time one row. Raises AssertionError where the result is wrong."""
    rng = np.random.default_rng(0)
    inputs = [device.array(rng.standard_normal(s, "float32")) for s in case.shapes]
    kernel = build(case.schedule, device.target)
    found, wanted = kernel(*inputs), case.library(inputs, device.np)
    error = float(device.np.abs(found - wanted).max() / device.np.abs(wanted).max())
    assert error < 1e-4, f"{case.name} is wrong by {error:.1e}"
    library = device.timed(lambda: case.library(inputs, device.np))
    ours, theirs = interleave([(kernel, *inputs, found), library], rounds, 1.0)
    rate = 1e-9 * case.work / ours.median
    share = rate / copied if case.against == "copy" else compare(theirs, ours).ratio
    return Figure(
        case.name, 1e3 * ours.median, ours.spread, rate, case.unit, case.against,
        1e3 * theirs.median, share,
    )  # fmt: skip


def call_overhead(device: Emulator | Device, rounds: int) -> Timing:
    """Seconds of a call from Python, as the caller sees it, of a kernel with little to do."""
    a = te.placeholder((32,), "float32", name="A")
    func = te.create_prim_func([a, te.compute((32,), lambda i: a[i] + 1.0, name="B")], name="one")
    kernel = build(func, device.target)
    x, y = (device.array(np.zeros(32, "float32")) for _ in range(2))
    (timing,) = interleave([lambda: kernel(x, y)], rounds, 1.0)
    device.wait()
    return timing


def tools(n: int) -> dict[str, float]:
    """Seconds of what happens on any machine, for the fp32 matmul of n x n x n: from nothing kept,
    but the emulator's own runtime."""
    sch = matmul(n).schedule
    a, b = (np.ones((n, n), "float32") for _ in range(2))
    found: dict[str, float] = {}

    def took(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        found[name] = time.perf_counter() - start
        return result

    for target in ("cuda-emulator", "cuda-emulator -check=races"):  # loads the runtimes
        build(matmul(8).schedule, target)(*(np.ones((8, 8), "float32"),) * 2)
    with tempfile.TemporaryDirectory() as folder:
        cache = ObjectCache(folder)
        source = took("lower and emit", lambda: source_text(sch.func, "cuda"))
        kernel = took("build for the emulator", lambda: build(sch, "cuda-emulator", cache=cache))
        kernel(a, b)
        took("run on the emulator", lambda: kernel(a, b))
        races = build(sch, "cuda-emulator -check=races", cache=cache)
        took("run under the race check", lambda: races(a, b))
        if have_compiler("cuda"):
            from backends.cuda.nvrtc import compile_cubin

            took("NVRTC for sm_90a", lambda: compile_cubin(source, "sm_90a"))
    return found


def show(figures: list[Figure], copied: float, overhead: Timing, seconds: dict[str, float]) -> None:
    print(f"{'':36} {'ms':>10} {'+-':>6} {'rate':>9} {'':8} {'share':>6}")
    for f in figures:
        print(
            f"{f.name:36} {f.ms:10.4f} {f.spread:6.1%} {f.rate:9.1f} {f.unit:8} {f.share:6.0%} "
            f"of {f.against} (library {f.library_ms:.4f} ms)"
        )
    print(f"a copy moves {copied:.0f} GB/s; a call takes {1e6 * overhead.median:.1f} us")
    for name, value in seconds.items():
        print(f"{name:36} {1e3 * value:10.1f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the emulator")
    parser.add_argument("--only", default="", help="only rows with this text in their name")
    parser.add_argument("--rounds", type=int, default=20, help="blocks of calls of each")
    parser.add_argument("--json", type=Path, help="where the figures go")
    options = parser.parse_args()
    why = None if options.dry_run else why_not_here("cuda")
    if why is not None:
        print(f"{why}; --dry-run needs no GPU", file=sys.stderr)
        return 1
    try:
        device: Emulator | Device = Emulator() if options.dry_run else Device()
        copied = copy_rate(device, options.rounds)
        figures = [
            figure(case, device, copied, options.rounds)
            for case in cases(device)
            if options.only in case.name
        ]
        overhead = call_overhead(device, options.rounds)
        seconds = tools(16 if device.quick else 256)
    except (AssertionError, ImportError, TensorIRError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    show(figures, copied, overhead, seconds)
    if options.json is not None:
        rows = [asdict(f) for f in figures]
        made = {"rows": rows, "copy_gbps": copied, "call_s": overhead.median, "tools_s": seconds}
        options.json.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
