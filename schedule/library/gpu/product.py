"""The loops of a matrix product by the part that they play."""

from __future__ import annotations

from typing import NamedTuple

from schedule.analysis.uses import plain_store
from schedule.errors import require
from schedule.library.tensorized_roles import factors_of
from schedule.schedule import Schedule
from tensorir import Var, int_value


class Product(NamedTuple):
    """The loops of C[b, r, i, j] = sum of A[b, r, i, d, k] * B[b, d, k, j], axes in any order.

    outer   loops over what has no tile of its own: batches, and rows and columns but the last ones
    row     the last loop of the result that only one operand has
    column  the last one that only the other operand has, in which the result is contiguous if it
            is so in one of the two
    terms   loops of the sum but for `depth`, the last one
    order   all loops in the order of the block's variables
    dims    the axes of C that `row` and `column` are
    """

    outer: tuple[str, ...]
    row: str
    column: str
    terms: tuple[str, ...]
    depth: str
    order: tuple[str, ...]
    dims: tuple[int, int]


def product_of(sch: Schedule, block: str) -> Product:
    """The parts that the loops of a block play; refuses a block that is no product of matrices."""
    node = sch.state.block(block)
    factors, store = factors_of(node), plain_store(node)
    none = f"block {block!r} is no product of two matrices"
    require(factors is not None and store is not None, block, none)
    assert factors is not None and store is not None
    a, b = factors
    plain = all(isinstance(i, Var) for load in factors for i in load.indices)
    hint = "reindex what is read at other places than the block's own variables"
    require(plain, block, none, hint)
    hint = "compute a copy of it for one of the two"
    same = f"block {block!r} multiplies {a.buffer.name!r} with itself"
    require(a.buffer is not b.buffer, block, same, hint)
    names = {it.var: it.binding.name for it in node.iters if isinstance(it.binding, Var)}
    changed = f"the loops of block {block!r} were changed before"
    require(len(names) == len(node.iters), block, changed, "schedule the product first")
    empty = next((names[it.var] for it in node.iters if int_value(it.extent) == 0), None)
    idle = f"loop {empty!r} has no iterations"
    require(empty is None, block, idle, "leave the loops as they are")
    spatial = [v for v in store.indices if isinstance(v, Var)]
    sides = [
        [v for v in spatial if v in m.indices and v not in n.indices] for m, n in ((a, b), (b, a))
    ]
    depths = [it.var for it in node.reduced]
    shared = [v for v in depths if v in a.indices and v in b.indices]
    require(bool(sides[0] and sides[1] and shared), block, none)
    row, column = sorted((side[-1] for side in sides), key=spatial.index)
    depth = shared[-1]
    return Product(
        outer=tuple(names[v] for v in spatial if v not in (row, column)),
        row=names[row],
        column=names[column],
        terms=tuple(names[v] for v in depths if v is not depth),
        depth=names[depth],
        order=tuple(names[it.var] for it in node.iters),
        dims=(spatial.index(row), spatial.index(column)),
    )
