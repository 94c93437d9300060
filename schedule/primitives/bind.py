"""bind: give the iterations of a loop to the threads of a GPU."""

from __future__ import annotations

from schedule.dependence import shared_conflict
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rebind import plain_loop
from schedule.state import State
from schedule.threads import AXES, thread_conflict
from tensorir import ForKind, replace


@primitive
def bind(state: State, loop: str, thread: str) -> tuple[State, None]:
    """Run each iteration of `loop` in a thread of its own.

    `thread` is an axis: blockIdx.x, .y or .z number the blocks of threads, threadIdx.x, .y or .z
    the threads of a block, and vthread.x makes one thread do the work of several. A kernel is the
    outermost nest of loops around. A reduction over threadIdx is shared by the threads of a block,
    which combine their parts in any order. What other primitives make of the kernel later is held
    to the same rules.

    rewrite:  bind("i", "blockIdx.x")
        for i in range(n):  ->  for i in thread("blockIdx.x", n):
            S(i)                    S(i)

    requires:
        - `loop` is serial and carries no annotation
        - `thread` is one of those axes
        - blocks below reduce over `loop` only if it is bound to threadIdx, and then they combine
          terms by one of + * min max and or, have their init, and have all spatial loops outside
        - no other block uses inside `loop` what such a reduction makes
        - iterations write elements of their own and use none that another one writes
        - neither `loop` nor what is around or inside it is parallel; nothing around is vectorized
        - loops over block axes are outside of all other loops
        - no loop is inside another one over the same axis
        - all loops of a kernel over one axis have the same extent, a number unless over blocks
        - an extent is at least 1 and not larger than the axis can be
        - a block has at most 1024 threads
        - memory is seen by all that share it: local by one thread, shared by one block of threads,
          global by blocks of threads that need not wait for each other
    """
    node = state.loop(loop)
    plain_loop(node, "a loop has one kind")
    require(thread in AXES, loop, f"{thread!r} is no thread axis", f"axes are {', '.join(AXES)}")
    refusal = shared_conflict(state, node)
    if refusal is not None:
        raise refusal
    bound = replace(node, kind=ForKind.THREAD, thread=thread)
    after = state.replace(state.loop_path(loop), bound)
    refusal = thread_conflict(after)
    if refusal is not None:
        raise refusal
    return after, None
