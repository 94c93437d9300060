"""Whether the threads of a parallel loop keep out of each other's memory, as far as it is certain.

Schedules prove that the iterations of a parallel loop write elements of their own. A program may
also come as text: one whose iterations certainly meet, since the place of a store does not speak
of the loop, is refused here.
"""

from __future__ import annotations

from tensorir.arith.regions.iter_map import determines
from tensorir.errors import VerifyError
from tensorir.expr import Expr, Load, Var, binary, const
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import Access, accesses
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.lower_blocks import lower_blocks
from tensorir.passes.lower_init import lower_init
from tensorir.stmt import Alloc, Block, For, ForKind
from tensorir.visit import variables, walk


def check_threads(func: PrimFunc) -> None:
    """Raise VerifyError for a store that all threads of a parallel loop make at one place.

    What is used inside of the loop only, and is no parameter, each iteration has for itself. The
    place of a store must speak of the loop's variable other than by what it reads from memory at
    it: two iterations may read the same. Lowered programs have been through this.
    """
    nodes = list(walk(func.body))
    parallel = [s for s in nodes if isinstance(s, For) and s.kind is ForKind.PARALLEL]
    lowered = not any(isinstance(s, Block) for s in nodes)
    if not parallel or lowered or any(isinstance(s, Alloc) for s in nodes):
        return
    for uses in accesses(lower_blocks(lower_init(func)).body).values():
        for use in uses:
            for loop in use.loops() if use.is_write else ():
                if loop.kind is ForKind.PARALLEL and loop.const_extent not in (0, 1):
                    _require_own_place(func, use, loop, uses)


def _require_own_place(func: PrimFunc, store: Access, loop: For, uses: list[Access]) -> None:
    buffer = store.buffer
    if any([loop.var in _outside_of_loads(index) for index in store.indices]):
        return
    if buffer in func.buffers and all([loop in use.loops() for use in uses]):
        return
    analyzer = function_analyzer(func)
    around = store.loops()
    for outer in around[: around.index(loop)]:  # which have an iteration where there is a store
        if outer.const_extent is None:
            analyzer.bind(outer.var, outer.extent)
    known = analyzer.assuming(store.known)
    if known.prove(binary("<=", loop.extent, const(1))):
        return
    if loop.var in variables(store.known):  # only one of the iterations may be left
        if determines(store.indices, loop.var, store.inner(), known):
            return
    whose = "which is used outside of that loop too"
    if buffer not in func.buffers:
        whose = "an argument of the function"
    elif buffer.scope != "global":
        whose = f"in {buffer.scope} memory, {whose}"
    raise VerifyError(
        f"the threads of the parallel loop {loop.name!r} all write "
        f"{Load(buffer, store.indices)!r}, {whose}; make the loop serial, or let its iterations "
        "write elements of their own"
    )


def _outside_of_loads(e: Expr) -> frozenset[Var]:
    """The variables of an index, apart from those that only say what is read from memory."""
    if isinstance(e, Load):
        return frozenset()
    if not e.has_loads:
        return variables(e)
    return frozenset().union(*[_outside_of_loads(child) for child in e.operands])
