"""Extern functions as code of a GPU: compared with their meaning before a GPU runs them."""

from __future__ import annotations

import warnings
from weakref import WeakKeyDictionary

from backends.errors import BuildError
from tensorir import (
    BUILT_IN_EXTERNS,
    Extern,
    ExternFunc,
    PrimFunc,
    Target,
    check_extern,
    find_extern,
    walk,
)

CALLED = "code for GPUs"
"""What messages call the text that a GPU gets."""

Row = tuple[str, ...]
"""A combination of dtypes."""

_checked: WeakKeyDictionary[ExternFunc, set[tuple[str, Row]]] = WeakKeyDictionary()
"""Functions, with the targets that ran them, for which types."""


class UncheckedExtern(UserWarning):
    """Nobody has compared the code for GPUs of an extern function with its meaning."""


def check_externs(func: PrimFunc, target: Target, name: str) -> None:
    """Check the extern functions that the lowered program `func` calls, for the types it has.

    Registering checks the C, by a compiler whose macros choose other branches of it. Each function
    is checked once, on the emulator, or on the device of OpenCL. Raises TensorIRError, naming the
    function and the first wrong element, where its code for GPUs does something else. `name` is the
    kernel's, for a warning where it cannot be checked.
    """
    for s in walk(func.body):
        if not isinstance(s, Extern):
            continue
        called, row = find_extern(s.name), tuple(part.buffer.dtype for part in s.parts)
        if called not in BUILT_IN_EXTERNS and (_judge(target), row) not in _checked.get(called, ()):
            _check(called, row, target, name)


def _judge(target: Target) -> str:
    """The kind of target that runs what is checked for `target`."""
    return "opencl" if target.kind == "opencl" else "cuda-emulator"


def _check(called: ExternFunc, row: Row, target: Target, name: str) -> None:
    from backends.build import why_not_here
    from backends.register import extern_runner

    why = why_not_here(_judge(target))
    if why is not None:
        said = f"{name}: the code for GPUs of extern function {called.name!r} is not checked"
        warnings.warn(f"{said}: {why}", UncheckedExtern, stacklevel=2)
        return
    try:
        check_extern(called, extern_runner(_judge(target)), [row], CALLED)
    except BuildError as error:
        said = f"the code for GPUs of extern function {called.name!r} cannot be checked"
        message = f"{said}: {error.message}"
        raise BuildError(message, error.command, error.output, error.source) from error
    mark_checked(called, target, [row])


def mark_checked(func: ExternFunc, target: Target, rows: list[Row]) -> None:
    """Remember that the code for GPUs of `func` does what it says, for these types."""
    _checked.setdefault(func, set()).update((_judge(target), row) for row in rows)
