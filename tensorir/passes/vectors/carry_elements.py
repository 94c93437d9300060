"""carry_elements: what an iteration stores and the next ones read stays in a register meanwhile.

Steps of recurrences wait for each other: running sums and filters take an addition for each step
then, where a store that is read again takes three times as long. gcc has a pass for it that also
carries what windows share, and is turned off for that (`backends/c/flags.py`).

Source: scalar replacement, in Callahan, Carr and Kennedy, "Improving register allocation for
subscripted variables", 1990.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.facts.accesses import accesses
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import fresh_names, with_body
from tensorir.stmt import Alloc, For, ForKind, If, Seq, Stmt, Store, replace, seq
from tensorir.vector_expr import Ramp
from tensorir.visit import (
    loads,
    map_children,
    map_loads,
    map_own_exprs,
    stmt_exprs,
    substitute,
    walk,
)

FURTHEST = 4
"""Iterations that an element is carried through, at most."""

MOST = 16
"""Elements or vectors that a loop carries, at most: half of the registers."""

_Chain = tuple[Load, ...]
"""Loads of what a store put there one, two and so on iterations before."""


def carry_elements(func: PrimFunc) -> PrimFunc:
    """Keep in registers what a later iteration of an innermost loop reads.

    rewrite:
        for t in range(9):                       with alloc(carried, f32[2]):
            y[t + 1] = y[t] * 0.5 + x[t]             carried[1] = y[0]
                                          ->         for t in range(9):
                                                         carried[0] = carried[1] * 0.5 + x[t]
                                                         y[t + 1] = carried[0]
                                                         carried[1] = carried[0]

    What is read again some iterations after the next one passes through one register for each.
    Every register is read in the first iteration, whatever conditions hold, so that nothing is read
    ahead of the loop that the loop would not read. Requires that unroll and simplify ran.
    """
    loops = (s for s in walk(func.body) if isinstance(s, For))
    if all(_straight(loop) is None for loop in loops):
        return func
    analyzer = function_analyzer(func)
    fresh = fresh_names(func.body, [b.name for b in (*func.params, *func.buffers)])

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For):
            return map_children(stmt, visit)
        stores = _straight(stmt)
        if stores is None:
            return map_children(stmt, visit)
        chains = dict(_chains(stmt, stores, analyzer))
        return _carried(stmt, stores, chains, analyzer, fresh) if chains else stmt

    return with_body(func, visit(func.body))


@dataclass(frozen=True)
class _Place:
    """Where an access begins: terms, a constant, how far the next iteration is; and its lanes."""

    terms: frozenset[tuple[Expr, int]]
    at: int
    step: int
    lanes: int


def _straight(loop: For) -> tuple[Store, ...] | None:
    """The stores of a serial loop that does nothing else and reads what it writes."""
    body = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    if loop.kind is not ForKind.SERIAL or not all(isinstance(s, Store) for s in body):
        return None
    stores = tuple(s for s in body if isinstance(s, Store))
    written = {store.buffer for store in stores}
    read = (load.buffer in written for s in stores for e in stmt_exprs(s) for load in loads(e))
    return stores if any(read) else None


def _chains(
    loop: For, stores: Sequence[Store], analyzer: Analyzer
) -> Iterator[tuple[Store, _Chain]]:
    """Stores whose elements are read again before any other store changes them."""
    left = MOST
    read = {load: n for n, s in enumerate(stores) for e in stmt_exprs(s) for load in loads(e)}
    for buffer, found in accesses(loop.body).items():
        if dt.is_bool(buffer.dtype):
            continue
        places = {a.indices: _place(buffer, a.indices[0], loop.var, analyzer) for a in found}
        if any(place is None for place in places.values()):
            continue
        certain = {places[a.indices]: a for a in found if not a.is_write and not a.guards}
        for n, store in enumerate(stores):
            if store.buffer is not buffer:
                continue
            place = places[store.indices]
            others = [places[s.indices] for s in stores if s.buffer is buffer and s is not store]
            assert place is not None
            chain = list[Load]()
            for away in range(1, FURTHEST + 1):
                before = _Place(place.terms, place.at - away * place.step, place.step, place.lanes)
                if before not in certain or not _untouched(place, away, others):
                    break
                chain.append(Load(buffer, certain[before].indices))
            early = all(read[load] <= n for load in chain if load in read)
            if chain and early and len(chain) <= left:
                left -= len(chain)
                yield store, tuple(chain)


def _place(buffer: Buffer, index: Expr, var: Var, analyzer: Analyzer) -> _Place | None:
    """None where it is not known how far the next iteration is, or lanes are no neighbours."""
    lanes = dt.lanes(buffer.dtype)
    if isinstance(index, Ramp):
        lanes, first = index.lanes, index.base
        if dt.lanes(buffer.dtype) != 1 or int_value(index.stride) != 1:
            return None
        index = first
    if index.dtype != dt.INDEX or index.has_loads:
        return None
    form = analyzer.linear(index)
    if any(atom is not var and var in atom.variables for atom in form.terms):
        return None
    return _Place(frozenset(form.terms.items()), form.const, form.terms.get(var, 0), lanes)


def _untouched(place: _Place, away: int, others: Sequence[_Place | None]) -> bool:
    """Whether what is stored at `place` is there so many iterations later, and in those between:
    neither the next ones of this store change it nor the other ones."""
    if abs(place.step) < place.lanes:
        return False
    for other in others:
        if other is None or other.terms != place.terms:
            return False
        near = max(place.lanes, other.lanes)
        if any(abs(other.at + n * place.step - place.at) < near for n in range(away + 1)):
            return False
    return True


def _carried(
    loop: For, stores: Sequence[Store], chains: Mapping[Store, _Chain], analyzer: Analyzer,
    fresh: Callable[[str], str],
) -> Stmt:  # fmt: skip
    """The loop with registers for what it carries, which are filled ahead of it."""
    registers: dict[Load, Load] = {}
    lines: dict[Store, Buffer] = {}
    for store, chain in chains.items():
        shape = (const(len(chain) + 1),)
        lines[store] = Buffer(fresh(f"{store.buffer.name}_carried"), shape, chain[0].dtype, "local")
        registers.update({load: _at(lines[store], n + 1) for n, load in enumerate(chain)})
    memo: dict[Expr, Expr] = {}
    body = list[Stmt]()
    for store in stores:
        done = map_own_exprs(store, lambda e: map_loads(e, registers.get, memo))
        assert isinstance(done, Store)
        line = lines.get(store)
        if line is None:
            body.append(done)
            continue
        steps = [_at(line, n) for n in range(len(chains[store]) + 1)]
        body.append(_into(steps[0], done.value))
        body.append(Store(done.buffer, done.indices, steps[0]))
        body += [_into(to, one) for to, one in zip(steps[:0:-1], steps[-2::-1])]
    first = {loop.var: const(0)}
    filled = [_into(register, substitute(load, first)) for load, register in registers.items()]
    made = seq(*filled, replace(loop, body=seq(*body)))
    if not analyzer.prove(loop.extent > 0):
        made = If(loop.extent > 0, made)
    for line in lines.values():
        made = Alloc(line, made)
    return made


def _at(line: Buffer, n: int) -> Load:
    return Load(line, (const(n),))


def _into(register: Load, value: Expr) -> Store:
    return Store(register.buffer, register.indices, value)
