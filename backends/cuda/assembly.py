"""What a CUDA text becomes, to be read: PTX, and machine code where a disassembler is found."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from backends.commands import run_command
from backends.cuda.nvrtc import compile_ptx, version
from backends.cuda.objects import cubin_of
from backends.cuda.packages import DISASSEMBLER
from backends.errors import BuildError
from backends.scratch import ScratchFolder

TOOLS = {"nvdisasm": ("--print-code",), "cuobjdump": ("--dump-sass",)}
"""The disassemblers of CUDA, with their options, as they are looked for."""

TIMEOUT = 60.0
"""Seconds for a disassembler."""


def assembly_of(source: str, arch: str, name: str) -> str:
    """The PTX of all kernels of `source`, and their machine code (SASS) for `arch`.

    Where that cannot be shown a comment says why. Raises BuildError as `compile_cubin` does.
    """
    ptx = compile_ptx(source, arch, name)
    said = "// PTX for {}, by NVRTC {}.{}".format(arch, *version())
    return f"{said}\n{ptx.strip()}\n\n{_machine_code(source, arch, name)}\n"


def _machine_code(source: str, arch: str, name: str) -> str:
    tool = find_tool()
    if tool is None:
        return (
            f"// The machine code for {arch} is not shown: there is neither nvdisasm nor "
            f"cuobjdump of CUDA: pip install {DISASSEMBLER}"
        )
    code = cubin_of(source, arch, name=name).code
    scratch = ScratchFolder()
    try:
        path = scratch.path / "kernels.cubin"
        path.write_bytes(code)
        done = run_command((str(tool), *TOOLS[tool.stem], str(path)), "", TIMEOUT)
    except (BuildError, subprocess.TimeoutExpired) as error:
        return f"// The machine code for {arch} is not shown: {error}"
    finally:
        scratch.close()
    if done.returncode:
        failed = " ".join((done.stderr or done.stdout).split())
        return f"// The machine code for {arch} is not shown: {tool} failed: {failed}"
    return f"// SASS, the machine code for {arch}, by {tool.stem}\n{done.stdout.strip()}"


def find_tool() -> Path | None:
    """A disassembler: of a wheel, of a CUDA toolkit that CUDA_HOME names, or on the PATH."""
    for name in TOOLS:
        found = _of_package(name) or shutil.which(name) or shutil.which(name, path=TOOLKIT)
        if found is not None:
            return Path(found)
    return None


TOOLKIT = "/usr/local/cuda/bin"


def _of_package(name: str) -> str | None:
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:  # older ones look for libraries and headers only
        return None
    found: str | None = find_nvidia_binary_utility(name)
    return found
