"""register_intrinsic, register_extern: what C text does is checked before anyone can use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backends.build import build_source, resolve
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


def register_intrinsic(intrin: TensorIntrin, target: Target | str = "c") -> None:
    """Make `intrin` known to the schedule primitive tensorize.

    Its C is compiled for `target` and compared with its meaning first. Raises TensorIRError,
    naming the intrinsic and the first wrong element, where they differ, where the name is taken,
    and where `target` lacks the feature that the intrinsic needs; BuildError where the C does not
    compile.
    """
    register_checked(intrin, intrinsic_runner(target))


def intrinsic_runner(
    target: Target | str = "c",
) -> Callable[[PrimFunc, TensorIntrin], Callable[..., Any]]:
    """What compiles a program that calls an intrinsic, registered or not."""
    from backends.c.codegen import CEmitter

    resolved = resolve(target)

    def compiled(func: PrimFunc, intrin: TensorIntrin) -> Callable[..., Any]:
        if not intrin.runs_on(resolved.features):
            raise TensorIRError(
                f"tensor intrinsic {intrin.name!r} cannot be checked here: it needs "
                f"{intrin.needs}, which {resolved.kind} -march={resolved.march} does not have"
            )
        emitter = CEmitter(lower(func, resolved), resolved)
        emitter.trial = intrin
        source = emitter.text()
        if intrin.name not in emitter.intrinsics:
            raise TensorIRError(f"tensor intrinsic {intrin.name!r} does not match its own meaning")
        return build_source(func, source, resolved)

    return compiled


def register_extern(func: ExternFunc, target: Target | str = "c") -> None:
    """Make `func` known to te.extern, and to programs by its name.

    Its C is compiled for `target` and compared with its meaning first, on arrays of many sizes, 0
    and 1 among them. Raises TensorIRError, naming the function and the first wrong element, where
    they differ, where C writes into an input or outside of an output, and where the name is taken;
    BuildError where the C does not compile.
    """
    register_extern_checked(func, extern_runner(target))


def extern_runner(target: Target | str = "c") -> ExternRunner:
    """What compiles a program that calls an extern function, registered or not."""
    from backends.c.codegen import CEmitter

    resolved = resolve(target)

    def compiled(func: PrimFunc, called: ExternFunc) -> Callable[..., Any]:
        emitter = CEmitter(lower(func, resolved), resolved)
        emitter.extern_trial = called
        return build_source(func, emitter.text(), resolved)

    return compiled
