"""regroup: multiply the factors of a product in other groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from schedule.analysis.looked_for import looked_for
from schedule.analysis.numerics import REGROUPED
from schedule.analysis.products import products
from schedule.analysis.uses import written
from schedule.errors import require
from schedule.primitive import primitive
from schedule.state import State, replace_func
from tensorir import BinOp, Expr, Store, dtype, replace, transform


@primitive
def regroup(
    state: State, block: str, groups: Sequence[Sequence[int]], product: int = 0
) -> tuple[State, None]:
    """Multiply the factors of a product group by group, and then what the groups give.

    Factors are given by their positions in the text, from 0 on; they are multiplied in the order in
    which they are named. What a group gives is the same for all iterations of loops that none of
    its factors moves with, and is computed once for those that are unrolled or vectorized. Of
    several products of three or more factors in the value, `product` is the position of the one
    that is meant. Floating-point products round otherwise, and overflow otherwise on their way.

    rewrite:  regroup("C", [[0], [1, 2]])
        C[i, j] = C[i, j]                        C[i, j] = C[i, j]
            + A[i, k] * B[k, j] * s[k]     ->        + A[i, k] * (B[k, j] * s[k])

    requires:
        - the block stores one value
        - there is such a product in it, of three or more factors that do not read what the block
          writes, and of no int64, which must not overflow on the way
        - the groups have each of its factors once, and none is empty
        - the block is a sum of floats, or no block compares floats that are computed
          elsewhere with what is made of its result: these are rounded alike
    """
    node = state.block(block)
    store = node.body
    require(isinstance(store, Store), block, f"block {block!r} stores more than one value")
    assert isinstance(store, Store)
    found = products(store.value, written(node))
    require(
        0 <= product < len(found),
        block,
        f"the value {store.value!r} of block {block!r} has {len(found)} products of three or more "
        f"factors, and none at {product}",
    )
    meant = found[product]
    named = sorted(position for group in groups for position in group)
    require(
        named == list(range(len(meant.factors))) and all(groups),
        block,
        f"the groups {[list(group) for group in groups]} do not have each of the "
        f"{len(meant.factors)} factors of {meant.whole!r} once",
    )
    parts = [_product([meant.factors[position] for position in group]) for group in groups]
    made = _product(parts)
    if made is meant.whole:
        return state, None
    place = looked_for(state, block) if dtype.is_float(dtype.element(made.dtype)) else None
    require(
        place is None,
        block,
        f"block {place!r} compares with what is made of the result of block {block!r}, and "
        "would not find what is rounded otherwise",
    )
    value = transform(store.value, lambda e: made if e is meant.whole else None)
    return with_value(state, block, value, made.dtype), None


def with_value(state: State, block: str, value: Expr, of: str) -> State:
    """A block that stores its only value by other operations on numbers of the type `of`, which
    round otherwise where these are floats: then the function says so."""
    node = state.block(block)
    changed = state.replace(
        state.block_path(block), replace(node, body=replace(node.body, value=value))
    )
    if not dtype.is_float(dtype.element(of)):
        return changed
    marked = {**state.func.attrs, REGROUPED: True}
    return State(replace_func(changed.func, attrs=marked), changed)


def _product(factors: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: BinOp("*", a, b), factors)
