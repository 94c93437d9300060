"""What a kernel takes of the GPU is read from the compiler's log."""

from __future__ import annotations

import pytest
from hand_written import CASES

from backends.cuda import nvrtc
from backends.cuda.resources import Resources, read_resources

TWO = """\
kernel.cu(3): warning #177-D: variable "unused" was declared but never referenced
      int unused;
          ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

ptxas warning : Registers are spilled to local memory in function 'wide', 536 bytes spill stores
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized \
due to insufficient register resources for the wgmma pipeline in the function 'small'
ptxas info    : 24 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'wide' for 'sm_90a'
ptxas info    : Function properties for wide
ptxas         .     280 bytes stack frame, 536 bytes spill stores, 556 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 280 bytes cumulative stack size
ptxas info    : Compile time = 35.002 ms
ptxas info    : Compiling entry function 'small' for 'sm_90a'
ptxas info    : Function properties for small
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 126 registers, used 0 barriers, 16384 bytes smem
ptxas info    : Compile time = 2.062 ms
"""

CALLED = """\
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine \
register count at entry.
ptxas info    : 0 bytes gmem
ptxas info    : Function properties for _Z3fibi
ptxas         .     24 bytes stack frame, 20 bytes spill stores, 12 bytes spill loads
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers
"""


def test_each_kernel_of_a_log():
    found = read_resources(TWO)
    unused, spilled, serial = (line for line in TWO.splitlines() if "warn" in line or "C7" in line
                               if "Remark" not in line)  # fmt: skip
    assert found == {
        "wide": Resources("wide", "sm_90a", 32, 536, 556, 280, 0, 1, (unused, spilled)),
        "small": Resources("small", "sm_90a", 126, shared=16384, warnings=(unused, serial)),
    }
    assert found["wide"].spills and not found["small"].spills
    assert str(found["wide"]).splitlines() == [
        "wide for sm_90a: 32 registers, 536 bytes spilled, 280 bytes of stack",
        f"  {unused}",
        f"  {spilled}",
    ]
    assert str(found["small"]).splitlines()[0] == (
        "small for sm_90a: 126 registers, no spills, 16384 bytes of static shared memory"
    )


def test_what_a_called_function_spills_counts():
    assert read_resources(CALLED)["k"] == Resources(
        "k", "sm_80", 24, 20, 12, 24, warnings=(CALLED.splitlines()[0],)
    )


def test_a_log_of_no_kernel():
    assert read_resources("") == {}


def test_blocks_at_once():
    """As many as the scarcest of registers, shared memory and warps allows."""
    small = read_resources(TWO)["small"]
    assert small.blocks_at_once(256) == 2  # 128 registers for each of 512 threads
    assert small.blocks_at_once(128, dynamic_shared=60 << 10) == 2  # 77 KiB each
    assert small.blocks_at_once(1024) == 0  # 128K registers
    assert small.occupancy(256) == 2 * 8 / 64
    assert small.occupancy(256, dynamic_shared=1 << 20) == 0


def compiled(text: str, arch: str) -> Resources:
    return read_resources(nvrtc.compile_cubin(text, arch).log)["k"]


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_a_kernel_that_the_compiler_sees(arch, with_nvrtc):
    text = """\
extern "C" __global__ void __launch_bounds__(128) k(float *a) {
    __shared__ float tile[128];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = tile[127 - threadIdx.x];
}
"""
    made = compiled(text, arch)
    assert (made.arch, made.shared, made.barriers, made.warnings) == (arch, 512, 1, ())
    assert 4 <= made.registers <= 32 and not made.spills and made.stack == 0
    assert made.blocks_at_once(128) == made.architecture.warps * 32 // 128


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_what_the_emulator_runs_the_compiler_takes(name, arch, with_nvrtc):
    """The prelude's own half for GPUs, in kernels written by hand: no spills, no warnings."""
    found = read_resources(nvrtc.compile_cubin(CASES[name]().source, arch).log)
    assert found and not any(each.spills or each.warnings for each in found.values())


def test_a_kernel_that_spills(with_nvrtc):
    """64 values at once in the 32 registers that two blocks of 1024 threads leave."""
    text = """\
extern "C" __global__ void __launch_bounds__(1024, 2) k(float *a, int n) {
    float x[64];
#pragma unroll
    for (int i = 0; i < 64; i++) x[i] = a[i * 1024 + threadIdx.x];
    for (int j = 0; j < n; j++) {
#pragma unroll
        for (int i = 0; i < 64; i++) x[i] = x[i] * x[(i + 7) % 64] + a[j];
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 64; i++) sum += x[i] * i;
    a[threadIdx.x] = sum;
}
"""
    made = compiled(text, "sm_90a")
    assert made.registers <= 32 and made.spill_stores > 100 and made.spill_loads > 100
    assert made.stack > 100 and made.blocks_at_once(1024) == 2


def test_a_local_array_that_is_indexed_by_values(with_nvrtc):
    text = """\
extern "C" __global__ void k(float *a, int n) {
    float x[64];
    for (int i = 0; i < 64; i++) x[i] = a[i];
    for (int i = 0; i < n; i++) x[(i * 7) & 63] += a[i];
    for (int i = 0; i < 64; i++) a[i] = x[i];
}
"""
    made = compiled(text, "sm_80")
    assert made.stack >= 256 and not made.spills


def test_a_warning_of_the_text(with_nvrtc):
    text = 'extern "C" __global__ void k(int *a) {\n    int unused;\n    a[0] = 1 / 0;\n}\n'
    (warning,) = compiled(text, "sm_80").warnings  # what is not used is nobody's fault
    assert warning.startswith("kernel.cu(3): warning") and "division by zero" in warning
