"""The instances of a write that come before a read, and which of them stores what is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from tensorir.arith import Analyzer
from tensorir.arith.bounds import nonnegative
from tensorir.arith.digits import digit_parts, digits_of_sums
from tensorir.arith.linear import to_expr
from tensorir.arith.regions.iter_map import determines_all
from tensorir.arith.regions.region import relax
from tensorir.dtype import INDEX
from tensorir.expr import BinOp, Expr, Var, all_of, binary, const, int_value
from tensorir.passes.facts.accesses import Access
from tensorir.stmt import For, ForKind, Stmt
from tensorir.visit import substitute, transform, variables

AT_ONCE = (ForKind.PARALLEL, ForKind.THREAD, ForKind.VECTORIZED)
"""Loops of which an iteration does not wait for those before it."""


@dataclass(frozen=True)
class Instances:
    """Instances of `write`, told apart by the values of the variables `free`.

    indices     the element that is stored
    free        variables with extents, which are the largest where those of the loops vary
    conditions  what holds of the instances that there are, and that come before the read
    analyzer    knows the variables
    as_written  whether the variables are those of the loops around the write
    steady      a number that stands for what the other indices tell (steadied), if there is one
    """

    write: Access
    indices: tuple[Expr, ...]
    free: Mapping[Var, Expr]
    conditions: tuple[Expr, ...]
    analyzer: Analyzer
    as_written: bool
    steady: Var | None = None


def steadied(found: Instances) -> Instances | None:
    """The same with a number of its own, known by its range, in the place of a part of one index
    that the others tell: of row (i * 13) % 8 in C[i, j - (i * 13) % 8]. None if there is no such.

    What would be stored for each value of that number is stored: for the one that the others tell.
    """
    known = found.analyzer
    for n, index in enumerate(found.indices):
        others = found.indices[:n] + found.indices[n + 1 :]
        for atom in known.linear(index).terms:
            if not isinstance(atom, BinOp) or variables(atom).isdisjoint(found.free):
                continue
            low, high = known.range(atom)
            told = low is not None and high is not None
            if not told or not determines_all(others, (atom,), found.free, known):
                continue
            steady = Var("steady'", INDEX)  # no name of a program
            known = known.copy()
            known.bind_range(steady, low, high)
            values: Mapping[Expr, Expr] = {atom: steady}
            own, *conditions = [
                of_instance(e, values, found.analyzer) for e in (index, *found.conditions)
            ]
            indices = (*found.indices[:n], own, *found.indices[n + 1 :])
            return Instances(
                found.write, indices, found.free, tuple(conditions), known, False, steady
            )
    return None


Around = tuple[tuple[Stmt, ...], frozenset[Var]]
"""What the instances that come before a read depend on: the statements around it and the write, and
which of the write's variables the read has too."""


def around(write: Access, read: Access, depth: int) -> Around:
    """What `instances_before` asks of `read`, at position `depth` of its path."""
    taken = running(write, depth).keys() & read.inner().keys()
    return read.path[depth : common_length([write.path, read.path])], frozenset(taken)


def instances_before(
    write: Access, where: Around, depth: int, first: bool, analyzer: Analyzer
) -> Iterator[Instances]:
    """The instances of `write` that run before a read, in one iteration of the loops outside of
    position `depth`: those of the same iteration of the loops around both, if the write stands
    `first` there, and those of that and earlier ones.
    """
    above, taken = where
    together = filled_together(write)
    shared = [s for s in above if isinstance(s, For) and s.var not in together]
    if first:
        yield from _instances(write, taken, depth, shared, (), analyzer)
    in_turn = [s for s in shared if s.kind not in AT_ONCE]
    if not in_turn:
        return
    at_once = [s for s in shared if s.kind in AT_ONCE]
    end = _number(in_turn) + 1 if first else _number(in_turn)
    yield from _instances(write, taken, depth, at_once, (_number(in_turn), end), analyzer)
    # All that is in an earlier iteration has run, and iterations in it that run at once as well.
    start = shared.index(in_turn[0])
    outer = list(takewhile(lambda s: s.kind not in AT_ONCE, shared[start:]))
    if start + len(outer) < len(shared):
        order = (_number(outer), _number(outer))
        yield from _instances(write, taken, depth, shared[:start], order, analyzer)


def _number(loops: Sequence[For]) -> Expr:
    """The iteration of some loops as one number."""
    number: Expr = const(0)
    for loop in loops:
        number = number * loop.extent + loop.var
    return number


