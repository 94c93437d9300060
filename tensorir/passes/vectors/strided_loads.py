"""strided_loads: elements at small strides come from vectors of neighbours, and go to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tensorir import dtype as dt
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Const, Expr, Load, Select, int_value
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.passes.rewriting import with_body
from tensorir.passes.vectors.masked_tails import lanes_between
from tensorir.stmt import Alloc, Seq, Stmt, Store, replace, seq
from tensorir.vector_expr import Ramp, Shuffle
from tensorir.visit import (
    certain_loads,
    loads,
    map_children,
    map_own_exprs,
    stmt_exprs,
    transform,
    walk,
    walk_exprs,
)

LEAST = 4
"""Vectors of fewer lanes are gathered as fast."""

MOST_STRIDE = 8
"""Elements further apart than this are gathered: it would take that many vectors to hold them."""

FREE_BITS = 512
"""Vectors of which one instruction chooses any lanes of two (vpermt2 of AVX-512); of shorter ones
several instructions do."""


Span = tuple[Load, tuple[int, ...]]
"""Loads of one stride that lie in the same vectors of neighbours: the first of them, and how many
elements further on each begins."""

Piece = tuple[Expr, tuple[int, ...]]
"""A vector, and the place of the element in each of its lanes, as far as one is wanted."""


def _starts(span: Span) -> list[int]:
    """Where the vectors begin. The last one ends with the last element that is wanted."""
    first, offsets = span
    count, step = dt.lanes(first.dtype), _step(first.indices)
    end = (count - 1) * step + offsets[-1] + 1
    return [min(n * count, end - count) for n in range(step)]


def _pays(span: Span, free: bool) -> bool:
    """Whether vectors and shuffles are not more instructions than there are elements. Shuffles
    that take every other element are one (pack, unpack), others if they are `free`."""
    first, offsets = span
    step, each = _step(first.indices), 1 if free else 2 if dt.bits(first.dtype) >= 32 else 3
    return step + shuffles(step, offsets, each) <= len(offsets) * dt.lanes(first.dtype)


def shuffles(step: int, offsets: Collection[int], each: int = 1) -> int:
    """How many take the elements at `offsets`, and every so many from there on, out of `step`
    vectors; `each` counts for one that takes others than every other element."""
    count, classes = 0, 1
    while step % 2 == 0:
        step, classes = step // 2, classes * 2
        count += step * len({offset % classes for offset in offsets})
    return count + each * (step - 1) * len(offsets)


def strided_loads(func: PrimFunc, vector_bits: int = 128) -> PrimFunc:
    """Load every other element as two contiguous vectors and a shuffle; likewise every third one
    and so on, from as many vectors.

    rewrite:
        A[ramp(i, 2, 4)]       ->  shuffle(A[ramp(i, 1, 4)], A[ramp(i + 3, 1, 4)], 0, 2, 5, 7)

        B[...] = A[ramp(i, 2, 4)]          B[...] = shuffle(A[ramp(i, 1, 4)],
                                      ->                    A[ramp(i + 4, 1, 4)], 0, 2, 4, 6)
        C[...] = A[ramp(i + 1, 2, 4)]      C[...] = shuffle(... the same two ..., 1, 3, 5, 7)

        A[ramp(i, 3, 4)]       ->  shuffle(shuffle(A[ramp(i, 1, 4)], A[ramp(i + 4, 1, 4)],
                                                   0, 3, 6, 3), A[ramp(i + 6, 1, 4)], 0, 1, 2, 7)

    The last vector ends with the last element that is wanted, so nothing is read that lies
    outside of what was; loads of consecutive stores that lie in the same vectors share these, and
    those of an even stride the shuffles that halve it. The other way round, stores that fill a
    piece of memory are those of its vectors, for which lanes of theirs are interleaved, where
    vectors have FREE_BITS. Requires that vectorize and unroll ran.
    """
    free = vector_bits >= FREE_BITS
    stores = (s for s in walk(func.body) if isinstance(s, Store)) if free else ()
    roots = [e for stmt in walk(func.body) for e in stmt_exprs(stmt) if e.has_loads]
    seen = set[Expr]()
    if any(_step(store.indices) for store in stores) or any(
        isinstance(e, Load) and _strided(e) for r in roots for e in walk_exprs(r, seen)
    ):
        taken = {s.buffer.name for s in walk(func.body) if isinstance(s, Alloc)}
        names = Names({*taken, *(b.name for b in func.params)})
        return with_body(func, _Neighbours(free, names).stmt(func.body))
    return func


class _Neighbours:
    """Accesses of neighbours in place of strided ones."""

    def __init__(self, free: bool, names: Names) -> None:
        self.free, self.names = free, names

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store):
            return self.rewritten([stmt])[0]
        if not isinstance(stmt, Seq):
            return map_children(map_own_exprs(stmt, lambda e: self.split(e, {})), self.stmt)
        found: list[Stmt] = []
        run: list[Store] = []
        for child in stmt.stmts:
            if isinstance(child, Store):
                run.append(child)
                continue
            found += [*self.rewritten(run), self.stmt(child)]
            run = []
        found += self.rewritten(run)
        same = len(found) == len(stmt.stmts) and all(a is b for a, b in zip(found, stmt.stmts))
        return stmt if same else seq(*found)

    def rewritten(self, run: Sequence[Store]) -> list[Stmt]:
        spans, found, n = _spans(run), list[Stmt](), 0
        while n < len(run):
            step = _filling(run[n:]) if self.free else 0
            own = run[n : n + max(1, step)]
            mine = [map_own_exprs(s, lambda e: self.split(e, spans)) for s in own]
            found += self.filled([s for s in mine if isinstance(s, Store)]) if step else mine
            n += len(mine)
        return found

    def split(self, e: Expr, spans: dict[Load, tuple[Span, int]]) -> Expr:
        def rule(node: Expr) -> Expr | None:
            if not isinstance(node, Load) or not _strided(node):
                return None
            span, offset = spans.get(node) or ((node, (0,)), 0)
            return _picked(span, offset) if _pays(span, self.free) else None

        return transform(e, rule)

    def filled(self, stores: Sequence[Store]) -> list[Stmt]:
        """Stores that fill a piece of memory, as those of its vectors."""
        stores = sorted(stores, key=lambda store: _place(store.indices)[1])
        buffer, index = stores[0].buffer, stores[0].indices[0]
        assert isinstance(index, Ramp)
        lanes, one = index.lanes, Const(1, dt.INDEX)
        starts = [Const(n * lanes, dt.INDEX) for n in range(len(stores) + 1)]
        name = self.names.unique(f"{buffer.name}_parts")
        parts = Buffer(name, (starts[-1],), buffer.dtype, "local")
        ramps = [Ramp(start, one, lanes) for start in starts[:-1]]
        before = [replace(s, buffer=parts, indices=(r,)) for s, r in zip(stores, ramps)]
        made = interleaved([[Load(parts, (ramp,))] for ramp in ramps])
        after = [
            Store(buffer, (Ramp(index.base + start, one, lanes),), value)
            for start, value in zip(starts, made)
        ]
        return [Alloc(parts, seq(*before, *after))]


def _filling(run: Sequence[Store]) -> int:
    """How many stores from the first one on fill a piece of memory together, each every so many
    elements of it, and read nothing of it; 0 for none."""
    first, step = run[0], _step(run[0].indices)
    mine, lanes = run[:step], dt.lanes(run[0].indices[0].dtype)
    alike = all(
        store.buffer is first.buffer
        and _step(store.indices) == step
        and dt.lanes(store.indices[0].dtype) == lanes
        and not any(load.buffer is first.buffer for load in loads(store.value))
        for store in mine
    )
    if len(mine) < max(2, step) or not alike or dt.is_bool(first.buffer.dtype):
        return 0
    places = [_place(store.indices) for store in mine]
    base, low = min(places, key=lambda place: place[1])
    return step if set(places) == {(base, low + n) for n in range(step)} else 0


def interleaved(rows: Sequence[Sequence[Expr]]) -> list[Expr]:
    """The vectors of a sequence of which each row, of as many vectors, has every so many elements:
    rows that are half of all apart are interleaved until their number is odd."""
    half, lanes = len(rows) // 2, dt.lanes(rows[0][0].dtype)
    if len(rows) == 1:
        return list(rows[0])
    if len(rows) % 2 == 0:
        return interleaved([
            [
                Shuffle(a, b, tuple(n // 2 + start + n % 2 * lanes for n in range(lanes)))
                for a, b in zip(rows[row], rows[row + half])
                for start in (0, lanes // 2)
            ]
            for row in range(half)
        ])
    found: list[Expr] = []
    for vectors in zip(*rows):
        for start in range(0, len(rows) * lanes, lanes):
            made, places = vectors[0], [divmod(start + n, len(rows)) for n in range(lanes)]
            for row, vector in enumerate(vectors[1:], 1):
                old = [place if row == 1 else n for n, (place, _) in enumerate(places)]
                chosen = [lanes + p if r == row else o for o, (p, r) in zip(old, places)]
                made = Shuffle(made, vector, tuple(chosen))
            found.append(made)
    return found


def _strided(load: Load) -> bool:
    known = dt.lanes(load.buffer.dtype) == 1 and not dt.is_bool(load.dtype)
    return known and _step(load.indices) > 0


def _step(indices: Sequence[Expr]) -> int:
    """How far apart neighbours of a vector of elements lie, where that is near; else 0."""
    index = indices[0]
    if len(indices) != 1 or not isinstance(index, Ramp) or index.lanes < LEAST or index.lanes % 2:
        return 0
    step = int_value(index.stride) or 0
    return step if 2 <= step <= min(MOST_STRIDE, index.lanes) else 0


def _picked(span: Span, offset: int) -> Expr:
    """The elements of the load that begins `offset` elements further on than the first one."""
    first, _ = span
    count, step, apart = dt.lanes(first.dtype), _step(first.indices), 1
    pieces: list[Piece] = [
        (_vector(first, start), tuple(range(start, start + count))) for start in _starts(span)
    ]
    while len(pieces) % 2 == 0:
        apart *= 2
        pairs = zip(pieces[::2], pieces[1::2])
        pieces = [_joined(a, b, offset % apart, apart, count) for a, b in pairs]
    found = pieces[0]
    for piece in pieces[1:]:
        found = _joined(found, piece, offset, step, count)
    return found[0]


def _joined(a: Piece, b: Piece, offset: int, step: int, count: int) -> Piece:
    """Of the places of two pieces those of `offset` and every so many, in order."""
    lanes = {place: count + lane for lane, place in enumerate(b[1])}
    lanes |= {place: lane for lane, place in enumerate(a[1])}
    places = [place for place in sorted(lanes) if place % step == offset % step][:count]
    chosen = [*(lanes[p] for p in places), *range(len(places), count)]
    return Shuffle(a[0], b[0], tuple(chosen)), tuple(places)


def some_lanes(load: Load, low: Expr, high: Expr, none: Expr) -> Expr:
    """The lanes [low, high) of a load of neighbours or of every other element, else `none`."""
    count, index = dt.lanes(load.dtype), load.indices[0]
    assert isinstance(index, Ramp)
    if int_value(index.stride) == 1:
        return _between(load, low, high, none)
    parts = [
        _between(_vector(load, start), low * 2 - start, high * 2 - 1 - start, none)
        for start in (0, count)
    ]
    return Shuffle(parts[0], parts[1], tuple(range(0, 2 * count, 2)))


def _between(load: Load, low: Expr, high: Expr, none: Expr) -> Expr:
    """The lanes [low, high) of a load of neighbours, else `none`."""
    count, first, end = dt.lanes(load.dtype), int_value(low), int_value(high)
    if first is None or end is None:
        return Select(lanes_between(low, high, count), load, none)
    first, end = max(0, first), min(count, end)
    if first >= end:
        return none
    whole = (first, end) == (0, count)
    return load if whole else Select(lanes_between(first, end, count), load, none)


def _vector(load: Load, offset: int) -> Load:
    index = load.indices[0]
    assert isinstance(index, Ramp)
    one = Const(1, index.base.dtype)
    return Load(load.buffer, (Ramp(index.base + offset, one, index.lanes),))


def _spans(run: Sequence[Store]) -> dict[Load, tuple[Span, int]]:
    """Of loads that are made whatever the conditions, those that share vectors, with how far each
    is from the first one."""
    places: dict[tuple[object, Expr, int, int], dict[int, Load]] = {}
    for store in run:
        for root in (*store.indices, store.value):
            for load in certain_loads(root):
                if _strided(load):
                    base, offset = _place(load.indices)
                    key = (load.buffer, base, _step(load.indices), dt.lanes(load.dtype))
                    places.setdefault(key, {})[offset] = load
    found: dict[Load, tuple[Span, int]] = {}
    for (_, _, step, _), members in places.items():
        rest = sorted(members)
        while rest:
            near = [offset for offset in rest if offset < rest[0] + step]
            span = members[near[0]], tuple(offset - near[0] for offset in near)
            found |= {members[n]: (span, n - near[0]) for n in near}
            rest = rest[len(near) :]
    return found


def _place(indices: Sequence[Expr]) -> tuple[Expr, int]:
    """Where a vector begins: a variable part, and a constant."""
    index = indices[0]
    assert isinstance(index, Ramp)
    base = Analyzer().simplify(index.base)
    if isinstance(base, BinOp) and base.op in ("+", "-"):
        constant = int_value(base.b)
        if constant is not None:
            return base.a, constant if base.op == "+" else -constant
    constant = int_value(base)
    return (base, 0) if constant is None else (Const(0, base.dtype), constant)
