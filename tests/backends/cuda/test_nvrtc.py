"""Machine code without a GPU, and what is said where something is missing."""

from __future__ import annotations

import builtins
import configparser
import platform
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from backends import BuildError
from backends.cuda import nvrtc, packages
from backends.errors import BuildMemoryError, BuildTimeout
from tensorir import ARCHITECTURES, TensorIRError

SCALE = """\
extern "C" __global__ void __launch_bounds__(256) scale(const float *a, float *b, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        b[i] = 2.0f * a[i];
    }
}
"""
HALF = """\
#include <cuda_fp16.h>
#include "cuda_bf16.h"
extern "C" __global__ void convert(const __half *a, __nv_bfloat16 *b) {
    b[threadIdx.x] = __float2bfloat16(__half2float(a[threadIdx.x]));
}
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_machine_code_for_an_explicit_architecture(arch, with_nvrtc):
    made = nvrtc.compile_cubin(SCALE, arch)
    assert made.code.startswith(b"\x7fELF") and b"scale" in made.code
    assert f"Compiling entry function 'scale' for '{arch}'" in made.log
    assert "\0" not in made.log
    assert made.command[:2] == ("nvrtc", f"-arch={arch}")
    assert "-ftz=false" in made.command and "-I" not in " ".join(made.command)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_of_the_table_is_known_to_the_compiler(arch, with_nvrtc):
    assert nvrtc.compile_cubin("", arch).arch == arch


def test_the_file_is_whole(with_nvrtc, tmp_path):
    """CuPy's binding drops the last byte; readers of ELF files refuse what is left."""
    code = nvrtc.compile_cubin(SCALE, "sm_80").code
    assert nvrtc.whole_file(code) == code
    assert nvrtc.whole_file(code[:-1]) == code
    with pytest.raises(BuildError, match="no ELF file"):
        nvrtc.whole_file(b"//\n.version 9.0")
    if shutil.which("readelf"):  # of the binutils that every C compiler brings
        (tmp_path / "whole.cubin").write_bytes(code)
        (tmp_path / "short.cubin").write_bytes(code[:-1])
        assert not complaints(tmp_path / "whole.cubin")
        assert complaints(tmp_path / "short.cubin")


def complaints(path) -> str:
    command = ["readelf", "--program-headers", path]
    return subprocess.run(command, capture_output=True, text=True).stderr


def test_headers_are_found_where_they_are_included(with_nvrtc):
    made = nvrtc.compile_cubin(HALF, "sm_90a")
    assert f"-I{nvrtc.header_folder()}" in made.command


TEXTURE = """
extern "C" __global__ void look(cudaTextureObject_t from, float *to) {
    to[threadIdx.x] = tex1Dfetch<float>(from, threadIdx.x);
}"""


def test_the_language_is_as_large_as_a_text_needs(with_nvrtc, monkeypatch):
    assert nvrtc.MINIMAL in nvrtc.compile_cubin(SCALE, "sm_80").command
    assert nvrtc.MINIMAL not in nvrtc.compile_cubin(TEXTURE, "sm_80").command
    code = nvrtc.compile_cubin(HALF, "sm_90a").code
    monkeypatch.setattr(nvrtc._binding(), "getVersion", lambda: (12, 3))
    older = nvrtc.compile_cubin(HALF, "sm_90a")
    assert nvrtc.MINIMAL not in older.command and older.code == code


def test_later_options_win(with_nvrtc):
    fast = nvrtc.compile_cubin(SCALE, "sm_80", ["-ftz=true", "-DN=3"])
    assert fast.command[-2:] == ("-ftz=true", "-DN=3")


def test_errors_come_with_numbered_lines(with_nvrtc):
    text = SCALE.replace("2.0f * a[i]", "2.0f * c[i]").replace("int i =", "n /= 0;\n    int i =")
    with pytest.raises(BuildError) as caught:
        nvrtc.compile_cubin(text, "sm_80", name="scale")
    said = str(caught.value)
    assert said.startswith(
        'scale: NVRTC could not compile the kernel: line 5: error: identifier "c" is undefined\n'
        "  command: nvrtc -arch=sm_80 "
    )
    assert (
        "       4 |     if (i < n) {\n"
        "  >    5 |         b[i] = 2.0f * c[i];\n"
        "         |                       ^\n"
        "       6 |     }\n"
    ) in said
    assert said.index("line 5: error") < said.index("line 2: warning")
    assert caught.value.source == text


@pytest.mark.parametrize("at", ["first", "last"])
def test_an_error_in_the_first_and_in_the_last_line(at, with_nvrtc):
    text = f"no_type x;\n{SCALE}" if at == "first" else f"{SCALE}no_type x;"
    line = 1 if at == "first" else len(text.splitlines())
    with pytest.raises(BuildError, match=f'line {line}: error: identifier "no_type" is undefined'):
        nvrtc.compile_cubin(text, "sm_80")