def _instances(
    write: Access,
    taken: Collection[Var],
    depth: int,
    same: Sequence[For],
    order: tuple[Expr, Expr] | tuple[()],
    analyzer: Analyzer,
) -> Iterator[Instances]:
    """Those of the same iteration of some loops, and of a number of iterations below a limit."""
    kept = {s.var for s in same}
    loops = {s.var for s in write.loops()}
    renamed: dict[Var, Expr] = {}
    free: dict[Var, Expr] = {}
    ends: list[tuple[Var, Expr]] = []
    known = analyzer
    for var, size in running(write, depth).items():
        if var in kept:
            continue
        extent = substitute(size, renamed)
        varies = int_value(extent) is None and bool(variables(size) & loops or size.has_loads)
        most = _largest(extent, free, known) if varies else extent
        if most is None:
            return
        own = var
        if varies or var in taken:
            renamed[var] = own = Var(f"{var.name}'", var.dtype)
            known = known.copy() if known is analyzer else known
            if int_value(most) is not None:
                known.bind(own, most)
            else:
                known.bind_range(own, 0, binary("max", most, const(1)) - 1)
        free[own] = most
        if int_value(extent) is None:
            ends.append((own, extent))
    indices = tuple([substitute(index, renamed) for index in write.indices])
    found = [substitute(c, renamed) for c in write.conditions]
    if order:
        found.append(binary("<", substitute(order[0], renamed), order[1]))
    mentioned = {v for index in indices for v in variables(index)}
    # Any iteration will do of a loop that the indices do not speak of, if there is one.
    first: dict[Var, Expr] = {own: const(0) for own in free if own not in mentioned}
    found = [substitute(c, first) for c in found]
    found += [binary("<", first.get(own, own), extent) for own, extent in ends]
    yield Instances(write, indices, free, tuple(found), known, not renamed)


def _largest(extent: Expr, free: Mapping[Var, Expr], analyzer: Analyzer) -> Expr | None:
    """No less than an extent, whatever the values of the variables `free`."""
    part = relax(extent, free, analyzer)
    if part is None:
        return None
    most = analyzer.simplify(part.low + part.extent - 1)
    high = analyzer.bounds(most)[1]
    return most if high is None else const(high)


def matched(found: Instances, read: Access) -> dict[Expr, Expr] | None:
    """The values of the variables of the instance that stores what `read` reads, where the two have
    indices of the same form; None else."""
    values: dict[Expr, Expr] = {}
    for index, wanted in zip(found.indices, read.indices):
        mine, theirs = found.analyzer.linear(index), found.analyzer.linear(wanted)
        if mine.const != theirs.const:
            return None
        rest, own = dict(theirs.terms), []
        for atom, factor in mine.terms.items():
            if variables(atom).isdisjoint(found.free):
                if rest.pop(atom, 0) != factor:
                    return None
            else:
                own.append((atom, factor))
        for atom, factor in own:
            alike = [other for other, times in rest.items() if times == factor]
            ways = ((other, _equal(found, atom, other, values)) for other in alike)
            value, more = next((way for way in ways if way[1] is not None), (None, None))
            if value is None or more is None:
                return None
            del rest[value]
            values = more
        if rest:
            return None
    return values


def _equal(
    found: Instances, mine: Expr, wanted: Expr, values: dict[Expr, Expr]
) -> dict[Expr, Expr] | None:
    """With which values of the variables of instances besides these a part of an index of theirs is
    what is wanted; None where none is known."""
    if mine in found.free and isinstance(mine, Var):
        if mine in values or not _fits(wanted, found.free[mine], found.analyzer):
            return values if values.get(mine) is wanted else None
        return {**values, mine: wanted}
    if variables(mine).isdisjoint(found.free):
        return values if mine is wanted else None
    if not isinstance(mine, BinOp) or not isinstance(wanted, BinOp) or mine.op != wanted.op:
        return None
    more = _equal(found, mine.a, wanted.a, values)
    return None if more is None else _equal(found, mine.b, wanted.b, more)


def _fits(value: Expr, extent: Expr, analyzer: Analyzer) -> bool:
    """Whether a value is in the range of a variable; the ends of extents that are no numbers are
    conditions."""
    low, high = analyzer.range(value)
    size = int_value(extent)
    return low is not None and low >= 0 and (size is None or (high is not None and high < size))


def solutions(found: Instances, read: Access) -> Iterator[dict[Expr, Expr]]:
    """What is known of the variables of an instance that stores what `read` reads: of one variable
    for each index, in terms of the others, and of all where an index has them as digits.

    Of i * 4 + p, where element e is read, p is e - i * 4; if p < 4, then i is e // 4. What can have
    one value alone, as the number of the warp that copies all, has that one.
    """
    values = _solved(found.indices, read.indices, found.free, found.analyzer)
    for var in found.free:
        low, high = found.analyzer.range(var)
        if low is not None and low == high:
            values[var] = const(low)
    digits: dict[Expr, Expr] = {}
    for index, wanted in zip(found.indices, read.indices):
        form = found.analyzer.linear(index)
        own = {a: f for a, f in form.terms.items() if variables(a) & found.free.keys()}
        if len(own) > 1:
            digits |= _digits(own, wanted - to_expr(form.without(*own)), found.analyzer)
    yield values
    digits |= _from_digits(values | digits, found)
    if digits:
        yield values | digits


