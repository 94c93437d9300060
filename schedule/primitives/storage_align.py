"""storage_align: leave room between the rows of an intermediate."""

from __future__ import annotations

from schedule.analysis.uses import accesses
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import pick
from schedule.state import State, replace_func


@primitive
def storage_align(
    state: State, block: str, buffer: str | int, axis: int, factor: int, offset: int = 0
) -> tuple[State, None]:
    """Make the stride of an axis of an intermediate a multiple of `factor`, plus `offset`.

    Rows of a power of two of bytes fall into the same cache sets or memory banks; an odd number
    of vectors between them spreads them out. Only memory is added: the gaps are never touched.
    The stride is that of the part of the buffer that is allocated in the end. Where all axes behind
    `axis` have one element there, it is that of the next axis further out, so that what is adjacent
    stays so. `buffer` is a name or the position among the buffers that `block` uses.

    rewrite:  storage_align("C", "T", axis=0, factor=16, offset=4)
        T = alloc(f32[8, 64])          attrs({"align": {"T": [0, 16, 4]}})
                                  ->   T = alloc(f32[8, 64])
                                       ... in memory T[i, j] lies at i * 68 + j

    requires:
        - `buffer` is an intermediate that the block uses
        - `axis` is one of its axes, and not the last, whose elements are adjacent
        - `factor` is a positive integer and `offset` an integer from 0 up to `factor`
    """
    touched = tuple(dict.fromkeys(a.buffer for a in accesses(state.block(block))))
    found = pick(touched, buffer, block, "uses")
    require(
        found in state.func.buffers,
        block,
        f"{found.name!r} is a parameter of the function: callers know its layout",
        "cache_read or cache_write it, and align the copy",
    )
    rank = found.ndim
    require(
        -rank <= axis < rank,
        block,
        f"axis {axis!r} is none of the {rank} of {found.name!r}",
    )
    place = axis % rank
    require(
        place < rank - 1,
        block,
        f"the elements along axis {axis}, the last of {found.name!r}, are adjacent",
        "align an axis further out",
    )
    require(factor > 0, block, f"factor {factor!r} is not a positive integer")
    require(
        0 <= offset < factor,
        block,
        f"offset {offset!r} is not between 0 and the factor {factor}",
    )
    aligned = {**state.func.attrs.get("align", {}), found.name: [place, factor, offset]}
    attrs = {**state.func.attrs, "align": aligned}
    return State(replace_func(state.func, attrs=attrs), state), None
