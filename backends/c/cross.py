"""Compilers for other processors: which one makes code for a target, and whether it runs here.

The first one that knows `-march` is taken, this machine's own before the cross compilers; `-cc=`
names one. Such a kernel is compiled, read and exported, and says at a call that this machine cannot
run it. The C is the same for all, apart from builtins of x86.
"""

from __future__ import annotations

import shutil
from contextlib import suppress

from backends.c.compiler import (
    Compiler,
    UnknownProcessor,
    find_compiler,
    knows,
    macros,
    named_compiler,
)
from backends.errors import BuildError
from tensorir import Target

CROSS = ("aarch64-linux-gnu-gcc", "x86_64-linux-gnu-gcc")
"""Cross compilers by the names that Debian, Ubuntu and Fedora give them; the first that knows the
processor is taken."""

ARCHITECTURES = ("x86_64", "aarch64", "i386", "arm", "riscv", "powerpc64", "s390x")

_REMEDY = (
    "install a cross compiler (Debian/Ubuntu: apt install gcc-aarch64-linux-gnu), or name one "
    "with the target option -cc="
)


def compiler_for(target: Target) -> Compiler:
    """The compiler that -cc names; else this machine's, if it knows -march; else a cross compiler.

    Raises BuildError where there is no compiler, where it does not work, and where none knows the
    processor.
    """
    if target.cc is not None:
        return _named(target.cc, target.march)
    native = find_compiler()
    try:
        macros(native, target.march)
        return native
    except UnknownProcessor as error:
        for found in cross_compilers():
            if knows(found, target.march):
                return found
        message = f"{error.message}; if it is no processor of this machine, {_REMEDY}"
        raise BuildError(message, error.command, error.output) from None


def _named(command: str, march: str) -> Compiler:
    place = shutil.which(command)
    if place is None:
        raise BuildError(
            f"the target says -cc={command}, and there is no such command; install it, or correct "
            "the option"
        )
    compiler = named_compiler((command,), place=place)
    try:
        macros(compiler, march)
    except UnknownProcessor:
        if march != "native":
            raise
        raise BuildError(
            f"{command} does not know -march=native: it compiles for another machine, so name the "
            "processor, as in -march=armv8.2-a+dotprod"
        ) from None
    return compiler


def cross_compilers() -> tuple[Compiler, ...]:
    """The compilers for other architectures that are installed here."""
    here = architecture(find_compiler(), None)
    found = []
    for name in CROSS:
        place = shutil.which(name)
        if place is not None:
            with suppress(BuildError):  # a broken one is none
                compiler = named_compiler((name,), place=place)
                if architecture(compiler, None) != here:
                    found.append(compiler)
    return tuple(found)


def architecture(compiler: Compiler, march: str | None) -> str:
    """The instruction set that a compiler makes code for, such as "aarch64"."""
    defined = macros(compiler, march)
    return next((name for name in ARCHITECTURES if f"__{name}__" in defined), "unknown")
