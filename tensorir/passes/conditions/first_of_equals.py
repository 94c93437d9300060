"""first_of_equals: extremes whose places come in ascending order compare values alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import inf

from tensorir import dtype as dt
from tensorir.analysis.comparisons import OtherThanComparisons, same, samples, truth
from tensorir.arith import Analyzer
from tensorir.expr import (
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Select,
    Var,
    any_of,
    binary,
    conjuncts,
    const,
    int_value,
    select,
)
from tensorir.func import PrimFunc
from tensorir.parts import touched
from tensorir.passes.rewriting import NOTHING, fresh_names, replace_stmts, with_body
from tensorir.rewrite.reduction import reduction_loop, split_init
from tensorir.stmt import Block, For, ForKind, Let, Seq, Stmt, Store, replace, seq
from tensorir.visit import (
    child_stmts,
    loads,
    stmt_exprs,
    substitute,
    variables,
    walk,
    walk_exprs,
)

IN_TURN = (ForKind.SERIAL, ForKind.UNROLLED)


def first_of_equals(func: PrimFunc) -> PrimFunc:
    """Of a reduction that keeps the first of equal values, compare no places that come in order.

    rewrite:
        place[i], best[i] = 2147483647, -inf       place[i], best[i] = i * 8, -inf
        for k in range(8):                         for k in range(8):
            j, b = place[i], best[i]                   j, b = place[i], best[i]
            n, x = i * 8 + k, A[i * 8 + k]             n, x = i * 8 + k, A[i * 8 + k]
            keep = x < b or (x == b and j <= n)  ->    keep = x <= b
            place[i] = select(keep, j, n)              place[i] = select(keep, j, n)
            best[i] = select(keep, b, x)               best[i] = select(keep, b, x)

    Where a reduction starts from the least finite number, which nothing replaces that is -inf, it
    starts from -inf, and what was found nowhere is the least finite number in the end. What
    conditions amount to is asked of all ways in which values, NaN among them, can be to each other:
    they do nothing but compare these.
    """
    fresh, body = fresh_names(func.body), func.body
    for name in [block.name for block, _ in _reductions(body, ())]:
        block, loops = next(found for found in _reductions(body, ()) if found[0].name == name)
        found = _found(block, loops)
        if found is None:
            continue
        anchor = reduction_loop(loops, block) or block
        if _others_touch(anchor, block):
            continue
        new, last = found
        made = [replace_stmts(anchor, {block: new})]
        if last is not None:
            ends = replace(block, name=f"{name}_last", init=last)
            inside = replace_stmts(anchor, {block: ends})
            made.append(split_init(inside, ends, fresh)[0])  # type: ignore[arg-type]
        body = replace_stmts(body, {anchor: seq(*made)})
    return with_body(func, body)


def _others_touch(anchor: Stmt, block: Block) -> bool:
    """Whether what lies beside a block in a loop sees what it has found so far."""
    own = {buffer for s in walk(block.body) for buffer, _, write in touched(s) if write}
    rest = [s for s in walk(replace_stmts(anchor, {block: NOTHING}))]
    read = {load.buffer for s in rest for e in stmt_exprs(s) for load in loads(e)}
    return not own.isdisjoint(read.union(b for s in rest for b, _, _ in touched(s)))


def _reductions(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[Block, tuple[For, ...]]]:
    """The blocks with an init, each with the loops around it in the block that it is in."""
    if isinstance(stmt, Block):
        if stmt.init is not None:
            yield stmt, loops
        loops = ()
    inside = (*loops, stmt) if isinstance(stmt, For) else loops
    for child in child_stmts(stmt):
        yield from _reductions(child, inside)


_Found = tuple[Block, Stmt | None]
"""A block that compares values alone, and what is done to its results in the end, if anything."""


class _Update:
    """What a block does that keeps old values where `keep`, and stores new ones elsewhere: it
    begins with `starts`."""

    def __init__(
        self,
        old: Sequence[Var],
        new: Sequence[Expr],
        keep: Expr,
        stores: Sequence[Store],
        starts: Sequence[Const],
    ) -> None:
        self.old, self.new, self.keep, self.stores, self.starts = old, new, keep, stores, starts


def _found(block: Block, loops: tuple[For, ...]) -> _Found | None:
    update = _update(block)
    if update is None:
        return None
    used = set(walk_exprs(update.keep))
    compared = [n for n, old in enumerate(update.old) if old in used]
    places = [n for n in compared if _ascends(update, n, block, loops)]
    if len(compared) != 2 or len(places) != 1:
        return None
    (place,), (value,) = places, [n for n in compared if n not in places]
    return _by_values(update, block, place, value)


def _update(block: Block) -> _Update | None:
    stmt, lets = block.body, list[Let]()
    while isinstance(stmt, Let):
        lets.append(stmt)
        stmt = stmt.body
    stores = tuple(s for s in stmt.stmts if isinstance(s, Store)) if isinstance(stmt, Seq) else ()
    first = block.init.stmts if isinstance(block.init, Seq) else ()
    starts = {s.buffer: s.value for s in first if isinstance(s, Store)}
    if len(stores) < 2 or not len(stores) == len(lets) == len(starts) == len(first):
        return None
    olds, new, keeps, begun = {let.var for let in lets}, list[Expr](), set[Expr](), list[Const]()
    for let, store in zip(lets, stores):
        choice, start = store.value, starts.get(store.buffer)
        same = let.value is Load(store.buffer, store.indices)
        if not same or not isinstance(choice, Select) or not isinstance(start, Const):
            return None
        keeps.add(choice.cond if choice.a is let.var else Not(choice.cond))
        kept, other = (choice.a, choice.b) if choice.a is let.var else (choice.b, choice.a)
        if kept is not let.var or variables(other) & olds:
            return None
        new.append(other)
        begun.append(start)
    if len(keeps) != 1:
        return None
    return _Update([let.var for let in lets], new, keeps.pop(), stores, begun)


def _ascends(update: _Update, place: int, block: Block, loops: tuple[For, ...]) -> bool:
    """Whether an integer is larger for each term than for those before it, and is never what it
    starts from; and whether there is a first term."""
    own = {v for it in block.reduced for v in variables(it.binding)}
    terms = [(loop, int_value(loop.extent)) for loop in loops if loop.var in own]
    if any(loop.kind not in IN_TURN or not size for loop, size in terms):
        return False
    if any(variables(it.binding) & own for it in block.spatial):
        return False
    ranges = Analyzer({loop.var: loop.extent for loop in loops})
    first = {loop.var: const(0) for loop, _ in terms}
    bindings = {it.var: it.binding for it in block.iters}
    for condition in conjuncts(substitute(block.predicate, bindings)):
        if variables(condition) & own and not ranges.prove(substitute(condition, first)):
            return False
    e = substitute(update.new[place], bindings)
    low, high = ranges.bounds(e)
    start = update.starts[place].value
    if (
        not dt.is_int(e.dtype)
        or low is None
        or high is None
        or not (start < 0 <= low or start > high)
    ):
        return False
    while isinstance(e, Cast):
        low, high = ranges.bounds(e.a)
        least, most = dt.int_limits(e.dtype)
        if not dt.is_int(e.a.dtype) or low is None or high is None or low < least or high > most:
            return False
        e = e.a
    steps, reach = ranges.linear(e).terms, 0
    if any(variables(atom) & own and atom not in own for atom in steps):
        return False
    for loop, size in reversed(terms):
        assert size is not None
        step = steps.get(loop.var, 0)
        if size > 1 and step <= reach:
            return False
        reach += step * (size - 1)
    return True


def _by_values(update: _Update, block: Block, place: int, value: int) -> _Found | None:
    """The update by values alone, if there is one that does the same where places ascend."""
    old, new, start = update.old[value], update.new[value], update.starts[value]
    values, begun = samples(old.dtype), update.starts[place].value

    def kept(keep: Expr, a: float, b: float, at: int = 0) -> bool:
        return truth(keep, {update.old[place]: at, update.new[place]: 1, old: a, new: b})

    pairs = [*product(values, repeat=2)]
    try:
        wanted = [kept(update.keep, a, b) for a, b in pairs]
        nothing = -1 if begun < 0 else 2  # to a term's place of 1
        unmoved = {b: kept(update.keep, start.value, b, nothing) for b in (*values, start.value)}
    except OtherThanComparisons:
        return None
    ways = [binary(op, *pair) for pair in ((new, old), (old, new)) for op in ("<=", "<")]
    if dt.is_float(old.dtype):
        ways += [any_of(way, Call("isnan", (old,), "bool")) for way in ways]
    keep = next((w for w in ways if [kept(w, a, b) for a, b in pairs] == wanted), None)
    if keep is None:
        return None
    stores = [
        replace(store, value=select(keep, was, now))
        for store, was, now in zip(update.stores, update.old, update.new)
    ]

    def begins(e: float) -> bool:
        return all(kept(keep, e, b) == stays for b, stays in unmoved.items())

    if begins(start.value):
        return _with(block, update, stores, value, start), None
    if not any(unmoved.values()):  # the first term is taken whatever it is
        alike = all(same(start.value, b) for b in unmoved if kept(keep, start.value, b))
        if len(stores) > 2 or not alike:
            return None
        at_first = _first_place(update.new[place], block)
        if at_first is None:
            return None
        return _with(block, update, stores, place, at_first), None
    ends = (-inf, inf) if dt.is_float(old.dtype) else ()
    far = next(filter(begins, ends), None)
    if far is None:
        return None
    nowhere = binary("==", _read(update.stores[place]), update.starts[place])
    result = update.stores[value]
    last = replace(result, value=select(nowhere, start, _read(result)))
    return _with(block, update, stores, value, const(far, old.dtype)), last


def _with(block: Block, update: _Update, stores: list[Store], at: int, start: Expr) -> Block:
    """The block with other stores, one of which begins with `start`."""
    body: Stmt = Seq(tuple(stores))
    for old, store in reversed([*zip(update.old, update.stores)]):
        body = Let(old, _read(store), body)
    starts = [*update.starts[:at], start, *update.starts[at + 1 :]]
    init = Seq(tuple(replace(s, value=e) for s, e in zip(update.stores, starts)))
    return replace(block, body=body, init=init)


def _read(store: Store) -> Expr:
    return Load(store.buffer, store.indices)


def _first_place(place: Expr, block: Block) -> Expr | None:
    """The place of the first term, of the results' variables alone."""
    first: dict[Var, Expr] = {}
    for it in block.reduced:
        zeros = {v: const(0) for v in variables(it.binding)}
        first[it.var] = Analyzer().simplify(substitute(it.binding, zeros))
    known = all(isinstance(e, Const) for e in first.values())
    return Analyzer().simplify(substitute(place, first)) if known else None
