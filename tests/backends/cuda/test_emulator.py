"""Kernels in CUDA's language on the CPU: what they compute, and what ends them."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hand_written import CASES, FOLDER, Case, source, tiled, transpose

from backends import BuildError, ObjectCache
from backends.c.compiler import find_cxx_compiler
from backends.cuda.emulator import EmulationError, Emulator, Launch
from backends.cuda.emulator.signature import kernels_of
from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.prelude import prelude
from backends.cuda.resources import read_resources
from tensorir import TensorIRError


def emulator(text: str, cache: ObjectCache) -> Emulator:
    return Emulator(prelude(text) + text, cache=cache)


def run(text: str, cache: ObjectCache, launch: Launch) -> None:
    emulator(text, cache).run(launch)


def error_of(text: str, cache: ObjectCache, launch: Launch) -> EmulationError:
    with pytest.raises(EmulationError) as caught:
        run(text, cache, launch)
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_kernels_compute_what_they_should_in_any_order(name: str, cache: ObjectCache):
    for seed, workers in ((0, 1), (1, 1), (7, 1), (0, 3)):
        case: Case = CASES[name]()
        Emulator(case.source, cache=cache).run(case.launch, seed=seed, workers=workers)
        case.check()


ORDER = """
extern "C" __global__ void order(TI_GLOBAL(int) turns, TI_GLOBAL(int) next) {
    turns[next[0]++] = threadIdx.x;
    ti_sync();
    turns[next[0]++] = threadIdx.x;
}
"""


def test_a_seed_permutes_warps_and_lanes_and_can_be_repeated(cache: ObjectCache):
    def turns(seed: int) -> np.ndarray:
        found, following = np.zeros((2, 96), "int32"), np.zeros(1, "int32")
        emulator(ORDER, cache).run(Launch("order", 1, 96, (found, following)), seed=seed)
        return found

    assert (turns(0) == np.arange(96)).all()
    first, second = turns(1), turns(2)
    assert (turns(1) == first).all() and (first != second).any()
    assert (first[0] != first[1]).any(), "each barrier draws another order"
    for part in (*first, *second):
        assert sorted(part) == list(range(96))
        warps = part.reshape(3, 32) // 32
        assert (warps == warps[:, :1]).all(), "a warp's lanes follow each other"
    assert len({tuple(turns(s)[0, ::32] // 32) for s in range(1, 12)}) > 2


def test_what_each_thread_sees_of_its_place(cache: ObjectCache):
    text = """
extern "C" __global__ void places(TI_GLOBAL(int) out) {
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * 24 + thread] += block * 100 + thread;
}
"""
    out = np.zeros((24, 24), "int32")
    run(text, cache, Launch("places", (2, 3, 4), (4, 3, 2), (out,)))
    assert (out == np.arange(24)[:, None] * 100 + np.arange(24)).all()


BARRIERS = """
extern "C" __global__ void some(TI_GLOBAL(float) A, int n) {
    if (threadIdx.x < n) {
        ti_sync();
    }
    A[threadIdx.x] = 1.0f;
}
extern "C" __global__ void two(TI_GLOBAL(float) A, int n) {
    if (threadIdx.x < n) {
        ti_sync(); // here
    } else {
        ti_sync(); // there
    }
}
extern "C" __global__ void lanes(TI_GLOBAL(float) A, int n) {
    if (threadIdx.x % 32 < n) {
        A[threadIdx.x] = ti_shuffle(A[threadIdx.x], 0);
    }
    ti_sync();
}
"""


def test_a_barrier_under_a_condition_of_threads(cache: ObjectCache):
    launch = Launch("some", (2, 2), 96, (np.zeros(96, "float32"), 40))
    report = error_of(BARRIERS, cache, launch).report
    line = (prelude(BARRIERS) + BARRIERS).splitlines().index("        ti_sync();") + 1
    assert (report.kind, report.lines, report.block) == ("divergence", (line,), (0, 0, 0))
    assert f"threads 0 to 39 in ti_sync of line {line}" in report.message
    assert "threads 40 to 95 ended" in report.message
    assert f"line {line}: ti_sync();" in str(report)
    run(BARRIERS, cache, replace(launch, args=(np.zeros(96, "float32"), 96)))


def test_barriers_of_two_lines_do_not_meet(cache: ObjectCache):
    report = error_of(BARRIERS, cache, Launch("two", 1, 64, (np.zeros(64, "float32"), 3))).report
    text = (prelude(BARRIERS) + BARRIERS).splitlines()
    here, there = (text.index(f"        ti_sync(); // {word}") + 1 for word in ("here", "there"))
    assert (report.kind, report.lines) == ("divergence", (there, here))
    assert report.threads == ((3, 0, 0),)


def test_a_shuffle_without_some_lanes(cache: ObjectCache):
    report = error_of(BARRIERS, cache, Launch("lanes", 1, 64, (np.zeros(64, "float32"), 31))).report
    assert report.kind == "lanes"
    assert "threads 0 to 30 in ti_shuffle of" in report.message
    assert "thread 31 in ti_sync of" in report.message


def test_reports_say_what_lines_are_in_the_program(cache: ObjectCache):
    text = prelude(BARRIERS) + BARRIERS
    line = text.splitlines().index("        ti_sync();") + 1
    kernels = Emulator(text, cache=cache, lines={line: "the end of loop i_0"})
    with pytest.raises(EmulationError, match=r"line \d+ \(the end of loop i_0\): ti_sync\(\);"):
        kernels.run(Launch("some", 1, 64, (np.zeros(64, "float32"), 3)))


def test_a_kernel_runs_again_after_one_that_failed(cache: ObjectCache):
    error_of(BARRIERS, cache, Launch("some", 1, 96, (np.zeros(96, "float32"), 40)))
    case = transpose()
    Emulator(case.source, cache=cache).run(case.launch)
    case.check()


def test_misaligned_vectors(cache: ObjectCache):
    text = """
