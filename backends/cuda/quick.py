"""Calls like an earlier one: what shapes and types decide is known, addresses are looked at anew.

A short kernel takes a few microseconds, and the checks in `kernel.py` take more.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from backends.call.signature import Signature
from backends.cuda.driver import DriverError
from backends.cuda.program import CudaExecutable, argument_places
from backends.gpu.launches import Launch

Key = tuple[Any, ...]


def key_of(args: Sequence[Any]) -> Key | None:
    """What calls with CuPy's arrays have in common that differ in their memory alone."""
    try:
        return tuple([(type(a), a.shape, a.strides, a.dtype) for a in args])
    except AttributeError:  # a number, or an array of another library
        return None


class QuickCall:
    """Launches for arrays of CuPy of known shapes, all of one device; none for workspaces.

    `signature` has the arguments of a call, `sizes` are those of one that was checked, `arrays` its
    arguments, of which those at `made` were made for it.
    """

    def __init__(
        self,
        program: CudaExecutable,
        signature: Signature,
        device: int,
        sizes: Sequence[int],
        arrays: Sequence[Any],
        made: Sequence[int],
    ) -> None:
        self._program = program
        self._device = device
        self._made = [(i, arrays[i].shape, signature.params[i].dtype) for i in made]
        self._bytes = [a.nbytes for a in arrays]
        self._needs = [
            max(a.dtype.itemsize, program.alignment(i)) for i, a in enumerate(arrays)
        ]
        self._outputs = signature.outputs
        self._launches = [
            _Prepared(program, step)
            for step in program.steps(sizes)
            if isinstance(step, Launch)
        ]

    def run(self, args: Sequence[Any]) -> list[Any] | None:
        """All arguments after the call; None for arrays that have to be looked at closely."""
        driver = self._program.driver
        if driver.current_device() != self._device:
            return None
        stream = driver.current_stream()
        every = list(args)
        for position, shape, dtype in self._made:
            every.insert(position, driver.empty(shape, dtype, stream))
        addresses = []
        for array, need in zip(every, self._needs):
            memory = array.data
            address = memory.ptr
            if address % need or memory.device_id != self._device:
                return None
            addresses.append(address)
        if self._overlap(addresses):
            return None
        for launch in self._launches:
            launch.begin(addresses, stream)
        return every

    def _overlap(self, addresses: Sequence[int]) -> bool:
        for i in self._outputs:
            start = addresses[i]
            end = start + self._bytes[i]
            for j, other in enumerate(addresses):
                if i != j and other < end and start < other + self._bytes[j]:
                    return True
        return False


class _Prepared:
    """One launch, with memory for its arguments in each thread."""

    def __init__(self, program: CudaExecutable, step: Launch) -> None:
        self._program, self._step = program, step
        self._slots = program.positions(step.kernel)
        self._memory = threading.local()
        self._function = program.function(step.kernel)
        self._how = (step.grid, step.block, step.kernel.shared_bytes)

    def begin(self, addresses: Sequence[int], stream: int) -> None:
        try:
            held, places = self._memory.both
        except AttributeError:
            held, places = self._memory.both = self._arguments()
        for slot, position in self._slots:
            held[slot] = addresses[position]
        grid, block, shared = self._how
        try:
            self._program.driver.launch(self._function, grid, block, shared, stream, places[0])
        except DriverError as error:
            raise self._program.failed(self._step, error) from error

    def _arguments(self) -> tuple[Any, Any]:
        """The values of the arguments, and their addresses, with where these begin."""
        fixed = self._program.fixed(self._step)
        held = (ctypes.c_int64 * len(fixed))(*fixed)
        places = argument_places(held)
        return held, (ctypes.addressof(places), places)

