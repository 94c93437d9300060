"""shift: the iterations of a loop begin later, by what loops around it say."""

from __future__ import annotations

from schedule.analysis.uses import blocks_below, feeds
from schedule.errors import Illegal, require
from schedule.primitive import primitive
from schedule.rewrite.rebind import plain_loop, rebind
from schedule.state import LoopRef, State, chain_below
from tensorir import (
    Analyzer,
    Expr,
    For,
    IterKind,
    TensorIRError,
    Var,
    all_of,
    binary,
    const,
    variables,
)


@primitive
def shift(state: State, loop: str, by: int | str) -> tuple[State, LoopRef]:
    """Begin the iterations of `loop` at `by` instead of at 0, and leave out those before it.

    `by` is a number, or the text of an expression of loops around `loop` and of sizes. Where rows
    of memory have a length that is no multiple of a vector or of a sector, each begins somewhere
    else in one: shifted by what the row begins behind such a border, `"i * 13 % 4"` for rows of 13
    elements, parts of 4 iterations that `split` makes lie between borders in every row. The loop
    gets as many more iterations as `by` can be at the most; they are predicated away.

    rewrite:  shift("j", "i * 13 % 4")
        for i, j in grid(3, 13):    for i, j_shifted in grid(3, 16):
            with block("B"):   ->       with block("B"):
                vj = spatial(13, j)         vj = spatial(13, j_shifted - i * 13 % 4)
                ...                         where(j_shifted - i * 13 % 4 in [0, 13))
                                            ...

    requires:
        - `loop` is serial and carries no annotation
        - `by` is an integer expression of loops around `loop` and of sizes
        - `by` is not negative, and there is a number that it never exceeds
        - blocks below have elements along `loop`, not terms or steps; nor have they terms or steps
          along a loop that `by` speaks of
    """
    node = state.loop(loop)
    plain_loop(node, "shift it first, and annotate it then")
    outside = state.loops_outside(loop)
    analyzer = state.analyzer(outside)
    amount = analyzer.simplify(_amount(state, by, outside, node.name))
    most = _most(amount, analyzer, by, node.name)
    _along_elements(node, {node.var, *(f.var for f in outside if f.var in variables(amount))})
    name = state.fresh_loop(f"{node.name}_shifted")
    extent = node.const_extent
    longer = node.extent + most if extent is None else const(extent + most)
    made = For(Var(name), analyzer.simplify(longer), node.body)
    value = made.var - amount
    guard = all_of(binary("<=", const(0), value), value < node.extent)
    around = state.analyzer([*outside, made, *chain_below(node)])
    body = rebind(node.body, {node.var: value}, guard, around)
    new = state.replace(state.loop_path(loop), For(made.var, made.extent, body))
    return new, LoopRef(name)


def _amount(state: State, by: int | str, outside: list[For], where: str) -> Expr:
    """What `by` says, of the loops around and of the sizes of the function."""
    if isinstance(by, int):
        return const(by)
    names = {v.name: v for v in (*state.func.size_vars, *(f.var for f in outside))}
    from tensorir import parse_expr  # kernels are made without a parser

    try:
        amount = parse_expr(by, names)
    except TensorIRError as error:
        reason = str(error).splitlines()[0]
        known = f"it may speak of {', '.join(sorted(names)) or 'numbers'}"
        raise Illegal(where, f"by={by!r} cannot be read: {reason}", known) from None
    require(amount.dtype == "int64", where, f"by={by!r} is no integer, but {amount.dtype}")
    return amount


def _most(amount: Expr, analyzer: Analyzer, by: int | str, where: str) -> int:
    low, high = analyzer.bounds(amount)
    hint = "a remainder has bounds, as in 'i * n % 8'"
    require(low is not None and low >= 0, where, f"by={by!r} may be negative", hint)
    require(high is not None, where, f"by={by!r} has no known largest value", hint)
    assert high is not None
    return max(high, 0)  # a loop around of no iterations has none of either


def _along_elements(node: For, used: set[Var]) -> None:
    """Bindings tell which loops are those of a reduction or a scan, and would name the others."""
    for block in blocks_below(node):
        for var in sorted(used, key=lambda v: v.name):
            kinds = feeds(block, var) - {IterKind.SPATIAL}
            require(
                not kinds,
                node.name,
                f"block {block.name!r} has terms or steps along loop {var.name!r}, which tells "
                "what belongs to one sum",
                "shift the loop of a copy of what it reads (cache_read)",
            )
