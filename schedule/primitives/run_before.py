"""run_before: a statement changes its place among those that it does not depend on."""

from __future__ import annotations

from schedule.analysis.uses import blocks_below, read, written
from schedule.errors import require
from schedule.primitive import primitive
from schedule.state import State
from tensorir import Buffer, For, Seq, Stmt, seq


@primitive
def run_before(state: State, block: str, other: str) -> tuple[State, None]:
    """Run the statement that `block` is in before that of `other`, with which it shares no more
    loops.

    What else a consumer reads is then there where it moves to the block that it ends
    (reverse_compute_at).

    rewrite:  run_before("C", "B")
        for i in range(8):             for i_C in range(8):
            B[i] = f(A[i])     ->          C[i_C] = g(A[i_C])
        for i_C in range(8):           for i in range(8):
            C[i_C] = g(A[i_C])             B[i] = f(A[i])

    requires:
        - the two are different blocks, and the statement of `other` is before that of `block`
        - the loop around both carries no annotation
        - no statement in between, that of `other` among them, writes what the one that moves reads
          or writes, or reads what it writes
    """
    path, mark = state.block_path(block), state.block_path(other)
    require(block != other, block, f"block {block!r} cannot run before itself")
    depth = max(n for n, node in enumerate(path) if node in mark)
    around = path[depth]
    assert isinstance(around, Seq)
    stmts = list(around.stmts)
    place = _index(stmts, path[depth + 1])
    target = _index(stmts, mark[mark.index(around) + 1])
    require(target < place, other, f"block {block!r} runs before block {other!r} already")
    loops = [node for node in path[:depth] if isinstance(node, For)]
    if loops:
        names = ", ".join(loops[-1].annotations)
        require(
            not names, loops[-1].name, f"loop {loops[-1].name!r} is annotated with {names}",
            "change the order before that",
        )  # fmt: skip
    moved = stmts.pop(place)
    for stmt in stmts[target:place]:
        _independent(moved, stmt, block)
    return state.replace(path[: depth + 1], seq(*stmts[:target], moved, *stmts[target:])), None


def _index(stmts: list[Stmt], wanted: Stmt) -> int:
    return next(n for n, stmt in enumerate(stmts) if stmt is wanted)


def _independent(moved: Stmt, stmt: Stmt, block: str) -> None:
    """Refuse to let a statement run before one that it shares memory with."""
    reads, writes = _buffers(moved)
    for node in blocks_below(stmt):
        theirs, made = read(node), written(node)
        met = [b for b in (*writes, *reads) if b in made or b in writes and b in theirs]
        said = "written" if met and met[0] in made else "read"
        require(
            not met, block, f"{met[0].name if met else ''!r} is {said} by block {node.name!r}, "
            f"which would run after block {block!r}",
        )  # fmt: skip


def _buffers(stmt: Stmt) -> tuple[dict[Buffer, None], dict[Buffer, None]]:
    """What the blocks of a statement read and write."""
    blocks = blocks_below(stmt)
    reads = {buffer: None for block in blocks for buffer in read(block)}
    return reads, {buffer: None for block in blocks for buffer in written(block)}

