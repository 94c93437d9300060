"""Running sums and the like in pieces: of one thread, of a block of threads, of all blocks.

The steps of a recurrence follow each other. Where its operation is associative each piece is
scanned by itself, the totals of pieces are scanned, and what comes before a piece is combined with
all of it (Blelloch, Prefix Sums and Their Applications, 1990). Here the piece of a thread has an
odd number of elements, so that threads read other banks of shared memory; the totals of threads are
scanned in steps that double what each has (Hillis and Steele, Data Parallel Algorithms, 1986), and
those of blocks by a scan again, of as many terms as there are blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.recognise import plain_indices, require, same_index, writers
from tensorir.algorithms.tuples import Row, RowTerms
from tensorir.analysis.combiner import neutral
from tensorir.arith import Analyzer
from tensorir.expr import BinOp, Expr, Load, Var, binary, const, int_value
from tensorir.func import PrimFunc
from tensorir.stmt import Block, IterKind, Store
from tensorir.te.tensor import Tensor
from tensorir.visit import blocks, loads, substitute, variables

THREADS = (256, 1024)
"""Pieces that are scanned together at the most."""

ELEMENTS = (5, 9, 17)
"""Elements of the piece of a thread: odd numbers."""

OPERATIONS = ("+", "*", "min", "max")

Index = Sequence[Expr]


@dataclass(frozen=True)
class _Scan:
    """y[0] = first and y[t] = op(y[t - 1], term at t) for t < count, of each row.

    terms  the term and the first value, of the time and the variables of a row
    alike  whether the first value is the term at 0
    place  the dimension of y that is the time
    """

    op: str
    count: int
    terms: RowTerms
    alike: bool
    place: int

    @property
    def rows(self) -> tuple[Expr, ...]:
        shape = self.terms.row.shape
        return (*shape[: self.place], *shape[self.place + 1 :])

    def at(self, t: Expr, row: Index, given: Sequence[Tensor]) -> Expr:
        """The value that enters at a time."""
        from tensorir import te

        (term, first), _ = self.terms.at((t, *row), given)
        return term if self.alike else te.if_then_else(t > 0, term, first)


def _recognise(func: PrimFunc, block: Block, threads: int, each: int) -> Alternative:
    made = writers(func, block.body.buffer) if isinstance(block.body, Store) else []
    what = f"block {block.name!r} is no step of a scan by {', '.join(OPERATIONS)}"
    require(len(made) == 2 and made[1] is block, what)
    order = [b.name for b in blocks(func.body)]
    apart = f"block {made[0].name!r} does not stand directly before block {block.name!r}"
    require(order.index(block.name) == order.index(made[0].name) + 1, apart)
    scan = _scan_of(made[0], block, what)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        return [_Pieces(scan, given, names[0], threads, each).result()]

    assert isinstance(block.body, Store)
    return Alternative((block.body.buffer,), scan.terms.inputs, compute, (made[0].name,))


def _scan_of(start: Block, step: Block, what: str) -> _Scan:
    """The scan of a block that makes the first row, and one that makes all others."""
    kinds = [it.kind for it in (*step.iters, *start.iters)]
    times = [it for it in step.iters if it.kind is IterKind.OPAQUE]
    require(kinds.count(IterKind.OPAQUE) == len(times) == 1 and IterKind.REDUCE not in kinds, what)
    require(start.init is None, what)
    (time,), store, first = times, _plain_store(step, what), _plain_store(start, what)
    value, shape, steps = store.value, store.buffer.shape, int_value(time.extent)
    require(isinstance(value, BinOp) and value.op in OPERATIONS, what)
    assert isinstance(value, BinOp)
    places = [n for n, index in enumerate(store.indices) if time.var in variables(index)]
    require(len(places) == 1 and same_index(store.indices[places[0]], time.var + 1), what)
    (place,) = places
    own = _variables_of_rows(step, store.indices, place, what)
    before = list(store.indices)
    before[place] = time.var
    old = [e for e in (value.a, value.b) if plain_indices(e) is Load(store.buffer, tuple(before))]
    require(len(old) == 1, what)
    term = value.b if value.a is old[0] else value.a
    require(not any(load.buffer is store.buffer for load in loads(term)), what)
    many = f"block {step.name!r} has a number of steps that is not known"
    require(steps is not None and int_value(shape[place]) == (steps or 0) + 1, many)
    require(int_value(first.indices[place]) == 0, what)
    known = dict(zip(_variables_of_rows(start, first.indices, place, what), own))
    t = Var("t")
    entering = plain_indices(substitute(term, {time.var: t - 1}))
    begun = plain_indices(substitute(first.value, known))
    alike = plain_indices(substitute(entering, {t: const(0)})) is begun
    terms = Row((t, *own), {}, shape).over(entering, begun)
    return _Scan(value.op, (steps or 0) + 1, terms, alike, place)


def _plain_store(block: Block, what: str) -> Store:
    """The only store of a block, its variables of one value being 0, but that of a time."""
    rows = (it for it in block.iters if it.kind is not IterKind.OPAQUE)
    units = {it.var: const(0) for it in rows if int_value(it.extent) == 1}
    require(isinstance(block.body, Store), what)
    assert isinstance(block.body, Store)
    value, simplify = substitute(block.body.value, units), Analyzer().simplify
    indices = tuple(simplify(substitute(index, units)) for index in block.body.indices)
    return Store(block.body.buffer, indices, value)


def _variables_of_rows(block: Block, indices: Index, place: int, what: str) -> list[Var]:
    """The variable of each dimension but that at `place`; those of one value have new ones."""
    wide = {it.var for it in block.iters if int_value(it.extent) != 1}
    rows = [index for n, index in enumerate(indices) if n != place]
    found = [index if isinstance(index, Var) else Var("unit") for index in rows]
    plain = all(isinstance(index, Var) or int_value(index) == 0 for index in rows)
    alone = len(set(found)) == len(found) and wide <= {*found, *variables(indices[place])}
    require(plain and alone, what)
    return found


class _Pieces:
    """The stages: `each` elements of a thread, up to so many `threads` together, `blocks` of those.

    Rows are one axis in all stages but the last, so that threads share any number of them.
    """

    def __init__(
        self, scan: _Scan, given: Sequence[Tensor], name: str, threads: int, each: int
    ) -> None:
        self.scan, self.given, self.name = scan, given, name
        self.each = min(each, scan.count + 1 - scan.count % 2)
        self.threads = 1
        while self.threads < threads and self.threads * self.each < scan.count:
            self.threads *= 2
        self.together = self.each * self.threads
        self.blocks = -(-scan.count // self.together)
        self.row = prod(scan.rows, start=const(1))

    def result(self) -> Tensor:
        from tensorir import te

        pieces = self._pieces(self._before() if self.blocks > 1 else None)
        totals, at = self._totals(pieces), self.scan.place

        def element(*i: Expr) -> Expr:
            t, row = i[at], self._flat((*i[:at], *i[at + 1 :]))
            block, place = t // self.together, t % self.together
            thread = place // self.each
            e: Expr = pieces[place % self.each, row, block, thread]
            if self.threads > 1:
                e = self._op(self._where(thread > 0, totals[row, block, thread - 1]), e)
            return e

        return te.compute(self.scan.terms.row.shape, element, self.name)  # type: ignore[no-any-return]

    def _op(self, a: Expr, b: Expr) -> Expr:
        return binary(self.scan.op, a, b)

    def _where(self, condition: Expr, e: Expr) -> Expr:
        """`e`, or what changes nothing where there is none."""
        from tensorir import te

        unit = neutral(self.scan.op, e.dtype)
        assert unit is not None
        return te.if_then_else(condition, e, unit)

    def _flat(self, i: Index) -> Expr:
        found: Expr = const(0)
        for index, size in zip(i, self.scan.rows):
            found = found * size + index
        return found

    def _index(self, row: Expr) -> list[Expr]:
        """The variables of a row by its number."""
        found: list[Expr] = []
        for size in self.scan.rows[:0:-1]:
            found.insert(0, row % size)
            row = row // size
        return [row, *found] if self.scan.rows else []

    def _entering(self, row: Expr, block: Expr, place: Expr) -> Expr:
        """What enters; behind the end of a row nothing does."""
        t = block * self.together + place
        term = self.scan.at(t, self._index(row), self.given)
        whole = self.blocks == 1 or self.scan.count % self.together == 0
        return term if whole else self._where(t < self.scan.count, term)

    def _scanned(self, shape: Index, name: str, term: Callable[..., Expr]) -> Tensor:
        """A scan of as many steps as `shape` begins with, of what `term` gives."""
        from tensorir import te

        kind = self.scan.terms.terms[0].dtype
        state = te.state(tuple(shape), kind, name=f"{name}_state")
        first = te.compute((1, *shape[1:]), term, f"{name}_first")
        step = te.compute(
            tuple(shape), lambda t, *i: self._op(state[(t - 1, *i)], term(t, *i)), f"{name}_step"
        )
        return te.scan(first, step, state, name=name)  # type: ignore[no-any-return]

    def _pieces(self, before: Tensor | None) -> Tensor:
        """The piece of each thread by itself; the first one of a block goes on from what is
        `before` it."""
        from tensorir import te

        length = min(self.scan.count, self.together)

        def entering(row: Expr, block: Expr, place: Expr) -> Expr:
            e = self._entering(row, block, place)
            if before is None:
                return e
            goes_on = te.all(place == 0, block > 0)
            return te.if_then_else(goes_on, self._op(before[block - 1, row], e), e)

        terms = te.compute((self.row, self.blocks, length), entering, f"{self.name}_terms")

        def term(n: Expr, row: Expr, block: Expr, thread: Expr) -> Expr:
            place = thread * self.each + n
            e: Expr = terms[row, block, place]
            return e if length == self.together else self._where(place < length, e)

        own = (const(self.each), self.row, const(self.blocks), const(self.threads))
        return self._scanned(own, f"{self.name}_pieces", term)

    def _totals(self, pieces: Tensor) -> Tensor:
        """Up to each thread of a block what its pieces are together."""
        from tensorir import te

        shape, length = (self.row, const(self.blocks), const(self.threads)), 1
        found: Tensor = te.compute(
            shape, lambda *i: pieces[(self.each - 1, *i)], f"{self.name}_upto_1"
        )
        while length < self.threads:

            def doubled(r: Expr, b: Expr, c: Expr, had: Tensor = found, n: int = length) -> Expr:
                return self._op(self._where(c >= n, had[r, b, c - n]), had[r, b, c])

            length *= 2
            found = te.compute(shape, doubled, f"{self.name}_upto_{length}")
        return found

    def _before(self) -> Tensor:
        """Up to each block what its elements are together."""
        from tensorir import te

        reducers: dict[str, Any] = {"+": te.sum, "*": te.prod, "min": te.min, "max": te.max}

        def total(row: Expr, block: Expr) -> Any:
            k = te.reduce_axis(self.together, name="k")
            return reducers[self.scan.op](self._entering(row, block, k), axis=k)

        sums = te.compute((self.row, self.blocks), total, f"{self.name}_sums")
        shape = (const(self.blocks), self.row)
        return self._scanned(shape, f"{self.name}_blocks", lambda b, row: sums[row, b])


def scan_algorithm(threads: int, each: int) -> Algorithm:
    """Scans of `each` elements by each of up to so many threads; a power of two, and odd."""
    return Algorithm(
        name=f"scan_{threads}x{each}",
        about=f"scans of {each} elements by each of {threads} threads, and of what these have",
        recognise=lambda func, block: _recognise(func, block, threads, each),
        examples=lambda: _examples(each),
        numerics="reassociated",
    )


def _examples(each: int) -> list[tuple[PrimFunc, str]]:
    from tensorir import ops, te

    x = te.placeholder((2, 4 * each - 1, 3), "float64", name="x")
    y = te.placeholder((5 * each,), "float64", name="y")
    made = [te.create_prim_func([x, ops.cumprod(x, axis)]) for axis in (1, 2)]
    return [(func, "step") for func in (*made, te.create_prim_func([y, ops.cumsum(y)]))]


SCANS = tuple(scan_algorithm(threads, each) for threads in THREADS for each in ELEMENTS)
