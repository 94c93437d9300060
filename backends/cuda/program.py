"""Compiled CUDA programs: loaded on each device when that first runs them, and launched."""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backends.call.constants import Binding
from backends.call.signature import Signature
from backends.cuda.arrays import DeviceArray, device_array
from backends.cuda.devices import why_no_device
from backends.cuda.driver import Driver, DriverError
from backends.cuda.resources import Resources
from backends.errors import OutOfMemory
from backends.gpu.executable import GpuExecutable, bound_executable
from backends.gpu.launches import Kernel, Launch, Launches, Take
from tensorir import PrimFunc, Target, TensorIRError
from tensorir import dtype as dt

_recent: deque[str] = deque(maxlen=4)
"""The kernels that this process launched last: one of them it was, where the device has failed."""


@dataclass(frozen=True, eq=False)
class CudaObject:
    """A compiled program: its machine code, and what its kernels take of a GPU.

    `code` is None where there is no compiler; `why_not` says so.
    """

    ir: PrimFunc
    signature: Signature
    target: Target
    code: bytes | None
    why_not: str | None = None
    resources: Mapping[str, Resources] = field(default_factory=dict)


@dataclass(frozen=True)
class Workspace:
    """Memory for a while; `memory` gives it back when it goes."""

    address: int
    memory: Any


def argument_places(held: Any) -> Any:
    """The addresses of 8-byte values, as the driver takes the arguments of a launch."""
    first, count = ctypes.addressof(held), len(held)
    return (ctypes.c_void_p * count)(*range(first, first + 8 * count, 8))


class LoadedModule:
    """Machine code on a device, which is unloaded when nothing uses it any more."""

    def __init__(self, driver: Driver, code: bytes, device: int) -> None:
        self.handle = driver.load(code)
        # Not at exit: the driver may be gone by then.
        weakref.finalize(self, driver.unload, self.handle, device).atexit = False


class CudaExecutable(GpuExecutable):
    """A program on one device; its arrays are DeviceArrays, and its queues streams."""

    def __init__(
        self,
        made: CudaObject,
        module: LoadedModule,
        driver: Driver,
        ir: PrimFunc,
        signature: Signature,
        bound: Mapping[int, Any],
    ) -> None:
        super().__init__(Launches.of(ir), signature, made.target.architecture, bound)
        self.driver = driver
        self._functions = {
            kernel.name: driver.function(module.handle, kernel.name, kernel.shared_bytes)
            for kernel in self._launches.kernels
        }
        self._module = module
        self._captured: list[Workspace] = []

    def address(self, array: Any) -> int:
        address: int = array.address
        return address

    def take(self, step: Take, queue: Any) -> Workspace:
        try:
            memory = self.driver.take(step.bytes, queue)
        except MemoryError as error:
            raise OutOfMemory(
                f"{self.signature.name}: no memory for the {step.bytes} bytes of intermediate "
                f"{step.buffer.name!r}: {error}"
            ) from error
        space = Workspace(self.driver.address_of(memory), memory)
        if self.driver.is_capturing(queue):  # the graph uses it as often as it is launched
            self._captured.append(space)
        return space

    def launch(
        self, step: Launch, arguments: Sequence[Any], values: Sequence[int], queue: Any
    ) -> None:
        words = [*(each.address for each in arguments), *step.sizes, *values]
        held = (ctypes.c_int64 * len(words))(*words)  # little-endian: good for narrower ones
        places = argument_places(held)
        name = step.kernel.name
        try:
            self.driver.launch(
                self._functions[name],
                step.grid,
                step.block,
                step.kernel.shared_bytes,
                queue,
                ctypes.addressof(places),
            )
        except DriverError as error:
            raise self.failed(step, error) from error
        _recent.append(name)

    def function(self, kernel: Kernel) -> int:
        """The handle of a kernel."""
        return self._functions[kernel.name]

    def takes_workspaces(self, sizes: Sequence[int]) -> bool:
        """Whether intermediate results are in memory for these sizes."""
        return any(isinstance(step, Take) for step in self.steps(sizes))

    def alignment(self, position: int) -> int:
        """The bytes at a multiple of which an argument of a call has to begin."""
        return self._launches.alignments.get(self._params[self._given[position]], 1)

    def positions(self, kernel: Kernel) -> list[tuple[int, int]]:
        """The places of the arguments of a call among those of a kernel: (there, in the call)."""
        calls = {self._params[i]: n for n, i in enumerate(self._given)}
        taken = enumerate(kernel.buffers)
        return [(slot, calls[buffer]) for slot, buffer in taken if buffer in calls]

    def fixed(self, step: Launch) -> list[int]:
        """The arguments of a kernel, 0 for those that a call gives: constants and sizes."""
        bound = {self._params[i]: array.address for i, array in self._bound.items()}
        return [*(bound.get(buffer, 0) for buffer in step.kernel.buffers), *step.sizes]

    def failed(self, step: Launch, error: DriverError) -> TensorIRError:
        said = (
            f"{self.signature.name}: kernel {step.kernel.name!r} could not be launched (grid "
            f"{step.grid}, blocks of {step.block} threads, {step.kernel.shared_bytes} bytes of "
            f"shared memory): {error}"
        )
        if _recent and not any(word in str(error) for word in ("INVALID", "OUT_OF_RESOURCES")):
            said += (
                f"; where an earlier launch is at fault it is one of {', '.join(_recent)}: with "
                "CUDA_LAUNCH_BLOCKING=1 each is reported by itself, and the target "
                "'cuda-emulator -check=bounds' says what is wrong"
            )
        return TensorIRError(said)

    def time(self, arrays: Sequence[Any], numbers: Sequence[int], calls: int) -> float:
        queue = self.driver.current_stream()

        def work() -> None:
            for _ in range(calls):
                self.run(arrays, numbers, queue)

        return self.driver.seconds(work, queue)

    def empty(self, shape: tuple[int, ...], dtype: str) -> DeviceArray:
        made = self.driver.empty(shape, dtype, self.driver.current_stream())
        return device_array(made, dtype, lambda: self.driver)


