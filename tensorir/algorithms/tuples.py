"""Reductions of tuples, as te.argmax and te.comm_reducer make them, and rewriting their terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorir.algorithms.recognise import require, variables_of
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var
from tensorir.stmt import Block, IterKind, Let, Seq, Stmt, Store
from tensorir.visit import loads, map_loads, substitute, variables

if TYPE_CHECKING:
    from tensorir.te.axis import Axis
    from tensorir.te.reducer import Reducer
    from tensorir.te.tensor import Tensor


@dataclass(frozen=True)
class Row:
    """What a block reduces: its spatial variables in the order of its output, its reduce variables
    with their extents, and the shape of what it makes."""

    spatial: tuple[Var, ...]
    reduced: Mapping[Var, Expr]
    shape: tuple[Expr, ...]

    def over(self, *terms: Expr) -> RowTerms:
        return RowTerms(self, terms)


@dataclass(frozen=True)
class RowTerms:
    """Expressions of the variables of a block, to be written as tensor expressions."""

    row: Row
    terms: tuple[Expr, ...]

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The buffers that the terms read."""
        return tuple(dict.fromkeys(load.buffer for e in self.terms for load in loads(e)))

    def at(
        self, i: Sequence[Expr], given: Sequence[Tensor], prefix: str = "k"
    ) -> tuple[tuple[Expr, ...], list[Axis]]:
        """The terms at the spatial indices `i`, and the reduce axes that they run over.

        `given` are the tensors of `inputs`; the axes are new ones, named after `prefix`.
        """
        from tensorir import te

        sizes = enumerate(self.row.reduced.values())
        axes = [te.reduce_axis(size, name=f"{prefix}{n}") for n, size in sizes]
        values: dict[Var, Expr] = dict(zip(self.row.spatial, i))
        values.update(zip(self.row.reduced, axes))
        tensors = dict(zip(self.inputs, given))
        moved = [
            map_loads(substitute(e, values), lambda n: tensors[n.buffer][n.indices], {})
            for e in self.terms
        ]
        return tuple(moved), axes


@dataclass(frozen=True)
class TupleUpdate:
    """A reduction of tuples: variables that hold the old values, and the stores of the new."""

    old: tuple[Var, ...]
    stores: tuple[Store, ...]
    row: Row

    def is_of(self, reducer: Reducer, new: Sequence[Expr]) -> bool:
        """Whether the new values are what `reducer` makes of the old ones and `new`."""
        if any(set(self.old) & variables(e) for e in new):
            return False
        wanted = reducer.combine(self.old, tuple(new))
        return all(e is store.value for e, store in zip(wanted, self.stores))


def tuple_update(block: Block, reducer: Reducer, count: int, what: str) -> TupleUpdate:
    """The update of a block that starts from the identity of `reducer`; Mismatch, saying `what` it
    is not, if it reduces no tuples of `count` values or from something else on."""
    stmt: Stmt = block.body
    lets: list[Let] = []
    while isinstance(stmt, Let):
        lets.append(stmt)
        stmt = stmt.body
    stores = tuple(s for s in stmt.stmts if isinstance(s, Store)) if isinstance(stmt, Seq) else ()
    plain = isinstance(stmt, Seq) and len(stores) == len(stmt.stmts) == len(lets)
    require(plain and len(stores) == count, what)
    for let, store in zip(lets, stores):
        require(let.value is Load(store.buffer, store.indices), what)
        require(_same(store.indices, stores[0].indices), what)
    init = block.init.stmts if isinstance(block.init, Seq) else ()
    starts = {s.buffer: s.value for s in init if isinstance(s, Store)}
    first = reducer.identity(tuple(s.buffer.dtype for s in stores))
    require(all(starts.get(s.buffer) is e for s, e in zip(stores, first)), what)
    spatial = variables_of(block, IterKind.SPATIAL)
    own = tuple(i for i in stores[0].indices if isinstance(i, Var))
    require(len(own) == len(stores[0].indices) and set(own) == set(spatial), what)
    row = Row(own, variables_of(block, IterKind.REDUCE), stores[0].buffer.shape)
    return TupleUpdate(tuple(let.var for let in lets), stores, row)


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))
