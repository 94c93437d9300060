"""explain: what each kernel of a program asks of a GPU, and which limit binds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from autotune.default import default_schedule
from autotune.gpu.account import KernelAccount
from autotune.gpu.count import kernels_of, work_of
from autotune.gpu.work import Work, architecture_of, cycles
from autotune.rules.group import SYMBOLIC_SIZE, size
from backends import (
    BuildError,
    CompiledKernel,
    Launches,
    build,
    compiler_info,
    resolve,
    sanitize,
)
from schedule import Schedule
from tensorir import (
    Extern,
    For,
    ForKind,
    Gpu,
    Numbers,
    PrimFunc,
    Target,
    TensorIRError,
    device_of,
    dtype,
    lower,
    specialize,
    walk,
)


@dataclass(frozen=True)
class Explanation:
    """What the kernels of a program ask of a GPU; printing it shows all of it.

    name       of the program
    how        the schedule that was looked at, in words
    gpu        what it was compiled for
    kernels    in the order of launches
    arguments  transactions that read each input and write each output once
    notes      what was assumed
    """

    name: str
    how: str
    gpu: Gpu
    kernels: tuple[KernelAccount, ...]
    arguments: int
    notes: tuple[str, ...] = ()

    @property
    def moved(self) -> float:
        """Transactions with global memory over those that the arguments take."""
        total = sum(kernel.work.sectors for kernel in self.kernels)
        return total / self.arguments if self.arguments else 1.0

    @property
    def seconds(self) -> float:
        """Of one call, by the estimate, on the typical card of the architecture."""
        card = architecture_of(self.gpu).card
        return cycles((k.work for k in self.kernels), self.gpu) / (card.clock * 1e9)

    def __str__(self) -> str:
        card = architecture_of(self.gpu).card.name
        count = f"{len(self.kernels)} kernel{'s' * (len(self.kernels) != 1)}"
        lines = [
            f"{self.name} for {self.gpu.target}, {self.how}: {count}, "
            f"about {1e6 * self.seconds:.3g} us on one {card}",
            f"{self.moved:.2f} times the {self.arguments:,} transactions that arguments take once",
            *self.notes,
        ]
        return "\n\n".join(["\n".join(lines), *map(str, self.kernels)])

    __repr__ = __str__


def explain(
    program: PrimFunc | Schedule | CompiledKernel,
    target: Target | str | None = None,
    sizes: Numbers | None = None,
    run: bool = False,
) -> Explanation:
    """What each kernel of a program asks of a GPU, what it gets, and the limit that binds.

        print(explain(func, "cuda -arch=sm_90a"))

    program  a PrimFunc by its default schedule, if none of its loops is over threads yet; a
             Schedule, or the kernel that `build` returned, as it is
    target   "cuda", "cuda-emulator" or "opencl", with or without `-arch=`; None for that of a
             kernel, else "cuda"
    sizes    the values of symbolic sizes, which else count as 256
    run      count what happens on the emulator, for random arguments, and not by evaluating the
             code of some warps: exact, by line, and for small sizes. A kernel that was built with
             `-check=counts` and called has these counts without

    Counts are those of autotune.gpu: transactions, wavefronts, instructions of warps by kind.
    Registers and spills are the compiler's where NVRTC is installed, else an estimate, which says
    so. docs/gpu_counts.md tells how to read them. Raises TensorIRError for a target that is no GPU
    and unknown sizes, BuildError for what cannot be compiled for it.
    """
    given = program.target if isinstance(program, CompiledKernel) else "cuda"
    resolved = resolve(given if target is None else target)
    gpu = device_of(resolved)
    if not isinstance(gpu, Gpu):
        raise TensorIRError(
            f"explain counts what kernels of GPUs ask for, and target {str(resolved)!r} is none: "
            "give 'cuda' or 'opencl'; search_space(func).describe() says what is made for others"
        )
    func, how = _scheduled(program, resolved)
    numbers = {} if sizes is None else dict(sizes)
    ir = specialize(lower(func, resolved), numbers)
    notes = _assumed(ir)
    resources, why = _resources(func, gpu)
    counts = _counts(program, func, gpu, numbers, run)
    launches, kernels = Launches.of(ir), []
    for stmt in kernels_of(ir):
        kernel = launches.kernel_of(stmt)
        own = [count for count in counts if count.kernel == kernel.name]
        work = work_of(stmt, gpu)
        work = counted(work, own) if own else work
        used = resources.get(kernel.name)
        work = work if used is None else replace(work, registers=used.registers)
        grid, block = (_numbers(extents) for extents in (kernel.grid, kernel.block))
        kernels.append(KernelAccount(kernel.name, grid, block, work, gpu, used, tuple(own)))
    said = "the emulator" if counts else "evaluating the code of some warps"
    notes = (*notes, f"counted by {said}", *([why] if why else []))
    notes += _left_out(kernels, ir)
    least = least_transactions(func, numbers)
    return Explanation(func.name, how, gpu, tuple(kernels), least, notes)


def _scheduled(program: Any, target: Target) -> tuple[PrimFunc, str]:
    if isinstance(program, (Schedule, CompiledKernel)):
        return program.func, "as it is scheduled"
    if not isinstance(program, PrimFunc):
        raise TensorIRError(
            f"cannot explain {program!r} of type {type(program).__name__}; pass a PrimFunc, a "
            "Schedule, or what build returned"
        )
    if any(isinstance(s, For) and s.kind is ForKind.THREAD for s in walk(program.body)):
        return program, "as it is scheduled"
    return default_schedule(program, target).func, "by its default schedule"


def _assumed(ir: PrimFunc) -> tuple[str, ...]:
    names = [var.name for var in ir.size_vars]
    if not names:
        return ()
    example = ", ".join(f"{name!r}: 4096" for name in names)
    counts = f"{', '.join(names)} count{'s' * (len(names) == 1)} as {SYMBOLIC_SIZE}"
    return (f"{counts}: give sizes={{{example}}} (--shape {names[0]}=4096)",)


def _left_out(kernels: Sequence[KernelAccount], ir: PrimFunc) -> tuple[str, ...]:
    """Which kernels call functions that are text, of which nothing can be evaluated."""
    called = {
        kernel.name: sorted({stmt.name for stmt in walk(body) if isinstance(stmt, Extern)})
        for kernel, body in zip(kernels, kernels_of(ir))
    }
    return tuple(
        f"nothing that {', '.join(names)} does is counted, nor is it in the time of {kernel!r}: "
        "only a GPU tells"
        for kernel, names in called.items()
        if names
    )


def _resources(func: PrimFunc, gpu: Gpu) -> tuple[dict[str, Any], str]:
    """What the compiler gives each kernel, by its name; else why that is not known."""
    if gpu.target.kind == "opencl":
        return {}, "registers are an estimate: what a driver of OpenCL does is not known before"
    try:
        compiler_info("cuda")
    except BuildError as missing:
        return {}, f"registers are an estimate: {missing.message}"
    arch = architecture_of(gpu).name
    return dict(build(func, Target("cuda", arch=arch)).resources or {}), ""


def _counts(
    program: Any, func: PrimFunc, gpu: Gpu, sizes: Numbers, run: bool
) -> Sequence[Any]:
    """What the emulator counted, by line; nothing where it did not run."""
    if run:
        found = sanitize(func, target=gpu.target, sizes=sizes, checks="counts")
        if found.reports:
            raise TensorIRError("\n".join(map(str, found.reports)))
        return tuple(found.counts)
    earlier = getattr(program, "findings", None)
    return () if earlier is None else tuple(earlier.counts)


def counted(work: Work, counts: Sequence[Any]) -> Work:
    """The work of a kernel, with what the emulator counted in place of what was evaluated."""
    memory = {
        space: [count for count in counts if count.space == space] for space in ("global", "shared")
    }
    blocks = sum(c.instructions for c in counts if c.what == "ti_sync")
    warps = sum(c.instructions for c in counts if not c.space and c.what != "ti_sync")
    every = max(1.0, work.blocks)
    return replace(
        work,
        sectors=float(sum(c.transactions for c in memory["global"])),
        least=float(sum(c.least for c in memory["global"])),
        requests=float(sum(c.instructions for c in memory["global"])),
        touches=float(sum(c.instructions for c in memory["shared"])),
        wavefronts=float(sum(c.transactions for c in memory["shared"])),
        free=float(sum(c.least for c in memory["shared"])),
        waits=blocks / every + 0.5 * warps / (every * work.warps),
    )


def _numbers(extents: Sequence[Any]) -> tuple[int, int, int]:
    x, y, z = (size(extent) for extent in extents)
    return x, y, z


def least_transactions(func: PrimFunc, sizes: Numbers) -> int:
    """Transactions of inputs and outputs; what is changed in place counts as both."""
    given = specialize(func, sizes)
    held = (
        prod(map(size, buffer.shape)) * dtype.itemsize(buffer.dtype)
        for buffer in (*given.inputs, *given.outputs)
    )
    return sum(-(-count // Gpu.sector_bytes) for count in held)
