"""bind: give the iterations of a loop to the threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.loop_kind import set_kinds
from schedule.state import State
from tensorir import AXES, ForKind


@primitive
def bind(
    state: State, loop: str | Sequence[str | Sequence[str]], thread: str | Sequence[str]
) -> tuple[State, None]:
    """Run each iteration of `loop` in a thread of its own.

    `thread` is an axis: blockIdx.x, .y or .z number the blocks of threads, threadIdx.x, .y or .z
    the threads of a block; warp and lane are threadIdx.x // 32 and threadIdx.x % 32, and
    vthread.x, .y or .z make one thread do the work of several. A kernel is the outermost nest of
    loops around. Threads of a block wait for each other where a loop over them ends; what stands
    outside of all loops over an axis is done by the first thread of it. A reduction over threads
    is shared by the threads of a block: each has its own part, and where the outermost loop of the
    reduction ends they combine these, in any order. What other primitives make of the kernel later
    is held to the same rules.

    `loop` may be a list: of loops that only together keep to the rules, as those in which
    accumulators in local memory are cleared, updated and stored. `thread` may be a list beside it,
    of the axis of each loop, or of each list of loops: a kernel is bound in one step, and what its
    threads share is proved once.

    rewrite:  bind("i", "blockIdx.x")
        for i in range(n):  ->  for i in thread("blockIdx.x", n):
            S(i)                    S(i)

    requires:
        - `loop` is serial and carries no annotation
        - `thread` is one of those axes, or there is one of them for each entry of `loop`, and no
          loop is in two
        - blocks below reduce over `loop` only if it is bound to threadIdx, warp or lane, and then
          they combine terms, or tuples of terms, in a way that is associative and commutative,
          start from what changes nothing, have their init, and have all spatial loops that are no
          threads outside of the reduction; no loop reduces and chooses the element
        - no other block uses inside the reduction what threads make together
        - iterations write elements of their own and use none that another one writes
        - neither `loop` nor what is around or inside it is parallel; nothing around is vectorized
        - loops over block axes are outside of all other loops
        - no loop is inside another one over the same axis
        - all loops of a kernel over one axis have the same extent, a number unless over blocks
        - an extent is at least 1 and not larger than the axis can be, for lane 32
        - a kernel with warp or lane has no threadIdx.x
        - a block has at most 1024 threads
        - it is known how often the loops around `loop` run at the most, and conditions around it do
          not read what the kernel writes
        - memory is seen by all that share it: each element of local memory is used by one thread,
          of shared memory by one block of threads, both in one kernel; of global memory by blocks
          of threads that need not wait for each other
    """
    changes: dict[str, dict[str, Any]] = {}
    for names, axis in _by_axis(loop, thread):
        require(bool(names), "", f"there is no loop to bind to {axis}")
        for name in names:
            known = f"axes are {', '.join(AXES)}"
            require(axis in AXES, name, f"{axis!r} is no thread axis", known)
            require(name not in changes, name, f"loop {name!r} is named twice")
            changes[name] = {"kind": ForKind.THREAD, "thread": axis}
    return set_kinds(state, changes), None  # what threads then share is asked of whatever was made


def _by_axis(
    loop: str | Sequence[str | Sequence[str]], thread: str | Sequence[str]
) -> list[tuple[list[Any], str]]:
    """The loops of each axis."""
    if isinstance(thread, str):
        return [([loop] if isinstance(loop, str) else list(loop), thread)]
    several = not isinstance(loop, str) and len(loop) == len(thread)
    require(several, "", f"{loop!r} are not one for each of the axes {', '.join(thread)}")
    return [([own] if isinstance(own, str) else list(own), axis) for own, axis in zip(loop, thread)]
