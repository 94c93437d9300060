"""Target kind "opencl": NumPy arrays in and out, on the device that pyopencl finds.

Arrays are copied to the device for each call, and results back; constants stay there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from backends.allocate import Array, empty, lasting_copy
from backends.base import Executable
from backends.cache import ObjectCache
from backends.constants import Binding
from backends.errors import BuildError, OutOfMemory
from backends.gpu.executable import GpuExecutable, bound_executable
from backends.gpu.launches import Launch, Launches, Take
from backends.gpu.limits import checked_kernels
from backends.kernel import CompiledKernel, host_kernel
from backends.names import c_identifier
from backends.opencl.device import OpenCLDevice, find_device, why_no_device
from backends.opencl.text import opencl_text
from backends.signature import Signature
from backends.silent import SilentExecutable
from tensorir import PrimFunc, Target, TensorIRError
from tensorir import dtype as dt

OPTIONS = ("-cl-std=CL1.2",)
"""Nothing that changes numbers: neither fast math nor flushing to zero."""


@dataclass(frozen=True, eq=False)
class CompiledOpenCL:
    """What the device's compiler made of a source; where there is no device, why: `missing`."""

    ir: PrimFunc
    signature: Signature
    program: Any
    missing: str

    @property
    def resources(self) -> Mapping[str, Any] | None:
        """OpenCL has no common way to say it."""
        return None


class OpenCLExecutable(GpuExecutable):
    """A program on an OpenCL device. Arrays are copied there, and results back."""

    def __init__(
        self, compiled: CompiledOpenCL, ir: PrimFunc, signature: Signature, bound: Mapping[int, Any]
    ) -> None:
        self._device = find_device()
        launches = Launches.of(ir)
        kept = {position: self._upload(array) for position, array in bound.items()}
        super().__init__(launches, signature, self._device, kept)
        self._written = frozenset(ir.outputs)
        self._functions = {k.name: getattr(compiled.program, k.name) for k in launches.kernels}

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        return empty(shape, dtype)

    def address(self, array: Any) -> int:
        """Buffers begin where any vector may."""
        return 0

    def take(self, step: Take, queue: Any) -> Any:
        import pyopencl as cl

        return cl.Buffer(self._device.context, cl.mem_flags.READ_WRITE, max(step.bytes, 1))

    def _upload(self, array: Array) -> Any:
        import pyopencl as cl

        flags = cl.mem_flags.READ_WRITE
        if array.nbytes == 0:
            return cl.Buffer(self._device.context, flags, 1)
        flags |= cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self._device.context, flags, hostbuf=array)

    def _read(self, array: Array, buffer: Any) -> None:
        import pyopencl as cl

        if array.nbytes:
            cl.enqueue_copy(self._device.queue, array, buffer, is_blocking=True)

    def run(self, arrays: Sequence[Any], sizes: Sequence[int], queue: Any = None) -> bool:
        with self._errors():
            memory = [self._upload(array) for array in arrays]
            super().run(memory, sizes)
            for position, array, buffer in zip(self._given, arrays, memory, strict=True):
                if self._params[position] in self._written:
                    self._read(array, buffer)
        return True

    def launch(self, step: Launch, arguments: Sequence[Any], queue: Any) -> None:
        threads = tuple(g * b for g, b in zip(step.grid, step.block))
        kinds = [dt.numpy_dtype(size.dtype).type for size in step.kernel.sizes]
        sizes = [kind(size) for kind, size in zip(kinds, step.sizes)]
        function = self._functions[step.kernel.name]
        function(self._device.queue, threads, step.block, *arguments, *sizes)

    def time(self, arrays: Sequence[Any], sizes: Sequence[int], calls: int) -> float:
        with self._errors():
            memory = [self._upload(array) for array in arrays]
            self._device.queue.finish()
            start = time.perf_counter()
            for _ in range(calls):
                super().run(memory, sizes)
            self._device.queue.finish()
            return time.perf_counter() - start

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What OpenCL refuses or fails at, with the name of the kernel."""
        import pyopencl as cl

        try:
            yield
        except cl.MemoryError as error:
            raise OutOfMemory(f"{self.signature.name}: no memory on {self._device.name}") from error
        except cl.Error as error:
            raise TensorIRError(
                f"{self.signature.name} failed on {self._device.name}: {error}"
            ) from error


class OpenCLBackend:
    """Stages of target kind "opencl"."""

    suffix = ".cl"

    def resolve(self, target: Target) -> Target:
        return target

    def why_not_here(self, target: Target) -> str | None:
        return why_no_device()

    def kernel_type(self, signature: Signature) -> type[CompiledKernel]:
        return host_kernel(signature)

    def on_host(self, array: Any) -> Any:
        return array

    def emit(self, ir: PrimFunc, target: Target, prepare: PrimFunc | None = None) -> str:
        return opencl_text(ir, target, prepare)

    def compile(
        self,
        ir: PrimFunc,
        source: str,
        target: Target,
        signature: Signature,
        cache: ObjectCache | None,
        timeout: float,
        binding: Binding | None = None,
    ) -> CompiledOpenCL:
        """The device's compiler runs in this process: it cannot be stopped after `timeout`, and
        what it made is cached by pyopencl, not in `cache`."""
        missing = why_no_device()
        if missing is not None:
            return CompiledOpenCL(ir, signature, None, missing)
        device = find_device()
        kernels = checked_kernels(ir, binding, device)
        program = build_program(device, source, signature.name) if kernels else None
        return CompiledOpenCL(ir, signature, program, "")

    def load(self, compiled: CompiledOpenCL, binding: Binding | None = None) -> Executable:
        if compiled.missing:
            return SilentExecutable(f"{compiled.signature.name}: {compiled.missing}")

        def make(ir: PrimFunc, signature: Signature, bound: Mapping[int, Any]) -> GpuExecutable:
            return OpenCLExecutable(compiled, ir, signature, bound)

        if binding is None:
            return make(compiled.ir, compiled.signature, {})
        return bound_executable(compiled.ir, compiled.signature, binding, make, lasting_copy)

    def info(self, target: Target) -> dict[str, Any]:
        missing = why_no_device()
        if missing is not None:
            return {"missing": missing}
        return {"device": find_device().identity, "flags": list(OPTIONS)}

    def assembly(self, source: str, target: Target, name: str) -> str:
        raise BuildError(f"{name}: OpenCL shows no assembly; what it compiles is kernel.source")

    def symbol(self, ir: PrimFunc) -> str:
        return c_identifier(ir.name)

    def exported(
        self, ir: PrimFunc, source: str, target: Target, prepare: PrimFunc | None = None
    ) -> str:
        return source

    def header(
        self,
        ir: PrimFunc,
        signature: Signature,
        target: Target,
        prepare: tuple[PrimFunc, Signature] | None = None,
    ) -> str:
        raise BuildError(
            f"{signature.name}: an OpenCL program has no header; kernel.source is its text, which "
            "clCreateProgramWithSource takes"
        )


def build_program(device: OpenCLDevice, source: str, name: str) -> Any:
    """`source`, compiled for the device. Raises BuildError with the compiler's message."""
    import pyopencl as cl

    try:
        return cl.Program(device.context, source).build(options=list(OPTIONS))
    except cl.Error as error:
        raise BuildError(
            f"{name}: the OpenCL compiler of {device.name} refuses the source",
            (),
            str(error),
            source,
        ) from error
