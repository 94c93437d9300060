"""Parts of what a block stores that many of its rows, or windows, have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tensorir import (
    Analyzer,
    BinOp,
    Block,
    Call,
    Cast,
    Expr,
    Load,
    Select,
    Store,
    Var,
    const,
    dtype,
    int_value,
    moved_together,
    substitute,
    variables,
    walk_exprs,
    walk_places,
)


def operations_written_out(value: Expr, var: Var, count: int) -> tuple[int, int]:
    """How many operations on data a value has, those that tell places of it too, and how many it
    has written out for each of `count` numbers of a variable, what these have in common once."""
    each = [Analyzer().simplify(substitute(value, {var: const(n)})) for n in range(count)]
    kinds = BinOp, Call, Cast, Select
    one, all_of = (
        len({e for v in values for e in walk_exprs(v) if isinstance(e, kinds) and e.has_loads})
        for values in ([value], each)
    )
    return one, all_of


def shared_parts(
    block: Block, lane: Var, least: int, size: Callable[[Expr], int]
) -> Iterator[tuple[Expr, list[int]]]:
    """The largest parts of a value with calls or quotients that are the same in `least` rows or
    more, by the `size` of extents, and where in it they are, as `cache_value` has it.

    They move with `lane`, others compilers keep out of the loop over lanes, and not with the
    outermost variable. What reads nothing is no such part, as each lane is known where vectors are
    written out; nor are narrow floats, which would be rounded when they are stored.
    """
    if not isinstance(block.body, Store):
        return
    long = [it for it in block.iters if int_value(it.extent) != 1]

    def is_shared(e: Expr) -> bool:
        moving, rows = variables(e), 1
        for it in long:
            rows *= 1 if it.var in moving else size(it.extent)
        if lane not in moving or long[0].var in moving or rows < least or not e.has_loads:
            return False
        return dtype.itemsize(e.dtype) >= 4 and any(map(_takes_long, walk_exprs(e, into=_is_value)))

    found = walk_places(block.body.value, into=lambda e: _is_value(e) and not is_shared(e))
    yield from ((part, list(place)) for part, place in found if is_shared(part))


def _is_value(e: Expr) -> bool:
    """Whether what an expression is made of are values, and not indices."""
    return not isinstance(e, Load)


def _takes_long(e: Expr) -> bool:
    return isinstance(e, Call) or isinstance(e, BinOp) and e.op == "/"


def is_filled(value: Expr) -> bool:
    """Whether a value is a copy, converted maybe, or a fill value: what is read decides neither
    which of them nor where."""
    if not isinstance(value, Select):
        return False
    sides = [s.a if isinstance(s, Cast) else s for s in (value.a, value.b)]
    copied = [isinstance(s, Load) and not any(i.has_loads for i in s.indices) for s in sides]
    plain = [not part.has_loads for part in (value.cond, *sides)]
    return plain[0] and (copied[0] and plain[2] or copied[1] and plain[1])


def filled_windows(block: Block) -> dict[Expr, tuple[int, ...]]:
    """The parts of what a block stores that are a copy or a fill value, the same one for several
    values of its variables, as in windows over what is padded; and where in the value they are."""
    if not isinstance(block.body, Store):
        return {}
    extents = {it.var: it.extent for it in block.iters}
    parts = walk_places(block.body.value, into=lambda e: not isinstance(e, Load))
    return {e: place for e, place in parts if is_filled(e) and moved_together(e, extents)}