extern "C" __global__ void vectors(TI_GLOBAL(const float) A, TI_GLOBAL(float) B, int first) {
    ti_store2(B, threadIdx.x * 2, ti_load2(A, threadIdx.x * 2 + first));
}
"""
    a, b = np.arange(66, dtype="float32"), np.zeros(64, "float32")
    run(text, cache, Launch("vectors", 1, 32, (a, b, 2)))
    assert (b == a[2:]).all()
    report = error_of(text, cache, Launch("vectors", 1, 32, (a, b, 1))).report
    assert report.kind == "alignment" and "accesses 8 bytes" in report.message


def test_too_little_shared_memory(cache: ObjectCache):
    case = tiled()
    kernels = Emulator(case.source, cache=cache)
    with pytest.raises(EmulationError, match="2048 bytes of shared .* launch gives 64"):
        kernels.run(replace(case.launch, shared=64))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"kernel": "tilde"}, "there is no kernel 'tilde' in the text; there are tiled"),
        ({"args": ()}, "takes 5 arguments, not 0"),
        ({"block": 1025}, "a block has 1024 threads at most"),
        ({"block": (1, 1, 65)}, "64 along z"),
        ({"block": 0}, "every size has to be 1 or more"),
        ({"grid": (1, 65536)}, "a grid has"),
        ({"shared": 300_000}, "bytes of shared memory at most, not 300000"),
    ],
)
def test_launches_that_no_gpu_does(change: dict, message: str, cache: ObjectCache):
    case = tiled()
    with pytest.raises(TensorIRError, match=message):
        Emulator(case.source, cache=cache).run(replace(case.launch, **change))


@pytest.mark.parametrize(
    "position, value, message",
    [
        (0, np.zeros((64, 24)), "the array A has elements of float64, not of float32"),
        (0, 3.0, "the array A is float, and has to be a NumPy array"),
        (0, np.zeros((64, 48), "float32")[:, ::2], "the array A is not contiguous"),
        (2, np.broadcast_to(np.float32(0), (1, 1)), "the array C is read-only"),
        (3, np.zeros(1), "m is a number, not an array"),
    ],
)
def test_arguments_that_do_not_fit(position: int, value: object, message: str, cache: ObjectCache):
    case = tiled()
    args = [*case.launch.args]
    args[position] = value
    with pytest.raises(TensorIRError, match=message):
        Emulator(case.source, cache=cache).run(replace(case.launch, args=args))


def test_parameters_by_typedefs_and_without_bounds():
    text = """
typedef long long i64;
extern "C" __global__ void __launch_bounds__(32, 2) f(TI_GLOBAL(const i64) A,
    const unsigned int n) {}
