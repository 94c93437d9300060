"""swizzle: put the elements of an intermediate in another order in memory."""

from __future__ import annotations

from schedule.analysis.uses import accesses
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import pick
from schedule.state import State, replace_func
from tensorir import LARGEST_RUN


@primitive
def swizzle(
    state: State, block: str, buffer: str | int, bits: int, base: int, shift: int
) -> tuple[State, None]:
    """Put element n of an intermediate, counted row by row in memory, at
    n ^ (n >> shift & (2**bits - 1) << base), as CUTLASS's Swizzle<bits, base, shift>.

    So `bits` bits from bit `base` on are changed by those `shift` further up. Threads that read a
    column of a tile in shared memory, whose rows are a power of two long, then use different banks;
    runs of 2**base elements stay together, for vectors. No other step sees the order; the buffer
    takes memory for whole runs of 2**(base + bits) elements. Elements are counted in the part of
    the buffer that is allocated in the end. `buffer` is a name or the position among the buffers
    that `block` uses.

    rewrite:  swizzle("C", "T", bits=3, base=2, shift=3)
        T = alloc(f32[8, 32])          attrs({"swizzle": {"T": [3, 2, 3]}})
                                  ->   T = alloc(f32[8, 32])
                                       ... T[i, j], number n, at n ^ (n >> 3 & 28)

    requires:
        - `buffer` is an intermediate that the block uses
        - `bits` and `shift` are at least 1 and `base` is at least 0: else two elements would lie
          at one place, or all where they were
        - bits + base is at most 16, and `shift` at most 62
    """
    touched = tuple(dict.fromkeys(a.buffer for a in accesses(state.block(block))))
    found = pick(touched, buffer, block, "uses")
    require(
        found in state.func.buffers,
        block,
        f"{found.name!r} is a parameter of the function: callers know its layout",
        "cache_read or cache_write it, and swizzle the copy",
    )
    require(bits >= 1, block, f"bits {bits!r} is not at least 1: no element would move")
    require(base >= 0, block, f"base {base!r} is not at least 0")
    require(
        shift >= 1,
        block,
        f"shift {shift!r} is not at least 1: elements would come to lie at one place",
    )
    require(shift <= 62, block, f"shift {shift!r} is more than 62, the bits of a place")
    require(
        bits + base <= LARGEST_RUN,
        block,
        f"runs of 2**{bits + base} elements are longer than 2**{LARGEST_RUN}",
    )
    known = {**state.func.attrs.get("swizzle", {}), found.name: [bits, base, shift]}
    attrs = {**state.func.attrs, "swizzle": known}
    return State(replace_func(state.func, attrs=attrs), state), None