class CudaProgram:
    """A compiled program on all devices of this machine."""

    entry: Callable[..., int] | None = None

    def __init__(
        self, made: CudaObject, binding: Binding | None, refusal: str | None = None
    ) -> None:
        """`refusal` is the answer to every call, where there is one."""
        self._refusal = refusal
        self._made = made
        self._binding = binding
        self._driver: Driver | None = None
        self._on: dict[int, Any] = {}

    @property
    def driver(self) -> Driver:
        """The driver. Raises TensorIRError, with the remedy, where nothing can run here."""
        if self._refusal is not None:
            raise TensorIRError(self._refusal)
        if self._driver is None:
            why = self._made.why_not or why_no_device(self._made.target.arch or "")
            if why is not None:
                raise TensorIRError(f"{self._made.signature.name} cannot run here: {why}")
            self._driver = Driver()
        return self._driver

    def on(self, device: int) -> Any:
        """The program on a device, which is in use."""
        found = self._on.get(device)
        if found is None:
            found = self._on[device] = self._load(device)
        return found

    def _load(self, device: int) -> Any:
        made, driver = self._made, self.driver
        assert made.code is not None
        try:
            module = LoadedModule(driver, made.code, device)

            def make(ir: PrimFunc, signature: Signature, bound: Mapping[int, Any]) -> Any:
                return CudaExecutable(made, module, driver, ir, signature, bound)

            if self._binding is None:
                return make(made.ir, made.signature, {})
            return bound_executable(made.ir, made.signature, self._binding, make, self._kept)
        except DriverError as error:
            raise TensorIRError(
                f"{made.signature.name}: the code for {made.target.arch} cannot be loaded on "
                f"device {device}: {error}; build for the architecture of that device"
            ) from error

    def _kept(self, array: Any, dtype: str) -> DeviceArray:
        return device_array(self.driver.copy_in(array), dtype, lambda: self.driver)

    def run(self, arrays: Sequence[DeviceArray], numbers: Sequence[int]) -> bool:
        device = arrays[0].device if arrays else self.driver.current_device()
        with self.driver.on(device):
            found: bool = self.on(device).run(arrays, numbers, self.driver.current_stream())
            return found

    def time(self, arrays: Sequence[DeviceArray], numbers: Sequence[int], calls: int) -> float:
        device = arrays[0].device if arrays else self.driver.current_device()
        with self.driver.on(device):
            seconds: float = self.on(device).time(arrays, numbers, calls)
            return seconds

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        """An array of the processor's, to be filled and copied."""
        return np.empty(shape, dt.numpy_dtype(dtype))
