"""CompiledKernel: what `build` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backends.base import Backend, Compiled, Executable
from backends.call.arguments import adopt, in_order, prepare, wrong_count
from backends.call.constants import Binding
from backends.call.foreign_arrays import lend, library_of
from backends.call.outputs import plan
from backends.call.signature import Signature
from backends.errors import OutOfMemory
from tensorir import Numbers, PrimFunc, Target, TensorIRError, checked

if TYPE_CHECKING:
    from backends.call.timer import Timing

RAN = 0


class CompiledKernel:
    """A program that runs.

    kernel(a, b) allocates and returns the output (a tuple of several); kernel(a, b, c) writes into
    the caller's output arrays and returns them; kernel.named(A=a, B=b) takes names. Arguments that
    are numbers are those of Python or NumPy; floats are rounded to the type of the argument. What
    the program needs and writes too (C[i] = C[i] + A[i], or a part of C) has to be given, is
    changed in place, and is returned. Arrays are NumPy's, or share CPU memory by DLPack or the
    buffer protocol; where all that are given are of one other library, such as torch, so are those
    that are made. They are checked before anything is touched; TensorIRError names the first that
    does not fit. Any number of threads may call one kernel at a time.

    func       the program before lowering
    ir         the lowered program; `prepare` the lowered part of it that ran when it was built,
               None without constants that it prepares
    source     the text given to the compiler
    target     with everything filled in that the machine decides
    signature  names, types and shapes of the arguments
    constants  names of the arrays that the kernel was built with and keeps
    """

    def __init__(
        self,
        func: PrimFunc,
        ir: PrimFunc,
        source: str,
        target: Target,
        signature: Signature,
        backend: Backend,
        compiled: Compiled,
        executable: Executable,
        binding: Binding | None = None,
    ) -> None:
        self.func = func
        self.ir = ir
        self.source = source
        self.target = target
        self.signature = signature if binding is None else binding.visible(signature)
        self.constants = () if binding is None else binding.names
        self.prepare = None if binding is None else binding.prepare
        self._declared = signature
        self._ahead = None if binding is None else binding.function
        self._backend = backend
        self._compiled = compiled
        self._executable = executable
        self._entry: Callable[..., int] = executable.entry or _refuse
        self._arity = len(self.signature.params)
        self._input_count = len(self.signature.given)
        self._outputs = self.signature.outputs
        self._only_output = self._outputs[0] if len(self._outputs) == 1 else None
        self._asm: str | None = None
        self._plan = plan(self.signature)

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def asm(self) -> str:
        """The assembly of `source`, made when first asked for.

        For "cuda" it is PTX, and the machine code where nvdisasm or cuobjdump is found.
        """
        if self._asm is None:
            self._asm = self._backend.assembly(self.source, self.target, self.name)
        return self._asm

    @property
    def object_key(self) -> str:
        """The name by which the cache of objects has what was compiled; "" where it has nothing."""
        return str(getattr(self._compiled, "key", ""))

    @property
    def resources(self) -> Mapping[str, Any] | None:
        """What each kernel of a GPU takes, by its name in `source`; None for processors."""
        return self._compiled.resources

    @property
    def findings(self) -> Any:
        """What the checks that the target asks for (cuda-emulator -check=) found at the last call;
        None before one, and for other targets."""
        return getattr(self._executable, "findings", None)

    def __call__(self, *args: Any) -> Any:
        every = args if len(args) == self._arity else self._with_outputs(args)
        if self._entry(*every):
            self._call_checked(every)
            every = self._lent(every, args)
        if self._only_output is not None:
            return every[self._only_output]
        return tuple([every[i] for i in self._outputs])

    def named(self, /, *args: Any, **named: Any) -> Any:
        """A call with arguments by their names, kernel.named(A=a, B=b), and the others in order.

        Raises TensorIRError for a name that no argument has, and where some are missing.
        """
        return self(*in_order(self.signature, args, named))

    @checked
    def time(
        self,
        *args: Any,
        repeats: int = 20,
        min_ms: float = 5.0,
        limit_s: float = 10.0,
        sizes: Numbers | None = None,
    ) -> Timing:
        """Time the kernel alone, in `repeats` blocks of calls of at least `min_ms` each.

        Arguments are those of a call, and outputs that are passed get overwritten; without any,
        random inputs are made (`sizes` gives the symbolic dimensions). Beside arrays it has the
        arguments that are numbers. After `limit_s` seconds no further block is begun. The caches
        hold what the previous call left in them.
        """
        from backends.call.timer import measure

        return measure(self.timer(*args, sizes=sizes), repeats, min_ms, limit_s)

    def timer(self, *args: Any, sizes: Numbers | None = None) -> Callable[[int], float]:
        """A function from a number of calls to the seconds that they took."""
        given: Sequence[Any] = args
        if not args and self._arity:
            from backends.call.inputs import random_arguments

            given = random_arguments(self.signature, sizes or {}, self._executable.empty)
        elif sizes and len(args) != self._arity:
            scalars = [p.name for p in self.signature.params if p.is_scalar and p.name in sizes]
            given = in_order(self.signature, given, {name: sizes[name] for name in scalars})
        if len(given) != self._arity:
            given = self._with_outputs(given)
        arrays, numbers = prepare(self.signature, given)

        def seconds(calls: int) -> float:
            taken = self._executable.time(arrays, numbers, calls)
            if taken < 0:
                raise self._failed()
            return taken

        return seconds

    @checked
    def export(self, folder: str | Path) -> tuple[Path, Path]:
        """Write the kernel as stand-alone source and header into `folder`; returns their paths.

        Constants are not written: the header says which function prepares what of them.
        """
        from tensorir import whole_file  # few kernels are exported

        name, suffix = self._backend.symbol(self.ir), self._backend.suffix
        about = self._backend.header(self.ir, self._declared, self.target, self._ahead)
        exported = self._backend.exported(self.ir, self.source, self.target, self.prepare)
        place = Path(folder)
        source, header = place / f"{name}{suffix}", place / f"{name}.h"
        try:
            place.mkdir(parents=True, exist_ok=True)
            for file, text in ((source, exported), (header, about)):
                with whole_file(file) as draft:
                    draft.write_text(text, encoding="utf-8")
        except OSError as error:
            raise TensorIRError(
                f"kernel {self.name!r} cannot be written to {str(place)!r}: {error.strerror}"
            ) from error
        return source, header

    def __repr__(self) -> str:
        held = f" with {', '.join(self.constants)}" if self.constants else ""
        return f"<kernel {self.signature} for {self.target.kind}{held}>"

    def __copy__(self) -> CompiledKernel:
        return self  # nothing changes it

    def __deepcopy__(self, memo: object) -> CompiledKernel:
        return self

    def __reduce__(self) -> Any:
        raise TensorIRError(
            f"kernel {self.name!r} cannot be pickled; send its func and build it where it is needed"
        )

    def _with_outputs(self, args: Sequence[Any]) -> tuple[Any, ...]:
        if len(args) != self._input_count:
            raise wrong_count(self.signature, len(args))
        return self._plan.fill(args, self._executable.empty)

    def _lent(self, args: tuple[Any, ...], given: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments, those that were made for a call as arrays of the library of the others."""
        library = None if len(given) == len(args) else library_of(given)
        if library is None:
            return args
        made = {i: self.signature.params[i].dtype == "bfloat16" for i in self.signature.made}
        return tuple([lend(a, library, made[i]) if i in made else a for i, a in enumerate(args)])

    def _call_checked(self, args: Sequence[Any]) -> None:
        """What the entry refused: arrays that it does not know, or something wrong."""
        arrays = adopt(self.signature, args)
        if any([a is not b for a, b in zip(arrays, args)]) and self._entry(*arrays) == RAN:
            return
        arrays, sizes = prepare(self.signature, args)
        if not self._executable.run(arrays, sizes):
            raise self._failed()

    def _failed(self) -> TensorIRError:
        return OutOfMemory(f"{self.name}: no memory for the workspace of the kernel")


# To look for names would make each call slower (see below). What Python says of one begins so.
CompiledKernel.__call__.__qualname__ = "a call takes what is in order, kernel.named by name: kernel"


class KernelWithNumbers(CompiledKernel):
    """A kernel that takes numbers among its arguments, and any of these by name when called.

    Others do in `named` alone: a call without names took 6 to 11 % longer for looking for them.
    """

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        return super().__call__(*(in_order(self.signature, args, named) if named else args))


def host_kernel(signature: Signature) -> type[CompiledKernel]:
    """The class of kernels on arrays in the memory of the processor."""
    takes_numbers = any(param.is_scalar for param in signature.params)
    return KernelWithNumbers if takes_numbers else CompiledKernel


def _refuse(*args: object) -> int:
    """Stands for a missing entry: every call goes through the checks in Python."""
    return 1
