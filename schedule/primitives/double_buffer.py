"""double_buffer: give a buffer two versions, used by turns."""

from __future__ import annotations

from collections.abc import Mapping

from schedule.analysis import Access, is_output, readers, written
from schedule.buffer_hints import add_hint
from schedule.caching import pick
from schedule.errors import require
from schedule.ownership import innermost_shared_loop, require_sole_writer
from schedule.placement import accesses_of, child_of, names_in
from schedule.primitive import primitive
from schedule.state import State, extents, loops_below
from tensorir import Analyzer, Expr, ForKind, Var, binary, intersect_with, relax


@primitive
def double_buffer(state: State, block: str, buffer: str | int = 0) -> tuple[State, None]:
    """Let the iterations of the loop in which `block` fills `buffer` use two versions of it in
    turn, so that the next one can be filled while this one is still being read.

    The loop is the innermost one that `block` shares with the readers. Where copies should run
    ahead of their use, pipeline the loop instead: it makes the versions that it needs by itself.

    rewrite:  double_buffer("T", "T")
        for k in range(8):                attrs({"double_buffer": ["T"]})    in memory, as
            T[...] = A[k, ...]      ->    for k in range(8):                 T[k % 2, ...]
            C[...] += f(T[...])               T[...] = A[k, ...]
                                              C[...] += f(T[...])

    requires:
        - the block, and no other, writes `buffer`, an intermediate that is not doubled already
        - a loop around the block has other blocks inside; the innermost one of these is serial
          and no pipeline
        - every reader of the buffer follows the block inside that loop
        - in each iteration the block fills all that is read in it
    """
    node = state.block(block)
    target = pick(written(node), buffer, block, "writes")
    name = target.name
    require(not is_output(state, target), block, f"{name!r} is an output of the function")
    require_sole_writer(state, target, block)
    loop = innermost_shared_loop(state, block)
    require(loop.kind is ForKind.SERIAL, loop.name, f"loop {loop.name!r} is {loop.kind}")
    piped = "pipeline" in loop.annotations
    require(not piped, loop.name, f"loop {loop.name!r} is a pipeline, which has versions already")
    children = child_of(loop)
    place = next(i for i, s in enumerate(children) if block in names_in(s))
    later = {other for s in children[place + 1 :] for other in names_in(s)}
    users = readers(state, target)
    for reader in users:
        require(
            reader in later,
            loop.name,
            f"block {reader!r} reads {name!r}, and does not follow {block!r} inside loop "
            f"{loop.name!r}",
        )
    inner = extents(loops_below(loop.body))
    analyzer = state.analyzer([*state.loops_outside(loop.name), *loops_below(loop)])
    (made, *_) = accesses_of(state, {block}, target, writes=True)
    for read in accesses_of(state, set(users), target, writes=False):
        require(
            _fills(made, read, inner, analyzer),
            loop.name,
            f"block {read.block.name!r} reads parts of {name!r} that block {block!r} may not fill "
            f"in the same iteration of loop {loop.name!r}",
        )
    return add_hint(state, "double_buffer", name, block), None


def _fills(made: Access, read: Access, inner: Mapping[Var, Expr], analyzer: Analyzer) -> bool:
    """Whether the interval that is read lies in the one that is written, in all dimensions."""
    for mine, theirs, size in zip(made.in_loops(), read.in_loops(), made.buffer.shape):
        a, b = relax(mine, inner, analyzer), relax(theirs, inner, analyzer)
        if a is None or b is None:
            return False
        b = intersect_with(b, size, analyzer)
        ends = binary("<=", b.low + b.extent, a.low + a.extent)
        if not (analyzer.prove(binary("<=", a.low, b.low)) and analyzer.prove(ends)):
            return False
    return True
