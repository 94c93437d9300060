"""Extern functions as code of a GPU: compared with their meaning before a GPU runs them."""

from __future__ import annotations

import warnings
from weakref import WeakKeyDictionary

from backends.c.compiler import find_cxx_compiler
from backends.errors import BuildError
from tensorir import (
    BUILT_IN_EXTERNS,
    Extern,
    ExternFunc,
    PrimFunc,
    check_extern,
    find_extern,
    walk,
)

CALLED = "code for GPUs"
"""What messages call the text that a GPU gets."""

Row = tuple[str, ...]
"""A combination of dtypes."""

_checked: WeakKeyDictionary[ExternFunc, set[Row]] = WeakKeyDictionary()


class UncheckedExtern(UserWarning):
    """Nobody has compared the code for GPUs of an extern function with its meaning."""


def check_externs(func: PrimFunc, name: str) -> None:
    """Check the extern functions that the lowered program `func` calls, for the types it has.

    Registering checks the C, by a compiler whose macros choose other branches of it. Each function
    is checked once, on the emulator. Raises TensorIRError, naming the function and the first wrong
    element, where its code for GPUs does something else. `name` is the kernel's, for a warning
    where there is no C++ compiler.
    """
    for s in walk(func.body):
        if not isinstance(s, Extern):
            continue
        called, row = find_extern(s.name), tuple(part.buffer.dtype for part in s.parts)
        if called not in BUILT_IN_EXTERNS and row not in _checked.get(called, ()):
            _check(called, row, name)


def _check(called: ExternFunc, row: Row, name: str) -> None:
    from backends.register import extern_runner

    try:
        find_cxx_compiler()
    except BuildError as error:
        said = f"{name}: the code for GPUs of extern function {called.name!r} is not checked"
        warnings.warn(f"{said}: {error.message}", UncheckedExtern, stacklevel=2)
        return
    try:
        check_extern(called, extern_runner("cuda-emulator"), [row], CALLED)
    except BuildError as error:
        said = f"the code for GPUs of extern function {called.name!r} cannot be checked"
        message = f"{said}: {error.message}"
        raise BuildError(message, error.command, error.output, error.source) from error
    mark_checked(called, [row])


def mark_checked(func: ExternFunc, rows: list[Row]) -> None:
    """Remember that the code for GPUs of `func` does what it says, for these types."""
    _checked.setdefault(func, set()).update(rows)
