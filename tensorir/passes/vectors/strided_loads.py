"""strided_loads: elements at small strides come from vectors of neighbours, and go to them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Load
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.passes.rewriting import with_body
from tensorir.passes.vectors.strides import (
    filling,
    interleaved,
    neighbours,
    place_of,
    step_of,
)
from tensorir.stmt import Alloc, Let, Seq, Stmt, Store, replace, seq
from tensorir.vector_expr import Ramp, Shuffle
from tensorir.visit import (
    certain_loads,
    child_stmts,
    map_children,
    map_own_exprs,
    stmt_exprs,
    transform,
    walk,
    walk_exprs,
)

FREE_BITS = 512
"""Vectors of which one instruction chooses any lanes of two (vpermt2 of AVX-512); of shorter ones
several instructions do."""


NARROWEST = 16
"""Bits of the elements that it chooses in all processors with such vectors."""

Span = tuple[Load, tuple[int, ...], int]
"""Loads of one stride that lie in the same vectors of neighbours: the first of them, how many
elements further on each begins, and where the last vector ends."""

Spans = Mapping[Load, tuple[Span, int]]
"""Those of loads that share vectors, with how far each is from the first one."""

STRAIGHT = (Alloc, Let)
"""Statements whose bodies run whenever they do."""

Piece = tuple[Expr, tuple[int, ...]]
"""A vector, and the place of the element in each of its lanes, as far as one is wanted."""


def _starts(span: Span) -> list[int]:
    """Where the vectors begin: as many as elements are apart, and one more for windows."""
    first, _, end = span
    count = dt.lanes(first.dtype)
    return [min(n * count, end - count) for n in range(-(-end // count))]


def _pays(span: Span, free: bool) -> bool:
    """Whether vectors and shuffles are not more instructions than there are elements. Shuffles
    that take every other element are one (pack, unpack), others if they are `free`."""
    first, offsets, _ = span
    step, each = step_of(first.indices), 1 if free else 2 if dt.bits(first.dtype) >= 32 else 3
    moved = sum(offset >= step for offset in offsets)
    count = shuffles(step, {offset % step for offset in offsets}, each) + moved
    return len(_starts(span)) + count <= len(offsets) * dt.lanes(first.dtype)


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

        B[...] = A[ramp(i, 2, 4)]          B[...] = shuffle(... two vectors ..., 0, 2, 4, 6)
        C[...] = A[ramp(i + 2, 2, 4)]  ->  C[...] = shuffle(that of B, A[ramp(i + 5, 1, 4)],
                                                            1, 2, 3, 7)

    The last vector ends with the last element that is wanted, so nothing is read that lies
    outside of what was; loads that lie in the same vectors, and are made under the same conditions,
    share these, and those of an even stride the shuffles that halve it. Where vectors have
    FREE_BITS, windows that overlap are moved on by some lanes of what the first ones read, and
    stores that fill a piece of memory are those of its vectors, for which lanes of theirs are
    interleaved. Requires that vectorize and unroll ran.
    """
    free = vector_bits >= FREE_BITS
    stores = (s for s in walk(func.body) if isinstance(s, Store)) if free else ()
    roots = [e for stmt in walk(func.body) for e in stmt_exprs(stmt) if e.has_loads]
    seen = set[Expr]()
    if any(step_of(store.indices) for store in stores) or any(
        isinstance(e, Load) and _strided(e) for r in roots for e in walk_exprs(r, seen)
    ):
        taken = {s.buffer.name for s in walk(func.body) if isinstance(s, Alloc)}
        names = Names({*taken, *(b.name for b in func.params)})
        return with_body(func, _Neighbours(free, names).region(func.body))
    return func


