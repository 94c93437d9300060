"""run_before: a statement changes its place among those that it does not depend on."""

from __future__ import annotations

from schedule.analysis.bodies import apart
from schedule.analysis.uses import accesses, blocks_below
from schedule.errors import require
from schedule.primitive import primitive
from schedule.state import State, loops_below
from tensorir import Analyzer, For, Seq, Stmt, seq


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
        - no statement in between, that of `other` among them, writes elements that the one that
          moves reads or writes, or reads what it writes: of a buffer that both use, some index
          has other values
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
    passed = stmts[target:place]
    below = [loop for stmt in (moved, *passed) for loop in loops_below(stmt)]
    _independent(moved, passed, block, state.analyzer([*loops, *below]))
    return state.replace(path[: depth + 1], seq(*stmts[:target], moved, *stmts[target:])), None


def _index(stmts: list[Stmt], wanted: Stmt) -> int:
    return next(n for n, stmt in enumerate(stmts) if stmt is wanted)


def _independent(moved: Stmt, passed: list[Stmt], block: str, analyzer: Analyzer) -> None:
    """Refuse to let a statement run before others that it shares elements with."""
    mine = [access for node in blocks_below(moved) for access in accesses(node)]
    theirs = [node for stmt in passed for node in blocks_below(stmt)]
    met = [
        (node, b.buffer, b.is_write)
        for node in theirs
        for b in accesses(node)
        for a in mine
        if a.buffer is b.buffer and (a.is_write or b.is_write) and not apart(a, b, analyzer)
    ]
    for node, buffer, is_write in sorted(met, key=lambda each: not each[2]):
        said = "written" if is_write else "read"
        require(
            False, block, f"{buffer.name!r} is {said} by block {node.name!r}, "
            f"which would run after block {block!r}",
        )  # fmt: skip
