"""What running kernels takes of CuPy: the only module that calls it for that.

The launches are those of CUDA's driver, by CuPy's binding of it: a call by `cupy.RawKernel` takes
longer, and compiles anew what NVRTC has compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from tensorir import dtype as dt

SHARED_LIMIT = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""

Numbers = tuple[int, int, int]


class DriverError(Exception):
    """CUDA refused something, or an earlier launch has failed; the text is CUDA's."""


class Driver:
    """CUDA's driver by way of CuPy. Raises ImportError where there is no CuPy.

    Devices are numbers, streams and functions what CUDA calls handles, addresses integers.
    """

    def __init__(self) -> None:
        import cupy

        self._cupy: ModuleType = cupy
        self._launch = cupy.cuda.driver.launchKernel
        self._errors: tuple[type[Exception], ...] = (
            cupy.cuda.driver.CUDADriverError,
            cupy.cuda.runtime.CUDARuntimeError,
        )

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Work is for `device`, whatever the caller's current one is."""
        if self._cupy.cuda.runtime.getDevice() == device:
            yield
            return
        with self._cupy.cuda.Device(device):
            yield

    def current_device(self) -> int:
        """The caller's device."""
        number: int = self._cupy.cuda.runtime.getDevice()
        return number

    def device_of(self, address: int) -> int:
        """The device that has an address."""
        with self._raising():
            number: int = self._cupy.cuda.runtime.pointerGetAttributes(address).device
        return number

    def load(self, code: bytes) -> int:
        """The handle of a module with the code of a CUBIN, for the device that is in use."""
        driver = self._cupy.cuda.driver
        with self._raising():
            self._cupy.cuda.runtime.free(0)  # so that there is a context
            module: int = driver.moduleLoadData(code)
        return module

    def unload(self, module: int, device: int) -> None:
        """Give back what `load` made on a device; nothing where that is gone, as at the end."""
        with suppress(*self._errors), self.on(device):
            self._cupy.cuda.driver.moduleUnload(module)

    def function(self, module: int, name: str, shared: int) -> int:
        """A kernel of a module, which may have `shared` bytes of dynamic shared memory."""
        driver = self._cupy.cuda.driver
        with self._raising():
            found: int = driver.moduleGetFunction(module, name)
            if shared:
                driver.funcSetAttribute(found, SHARED_LIMIT, shared)
        return found

    def launch(
        self, function: int, grid: Numbers, block: Numbers, shared: int, stream: int, params: int
    ) -> None:
        """Put a launch on a stream; `params` is the address of the addresses of its arguments."""
        try:
            self._launch(function, *grid, *block, shared, stream, params, 0)
        except self._errors as error:
            raise DriverError(str(error)) from error

    def current_stream(self) -> int:
        """The caller's stream on the device in use."""
        stream: int = self._cupy.cuda.get_current_stream().ptr
        return stream

    def is_capturing(self, stream: int) -> bool:
        """Whether launches on a stream become part of a graph.

        CUDA does not answer for the default stream while another one is captured.
        """
        try:
            captures: bool = self._cupy.cuda.runtime.streamIsCapturing(stream)
        except self._errors:
            return False
        return captures

    def wait_for(self, stream: int, other: int) -> None:
        """What is put on `stream` from now on runs after all that is on `other` now."""
        cuda = self._cupy.cuda
        event = cuda.Event(disable_timing=True)
        event.record(cuda.ExternalStream(other))
        cuda.ExternalStream(stream).wait_event(event)

    def empty(self, shape: tuple[int, ...], dtype: str, stream: int) -> Any:
        """A new array of CuPy, whose memory is used on `stream`."""
        with self._raising(), self._using(stream):
            return self._cupy.empty(shape, dt.numpy_dtype(dtype))

    def take(self, count: int, stream: int) -> Any:
        """`count` bytes of CuPy's pool for use on `stream`; `address_of` tells where they are."""
        with self._raising(), self._using(stream):
            return self._cupy.cuda.alloc(count)

    def address_of(self, memory: Any) -> int:
        """Where memory begins that was taken."""
        address: int = memory.ptr
        return address

    def copy_in(self, array: Any) -> Any:
        """A CuPy array with the numbers of one of NumPy."""
        with self._raising():
            return self._cupy.asarray(array)

    def copy_out(self, array: Any) -> Any:
        """The numbers of an array on a device, as one of NumPy."""
        with self._raising():
            return self._cupy.asnumpy(self._cupy.asarray(array))

    def seconds(self, work: Any, stream: int) -> float:
        """How long the device takes for what `work()` puts on `stream`."""
        cuda = self._cupy.cuda
        start, end = cuda.Event(), cuda.Event()
        queue = cuda.ExternalStream(stream)
        with self._raising():
            start.record(queue)
            work()
            end.record(queue)
            end.synchronize()
            milliseconds: float = cuda.get_elapsed_time(start, end)
        return milliseconds / 1e3

    @contextmanager
    def _using(self, stream: int) -> Iterator[None]:
        """CuPy's pool keeps memory by stream: what is given back is for the next on that stream."""
        if self._cupy.cuda.get_current_stream().ptr == stream:
            yield
            return
        with self._cupy.cuda.ExternalStream(stream):
            yield

    @contextmanager
    def _raising(self) -> Iterator[None]:
        try:
            yield
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error
        except self._errors as error:
            raise DriverError(str(error)) from error
