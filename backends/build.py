"""build: from a program to a kernel, in the stages lower, emit, compile, load."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence, Sized
from importlib import import_module
from numbers import Real
from threading import TIMEOUT_MAX
from typing import Any

from backends.base import Backend
from backends.cache import ObjectCache
from backends.call.constants import Binding, Constants, given_constants
from backends.call.signature import Signature
from backends.errors import BuildError
from backends.kernel import CompiledKernel
from tensorir import (
    Block,
    Expr,
    PrimFunc,
    Target,
    TensorIRError,
    check_ranges,
    dtype,
    lower,
    prove,
    walk,
)

BACKENDS = {
    "c": "backends.c.backend:CBackend",
    "cuda": "backends.cuda.backend:CudaBackend",
    "cuda-emulator": "backends.cuda.emulated:EmulatorBackend",
    "opencl": "backends.opencl.backend:OpenCLBackend",
}
"""One line per kind of target: where its Backend is. It is imported when first asked for."""


def build(
    program: Any,
    target: Target | str = "c",
    name: str | None = None,
    *,
    constants: Constants = (),
    cache: ObjectCache | None = None,
    timeout: float = 120.0,
) -> CompiledKernel:
    """Compile a PrimFunc, or the `.func` of a Schedule, for `target`.

    name       what to call the kernel, in place of the program's own name
    constants  arrays of parameters that never change, by name, such as weights. What the program
               computes from them alone, in nests at its root, is computed now and kept by the
               kernel, and what it reads of them directly is copied; a call takes the other
               arguments. Names without arrays give a kernel to read and export, not to call.
    cache      where compiled objects are kept; None is the one of this user (TENSORIR_CACHE)
    timeout    seconds after which the compiler is stopped

    Raises BuildError with the compiler's own message, VerifyError for a program that is not well
    formed, of which it is not proved that it stays inside of its buffers or that what runs at once
    is independent (tensorir.prove), and TensorIRError where `program` is none or a constant does
    not fit.
    """
    func = _proved(program)
    if name is not None:
        func = dataclasses.replace(func, name=name)
    backend, resolved = _resolve(target)
    if _without(constants):
        ir = lower(func, resolved)
        source = backend.emit(ir, resolved)
        _check_externs(func.name, resolved, ir)
        return _load(func, ir, source, resolved, cache, timeout)
    func, main, binding = _with_constants(func, _on_host(constants, backend))
    ir = lower(main, resolved)
    if binding.prepare is not None:
        binding = dataclasses.replace(binding, prepare=lower(binding.prepare, resolved))
    source = backend.emit(ir, resolved, binding.prepare)
    _check_externs(func.name, resolved, ir, binding.prepare)
    signature = Signature.of(main, ir.size_vars)
    return _load(func, ir, source, resolved, cache, timeout, signature, binding)


def build_cases(
    program: Any,
    cases: Sequence[tuple[Expr, Any]],
    target: Target | str = "c",
    *,
    cache: ObjectCache | None = None,
    timeout: float = 120.0,
) -> CompiledKernel:
    """One kernel of several schedules of a program: a call runs the first whose condition on the
    symbolic sizes holds, and `program` itself where none does.

        build_cases(default, [((8 <= n) & (n <= 64), small), (n <= 4096, large)])

    The choice is a few comparisons in the compiled text, so a call costs what it does without. Only
    for processors: what GPUs run is launched kernel by kernel.

    Raises what `build` does, and TensorIRError for programs that take other arguments, or
    conditions on what is no size of them.
    """
    backend, resolved = _resolve(target)
    emit_cases = getattr(backend, "emit_cases", None)
    if emit_cases is None:
        raise BuildError(
            f"kernels that choose by their sizes are made for processors, not for "
            f"{resolved.kind!r}: build one for each size"
        )
    func = _proved(program)
    ir = lower(func, resolved)
    lowered = []
    for condition, other in cases:
        case = lower(_proved(other), resolved)
        if (case.params, case.free_vars) != (ir.params, ir.free_vars):
            raise TensorIRError(
                f"{case.name!r} takes other arguments than {ir.name!r}: cases are schedules of one "
                "program"
            )
        _check_condition(condition, ir)
        lowered.append((condition, case))
    return _load(func, ir, emit_cases(ir, lowered, resolved), resolved, cache, timeout)


def _check_condition(condition: Expr, ir: PrimFunc) -> None:
    if not isinstance(condition, Expr) or not dtype.is_bool(condition.dtype):
        raise TensorIRError(f"the condition {condition!r} is none: write one such as n <= 64")
    others = condition.variables - set(ir.size_vars)
    if others:
        names = ", ".join(v.name for v in ir.size_vars) or "none"
        raise TensorIRError(
            f"the condition {condition!r} is on {min(v.name for v in others)!r}, which is no size "
            f"of {ir.name!r}; sizes are {names}"
        )


def source_text(program: Any, target: Target | str = "c", constants: Collection[str] = ()) -> str:
    """The source text that `build` would compile, given the names of the constants.

    Raises TensorIRError where `program` is none, or where it has no such parameter.
    """
    func = _func_of(program)
    backend, resolved = _resolve(target)
    if _without(constants):
        return backend.emit(lower(func, resolved), resolved)
    names = tuple(constants) if isinstance(constants, Mapping) else constants
    _, main, binding = _with_constants(func, names)
    prepare = None if binding.prepare is None else lower(binding.prepare, resolved)
    return backend.emit(lower(main, resolved), resolved, prepare)


def build_source(
    func: PrimFunc,
    source: str,
    target: Target | str = "c",
    *,
    constants: Constants = (),
    cache: ObjectCache | None = None,
    timeout: float = 120.0,
) -> CompiledKernel:
    """Compile `source`, written by hand or edited, with the name and the arguments of `func`.

    For experiments: build(func).source is a place to begin. Nothing checks that `source` computes
    what `func` says. With `constants`, `func` is the scheduled program, which tells what is
    prepared, and `source` has the function for that too. For GPUs it is the scheduled program as
    well, or that lowered: it tells what is launched.
    """
    func = _func_of(func)
    if not isinstance(source, str):
        raise TensorIRError(f"build_source: source is {source!r}, where a text to compile belongs")
    resolved = resolve(target)
    if _without(constants):
        ir = lower(func, resolved) if resolved.on_gpu and _has_blocks(func) else func
        return _load(func, ir, source, resolved, cache, timeout)
    constants = _on_host(constants, backend_of(resolved.kind))
    func, main, binding = _with_constants(func, constants)
    return _load(func, main, source, resolved, cache, timeout, Signature.of(main), binding)


def _check_externs(name: str, target: Target, *programs: PrimFunc | None) -> None:
    """What a GPU gets of extern functions was not checked when they were registered."""
    if not target.on_gpu:
        return
    from backends.gpu.externs import check_externs

    for ir in programs:
        if ir is not None:
            check_externs(ir, target, name)


def _without(constants: Any) -> bool:
    """Whether there are none; what is neither arrays by name nor names is refused later."""
    sized = isinstance(constants, Sized) and not hasattr(constants, "dtype")
    return constants is None or sized and len(constants) == 0


def _on_host(constants: Constants, backend: Backend) -> Constants:
    """The arrays in the memory of the processor, wherever the caller has them."""
    if not isinstance(constants, Mapping):
        return constants
    return {name: backend.on_host(array) for name, array in constants.items()}


def _with_constants(func: PrimFunc, constants: Constants) -> tuple[PrimFunc, PrimFunc, Binding]:
    """`func` with the sizes that the constants tell, what is left of it, and what is done ahead."""
    from tensorir import split_constants

    func, names, arrays = given_constants(func, constants)
    parts = split_constants(func, names)
    ahead = None if parts.prepare is None else Signature.of(parts.prepare)
    return func, parts.main, Binding(names, arrays, parts.prepare, ahead)


def _load(
    func: PrimFunc,
    ir: PrimFunc,
    source: str,
    target: Target,
    cache: ObjectCache | None,
    timeout: float,
    signature: Signature | None = None,
    binding: Binding | None = None,
) -> CompiledKernel:
    """`signature` tells what the compiled function takes, if that is not what `func` does."""
    if cache is not None and not isinstance(cache, ObjectCache):
        raise TensorIRError(f"cache is {cache!r}, where an ObjectCache or None belongs")
    if not isinstance(timeout, Real) or not 0 < timeout <= TIMEOUT_MAX:
        raise TensorIRError(f"timeout is {timeout!r}, where a number of seconds belongs")
    backend = backend_of(target.kind)
    signature = signature or Signature.of(func, ir.size_vars)
    compiled = backend.compile(ir, source, target, signature, cache, timeout, binding)
    executable = backend.load(compiled, binding)
    return backend.kernel_type(signature)(
        func, ir, source, target, signature, backend, compiled, executable, binding
    )


def resolve(target: Target | str) -> Target:
    """`target` with what the machine and its compiler decide: vector_bits, features, processor."""
    return _resolve(target)[1]


def why_not_here(target: Target | str) -> str | None:
    """Why this machine cannot run kernels for `target`, as a phrase; None where it can."""
    parsed = Target.parse(target)
    return backend_of(parsed.kind).why_not_here(parsed)


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


def _proved(program: Any) -> PrimFunc:
    """The program of what is to be built; VerifyError where it is not proved to be sound."""
    func = _func_of(program)
    if func is program:
        prove(func)
    else:  # the Schedule has proved the program that it began with, and each step after it
        check_ranges(func, everywhere=True)
    return func


def _resolve(target: Target | str) -> tuple[Backend, Target]:
    if isinstance(target, (list, tuple)):
        raise TensorIRError(
            "the second argument of build is the target, and a kernel takes what its program does: "
            "name the arguments where that is made, as in te.create_schedule(ops, args=[A, B, C]) "
            "or te.create_prim_func([A, B, C])"
        )
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


def _has_blocks(func: PrimFunc) -> bool:
    return any(isinstance(s, Block) for s in walk(func.body))


def _func_of(program: Any) -> PrimFunc:
    func = program if isinstance(program, PrimFunc) else getattr(program, "func", None)
    if not isinstance(func, PrimFunc):
        raise TensorIRError(
            f"cannot build {program!r} of type {type(program).__name__}; pass a PrimFunc "
            "(te.create_prim_func(...)) or a Schedule"
        )
    return func
