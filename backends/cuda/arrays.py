"""Arrays in the memory of GPUs, whoever made them: CuPy, torch, and what has one of two protocols.

`__cuda_array_interface__` and DLPack share memory without copies. Neither library is imported: an
array that is given brings its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from backends.call.foreign_arrays import BFLOAT16, held_tensor
from backends.call.signature import Signature
from backends.call.spaces import argument_name, back, conversion
from backends.cuda.driver import Driver
from tensorir import TensorIRError
from tensorir import dtype as dt

CUDA, MANAGED = 2, 13
"""Kinds of devices of DLPack whose memory kernels can use: a GPU's own, and managed memory."""

KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}
"""DLPack's codes of types as NumPy's letters."""


@dataclass(frozen=True, eq=False)
class DeviceArray:
    """An array on a GPU; `owner` keeps its memory.

    strides   in bytes; None where rows are dense
    stream    on which its owner still works on it, to be waited for; None where nothing is pending
    bfloat16  whether dtype (uint16) stands for that
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    writeable: bool
    device: int
    owner: Any
    stream: int | None = None
    bfloat16: bool = False

    @property
    def nbytes(self) -> int:
        count = self.dtype.itemsize
        for extent in self.shape:
            count *= extent
        return count

    @property
    def is_dense(self) -> bool:
        """Whether the elements follow each other, rows first."""
        if self.strides is None or 0 in self.shape:
            return True
        step = self.dtype.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True


class NotOnDevice(TensorIRError):
    """An argument that is no array on a GPU."""


class DeviceSpace:
    """How arguments of CUDA kernels are taken; see backends.call.arguments."""

    def __init__(self, driver: Callable[[], Driver]) -> None:
        self._driver = driver

    def adopt(self, signature: Signature, position: int, arg: object) -> DeviceArray:
        where = argument_name(signature, position)
        found = device_array(arg, where, self._driver)
        if found.bfloat16 and signature.params[position].dtype != "bfloat16":
            raise TensorIRError(
                f"{where} has dtype bfloat16, expected {signature.params[position].dtype}; convert "
                f"with {conversion(arg, signature.params[position].dtype)}"
                f"{back(signature.params[position])}"
            )
        return found

    def check_memory(
        self, signature: Signature, position: int, array: DeviceArray, arg: object
    ) -> None:
        param, where = signature.params[position], argument_name(signature, position)
        if not array.is_dense:
            dense = ".contiguous()" if hasattr(arg, "contiguous") else "cupy.ascontiguousarray(...)"
            raise TensorIRError(
                f"{where} is not C-contiguous (strides {array.strides}); pass {dense}{back(param)}"
            )
        if array.address % dt.itemsize(param.dtype):
            raise TensorIRError(
                f"{where} is not aligned to its {array.dtype.itemsize}-byte elements; pass a copy"
                f"{back(param)}"
            )
        if param.is_output and not array.writeable:
            raise TensorIRError(
                f"{where} is read-only, and {signature.name} writes it; pass a copy{back(param)}"
            )

    def span(self, array: DeviceArray) -> tuple[int, int]:
        return array.address, array.address + array.nbytes


def is_on_device(arg: Any) -> bool:
    """Whether an array says that it is on a GPU."""
    if getattr(arg, "__cuda_array_interface__", None) is not None:
        return True
    place = getattr(arg, "__dlpack_device__", None)
    return place is not None and place()[0] in (CUDA, MANAGED)


def device_array(arg: Any, where: str, driver: Callable[[], Driver]) -> DeviceArray:
    """The array that shares the memory of `arg`; `where` names it in errors.

    Raises TensorIRError for what is not on a GPU, or shares its memory by no protocol.
    """
    module = type(arg).__module__.partition(".")[0]
    if module == "cupy":
        return _of_cupy(arg)
    if module == "torch" and hasattr(arg, "data_ptr"):
        return _of_torch(arg, where)
    interface = getattr(arg, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_interface(arg, interface, where, driver)
    if hasattr(arg, "__dlpack__") and hasattr(arg, "__dlpack_device__"):
        return _of_dlpack(arg, where, driver)
    raise _not_on_device(arg, where)


def _not_on_device(arg: Any, where: str) -> NotOnDevice:
    is_array = hasattr(arg, "__dlpack__") or hasattr(arg, "shape")
    what = "in the memory of the processor" if is_array else "no array"
    remedy = ".cuda()" if hasattr(arg, "cuda") else "cupy.asarray(...)"
    return NotOnDevice(
        f"{where} is a {type(arg).__name__}, {what}, and the kernel runs on a GPU: pass {remedy}"
    )


def _of_cupy(arg: Any) -> DeviceArray:
    return DeviceArray(
        arg.data.ptr,
        arg.shape,
        arg.dtype,
        None if arg.flags.c_contiguous else arg.strides,
        True,
        arg.device.id,
        arg,
    )


def _of_torch(arg: Any, where: str) -> DeviceArray:
    if not arg.is_cuda:
        raise _not_on_device(arg, where)
    for is_pending, remedy in (("is_conj", ".resolve_conj()"), ("is_neg", ".resolve_neg()")):
        if getattr(arg, is_pending)():
            raise TensorIRError(f"{where} is not carried out yet; pass {remedy}")
    if arg.requires_grad:
        raise TensorIRError(f"{where} has a gradient, which the kernel does not: pass .detach()")
    name = str(arg.dtype).rpartition(".")[2]
    dense = arg.is_contiguous()
    kind = np.dtype("uint16") if name == "bfloat16" else _numpy_type(name, where)
    strides = None if dense else tuple(n * kind.itemsize for n in arg.stride())
    shape = tuple(arg.shape)
    return DeviceArray(
        arg.data_ptr(), shape, kind, strides, True, arg.device.index, arg, None, name == "bfloat16"
    )


def _numpy_type(name: str, where: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        raise TensorIRError(f"{where} has dtype {name}, which no kernel takes") from None


def _of_interface(
    arg: Any, interface: dict[str, Any], where: str, driver: Callable[[], Driver]
) -> DeviceArray:
    address, read_only = interface["data"]
    if interface.get("mask") is not None:
        raise TensorIRError(f"{where} has a mask, which kernels do not take")
    strides = interface.get("strides")
    return DeviceArray(
        address,
        tuple(interface["shape"]),
        np.dtype(interface["typestr"]),
        None if strides is None else tuple(strides),
        not read_only,
        driver().device_of(address) if address else driver().current_device(),
        arg,
        interface.get("stream"),
    )


def _of_dlpack(arg: Any, where: str, driver: Callable[[], Driver]) -> DeviceArray:
    kind, device = arg.__dlpack_device__()
    if kind not in (CUDA, MANAGED):
        raise _not_on_device(arg, where)
    with driver().on(device):
        # 0 is ambiguous in the protocol, and 1 the default stream
        capsule = arg.__dlpack__(stream=driver().current_stream() or 1)
    held = held_tensor(capsule)
    is_bfloat16 = (held.code, held.bits, held.lanes) == BFLOAT16
    if not is_bfloat16 and (held.code not in KINDS or held.lanes != 1):
        raise TensorIRError(f"{where} has a type that NumPy does not have")
    dtype = np.dtype("u2" if is_bfloat16 else f"{KINDS[held.code]}{held.bits // 8}")
    strides = None
    if held.strides:
        strides = tuple(n * dtype.itemsize for n in held.strides[: held.ndim])
    return DeviceArray(
        (held.data or 0) + held.byte_offset,
        tuple(held.shape[: held.ndim]),
        dtype,
        strides,
        True,
        device,
        (arg, capsule),
        None,
        is_bfloat16,
    )


def stream_of(args: tuple[Any, ...], device: int, driver: Driver) -> int:
    """The stream of the caller: torch's where an array is torch's, else CuPy's."""
    for arg in args:
        if type(arg).__module__.partition(".")[0] == "torch":
            stream: int = sys.modules["torch"].cuda.current_stream(device).cuda_stream
            return stream
    return driver.current_stream()
