"""Sums weighted by a softmax, block by block of their terms: no row of weights is kept.

The weights of a row are exp(x - top) where top is the largest x of the row, so all of a row has to
be known before its first weight is. Here the terms come in blocks, and what the blocks so far add
up to is corrected where the next one has a larger x:

    m' = max(m, largest x of the block)      s = exp(m - m')
    l' = l s + sum exp(x - m')               o' = o s + sum exp(x - m') v

(Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867; Dao et al.,
FlashAttention, arXiv:2205.14135). A row of -inf has no softmax: it is NaN here as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.recognise import require
from tensorir.algorithms.tuples import Row, RowTerms
from tensorir.algorithms.weighted import Weighted, weighted_sum
from tensorir.buffer import Buffer
from tensorir.expr import Expr, Load, Var, binary, const, int_value
from tensorir.func import PrimFunc
from tensorir.stmt import Block
from tensorir.te.tensor import Tensor
from tensorir.visit import map_loads, substitute, variables

SIZES = (32, 64)
"""Terms of a block; defaults have the most."""


def _recognise(func: PrimFunc, block: Block, size: int) -> Alternative:
    w = weighted_sum(func, block)
    count = int_value(w.mixed.size)
    few = f"rows of block {block.name!r} have {count} terms, which one block of {size} has room for"
    require(count is None or count > size, few)
    outputs = (w.total.buffer, w.mixed.buffer) if w.total and w.used else (w.mixed.buffer,)
    own = (w.total.buffer,) if w.total else ()
    every = RowTerms(Row((), {}, ()), (w.weight.x, w.terms, w.scale))
    inputs = tuple(b for b in every.inputs if b not in own)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        return _Blocks(w, dict(zip(inputs, given)), names, size).results()

    return Alternative(outputs, inputs, compute, w.gone)


class _Blocks:
    """The stages: blocks of so many terms, and what those so far add up to."""

    def __init__(
        self, w: Weighted, given: Mapping[Buffer, Tensor], names: Sequence[str], size: int
    ) -> None:
        self.w, self.given, self.names, self.size = w, given, names, size
        self.name = names[-1]
        self.count = w.mixed.size
        self.blocks = (self.count + (size - 1)) // size
        self.rows = tuple(w.weight.top.buffer.shape)
        self.kind = w.mixed.buffer.dtype
        self.row = tuple(v for v in w.weight.top.indices if isinstance(v, Var))
        self.places = [w.mixed.own.index(v) for v in self.row]

    def results(self) -> list[Tensor]:
        from tensorir import te

        top, total, mixed = self._scanned()
        last = self.blocks

        def lost(row: Sequence[Expr]) -> Expr:
            """0, or NaN in a row of -inf or with NaN or inf: the definition has no number there."""
            return top[(last, *row)] - top[(last, *row)]

        def sums(*i: Expr) -> Expr:
            return total[(last, *i)] + lost(i)

        def element(*i: Expr) -> Expr:
            _, *row = self._row(last, i)
            e: Expr = mixed[(last, *i)] + lost(row)
            known = dict(zip(self.w.mixed.own, i))
            if self.w.scale is const(1, self.kind):
                return e
            return e * self._read(self.w.scale, known, lambda n: sums(*n.indices))

        result = te.compute(self.w.mixed.buffer.shape, element, self.name)
        if len(self.names) == 1:
            return [result]
        return [te.compute(self.rows, sums, self.names[0]), result]

    def _read(
        self, e: Expr, values: Mapping[Var, Expr], total: Callable[[Load], Expr] | None = None
    ) -> Expr:
        """`e` at these values of the variables, of the tensors that are given."""

        def rule(load: Load) -> Expr:
            if load.buffer in self.given:
                return self.given[load.buffer][load.indices]
            assert total is not None
            return total(load)

        return map_loads(substitute(e, values), rule, {})

    def _label(self, part: str) -> str:
        return f"{self.name}_{part}"

    def _stage(self, part: str, shape: Sequence[Expr], element: Callable[..., Any]) -> Tensor:
        from tensorir import te

        return te.compute(tuple(shape), element, self._label(part))  # type: ignore[no-any-return]

    def _axis(self, part: str) -> Any:
        from tensorir import te

        return te.reduce_axis(self.size, name=self._label(part))

    def _scanned(self) -> tuple[Tensor, Tensor, Tensor]:
        """The largest x up to each block, and the sums of weights and of terms by them."""
        from tensorir import te

        rows, shape, steps = self.rows, self.w.mixed.buffer.shape, self.blocks + 1
        starts = (("total", rows, 0.0), ("sum", shape, 0.0), ("top", rows, float("-inf")))
        states = [
            te.state((steps, *own), self.kind, name=self._label(f"{part}_so_far"))
            for part, own, _ in starts
        ]
        first = [
            self._stage(f"no_{part}", (const(1), *own), lambda *i, e=e: te.const(e, self.kind))
            for part, own, e in starts
        ]
        totals, sums, tops = states
        x, most = self._entering()

        def top(t: Expr, *i: Expr) -> Expr:
            return te.max(tops[(t - 1, *i)], most[(t - 1, *i)])

        weight, shrink = self._weights(x, tops, top)
        added, block = self._added(weight)

        def total(t: Expr, *i: Expr) -> Expr:
            return totals[(t - 1, *i)] * shrink[(t, *i)] + added[(t, *i)]

        def sum_of(t: Expr, *i: Expr) -> Expr:
            return sums[(t - 1, *i)] * shrink[self._row(t, i)] + block[(t, *i)]

        updates = [
            self._stage("new_total", totals.shape, total),
            self._stage("new_sum", sums.shape, sum_of),
            self._stage("new_top", tops.shape, top),
        ]
        made = te.scan(first, updates, states, name=self._label("blocks"))
        return made[2], made[0], made[1]

    def _row(self, t: Expr, i: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where a row has its numbers of which a sum is element `i`."""
        return (t, *[i[n] for n in self.places])

    def _entering(self) -> tuple[Tensor, Tensor]:
        """x by blocks, -inf where there is none, and the largest one of each block."""
        from tensorir import te

        axis = self.w.mixed.axis

        def entering(t: Expr, *i: Expr) -> Expr:
            place = t * self.size + i[-1]
            e = self._read(self.w.weight.x, {**dict(zip(self.row, i)), axis: place})
            return self._within(place, e, -te.infinity(self.kind))

        shape, j = (self.blocks, *self.rows), self._axis("j")
        x = self._stage("x", (*shape, const(self.size)), entering)
        return x, self._stage("most", shape, lambda *i: te.max(x[(*i, j)], axis=j))

    def _weights(self, x: Tensor, tops: Tensor, top: Callable[..., Expr]) -> tuple[Tensor, Tensor]:
        """The weights of a block, and what those before it are to be multiplied by."""
        from tensorir import te

        shape, lowest = (self.blocks + 1, *self.rows), -te.infinity(self.kind)

        def finite(*i: Expr) -> Expr:
            """Where all so far are -inf, and the next block may have more, weights are 0."""
            return te.if_then_else(binary("==", top(*i), lowest), 0.0, top(*i))

        base = self._stage("base", shape, finite)

        def weight(t: Expr, *i: Expr) -> Expr:
            return te.exp(x[(t - 1, *i)] - base[(t, *i[:-1])])

        def shrink(t: Expr, *i: Expr) -> Expr:
            return te.exp(tops[(t - 1, *i)] - base[(t, *i)])

        before = self._stage("shrink", shape, shrink)
        return self._stage("weight", (*shape, const(self.size)), weight), before

    def _added(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of a block added up, and its terms by them."""
        from tensorir import te

        steps, k, r = self.blocks + 1, self._axis("k"), self._axis("r")

        terms = self._terms()

        def product(t: Expr, *i: Expr) -> Any:
            return te.sum(weight[(*self._row(t, i), r)] * terms(t - 1, i, r), axis=r)

        added = self._stage(
            "added", (steps, *self.rows), lambda *i: te.sum(weight[(*i, k)], axis=k)
        )
        return added, self._stage("block", (steps, *self.w.mixed.buffer.shape), product)

    def _terms(self) -> Callable[[Expr, Sequence[Expr], Expr], Expr]:
        """The terms of a block by its number, the element of the result and their place; made ahead
        where the last block has fewer, so that sums do not ask for each."""
        own, axis = self.w.mixed.own, self.w.mixed.axis

        def term(t: Expr, i: Mapping[Var, Expr], r: Expr) -> Expr:
            return self._read(self.w.terms, {**i, axis: t * self.size + r})

        used = variables(self.w.terms)
        if self._is_full or axis not in used:
            return lambda t, i, r: term(t, dict(zip(own, i)), r)
        rows = [v for v in own if v in used and v in self.row]
        other = [v for v in own if v in used and v not in self.row]
        sizes, first = dict(zip(own, self.w.mixed.buffer.shape)), len(rows)

        def filled(t: Expr, *i: Expr) -> Expr:
            before, r, after = i[:first], i[first], i[first + 1 :]
            e = term(t, dict(zip((*rows, *other), (*before, *after))), r)
            return self._within(t * self.size + r, e, const(0, self.kind))

        shape = (self.blocks, *map(sizes.get, rows), self.size, *map(sizes.get, other))
        made = self._stage("terms", shape, filled)  # type: ignore[arg-type]

        def read(t: Expr, i: Sequence[Expr], r: Expr) -> Expr:
            values = dict(zip(own, i))
            place = (t, *(values[v] for v in rows), r, *(values[v] for v in other))
            return made[place]

        return read

    @property
    def _is_full(self) -> bool:
        """Whether the last block has as many terms as the others."""
        count = int_value(self.count)
        return count is not None and count % self.size == 0

    def _within(self, place: Expr, e: Expr, otherwise: Expr) -> Expr:
        """`e` where there is a term, which the last block may have fewer of."""
        from tensorir import te

        if self._is_full:
            return e
        return te.if_then_else(place < self.count, e, otherwise)


def online_algorithm(size: int) -> Algorithm:
    """Sums weighted by a softmax in blocks of `size` terms."""
    return Algorithm(
        name=f"online_{size}",
        about=f"sums weighted by a softmax in blocks of {size} terms, which correct what is so far",
        recognise=lambda func, block: _recognise(func, block, size),
        examples=lambda: _examples(size),
        preferred=size == max(SIZES),
        kinds=("gpu",),
    )


def _examples(size: int) -> list[tuple[PrimFunc, str]]:
    from tensorir import ops, te

    q, k, v = (
        te.placeholder((1, 1, n, d), "float64", name=name)
        for name, n, d in (("q", 2, 3), ("k", 2 * size + 3, 3), ("v", 2 * size + 3, 2))
    )
    x = te.placeholder((2, size + 1), "float64", name="x")
    y = te.placeholder((size + 1, 3), "float64", name="y")
    weighted = ops.matmul(ops.softmax(x), y, name="weighted")
    return [
        (te.create_prim_func([q, k, v, ops.attention(q, k, v)]), "mixed"),
        (te.create_prim_func([x, y, weighted]), "weighted"),
    ]


ONLINE = tuple(online_algorithm(size) for size in SIZES)
