"""Whether iterations of a loop touch elements of each other.

Iterations of a loop are independent when every block below it feeds the loop into independent
(spatial) variables only, and every buffer that outlives an iteration is touched by each iteration
in places of its own. The second is proved on the digits of the index expressions: an index
`i_0 * 16 + i_1` with i_1 < 16 has the digit i_0 at position 16, so equal indices mean equal i_0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from tensorir.arith import Analyzer, Digit, Linear, decompose, determines
from tensorir.block_accesses import BLOCKS, Access, blocks_below, read, reduces, touches, written
from tensorir.buffer import Buffer
from tensorir.expr import Const, Expr, Var, const, int_value
from tensorir.stmt import Block, For, Stmt
from tensorir.visit import child_stmts, substitute, variables


def conflict(
    found: list[Access], node: For, inner: Mapping[Var, Expr], analyzer: Analyzer
) -> str | None:
    """Why two iterations of `node` may touch one element in `found`, all accesses of a buffer;
    None if they do not."""
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


def fixes(write: Access, var: Var, inner: Mapping[Var, Expr], analyzer: Analyzer) -> bool:
    """Whether the place of `write` tells the value of `var`.

    The predicate holds in both iterations that are compared; it is seldom needed.
    """
    indices = write.in_loops()
    if determines(indices, var, inner, analyzer):
        return True
    predicate = write.block.predicate
    if isinstance(predicate, Const):
        return False
    return determines(indices, var, inner, analyzer.assuming(predicate))


def carries(block: Block, buffer: Buffer) -> bool:
    """Whether the block reads a buffer that it writes at another place: a step of a scan."""
    return buffer in _carried(block.init, block.body)


def recurrent(block: Block) -> bool:
    """Whether the instances of a block pass data to each other, other than in a reduction."""
    return bool(_carried(block.init, block.body))


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
    below = list(below)
    if any([carries(block, buffer) for block in below]):
        return False  # what one iteration makes is there for a later one
    own = {(block.name, block.body) for block in below}
    users = [block for block in every if buffer in read(block) or buffer in written(block)]
    return all([(block.name, block.body) in own for block in users])


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

    `other` is the loop of `b`, where it is not that of `a`: one of the same extent.
    """
    theirs = (other or node).var
    shared: list[Digit] = []
    for left, right in zip(a.in_loops(), b.in_loops()):
        if not _same_offset(left, right, inner, analyzer):
            continue
        found = [replace(d, var=node.var) for d in _digits_at(right, theirs, inner, analyzer)]
        shared.extend(d for d in _digits_at(left, node.var, inner, analyzer) if d in found)
    return _cover(shared, node)


def _same_offset(a: Expr, b: Expr, inner: Mapping[Var, Expr], analyzer: Analyzer) -> bool:
    """Whether two sums of digits of `inner` have the same rest, which loops outside may shift."""
    mine, theirs = _rest(analyzer.linear(a), inner), _rest(analyzer.linear(b), inner)
    if mine is not None and theirs is not None and mine == theirs:
        return True
    start: dict[Var, Expr] = {var: const(0) for var in inner}
    return analyzer.simplify(substitute(a, start) - substitute(b, start)) is const(0)


def _rest(form: Linear, inner: Mapping[Var, Expr]) -> tuple[dict[Expr, int], int] | None:
    """What is left of a sum where all variables of `inner` are zero, if these are terms of it."""
    rest: dict[Expr, int] = {}
    for atom, factor in form.terms.items():
        if atom in inner:
            continue
        if not variables(atom).isdisjoint(inner):
            return None
        rest[atom] = factor
    return rest, form.const


def _digits_at(e: Expr, var: Var, inner: Mapping[Var, Expr], analyzer: Analyzer) -> list[Digit]:
    """The digits of `var` that can be read off `e`: nothing else overlaps their position."""
    parts = decompose(e, inner, analyzer)
    if parts is None:
        return []
    digits = parts[0]
    if any(d.scale < 0 for d in digits):  # what is below a digit could borrow from it
        return []
    found = []
    for digit in digits:
        if digit.var is not var:
            continue
        below = sum(
            d.scale * (d.extent - 1) if d.extent is not None else digit.scale
            for d in digits
            if d.scale < digit.scale
        )
        clear = below < digit.scale and all(
            digit.extent is not None and d.scale % (digit.scale * digit.extent) == 0
            for d in digits
            if d.scale >= digit.scale and d is not digit
        )
        if clear:
            found.append(digit)
    return found


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
