"""Compiled OpenCL programs: one for each context that calls come from."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.call.allocate import Array, empty, lasting_copy
from backends.call.constants import Binding
from backends.call.signature import Signature
from backends.errors import BuildError, OutOfMemory
from backends.gpu.executable import GpuExecutable, bound_executable
from backends.gpu.launches import Launch, Launches, Take
from backends.gpu.limits import checked_kernels
from backends.opencl.arrays import ClArray
from backends.opencl.device import OpenCLDevice, device_of, find_device
from tensorir import PrimFunc, TensorIRError, held_word
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
    source: str = ""

    @property
    def resources(self) -> Mapping[str, Any] | None:
        """OpenCL has no common way to say it."""
        return None


class OpenCLExecutable(GpuExecutable):
    """A program on an OpenCL device. Arrays of NumPy are copied there, and results back."""

    def __init__(
        self,
        program: Any,
        device: OpenCLDevice,
        ir: PrimFunc,
        signature: Signature,
        bound: Mapping[int, Any],
    ) -> None:
        self.device = device
        launches = Launches.of(ir)
        kept = {position: self._upload(array) for position, array in bound.items()}
        super().__init__(launches, signature, device, kept)
        self._written = frozenset(ir.outputs)
        self._functions = {k.name: getattr(program, k.name) for k in launches.kernels}

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        return empty(shape, dtype)

    def address(self, array: Any) -> int:
        """Buffers begin where any vector may."""
        return 0

    def take(self, step: Take, queue: Any) -> Any:
        import pyopencl as cl

        return cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, max(step.bytes, 1))

    def _upload(self, array: Array | ClArray) -> Any:
        """What a kernel is given: the memory of the device, or a copy there."""
        import pyopencl as cl

        flags = cl.mem_flags.READ_WRITE
        if array.nbytes == 0:
            return cl.Buffer(self.device.context, flags, 1)
        if isinstance(array, ClArray):
            return array.memory
        flags |= cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self.device.context, flags, hostbuf=array)

    def _read(self, array: Array | ClArray, buffer: Any, queue: Any) -> None:
        import pyopencl as cl

        if array.nbytes and not isinstance(array, ClArray):
            cl.enqueue_copy(queue, array, buffer, is_blocking=True)

    def run(self, arrays: Sequence[Any], numbers: Sequence[int], queue: Any = None) -> bool:
        """Run on arrays of NumPy, which hold the results afterwards, and of the device, where the
        work is put on `queue` and not waited for."""
        queue = queue or self.device.queue
        with self._errors():
            memory = [self._upload(array) for array in arrays]
            super().run(memory, numbers, queue)
            for position, array, buffer in zip(self._given, arrays, memory, strict=True):
                if self._params[position] in self._written:
                    self._read(array, buffer, queue)
        return True

    def launch(
        self, step: Launch, arguments: Sequence[Any], values: Sequence[int], queue: Any
    ) -> None:
        import pyopencl as cl

        threads = tuple(g * b for g, b in zip(step.grid, step.block))
        kernel = step.kernel
        taken = zip((*kernel.sizes, *kernel.values), (*step.sizes, *values), strict=True)
        numbers = [_argument(word, var.dtype) for var, word in taken]
        function = self._functions[kernel.name]
        function(queue, threads, step.block, *arguments, *numbers)
        if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            cl.enqueue_barrier(queue)  # kernels run in order

    def time(self, arrays: Sequence[Any], numbers: Sequence[int], calls: int) -> float:
        queue = self.device.queue
        with self._errors():
            memory = [self._upload(array) for array in arrays]
            queue.finish()
            start = time.perf_counter()
            for _ in range(calls):
                super().run(memory, numbers, queue)
            queue.finish()
            return time.perf_counter() - start

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What OpenCL refuses or fails at, with the name of the kernel."""
        import pyopencl as cl

        try:
            yield
        except cl.MemoryError as error:
            raise OutOfMemory(f"{self.signature.name}: no memory on {self.device.name}") from error
        except cl.Error as error:
            raise TensorIRError(
                f"{self.signature.name} failed on {self.device.name}: {error}"
            ) from error


def _argument(word: int, dtype: str) -> Any:
    """A number as a kernel takes it, which has no arguments of bool in OpenCL."""
    return np.uint8(word) if dt.is_bool(dtype) else held_word(word, dtype)


class OpenCLProgram:
    """A compiled program in the contexts of all arrays that it is called with."""

    entry: Callable[..., int] | None = None

    def __init__(self, made: CompiledOpenCL, binding: Binding | None) -> None:
        self._made = made
        self._binding = binding
        self._lock = threading.Lock()
        device = find_device()
        self._here = self._load(device)
        self._on = {(device.context, device.queue.device): self._here}

    def on(self, context: Any, queue: Any) -> Any:
        """The program in a context, on the device of a queue; it is compiled there at the first
        call. Where there is no context it is that of this process."""
        if context is None:
            return self._here
        key = context, context.devices[0] if queue is None else queue.device
        with self._lock:
            if key not in self._on:
                self._on[key] = self._load(device_of(*key))
            return self._on[key]

    def _load(self, device: OpenCLDevice) -> Any:
        made, program = self._made, self._made.program
        if program is not None and device.context != find_device().context:
            checked_kernels(made.ir, self._binding, device)
            program = build_program(device, made.source, made.signature.name)

        def make(ir: PrimFunc, signature: Signature, bound: Mapping[int, Any]) -> GpuExecutable:
            return OpenCLExecutable(program, device, ir, signature, bound)

        if self._binding is None:
            return make(made.ir, made.signature, {})
        return bound_executable(made.ir, made.signature, self._binding, make, lasting_copy)

    def run(self, arrays: Sequence[Any], numbers: Sequence[int]) -> bool:
        done: bool = self._here.run(arrays, numbers)
        return done

    def time(self, arrays: Sequence[Any], numbers: Sequence[int], calls: int) -> float:
        seconds: float = self._here.time(arrays, numbers, calls)
        return seconds

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        return empty(shape, dtype)


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
