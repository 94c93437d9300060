"""stream: write a buffer past the caches."""

from __future__ import annotations

from schedule.analysis.uses import Access, accesses, readers, written
from schedule.checks.buffer_hints import add_hint
from schedule.checks.ownership import require_sole_writer
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import pick, top_statement
from schedule.rewrite.placement import names_in
from schedule.state import State
from tensorir import Expr, ForKind, Var, const, int_value, substitute


@primitive
def stream(state: State, block: str, buffer: str | int = 0) -> tuple[State, None]:
    """Write `buffer` with non-temporal stores, which do not bring its lines into the caches.

    That saves reading every line before it is written, about a third of the traffic of a copy, and
    leaves the caches to other data. It costs dearly where the buffer is read again soon. Whole
    aligned vectors are streamed, where pages are filled in order also those that begin 16 bytes
    into a line; others are stored as usual. The meaning is unchanged. `buffer` is a name or the
    position among the buffers that the block writes.

    rewrite:  stream("C", "C")
        for i in vectorized(4096):            attrs({"stream": ["C"]})
            C[i] = f(A[i])            ->      for i in vectorized(4096):
                                                  C[i] = f(A[i])

    requires:
        - the block, and no other, writes `buffer`
        - the block is no reduction
        - `buffer` is in scope global and is not streamed already
        - no block of the same outermost nest reads `buffer`
        - a vectorized loop around the block runs along neighbouring elements of `buffer`
    """
    node = state.block(block)
    target = pick(written(node), buffer, block, "writes")
    name = target.name
    require_sole_writer(state, target, block)
    require(
        not node.is_reduction,
        block,
        f"block {block!r} is a reduction, which reads back what it writes",
        "cache_write, and stream the block that copies back",
    )
    require(target.scope == "global", block, f"{name!r} is in scope {target.scope}, not global")
    inside = names_in(top_statement(state, block))
    near = [reader for reader in readers(state, target) if reader in inside]
    require(
        not near,
        block,
        f"block {(near or [''])[0]!r} reads {name!r} in the same nest, from the caches",
    )
    write = next(a for a in accesses(node) if a.is_write)
    lanes = [f for f in state.loops_around(block) if f.kind is ForKind.VECTORIZED]
    require(
        bool(lanes) and _neighbours(state, write, lanes[0].var),
        block,
        f"block {block!r} does not write neighbouring elements of {name!r} by a vectorized loop",
        "vectorize the loop of the last dimension first",
    )
    return add_hint(state, "stream", name, block), None


def _neighbours(state: State, write: Access, var: Var) -> bool:
    """Whether the next iteration of the loop writes the next element in memory."""
    place: Expr = const(0)
    size: Expr = const(1)
    for index, extent in zip(reversed(write.in_loops()), reversed(write.buffer.shape)):
        place, size = place + index * size, size * extent
    analyzer = state.analyzer(state.loops_around(write.block.name))
    place = analyzer.simplify(place)
    step = analyzer.simplify(substitute(place, {var: var + const(1)}) - place)
    return int_value(step) == 1
