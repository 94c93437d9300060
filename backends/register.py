"""register_intrinsic, register_extern: what C text does is checked before anyone can use it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from backends.build import build_source, resolve
from backends.gpu.externs import CALLED, mark_checked
from tensorir import (
    ExternFunc,
    ExternRunner,
    PrimFunc,
    Target,
    TensorIntrin,
    TensorIRError,
    lower,
    register_checked,
    register_extern_checked,
)


def register_intrinsic(intrin: TensorIntrin, target: Target | str | None = None) -> None:
    """Make `intrin` known to the schedule primitive tensorize.

    Its text is compiled for `target` and compared with its meaning first; without a target, its C
    here and its CUDA on the emulator, as far as there are both. Raises TensorIRError, naming the
    intrinsic and the first wrong element, where they differ, where the name is taken, and where
    `target` lacks the feature that the intrinsic needs; BuildError where the text does not compile.
    """
    if not isinstance(intrin, TensorIntrin):
        raise TensorIRError(f"{intrin!r} is no tensor intrinsic: give a tensorir.TensorIntrin")
    texts = {"c": intrin.source, "cuda-emulator": intrin.cuda}
    targets = [kind for kind, text in texts.items() if text] if target is None else [target]
    register_checked(intrin, *map(intrinsic_runner, targets))


def intrinsic_runner(
    target: Target | str = "c",
) -> Callable[[PrimFunc, TensorIntrin], Callable[..., Any]]:
    """What compiles a program that calls an intrinsic, registered or not."""
    resolved = resolve(target)
    emit = _cuda_text if resolved.on_gpu else _c_text

    def compiled(func: PrimFunc, intrin: TensorIntrin) -> Callable[..., Any]:
        where = dataclasses.replace(resolved, features=())
        if not intrin.text_for(resolved.kind):
            raise TensorIRError(
                f"tensor intrinsic {intrin.name!r} has no text for {resolved.kind!r} to be checked"
            )
        if not intrin.runs_on(resolved.instructions, resolved.kind):
            raise TensorIRError(
                f"tensor intrinsic {intrin.name!r} cannot be checked here: it needs "
                f"{intrin.needs}, which '{where}' does not have"
            )
        ir = lower(func, resolved)
        source = emit(ir, resolved, intrin)
        if f"/* {intrin.name} */" not in source:
            raise TensorIRError(f"tensor intrinsic {intrin.name!r} does not match its own meaning")
        return build_source(ir if resolved.on_gpu else func, source, resolved)

    return compiled


def _c_text(ir: PrimFunc, target: Target, trial: TensorIntrin | ExternFunc) -> str:
    from backends.c.emit.codegen import CEmitter

    emitter = CEmitter(ir, target)
    if isinstance(trial, ExternFunc):
        emitter.extern_trial = trial
    else:
        emitter.trial = trial
    return emitter.text()


def _cuda_text(ir: PrimFunc, target: Target, trial: TensorIntrin | ExternFunc) -> str:
    from backends.cuda.text import cuda_text

    return cuda_text(ir, target, trial=trial).source


def _gpu_text(ir: PrimFunc, target: Target, trial: ExternFunc) -> str:
    if target.kind != "opencl":
        return _cuda_text(ir, target, trial)
    from backends.opencl.text import opencl_text

    return opencl_text(ir, target, trial=trial)


def register_extern(func: ExternFunc, target: Target | str = "c") -> None:
    """Make `func` known to te.extern, and to programs by its name.

    Its C is compiled for `target` and compared with its meaning first, on arrays of many sizes, 0
    and 1 among them. Raises TensorIRError, naming the function and the first wrong element, where
    they differ, where C writes into an input or outside of an output, and where the name is taken;
    BuildError where the C does not compile.

    Its code for GPUs, where another branch of an #if may hold, is compared when a program that
    calls it is first built for one, on the emulator or on an OpenCL device, or here, with
    "cuda-emulator" or "opencl" as the target.
    """
    if not isinstance(func, ExternFunc):
        raise TensorIRError(f"{func!r} is no extern function: give a tensorir.ExternFunc")
    where = resolve(target)
    register_extern_checked(func, extern_runner(target), CALLED if where.on_gpu else "C")
    if where.on_gpu:
        mark_checked(func, where, [tuple(row) for row in func.dtypes])


def extern_runner(target: Target | str = "c") -> ExternRunner:
    """What compiles a program that calls an extern function, registered or not."""
    resolved = resolve(target)
    emit = _gpu_text if resolved.on_gpu else _c_text

    def compiled(func: PrimFunc, called: ExternFunc) -> Callable[..., Any]:
        return build_source(func, emit(lower(func, resolved), resolved, called), resolved)

    return compiled
