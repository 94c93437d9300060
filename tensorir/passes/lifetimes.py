"""How far inside of loops a buffer may be allocated: no value may pass from one iteration to the
next through memory that belongs to one of them.

An iteration keeps to itself if each element that it reads is one that it wrote before. Accesses are
compared as hulls first. Where a write is conditional, its condition is solved for the element that
is read; where a write leaves gaps, a read has to step over the same ones. What cannot be proved is
allocated further out, and at the top a buffer simply lives for the whole program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

from tensorir.arith import Analyzer
from tensorir.arith.bounds import nonnegative
from tensorir.arith.iter_map import is_dense
from tensorir.arith.linear import to_expr
from tensorir.arith.region import Interval, covers, relax, union
from tensorir.buffer import Buffer
from tensorir.dtype import INDEX
from tensorir.expr import TRUE, BinOp, Expr, Var, all_of, binary, const, int_value
from tensorir.func import PrimFunc
from tensorir.passes.accesses import Access, accesses
from tensorir.passes.lower_blocks import lower_blocks
from tensorir.passes.lower_init import lower_init
from tensorir.passes.ranges import function_analyzer
from tensorir.stmt import For, ForKind, Stmt
from tensorir.visit import substitute, transform, variables

UNDIVIDED = (ForKind.VECTORIZED, ForKind.UNROLLED)
"""Loops whose iterations become one piece of code, so that memory is allocated around them."""


def innermost_place(uses: list[Access], analyzer: Analyzer) -> tuple[int, bool]:
    """The position on the paths of `uses` of the innermost statement to allocate around.

    And whether all that is read there is known to be written there.
    """
    parts = _Parts(analyzer)
    depth = _innermost_common(uses, parts)
    path = uses[0].path
    while not _self_contained(uses, depth, parts):
        around = [n for n, s in enumerate(path[:depth]) if isinstance(s, For)]
        loop = path[around[-1]]
        if isinstance(loop, For) and loop.kind in (ForKind.PARALLEL, ForKind.THREAD):
            return depth, False  # its iterations pass nothing on, whatever can be proved here
        depth = around[-1]
    return depth, True


def _innermost_common(uses: list[Access], parts: _Parts) -> int:
    """The innermost statement around all uses, or a loop whose iterations share memory."""
    depth = _common_length([a.path for a in uses]) - 1
    path = uses[0].path
    first_reads = not uses[0].is_write
    for n, stmt in enumerate(path[: depth + 1]):
        if isinstance(stmt, For) and (first_reads or _undivided(stmt, path[n + 1 : depth + 1])):
            return n
        if isinstance(stmt, For) and "pipeline" in stmt.annotations and depth > n:
            # What passes between the stages of a pipeline is read in a later iteration.
            if not _self_contained(uses, n + 1, parts):
                return n
    return depth


def keeps_to_itself(func: PrimFunc, loop: Var, buffer: Buffer) -> bool:
    """Whether each iteration of a loop reads of `buffer`, used only inside, what it wrote before.

    `func` still has its blocks. False means that this could not be proved.
    """
    flat, found = _without_blocks(func)
    uses = found.get(buffer, [])
    if not uses:
        return True  # the loop never runs
    shared = uses[0].path[: _common_length([a.path for a in uses])]
    place = [n for n, s in enumerate(shared) if isinstance(s, For) and s.var is loop]
    if not place:
        return False  # the init of a reduction over the loop runs before it
    return self_contained(uses, place[0] + 1, function_analyzer(flat))


@lru_cache(maxsize=16)
def _without_blocks(func: PrimFunc) -> tuple[PrimFunc, dict[Buffer, list[Access]]]:
    """`func` as lowering sees it, and its accesses; asked for one buffer of it after the other."""
    flat = lower_blocks(lower_init(func))
    return flat, accesses(flat.body)


class _Parts:
    """What is known in a function, and what accesses touch in a dimension, found once each.

    `conditioned`: of what an access touches, only what it does where its conditions on loops below
    hold.
    """

    def __init__(self, analyzer: Analyzer, conditioned: bool = False) -> None:
        self.analyzer = analyzer
        self.conditioned = conditioned
        self.facts: dict[tuple[int, int], Analyzer] = {}
        self.known: dict[tuple[int, int, int], Interval | None] = {}
        self.dense: dict[tuple[int, int], bool] = {}

    def touched(self, access: Access, n: int, depth: int) -> Interval | None:
        key = id(access), n, depth
        if key not in self.known:
            self.known[key] = relaxed(access, n, depth, self.facts_of(access, depth))
        return self.known[key]

    def facts_of(self, access: Access, depth: int) -> Analyzer:
        """What is known where the access is made, as far as it counts: of loops below `depth`,
        since a condition on others holds in some of their iterations only."""
        if not self.conditioned or access.known is TRUE:
            return self.analyzer
        key = id(access), depth
        if key not in self.facts:
            inner = _inner(access, depth).keys()
            mine = [c for c in access.conditions if not c.has_loads and variables(c) <= inner]
            self.facts[key] = self.analyzer.assuming(all_of(*mine)) if mine else self.analyzer
        return self.facts[key]

    @cached_property
    def under_conditions(self) -> _Parts:
        return _Parts(self.analyzer, conditioned=True)

    def written(self, writes: Sequence[Access], n: int, depth: int) -> Interval | None:
        """The hull of what they write; None where none is found."""
        result: Interval | None = None
        for count, write in enumerate(writes):
            part = self.touched(write, n, depth)
            if count and result is not None and part is not None:
                part = union(result, part, self.analyzer)
            if part is None:
                return None
            result = part
        return result

    def is_dense(self, write: Access, depth: int) -> bool:
        key = id(write), depth
        if key not in self.dense:
            inner = _inner(write, depth)
            self.dense[key] = is_dense(write.indices, inner, self.facts_of(write, depth))
        return self.dense[key]


def self_contained(uses: list[Access], depth: int, analyzer: Analyzer) -> bool:
    """Whether all that is read at position `depth` of the paths is written there before."""
    return _self_contained(uses, depth, _Parts(analyzer))


def _self_contained(uses: list[Access], depth: int, parts: _Parts) -> bool:
    if not any([isinstance(s, For) for s in uses[0].path[:depth]]):
        return True
    if _contained(uses, depth, parts):
        return True
    conditional = any([use.is_write and use.known is not TRUE for use in uses])
    return conditional and _contained(uses, depth, parts.under_conditions)


def _contained(uses: list[Access], depth: int, parts: _Parts) -> bool:
    for place, read in enumerate(uses):
        if read.is_write:
            continue
        writes = [w for n, w in enumerate(uses) if w.is_write and _before(w, n, read, place, depth)]
        if not _finds(read, writes, depth, parts):
            return False
    return True


def _before(write: Access, n: int, read: Access, place: int, depth: int) -> bool:
    """Whether the write may come first: it stands before, or in a loop with the read."""
    if n < place:
        return True
    shared = _common_length([write.path, read.path])
    return any([isinstance(s, For) for s in read.path[depth:shared]])


def _finds(read: Access, writes: Sequence[Access], depth: int, parts: _Parts) -> bool:
    """Whether some of the writes certainly made each element that `read` may read."""
    alone, analyzer = len(writes) == 1, parts.analyzer
    certain = [w for w in writes if _makes(w, read, depth, parts, alone)]
    if not certain:
        return False
    known: Analyzer | None = None
    for n in range(read.buffer.ndim):
        made, part = parts.written(certain, n, depth), parts.touched(read, n, depth)
        if made is None:
            return False
        if part is not None and covers(made, part, analyzer):
            continue
        if read.known is TRUE:
            return False
        known = known or analyzer.assuming(read.known)
        index = read.indices[n]
        inside = all_of(binary("<=", made.low, index), binary("<", index, made.low + made.extent))
        if not known.prove(inside):
            return False
    return True


def _makes(write: Access, read: Access, depth: int, parts: _Parts, alone: bool) -> bool:
    """Whether the write leaves out nothing in its hull that `read` reads.

    What the only write leaves out in every iteration has no value, and cannot be read.
    """
    inner, analyzer = _inner(write, depth), parts.analyzer
    if not parts.is_dense(write, depth) and not all(
        [_alike(write, read, n, depth, analyzer) for n in range(write.buffer.ndim)]
    ):
        return False
    outer = {s.var for s in write.path[:depth] if isinstance(s, For)} - inner.keys()
    left = [c for c in write.conditions if not alone or variables(c) & outer]
    left = [c for c in left if c not in read.conditions or variables(c) - outer]
    left = [c for c in left if not _of_some_instance(c, write, inner, analyzer)]
    left = [c for c in left if not bounds_an_index(c, write, analyzer)]
    if not left or analyzer.assuming(_in_buffer(write)).prove(all_of(*left)):
        return True
    cond = for_the_element(all_of(*left), write, read, depth, analyzer)
    return analyzer.assuming(all_of(read.known, _in_buffer(read))).prove(cond)


def _of_some_instance(
    cond: Expr, write: Access, inner: Mapping[Var, Expr], analyzer: Analyzer
) -> bool:
    """Whether the condition only chooses, of instances that write the same element, which ones do:
    it holds in the first iterations of loops of which the place does not speak."""
    own = variables(cond)
    sizes = [int_value(inner[var]) if var in inner else None for var in own]
    if not own or not all(sizes) or own & frozenset().union(*map(variables, write.indices)):
        return False
    return analyzer.simplify(substitute(cond, dict.fromkeys(own, const(0)))) is TRUE


def bounds_an_index(cond: Expr, write: Access, analyzer: Analyzer) -> bool:
    """Whether the condition only keeps an index below the size, so that nothing else is left out.

    The usual case, and quicker to see than what follows from all indices together.
    """
    if not isinstance(cond, BinOp) or cond.op not in ("<", "<=") or cond.a.dtype != INDEX:
        return False
    left = analyzer.linear(cond.b - cond.a).shifted(-1 if cond.op == "<" else 0)
    for index, size in zip(write.indices, write.buffer.shape):
        room = analyzer.linear(size - 1 - index)  # not negative, else there is no such element
        atom = next((atom for atom in left.terms if atom in room.terms), None)
        scale = 1 if atom is None else room.terms[atom] // left.terms[atom]
        # From scale * left + scale - 1 >= room >= 0 follows left >= 0, as left is an integer.
        if scale > 0 and nonnegative(analyzer, left.scaled(scale).shifted(scale - 1).minus(room)):
            return True
    return False


def _in_buffer(access: Access) -> Expr:
    """What holds of each access, or of each that a condition does not leave out."""
    pairs = list(zip(access.indices, access.buffer.shape))
    inside = [binary("<", index, size) for index, size in pairs]
    return all_of(*inside, *[binary("<=", const(0), index) for index, _ in pairs])


def for_the_element(
    cond: Expr, write: Access, read: Access, depth: int, analyzer: Analyzer
) -> Expr:
    """The condition of the instance that writes what `read` reads: its variables are solved for.

    i * 4 + p < 30, where element i * 4 + p is written and element e read, becomes e < 30.
    """
    inner = _inner(write, depth).keys()
    values: dict[Expr, Expr] = {}
    for index, wanted in zip(write.indices, read.indices):
        form = analyzer.linear(index)
        for atom, factor in form.terms.items():
            if variables(atom) & inner and factor in (1, -1) and atom not in values:
                rest = to_expr(form.without(atom))
                values[atom] = wanted - rest if factor == 1 else rest - wanted
                break
    return transform(analyzer.simplify(cond), values.get)


def _alike(write: Access, read: Access, n: int, depth: int, analyzer: Analyzer) -> bool:
    """Whether the two reach the same elements: equal but for the names of the loops below."""
    return _shape(write, n, depth, analyzer) == _shape(read, n, depth, analyzer)


def _shape(access: Access, n: int, depth: int, analyzer: Analyzer) -> object:
    inner = _inner(access, depth)
    form = analyzer.linear(access.indices[n])
    terms: list[tuple[object, int]] = []
    for atom, factor in form.terms.items():
        own = variables(atom) & inner.keys()
        if own and not isinstance(atom, Var):
            return access  # equal to itself only
        size = int_value(inner[atom]) if own and isinstance(atom, Var) else None
        terms.append((atom if not own else size, factor))
    return form.const, sorted(terms, key=repr)


def written_part(
    writes: Sequence[Access], n: int, depth: int, analyzer: Analyzer
) -> Interval | None:
    """The hull of what is written in a dimension; None where none is found.

    Where loops were made one and split again, what their conditions leave out may be most of it.
    """
    parts = _Parts(analyzer)
    whole = parts.written(writes, n, depth)
    if all([write.known is TRUE or parts.is_dense(write, depth) for write in writes]):
        return whole
    left = parts.under_conditions.written(writes, n, depth)
    sizes = [int_value(part.extent) if part is not None else None for part in (whole, left)]
    smaller = sizes[1] is not None and (sizes[0] is None or sizes[1] < sizes[0])
    return left if smaller else whole


def relaxed(access: Access, n: int, depth: int, analyzer: Analyzer) -> Interval | None:
    """What an access touches in a dimension while the loops below `depth` run."""
    return relax(access.indices[n], _inner(access, depth), analyzer)


def _inner(access: Access, depth: int) -> dict[Var, Expr]:
    """The variables that run below `depth`; shared memory is filled by all threads together."""
    inner = access.inner(depth)
    if access.buffer.scope == "shared":
        threads = [s for s in access.loops() if (s.thread or "").startswith("threadIdx")]
        inner |= {s.var: s.extent for s in threads}
    return inner


def _undivided(loop: For, below: Sequence[Stmt]) -> bool:
    """Whether iterations of `loop` become one piece of code, in one thread."""
    threads = [s for s in below if isinstance(s, For) and s.kind is ForKind.PARALLEL]
    return loop.kind in UNDIVIDED and not threads


def _common_length(paths: Sequence[tuple[Stmt, ...]]) -> int:
    shortest = min(map(len, paths))
    for n in range(shortest):
        if any(p[n] is not paths[0][n] for p in paths):
            return n
    return shortest
