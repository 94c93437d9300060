"""Calls of OpenCL kernels, on arrays of NumPy and of pyopencl."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backends.call.arguments import complete, in_order, prepare, wrong_count
from backends.kernel import CompiledKernel
from backends.opencl.arrays import ClArray, ClSpace, cl_array, is_on_device, new_array, the_context
from backends.opencl.program import OpenCLProgram
from tensorir import Numbers

SPACE = ClSpace()


class OpenCLKernel(CompiledKernel):
    """A program on an OpenCL device; see CompiledKernel.

    Arrays of NumPy (and what shares its memory) are copied to the device and back. What is there
    already is not: `pyopencl.array.Array`, buffers and shared virtual memory, of any one context.
    Where all are, new outputs are of their kind, and the work is put on the queue of the first
    Array, not waited for; without a queue it is done when the call returns.
    """

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        if named:
            args = in_order(self.signature, args, named)
        if not any(is_on_device(arg) for arg in args):
            return super().__call__(*args)
        program, queue, every = self._on_device(args)
        arrays, numbers = prepare(self.signature, every, SPACE)
        work = queue or program.device.queue
        wait_for(arrays, work)
        program.run(arrays, numbers, work)
        written = [a for a, i in zip(arrays, self.signature.arrays) if i in self._outputs]
        mark_done(written, work, queue is None)
        if self._only_output is not None:
            return every[self._only_output]
        return tuple([every[i] for i in self._outputs])

    def timer(self, *args: Any, sizes: Numbers | None = None) -> Callable[[int], float]:
        if not any(is_on_device(arg) for arg in args):
            return super().timer(*args, sizes=sizes)
        program, _, every = self._on_device(args)
        arrays, numbers = prepare(self.signature, every, SPACE)
        return lambda calls: program.time(arrays, numbers, calls)

    def _on_device(self, args: Sequence[Any]) -> tuple[Any, Any, list[Any]]:
        """The program where the arrays are, the caller's queue (or None), and all arguments."""
        if len(args) not in (self._arity, self._input_count):
            raise wrong_count(self.signature, len(args))
        complete_call = len(args) == self._arity
        given = range(self._arity) if complete_call else self.signature.given
        held: dict[int, ClArray] = {
            i: cl_array(self.signature, i, arg) for i, arg in zip(given, args) if is_on_device(arg)
        }
        queue = next((held[i].queue for i in sorted(held) if held[i].queue is not None), None)
        context = the_context(self.signature, held)
        owner: OpenCLProgram = self._executable  # type: ignore[assignment]
        program = owner.on(context, queue)
        if complete_call:
            return program, queue, list(args)
        device = program.device
        params = self.signature.params
        all_held = all(i in held for i in given if not params[i].is_scalar)

        def empty(shape: tuple[int, ...], dtype: str) -> Any:
            if not all_held:
                return program.empty(shape, dtype)
            like = list(held.values())
            return new_array(like, device.context, queue or device.queue, shape, dtype)

        return program, queue, complete(self.signature, args, empty, SPACE)


def wait_for(arrays: Sequence[Any], queue: Any) -> None:
    """Let `queue` wait for what is still done with arrays on other queues."""
    import pyopencl as cl

    pending = [e for a in arrays if isinstance(a, ClArray) for e in getattr(a.owner, "events", ())]
    if pending:
        cl.enqueue_barrier(queue, wait_for=pending)


def mark_done(arrays: Sequence[Any], queue: Any, at_once: bool) -> None:
    """Say to whom it concerns when `arrays` have been written, or wait for it."""
    import pyopencl as cl

    if at_once:
        queue.finish()
        return
    event = cl.enqueue_marker(queue)
    for array in arrays:
        if hasattr(getattr(array, "owner", None), "add_event"):
            array.owner.add_event(event)
