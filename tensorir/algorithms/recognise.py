"""Questions that recognisers ask of a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tensorir import dtype
from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.analysis.combiner import combiner_of, neutral
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer
from tensorir.expr import TRUE, BinOp, Const, Expr, Load, Select, Var, all_of, conjuncts, int_value
from tensorir.func import PrimFunc
from tensorir.parts import touched, users_in
from tensorir.stmt import Block, IterKind, Stmt, Store
from tensorir.tensorize.match import Mismatch
from tensorir.visit import blocks, loads, map_loads, stmt_exprs, walk


def require(condition: bool, reason: str) -> None:
    """Raise Mismatch with `reason` unless `condition` holds."""
    if not condition:
        raise Mismatch(reason)


def product_of_sum(block: Block) -> tuple[Store, Load, Load]:
    """The store of a block that sums products of two loads from 0 on, and those loads."""
    store, init = block.body, block.init
    what = f"block {block.name!r} is no sum of products of two tensors"
    require(isinstance(store, Store) and isinstance(init, Store), what)
    assert isinstance(store, Store) and isinstance(init, Store)
    value = store.value
    require(isinstance(value, BinOp) and value.op == "+", what)
    assert isinstance(value, BinOp)
    require(isinstance(init.value, Const) and init.value.value == 0, f"{what}, starting from 0")
    old = Load(store.buffer, store.indices)
    product = value.b if value.a is old else value.a
    require(value.a is old or value.b is old, what)
    require(isinstance(product, BinOp) and product.op == "*", what)
    assert isinstance(product, BinOp)
    a, b = product.a, product.b
    require(isinstance(a, Load) and isinstance(b, Load), what)
    assert isinstance(a, Load) and isinstance(b, Load)
    require(store.buffer not in (a.buffer, b.buffer), what)
    return store, a, b


@dataclass(frozen=True)
class Reduction:
    """A block that reduces `term` by `op`: the variables that it stores at, in the order of the
    indices, and the extents of these and of those that it reduces over."""

    op: str
    term: Expr
    store: Store
    own: tuple[Var, ...]
    spatial: Mapping[Var, Expr]
    reduced: Mapping[Var, Expr]


REDUCTIONS = {"+": "sum", "max": "max", "min": "min"}
"""What a `Reduction` may do, by its operation: the name in te."""


def reduce_by(op: str) -> Callable[..., Expr]:
    """The function of te that reduces by one of REDUCTIONS."""
    from tensorir import te

    return getattr(te, REDUCTIONS[op])  # type: ignore[no-any-return]


def reduction_of(block: Block, rounds: bool) -> Reduction:
    """What a block reduces, if that is a sum of floats, which `rounds`, or what does not; Mismatch
    for others. What is quick to see is asked first: the reductions of every program are tried."""
    found = combiner_of(block) if isinstance(block.body, Store) else None
    what = f"block {block.name!r} is no sum, maximum or minimum of one value"
    require(found is not None and len(found.ops) == 1 and block.predicate is TRUE, what)
    assert found is not None
    ((op,), (store,), (old,)) = found.ops, found.stores, found.old
    value = store.value
    sides = [value.a, value.b] if isinstance(value, BinOp) and value.op == op else []
    require(op in REDUCTIONS and old in sides, what)
    term = sides[1 - sides.index(old)]
    empty = found.start[0] is neutral(op, term.dtype)
    require(empty, f"block {block.name!r} starts from {found.start[0]!r}")
    floats = op == "+" and dtype.is_float(term.dtype)
    require(floats == rounds, f"block {block.name!r} is {'a' if floats else 'no'} sum of floats")
    spatial, reduced = (variables_of(block, k) for k in (IterKind.SPATIAL, IterKind.REDUCE))
    own = tuple(i for i in store.indices if isinstance(i, Var))
    apart = f"block {block.name!r} stores elsewhere than at its variables"
    require(len(own) == len(store.indices) and set(own) == set(spatial), apart)
    return Reduction(op, term, store, own, spatial, reduced)


def of_reductions(
    name: str,
    about: str,
    rounds: bool,
    recognise: Callable[[PrimFunc, Block, bool], Alternative],
    examples: Callable[[str], Sequence[tuple[PrimFunc, str]]],
    kinds: tuple[str, ...] | None = None,
) -> Algorithm:
    """An algorithm for what `reduction_of` takes: for sums of floats, in another order, if it
    `rounds`, else for what is the same in any order. Examples are made by a function of te."""
    return Algorithm(
        name=name,
        about=about,
        recognise=lambda func, block: recognise(func, block, rounds),
        examples=lambda: examples("sum" if rounds else "max"),
        numerics="reassociated" if rounds else "bitwise",
        preferred=True,
        kinds=kinds,
    )


def inputs_of(term: Expr) -> tuple[Buffer, ...]:
    """The buffers that a term reads, in the order of its text."""
    return tuple(dict.fromkeys(load.buffer for load in loads(term)))


def readers(func: PrimFunc, buffer: Buffer) -> list[str]:
    """The blocks that load from `buffer`, or lend it to an extern function."""

    def reads(stmt: Stmt) -> bool:
        lent = any(each is buffer and not write for each, _, write in touched(stmt))
        return lent or any(n.buffer is buffer for e in stmt_exprs(stmt) for n in loads(e))

    return [b.name for b in _users(func, buffer) if any(map(reads, walk(b)))]


def is_used(func: PrimFunc, buffer: Buffer, maker: Block) -> bool:
    """Whether `buffer` is a parameter, or another block than `maker` reads it."""
    return buffer in func.params or set(readers(func, buffer)) > {maker.name}


def variables_of(block: Block, kind: IterKind) -> dict[Var, Expr]:
    """The variables of one kind, with their extents."""
    return {it.var: it.extent for it in block.iters if it.kind is kind}


def same_index(a: Expr, b: Expr) -> bool:
    """Whether two index expressions are equal for all values of their variables."""
    return a is b or int_value(Analyzer().simplify(a - b)) == 0


def only_user(func: PrimFunc, buffer: Buffer, user: Block) -> bool:
    """Whether nothing but `user` reads an intermediate buffer."""
    return buffer in func.buffers and set(readers(func, buffer)) == {user.name}


def writers(func: PrimFunc, buffer: Buffer) -> list[Block]:
    """The blocks that store to `buffer`, or let an extern function do so."""

    def writes(stmt: Stmt) -> bool:
        return any(each is buffer and write for each, _, write in touched(stmt))

    return [b for b in _users(func, buffer) if any(map(writes, walk(b)))]


def _users(func: PrimFunc, buffer: Buffer) -> list[Block]:
    """The blocks of the nests that use a buffer."""
    return [block for nest in users_in(func.body).get(buffer, ()) for block in blocks(nest)]


def zero_padding(block: Block) -> tuple[Buffer, tuple[tuple[int, int], ...]] | None:
    """What a block copies with zeros around, and how many before and after each dimension. None
    where it does something else."""
    store = block.body
    plain = isinstance(store, Store) and block.init is None and block.predicate is TRUE
    if not plain or not isinstance(store, Store) or not isinstance(store.value, Select):
        return None
    choice, own = store.value, store.indices
    if not (isinstance(choice.a, Load) and isinstance(choice.b, Const) and choice.b.value == 0):
        return None
    source = choice.a
    extents = variables_of(block, IterKind.SPATIAL)
    if len(own) != len(source.indices) or set(own) != set(extents) or len(own) != len(extents):
        return None
    before = [int_value(Analyzer().simplify(i - j)) for i, j in zip(own, source.indices)]
    if any(step is None or step < 0 for step in before):
        return None
    pads = []
    for step, new, old in zip(before, store.buffer.shape, source.buffer.shape):
        after = int_value(Analyzer().simplify(new - old - (step or 0)))
        if after is None or after < 0:
            return None
        pads.append((step or 0, after))
    inside = [
        cond
        for var, size, (first, last) in zip(own, source.buffer.shape, pads)
        for cond in ([first <= var] if first else []) + ([var < size + first] if last else [])
    ]
    if not _equivalent(extents, conjuncts(choice.cond), inside):
        return None
    return source.buffer, tuple(pads)


def _equivalent(extents: dict[Var, Expr], a: list[Expr], b: list[Expr]) -> bool:
    """Whether two lists of conditions hold for the same values of the variables."""

    def follow(given: list[Expr], wanted: list[Expr]) -> bool:
        known = Analyzer(extents).assuming(all_of(*given))
        return all(known.prove(cond) for cond in wanted)

    return follow(a, b) and follow(b, a)


def plain_indices(e: Expr) -> Expr:
    """`e` with the indices of its loads simplified: equal ones are one object."""
    simplify = Analyzer().simplify
    return map_loads(e, lambda n: Load(n.buffer, tuple(simplify(i) for i in n.indices)), {})