def test_what_only_the_assembler_refuses(with_nvrtc):
    text = SCALE.replace("b[i] =", 'asm("no.such.instruction;");\n        b[i] =')
    with pytest.raises(BuildError, match="could not compile the kernel: ptxas application"):
        nvrtc.compile_cubin(text, "sm_80")


def test_unknown_options(with_nvrtc):
    with pytest.raises(BuildError, match=r"refused its options .*unrecognized option --nonsense"):
        nvrtc.compile_cubin(SCALE, "sm_80", ["--nonsense"])


def test_several_at_once_give_the_same(with_nvrtc):
    texts = [SCALE.replace("2.0f", f"{n}.0f") for n in range(6)]
    one_by_one = [nvrtc.compile_cubin(text, "sm_80").code for text in texts]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda t: nvrtc.compile_cubin(t, "sm_80").code, texts)) == one_by_one


def slow(lines: int) -> str:
    """A text that takes about a tenth of a second for each line."""
    text = "".join(f"    x = sinf(x) + cosf(x * {n}.5f);\n" for n in range(lines))
    return (
        f'extern "C" __global__ void k(float *a) {{\n    float x = a[0];\n{text}    a[0] = x;\n}}'
    )


def test_other_threads_run_while_one_compiles(with_nvrtc):
    worker = threading.Thread(target=nvrtc.compile_cubin, args=(slow(3), "sm_80"))
    worker.start()
    turns = 0
    while worker.is_alive():
        time.sleep(0.002)
        turns += 1
    assert turns > 5  # one or two with the GIL held


def test_a_text_that_takes_too_long(with_nvrtc):
    """Nobody waits for the rest of it, and others compile meanwhile."""
    with pytest.raises(BuildTimeout, match="slow: NVRTC took longer than 0.05 s; raise timeout="):
        nvrtc.compile_cubin(slow(10), "sm_80", name="slow", timeout=0.05)
    assert nvrtc.compile_cubin(SCALE, "sm_80").code


INTERRUPTED = """
import signal, sys, threading
from backends.cuda import nvrtc
nvrtc.version()
signal.signal(signal.SIGALRM, signal.default_int_handler)
compile = nvrtc._compile
def begun(*given):
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    return compile(*given)
nvrtc._compile = begun
try:
    nvrtc.compile_cubin(sys.argv[1], "sm_80", name="slow")
except KeyboardInterrupt:
    print("meanwhile:", *(thread.name for thread in threading.enumerate()))
"""


def test_ctrl_c_is_heard_while_a_text_compiles(with_nvrtc):
    """NVRTC still works when the program goes on, and the process ends as it should."""
    command = [sys.executable, "-c", INTERRUPTED, slow(20)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "meanwhile: MainThread nvrtc slow\n"), done.stderr


def test_an_architecture_that_the_project_does_not_know(with_nvrtc):
    with pytest.raises(TensorIRError, match="'sm_99' is unknown; known are sm_75, .*sm_120a"):
        nvrtc.compile_cubin(SCALE, "sm_99")


@pytest.mark.parametrize(
    ("arch", "known", "remedy"),
    [
        ("sm_120a", (75, 80, 90), r"pip install 'nvidia-cuda-nvrtc==13.\*' --upgrade"),
        ("sm_75", (80, 90, 100), "pip install cupy-cuda12x .* in another environment"),
    ],
)
def test_an_architecture_that_the_compiler_does_not_know(
    arch, known, remedy, monkeypatch, with_nvrtc
):
    from cupy.cuda import nvrtc as binding

    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(binding, "getSupportedArchs", lambda: known)
    wanted = (
        f"does not compile for {arch}, but for sm_{known[0]}, .*: take one of these, or {remedy}"
    )
    with pytest.raises(BuildError, match=wanted):
        nvrtc.compile_cubin(SCALE, arch)


def test_memory_that_ran_out(monkeypatch, with_nvrtc):
    from cupy.cuda import nvrtc as binding

    def full(program, options):
        raise binding.NVRTCError(1)

    monkeypatch.setattr(binding, "compileProgram", full)
    with pytest.raises(BuildMemoryError, match="scale: NVRTC ran out of memory"):
        nvrtc.compile_cubin(SCALE, "sm_80", name="scale")


