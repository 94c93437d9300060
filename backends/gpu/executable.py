"""Running the launches of a program: what all GPUs have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backends.base import Executable
from backends.call.constants import Binding
from backends.call.signature import Signature
from backends.call.silent import SilentExecutable, unbound
from backends.gpu.launches import Give, Launch, Launches, Step, Take
from backends.gpu.limits import Limits, check_launch
from tensorir import Buffer, PrimFunc, TensorIRError

PLANS = 64
"""How many sizes of earlier calls are remembered, with what is to be launched for them."""


class GpuExecutable:
    """A lowered program on a device; subclasses say how memory is taken and a kernel launched.

    `bound` holds the arrays of some of the parameters, by position: they are kept here, and a call
    takes the others.
    """

    entry: Callable[..., int] | None = None

    def __init__(
        self,
        launches: Launches,
        signature: Signature,
        architecture: Limits,
        bound: Mapping[int, Any] | None = None,
    ) -> None:
        self.signature = signature
        self._launches = launches
        self._architecture = architecture
        self._bound = dict(bound or {})
        self._params = launches.func.params
        self._given = [i for i in range(len(self._params)) if i not in self._bound]
        self._plans: dict[tuple[int, ...], tuple[Step, ...]] = {}
        self._aligned = tuple(launches.alignments.items())

    def address(self, array: Any) -> int:
        """Where the memory of an array begins."""
        raise NotImplementedError

    def take(self, step: Take, queue: Any) -> Any:
        """Memory for a workspace."""
        raise NotImplementedError

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """A new array of the device."""
        raise NotImplementedError

    def time(self, arrays: Sequence[Any], numbers: Sequence[int], calls: int) -> float:
        """Seconds that `calls` calls take."""
        raise NotImplementedError

    def launch(
        self, step: Launch, arguments: Sequence[Any], values: Sequence[int], queue: Any
    ) -> None:
        """Run a kernel on arrays and workspaces, or put it on a queue of the device.

        `values` are the bits of those that it takes, after the sizes.
        """
        raise NotImplementedError

    def steps(self, sizes: Sequence[int]) -> tuple[Step, ...]:
        """What is done for these sizes. Raises TensorIRError where that cannot be launched."""
        key = tuple(sizes)
        known = self._plans.get(key)
        if known is None:
            values = dict(zip(self.signature.sizes, key, strict=True))
            known = self._launches.steps(values)
            for step in known:
                if isinstance(step, Launch):
                    check_launch(step, self._architecture, values)
            if len(self._plans) >= PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = known
        return known

    def run(self, arrays: Sequence[Any], numbers: Sequence[int], queue: Any = None) -> bool:
        """Run on checked arrays and `numbers`, which are sizes and then the bits of values.

        Raises TensorIRError where these cannot be launched so.
        """
        memory = dict(zip([self._params[i] for i in self._given], arrays, strict=True))
        memory |= {self._params[i]: array for i, array in self._bound.items()}
        for buffer, size in self._aligned:
            if self.address(memory[buffer]) % size:
                raise self._misaligned(buffer, self.address(memory[buffer]), size)
        count = len(self.signature.sizes)
        words = dict(zip(self._launches.func.value_vars, numbers[count:], strict=True))
        for step in self.steps(numbers[:count]):
            if isinstance(step, Launch):
                arguments = [memory[buffer] for buffer in step.kernel.buffers]
                self.launch(step, arguments, [words[v] for v in step.kernel.values], queue)
            elif isinstance(step, Take):
                memory[step.buffer] = self.take(step, queue)
            else:
                assert isinstance(step, Give)
                del memory[step.buffer]
        return True

    def _misaligned(self, buffer: Buffer, address: int, size: int) -> TensorIRError:
        return TensorIRError(
            f"{self.signature.name}: argument {buffer.name!r} is accessed by vectors of {size} "
            f"bytes and begins {address % size} bytes beyond a multiple of that; pass a copy, "
            "which begins at one"
        )


Make = Callable[[PrimFunc, Signature, Mapping[int, Any]], GpuExecutable]
"""An executable of a lowered program, with the arrays of some of its parameters."""


def bound_executable(
    ir: PrimFunc,
    signature: Signature,
    binding: Binding,
    make: Make,
    keep: Callable[[Any, str], Any],
) -> Executable:
    """The program with its constants: what it computes from them alone is computed now.

    `keep(array, dtype)` makes the array of the device that is kept of one of the caller's: a later
    change of that must not change half of what the kernel knows.
    """
    if binding.arrays is None:
        return SilentExecutable(unbound(signature, binding))
    held = {
        p.name: keep(binding.arrays[p.name], p.dtype)
        for p in (*signature.params, *(binding.ahead.params if binding.ahead else ()))
        if p.name in binding.arrays
    }
    if binding.function is not None:
        prepare, ahead = binding.function
        first = make(prepare, ahead, {})
        for param in ahead.params:
            if param.is_output:
                held[param.name] = first.empty(ahead.shape(param, {}), param.dtype)
        first.run([held[p.name] for p in ahead.params], [])
    bound = {i: held[p.name] for i, p in enumerate(signature.array_params) if p.name in held}
    return make(ir, signature, bound)
