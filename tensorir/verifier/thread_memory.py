"""What the threads of a GPU may share: elements that two of them touch, and who has the memory.

`local` memory belongs to one thread, `shared` memory to one block of threads, `global` memory to
all; and so is any memory that several kernels use, of which one at most has threads: the others are
such that nobody has bound yet. Two questions are asked of each buffer that a kernel writes.

*Is each element touched by one owner only?* Memory that each owner has for itself may be used in
several loops over one axis, if the index of the axis can be told from the element, the same one
wherever it is touched: that is read off the digits of the indices. Or else the loops around all
uses form a frame, of which every iteration reads only what it wrote itself; it may then write what
another iteration writes too, in memory of its own.

*Do two threads meet?* Threads wait for each other where a loop over threads ends, and after what
the first of them does alone. So two of them meet only within one loop over threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tensorir.analysis.block_accesses import reduces
from tensorir.analysis.dependence import conflict, disjoint, fixes, same_place, same_slice
from tensorir.analysis.independence import outside_analyzer, ranges
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Var
from tensorir.func import PrimFunc
from tensorir.parts import buffers_in
from tensorir.passes.facts.lifetimes import keeps_to_itself
from tensorir.scalars import Scalar
from tensorir.stmt import For, Stmt
from tensorir.targets.thread_axes import AXES, BLOCK_AXES
from tensorir.verifier.kernels import Fault, Kernel, Use, kernel_of
from tensorir.verifier.thread_parts import part_of
from tensorir.visit import variables

OWNERS = {
    "local": (AXES, "belongs to one thread"),
    "shared": (BLOCK_AXES, "belongs to one block of threads"),
    "global": (BLOCK_AXES, "blocks of threads share without waiting for each other"),
}
"""The axes of which each index has elements of its own, by scope, in words."""

PARTS = 512
"""Parts of kernels of which the verdicts are kept."""


def memory_fault(
    func: PrimFunc, kernels: Sequence[Kernel], buffers: Iterable[Buffer]
) -> Fault | None:
    """Why threads may not use those of `buffers` that the program writes as they do; None if they
    may."""
    for buffer in buffers:
        users = [kernel for kernel in kernels if buffer in buffers_in(kernel.stmt)]
        if not any([buffer in kernel.written for kernel in users]):
            continue
        bound = [kernel for kernel in users if kernel.threads]
        if len(bound) > 1 and buffer.scope != "global":
            first, second = [kernel.uses[buffer][0] for kernel in bound[:2]]
            return _shared_by(first, second, "kernels")
        scope = buffer.scope if len(users) == 1 else "global"
        for kernel in bound:
            axes = tuple([axis for axis in OWNERS[scope][0] if _divides(kernel, axis)])
            part = part_of(kernel, buffer)
            fault = _part_fault(func.params, func.scalars, part, buffer, scope, axes)
            if fault is not None:
                return fault
    return None


@lru_cache(maxsize=PARTS)
def _part_fault(
    params: tuple[Buffer, ...],
    scalars: tuple[Scalar, ...],
    part: Stmt,
    buffer: Buffer,
    scope: str,
    axes: tuple[str, ...],
) -> Fault | None:
    """The same of one buffer in one kernel, of which `part` is what decides; the kernel divides
    `axes` among owners of such memory."""
    func = PrimFunc("", params, (), part, scalars=scalars)
    kernel = kernel_of(part)
    return _meeting(func, kernel, buffer, scope) or _owners(func, kernel, buffer, scope, axes)


def _shared_by(first: Use, other: Use, places: str) -> Fault:
    buffer = first.access.buffer
    return Fault(
        other.place,
        f"{buffer.name!r} is in {buffer.scope} memory, which {OWNERS[buffer.scope][1]}, and "
        f"{first.who} and {other.who} use it in different {places}",
        "let one thread use the same elements in all loops over an axis, which are bound at once "
        "(bind takes several loops); or go through global memory to another kernel",
    )


# owners


def _owners(
    func: PrimFunc, kernel: Kernel, buffer: Buffer, scope: str, axes: Sequence[str]
) -> Fault | None:
    """Whether all that is touched of an element is touched by one owner of such memory. What
    predicates leave of the indices is asked last: it takes long, and a frame seldom needs it."""
    uses = kernel.uses[buffer]
    around = _around(uses)
    found: Fault | None = None
    frames = _frames(scope, uses, around, axes)
    for limited in (False, True) if len(frames) > 1 else (True,):
        found = None
        for depth in frames:
            frame = around[:depth]
            left = [a for a in axes if a not in {loop.thread for loop in frame}]
            fault = _by_elements(func, kernel, uses, frame, left, limited)
            if fault is None:
                if depth == 0 or keeps_to_itself(func, around[depth - 1].var, buffer):
                    return None
            if depth == 0 or found is None:
                found = fault
    return found


def _divides(kernel: Kernel, axis: str) -> bool:
    loop = kernel.axes.get(axis)
    return loop is not None and loop.const_extent != 1


def _around(uses: Sequence[Use]) -> tuple[For, ...]:
    """The loops around all uses, outermost first."""
    around = uses[0].loops
    for use in uses[1:]:
        same = [a is b for a, b in zip(around, use.loops)]
        around = around[: same.index(False) if False in same else len(same)]
    return around


def _frames(
    scope: str, uses: Sequence[Use], around: Sequence[For], axes: Sequence[str]
) -> list[int]:
    """How many of the loops around all uses may form a frame: none, up to one over threads, or all.
    What is likely to prove it comes first: none where each index of what is written speaks of the
    owner, which that of a tile that others copy too does not; all last, as few tiles stay in one
    iteration of a loop over steps."""
    frames = [0]
    if scope != "global":
        frames += [depth for depth, loop in enumerate(around, 1) if loop.thread is not None]
    told = all([_speaks_of(use, axis) for use in uses if use.access.is_write for axis in axes])
    ordered = frames if told else frames[::-1]
    whole = [len(around)] if scope == "local" and len(around) not in frames else []
    return ordered + whole


def _speaks_of(use: Use, axis: str) -> bool:
    loop = use.over(axis)
    return loop is None or any([loop.var in variables(i) for i in use.access.in_loops()])


def _by_elements(
    func: PrimFunc,
    kernel: Kernel,
    uses: Sequence[Use],
    frame: Sequence[For],
    axes: Sequence[str],
    limited: bool,
) -> Fault | None:
    """Whether elements tell the indices of `axes`, within an iteration of the loops of `frame`;
    with what predicates say of them if `limited`."""
    inside = frame[-1].body if frame else kernel.stmt
    inner = ranges(inside)
    analyzer = outside_analyzer(func, frame, inner)
    for axis in axes:
        for write in uses:
            if not write.access.is_write:
                continue
            for other in uses:
                if not _same_index(write, other, axis, inner, analyzer, limited):
                    return _shared_by(write, other, _different(write, other, axis))
    return None


def _different(write: Use, other: Use, axis: str) -> str:
    """What the two are in, in words."""
    mine, theirs = write.over(axis), other.over(axis)
    if mine is theirs:
        return f"iterations of loop {mine.name!r} ({axis})" if mine else "ones"
    names = [repr(loop.name) if loop else "none" for loop in (mine, theirs)]
    return f"ones, of loops {names[0]} and {names[1]} over {axis}"


def _same_index(
    write: Use, other: Use, axis: str, inner: dict[Var, Expr], analyzer: Analyzer, limited: bool
) -> bool:
    """Whether the two touch one element only with the same index of the axis."""
    mine, theirs = write.over(axis), other.over(axis)
    if mine is not None and reduces(write.access.block, mine.var):
        return True  # all threads that share a reduction have its result
    if mine is None and theirs is None:
        return True
    if write is other or same_place(write.access, other.access):
        return mine is None or fixes(write.access, mine.var, inner, analyzer, limited)
    if disjoint(write.access, other.access, inner, analyzer):
        return True
    if mine is None or theirs is None:
        return False
    return same_slice(write.access, other.access, mine, inner, analyzer, theirs)


# threads that meet


def _meeting(func: PrimFunc, kernel: Kernel, buffer: Buffer, scope: str) -> Fault | None:
    """Two threads never touch one element within one loop over them, one of them writing."""
    if scope == "local":
        return None
    for loop in kernel.threads:
        if scope == "shared" and loop.thread in BLOCK_AXES:
            continue
        found = [use for use in kernel.uses[buffer] if loop in use.loops]
        if not any([use.access.is_write for use in found]):
            continue
        outside = found[0].loops[: found[0].loops.index(loop)]
        inner = ranges(loop)
        analyzer = outside_analyzer(func, outside, inner)
        reason = conflict([use.access for use in found], loop, inner, analyzer)
        if reason is not None:
            own = "local" if loop.thread not in BLOCK_AXES else "shared or local"
            hint = f"set_scope it to {own} memory" if buffer not in func.params else None
            return Fault(loop.name, f"{reason} ({loop.thread})", hint)
    return None
