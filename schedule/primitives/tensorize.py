"""tensorize: a nest of loops becomes one instruction on small tensors.

The loops are marked and stay in the program, where they are the meaning of the instruction; an
emitter compares them with it once more, and prints the call, or the loops where later steps made
them something else.
"""

from __future__ import annotations

from schedule.errors import Illegal, require
from schedule.primitive import primitive
from schedule.rewrite.rebind import plain_loop
from schedule.state import LoopRef, State, loops_below
from tensorir import (
    INTRINS,
    For,
    ForKind,
    Mismatch,
    TensorIntrin,
    find_intrin,
    format_func,
    format_stmt,
    match_intrin,
    tensorized,
)


@primitive
def tensorize(state: State, loop: LoopRef, intrinsic: str) -> tuple[State, None]:
    """Call a tensor intrinsic in place of `loop` and what is below it.

    The loops stay in the program, where they say what the intrinsic means; a target that lacks
    the instruction runs them. backends.register_intrinsic adds intrinsics of your own.

    rewrite:  tensorize("j_1", "f32.fma_16")
        for i, k, j_0 in grid(8, 8, 2):       for i, k, j_0 in grid(8, 8, 2):
            for j_1 in range(16):        ->       f32.fma_16(&A[i, k], &B[k, j_0 * 16],
                C[i, j_0 * 16 + j_1] =                       &C[i, j_0 * 16])
                    ... + A[i, k] * B[...]

    requires:
        - there is an intrinsic of that name
        - `loop` and the loops below it are serial and carry no annotation, and are not inside a
          vectorized loop
        - below `loop` is one store, in a block without init; its predicate is about outer loops
        - the loops, in their order, and the expression are those of the intrinsic's meaning
        - each operand moves with the loops as the intrinsic demands
        - the output is no other operand, and the rows that are written do not overlap
    """
    node = state.loop(loop)
    found = find_intrin(intrinsic)
    known = ", ".join(INTRINS)
    require(found is not None, loop, f"intrinsic {intrinsic!r} is not known; known are {known}")
    assert found is not None
    for each in loops_below(node):
        plain_loop(each, "tensorize a nest of plain loops")
    outside = state.loops_outside(loop)
    for outer in outside:
        require(
            outer.kind is not ForKind.VECTORIZED,
            loop,
            f"loop {loop!r} is inside the vectorized loop {outer.name!r}",
        )
    try:
        match_intrin(found, node, state.analyzer(outside))
    except Mismatch as mismatch:
        reason = f"this is not {intrinsic!r}: {mismatch}"
        raise Illegal(loop, reason, _hint(node), lambda: _both(node, found)) from None
    return state.replace(state.loop_path(loop), tensorized(node, intrinsic)), None


def _both(node: For, intrin: TensorIntrin) -> str:
    return f"the loops are\n{format_stmt(node)}\nand the intrinsic\n{format_func(intrin.func)}"


def _hint(node: For) -> str | None:
    guarded = "where(" in format_stmt(node)
    return "pad the extents, or partition the loop, to drop the condition" if guarded else None
