"""build: from a program to a kernel, in the stages lower, emit, compile, load."""

from __future__ import annotations

import dataclasses
import functools
from importlib import import_module
from typing import Any

from backends.base import Backend
from backends.cache import ObjectCache
from backends.errors import BuildError
from backends.kernel import CompiledKernel
from backends.signature import Signature
from tensorir import PrimFunc, Target, TensorIRError, lower, verify

BACKENDS = {
    "c": "backends.c.backend:CBackend",
}
"""One line per kind of target: where its Backend is. It is imported when first asked for."""


def build(
    program: Any,
    target: Target | str = "c",
    name: str | None = None,
    *,
    cache: ObjectCache | None = None,
    timeout: float = 120.0,
) -> CompiledKernel:
    """Compile a PrimFunc, or the `.func` of a Schedule, for `target`.

    name     what to call the kernel, in place of the program's own name
    cache    where compiled objects are kept; None is the one of this user (TENSORIR_CACHE)
    timeout  seconds after which the compiler is stopped

    Raises BuildError with the compiler's own message, VerifyError for a PrimFunc that is not well
    formed or can leave a buffer, and TensorIRError where `program` is none.
    """
    func = _func_of(program)
    if func is program:  # a Schedule has proved its steps; this may come from anywhere
        verify(func)
    if name is not None:
        func = dataclasses.replace(func, name=name)
    backend, resolved = _resolve(target)
    ir = lower(func, resolved)
    source = backend.emit(ir, resolved)
    return _load(func, ir, source, resolved, cache, timeout)


def build_source(
    func: PrimFunc,
    source: str,
    target: Target | str = "c",
    *,
    cache: ObjectCache | None = None,
    timeout: float = 120.0,
) -> CompiledKernel:
    """Compile `source`, written by hand or edited, with the name and the arguments of `func`.

    For experiments: build(func).source is a place to begin. Nothing checks that `source` computes
    what `func` says.
    """
    resolved = resolve(target)
    return _load(func, func, source, resolved, cache, timeout)


def _load(
    func: PrimFunc,
    ir: PrimFunc,
    source: str,
    target: Target,
    cache: ObjectCache | None,
    timeout: float,
) -> CompiledKernel:
    backend = backend_of(target.kind)
    signature = Signature.of(func, ir.size_vars)
    executable = backend.load(ir, source, target, signature, cache, timeout)
    return CompiledKernel(func, ir, source, target, signature, backend, executable)


def resolve(target: Target | str) -> Target:
    """`target` with what the machine and its compiler decide filled in: vector_bits, features."""
    return _resolve(target)[1]


def compiler_info(target: Target | str = "c") -> dict[str, Any]:
    """What kernels for `target` are made with: the compiler's command, version, flags, features.

    Raises BuildError, with the remedy, where there is no compiler.
    """
    parsed = Target.parse(target)
    return backend_of(parsed.kind).info(parsed)


def have_compiler(target: Target | str = "c") -> bool:
    """Whether kernels for `target` can be built here."""
    try:
        compiler_info(target)
    except BuildError:
        return False
    return True


def _resolve(target: Target | str) -> tuple[Backend, Target]:
    parsed = Target.parse(target)
    backend = backend_of(parsed.kind)
    return backend, backend.resolve(parsed)


@functools.cache
def backend_of(kind: str) -> Backend:
    """The backend of a kind of target; raises BuildError where there is none."""
    if kind not in BACKENDS:
        raise BuildError(
            f"target kind {kind!r} has no backend here; build for one of {', '.join(BACKENDS)}"
        )
    module, _, attribute = BACKENDS[kind].partition(":")
    backend: Backend = getattr(import_module(module), attribute)()
    return backend


def _func_of(program: Any) -> PrimFunc:
    func = program if isinstance(program, PrimFunc) else getattr(program, "func", None)
    if not isinstance(func, PrimFunc):
        raise TensorIRError(
            f"cannot build {program!r} of type {type(program).__name__}; pass a PrimFunc "
            "(te.create_prim_func(...)) or a Schedule"
        )
    return func
