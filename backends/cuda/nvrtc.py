"""NVRTC compiles CUDA text to machine code, on any machine: it needs no GPU and no driver.

The only module that knows CuPy's binding of it, which is importable and undocumented. Compiling
releases the GIL, so threads compile several kernels at once.
"""

from __future__ import annotations

import functools
import json
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from backends.apart import TooLate, run_apart
from backends.c.compiler import DEFAULT_TIMEOUT
from backends.cuda.packages import cupy_version, install, no_cupy
from backends.emit.rounding import FOUND, NVIDIA_FLAG
from backends.errors import BuildError, BuildMemoryError, BuildTimeout
from tensorir import find_architecture

FILE = "kernel.cu"
"""What the text is called in messages."""

OPTIONS = (
    "-std=c++17",
    "-ftz=false",
    "-prec-div=true",
    "-prec-sqrt=true",
    "--ptxas-options=-v",
    "-diag-suppress=177",  # unused functions: helpers of an extern that a call does without
)
"""The options of every compilation: what docs/accuracy.md promises, and a log that tells what the
kernels use (resources.py)."""

HEADERS = re.compile(r'^\s*#\s*include\s*[<"](cuda_[a-z0-9]+\.h)[>"]', re.MULTILINE)
"""CUDA's headers, which a text of float16 or bfloat16 includes."""

MINIMAL = "--minimal"
"""Leaves out the language's types and functions of textures and of the runtime, which takes 7 ms of
a compilation, a quarter of a small kernel's; the code is the same."""

MINIMAL_SINCE = (12, 4)

_MORE = re.compile(r"\b(?:cuda|tex|surf)[A-Z1-3]\w*|<<<")
"""What a text by hand may use of that."""

AROUND = 2
"""Lines of the text that are shown before and after one at fault."""


@dataclass(frozen=True)
class Cubin:
    """The machine code of all kernels of a text.

    code     an ELF file, which a driver loads and `cuobjdump` reads
    log      what the compiler said, warnings and `-v` of the assembler
    command  the options it was given, for messages
    """

    code: bytes
    log: str
    arch: str
    command: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """All of it, as a cache keeps it: a line of JSON, and the code."""
        about = {"log": self.log, "arch": self.arch, "command": self.command}
        return json.dumps(about).encode() + b"\n" + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Cubin:
        """What `to_bytes` made."""
        head, _, code = data.partition(b"\n")
        about = json.loads(head)
        return cls(code, about["log"], about["arch"], tuple(about["command"]))


def compile_cubin(
    source: str,
    arch: str,
    options: Sequence[str] = (),
    name: str = "kernel",
    timeout: float = DEFAULT_TIMEOUT,
) -> Cubin:
    """Compile CUDA text for an architecture such as "sm_90a".

    options  more options; those given later win
    name     of the kernel, for messages
    timeout  seconds. NVRTC cannot be stopped: it goes on in a thread of its own when the time is up
             or Ctrl-C was pressed, and the process waits for that at its end

    Raises BuildError, with the lines at fault, for a text that does not compile; with the command
    that installs what is missing where CuPy, NVRTC or the headers that the text includes are; for
    an architecture that this NVRTC does not know, with those that it knows. BuildTimeout after
    `timeout`.
    """
    command, code, log = _compiled(source, arch, options, name, timeout, "getCUBIN")
    return Cubin(whole_file(code), log, arch, command)


def compile_ptx(
    source: str, arch: str, name: str = "kernel", timeout: float = DEFAULT_TIMEOUT
) -> str:
    """What a CUDA text becomes before it is machine code of an architecture such as "sm_90a".

    Raises as `compile_cubin` does.
    """
    return _compiled(source, arch, (), name, timeout, "getPTX")[1].rstrip(b"\0").decode()


def _compiled(
    source: str, arch: str, options: Sequence[str], name: str, timeout: float, getter: str
) -> tuple[tuple[str, ...], bytes, str]:
    """The command, what `getter` of the binding gives, and the log."""
    binding = _binding()
    _check_arch(binding, arch)
    large = _MORE.search(source) or tuple(binding.getVersion()) < MINIMAL_SINCE
    language = () if large else (MINIMAL,)
    rounding = NVIDIA_FLAG if FOUND in source else "-fmad=true"  # as in C
    command = (f"-arch={arch}", *OPTIONS, rounding, *language, *_include(source, binding), *options)
    work = functools.partial(_compile, binding, source, command, name, getter)
    try:
        return ("nvrtc", *command), *run_apart(work, f"nvrtc {name}", timeout)
    except TooLate:
        message = f"{name}: NVRTC took longer than {timeout:g} s; raise timeout= or unroll less"
        raise BuildTimeout(message, ("nvrtc", *command), "", source) from None


def _compile(
    binding: ModuleType, source: str, command: tuple[str, ...], name: str, getter: str
) -> tuple[bytes, str]:
    program = binding.createProgram(source, FILE, [], [])
    try:
        try:
            binding.compileProgram(program, list(command))
        except binding.NVRTCError as error:
            raise _failed(name, error, _log(binding, program), source, command) from None
        return getattr(binding, getter)(program), _log(binding, program)
    finally:
        binding.destroyProgram(program)


def version() -> tuple[int, int]:
    """Major and minor version of NVRTC, which decides what code it makes: a part of cache keys.

    Raises BuildError, with the command that installs it, where there is none.
    """
    major, minor = _binding().getVersion()
    return major, minor