class _Neighbours:
    """Accesses of neighbours in place of strided ones."""

    def __init__(self, free: bool, names: Names) -> None:
        self.free, self.names = free, names

    def region(self, stmt: Stmt) -> Stmt:
        """What runs as a whole or not at all, but for the loops and branches in it."""
        return self.stmt(stmt, _spans(_exprs(stmt), self.free))

    def stmt(self, stmt: Stmt, spans: Spans) -> Stmt:
        if isinstance(stmt, Store):
            return self.rewritten([stmt], spans)[0]
        if not isinstance(stmt, Seq):
            inside = isinstance(stmt, STRAIGHT)
            own = map_own_exprs(stmt, lambda e: self.split(e, spans if inside else {}))
            below = (lambda child: self.stmt(child, spans)) if inside else self.region
            return map_children(own, below)
        found: list[Stmt] = []
        run: list[Store] = []
        for child in stmt.stmts:
            if isinstance(child, Store):
                run.append(child)
                continue
            found += [*self.rewritten(run, spans), self.stmt(child, spans)]
            run = []
        found += self.rewritten(run, spans)
        same = len(found) == len(stmt.stmts) and all(a is b for a, b in zip(found, stmt.stmts))
        return stmt if same else seq(*found)

    def rewritten(self, run: Sequence[Store], spans: Spans) -> list[Stmt]:
        found, n = list[Stmt](), 0
        while n < len(run):
            step = filling(run[n:]) if self.free else 0
            own = run[n : n + max(1, step)]
            mine = [map_own_exprs(s, lambda e: self.split(e, spans)) for s in own]
            found += self.filled([s for s in mine if isinstance(s, Store)]) if step else mine
            n += len(mine)
        return found

    def split(self, e: Expr, spans: Spans) -> Expr:
        def rule(node: Expr) -> Expr | None:
            if not isinstance(node, Load) or not _strided(node):
                return None
            span, offset = spans.get(node) or ((node, (0,), _end(node, 0)), 0)
            return _picked(span, offset) if _pays(span, self.free) else None

        return transform(e, rule)

    def filled(self, stores: Sequence[Store]) -> list[Stmt]:
        """Stores that fill a piece of memory, as those of its vectors."""
        stores = sorted(stores, key=lambda store: place_of(store.indices)[1])
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


def _strided(load: Load) -> bool:
    known = dt.lanes(load.buffer.dtype) == 1 and not dt.is_bool(load.dtype)
    return known and step_of(load.indices) > 0


def _end(load: Load, offset: int) -> int:
    """Where the elements of a load end that begins at such an offset."""
    return (dt.lanes(load.dtype) - 1) * step_of(load.indices) + offset + 1


def _picked(span: Span, offset: int) -> Expr:
    """The elements of the load that begins `offset` elements further on than the first one."""
    first = span[0]
    count, step, apart = dt.lanes(first.dtype), step_of(first.indices), 1
    vectors: list[Piece] = [
        (neighbours(first, start), tuple(range(start, start + count))) for start in _starts(span)
    ]
    pieces, beyond = vectors[:step], vectors[step:]
    while len(pieces) % 2 == 0:
        apart *= 2
        pairs = zip(pieces[::2], pieces[1::2])
        pieces = [_joined(a, b, offset % apart, apart, count) for a, b in pairs]
    found = pieces[0]
    for piece in pieces[1:]:
        found = _joined(found, piece, offset % step, step, count)
    for piece in beyond if offset >= step else ():
        found = _joined(found, piece, offset, step, count)
    return found[0]


def _joined(a: Piece, b: Piece, offset: int, step: int, count: int) -> Piece:
    """Of the places of two pieces `offset` and every so many from there on."""
    lanes = {place: count + lane for lane, place in enumerate(b[1])}
    lanes |= {place: lane for lane, place in enumerate(a[1])}
    all_places = range(offset, max(lanes) + 1, step)
    places = [place for place in all_places if place in lanes][:count]
    chosen = [*(lanes[p] for p in places), *range(len(places), count)]
    return Shuffle(a[0], b[0], tuple(chosen)), tuple(places)


def _exprs(stmt: Stmt) -> Iterator[Expr]:
    """What a statement computes, whatever the conditions."""
    if isinstance(stmt, (Store, Let)):
        yield from stmt_exprs(stmt)
    if isinstance(stmt, (Seq, *STRAIGHT)):
        for child in child_stmts(stmt):
            yield from _exprs(child)


def _spans(exprs: Iterable[Expr], free: bool) -> Spans:
    """Of loads that are made whatever the conditions, those that share vectors: what begins before
    the second element of the first one, and if shuffles are `free` what one more vector has."""
    places: dict[tuple[Buffer, Expr, int, int], dict[int, Load]] = {}
    for root in exprs:
        for load in certain_loads(root):
            if _strided(load):
                base, offset = place_of(load.indices)
                key = (load.buffer, base, step_of(load.indices), dt.lanes(load.dtype))
                places.setdefault(key, {})[offset] = load
    found: dict[Load, tuple[Span, int]] = {}
    for (buffer, _, step, count), members in places.items():
        wide = free and dt.bits(buffer.dtype) >= NARROWEST
        rest = sorted(members)
        while rest:
            near = [n for n in rest if n < rest[0] + step + (count if wide else 0)]
            first, last = near[0], near[-1]
            end = _end(members[first], last - first)
            if last >= first + step and first + count * step in members:
                end = count * (step + 1)  # the vector that the next ones begin with
            span = members[first], tuple(offset - first for offset in near), end
            found |= {members[n]: (span, n - first) for n in near}
            rest = rest[len(near) :]
    return found
