"""What a backend is: the stages from a program to something that can be called.

Compiling and loading are two stages, so that `build(func, "cuda")` gives source, machine code and
resources on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from backends.cache import ObjectCache
from backends.call.constants import Binding
from backends.call.signature import Signature
from tensorir import PrimFunc, Target

if TYPE_CHECKING:
    from backends.kernel import CompiledKernel


class Executable(Protocol):
    """A loaded kernel. It is told nothing that was not checked before, except by `entry`.

    `entry(*arrays)` checks and runs: 0 it ran, 1 the arguments were refused before anything was
    touched, 2 the kernel failed. None where there is no such entry.
    """

    entry: Callable[..., int] | None

    def run(self, arrays: Sequence[Any], sizes: Sequence[int]) -> bool:
        """Run on checked arrays; False when the kernel failed."""
        ...

    def time(self, arrays: Sequence[Any], sizes: Sequence[int], calls: int) -> float:
        """Seconds that `calls` calls take, measured on the device; negative on failure."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """A new array for an output."""
        ...


class Compiled(Protocol):
    """What the compiler made of a source, on a machine that need not be able to run it.

    `resources` is what each kernel of a GPU takes, by name; None where there is nothing to know.
    """

    @property
    def resources(self) -> Mapping[str, Any] | None: ...


class Backend(Protocol):
    """One kind of target. `lower` is common to all; these are the stages that differ."""

    suffix: str
    """The ending of a source file, such as ".c"."""


    def resolve(self, target: Target) -> Target:
        """`target` with everything filled in that the machine decides."""
        ...

    def why_not_here(self, target: Target) -> str | None:
        """Why this machine cannot run kernels for `target`; None where it can."""
        ...

    def emit(self, ir: PrimFunc, target: Target, prepare: PrimFunc | None = None) -> str:
        """The source text of a lowered program, and of the one that prepares its constants."""
        ...

    def kernel_type(self, signature: Signature) -> type[CompiledKernel]:
        """The class of what `build` returns."""
        ...

    def on_host(self, array: Any) -> Any:
        """An array of the caller's that is a constant, in the memory of the processor."""
        ...

    def compile(
        self,
        ir: PrimFunc,
        source: str,
        target: Target,
        signature: Signature,
        cache: ObjectCache | None,
        timeout: float,
        binding: Binding | None = None,
    ) -> Compiled:
        """Compile `source` unless `cache` has it. Raises BuildError."""
        ...

    def load(self, compiled: Any, binding: Binding | None = None) -> Executable:
        """What `compile` made, as something to call. Raises BuildError.

        With `binding`, its constants are prepared now, and the executable keeps the results: it
        takes the other arguments.
        """
        ...

    def info(self, target: Target) -> dict[str, Any]:
        """What kernels for `target` are made with, for records: command, version, flags."""
        ...

    def assembly(self, source: str, target: Target, name: str) -> str:
        """What the processor is given, as text."""
        ...

    def symbol(self, ir: PrimFunc) -> str:
        """The name of the kernel in its source."""
        ...

    def exported(
        self, ir: PrimFunc, source: str, target: Target, prepare: PrimFunc | None = None
    ) -> str:
        """The source of a kernel that needs no Python."""
        ...

    def header(
        self,
        ir: PrimFunc,
        signature: Signature,
        target: Target,
        prepare: tuple[PrimFunc, Signature] | None = None,
    ) -> str:
        """The declaration that goes with an exported source."""
        ...
