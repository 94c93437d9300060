"""Kernels that use tile registers: configured by each thread, released after it, asked for once."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess

import numpy as np
import pytest

from backends import build, resolve
from backends.c import backend, tiles
from schedule import Schedule, library
from tensorir import find_intrin, reference
from tests.backends.by_gcc import made_by_gcc
from tests.schedule.test_tensorized_matmul import operands, product

SAPPHIRE = "c -march=sapphirerapids"
INTRINSIC = "u8i8.tile_32x32x64"
needs_tiles = pytest.mark.skipif(
    not find_intrin(INTRINSIC).runs_on(resolve("c").features),
    reason="this machine has no AMX, or its system does not let processes use it",
)


def tiled(parallel=True, sizes=(70, 66, 130), **options):
    sch = Schedule(product(*sizes, ("uint8", "int8", "int32")))
    library.tensorized_matmul(sch, "C", INTRINSIC, tiles=1, parallel=parallel, **options)
    return sch


def functions(source):
    """The bodies of the functions of a text, by name."""
    head = r"^(?:__attribute__\(\(noinline\)\) )?(?:static )?(?:int|void) (\w+)\((?:[^;{]*)\) \{\n"
    return dict(re.findall(rf"{head}(.*?)^\}}", source, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_each_thread_sets_them_up(parallel, threads):
    """In the region and around the loop over tasks, not in each of these."""
    source = build(tiled(parallel), f"{SAPPHIRE} -threads={threads}").source
    bodies = functions(source)
    kernel = bodies.pop("product")
    assert kernel.startswith("    if (!tiles_allowed()) return 2;\n")
    begin, end = kernel.index("tiles_begin();"), kernel.rindex("tiles_end();")
    assert kernel.count("tiles_begin();") == 1 and begin < end
    assert kernel.count("tiles_end();") == 1 + kernel[begin:end].count("return 1;")
    tasks = [body for name, body in bodies.items() if name.startswith("product_")]
    assert not any("tiles_begin" in body for body in tasks)
    assert parallel == any("_on(&" in body for body in tasks)


def test_a_kernel_that_gives_up_releases_them():
    """Large copies of rows come from the workspace, which may be empty."""
    source = build(tiled(False, (2048, 64, 4096), turned=True), f"{SAPPHIRE} -threads=1").source
    kernel = functions(source)["product"]
    begin = kernel.index("tiles_begin();")
    leaves = [match.start() for match in re.finditer(r"return 1;", kernel)]
    for at in leaves:
        released = "tiles_end();" in kernel[kernel.rindex("if (", 0, at) : at]
        assert released == (begin < at), kernel


def test_other_kernels_ask_for_nothing():
    source = build(tiled(), "c -march=icelake-server").source
    assert "tiles_" not in source and f"needs {find_intrin(INTRINSIC).needs}" in source


def test_a_system_that_refuses_has_no_such_feature(monkeypatch):
    monkeypatch.setattr(backend, "tiles_allowed", lambda: False)
    assert not any(name.startswith("amx") for name in resolve("c").features)
    assert "amx_int8" in resolve(SAPPHIRE).features


@needs_tiles
def test_a_kernel_that_is_refused_says_so(cache, tmp_path):
    """What it returns where the system call fails; the header says what that means."""
    kernel = build(tiled(), cache=cache)
    source, header = kernel.export(tmp_path)
    assert f"Returns {tiles.REFUSED} where the operating" in header.read_text()
    text = source.read_text()
    assert text.count("syscall(") == 2
    refused = text.replace("known = syscall(158, 4131, 18)", "known = 1")
    flags = ("-O2", "-march=native", "-fPIC", "-shared")
    made = ctypes.CDLL(str(made_by_gcc(cache, refused, *flags)))
    arrays = [np.zeros(100 * 200, np.int32) for _ in range(3)]
    assert made.product(*(ctypes.c_void_p(a.ctypes.data) for a in arrays)) == tiles.REFUSED


IN_USE = """
unsigned state(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low;
}
"""


@needs_tiles
@pytest.mark.parametrize("parallel", [False, True])
def test_nothing_is_left_behind(cache, parallel):
    """The processor says which of its registers are in use: bit 17 is the configuration of tiles,
    bit 18 what they hold."""
    kernel = build(tiled(parallel), "c -threads=2", cache=cache)
    inputs = operands(tiled().definition)
    state = ctypes.CDLL(str(made_by_gcc(cache, IN_USE, "-O2", "-fPIC", "-shared"))).state
    kernel(*inputs)
    assert not state() & (1 << 17 | 1 << 18)


@needs_tiles
@pytest.mark.parametrize("threads", [1, 2])
def test_in_a_child_and_in_a_program(cache, tmp_path, threads):
    """A child of this process has the permission too; a program asks for it itself."""
    sch = tiled(True, (64, 64, 64))
    kernel = build(sch, f"c -threads={threads}", cache=cache)
    inputs = operands(sch.definition)
    wanted = reference(sch.definition, *inputs)[0]
    np.testing.assert_array_equal(kernel(*inputs), wanted)
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(kernel(*inputs), wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0
    source, _ = kernel.export(tmp_path)
    main = tmp_path / "main.c"
    main.write_text(MAIN)
    flags = ["-O2", "-march=native", "-fopenmp", "-fwrapv"]
    subprocess.run(["gcc", *flags, main, source, "-o", tmp_path / "main", "-lm"], check=True)
    done = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True)
    assert done.stdout == f"{64 * 3 * -5}\n"


MAIN = """
#include <stdio.h>
#include <string.h>
#include "product.h"
static uint8_t a[64 * 64];
static int8_t b[64 * 64];
static int32_t c[64 * 64];
int main(void) {
    memset(a, 3, sizeof a);
    memset(b, -5, sizeof b);
    if (product(a, b, c)) return 1;
    printf("%d\\n", c[64 * 64 - 1]);
    return 0;
}
"""
