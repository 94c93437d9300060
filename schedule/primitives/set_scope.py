"""set_scope: put an intermediate into another kind of memory."""

from __future__ import annotations

from schedule.analysis.dependence import private
from schedule.analysis.uses import accesses, is_output, written
from schedule.checks.threads import thread_conflict
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import check_scope, pick
from schedule.state import State, replace_func
from tensorir import Buffer, ForKind, blocks, replace_buffers


@primitive
def set_scope(
    state: State, block: str, buffer: str | int = 0, scope: str = "local"
) -> tuple[State, None]:
    """Put `buffer`, which `block` writes, into memory of `scope`.

    "global" is seen by all threads, "shared" by the threads of one block on a GPU, "local" by one
    thread. `buffer` is a name or the position among the buffers that the block writes.

    rewrite:  set_scope("B", "B", "local")
        B = alloc(f32[8])      ->  B = alloc(f32[8], scope="local")

    requires:
        - the block writes `buffer`
        - `scope` is one of global, shared, local
        - `buffer` is an intermediate, no parameter
        - in local memory, each iteration of a parallel loop has the buffer to itself
        - threads of a GPU that share the buffer can all see it in that scope
    """
    node = state.block(block)
    check_scope(scope, block)
    old = pick(written(node), buffer, block, "writes")
    require(
        not is_output(state, old),
        block,
        f"{old.name!r} is a parameter of the function, and the caller's memory is global",
        "cache_write makes a copy in another scope",
    )
    if scope == old.scope:
        return state, None
    if scope == "local":
        _private(state, old)
    new = old.with_scope(scope)
    buffers = tuple(new if b is old else b for b in state.func.buffers)
    body = replace_buffers(state.func.body, {old: new})
    after = State(replace_func(state.func, body=body, buffers=buffers), state)
    refusal = thread_conflict(state, after)
    if refusal is not None:
        raise refusal
    return after, None


def _private(state: State, buffer: Buffer) -> None:
    """Refuse memory of one thread that iterations of a parallel loop would share."""
    for name in state.block_names():
        if not any(a.buffer is buffer for a in accesses(state.block(name))):
            continue
        for loop in state.loops_around(name):
            require(
                loop.kind is not ForKind.PARALLEL or private(state, buffer, blocks(loop.body)),
                loop.name,
                f"{buffer.name!r} is used inside and outside of the parallel loop {loop.name!r}",
                "local memory belongs to one thread: compute_at the block inside that loop first",
            )