@pytest.fixture
def linux(monkeypatch):
    """The commands are those of a machine that has the packages."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


def without(monkeypatch, *missing):
    """As if these modules were not installed."""
    original = builtins.__import__

    def importing(name, *args, **kwargs):
        if name.partition(".")[0] in missing:
            raise ImportError(f"No module named {name!r}")
        return original(name, *args, **kwargs)

    find = packages.find_spec
    monkeypatch.setattr(builtins, "__import__", importing)
    monkeypatch.setattr(packages, "find_spec", lambda n: None if n in missing else find(n))


def test_no_cupy(monkeypatch, linux):
    without(monkeypatch, "cupy")
    assert nvrtc.why_not() == (
        "compiling for CUDA needs CuPy, which is not installed: pip install "
        f"{' '.join(packages.WHEELS[packages.cuda_major()])}"
    )
    with pytest.raises(BuildError, match="which is not installed: pip install cupy-cuda"):
        nvrtc.version()


def test_no_cupy_where_there_are_no_packages(monkeypatch):
    without(monkeypatch, "cupy")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert nvrtc.why_not().endswith(
        "there are no such packages for Darwin on arm64; use Linux on x86_64 or aarch64"
    )


def test_a_cupy_that_cannot_be_imported(monkeypatch, linux):
    monkeypatch.setattr(packages, "find_spec", lambda name: object())
    original = builtins.__import__

    def importing(name, *args, **kwargs):
        if name.startswith("cupy"):
            raise ImportError("libcudart.so.13: cannot open\nand more")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", importing)
    said = nvrtc.why_not()
    assert said.startswith("CuPy cannot be imported (libcudart.so.13: cannot open): pip install ")
    assert said.endswith(" --force-reinstall")


def test_cupy_without_nvrtc(monkeypatch, linux, with_nvrtc):
    from cuda.pathfinder import DynamicLibNotFoundError
    from cupy.cuda import nvrtc as binding

    def missing():
        raise DynamicLibNotFoundError("Failure finding libnvrtc.so.13")

    monkeypatch.setattr(binding, "getVersion", missing)
    wheel = packages.WHEELS[packages.cuda_major()][1]
    with pytest.raises(BuildError) as caught:
        nvrtc.compile_cubin(SCALE, "sm_80")
    assert str(caught.value) == (
        f"CuPy {packages.cupy_version()} finds no NVRTC, the compiler of CUDA text: "
        f"pip install {wheel}"
    )


def test_nvrtc_without_headers(monkeypatch, linux, with_nvrtc, tmp_path):
    wheel = packages.WHEELS[int(with_nvrtc.partition(".")[0])][2]
    for folder in (None, tmp_path):
        monkeypatch.setattr(nvrtc, "header_folder", lambda folder=folder: folder)
        with pytest.raises(BuildError) as caught:
            nvrtc.compile_cubin(HALF, "sm_80")
        assert str(caught.value) == (
            f"NVRTC finds no cuda_fp16.h, which the text includes: pip install {wheel}"
        )
    assert nvrtc.compile_cubin(SCALE, "sm_80").code  # other texts need none


def test_no_pathfinder(monkeypatch):
    without(monkeypatch, "cuda")
    assert nvrtc.header_folder() is None


@pytest.mark.parametrize("major", packages.WHEELS)
def test_the_commands_are_those_of_the_installed_version(major, monkeypatch, linux):
    def version(name):
        if name != packages.WHEELS[major][0]:
            raise PackageNotFoundError(name)
        return "14.2.0"

    monkeypatch.setattr(packages, "version", version)
    assert packages.cuda_major() == major
    assert (
        packages.install("cupy", "nvrtc") == f"pip install {' '.join(packages.WHEELS[major][:2])}"
    )


@pytest.mark.parametrize(
    ("driver", "major"), [(None, 13), ((12, 4), 12), ((13, 1), 13), ((14, 0), 13)]
)
def test_without_cupy_the_commands_are_those_for_the_driver(driver, major, monkeypatch):
    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(packages, "version", version)
    monkeypatch.setattr(packages, "driver_version", lambda: driver)
    assert packages.cuda_major() == major


@pytest.mark.parametrize(
    ("error", "number", "expected"),
    [(0, 12040, (12, 4)), (0, 13000, (13, 0)), (0, 0, None), (35, 13000, None)],
)
def test_the_version_of_the_driver(error, number, expected, monkeypatch):
    class Driver:
        """As libcuda.so."""

        def __init__(self, name):
            assert name == "libcuda.so.1"

        def cuDriverGetVersion(self, place):  # noqa: N802
            place._obj.value = number
            return error

    monkeypatch.setattr(packages.ctypes, "CDLL", Driver)
    assert packages.driver_version() == expected


def test_no_driver(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(packages.ctypes, "CDLL", missing)
    assert packages.driver_version() is None


@pytest.mark.parametrize("major", packages.WHEELS)
def test_the_extras_install_what_the_commands_do(major):
    text = configparser.ConfigParser()
    text.read(Path(__file__).parents[3] / "setup.cfg")
    lines = text["options.extras_require"][f"cuda{major}"].strip().splitlines()
    named = [line.partition(";")[0].split()[0] for line in lines]
    assert named == [wheel.strip("'").partition("==")[0] for wheel in packages.WHEELS[major]]
    markers = {line.partition(";")[2] for line in lines}
    assert len(markers) == 1 and "linux" in markers.pop()  # empty where there are no such packages
