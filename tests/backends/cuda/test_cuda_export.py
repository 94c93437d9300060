"""Exported .cu files: the host's function is compiled and run with a runtime that writes down."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import pytest
from spmd_programs import PROGRAMS

from backends import build, build_source
from backends.cuda.export import host_text
from backends.cuda.nvrtc import compile_cubin, why_not
from backends.cuda.text import cuda_text
from backends.gpu.launches import Launch, Launches, Take
from tensorir import Target, te
from tensorir.text.parser import parse

RUNTIME = """
#pragma once
#include <stdio.h>
#include <stdlib.h>
typedef int cudaError_t;
typedef void *cudaStream_t;
enum { cudaSuccess = 0, cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x, unsigned y, unsigned z) : x(x), y(y), z(z) {}
};
inline int calls = 0, fails_at = -1;
inline cudaError_t done() { return calls++ == fails_at ? 7 : cudaSuccess; }
inline cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s) {
    const int status = done();
    *p = status ? 0 : malloc(n + 1);
    printf("[\\"take\\", %zu, %ld],\\n", n, (long)s);
    return status;
}
inline cudaError_t cudaFreeAsync(void *p, cudaStream_t) {
    free(p);
    return printf("[\\"give\\"],\\n"), cudaSuccess;
}
inline cudaError_t cudaFuncSetAttribute(const void *, int, int) { return done(); }
inline cudaError_t cudaLaunchKernel(
    const void *, dim3 g, dim3 b, void **args, size_t shared, cudaStream_t s) {
    int count = 0;
    while (args[count]) count++;
    printf("[\\"launch\\", [%u, %u, %u], [%u, %u, %u], %d, %zu, %ld, %lld],\\n", g.x, g.y, g.z, b.x,
           b.y, b.z, count, shared, (long)s, count ? *(long long *)args[count - 1] : 0);
    return done();
}
"""
MAIN = """
int main(int argc, char **argv) {{
    fails_at = atoi(argv[1]);
    printf("[");
    const int status = {name}_host::{name}({arguments}, (cudaStream_t)5);
    printf("[\\"status\\", %d]]\\n", status);
}}
"""


def run(folder, source: str, name: str, arrays: int, sizes: list[int], fails_at: int = -1) -> list:
    """What the host's function does, without its kernels, which are CUDA's to compile."""
    (folder / "cuda_runtime.h").write_text(RUNTIME)
    arguments = ", ".join([*["0"] * arrays, *map(str, sizes)])
    kernels = set(re.findall(r"__global__ void [^\n]*?(\w+)\(TI", source))
    stubs = "".join(f"void {kernel}() {{}}\n" for kernel in sorted(kernels))
    host = source[source.index("#ifndef __CUDACC_RTC__") :]
    main, program = folder / "main.cpp", folder / "program"
    main.write_text(stubs + host + MAIN.format(name=name, arguments=arguments))
    flags = ["-std=gnu++17", "-Wall", "-Werror", "-Wno-unused-function", f"-I{folder}"]
    done = subprocess.run(
        ["g++", *flags, str(main), "-o", str(program)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    output = subprocess.run([str(program), str(fails_at)], capture_output=True, text=True)
    return json.loads(output.stdout)


@pytest.mark.parametrize("n", [0, 77, 100])
def test_the_host_does_what_a_call_does(tmp_path, cache, n):
    func = parse(PROGRAMS["two_kernels"].text)
    target = Target("cuda", arch="sm_90a")
    kernel = build_source(func, cuda_text(func, target).source, target, cache=cache)
    source, header = kernel.export(tmp_path)
    assert source.name == "two_kernels.cu"
    assert "float *M, int64_t n, cudaStream_t stream);" in header.read_text()
    did = run(tmp_path, source.read_text(), "two_kernels", 3, [n])
    wanted = []
    for step in Launches.of(func).steps({func.size_vars[0]: n}):
        if isinstance(step, Take):
            wanted.append(["take", step.bytes, 5])
        elif isinstance(step, Launch):
            count, last = len(step.kernel.buffers) + len(step.sizes), sum(step.sizes)
            wanted.append(["launch", list(step.grid), list(step.block), count, 0, 5, last])
        else:
            wanted.append(["give"])
    assert did == [*wanted, ["status", 0]]


@pytest.mark.parametrize("fails_at", range(4))
def test_after_an_error_nothing_is_launched_and_memory_is_given_back(tmp_path, fails_at):
    func = parse(PROGRAMS["two_kernels"].text)
    did = run(tmp_path, exported(func), "two_kernels", 3, [5], fails_at)
    kinds = [each[0] for each in did]
    assert kinds.count("launch") == fails_at
    assert kinds.count("give") == (1 if fails_at else 0)
    assert did[-1] == ["status", 7]


def exported(func) -> str:
    target = Target("cuda", arch="sm_80")
    return cuda_text(func, target).source + host_text(func, target)


def test_shared_memory_is_asked_for(tmp_path):
    did = run(tmp_path, exported(parse(PROGRAMS["matmul"].text)), "matmul", 3, [])
    assert did == [["launch", [2, 2, 1], [8, 8, 1], 3, 4096, 5, 0], ["status", 0]]


def test_constants_are_prepared_by_a_function_of_its_own(tmp_path, cache):
    a, b = te.placeholder((4, 3), name="A"), te.placeholder((3,), name="B")
    twice = te.compute((3,), lambda i: b[i] * 2, name="twice")
    c = te.compute((4, 3), lambda i, j: a[i, j] + twice[j], name="C")
    kernel = build(
        te.create_prim_func([a, b, c], name="add"),
        "cuda -arch=sm_80",
        constants={"B": np.ones(3, "float32")},
        cache=cache,
    )
    source, header = kernel.export(tmp_path)
    for text in (source.read_text(), header.read_text()):
        assert "cudaError_t add_prepare(" in text and "cudaError_t add(" in text
    if why_not() is None:
        compile_cubin(source.read_text(), "sm_80")


def test_numbers_are_arguments_of_the_function_and_of_its_kernels(tmp_path, cache):
    n, alpha, flag = te.var("n"), te.var("alpha", "float16"), te.var("flag", "bool")
    a = te.placeholder((n,), name="A")

    def chosen(i):
        return te.if_then_else(flag, a[i], te.cast(alpha, "float32") * a[i])

    c = te.compute((n * te.var("often"),), lambda i: a[i % n], name="C")
    func = te.create_prim_func(
        [alpha, a, te.var("often"), flag, te.compute((n,), chosen, name="B"), c], name="numbers"
    )
    kernel = build(func, "cuda -arch=sm_80", cache=cache)
    source, header = kernel.export(tmp_path)
    declared = "const float *A, float *B, float *C, int64_t n, int64_t often, uint16_t alpha, "
    for text in (source.read_text(), header.read_text()):
        assert f"numbers({declared}uint8_t flag, cudaStream_t stream)" in text
    assert "alpha: float16 number (its bits)" in header.read_text()
    assert "often: int64 number, 0 or more" in header.read_text()
    did = run(tmp_path, source.read_text(), "numbers", 3, [4, 2, 0x3C00, 1])
    assert [each[3] for each in did[:-1]] == [5, 4], "A, B, n, alpha and flag; A, C, n and often"
    if why_not() is None:
        compile_cubin(source.read_text(), "sm_80")
