"""Calls of CUDA kernels, on arrays of any library that are on a GPU.

Work is put on the caller's stream and not waited for. Workspaces come from CuPy's pool for that
stream, and a graph that is captured keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backends.call.arguments import complete, in_order, prepare, value_words, wrong_count
from backends.call.foreign_arrays import lend, library_of
from backends.call.signature import Signature
from backends.call.spaces import argument_name
from backends.cuda.arrays import DeviceArray, DeviceSpace, device_array, stream_of
from backends.cuda.program import CudaExecutable, CudaProgram
from backends.cuda.quick import QuickCall, key_of
from backends.kernel import CompiledKernel
from tensorir import Numbers, TensorIRError, number_of
from tensorir import dtype as dt

Key = tuple[Any, ...]
REMEMBERED = 256
"""Calls of which it is known that shapes and types are right."""


@dataclass(frozen=True)
class _Adopted:
    """A space of arrays that were taken before, by their positions."""

    arrays: Mapping[int, DeviceArray]
    space: DeviceSpace

    def adopt(self, signature: Signature, position: int, arg: object) -> DeviceArray:
        return self.arrays[position]

    def check_memory(
        self, signature: Signature, position: int, array: DeviceArray, arg: object
    ) -> None:
        self.space.check_memory(signature, position, array, arg)

    def span(self, array: DeviceArray) -> tuple[int, int]:
        return self.space.span(array)


class CudaKernel(CompiledKernel):
    """A program on a GPU; see CompiledKernel.

    Arrays are CuPy's, torch's, or have `__cuda_array_interface__` or DLPack, and all of one device.
    Those that are made are of the library of those that are given. The work is put on the caller's
    current stream, torch's where an array is torch's, else CuPy's, and is not waited for; that may
    be one that is captured into a graph.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._program: CudaProgram = self._executable  # type: ignore[assignment]
        self._known: dict[Key, list[int]] = {}
        self._places = self.signature.arrays
        self._sizes = [i for i, p in enumerate(self.signature.params) if p.is_size]
        self._quick: dict[Any, QuickCall] = {}

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if named:
            args = in_order(self.signature, args, named)
        key = key_of(args) if self._quick else None
        if key in self._quick:
            done = self._quick[key].run(args)
            if done is not None:
                only = self._only_output
                return done[only] if only is not None else tuple([done[i] for i in self._outputs])
        driver = self._program.driver
        count = len(args)
        if count != self._arity and count != self._input_count:
            raise wrong_count(self.signature, count)
        space, arrays = self._adopted(args)
        device = self._device(arrays, driver.current_device)
        with driver.on(device):
            stream = stream_of(args, device, driver)
            every = list(args)
            if count != self._arity:
                every = self._with_made(args, arrays, space, stream)
            numbers = self._checked(every, arrays, space)
            for array in arrays.values():
                if array.stream is not None and array.stream != stream:
                    driver.wait_for(stream, array.stream)
            program = self._program.on(device)
            program.run([arrays[i] for i in self._places], numbers, stream)
        self._remember(args, every, program, device, numbers)
        results = self._lent_on_device(every, args)
        return results[0] if self._only_output is not None else tuple(results)

    def _remember(
        self,
        args: Sequence[Any],
        every: Sequence[Any],
        program: CudaExecutable,
        device: int,
        sizes: Sequence[int],
    ) -> None:
        """What calls like this one need not find out again: those with arrays of CuPy alone."""
        if any(type(each).__module__.partition(".")[0] != "cupy" for each in args) or not args:
            return
        if program.takes_workspaces(sizes):
            return
        if len(self._quick) >= REMEMBERED:
            self._quick.clear()
        made = () if len(args) == len(every) else self.signature.made
        self._quick[key_of(args)] = QuickCall(
            program, self.signature, device, sizes, every, made
        )

    def timer(self, *args: Any, sizes: Numbers | None = None) -> Callable[[int], float]:
        driver = self._program.driver
        given: Sequence[Any] = args
        if not args and self._arity:
            from backends.call.inputs import random_arguments

            made = random_arguments(self.signature, sizes or {}, self._program.empty)
            kinds = zip(made, self.signature.params, strict=True)
            given = [a if p.is_scalar else driver.copy_in(a) for a, p in kinds]
        elif sizes and len(args) != self._arity:
            scalars = [p.name for p in self.signature.params if p.is_scalar and p.name in sizes]
            given = in_order(self.signature, given, {name: sizes[name] for name in scalars})
        if len(given) not in (self._arity, self._input_count):
            raise wrong_count(self.signature, len(given))
        space, arrays = self._adopted(given)
        with driver.on(self._device(arrays, driver.current_device)):
            if len(given) != self._arity:
                given = self._with_made(given, arrays, space, driver.current_stream())
        views, numbers = prepare(self.signature, given, _Adopted(arrays, space))
        return lambda calls: self._program.time(views, numbers, calls)

    def _adopted(self, args: Sequence[Any]) -> tuple[DeviceSpace, dict[int, DeviceArray]]:
        """The arrays among the arguments, by position: all, or those that have to be given."""
        space = DeviceSpace(lambda: self._program.driver)
        every = len(args) == self._arity
        given = range(self._arity) if every else self.signature.given
        params = self.signature.params
        return space, {
            i: space.adopt(self.signature, i, arg)
            for i, arg in zip(given, args)
            if not params[i].is_scalar
        }

    def _device(self, arrays: Mapping[int, DeviceArray], current: Callable[[], int]) -> int:
        """The device of all arrays; the current one where there are none."""
        if not arrays:
            return current()
        first = min(arrays)
        for i, array in arrays.items():
            if array.device != arrays[first].device:
                raise TensorIRError(
                    f"{argument_name(self.signature, i)} is on device {array.device}, and "
                    f"{self.signature.params[first].name!r} ({first}) on device "
                    f"{arrays[first].device}; a kernel runs on one device"
                )
        return arrays[first].device

    def _with_made(
        self,
        args: Sequence[Any],
        arrays: dict[int, DeviceArray],
        space: DeviceSpace,
        stream: int,
    ) -> list[Any]:
        """All arguments, with new CuPy arrays for those that are not given; notes them."""
        driver = self._program.driver

        def empty(shape: tuple[int, ...], dtype: str) -> Any:
            return driver.empty(shape, dtype, stream)

        every = complete(self.signature, args, empty, _Adopted(arrays, space))
        for i in self.signature.made:
            arrays[i] = device_array(every[i], argument_name(self.signature, i), lambda: driver)
        return every

    def _checked(
        self, every: Sequence[Any], arrays: Mapping[int, DeviceArray], space: DeviceSpace
    ) -> list[int]:
        """The symbolic sizes, then the bits of values. Raises TensorIRError for the first argument
        that does not fit."""
        views = [arrays[i] for i in self._places]
        key = (
            *[(v.shape, v.dtype, v.strides, v.writeable, v.bfloat16) for v in views],
            *[number_of(every[i], dt.INDEX, argument_name(self.signature, i)) for i in self._sizes],
        )
        sizes = self._known.get(key)
        if sizes is not None and not self._odd(views):
            return [*sizes, *value_words(self.signature, every)]
        _, numbers = prepare(self.signature, every, _Adopted(arrays, space))
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = numbers[: len(self.signature.sizes)]
        return numbers

    def _odd(self, views: Sequence[DeviceArray]) -> bool:
        """Whether addresses, which differ from call to call, have to be looked at closely."""
        spans = [(v.address, v.address + v.nbytes) for v in views]
        for n, (start, end) in enumerate(spans):
            if start % views[n].dtype.itemsize:
                return True
            if self._places[n] in self._outputs:
                for m, (other, last) in enumerate(spans):
                    if n != m and max(start, other) < min(end, last):
                        return True
        return False

    def _lent_on_device(self, every: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The outputs, those that were made for the call as arrays of the library of the others."""
        library = None if len(given) == len(every) else library_of(given)
        if library is None or library.__name__ == "cupy":
            return [every[i] for i in self._outputs]
        made = {i: self.signature.params[i].dtype == "bfloat16" for i in self.signature.made}
        return [lend(every[i], library, made[i]) if i in made else every[i] for i in self._outputs]