def why_not() -> str | None:
    """Why CUDA text cannot be compiled here, with the command to mend it; None where it can."""
    try:
        _binding()
    except BuildError as error:
        return error.message
    return None


def header_folder() -> Path | None:
    """The folder of cuda_fp16.h and cuda_bf16.h: of the wheel, or of a CUDA toolkit."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return None
    found = find_nvidia_header_directory("cudart")
    return Path(found) if found else None


def _binding() -> ModuleType:
    """CuPy's module, with the library that it loads at its first use."""
    if cupy_version() is None:
        raise BuildError(no_cupy("compiling for CUDA"))
    try:
        from cupy.cuda import nvrtc
    except ImportError as error:
        remedy = f"{install('cupy', 'nvrtc', 'headers')} --force-reinstall"
        said = str(error).strip().partition("\n")[0]
        raise BuildError(f"CuPy cannot be imported ({said}): {remedy}") from error
    try:
        nvrtc.getVersion()
    except (RuntimeError, ImportError, OSError) as error:  # as softly linked libraries are missed
        raise BuildError(
            f"CuPy {cupy_version()} finds no NVRTC, the compiler of CUDA text: {install('nvrtc')}"
        ) from error
    binding: ModuleType = nvrtc
    return binding


def _check_arch(binding: ModuleType, arch: str) -> None:
    find_architecture(arch)
    known = binding.getSupportedArchs()
    number = int(re.sub(r"\D", "", arch))
    if number in known:
        return
    major, minor = binding.getVersion()
    remedy = f"{install('nvrtc', major=major)} --upgrade"
    if number < min(known):
        remedy = f"{install('cupy', 'nvrtc', 'headers', major=12)} in another environment"
    raise BuildError(
        f"NVRTC {major}.{minor} does not compile for {arch}, but for "
        f"{', '.join(f'sm_{number}' for number in known)}: take one of these, or {remedy}"
    )


def _include(source: str, binding: ModuleType) -> tuple[str, ...]:
    """The option that lets the text find CUDA's headers; none where it includes none."""
    wanted = HEADERS.findall(source)
    if not wanted:
        return ()
    folder = header_folder()
    if folder is None or not all((folder / header).exists() for header in wanted):
        raise BuildError(
            f"NVRTC finds no {wanted[0]}, which the text includes: "
            f"{install('headers', major=binding.getVersion()[0])}"
        )
    return (f"-I{folder}",)


def _log(binding: ModuleType, program: int) -> str:
    """What the compiler said, but how long it took: the same text gets the same log."""
    text: str = binding.getProgramLog(program)
    lines = text.replace("\0", "").strip().splitlines()
    return "\n".join(line for line in lines if " Compile time = " not in line)


def whole_file(code: bytes) -> bytes:
    """`code` with its last byte, which CuPy takes for the end of a string and drops.

    The table of program headers ends the file, and its last bytes are the high ones of an
    alignment, so they are 0.
    """
    if code[:4] != b"\x7fELF":
        raise BuildError(f"NVRTC made no ELF file, but {code[:4]!r}...")
    tables = struct.unpack_from("<QQ", code, 32)
    programs = struct.unpack_from("<HH", code, 54)
    sections = struct.unpack_from("<HH", code, 58)
    ends = [start + size * count for start, (size, count) in zip(tables, (programs, sections))]
    return code + bytes(max(0, max(ends) - len(code)))


def _failed(
    name: str, error: Exception, log: str, source: str, command: tuple[str, ...]
) -> BuildError:
    given = ("nvrtc", *command)
    if "OUT_OF_MEMORY" in str(error):
        return BuildMemoryError(f"{name}: NVRTC ran out of memory; unroll less", given, log, source)
    if "INVALID_OPTION" in str(error):
        return BuildError(f"{name}: NVRTC refused its options ({log})", given, log, source)
    said = _explained(log, source)
    first = said.partition("\n")[0]
    return BuildError(f"{name}: NVRTC could not compile the kernel: {first}", given, said, source)


_LOCATED = re.compile(rf"^{re.escape(FILE)}\((\d+)\): (.*)")


def _explained(log: str, source: str) -> str:
    """The messages of the log, errors first, each with its lines of the text and their numbers."""
    lines = source.splitlines()
    errors: list[str] = []
    others: list[str] = []
    for message in re.split(r"\n\s*\n", log):
        text = message.splitlines()
        located = _LOCATED.match(text[0]) if text else None
        if located is None:
            (errors if re.search(r"\berror\b|fatal", message) else others).append(message)
            continue
        number, said = int(located[1]), located[2]
        caret = next((line.index("^") - 2 for line in text[1:] if line.strip() == "^"), None)
        shown = f"line {number}: {said}\n{_excerpt(lines, number, caret)}"
        (errors if "error" in said.split(":")[0] else others).append(shown)
    return "\n".join([*errors, *others])


def _excerpt(lines: Sequence[str], number: int, caret: int | None) -> str:
    shown = []
    for at in range(max(1, number - AROUND), min(len(lines), number + AROUND) + 1):
        shown.append(f"{'>' if at == number else ' '}{at:5} | {lines[at - 1]}")
        if at == number and caret is not None:
            shown.append(f"{'':6} | {' ' * caret}^")
    return "\n".join(shown)
