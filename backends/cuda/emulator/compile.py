"""Compiling CUDA text for the CPU, and the runtime that it runs on, once."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from backends.c import compiler as cc
from backends.cache import ObjectCache, default_cache, object_key
from backends.cuda.emulator.signature import Kernels
from backends.emit.rounding import FLAGS as ROUNDING_FLAGS
from backends.emit.rounding import FOUND

FOLDER = Path(__file__).parent

FLAGS = (
    "-std=gnu++17",
    "-fPIC",
    "-fwrapv",
    "-fno-strict-aliasing",  # parts of the arena have several types
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-rtti",
    "-U_FORTIFY_SOURCE",  # takes a switch of stacks for an error
    "-w",
    f"-I{FOLDER}",
)
KERNEL_FLAGS = (
    *("-O2", "-DTENSORIR_EMULATOR", "-march=native"),
    "-fno-tree-slp-vectorize",  # by which gcc 12 counts conditions wrong in narrow integers
)
RUNTIME_FLAGS = (
    *("-O2", "-pthread"),
    "-fno-semantic-interposition",  # its functions call each other, and are called by kernels
    "-ftls-model=initial-exec",
)
CHECKED_FLAGS = ("-O1", "-DTENSORIR_EMULATOR", "-DTENSORIR_CHECKED")

RUNTIME = (
    *("report.cpp", "fibre.cpp", "counts.cpp", "checker.cpp"),
    *("block.cpp", "runtime.cpp", "jobs.cpp"),
)
PROGRAM = ("-ldl",)


LOOP = re.compile(r"(\bfor \([\w ]+? (\w+) = .*; \2\+\+\)) \{$", re.MULTILINE)
"""A loop as emitters spell it; its text may be written by hand otherwise, and then is no step."""


def compile_kernels(
    source: str,
    kernels: Kernels,
    *,
    checked: bool = False,
    cache: ObjectCache | None = None,
    timeout: float = cc.DEFAULT_TIMEOUT,
) -> Path:
    """The object of a CUDA text, for checked runs or for plain ones.

    Raises BuildError where there is no C++ compiler, and with its words where it refuses the text.
    """
    entries = "".join(f"TI_EMULATED({name})\n" for name in kernels)
    if checked:  # what lanes do in one step of a loop is one instruction
        source = LOOP.sub(r"\1 { TI_STEP(\2);", source)
    flags = CHECKED_FLAGS if checked else KERNEL_FLAGS
    flags = (*flags, *(ROUNDING_FLAGS if FOUND in source else ()))
    return _compile(f"{source}\n{entries}", flags, next(iter(kernels)), cache, timeout)


def compile_runtime(cache: ObjectCache | None = None) -> Path:
    """The runtime as an object, to be loaded before kernels."""
    return _compile(_including(RUNTIME), RUNTIME_FLAGS, "the emulator's runtime", cache)


def compile_runner(cache: ObjectCache | None = None) -> Path:
    """The program that does checked runs, given the runtime."""
    return _compile(
        _including(("runner.cpp",)), RUNTIME_FLAGS, "the emulator's runner", cache, link=PROGRAM
    )


def _including(names: tuple[str, ...]) -> str:
    return "".join(f'#include "{name}"\n' for name in names)


def _compile(
    text: str,
    flags: tuple[str, ...],
    name: str,
    cache: ObjectCache | None,
    timeout: float = cc.DEFAULT_TIMEOUT,
    link: tuple[str, ...] = cc.SHARED,
) -> Path:
    compiler = cc.find_cxx_compiler()
    flags = (*FLAGS, *flags)
    store = default_cache() if cache is None else cache
    machine = sorted(cc.macros(compiler, "native")) if "-march=native" in flags else ()
    made_of = (*compiler.command, compiler.identity, *flags, *link, "\n".join(machine))
    key = object_key(text, own_sources(), *made_of)
    found = store.find(key)
    if found is not None:
        return found

    def compile_to(draft: Path) -> None:
        cc.compile_object(compiler, text, draft, flags, name, timeout, language="c++", link=link)
        draft.chmod(0o700)

    return store.add(key, compile_to)


@functools.cache
def own_sources() -> str:
    """All of the emulator's own text, which an object depends on."""
    paths = sorted((*FOLDER.glob("*.h"), *FOLDER.glob("*.cpp")))
    return "".join(f"// {path.name}\n{path.read_text(encoding='utf-8')}" for path in paths)
