"""Finding sums weighted by a softmax in a program, whatever stages they are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tensorir import dtype as dt
from tensorir.algorithms.recognise import (
    plain_indices,
    readers,
    require,
    same_index,
    variables_of,
    writers,
)
from tensorir.buffer import Buffer
from tensorir.expr import TRUE, BinOp, Call, Const, Expr, Load, Var, binary, const, int_value
from tensorir.func import PrimFunc
from tensorir.stmt import Block, IterKind, Store
from tensorir.visit import blocks, loads, map_loads, substitute, variables


@dataclass(frozen=True)
class Sum:
    """A reduction along one axis of terms by "+" or "max": `term` at the variables of the store and
    `axis`, which has so many values."""

    block: Block
    buffer: Buffer
    own: tuple[Var, ...]
    axis: Var
    size: Expr
    term: Expr


def _sum_of(block: Block, op: str) -> Sum | None:
    """What a block reduces by `op` along one axis; None where it does something else."""
    store, init = block.body, block.init
    reduced = variables_of(block, IterKind.REDUCE)
    if not isinstance(store, Store) or not isinstance(init, Store) or not reduced:
        return None
    value, old = store.value, Load(store.buffer, store.indices)
    start = 0.0 if op == "+" else float("-inf")
    begins = isinstance(init.value, Const) and init.value.value == start
    if not begins or not isinstance(value, BinOp) or value.op != op or block.predicate is not TRUE:
        return None
    own = tuple(i for i in store.indices if isinstance(i, Var))
    spatial = variables_of(block, IterKind.SPATIAL)
    if len(own) != len(store.indices) or set(own) != set(spatial) or len(set(own)) != len(own):
        return None
    if old not in {value.a, value.b} or not dt.is_float(store.buffer.dtype):
        return None
    term = value.b if value.a is old else value.a
    return Sum(block, store.buffer, own, *_along_one(reduced, term))


def _along_one(reduced: Mapping[Var, Expr], term: Expr) -> tuple[Var, Expr, Expr]:
    """The axis of a sum, so many values, and its term there: of several variables, those of one
    value aside, the axis that they are the parts of."""
    wide = {var: size for var, size in reduced.items() if int_value(size) != 1} or dict(reduced)
    values: dict[Var, Expr] = {var: const(0) for var in reduced if var not in wide}
    (axis, size), *inner = wide.items()
    if inner:
        axis = Var("_".join(var.name for var in wide))
        step: Expr = const(1)
        for var, extent in reversed(wide.items()):
            part = axis // step
            values[var] = part if var is next(iter(wide)) else part % extent
            step = step * extent
        size = step
    return axis, size, plain_indices(substitute(term, values)) if values else term


@dataclass
class _Stages:
    """Elementwise stages of a program, by what they compute; `seen` are those that were looked
    through."""

    func: PrimFunc
    seen: dict[str, Block] = field(default_factory=dict)

    def maker(self, buffer: Buffer) -> Block | None:
        """The only block that writes an intermediate."""
        made = writers(self.func, buffer) if buffer in self.func.buffers else []
        return made[0] if len(made) == 1 else None

    def value(self, load: Load) -> Expr | None:
        """What an element is computed as; None where it is a reduction, a parameter or the like."""
        block = self.maker(load.buffer)
        store = None if block is None else block.body
        if block is None or not isinstance(store, Store) or block.init is not None:
            return None
        if block.predicate is not TRUE or not all(isinstance(i, Var) for i in store.indices):
            return None
        if {it.kind for it in block.iters} != {IterKind.SPATIAL} or any(
            n.buffer is store.buffer for n in loads(store.value)
        ):
            return None
        self.seen[block.name] = block
        return substitute(store.value, dict(zip(store.indices, load.indices)))  # type: ignore[arg-type]

    def through(self, e: Expr, until: Buffer | None = None) -> Expr:
        """`e` with all loads of elementwise stages, but of one buffer, as what these compute."""

        def rule(load: Load) -> Expr | None:
            found = None if load.buffer is until else self.value(load)
            return None if found is None else self.through(found, until)

        return map_loads(e, rule, {})


def _factors(e: Expr) -> Iterator[tuple[str, Expr]]:
    """What a product is made of, with "*" or "/" for each."""
    if isinstance(e, BinOp) and e.op == "*":
        yield from _factors(e.a)
        yield from _factors(e.b)
    elif isinstance(e, BinOp) and e.op == "/":
        yield from _factors(e.a)
        yield "/", e.b
    else:
        yield "*", e


@dataclass(frozen=True)
class _Weight:
    """exp(x - top) of a row: the load of `top`, `x` along `axis`, and the maximum that top is."""

    x: Expr
    top: Load
    largest: Sum


def _weight(stages: _Stages, e: Expr, axis: Var, size: Expr) -> _Weight | None:
    """The weight that `e` is; None where it is something else."""
    if not isinstance(e, Call) or e.name != "exp":
        return None
    (power,) = e.args
    if not isinstance(power, BinOp) or power.op != "-" or not isinstance(power.b, Load):
        return None
    top = power.b
    block = stages.maker(top.buffer)
    largest = None if block is None else _sum_of(block, "max")
    if largest is None or not same_index(largest.size, size):
        return None
    values = {**dict(zip(largest.own, top.indices)), largest.axis: axis}
    wanted = substitute(largest.term, values)
    if plain_indices(power.a) is not plain_indices(wanted):
        before = dict(stages.seen)
        if plain_indices(stages.through(power.a)) is not plain_indices(stages.through(wanted)):
            return None
        stages.seen = before  # what both read may stay
    return _Weight(power.a, top, largest)


def _through_weight(
    stages: _Stages, e: Expr, axis: Var, size: Expr
) -> tuple[_Weight, list[tuple[str, Expr]]] | None:
    """The weight that is a factor of `e`, however many stages it comes through, and all other
    factors; None where there is none."""
    factors = list(_factors(e))
    for n, (op, factor) in enumerate(factors):
        rest = [*factors[:n], *factors[n + 1 :]]
        if op != "*" or axis not in variables(factor):
            continue
        if found := _weight(stages, factor, axis, size):
            return found, rest
        before = dict(stages.seen)
        made = stages.value(factor) if isinstance(factor, Load) else None
        inner = None if made is None else _through_weight(stages, made, axis, size)
        if inner is not None:
            return inner[0], [*inner[1], *rest]
        stages.seen = before
    return None


@dataclass(frozen=True)
class Weighted:
    """sum over an axis of weight * terms, times `scale`, an expression of the row and its total.

    total  the sum of the weights of a row where it is used, by a block that goes with the others
    """

    mixed: Sum
    weight: _Weight
    terms: Expr
    scale: Expr
    total: Sum | None
    used: bool
    gone: tuple[str, ...]


def weighted_sum(func: PrimFunc, block: Block) -> Weighted:
    what = f"block {block.name!r} is no sum of terms weighted by exp(x - largest x of a row)"
    mixed, stages = _sum_of(block, "+"), _Stages(func)
    require(mixed is not None, what)
    assert mixed is not None
    found = _through_weight(stages, mixed.term, mixed.axis, mixed.size)
    require(found is not None, what)
    assert found is not None
    weight, factors = found
    rows = [i for i in weight.top.indices if isinstance(i, Var)]
    plain = len(rows) == len(weight.top.indices) == len(set(rows)) and set(rows) <= set(mixed.own)
    require(plain and variables(weight.x) <= {*rows, mixed.axis}, f"{what}, a row for each {rows}")
    alike = {mixed.buffer.dtype, weight.x.dtype, weight.top.buffer.dtype}
    require(len(alike) == 1, f"{what}, all of one type: they are {', '.join(sorted(alike))}")
    total = next(filter(None, (_total(stages, weight, b) for b in blocks(func.body))), None)
    one: Expr = const(1, mixed.buffer.dtype)
    terms, scale = one, one
    for op, factor in factors:
        if mixed.axis in variables(factor):
            terms = binary(op, terms, factor) if terms is not one or op == "/" else factor
        else:
            known = stages.through(factor, None if total is None else total.buffer)
            scale = binary(op, scale, known) if scale is not one or op == "/" else known
    return _all_gone(func, stages, Weighted(mixed, weight, terms, scale, total, False, ()))


def _total(stages: _Stages, weight: _Weight, block: Block) -> Sum | None:
    """The sum of the weights of each row, if a block is that."""
    total = _sum_of(block, "+")
    if total is None or total.buffer.dtype != weight.top.buffer.dtype:
        return None
    before = dict(stages.seen)
    found = _through_weight(stages, total.term, total.axis, total.size)
    if found and not found[1] and found[0].top == Load(weight.top.buffer, total.own):
        return total
    stages.seen = before
    return None


def _all_gone(func: PrimFunc, stages: _Stages, w: Weighted) -> Weighted:
    """With the blocks that go; Mismatch where something else needs what they make."""
    mixed, total, largest = w.mixed, w.total, w.weight.largest
    order = [b.name for b in blocks(func.body)]
    made = {b.name: b.body.buffer for b in stages.seen.values() if isinstance(b.body, Store)}
    made |= {s.block.name: s.buffer for s in (largest, mixed, total) if s is not None}
    users = {name: set(readers(func, buffer)) for name, buffer in made.items()}
    ends = {mixed.block.name} | ({total.block.name} if total else set())
    gone = set(made)
    kept = {
        name
        for name in stages.seen
        if users[name] - gone and not any(name in users[other] for other in gone)
    }
    gone -= kept  # computed of nothing that goes, and others want it
    for name in gone - ends:
        others = ", ".join(sorted(users[name] - gone))
        require(not others, f"block {others} needs what {name!r} makes")
    used = False
    if total is not None:
        later = users[total.block.name] - gone
        used = bool(later) or total.buffer in func.params
        early = [n for n in later if order.index(n) < order.index(mixed.block.name)]
        require(not early, f"block {', '.join(early)} needs sums of weights too early")
    replaced = tuple(name for name in order if name in gone - {mixed.block.name})
    return replace(w, used=used, gone=replaced)
