"""Target kind "cuda-emulator": the CUDA text of a program, run on NumPy arrays by the processor."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backends.base import Executable
from backends.c.compiler import find_cxx_compiler
from backends.cache import ObjectCache
from backends.call.allocate import Array, empty, lasting_copy
from backends.call.constants import Binding
from backends.call.signature import Signature
from backends.cuda import emulator
from backends.cuda.export import host_text, write_header
from backends.cuda.text import LineTable, cuda_text
from backends.emit.names import c_identifier
from backends.errors import BuildError
from backends.gpu.executable import GpuExecutable, bound_executable
from backends.gpu.launches import Launch, Launches, Take
from backends.gpu.limits import checked_kernels
from backends.kernel import CompiledKernel, host_kernel
from tensorir import DEFAULT_ARCH, PrimFunc, Target, held_word
from tensorir import dtype as dt


@dataclass(frozen=True, eq=False)
class Emulated:
    """CUDA text that the emulator has compiled; `emulator` is None where it has no kernels, as of a
    program of arrays without elements."""

    ir: PrimFunc
    signature: Signature
    target: Target
    emulator: emulator.Emulator | None

    @property
    def resources(self) -> Mapping[str, Any] | None:
        """What a GPU needs is for its compiler to say: build for "cuda"."""
        return None


class EmulatedExecutable(GpuExecutable):
    """A program on the emulator; its arrays are NumPy's."""

    def __init__(
        self, made: Emulated, ir: PrimFunc, signature: Signature, bound: Mapping[int, Any]
    ) -> None:
        super().__init__(Launches.of(ir), signature, made.target.architecture, bound)
        self._emulator = made.emulator
        self._seed = made.target.seed or 0

    def address(self, array: Array) -> int:
        address: int = array.ctypes.data
        return address

    def take(self, step: Take, queue: Any) -> Array:
        dtype = dt.numpy_dtype(step.buffer.dtype)
        return np.empty(step.bytes // dtype.itemsize, dtype)

    def launch(
        self, step: Launch, arguments: Sequence[Any], values: Sequence[int], queue: Any
    ) -> None:
        kernel = step.kernel
        held = [held_word(word, v.dtype) for v, word in zip(kernel.values, values, strict=True)]
        given = [*arguments, *step.sizes, *held]
        self.begin(emulator.Launch(kernel.name, step.grid, step.block, given, kernel.shared_bytes))

    def begin(self, launch: emulator.Launch) -> None:
        assert self._emulator is not None, "there are kernels to launch"
        self._emulator.run(launch, seed=self._seed)

    def time(self, arrays: Sequence[Any], numbers: Sequence[int], calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            self.run(arrays, numbers)
        return time.perf_counter() - start

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        return empty(shape, dtype)


class CheckedExecutable(EmulatedExecutable):
    """A program on the emulator whose threads are checked, as its target says, in another process.

    `findings` are those of the last run.
    """

    def __init__(
        self, made: Emulated, ir: PrimFunc, signature: Signature, bound: Mapping[int, Any]
    ) -> None:
        super().__init__(made, ir, signature, bound)
        self.findings: emulator.Findings | None = None
        self._checks = made.target.check
        self._waiting: list[emulator.Launch] = []
        self._unwritten: list[Array] = []
        self._lock = threading.Lock()

    def take(self, step: Take, queue: Any) -> Array:
        array = super().take(step, queue)
        self._unwritten.append(array)
        return array

    def begin(self, launch: emulator.Launch) -> None:
        self._waiting.append(launch)

    def run(self, arrays: Sequence[Any], numbers: Sequence[int], queue: Any = None) -> bool:
        """All launches at once. Raises EmulationError where something is wrong."""
        with self._lock:
            params = [self.signature.array_params[i] for i in self._given]
            self._waiting = []
            self._unwritten = [a for a, p in zip(arrays, params) if not p.is_given]
            super().run(arrays, numbers, queue)
            self.findings = None
            findings = emulator.Findings(())
            if self._emulator is not None and self._waiting:
                findings = self._emulator.check(
                    self._waiting, self._checks, outputs=self._unwritten, seed=self._seed
                )
            self.findings = findings
        if findings.reports:
            raise emulator.EmulationError(findings.reports)
        return True


class EmulatorBackend:
    """Stages of target kind "cuda-emulator"."""

    suffix = ".cu"

    def resolve(self, target: Target) -> Target:
        return replace(target, arch=target.arch or DEFAULT_ARCH)

    def why_not_here(self, target: Target) -> str | None:
        try:
            find_cxx_compiler()
        except BuildError as error:
            return error.message
        return None

    def kernel_type(self, signature: Signature) -> type[CompiledKernel]:
        return host_kernel(signature)

    def on_host(self, array: Any) -> Any:
        return array

    def emit(self, ir: PrimFunc, target: Target, prepare: PrimFunc | None = None) -> str:
        return cuda_text(ir, target, prepare).source

    def compile(
        self,
        ir: PrimFunc,
        source: str,
        target: Target,
        signature: Signature,
        cache: ObjectCache | None,
        timeout: float,
        binding: Binding | None = None,
    ) -> Emulated:
        kernels = checked_kernels(ir, binding, target.architecture)
        prepare = None if binding is None else binding.prepare
        if not kernels:
            return Emulated(ir, signature, target, None)
        lines = LineTable(source, lambda: cuda_text(ir, target, prepare))
        made = emulator.Emulator(source, lines=lines, cache=cache, timeout=timeout)
        made.compile(checked=bool(target.check))
        return Emulated(ir, signature, target, made)

    def load(self, compiled: Emulated, binding: Binding | None = None) -> Executable:
        def make(ir: PrimFunc, signature: Signature, bound: Mapping[int, Any]) -> GpuExecutable:
            kind = CheckedExecutable if compiled.target.check else EmulatedExecutable
            return kind(compiled, ir, signature, bound)

        if binding is None:
            return make(compiled.ir, compiled.signature, {})
        return bound_executable(compiled.ir, compiled.signature, binding, make, lasting_copy)

    def info(self, target: Target) -> dict[str, Any]:
        compiler = find_cxx_compiler()
        return {"command": list(compiler.command), "version": compiler.version}

    def assembly(self, source: str, target: Target, name: str) -> str:
        raise BuildError(f"{name}: the emulator has no assembly of a GPU; build for 'cuda'")

    def symbol(self, ir: PrimFunc) -> str:
        return c_identifier(ir.name)

    def exported(
        self, ir: PrimFunc, source: str, target: Target, prepare: PrimFunc | None = None
    ) -> str:
        return source + host_text(ir, target, prepare)

    def header(
        self,
        ir: PrimFunc,
        signature: Signature,
        target: Target,
        prepare: tuple[PrimFunc, Signature] | None = None,
    ) -> str:
        return write_header(ir, signature, target, prepare)
