"""Kernels for other machines: they can be read and exported, not called."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backends.c.compiler import find_compiler
from backends.c.cross import architecture, compiler_for
from backends.call.silent import SilentExecutable
from tensorir import Target


def why_not_here(target: Target, features: Callable[[Target], Sequence[str]]) -> str | None:
    """Why this machine cannot run what is made for a target; None if it can.

    `features` gives the instruction set extensions of a target.
    """
    compiler = compiler_for(target)
    if target.march == "native" and compiler == find_compiler():
        return None
    there = architecture(compiler, target.march)
    here = architecture(find_compiler(), None)
    if there != here:
        return f"this machine is {here}, not {there}"
    if target.march == "native":
        return None
    missing = sorted(set(features(target)) - set(features(Target("c"))))
    return f"this processor lacks {', '.join(missing)}" if missing else None


def foreign_executable(name: str, target: Target, why: str) -> SilentExecutable:
    """A kernel that is not for this machine."""
    return SilentExecutable(
        f"{name} was built for {str(target)!r}, and {why}; .export(folder) writes the C for that "
        "machine, and a build for -march=native runs here"
    )
