"""Calls of CUDA kernels: arrays of all libraries, devices, streams, memory, and what is refused.

The device is a fake (fake_gpu.py): the driver's calls end on the emulator. With -m cuda the same
kernels run on what there is.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpu import CupyArray, DlpackArray, FakeDriver, InterfaceArray, TorchTensor, torch_module

from backends import OutOfMemory, build, build_source
from backends.cuda import backend, nvrtc
from backends.cuda.devices import why_no_device
from backends.cuda.driver import Driver, DriverError
from backends.cuda.text import cuda_text
from tensorir import Target, TensorIRError, te
from tensorir.text.parser import parse

ADD = """
@prim_func
def add(A: f32[n], B: f32[n], C: f32[n]):
    with alloc(T, f32[n]):
        for b in thread("blockIdx.x", (n + 31) // 32):
            for t in thread("threadIdx.x", 32):
                if b * 32 + t < n:
                    T[b * 32 + t] = A[b * 32 + t] + B[b * 32 + t]
        for b in thread("blockIdx.y", n):
            C[b] = T[b]
"""
VECTORS = """
@prim_func
def copy(A: bf16[64], C: bf16[64]):
    for t in thread("threadIdx.x", 16, annotations={"shared_bytes": 65536}):
        C[ramp(t * 4, 1, 4)] = A[ramp(t * 4, 1, 4)]
"""


@pytest.fixture
def gpu(monkeypatch, cache) -> FakeDriver:
    """A driver of two devices; machine code is a name for its source."""
    sources: dict[bytes, str] = {}

    def cubin_of(source: str, arch: str, **_):
        code = str(len(sources)).encode()
        sources[code] = source
        log = "" if nvrtc.why_not() else backend_cubin(source, arch, cache=cache).log
        return SimpleNamespace(code=code, log=log)

    backend_cubin = backend.cubin_of
    driver = FakeDriver(sources)
    monkeypatch.setattr(backend, "cubin_of", cubin_of)
    monkeypatch.setattr("backends.cuda.nvrtc.why_not", lambda: None)
    monkeypatch.setattr("backends.cuda.program.Driver", lambda: driver)
    monkeypatch.setattr("backends.cuda.program.why_no_device", lambda arch: None)
    return driver


def kernel(text: str = ADD):
    func, target = parse(text), Target("cuda", arch="sm_90a")
    return build_source(func, cuda_text(func, target).source, target)


A, B = np.arange(5, dtype="f4"), np.full(5, 2, "f4")


@pytest.mark.parametrize("device", [0, 1])
def test_arrays_of_cupy_on_any_device(gpu, device):
    add = kernel()
    a, b = gpu.cupy(A, device), gpu.cupy(B, device)
    result = add(a, b)
    assert isinstance(result, CupyArray) and result.device.id == device
    np.testing.assert_array_equal(result.values, A + B)
    out = gpu.cupy(A, device)
    assert add(a, b, out) is out
    np.testing.assert_array_equal(out.values, A + B)
    assert gpu.launches == [(f"add_{k}", device, 40 + device) for k in (0, 1)] * 2
    assert gpu.loads == [device] and gpu.device == 0 and gpu.taken == [40 + device] * 2


def test_other_devices_load_the_code_once_more(gpu, collect):
    add = kernel()
    for device in (1, 0, 1, 0):
        np.testing.assert_array_equal(add(gpu.cupy(A, device), gpu.cupy(B, device)).values, A + B)
    assert gpu.loads == [1, 0] and gpu.unloads == []
    del add
    collect()
    assert sorted(gpu.unloads) == [0, 1], "code that nothing uses is unloaded"


def test_extents_of_zero_launch_nothing(gpu):
    add = kernel()
    assert add(gpu.cupy(A[:0]), gpu.cupy(B[:0])).shape == (0,)
    assert gpu.launches == []
    assert add(gpu.cupy(A[:1]), gpu.cupy(B[:1])).values.tolist() == [2.0]


def test_arrays_of_torch_run_on_its_stream_and_get_its_arrays(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch_module(70))
    result = kernel()(TorchTensor(gpu.array(A, 1), 1), TorchTensor(gpu.array(B, 1), 1))
    assert isinstance(result, TorchTensor)
    np.testing.assert_array_equal(result.values, A + B)
    assert gpu.launches == [("add_0", 1, 71), ("add_1", 1, 71)] and gpu.taken == [71]
    bits = np.arange(64, dtype="u2")
    half = kernel(VECTORS)(TorchTensor(gpu.array(bits), 0, "bfloat16"))
    assert half.dtype == "torch.bfloat16"
    np.testing.assert_array_equal(half.values, bits)
    assert gpu.shared["copy_0"] == 65536


def test_what_has_a_protocol_is_taken_without_copies(gpu):
    a, b = InterfaceArray(gpu.array(A), stream=9), DlpackArray(gpu.array(B), 0)
    result = kernel()(a, b)
    assert isinstance(result, CupyArray)
    np.testing.assert_array_equal(result.values, A + B)
    assert gpu.waits == [(40, 9)], "the work that is pending on another stream is waited for"
    assert b.told == [40], "DLPack orders the work on the stream that it is told"
    out = InterfaceArray(gpu.array(A), stream=40)
    assert kernel()(a, b, out) is out
    np.testing.assert_array_equal(out.values, A + B)


def test_graphs_keep_their_workspaces(gpu):
    add = kernel()
    add(gpu.cupy(A), gpu.cupy(B))
    program = add._executable.on(0)
    assert program._captured == []
    gpu.capturing = True
    add(gpu.cupy(A), gpu.cupy(B))
    assert len(program._captured) == 1


def test_constants_are_prepared_once_for_each_device(gpu, monkeypatch):


    a, b = te.placeholder((4, 3), name="A"), te.placeholder((3,), name="B")
    twice = te.compute((3,), lambda i: b[i] * 2, name="twice")
    c = te.compute((4, 3), lambda i, j: a[i, j] + twice[j] + b[0], name="C")
    given = np.arange(1, 4, dtype="f4")
    func = te.create_prim_func([a, b, c], name="scaled")
    add = build(func, "cuda -arch=sm_80", constants={"B": given})
    given[:] = 99  # what the kernel knows is a copy
    x = np.ones((4, 3), "f4")
    for device in (0, 1, 0, 0):
        result = add(gpu.cupy(x, device))
        np.testing.assert_array_equal(result.values, x + np.array([2, 4, 6], "f4") + 1)
    names = [name for name, *_ in gpu.launches]
    assert sum("prepare" in name for name in names) == 2
    monkeypatch.setattr(backend, "Driver", lambda: gpu)
    there = build(func, "cuda -arch=sm_80", constants={"B": InterfaceArray(gpu.array(given))})
    np.testing.assert_array_equal(there(gpu.cupy(x)).values, x + 99 * 2 + 99)
    with pytest.raises(TensorIRError, match="names of its constants alone"):
        build(func, "cuda -arch=sm_80", constants=["B"])(gpu.cupy(x))


def test_timing_is_the_devices(gpu):
    add = kernel()
    assert add.timer(gpu.cupy(A, 1), gpu.cupy(B, 1))(3) == 0.25
    assert len(gpu.launches) == 6 and gpu.launches[0][1:] == (1, 41)
    assert add.timer(sizes={"n": 7})(1) == 0.25


SCALE = """
@prim_func
def scale(A: f32[n], C: f32[n]):
    for b in thread("blockIdx.x", (n + 31) // 32):
        for t in thread("threadIdx.x", 32):
            if b * 32 + t < n:
                C[b * 32 + t] = A[b * 32 + t] * 2.0
"""


def test_calls_like_an_earlier_one_are_checked_as_well(gpu):
    """Their shapes and types are known; devices, addresses and the stream are not."""
    scale = kernel(SCALE)
    scale(gpu.cupy(A))
    assert len(scale._quick) == 1

    def run(array, *out) -> np.ndarray:
        return scale(array, *out).values

    for k in range(3):
        np.testing.assert_array_equal(run(gpu.cupy(A + k)), 2 * (A + k))
        out = gpu.cupy(A)
        assert run(gpu.cupy(B + k), out) is out.values
        np.testing.assert_array_equal(out.values, 2 * (B + k))
    gpu.stream = 50
    run(gpu.cupy(A))
    assert gpu.launches[-1] == ("scale_0", 0, 50)
    np.testing.assert_array_equal(run(gpu.cupy(A, 1)), 2 * A)
    assert gpu.launches[-1] == ("scale_0", 1, 51)
    gpu.device = 1
    np.testing.assert_array_equal(run(gpu.cupy(A, 0)), 2 * A)
    assert gpu.launches[-1] == ("scale_0", 0, 50)
    gpu.device = 0
    both = gpu.cupy(np.arange(9, dtype="f4"))
    with pytest.raises(TensorIRError, match="shares memory"):
        run(both[:5], both[4:])
    run(both[:4], both[4:8])
    with pytest.raises(TensorIRError, match="on device 1, and 'A'"):
        run(gpu.cupy(A), gpu.cupy(A, 1))
    with pytest.raises(TensorIRError, match="not aligned"):
        run(shifted(gpu))
    np.testing.assert_array_equal(run(gpu.cupy(A[::2])), 2 * A[::2])
    with pytest.raises(TensorIRError, match="not C-contiguous"):
        run(gpu.cupy(A)[::2])
    gpu.fails = "CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(TensorIRError, match="'scale_0' could not be launched"):
        run(gpu.cupy(A))


def test_calls_from_several_threads_do_not_mix_their_arguments(gpu):
    scale, wrong = kernel(SCALE), []
    scale(gpu.cupy(A))

    def work(seed: int) -> None:
        for k in range(20):
            values = A + 100 * seed + k
            if not (scale(gpu.cupy(values)).values == 2 * values).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def strided(gpu) -> CupyArray:
    return gpu.cupy(np.zeros(10, "f4"))[::2]


def shifted(gpu) -> CupyArray:
    return CupyArray(gpu.array(np.zeros(21, "u1"))[1:].view("f4"), 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: A, r"'B' \(1\) is a ndarray, in the memory of the processor, .*cupy.asarray"),
        (lambda g: TorchTensor(A, None), r"'B' \(1\) is a TorchTensor, in the memory .*\.cuda\(\)"),
        (lambda g: DlpackArray(A, 0, 1), r"'B' \(1\) is a DlpackArray, in the memory"),
        (lambda g: [1.0], r"'B' \(1\) is a list, no array"),
        (lambda g: g.cupy(B, 1), r"'B' \(1\) is on device 1, and 'A' \(0\) on device 0; a kernel"),
        (strided, r"'B' \(1\) is not C-contiguous \(strides \(8,\)\); pass cupy.ascontiguousarray"),
        (shifted, r"'B' \(1\) is not aligned to its 4-byte elements"),
        (lambda g: g.cupy(B.astype("f8")), r"'B' \(1\) has dtype float64, expected float32"),
        (lambda g: g.cupy(B[:3]), r"'B' \(1\) has shape \[3\], expected \[n\]: n is 5 from 'A'"),
        (lambda g: TorchTensor(g.array(B.astype("u2")), 0, "bfloat16"), "'B' .* has dtype bfloat"),
    ],
)
def test_inputs_that_do_not_fit_are_named(gpu, make, message):
    add = kernel()
    for _ in range(2):
        with pytest.raises(TensorIRError, match=f"add: argument {message}"):
            add(gpu.cupy(A), make(gpu))
        add(gpu.cupy(A), gpu.cupy(B))
    assert len(gpu.launches) == 4, "a call that is refused touches nothing"


def test_outputs_that_do_not_fit_are_named(gpu):
    add, a, b = kernel(), gpu.cupy(A), gpu.cupy(B)
    add(a, b, gpu.cupy(A))
    with pytest.raises(TensorIRError, match=r"'C' \(2\) is read-only, and add writes it"):
        add(a, b, InterfaceArray(gpu.array(A), read_only=True))
    with pytest.raises(TensorIRError, match=r"'C' \(2\) shares memory with argument 'A' \(0\)"):
        add(a, b, a)
    with pytest.raises(TensorIRError, match="1 arguments given; expected 2"):
        add(a)
    tensor = TorchTensor(gpu.array(A), 0)
    tensor.requires_grad = True
    with pytest.raises(TensorIRError, match=r"has a gradient, .* pass \.detach\(\)"):
        add(a, b, tensor)


def test_vectors_need_arrays_that_begin_at_a_multiple(gpu):
    half = kernel(VECTORS)
    raw = gpu.array(np.zeros(80, "u2"))
    half(CupyArray(raw[4:68], 0))
    with pytest.raises(TensorIRError, match="'A' is accessed by vectors of 8 bytes and begins 2"):
        half(CupyArray(raw[1:65], 0))


def test_a_grid_that_is_too_large_for_these_sizes(gpu):
    large = gpu.cupy(np.zeros(65536, "f4"))
    with pytest.raises(TensorIRError, match="'add_1' cannot run on sm_90a for n = 65536: its grid"):
        kernel()(large, large)
    assert gpu.launches == []


def test_a_failed_launch_names_its_kernel(gpu):
    add = kernel()
    add(gpu.cupy(A), gpu.cupy(B))
    gpu.fails = "CUDA_ERROR_INVALID_VALUE: invalid argument"
    with pytest.raises(TensorIRError, match="'add_0' could not be launched .*invalid argument$"):
        add(gpu.cupy(A), gpu.cupy(B))
    gpu.fails = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"
    with pytest.raises(TensorIRError, match=r"add_0, add_1: with\s+CUDA_LAUNCH_BLOCKING=1 each"):
        add(gpu.cupy(A), gpu.cupy(B))


def test_memory_that_is_not_there_is_named(gpu):
    gpu.full = True
    with pytest.raises(OutOfMemory, match="add: no memory for the 20 bytes of intermediate 'T'"):
        kernel()(gpu.cupy(A), gpu.cupy(B))


def test_without_a_compiler_there_is_a_source(monkeypatch):
    monkeypatch.setattr("backends.cuda.nvrtc.why_not", lambda: "NVRTC is missing: pip install it")
    add = kernel()
    assert "__global__" in add.source and not add.resources
    with pytest.raises(TensorIRError, match="add cannot run here: NVRTC is missing: pip install"):
        add(A, B)


def test_without_a_device_there_is_machine_code(monkeypatch):
    monkeypatch.setattr("backends.cuda.program.why_no_device", lambda arch: f"no {arch}: buy one")
    add = kernel()
    if nvrtc.why_not() is None:
        assert add._compiled.code[:4] == b"\x7fELF"
        assert set(add.resources) == {"add_0", "add_1"} and add.resources["add_0"].registers > 0
    for call in (lambda: add(A, B), lambda: add.timer(sizes={"n": 1})):
        with pytest.raises(TensorIRError, match="add cannot run here: no sm_90a: buy one"):
            call()


def test_registers_of_a_block_are_counted(gpu, monkeypatch):
    monkeypatch.setattr(
        backend, "read_resources", lambda log: {"add_0": SimpleNamespace(registers=256)}
    )
    with pytest.raises(TensorIRError, match="32 threads of 256 registers each"):
        kernel()
    assert replace(Target("cuda"), arch="sm_80").architecture.registers == 65536


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda-emulator"])
def test_numbers_among_the_arguments(gpu, target):
    n, factor = te.var("n"), te.var("factor")
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis(factor, name="k")
    c = te.compute((n // factor,), lambda i: te.sum(a[i * factor + k], axis=k), name="C")
    parts = build(te.create_prim_func([a, factor, c], name="parts"), target)
    values = np.arange(7, dtype="f4")
    given = gpu.cupy(values) if target != "cuda-emulator" else values
    for result, count in ((parts(given, 2), 2), (parts(given, factor=3), 3), (parts(given, 7), 7)):
        found = result.values if target != "cuda-emulator" else result
        wanted = values[: 7 // count * count].reshape(-1, count).sum(axis=1)
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(TensorIRError, match="argument 'factor'"):
        parts(given, 2.5)
    assert parts.timer(sizes={"n": 8, "factor": 2})(1) > 0


def test_values_among_the_arguments(gpu):
    """A value does not decide what is launched: other ones are no reason to check again."""
    n, alpha = te.var("n"), te.var("alpha", "float32")
    flag, small = te.var("flag", "bool"), te.var("small", "int8")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: te.select(flag, a[i] * alpha, a[i] + small), name="C")
    func = te.create_prim_func([alpha, a, small, flag, c], name="values")
    values = build(func, "cuda -arch=sm_80")
    given = gpu.cupy(A)
    for factor in (0.5, -2, float("inf"), np.float64(0.25), np.array(3.0)):
        with np.errstate(invalid="ignore"):
            wanted = A * np.float32(factor)
        np.testing.assert_array_equal(values(factor, given, 3, True).values, wanted)
    np.testing.assert_array_equal(values(1, given, -128, np.bool_(False)).values, A - 128)
    assert len(values._known) == 1 and not values._quick
    with pytest.raises(TensorIRError, match=r"values: argument 'small' \(2\) is 128, and int8"):
        values(1.0, given, 128, True)
    with pytest.raises(TensorIRError, match=r"argument 'alpha' \(0\) is '1' of type str"):
        values("1", given, 1, True)
    assert values.timer(sizes={"n": 8})(1) > 0
    assert values.timer(sizes={"n": 8, "alpha": np.float32(2)})(1) > 0


def test_what_is_asked_of_cupy_is_there():
    """Names and ways to call, as far as they can be looked at without a GPU."""
    cupy = pytest.importorskip("cupy")
    driver, runtime, cuda = cupy.cuda.driver, cupy.cuda.runtime, cupy.cuda
    calls = {
        driver: "moduleLoadData moduleUnload moduleGetFunction funcSetAttribute launchKernel",
        runtime: "getDevice free streamIsCapturing pointerGetAttributes",
        cuda: "Device Event ExternalStream alloc get_current_stream get_elapsed_time",
        cuda.Stream: "wait_event",
        cuda.memory.MemoryPointer: "ptr device_id",
        cupy.ndarray: "shape strides dtype nbytes flags data device __dlpack__",
    }
    for owner, names in calls.items():
        assert not [name for name in names.split() if not hasattr(owner, name)], owner
    parameters = driver.launchKernel.__doc__.partition("(")[2].partition(")")[0].split(", ")
    assert len(parameters) == 11 and parameters[-3:] == [
        "intptr_t stream",
        "intptr_t kernel_params",
        "intptr_t extra",
    ]
    if why_no_device("sm_80") is not None:
        with pytest.raises(DriverError, match="cuda"):
            Driver().load(b"")
