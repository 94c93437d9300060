"""Running an unscheduled function block by block, each on its whole domain at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tensorir.arrays import shape_of, size_of
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import TRUE, BinOp, Expr, Not, Var
from tensorir.func import PrimFunc
from tensorir.reference.exact import Array
from tensorir.reference.extern import run_extern
from tensorir.reference.folds import ArgFold, Fold, match_folds
from tensorir.reference.grid import Grid
from tensorir.reference.statements import run_statements
from tensorir.reference.unscheduled import (
    Steps,
    first_rows,
    in_order_of_loops,
    in_sequence,
    scan_steps,
    unscheduled_block,
)
from tensorir.rewrite.terms import with_terms
from tensorir.scalars import Number
from tensorir.stmt import Block, Extern, If, IterVar, Let, Seq, Stmt, Store
from tensorir.te.reducer import ALL, ANY, ARGMAX, ARGMIN, MAX, MIN, PROD, SUM
from tensorir.visit import variables, walk

GRID_LIMIT = 1 << 22
"""Points of a grid on which an expression is evaluated at once; 32 MiB per array."""

DOT_LIMIT = 1 << 24
"""Elements of an operand of a matrix product; 128 MiB."""

REDUCERS = {"+": SUM, "*": PROD, "max": MAX, "min": MIN, "or": ANY, "and": ALL}

Ranges = dict[Var, tuple[int, int]]


class Runner:
    """Evaluates one function with the numbers of `algebra`; `memory` holds all buffers."""

    def __init__(
        self, func: PrimFunc, algebra: Any, given: Mapping[Buffer, Any], sizes: Mapping[Var, Number]
    ) -> None:
        self.func = func
        self.algebra = algebra
        self.sizes = dict(sizes)
        """Symbolic sizes, scalars, and the step of the scan that runs."""
        self.in_outs = frozenset(func.in_outs)
        self.rows: dict[Buffer, tuple[Any, ...]] = {}
        """Where the running block writes."""
        self.memory: dict[Buffer, Any] = {
            b: given[b] if b in given else algebra.empty(shape_of(b, sizes), b.dtype)
            for b in (*func.params, *func.buffers)
        }

    def run(self) -> None:
        body = self.func.body
        for nest in body.stmts if isinstance(body, Seq) else (body,):
            steps = scan_steps(nest)
            if steps is None:
                block = unscheduled_block(nest, self.in_outs)
                if block is None:
                    run_statements(self, nest)
                elif in_sequence(block):
                    self.run_points(block, nest)
                else:
                    self.run_block(block)
            else:
                self.run_scan(steps)

    def run_scan(self, steps: Steps) -> None:
        for number in range(size_of(steps.loop.extent, self.sizes)):
            for block, time in steps.blocks:
                self.sizes[time] = number
                self.run_block(block)

    def run_block(self, block: Block) -> None:
        spatial = self.extents(block.spatial)
        limit = first_rows(block)
        if limit is not None:
            rows = block.iters[0].var
            spatial[rows] = max(0, min(spatial[rows], size_of(limit, self.sizes)))
        self.rows = self.places(block, spatial)
        reduced = self.extents(block.reduced)
        if 0 in spatial.values():
            return
        if isinstance(block.body, Extern):
            run_extern(block.body, self.memory, self.algebra, spatial, self.sizes)
            return
        if block.init is not None:
            self.execute(block.init, spatial, {})
        if block.init is None and not reduced:
            self.execute(block.body, spatial, {})
        elif 0 not in reduced.values():
            if block.init is None:
                self.weigh(math.prod(reduced.values()))
            self.reduce(block.body, spatial, reduced)

    def weigh(self, count: int) -> None:
        """Count in what the running block adds `count` terms to."""
        for buffer in self.rows:
            held = self.target(buffer)
            self.algebra.assign(held, self.algebra.weigh(held, buffer.dtype, count))

    def run_points(self, block: Block, nest: Stmt) -> None:
        """Run the instances of a block one by one, since they read each other's results."""
        extents = self.extents(it for it in block.iters)
        order = in_order_of_loops(nest, extents)
        known = dict(self.sizes)
        for point in itertools.product(*(range(extents[v]) for v in order)):
            here = dict(zip(order, point))
            self.sizes = {**known, **here}
            self.rows = self.places(block, {})
            reduces = [it.var for it in block.reduced]
            if block.init is not None and all(here[v] == 0 for v in reduces):
                self.execute(block.init, {}, {})
            self.execute(block.body, {}, {})
            if reduces:
                self.count_in(block, math.prod(extents[v] for v in reduces))
        self.sizes = known

    def count_in(self, block: Block, count: int) -> None:
        """After one of `count` terms was added to what a block writes, as they come: the sizes of
        all partial sums, twice, are no less than those of the terms, of which any order rounds."""
        for buffer in self.rows:
            held = self.target(buffer)
            for _ in range(2):
                self.algebra.assign(held, self.algebra.weigh(held, buffer.dtype, count))

    def places(self, block: Block, spatial: Mapping[Var, int]) -> dict[Buffer, tuple[Any, ...]]:
        """Where the stores of a block write, all `spatial` variables running."""
        return {
            store.buffer: tuple(self.place(i, spatial, {}) for i in store.indices)
            for part in (block.init, block.body)
            for store in (walk(part) if part is not None else ())
            if isinstance(store, Store)
        }

    def place(self, index: Expr, spatial: Mapping[Var, int], fixed: Mapping[Var, Any]) -> Any:
        """The numbers that an index takes: a variable, one plus a number, or a number."""
        moving = next((v for v in spatial if v in variables(index)), None)
        if moving is None:
            return self.number(index, fixed)
        start = size_of(index, {**self.sizes, moving: 0})
        return slice(start, start + spatial[moving])

    def number(self, e: Expr, fixed: Mapping[Var, Any] = MappingProxyType({})) -> int:
        """An index at one point; it may read memory."""
        if not e.has_loads and variables(e).isdisjoint(fixed):
            return size_of(e, self.sizes)
        found = self.grid({}, {}, fixed).evaluate(e)
        if not self.algebra.is_sure(found):
            raise TensorIRError(
                f"the place {e!r} in function {self.func.name!r} depends on how numbers are "
                "rounded, so its results are not determined"
            )
        return int(self.algebra.value(found))

    def truth(self, cond: Expr) -> tuple[bool, bool]:
        """Whether a condition holds at one point, and whether that is sure."""
        found = self.grid({}, {}, {}).evaluate(cond)
        return bool(self.algebra.value(found)), self.algebra.is_sure(found)

    def target(self, buffer: Buffer) -> Any:
        """The part of a buffer that the running block writes."""
        return self.algebra.part(self.memory[buffer], self.rows[buffer])

    def extents(self, iters: Iterator[IterVar] | Any) -> dict[Var, int]:
        return {it.var: size_of(it.extent, self.sizes) for it in iters}

    def grid(self, spatial: Mapping[Var, int], ranges: Ranges, fixed: Mapping[Var, Any]) -> Grid:
        """The spatial variables on the first dimensions, then the reduce variables of `ranges`."""
        axes = {v: (d, 0, n) for d, (v, n) in enumerate(spatial.items())}
        for v, (low, high) in ranges.items():
            axes[v] = (len(axes), low, high)
        return Grid(self.algebra, self.memory, len(axes), axes, {**self.sizes, **fixed})

    def execute(self, stmt: Stmt, spatial: Mapping[Var, int], fixed: Mapping[Var, Any]) -> None:
        """Run a statement at all spatial points, other variables being `fixed`."""
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                self.execute(part, spatial, fixed)
        elif isinstance(stmt, Let):
            value = self.grid(spatial, {}, fixed).evaluate(stmt.value)
            kept = self.algebra.map(np.array, value)  # a copy: the body may store to its origin
            self.execute(stmt.body, spatial, {**fixed, stmt.var: kept})
        elif isinstance(stmt, Store):
            value = self.grid(spatial, {}, fixed).evaluate(stmt.value)
            where = tuple(self.place(i, spatial, fixed) for i in stmt.indices)
            self.algebra.assign(self.algebra.part(self.memory[stmt.buffer], where), value)
        elif isinstance(stmt, If):
            self.choose(stmt, spatial, fixed)
        else:
            raise TensorIRError(
                f"the reference cannot run {type(stmt).__name__} in function {self.func.name!r}; "
                "use interpret"
            )

    def choose(self, stmt: If, spatial: Mapping[Var, int], fixed: Mapping[Var, Any]) -> None:
        """Both sides of an if, each at the points that are its own."""
        cond = Var(f"if{len(fixed)}", stmt.cond.dtype)
        value = self.grid(spatial, {}, fixed).evaluate(stmt.cond)
        inside = {**fixed, cond: self.algebra.map(np.array, value)}
        self.execute(with_terms(stmt.then, cond), spatial, inside)
        if stmt.orelse is not None:
            self.execute(with_terms(stmt.orelse, Not(cond)), spatial, inside)

    def reduce(self, body: Stmt, spatial: Mapping[Var, int], reduced: Mapping[Var, int]) -> None:
        folds = match_folds(body)
        if folds is None:
            for point in itertools.product(*(range(n) for n in reduced.values())):
                self.execute(body, spatial, dict(zip(reduced, point)))
            return
        for fold in folds:
            if isinstance(fold, Fold):
                self.start(fold, math.prod(reduced.values()))
            if isinstance(fold, ArgFold):
                self.run_arg(fold, spatial, reduced)
            elif _is_dot(fold):
                self.run_dot(fold, spatial, reduced)
            else:
                self.run_fold(fold, spatial, reduced)

    def start(self, fold: Fold, count: int) -> None:
        """What a reduction starts from takes part in its roundings, as the terms do."""
        held = self.target(fold.buffer)
        self.algebra.assign(held, self.algebra.start(fold.op, fold.source.dtype, held, count))

    def run_fold(self, fold: Fold, spatial: Mapping[Var, int], reduced: Mapping[Var, int]) -> None:
        count, points = math.prod(reduced.values()), math.prod(spatial.values())
        dtype = fold.source.dtype
        start = REDUCERS[fold.op].identity((dtype,))[0]
        for ranges in _chunks(reduced, lambda part: points * math.prod(part.values()), GRID_LIMIT):
            grid = self.grid(spatial, ranges, {})
            source = self.spread(self.masked(grid, fold.source, fold.cond, start), grid, ranges)
            axes = tuple(range(len(spatial), grid.rank))
            self.add(fold, self.algebra.fold(fold.op, dtype, source, axes, count), spatial)

    def run_dot(self, fold: Fold, spatial: Mapping[Var, int], reduced: Mapping[Var, int]) -> None:
        product = fold.source
        assert isinstance(product, BinOp)
        operands = [variables(product.a), variables(product.b)]

        def elements(part: Mapping[Var, int]) -> int:
            every = {**spatial, **part}
            return max(math.prod(n for v, n in every.items() if v in used) for used in operands)

        count = math.prod(reduced.values())
        for ranges in _chunks(reduced, elements, DOT_LIMIT):
            grid = self.grid(spatial, ranges, {})
            sizes = (*spatial.values(), *(high - low for low, high in ranges.values()))
            axes = tuple(range(len(spatial), grid.rank))
            a, b = grid.evaluate(product.a), grid.evaluate(product.b)
            self.add(fold, self.algebra.dot(product.dtype, a, b, sizes, axes, count), spatial)

    def run_arg(
        self, fold: ArgFold, spatial: Mapping[Var, int], reduced: Mapping[Var, int]
    ) -> None:
        reducer = ARGMAX if fold.op == "max" else ARGMIN
        dtypes = (fold.position.dtype, fold.source.dtype)
        last, worst = reducer.identity(dtypes)
        old, new = ([Var(f"{n}{k}", d) for k, d in enumerate(dtypes)] for n in ("old", "new"))
        merged = reducer.combine(tuple(old), tuple(new))
        points = math.prod(spatial.values())
        for ranges in _chunks(reduced, lambda part: points * math.prod(part.values()), GRID_LIMIT):
            grid = self.grid(spatial, ranges, {})
            source = self.spread(self.masked(grid, fold.source, fold.cond, worst), grid, ranges)
            place = self.spread(self.masked(grid, fold.position, fold.cond, last), grid, ranges)
            axes = tuple(range(len(spatial), grid.rank))
            found = self.algebra.arg(fold.op, source, place, axes)
            values: list[Any] = [self.target(fold.index), self.target(fold.value)]
            values += [self.drop_reduced(part, spatial) for part in found]
            fixed = dict(zip((*old, *new), values))
            results = [self.grid(spatial, {}, fixed).evaluate(e) for e in merged]
            for buffer, result in zip((fold.index, fold.value), results):
                self.algebra.assign(self.target(buffer), result)

    def masked(self, grid: Grid, e: Expr, cond: Expr, otherwise: Expr) -> Any:
        if cond is TRUE:
            return grid.evaluate(e)
        return self.algebra.select(grid.evaluate(cond), grid.evaluate(e), grid.evaluate(otherwise))

    def spread(self, a: Any, grid: Grid, ranges: Ranges) -> Any:
        """`a` broadcast along the reduce dimensions, where each element counts."""
        extents = tuple(high - low for low, high in ranges.values())

        def broadcast(x: Array) -> Array:
            x = x.reshape((1,) * (grid.rank - x.ndim) + x.shape)
            return np.broadcast_to(x, x.shape[: grid.rank - len(extents)] + extents)

        return self.algebra.map(broadcast, a)

    def drop_reduced(self, a: Any, spatial: Mapping[Var, int]) -> Any:
        return self.algebra.map(lambda x: x.reshape(x.shape[: len(spatial)]), a)

    def add(self, fold: Fold, part: Any, spatial: Mapping[Var, int]) -> None:
        """Merge the partial result `part`, of which the reduce dimensions have extent 1."""
        held = self.target(fold.buffer)
        part = self.drop_reduced(part, spatial)
        merged = self.algebra.merge(fold.op, fold.source.dtype, held, part)
        self.algebra.assign(held, merged)


def _is_dot(fold: Fold) -> bool:
    source = fold.source
    return fold.op == "+" and fold.cond is TRUE and isinstance(source, BinOp) and source.op == "*"


def _chunks(
    reduced: Mapping[Var, int], cost: Callable[[Mapping[Var, int]], int], limit: int
) -> Iterator[Ranges]:
    """Ranges of the reduce variables that cover them all, each of at most `limit` by `cost`."""
    part = dict(reduced)
    for var in sorted(reduced, key=lambda v: reduced[v]):
        needed = cost(part)
        if needed > limit:
            part[var] = max(1, part[var] * limit // needed)
    steps = [
        [(low, min(low + part[var], n)) for low in range(0, n, part[var])]
        for var, n in reduced.items()
    ]
    for ranges in itertools.product(*steps):
        yield dict(zip(reduced, ranges))