extern "C" __global__ void g() {}
"""
    first, second = kernels_of(text).values()
    assert [(p.name, p.dtype.name, p.is_array, p.is_constant) for p in first] == [
        ("A", "int64", True, True),
        ("n", "uint32", False, True),
    ]
    assert second == ()


@pytest.mark.parametrize(
    "text, message",
    [
        ("int f(int x) { return x; }", "no kernel in the text"),
        ("__global__ void f(float *A) {}", r"kernel f: .* does not know the parameter 'float \*A'"),
    ],
)
def test_texts_that_cannot_be_emulated(text: str, message: str):
    with pytest.raises(BuildError, match=message):
        Emulator(text)


def test_an_error_of_the_compiler_is_shown(cache: ObjectCache):
    text = 'extern "C" __global__ void f(TI_GLOBAL(float) A) { B[0] = 1.0f; }'
    with pytest.raises(BuildError, match="'B' was not declared"):
        emulator(text, cache).compile()


def test_without_a_compiler_of_cxx(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"no C\+\+ compiler found.*apt install g\+\+"):
        find_cxx_compiler()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BuildError, match="CXX is 'no-such-compiler'"):
        find_cxx_compiler()
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(BuildError, match="correct or unset CXX"):
        find_cxx_compiler()


LONG = """
extern "C" __global__ void many(TI_GLOBAL(int) A, int times) {
    for (int i = 0; i < times; i++) {
        A[threadIdx.x] ^= i;
        ti_sync_warp();
    }
}
extern "C" __global__ void rounds(TI_GLOBAL(int) A, int times) {
    TI_ARENA(256);
    TI_SHARED(int, S, 0, 64);
    for (int i = 0; i < times; i++) {
        S[threadIdx.x] = A[threadIdx.x] + ti_shuffle(i, 3);
        ti_sync();
        A[threadIdx.x] = S[(threadIdx.x + 1) % 64];
        ti_sync();
    }
}
"""


@pytest.mark.parametrize(
    "launch",
    [
        Launch("many", 1_000_000, 32, (np.zeros(32, "int32"), 100_000)),
        Launch("rounds", 1, 64, (np.zeros(64, "int32"), 2_000_000_000), 256),
    ],
)
def test_ctrl_c_ends_a_long_run(launch: Launch, cache: ObjectCache):
    kernels = emulator(LONG, cache)
    kernels.compile()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        kernels.run(launch)
    assert time.perf_counter() - start < 30
    case = tiled()
    Emulator(case.source, cache=cache).run(case.launch)
    case.check()


@pytest.mark.parametrize("seed", [0, 4])
def test_a_block_that_is_stopped_at_barriers_goes_on_from_there(
    seed: int, cache: ObjectCache, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("backends.cuda.emulator.run.SLICE_SECONDS", 0.0)
    a = np.arange(64, dtype="int32")
    emulator(LONG, cache).run(Launch("rounds", 1, 64, (a, 101), 256), seed=seed)
    assert (a == (np.arange(64) + 101) % 64 + 101 * 50).all()
    for name in ("matmul", "softmax_warp", "reduce"):
        case: Case = CASES[name]()
        Emulator(case.source, cache=cache).run(case.launch, seed=seed)
        case.check()


def test_halves_are_those_of_numpy(cache: ObjectCache):
    text = """
extern "C" __global__ void halves(TI_GLOBAL(const unsigned short) H, TI_GLOBAL(const float) F, TI_GLOBAL(const double) D, TI_GLOBAL(float) out, TI_GLOBAL(unsigned short) of_f, TI_GLOBAL(unsigned short) of_d, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        out[i] = ti_f16_to_f32(H[i]);
        of_f[i] = ti_f16_from_f32(F[i]);
        of_d[i] = ti_f16_from_f64(D[i]);
    }
}
"""  # noqa: E501
    bits = np.arange(65536, dtype="uint16")
    rng = np.random.default_rng(0)
    f = rng.integers(0, 2**32, 65536, "uint32").view("float32")
    f[:8] = (65504, 65519.996, 65520, 2**-14, 2**-24, 2**-25, 3 * 2.0**-25, -0.0)
    f[8:2000] = rng.uniform(-1e-4, 1e-4, 1992)
    with np.errstate(invalid="ignore"):
        d = f.astype("float64") * (1 + 2.0**-40)
    out = np.zeros(65536, "float32")
    of_f, of_d = np.zeros((2, 65536), "uint16")
    run(text, cache, Launch("halves", 256, 256, (bits, f, d, out, of_f, of_d, 65536)))
    np.testing.assert_array_equal(out, bits.view("float16").astype("float32"))
    with np.errstate(over="ignore"):
        for found, given in ((of_f, f), (of_d, d)):
            wanted = given.astype("float16")
            np.testing.assert_array_equal(found.view("float16"), wanted)
            same = ~np.isnan(wanted)
            assert (found == wanted.view("uint16"))[same].all(), "zeros keep their signs"


def test_both_halves_of_the_prelude_define_the_same_names():
    import re

    from backends.cuda.emulator.compile import FOLDER, own_sources
    from backends.cuda.prelude import _parts

    names = set().union(*(defined for _, defined in _parts()[1].values()))
    emulated = own_sources()
    missing = [name for name in names if not re.search(rf"\b{name}\b|\b{name}##", emulated)]
    assert FOLDER.name == "emulator" and not missing


def test_a_text_takes_the_parts_of_the_prelude_that_it_needs():
    text = prelude("ti_copy_async_wait<0>(); ti_load4(A, 0);")
    assert "cp.async.wait_group" in text and "ti_vec" in text
    assert "TI_SHARED" not in text and "__shfl" not in text and "__syncthreads" not in text
    assert text.count("#endif") == 1 and source("reduce").count("cvt.f32.f16") == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_same_text_compiles_for_gpus(arch: str):
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    for name in sorted({path.stem for path in FOLDER.glob("*.cu")}):
        for used in read_resources(compile_cubin(source(name), arch).log).values():
            assert not used.spills and not used.warnings, used
