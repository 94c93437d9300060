"""The C backend: gcc or clang, with OpenMP for parallel loops."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from backends.base import Executable
from backends.c import compiler as cc
from backends.c.binding import RUNTIME_SOURCE, CExecutable, ForeignExecutable, Runtime
from backends.c.codegen import c_name, emit
from backends.c.export import packed_entry, write_header
from backends.cache import ObjectCache, default_cache, object_key
from backends.errors import BuildError
from backends.signature import Signature
from tensorir import PrimFunc, Target

FEATURE_MACROS = (
    "__SSE4_2__ __AVX__ __AVX2__ __FMA__ __F16C__ __AVX512F__ __AVX512BW__ __AVX512DQ__ "
    "__AVX512VL__ __AVX512VNNI__ __AVX512BF16__ __AVX512FP16__ __AVXVNNI__ __AMX_TILE__ "
    "__ARM_NEON __ARM_FEATURE_SVE __ARM_FEATURE_DOTPROD"
).split()
"""Instruction set extensions worth recording, as compilers announce them."""


class CBackend:
    """Stages of target kind "c"."""

    suffix = ".c"

    def __init__(self) -> None:
        self._runtimes: dict[cc.Compiler, Runtime] = {}

    def resolve(self, target: Target) -> Target:
        """`target` with vector_bits and features as the compiler reports them for its march."""
        features = target.features or _features(target.march)
        bits = 512 if "avx512f" in features else 256 if "avx" in features else 128
        return dataclasses.replace(
            target, vector_bits=target.vector_bits or bits, features=features
        )

    def emit(self, ir: PrimFunc, target: Target) -> str:
        return emit(ir, target)

    def load(
        self,
        ir: PrimFunc,
        source: str,
        target: Target,
        signature: Signature,
        cache: ObjectCache | None,
        timeout: float,
    ) -> Executable:
        store = default_cache() if cache is None else cache
        text = source + packed_entry(ir, signature)
        compiler = cc.find_compiler()
        missing = _missing_features(target.march)
        for attempt in range(2):
            key, path = _object(store, compiler, text, target.march, signature.name, timeout)
            if missing:
                return ForeignExecutable(signature.name, target, missing)
            try:
                runtime = self._runtime(store, compiler)
                return CExecutable(path, c_name(ir), signature, runtime)
            except (OSError, AttributeError) as error:
                # An intact file that does not load was made for another system; make it here.
                store.discard(key)
                if attempt:
                    message = f"{signature.name}: the compiled object does not load: {error}"
                    raise BuildError(message, (), "", text) from error
        raise AssertionError("unreachable")

    def info(self, target: Target) -> dict[str, Any]:
        compiler = cc.find_compiler()
        flags = cc.compile_flags(target.march, cc.has_openmp(compiler))
        return {
            "command": list(compiler.command),
            "version": compiler.version,
            "flags": list(flags),
            "features": list(_features(target.march)),
        }

    def assembly(self, source: str, target: Target, name: str) -> str:
        compiler = cc.find_compiler()
        flags = cc.compile_flags(target.march, cc.has_openmp(compiler))
        return cc.assembly(compiler, source, flags, name)

    def symbol(self, ir: PrimFunc) -> str:
        return c_name(ir)

    def header(self, ir: PrimFunc, signature: Signature) -> str:
        return write_header(ir, signature)

    def _runtime(self, store: ObjectCache, compiler: cc.Compiler) -> Runtime:
        if compiler not in self._runtimes:
            text = RUNTIME_SOURCE.read_text(encoding="utf-8")
            _, path = _object(store, compiler, text, None, "runtime.c", cc.DEFAULT_TIMEOUT)
            self._runtimes[compiler] = Runtime(path)
        return self._runtimes[compiler]


def _features(march: str | None) -> tuple[str, ...]:
    defined = cc.macros(cc.find_compiler(), march)
    return tuple(sorted(m.strip("_").lower() for m in FEATURE_MACROS if m in defined))


def _missing_features(march: str) -> tuple[str, ...]:
    """What `march` has and this machine has not."""
    if march == "native":
        return ()
    return tuple(sorted(set(_features(march)) - set(_features("native"))))


def _object(
    store: ObjectCache,
    compiler: cc.Compiler,
    text: str,
    march: str | None,
    name: str,
    timeout: float,
) -> tuple[str, Path]:
    """The key and path of the object of `text`: found in the cache, or compiled now."""
    # "native" means another thing on another machine that shares the directory.
    machine = "\n".join(sorted(cc.macros(compiler, march)))
    for openmp in (True, False):
        flags = cc.compile_flags(march, openmp)
        key = object_key(text, *compiler.command, compiler.identity, *flags, machine)
        path = store.find(key)
        if path is not None:
            return key, path
        if not openmp or cc.has_openmp(compiler):
            break
    return key, store.add(
        key, lambda draft: cc.compile_shared(compiler, text, draft, flags, name, timeout)
    )
