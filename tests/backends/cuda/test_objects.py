"""Machine code is kept, with what the compiler said of it."""

from __future__ import annotations

import numpy as np
import pytest

from backends import BuildError, ObjectCache
from backends.cuda import devices, nvrtc, objects
from backends.cuda.objects import cubin_of
from backends.cuda.resources import read_resources
from tensorir import Target

SCALE = """\
extern "C" __global__ void scale(const float *a, float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        b[i] = 2.0f * a[i];
    }
}
"""


@pytest.fixture
def own(tmp_path):
    return ObjectCache(tmp_path / "objects")


@pytest.fixture
def compiled(monkeypatch, with_nvrtc):
    """The architectures for which something was compiled."""
    seen = []

    def compile_cubin(source, arch, *rest):
        seen.append(arch)
        return nvrtc.compile_cubin(source, arch, *rest)

    monkeypatch.setattr(objects, "compile_cubin", compile_cubin)
    return seen


def test_a_text_is_compiled_once(own, compiled):
    first = cubin_of(SCALE, "sm_80", cache=own)
    again = cubin_of(SCALE, "sm_80", cache=ObjectCache(own.directory))
    assert again == first and compiled == ["sm_80"]
    assert read_resources(again.log)["scale"].registers > 0


LOG = """\
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    {spilled} bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads
ptxas info    : Used {registers} registers
"""


@pytest.mark.parametrize(("again", "kept"), [(0, 0), (12, 12), (40, 28)])
def test_what_spills_for_the_sake_of_more_blocks_gets_room_for_one_less(
    own, monkeypatch, again, kept
):
    """Three blocks of 256 threads have room with 80 registers, two with 128."""
    seen = []

    def compile_cubin(source, arch, *rest):
        seen.append(source)
        first = source == text
        log = LOG.format(spilled=28 if first else again, registers=80 if first else 128)
        return nvrtc.Cubin(b"", log, arch, ())

    monkeypatch.setattr(objects, "compile_cubin", compile_cubin)
    monkeypatch.setattr(objects, "version", lambda: (13, 0))
    text = 'extern "C" __global__ void __launch_bounds__(256) k(float *a) {}'
    made = cubin_of(text, "sm_90a", cache=own)
    assert seen == [text, text.replace("(256)", "(256, 2)")]
    assert read_resources(made.log)["k"].spill_stores == kept
    text = text.replace("(256)", "(256, 3)")  # it may say how many
    cubin_of(text, "sm_90a", cache=own)
    assert seen[2:] == [text, text.replace("3)", "2)")]


def test_what_makes_other_code_is_part_of_the_key(own, compiled, monkeypatch):
    cubin_of(SCALE, "sm_80", cache=own)
    cubin_of(SCALE, "sm_90a", cache=own)
    cubin_of(SCALE, "sm_80", ["-ftz=true"], cache=own)
    cubin_of(SCALE.replace("2.0f", "3.0f"), "sm_80", cache=own)
    assert len(compiled) == 4
    monkeypatch.setattr(objects, "version", lambda: (13, 99))
    cubin_of(SCALE, "sm_80", cache=own)
    assert len(compiled) == 5


def test_damaged_code_is_made_again(own, compiled):
    first = cubin_of(SCALE, "sm_80", cache=own)
    (path,) = own.directory.glob("??/*.so")
    path.write_bytes(path.read_bytes()[:-1])
    assert cubin_of(SCALE, "sm_80", cache=own) == first
    assert len(compiled) == 2


def test_a_text_that_does_not_compile_leaves_nothing(own, with_nvrtc):
    with pytest.raises(BuildError, match="line 4: error"):
        cubin_of(SCALE.replace("a[i]", "c[i]"), "sm_80", cache=own)
    assert list(own.directory.glob("??/*")) == []


@pytest.mark.parametrize("code", [b"", b"\x7fELF\n\n\0", bytes(range(256))])
def test_bytes_and_back(code):
    cubin = nvrtc.Cubin(code, "a log\nof lines, \u00e9", "sm_90a", ("nvrtc", "-arch=sm_90a"))
    assert nvrtc.Cubin.from_bytes(cubin.to_bytes()) == cubin


@pytest.mark.cuda
def test_a_device_runs_it(with_nvrtc):
    """The file as it is, loaded by the driver."""
    import cupy

    module = cupy.cuda.Module()
    module.load(cubin_of(SCALE, devices.chosen_arch(Target("cuda"))).code)
    a = cupy.arange(1000, dtype="float32")
    b = cupy.zeros_like(a)
    module.get_function("scale")((4,), (256,), (a, b, np.int32(1000)))
    assert (b == 2 * a).all()
