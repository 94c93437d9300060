"""The C backend: gcc or clang, with OpenMP for parallel loops."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.base import Executable
from backends.c import compiler as cc
from backends.c.binding import RUNTIME_SOURCE, CExecutable, Runtime
from backends.c.cross import compiler_for
from backends.c.emit.codegen import CEmitter, c_name, emit, emit_cases
from backends.c.emit.export import packed_entry, write_header
from backends.c.flags import FLAGS, compile_flags, for_others, kernel_flags
from backends.c.foreign import foreign_executable, why_not_here
from backends.c.objects import SUPPORT, Background, ObjectMaker
from backends.c.support import split_support
from backends.c.tiles import tiles_allowed
from backends.cache import ObjectCache, default_cache
from backends.call.constants import Binding
from backends.call.signature import Signature
from backends.errors import BuildError
from backends.host import host_processor
from backends.kernel import CompiledKernel, host_kernel
from tensorir import Expr, PrimFunc, Processor, Target

FEATURE_MACROS = (
    "__SSE4_2__ __AVX__ __AVX2__ __FMA__ __F16C__ __AVX512F__ __AVX512BW__ __AVX512DQ__ "
    "__AVX512VL__ __AVX512VNNI__ __AVX512BF16__ __AVX512FP16__ __AVXVNNI__ __AMX_TILE__ "
    "__AMX_INT8__ __AMX_BF16__ __ARM_NEON __ARM_FEATURE_SVE __ARM_FEATURE_DOTPROD"
).split()
"""Instruction set extensions worth recording, as compilers announce them."""


@dataclass(frozen=True)
class CObject:
    """A compiled object: where it is, what it is made of, and the runtime that calls it.

    `runtime` is still being made, perhaps; None where this machine cannot run the object.
    """

    ir: PrimFunc
    signature: Signature
    target: Target
    made_of: tuple[ObjectCache, cc.Compiler, str, str, str, float]
    key: str
    path: Path
    why_not_here: str | None
    runtime: Background[Runtime] | Runtime | None = None

    @property
    def resources(self) -> None:
        """Of processors nothing is told."""
        return None


class CBackend:
    """Stages of target kind "c"."""

    suffix = ".c"

    def __init__(self) -> None:
        self._runtimes: dict[cc.Compiler, Runtime] = {}
        self._objects = ObjectMaker()

    def resolve(self, target: Target) -> Target:
        """`target` with vector_bits and features as the compiler reports them for its march.

        Its processor is the one at hand where that can run it.
        """
        features = target.features or _features(target)
        bits = 512 if "avx512f" in features else 256 if "avx" in features else 128
        return dataclasses.replace(
            target,
            vector_bits=target.vector_bits or bits,
            features=features,
            processor=Processor() if self.why_not_here(target) else host_processor(),
        )

    def why_not_here(self, target: Target) -> str | None:
        return why_not_here(target, _features)

    def kernel_type(self, signature: Signature) -> type[CompiledKernel]:
        return host_kernel(signature)

    def on_host(self, array: Any) -> Any:
        return array

    def emit(self, ir: PrimFunc, target: Target, prepare: PrimFunc | None = None) -> str:
        return emit(ir, target, prepare)

    def emit_cases(
        self, ir: PrimFunc, cases: Sequence[tuple[Expr, PrimFunc]], target: Target
    ) -> str:
        """The source text of a program that gives way to others; see `backends.build_cases`."""
        return emit_cases(ir, cases, target)

    def compile(
        self,
        ir: PrimFunc,
        source: str,
        target: Target,
        signature: Signature,
        cache: ObjectCache | None,
        timeout: float,
        binding: Binding | None = None,
    ) -> CObject:
        text = source + packed_entry(ir, signature)
        if binding is not None and binding.function is not None:
            text += packed_entry(*binding.function)
        store, compiler = default_cache() if cache is None else cache, compiler_for(target)
        made_of = (store, compiler, text, target.march, signature.name, timeout)
        why = self.why_not_here(target)
        if why is not None:
            return CObject(ir, signature, target, made_of, *self._objects.make(*made_of), why)
        making = self._begin_runtime(store, compiler)
        try:
            found = self._objects.make(*made_of)
        except BaseException:
            if isinstance(making, Background):
                making.stop()
            raise
        return CObject(ir, signature, target, made_of, *found, None, making)

    def load(self, compiled: CObject, binding: Binding | None = None) -> Executable:
        name = compiled.signature.name
        if compiled.runtime is None:
            return foreign_executable(name, compiled.target, compiled.why_not_here or "")
        path, making = compiled.path, compiled.runtime
        for attempt in range(2):
            try:
                runtime = making.wait() if isinstance(making, Background) else making
                return _executable(compiled, path, runtime, binding)
            except (OSError, AttributeError) as error:
                # An intact file that does not load was made for another system; make it here.
                compiled.made_of[0].discard(compiled.key)
                if attempt:
                    message = f"{name}: the compiled object does not load: {error}"
                    raise BuildError(message, (), "", compiled.made_of[2]) from error
                path = self._objects.make(*compiled.made_of)[1]
            except BaseException:
                if isinstance(making, Background):
                    making.stop()
                raise
        raise AssertionError("the second attempt returns or raises")

    def info(self, target: Target) -> dict[str, Any]:
        compiler = compiler_for(target)
        flags = compile_flags(compiler, target.march, cc.has_openmp(compiler))
        return {
            "command": list(compiler.command),
            "version": compiler.version,
            "flags": list(flags),
            "features": list(_features(target)),
        }

    def assembly(self, source: str, target: Target, name: str) -> str:
        compiler = compiler_for(target)
        own, _ = split_support(source, SUPPORT)
        flags = kernel_flags(compiler, target.march, cc.has_openmp(compiler), own)
        return cc.assembly(compiler, source, flags, name)

    def symbol(self, ir: PrimFunc) -> str:
        return c_name(ir)

    def exported(
        self, ir: PrimFunc, source: str, target: Target, prepare: PrimFunc | None = None
    ) -> str:
        return for_others(source)

    def header(
        self,
        ir: PrimFunc,
        signature: Signature,
        target: Target,
        prepare: tuple[PrimFunc, Signature] | None = None,
    ) -> str:
        words = ["cc", "-O2", f"-march={target.march}"]
        if target.march != "native" or target.cc is not None:
            compiler = compiler_for(target)
            flags = compile_flags(compiler, target.march, False)
            words = [*compiler.command, *(f for f in flags if f[:2] == "-O" or f not in FLAGS)]
        tiles = CEmitter(ir, target).uses_tiles(ir.body)
        return write_header(ir, signature, " ".join(words), prepare, tiles)

    def _begin_runtime(
        self, store: ObjectCache, compiler: cc.Compiler
    ) -> Background[Runtime] | Runtime:
        """The runtime of this compiler, or the making of it beside that of the kernel."""
        known = self._runtimes.get(compiler)
        if known is not None:
            return known
        text = RUNTIME_SOURCE.read_text(encoding="utf-8")

        def make() -> Runtime:
            limit = cc.DEFAULT_TIMEOUT
            _, path = self._objects.make(store, compiler, text, None, "runtime.c", limit)
            return self._runtimes.setdefault(compiler, Runtime(path))

        return Background(make)


def _executable(
    compiled: CObject, path: Path, runtime: Runtime, binding: Binding | None
) -> Executable:
    symbol = c_name(compiled.ir)
    if binding is None:
        return CExecutable(path, symbol, compiled.signature, runtime)
    from backends.c.constants import bound_executable

    return bound_executable(path, symbol, compiled.signature, runtime, binding)


def _features(target: Target) -> tuple[str, ...]:
    """Of this machine, those that the operating system lets a process use."""
    compiler = compiler_for(target)
    defined = cc.macros(compiler, target.march)
    names = sorted(m.strip("_").lower() for m in FEATURE_MACROS if m in defined)
    if target.march == "native" and compiler == cc.find_compiler() and not tiles_allowed():
        names = [name for name in names if not name.startswith("amx")]
    return tuple(names)
