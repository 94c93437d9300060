"""GPUs that are not there: arrays of several libraries, and a driver that asks the emulator."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from backends.cuda.driver import DriverError
from backends.cuda.emulator import Emulator, Launch
from tensorir import dtype as dt

DEVICE_BYTES = 1 << 24


class Memory:
    """What a device has: allocations by their addresses."""

    def __init__(self) -> None:
        self.blocks: list[tuple[int, int, int, Any]] = []

    def add(self, raw: np.ndarray, device: int) -> None:
        self.blocks.append((raw.ctypes.data, raw.ctypes.data + max(raw.nbytes, 1), device, raw))

    def find(self, address: int) -> tuple[int, np.ndarray]:
        """The device of an address, and the bytes from there to the end of its allocation."""
        for start, end, device, raw in reversed(self.blocks):
            if start <= address < end:
                return device, raw[address - start :]
        raise AssertionError(f"{address:#x} is no address of a device")


class CupyArray:
    """As much of cupy.ndarray as is asked for."""

    __module__ = "cupy"

    def __init__(self, values: np.ndarray, device: int) -> None:
        self.values = values
        self.device = SimpleNamespace(id=device)

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.values.ctypes.data, device_id=self.device.id)

    shape = property(lambda self: self.values.shape)
    dtype = property(lambda self: self.values.dtype)
    strides = property(lambda self: self.values.strides)
    nbytes = property(lambda self: self.values.nbytes)
    flags = property(lambda self: self.values.flags)

    def __getitem__(self, key: Any) -> CupyArray:
        return CupyArray(self.values[key], self.device.id)


    def __dlpack__(self, **_: Any) -> Any:
        return self.values.__dlpack__()


class TorchTensor:
    """As much of torch.Tensor as is asked for; bfloat16 is uint16 with a word."""

    __module__ = "torch"

    def __init__(self, values: np.ndarray, device: int | None, name: str | None = None) -> None:
        self.values, self.number = values, device
        self.dtype = f"torch.{name or values.dtype}"
        self.shape, self.is_cuda = values.shape, device is not None
        self.device = SimpleNamespace(index=device)
        self.requires_grad = False

    def data_ptr(self) -> int:
        return self.values.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(n // self.values.itemsize for n in self.values.strides)

    def is_contiguous(self) -> bool:
        return self.values.flags.c_contiguous

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def contiguous(self) -> TorchTensor:
        return TorchTensor(np.ascontiguousarray(self.values), self.number)

    def cuda(self) -> TorchTensor:
        raise AssertionError("nothing is copied")

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("torch tells all that is needed")

    def view(self, name: str) -> TorchTensor:
        return TorchTensor(self.values, self.number, name)


def torch_module(stream: int) -> ModuleType:
    """A module torch whose current stream is `stream`."""
    module: Any = ModuleType("torch")
    module.cuda = SimpleNamespace(
        current_stream=lambda device: SimpleNamespace(cuda_stream=stream + device)
    )
    module.from_dlpack = lambda array: TorchTensor(array.values, array.device.id)
    module.bfloat16 = "bfloat16"
    return module


class InterfaceArray:
    """An array that has __cuda_array_interface__ alone."""

    def __init__(self, values: np.ndarray, stream: int | None = None, read_only: bool = False):
        self.values = values
        self.__cuda_array_interface__ = {
            "shape": values.shape,
            "typestr": values.dtype.str,
            "data": (values.ctypes.data, read_only),
            "strides": None if values.flags.c_contiguous else values.strides,
            "version": 3,
            "stream": stream,
        }


class DlpackArray:
    """An array that has DLPack alone; it is told the stream of the consumer."""

    def __init__(self, values: np.ndarray, device: int, kind: int = 2) -> None:
        self.values, self.place, self.told = values, (kind, device), []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def __dlpack__(self, *, stream: int) -> Any:
        self.told.append(stream)
        return self.values.__dlpack__()


class FakeDriver:
    """The driver of two devices; `sources` are the texts of machine code."""

    def __init__(self, sources: dict[bytes, str]) -> None:
        self.sources = sources
        self.memory = Memory()
        self.device, self.stream = 0, 40
        self.launches: list[tuple[str, int, int]] = []  # kernel, device, stream
        self.loads: list[int] = []
        self.unloads: list[int] = []
        self.shared: dict[str, int] = {}
        self.waits: list[tuple[int, int]] = []
        self.taken: list[int] = []
        self.capturing, self.fails, self.full = False, "", False
        self._emulators: list[tuple[Emulator, int]] = []
        self._functions: list[tuple[Emulator, str, int]] = []

    def array(self, values: Any, device: int = 0) -> np.ndarray:
        """Device memory with the numbers of `values`, which begins at a multiple of 64."""
        values = np.asarray(values)
        raw = np.zeros(values.nbytes + 128, np.uint8)
        start = -raw.ctypes.data % 64
        self.memory.add(raw[start : start + values.nbytes], device)
        result = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
        result[...] = values
        return result

    def cupy(self, values: Any, device: int = 0) -> CupyArray:
        return CupyArray(self.array(values, device), device)

    @contextmanager
    def on(self, device: int) -> Any:
        before, self.device = self.device, device
        yield
        self.device = before

    def current_device(self) -> int:
        return self.device

    def device_of(self, address: int) -> int:
        return self.memory.find(address)[0]

    def load(self, code: bytes) -> int:
        self.loads.append(self.device)
        self._emulators.append((Emulator(self.sources[code]), self.device))
        return len(self._emulators) - 1

    def unload(self, module: int, device: int) -> None:
        self.unloads.append(device)

    def function(self, module: int, name: str, shared: int) -> int:
        self.shared[name] = shared
        emulator, device = self._emulators[module]
        self._functions.append((emulator, name, device))
        return len(self._functions) - 1

    def launch(self, function, grid, block, shared, stream, params) -> None:
        emulator, name, device = self._functions[function]
        if self.fails:
            raise DriverError(self.fails)
        assert device == self.device, "a function of another device"
        self.launches.append((name, device, stream))
        parameters = emulator.kernels[name]
        places = (ctypes.c_void_p * len(parameters)).from_address(params)
        values: list[Any] = []
        for place, parameter in zip(places, parameters):
            size = parameter.dtype.itemsize
            if not parameter.is_array:
                bits = (ctypes.c_char * size).from_address(place)
                values.append(np.frombuffer(bits, parameter.dtype)[0])
                continue
            where, raw = self.memory.find(ctypes.c_uint64.from_address(place).value)
            assert where == device, f"{parameter.name} is on another device"
            values.append(raw[: raw.nbytes // size * size].view(parameter.dtype))
        emulator.run(Launch(name, grid, block, values, shared))

    def current_stream(self) -> int:
        return self.stream + self.device

    def is_capturing(self, stream: int) -> bool:
        return self.capturing

    def wait_for(self, stream: int, other: int) -> None:
        self.waits.append((stream, other))

    def empty(self, shape, dtype: str, stream: int) -> CupyArray:
        return self.cupy(np.zeros(shape, dt.numpy_dtype(dtype)), self.device)

    def take(self, count: int, stream: int) -> Any:
        if self.full:
            raise MemoryError("the pool is full")
        self.taken.append(stream)
        raw = self.array(np.zeros(count, np.uint8), self.device)
        return SimpleNamespace(ptr=raw.ctypes.data, raw=raw)

    def address_of(self, memory: Any) -> int:
        return memory.ptr

    def copy_in(self, array: np.ndarray) -> CupyArray:
        return self.cupy(array, self.device)

    def copy_out(self, array: Any) -> np.ndarray:
        return array.values.copy()

    def seconds(self, work: Any, stream: int) -> float:
        work()
        return 0.25
