"""What a GPU can launch: each kernel is checked as soon as its numbers are known.

Threads, shared memory and constant grids when a program is built, registers when it is compiled,
grids of symbolic sizes at the call.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from math import inf, prod
from typing import Protocol

from backends.call.constants import Binding
from backends.errors import BuildError
from backends.gpu.launches import Kernel, Launch, Launches
from tensorir import (
    ONE_THREAD,
    Architecture,
    For,
    PrimFunc,
    Stmt,
    TensorIRError,
    Var,
    child_stmts,
    int_value,
)


class Limits(Protocol):
    """What a device says of itself; those of CUDA are tensorir.Architecture."""

    @property
    def name(self) -> str: ...
    @property
    def threads_per_block(self) -> int: ...
    @property
    def block_limits(self) -> tuple[int, int, int]: ...
    @property
    def grid_limits(self) -> tuple[int, int, int]: ...
    @property
    def shared_per_block(self) -> int: ...


WORK = 1024
"""Steps that one thread may make of a kernel before a warning says so."""


class OneThread(UserWarning):
    """A kernel leaves all of a GPU but one thread idle."""


def check_kernel(kernel: Kernel, architecture: Limits) -> None:
    """Raise BuildError where no launch of `kernel` is possible, whatever the sizes are; warn of
    one that a single thread runs."""
    alone = one_thread(kernel)
    if alone:
        warnings.warn(f"kernel {kernel.name!r}: {alone}", OneThread, stacklevel=2)
    block = tuple(int_value(extent) or 1 for extent in kernel.block)
    reason = _too_many_threads(block, architecture)
    if kernel.shared_bytes > architecture.shared_per_block:
        reason = (
            f"its blocks use {kernel.shared_bytes} bytes of shared memory, and a block has at most "
            f"{architecture.shared_per_block}; use smaller tiles"
        )
    grid = tuple(int_value(extent) or 1 for extent in kernel.grid)
    reason = reason or _too_many_blocks(grid, architecture)
    if reason is not None:
        raise BuildError(f"kernel {kernel.name!r} cannot run on {architecture.name}: {reason}")


def checked_kernels(ir: PrimFunc, binding: Binding | None, architecture: Limits) -> list[Kernel]:
    """The kernels of a text: of the program that prepares constants, and of `ir`. Raises and warns
    as check_kernel does."""
    prepare = None if binding is None else binding.prepare
    kernels = [k for each in (prepare, ir) if each for k in Launches.of(each).kernels]
    for kernel in kernels:
        check_kernel(kernel, architecture)
    return kernels


def one_thread(kernel: Kernel) -> str:
    """What there is to say of a kernel that lowering left to one thread; "" of others, and of those
    that do next to nothing."""
    if not any([ONE_THREAD in loop.annotations for loop in kernel.axes]):
        return ""
    if steps(kernel.body) <= WORK:
        return ""
    return (
        "one thread runs all of it, since none of its loops is proved to be independent of the "
        "order; bind loops, or rfactor a reduction into parts"
    )


def steps(stmt: Stmt) -> float:
    """How many stores `stmt` makes; of a symbolic extent, and of what memory says, many."""
    below = sum([steps(child) for child in child_stmts(stmt)])
    if not isinstance(stmt, For):
        return below or 1.0
    extent = stmt.const_extent
    return inf if extent is None else below * extent if extent else 0.0


def check_registers(kernel: Kernel, registers: int, architecture: Architecture) -> None:
    """Raise BuildError where a block of the compiled kernel has more registers than there are."""
    threads = kernel.threads
    if threads is None or architecture.blocks_at_once(threads, registers, 0):
        return
    raise BuildError(
        f"kernel {kernel.name!r} cannot run on {architecture.name}: {threads} threads of "
        f"{registers} registers each need more than the {architecture.registers} of a "
        "multiprocessor; use fewer threads, or smaller tiles of registers"
    )


def check_launch(launch: Launch, architecture: Limits, sizes: Mapping[Var, int]) -> None:
    """Raise TensorIRError where the sizes of a call make too large a grid or block."""
    reason = _too_many_threads(launch.block, architecture)
    reason = reason or _too_many_blocks(launch.grid, architecture)
    if reason is not None:
        given = ", ".join(f"{var.name} = {n}" for var, n in sizes.items())
        where = f" for {given}" if given else ""
        raise TensorIRError(
            f"kernel {launch.kernel.name!r} cannot run on {architecture.name}{where}: {reason}"
        )


def _too_many_threads(block: tuple[int, ...], architecture: Limits) -> str | None:
    most = architecture.threads_per_block
    if prod(block) > most:
        return f"its blocks have {_product(block)} threads, and a block has at most {most}"
    for axis, count, limit in zip("xyz", block, architecture.block_limits):
        if count > limit:
            return f"its blocks have {count} threads along {axis}, and may have {limit}"
    return None


def _too_many_blocks(grid: tuple[int, ...], architecture: Limits) -> str | None:
    for axis, count, limit in zip("xyz", grid, architecture.grid_limits):
        if count > limit:
            return (
                f"its grid has {count} blocks along {axis}, and may have {limit}; bind the longest "
                "loop to blockIdx.x, or split it"
            )
    return None


def _product(numbers: tuple[int, ...]) -> str:
    factors = [n for n in numbers if n != 1]
    return f"{' x '.join(map(str, factors))} = {prod(numbers)}" if factors[1:] else f"{factors[0]}"
