"""Running kernels for AArch64 on another machine: a small program around the export, and qemu."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends import CompiledKernel
from tensorir import dtype

ARM = "c -march=armv8.2-a+dotprod"
COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = next(filter(shutil.which, ("qemu-aarch64", "qemu-aarch64-static")), "qemu-aarch64")
MISSING = [name for name in (COMPILER, EMULATOR) if shutil.which(name) is None]

needs_compiler = pytest.mark.skipif(COMPILER in MISSING, reason=f"no {COMPILER}")
needs_emulator = pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}")
SILENT = ("-Wno-psabi", "-Wno-tautological-compare")

MAIN = """
#include <stdio.h>
#include "{name}.h"
{arrays}
int main(void) {{
    for (;;) {{
{reads}
        if ({name}({names})) return 2;
{writes}
        fflush(stdout);
    }}
}}
"""


def array_bytes(kernel: CompiledKernel) -> list[int]:
    """The sizes of the arguments, which have to be constant."""
    shapes = [[int(repr(dim)) for dim in param.shape] for param in kernel.signature.params]
    kinds = [dtype.itemsize(param.dtype) for param in kernel.signature.params]
    return [int(np.prod(shape)) * size for shape, size in zip(shapes, kinds)]


def main_text(kernel: CompiledKernel) -> str:
    """A program that reads all arguments, runs the kernel, writes the outputs, and again."""
    params = kernel.signature.params
    arrays = [
        f"static char p{i}[{size}] __attribute__((aligned(64)));"
        for i, size in enumerate(array_bytes(kernel))
    ]
    reads = [
        f"        if (fread(p{i}, 1, sizeof p{i}, stdin) != sizeof p{i}) return 0;"
        for i in range(len(params))
    ]
    writes = [
        f"        fwrite(p{i}, 1, sizeof p{i}, stdout);"
        for i, p in enumerate(params)
        if p.is_output
    ]
    return MAIN.format(
        name=kernel.name,
        arrays="\n".join(arrays),
        reads="\n".join(reads),
        writes="\n".join(writes),
        names=", ".join(f"(void *)p{i}" for i in range(len(params))),
    )


def compile_program(kernel: CompiledKernel, folder: Path) -> Path:
    """The stand-alone program of a kernel, linked with nothing but what comes with the compiler."""
    source, _ = kernel.export(folder)
    main, program = folder / "main.c", folder / "program"
    main.write_text(main_text(kernel))
    flags = ["-O2", "-fwrapv", "-fopenmp", "-static", f"-march={kernel.target.march}"]
    command = [COMPILER, *flags, "-Wall", "-Werror", *SILENT, str(main), str(source)]
    subprocess.run([*command, "-o", str(program), "-lm"], check=True)
    return program


class Emulated:
    """kernel(*inputs, *outputs) on the emulator; the outputs are overwritten."""

    def __init__(self, kernel: CompiledKernel, folder: Path) -> None:
        self.params, self.sizes = kernel.signature.params, array_bytes(kernel)
        command = [EMULATOR, str(compile_program(kernel, folder))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, *arrays: np.ndarray[Any, Any]) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        assert [a.nbytes for a in arrays] == self.sizes, "the program would wait for the rest"
        self.process.stdin.write(b"".join(a.tobytes() for a in arrays))
        self.process.stdin.flush()
        for array, param in zip(arrays, self.params):
            if param.is_output:
                data = self.process.stdout.read(array.nbytes)
                assert len(data) == array.nbytes, "the program ended early"
                array[...] = np.frombuffer(data, array.dtype).reshape(array.shape)

    def close(self) -> None:
        self.process.communicate()


@contextmanager
def emulated(kernel: CompiledKernel, folder: Path) -> Iterator[Emulated]:
    """The kernel as something to call, while the emulator runs."""
    folder.mkdir(parents=True, exist_ok=True)
    result = Emulated(kernel, folder)
    try:
        yield result
    finally:
        result.close()