def _solved(
    indices: Sequence[Expr], wanted: Sequence[Expr], free: Mapping[Var, Expr], analyzer: Analyzer
) -> dict[Expr, Expr]:
    values: dict[Expr, Expr] = {}
    for index, element in zip(indices, wanted):
        form = analyzer.linear(index)
        for atom, factor in sorted(form.terms.items(), key=lambda term: abs(term[1])):
            if variables(atom) & free.keys() and atom not in values:
                other = to_expr(form.without(atom))
                part = element - other if factor > 0 else other - element
                values[atom] = part if abs(factor) == 1 else part // abs(factor)
                break
    return values


def _from_digits(values: Mapping[Expr, Expr], found: Instances) -> dict[Expr, Expr]:
    """The variables of each x all of whose digits x // d % m are among `values`."""
    parts: dict[Expr, list[tuple[int, int | None, Expr]]] = {}
    of_sums = digits_of_sums(found.analyzer, values)
    for atom, value in values.items():
        for base, divisor, size in dict.fromkeys((digit_parts(atom), of_sums[atom])):
            if base is not atom:
                parts.setdefault(base, []).append((divisor, size, value))
    solved: dict[Expr, Expr] = {}
    for base, digits in parts.items():
        total: Expr = const(0)
        position = 1
        high = found.analyzer.bounds(base)[1]
        for divisor, count, value in sorted(digits, key=lambda digit: digit[0]):
            if divisor != position:
                break
            total = total + value * divisor
            position = divisor * count if count is not None else 0
        if position and (high is None or position <= high):
            continue
        form = found.analyzer.linear(base)
        own = {a: f for a, f in form.terms.items() if a in found.free}
        rest = total - to_expr(form.without(*own))
        solved |= _digits(own, rest, found.analyzer)
    return solved


def _digits(
    factors: Mapping[Expr, int], value: Expr, analyzer: Analyzer
) -> dict[Expr, Expr]:
    """The parts of a sum of this value, if no two sums of their values are equal."""
    found: dict[Expr, Expr] = {}
    reach = 0
    parts: list[tuple[Expr, int]] = []
    for atom, factor in sorted(factors.items(), key=lambda item: item[1]):
        low, high = analyzer.range(atom)
        if low != 0 or high is None or factor <= reach:
            return {}
        reach += factor * high
        parts.append((atom, factor))
    for atom, factor in reversed(parts):
        found[atom] = value // factor
        value = value % factor
    return found


def for_the_element(
    cond: Expr, write: Access, read: Access, depth: int, analyzer: Analyzer
) -> Expr:
    """The condition of the instance of `write` that writes what `read` reads.

    i * 4 + p < 30, where element i * 4 + p is written and element e read, becomes e < 30.
    """
    values = _solved(write.indices, read.indices, running(write, depth), analyzer)
    return of_instance(cond, values, analyzer)


def bounds_an_index(
    cond: Expr, indices: Sequence[Expr], shape: Sequence[Expr], analyzer: Analyzer
) -> bool:
    """Whether the condition only keeps an index within the buffer: nothing else is left out.

    The usual case, and quicker to see than what follows from all indices together.
    """
    if not isinstance(cond, BinOp) or cond.op not in ("<", "<=") or cond.a.dtype != INDEX:
        return False
    left = analyzer.linear(cond.b - cond.a).shifted(-1 if cond.op == "<" else 0)
    for index, size in zip(indices, shape):
        for end in (size - 1 - index, index):
            room = analyzer.linear(end)  # not negative, else there is no such element
            atom = next((atom for atom in left.terms if atom in room.terms), None)
            scale = 1 if atom is None else room.terms[atom] // left.terms[atom]
            # From scale * left + scale - 1 >= room >= 0 follows left >= 0, as left is an integer.
            more = left.scaled(scale).shifted(scale - 1)
            if scale > 0 and nonnegative(analyzer, more.minus(room)):
                return True
    return False


def of_instance(cond: Expr, values: Mapping[Expr, Expr], analyzer: Analyzer) -> Expr:
    """A condition, of the instance whose variables have these values."""
    return transform(analyzer.simplify(cond), values.get)


def running(access: Access, depth: int) -> dict[Var, Expr]:
    """The variables that run below `depth`; shared memory is filled by all threads together."""
    return access.inner(depth) | filled_together(access)


def conditions_below(access: Access, depth: int) -> Expr:
    """Its conditions on loops below `depth` alone: the same in all iterations of those outside."""
    return on_these_alone(access.conditions, running(access, depth))


def on_these_alone(conditions: Iterable[Expr], free: Mapping[Var, Expr]) -> Expr:
    """Those of the conditions that are on variables of `free` and nothing else."""
    return all_of(*[c for c in conditions if not c.has_loads and variables(c) <= free.keys()])


def filled_together(access: Access) -> dict[Var, Expr]:
    """The loops around it over threads that all see what one of them writes, with extents."""
    if access.buffer.scope != "shared":
        return {}
    threads = [s for s in access.loops() if (s.thread or "").startswith("threadIdx")]
    return {s.var: s.extent for s in threads}


def common_length(paths: Sequence[tuple[Stmt, ...]]) -> int:
    """How many statements, from the root on, are the same on all paths."""
    shortest = min(map(len, paths))
    for n in range(shortest):
        if any(p[n] is not paths[0][n] for p in paths):
            return n
    return shortest
