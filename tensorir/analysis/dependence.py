"""Whether iterations of a loop touch elements of each other.

Iterations of a loop are independent when every block below it feeds the loop into independent
(spatial) variables only, and every buffer that outlives an iteration is touched by each iteration
in places of its own. The second is proved on the digits of the index expressions: an index
`i_0 * 16 + i_1` with i_1 < 16 has the digit i_0 at position 16, so equal indices mean equal i_0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from tensorir.analysis.block_accesses import (
    BLOCKS,
    Access,
    asked,
    blocks_below,
    read,
    reduces,
    touches,
    written,
)
from tensorir.arith import Analyzer, Digit, Linear, decompose, determines
from tensorir.arith.digits import digit_parts, of_all_digits
from tensorir.buffer import Buffer
from tensorir.expr import BinOp, Const, Expr, Load, Var, const, int_value
from tensorir.stmt import Block, For, Stmt
from tensorir.visit import child_stmts, substitute, variables

LENT = 64
"""Loops of programs of which is kept what others use of what is inside."""


def conflict(
    found: list[Access], node: For, inner: Mapping[Var, Expr], analyzer: Analyzer
) -> str | None:
    """Why two iterations of `node` may touch one element in `found`, all accesses of a buffer;
    None if they do not."""
    if _at_most(node.extent, 1, analyzer):
        return None
    found = [a for a in found if not _never(a, inner, analyzer)]
    writes = [a for a in found if a.is_write]
    for write in writes:
        if _is_reduction_update(write, node):
            continue
        if not fixes(write, node.var, inner, analyzer):
            return (
                f"different iterations of loop {node.name!r} write the same elements of "
                f"{write.buffer.name!r} in block {write.block.name!r}"
            )
    for write in writes:
        for other in found:
            if same_place(other, write):
                continue
            if disjoint(write, other, inner, analyzer):
                continue
            if not same_slice(write, other, node, inner, analyzer):
                return (
                    f"an iteration of loop {node.name!r} may touch elements of "
                    f"{write.buffer.name!r} that another one writes: block {other.block.name!r} "
                    f"uses what block {write.block.name!r} writes"
                )
    return None


def _never(access: Access, inner: Mapping[Var, Expr], analyzer: Analyzer) -> bool:
    """Whether the place depends on a loop of `inner` that has no iterations."""
    named = [v for e in access.in_loops() for v in variables(e) if v in inner]
    return any([_at_most(inner[v], 0, analyzer) for v in named])


def _at_most(extent: Expr, most: int, analyzer: Analyzer) -> bool:
    """Whether an extent is a number, as `0 // n` is, and no larger than `most`."""
    size = int_value(extent if isinstance(extent, (Const, Var)) else analyzer.simplify(extent))
    return size is not None and size <= most


def fixes(
    write: Access,
    var: Var,
    inner: Mapping[Var, Expr],
    analyzer: Analyzer,
    limited: bool = True,
) -> bool:
    """Whether the place of `write` tells the value of `var`.

    The predicate holds in both iterations that are compared; it is seldom needed, and not asked
    unless `limited`.
    """
    indices = write.in_loops()
    if determines(indices, var, inner, analyzer):
        return True
    predicate = write.block.predicate
    if not limited or isinstance(predicate, Const):
        return False
    return determines(indices, var, inner, analyzer.assuming(predicate))


def carries(block: Block, buffer: Buffer) -> bool:
    """Whether the block reads a buffer that it writes at another place: a step of a scan."""
    return buffer in _passed_on(block)


def recurrent(block: Block) -> bool:
    """Whether the instances of a block pass data to each other, other than in a reduction."""
    return bool(_passed_on(block))


def _passed_on(block: Block) -> frozenset[Buffer]:
    own = [load.buffer for load in asked(block) if load.buffer in written(block)]
    return _carried(block.init, block.body).union(own)


@lru_cache(maxsize=BLOCKS)
def _carried(init: Stmt | None, body: Stmt) -> frozenset[Buffer]:
    """What a block of this init and body reads at other places than where it writes."""
    places: dict[Buffer, set[tuple[Expr, ...]]] = {}
    reads: list[tuple[Buffer, tuple[Expr, ...]]] = []
    for buffer, indices, is_write in touches(init, body):
        if is_write:
            places.setdefault(buffer, set()).add(indices)
        else:
            reads.append((buffer, indices))
    return frozenset([b for b, indices in reads if places.get(b, set()) - {indices}])


def belongs_to(buffer: Buffer, below: Iterable[Block], every: Iterable[Block]) -> bool:
    """Whether every access of an intermediate, by blocks of `every`, is by one of `below`.

    Its memory then belongs to one iteration of the loop above those blocks.
    """
    return buffer not in _lent(_said(below), _said(every))


def outliving(below: Iterable[Block], every: Iterable[Block]) -> list[Buffer]:
    """What blocks of `below` write that does not belong to them."""
    lent = _lent(_said(below), _said(every))
    return [b for b in dict.fromkeys([b for block in below for b in written(block)]) if b in lent]


_Said = tuple[str, Stmt | None, Stmt, tuple[Load, ...]]
"""What is left of a block wherever it stands: name, init, body, what is asked. Most stay."""


def _said(blocks: Iterable[Block]) -> tuple[_Said, ...]:
    return tuple([(block.name, block.init, block.body, asked(block)) for block in blocks])


@lru_cache(maxsize=LENT)
def _lent(below: tuple[_Said, ...], every: tuple[_Said, ...]) -> frozenset[Buffer]:
    """What blocks of `every` use that does not belong to those `below`: others use it too, or a
    later instance needs what one of them made."""
    own = frozenset(below)
    return frozenset([
        buffer
        for block in every
        for buffer in {*[b for b, _, _ in touches(*block[1:3])], *[x.buffer for x in block[3]]}
        if block not in own or buffer in _carried(*block[1:3])
    ])  # fmt: skip


def piped(loops: Iterable[For], buffer: Buffer) -> bool:
    """Whether one of `loops` is a pipeline that hands `buffer` from stage to stage.

    What an iteration writes is then read in a later one.
    """
    for loop in loops:
        stages = child_stmts(loop.body) if "pipeline" in loop.annotations else ()
        users = [s for s in stages if any(buffer in read(b) + written(b) for b in blocks_below(s))]
        if len(users) > 1:
            return True
    return False


def disjoint(a: Access, b: Access, inner: Mapping[Var, Expr], analyzer: Analyzer) -> bool:
    """Whether two accesses never touch one element while the loops outside stay where they are."""
    for left, right in zip(a.in_loops(), b.in_loops()):
        if variables(left).isdisjoint(inner) and variables(right).isdisjoint(inner):
            if int_value(analyzer.simplify(left - right)) not in (None, 0):
                return True
    return False


def _is_reduction_update(write: Access, node: For) -> bool:
    return reduces(write.block, node.var)


def same_place(a: Access, b: Access) -> bool:
    """Whether two accesses of one block are of the same element in each instance."""
    if a.block is not b.block:
        return False
    return len(a.indices) == len(b.indices) and all(x is y for x, y in zip(a.indices, b.indices))


def same_slice(
    a: Access,
    b: Access,
    node: For,
    inner: Mapping[Var, Expr],
    analyzer: Analyzer,
    other: For | None = None,
) -> bool:
    """Whether equal elements of the two accesses imply equal iterations of the loop.

    `other` is the loop of `b`, where it is not that of `a`: one of the same extent. So it is if
    there are digits of the loop that both places show; or if both are one function of their loops,
    whatever these are called, and it tells the loop.
    """
    theirs = (other or node).var
    own = a.in_loops(), b.in_loops(), node.var, node.extent, theirs
    key = same_slice, *own, *inner, *inner.values()
    found: bool | None = analyzer.remembered.get(key)  # asked again for each axis that is bound
    if found is None:
        found = analyzer.remembered[key] = _same_slice(a, b, node, inner, analyzer, theirs)
    return found


def _same_slice(
    a: Access, b: Access, node: For, inner: Mapping[Var, Expr], analyzer: Analyzer, theirs: Var
) -> bool:
    if _one_function(a, b, {theirs: node.var}, inner):
        if determines(a.in_loops(), node.var, inner, analyzer):  # whatever either predicate is
            return True
    shared: list[Digit] = []
    pairs = list(zip(a.in_loops(), b.in_loops()))
    for left, right in (*pairs, *of_all_digits(pairs)):
        shift = _shift(left, right, inner, analyzer)
        rows = [decompose(e, inner, analyzer) for e in (left, right)]
        if shift is None or rows[0] is None or rows[1] is None:
            continue
        shared += _told(rows[0][0], rows[1][0], node.var, theirs, shift)
    return _cover(shared, node)


def _one_function(
    a: Access, b: Access, known: Mapping[Var, Var], inner: Mapping[Var, Expr]
) -> bool:
    """Whether the place of `b` is that of `a` with other names for loops of `inner` of the same
    extents; `known` are such names."""
    names = dict(known)
    pairs = list(zip(a.in_loops(), b.in_loops(), strict=True))
    while pairs:
        mine, theirs = pairs.pop()
        if mine is theirs and (not mine.has_loads or variables(mine).isdisjoint(inner)):
            if any([names.setdefault(v, v) is not v for v in variables(mine) if v in inner]):
                return False
        elif isinstance(mine, Var) and isinstance(theirs, Var) and theirs in inner:
            if names.setdefault(theirs, mine) is not mine or mine not in inner:
                return False
            if inner[mine] is not inner[theirs]:
                return False
        elif not isinstance(mine, BinOp) or mine.has_loads or mine.op != getattr(theirs, "op", ""):
            return False
        else:
            pairs += zip(mine.operands, theirs.operands)
    return len(set(names.values())) == len(names)


def _shift(a: Expr, b: Expr, inner: Mapping[Var, Expr], analyzer: Analyzer) -> int | None:
    """How much more the first of two sums of digits of `inner` has in its rest, which loops outside
    may move; None where that is no number."""
    mine, theirs = _rest(analyzer.linear(a), inner), _rest(analyzer.linear(b), inner)
    if mine is not None and theirs is not None and mine[0] == theirs[0]:
        return mine[1] - theirs[1]
    start: dict[Var, Expr] = {var: const(0) for var in inner}
    return int_value(analyzer.simplify(substitute(a, start) - substitute(b, start)))


def _rest(form: Linear, inner: Mapping[Var, Expr]) -> tuple[dict[Expr, int], int] | None:
    """What is left of a sum where all variables of `inner` are zero, if only these and digits of
    them have any."""
    rest: dict[Expr, int] = {}
    for atom, factor in form.terms.items():
        if atom in inner:
            continue
        if variables(atom).isdisjoint(inner):
            rest[atom] = factor
        elif digit_parts(atom)[0] not in inner:
            return None
    return rest, form.const


def _told(
    left: Sequence[Digit], right: Sequence[Digit], mine: Var, theirs: Var, shift: int
) -> list[Digit]:
    """The digits of `mine` in a sum that are those of `theirs` in another one where both sums are
    equal, the first of which has `shift` added.

    What is below a digit must not make up for a difference of one in it, and what is above is a
    multiple of what the digit takes.
    """
    if all(d.scale < 0 for d in (*left, *right)):
        left, right, shift = _turned(left), _turned(right), -shift
    if any(d.scale < 0 for d in (*left, *right)):  # what is below could borrow from a digit
        return []
    found = []
    for digit in left:
        if digit.var is not mine:
            continue
        alike = [d for d in right if d.var is theirs and _place(d) == _place(digit)]
        if not alike:
            continue
        below = _below(left, digit), _below(right, alike[0])
        if below[0] is not None and below[1] is not None:
            if below[0] + shift < digit.scale and below[1] - shift < digit.scale:
                found.append(digit)
    return found


def _turned(digits: Sequence[Digit]) -> list[Digit]:
    """The digits of the sum with the other sign."""
    return [replace(d, scale=-d.scale) for d in digits]


def _place(digit: Digit) -> tuple[int, int | None, int]:
    """Which digit of its variable it is, and how far apart its values are in the sum."""
    return digit.divisor, digit.extent, digit.scale


def _below(digits: Sequence[Digit], digit: Digit) -> int | None:
    """The most that the digits below one of them add up to; None if it does not stand clear of the
    others."""
    reach = 0
    for d in digits:
        if d is digit:
            continue
        if d.scale < digit.scale:
            if d.extent is None:
                return None
            reach += d.scale * (d.extent - 1)
        elif not digit.extent or d.scale % (digit.scale * digit.extent):  # 0: of no iterations
            return None
    return reach


def _cover(digits: list[Digit], node: For) -> bool:
    """Whether the digits of the loop's variable, taken together, give back its value."""
    reached = 1
    for digit in sorted(digits, key=lambda d: d.divisor):
        if digit.divisor > reached:
            return False
        if digit.extent is None:
            return True
        reached = max(reached, digit.divisor * digit.extent)
    size = node.const_extent
    return size is not None and reached >= size
