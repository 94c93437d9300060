"""What an architecture says of itself is what NVIDIA's own header computes with."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess

import pytest

from backends.cuda import nvrtc
from backends.cuda.packages import install
from tensorir.errors import TensorIRError
from tensorir.targets.architectures import (
    ARCHITECTURES,
    DEFAULT_ARCH,
    KIB,
    WARP,
    architecture_of,
    find_architecture,
)

HEADER = """
#include <cstddef>
#include "cuda_occupancy.h"
extern "C" int blocks(int major, int minor, int warps, int shared_per_sm, int shared_per_block,
                      int reserved, int threads, int registers, int shared) {
    cudaOccDeviceProp device = {};
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = warps * 32;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 49152;
    device.sharedMemPerMultiprocessor = shared_per_sm;
    device.sharedMemPerBlockOptin = shared_per_block;
    device.reservedSharedMemPerBlock = reserved;
    device.numSms = 1;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = shared_per_block;
    kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    cudaOccResult result;
    cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(
        &result, &device, &kernel, &state, threads, shared);
    return error ? -1 : result.activeBlocksPerMultiprocessor;
}
"""


@pytest.fixture(scope="session")
def header(tmp_path_factory):
    """NVIDIA's cuda_occupancy.h as a function."""
    found = nvrtc.header_folder()
    if shutil.which("g++") is None or found is None or not (found / "cuda_occupancy.h").exists():
        pytest.skip(f"needs g++, and NVIDIA's header: {install('headers')}")
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "blocks.cpp").write_text(HEADER)
    command = ["g++", "-shared", "-fPIC", "-w", f"-I{found}", "blocks.cpp", "-o", "blocks.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "blocks.so")).blocks


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_as_many_blocks_at_once_as_the_header_says(name, header):
    own = ARCHITECTURES[name]
    most = own.shared_per_block
    about = (own.capability, own.warps, own.shared_per_sm, most, own.shared_reserved)
    threads = (1, 32, 33, 64, 96, 128, 160, 250, 256, 384, 512, 640, 768, 992, 1024)
    registers = (1, 8, 16, 24, 31, 32, 40, 56, 64, 72, 80, 96, 104, 127, 128, 129, 168, 200, 255)
    shared = (0, 1, 1024, 1025, 8192, 17000, 33000, 48 * KIB, 64 * KIB - 1024, most - 1, most)
    (major, minor), *limits = about
    for each in itertools.product(threads, registers, shared):
        wanted = header(major, minor, *limits, *each)
        assert own.blocks_at_once(*each) == wanted, (name, each)


def test_the_examples_of_the_programming_guide():
    hopper = find_architecture("sm_90a")
    assert hopper.blocks_at_once(256, 128, 0) == 2  # half of 64K registers each
    assert hopper.occupancy(256, 128, 0) == 0.25
    assert hopper.blocks_at_once(384, 168, 227 * KIB) == 1
    assert hopper.gflops == pytest.approx(66_900, rel=0.01)  # 67 TFLOP/s in the data sheet


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_what_cannot_be_launched(name):
    own = ARCHITECTURES[name]
    assert own.blocks_at_once(0, 32, 0) == 0
    assert own.blocks_at_once(1025, 32, 0) == 0
    assert own.blocks_at_once(32, 256, 0) == 0
    assert own.blocks_at_once(1024, 65, 0) == 0
    assert own.blocks_at_once(32, 32, own.shared_per_block + 1) == 0
    assert own.blocks_at_once(32, 32, own.shared_per_block) == 1


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rows_of_the_table_fit_together(name):
    own = ARCHITECTURES[name]
    assert name.rstrip("a") == "sm_{}{}".format(*own.capability)
    assert own.shared_per_block + own.shared_reserved == own.shared_per_sm
    assert own.warps * WARP >= own.threads_per_block
    assert 100 < own.card.bandwidth < 10_000 and 5_000 < own.gflops < 200_000


def test_an_unknown_one_names_the_known():
    with pytest.raises(
        TensorIRError, match="'sm_37' is unknown; known are sm_75, .*sm_90a.*sm_120a"
    ):
        find_architecture("sm_37")
    assert DEFAULT_ARCH in ARCHITECTURES


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ((9, 0), "sm_90a"),  # the device at hand has all instructions of its own architecture
        ((10, 0), "sm_100a"),
        ((10, 3), "sm_100"),  # of another one it can run what all of the major can
        ((12, 1), "sm_120"),
        ((8, 7), "sm_86"),
        ((8, 9), "sm_89"),
        ((8, 0), "sm_80"),
    ],
)
def test_the_architecture_of_a_device(capability, name):
    assert architecture_of(capability).name == name


@pytest.mark.parametrize("capability", [(7, 0), (13, 0), (6, 1)])
def test_a_device_without_one(capability):
    with pytest.raises(TensorIRError, match="capability {}.{}, for which".format(*capability)):
        architecture_of(capability)
