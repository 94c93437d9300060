"""What an iteration of some loops has certainly written before it reads it.

A read finds its element if some write has an instance that stores it, before the read and in the
same iteration of the loops outside. Either the two are accesses of the same form, and the variables
of the instance are what stands in the read for them; or the write stores all of a box, alone or
with others whose boxes adjoin, and what is read lies in it. In both cases the conditions of the
write have to hold for the element: those of Ifs, the ends of loops whose extents vary, and that the
instance comes first where loops inside go around both.

What the only write of a buffer leaves out has no value, unless another iteration writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tensorir.arith import Analyzer
from tensorir.arith.regions.boxes import Box, with_box
from tensorir.arith.regions.dense import is_dense
from tensorir.arith.regions.iter_map import determines
from tensorir.arith.regions.region import Interval, covers, relax
from tensorir.buffer import Buffer
from tensorir.expr import TRUE, Expr, Var, all_of, binary, const, int_value
from tensorir.passes.facts.accesses import Access, changes
from tensorir.passes.facts.instances import (
    Around,
    Instances,
    around,
    bounds_an_index,
    common_length,
    instances_before,
    matched,
    of_instance,
    on_these_alone,
    running,
    solutions,
    steadied,
)
from tensorir.stmt import For
from tensorir.visit import substitute, variables


class Finds:
    """Whether reads of one buffer find their elements in the iteration in which they read.

    uses      all accesses of the buffer, in program order
    analyzer  what is known everywhere in the program
    trusting  that reads are of what has a value
    """

    def __init__(
        self, uses: Sequence[Access], analyzer: Analyzer, trusting: bool = True
    ) -> None:
        self.uses = uses
        self.analyzer = analyzer
        self.trusting = trusting
        self.sole = sum([use.is_write for use in uses]) == 1
        self.earlier: dict[tuple[int, int, bool, Around], list[Instances]] = {}
        self.steady: dict[int, Instances | None] = {}
        self.boxes: dict[object, tuple[Box, Analyzer] | None] = {}
        self.reached: dict[tuple[int, int], Box | None] = {}
        self.places: dict[object, Analyzer] = {}
        self.left: dict[int, list[Expr]] = {}

    def self_contained(self, depth: int) -> bool:
        """Whether all that is read at position `depth` of the paths is written there before: as it
        is where nothing outside runs more than once."""
        if not any([isinstance(s, For) and s.const_extent != 1 for s in self.uses[0].path[:depth]]):
            return True
        return all([use.is_write or self._finds(n, depth) for n, use in enumerate(self.uses)])

    def passes_on(self, depth: int) -> bool:
        """Whether some read below `depth` is of no element that is written there, as those of the
        stages of a pipeline are, where intervals alone tell it. It is then not self-contained."""
        writes = [use for use in self.uses if use.is_write]
        return any(
            [
                not use.is_write and all([self._apart(use, write, depth) for write in writes])
                for use in self.uses
            ]
        )

    def _apart(self, read: Access, write: Access, depth: int) -> bool:
        """Whether a dimension tells that two accesses have no element in common below `depth`."""
        for mine, theirs in zip(read.indices, write.indices):
            one = relax(mine, running(read, depth), self.analyzer)
            other = relax(theirs, running(write, depth), self.analyzer)
            for a, b in ((one, other), (other, one)):
                if a and b and self.analyzer.prove(binary("<=", a.low + a.extent, b.low)):
                    return True
        return False

    def _finds(self, place: int, depth: int) -> bool:
        """Whether the read `uses[place]` finds its element."""
        read = self.uses[place]
        boxes: list[Box] = []
        for n, write in enumerate(self.uses):
            if not write.is_write or changes(write.indices, write.path[depth - 1]):
                continue
            for found in self._before(n, place, depth):
                same = matched(found, read)
                if same is not None and self._runs(found, [same], read, depth, n < place):
                    return True
                stored = self._box(found, depth)
                if stored is None:
                    steady = self._steady(found)
                    stored = None if steady is None else self._box(steady, depth)
                    if steady is None or stored is None:
                        continue
                    found = steady
                box, known = stored
                values = solutions(replace(found, analyzer=known), read)
                if self._runs(found, values, read, depth, n < place):
                    boxes = with_box(boxes, box, self.analyzer)
                    if self._within(read, boxes[-1], depth):
                        return True
        return False

    def _before(self, write: int, read: int, depth: int) -> list[Instances]:
        """The instances of `uses[write]` that come before `uses[read]`: the same for all reads at
        one place, so that these share what is concluded of them."""
        where = around(self.uses[write], self.uses[read], depth)
        key = write, depth, write < read, where
        if key not in self.earlier:
            made = instances_before(self.uses[write], where, depth, write < read, self.analyzer)
            self.earlier[key] = list(made)
        return self.earlier[key]

    def _steady(self, found: Instances) -> Instances | None:
        """Those that stand for instances which `steadied` can tell more of."""
        if id(found) not in self.steady:
            self.steady[id(found)] = steadied(found)
        return self.steady[id(found)]

    def _box(self, found: Instances, depth: int) -> tuple[Box, Analyzer] | None:
        """The box that instances store if none is left out, with what was taken as known for it:
        where conditions are, parts of an index may be digits only as far as these hold. None if
        they have gaps."""
        key = (id(found.write), depth) if found.as_written else id(found)
        if key in self.boxes:
            return self.boxes[key]
        box, known = None, found.analyzer
        dense = is_dense(found.indices, found.free, known)
        if not dense:
            known = known.assuming(on_these_alone(found.conditions, found.free))
            dense = is_dense(found.indices, found.free, known)
        if dense:
            box = _relaxed(found.indices, found.free, known)
            if box is not None and not self.sole:  # as it has to be told which boxes adjoin
                sizes = zip(box, found.write.buffer.shape)
                box = tuple([_clipped(part, size, known) for part, size in sizes])
        if box is not None and found.steady is not None:
            box = _always(box, found.steady, known)
        stored = None if box is None else (box, known)
        self.boxes[key] = stored
        return stored

    def _within(self, read: Access, box: Box, depth: int) -> bool:
        """Whether all that is read lies in the box: the elements as they are told by the loops that
        go around the write too, or all that the read's own loops reach, or those that its
        conditions leave."""
        for n, (whole, index) in enumerate(zip(box, read.indices)):
            if covers(whole, Interval(index, const(1)), self.analyzer):
                continue
            part = self._reached(read, depth)
            if part is not None and covers(whole, part[n], self.analyzer):
                continue
            end = whole.low + whole.extent
            inside = all_of(binary("<=", whole.low, index), binary("<", index, end))
            if not self._where_read(read, self.analyzer).prove(inside):
                return False
        return True

    def _reached(self, read: Access, depth: int) -> Box | None:
        """The box of all that a read touches below `depth`."""
        key = id(read), depth
        if key not in self.reached:
            self.reached[key] = _relaxed(read.indices, running(read, depth), self.analyzer)
        return self.reached[key]

    def _runs(
        self,
        found: Instances,
        solutions: Iterable[Mapping[Expr, Expr]],
        read: Access,
        depth: int,
        first: bool,
    ) -> bool:
        """Whether an instance that stores what is read is there, whose variables are one of
        `solutions`."""
        left = self._left(found)
        if not left:
            return True
        said, loop = read.conditions | read.guards, read.path[depth - 1]
        for values in solutions:
            conditions = [of_instance(c, values, found.analyzer) for c in left]
            if any([changes([c], loop) for c in conditions]):
                continue
            unsaid = [c for c in conditions if c not in said]
            if not unsaid or self._at_read(read, found.analyzer).prove(all_of(*unsaid)):
                return True
        trusted = self.trusting and self.sole
        return trusted and self._written_here(found.write, read, depth, first)

    def _left(self, found: Instances) -> list[Expr]:
        """The conditions of instances that do not follow from what is stored being in the buffer:
        the same for all reads. Instances are kept, so that their `id` is theirs."""
        key = id(found)
        if key not in self.left:
            shape = found.write.buffer.shape
            left = [
                c
                for c in found.conditions
                if not bounds_an_index(c, found.indices, shape, found.analyzer)
            ]
            if left:
                known = found.analyzer.assuming(_in_buffer(found.indices, found.write.buffer))
                left = [] if known.prove(all_of(*left)) else left
            self.left[key] = left
        return self.left[key]

    def _where_read(self, read: Access, analyzer: Analyzer) -> Analyzer:
        """What is known where the read is: the loops around have an iteration. `analyzer` is the
        program's, or that of instances that are kept."""
        varying = {v: e for v, e in read.inner().items() if int_value(e) is None}
        key = id(analyzer), tuple(varying.items()), read.known
        if key not in self.places:
            known = analyzer.copy() if varying else analyzer
            known.bind_all(varying)
            self.places[key] = known if read.known is TRUE else known.assuming(read.known)
        return self.places[key]

    def _at_read(self, read: Access, analyzer: Analyzer) -> Analyzer:
        """The same, and that what is read is in the buffer."""
        inside = _in_buffer(read.indices, read.buffer)
        return self._where_read(read, analyzer).assuming(inside)

    def _written_here(self, write: Access, read: Access, depth: int, first: bool) -> bool:
        """Whether an element that the only write stores in any iteration of the loops outside is
        stored in this one, before it is read, if it lies where an instance of this one could be.

        So it is if the element tells the iteration; a loop may also repeat the same stores.
        """
        inner, root = running(write, depth), write.path[0]
        if changes(write.indices, root):
            return False
        outer = {s.var: s.extent for s in write.path[:depth] if isinstance(s, For)}
        outer = {v: extent for v, extent in outer.items() if v not in inner}
        said = [*write.indices, *write.conditions, *inner.values()]
        between = read.path[depth : common_length([write.path, read.path])]
        in_order = first and not any([isinstance(s, For) for s in between])
        repeats = in_order and not changes(said, root)
        plain = {v for v in outer if not any(v in variables(e) for e in said)} if repeats else set()
        asked = [v for v in outer if v not in plain and int_value(outer[v]) != 1]
        every = {**outer, **inner}
        return all([determines(write.indices, var, every, self.analyzer) for var in asked])


def _relaxed(
    indices: Sequence[Expr], inner: Mapping[Var, Expr], analyzer: Analyzer
) -> Box | None:
    """The box of the elements that `indices` take while the variables of `inner` run."""
    parts = [relax(index, inner, analyzer) for index in indices]
    found = tuple([part for part in parts if part is not None])
    return found if len(found) == len(parts) else None


def _always(box: Box, number: Var, analyzer: Analyzer) -> Box | None:
    """What of a box is in it whatever the value of a number."""
    low, high = analyzer.range(number)
    parts: list[Interval] = []
    for part in box:
        begin, end = analyzer.linear(part.low), analyzer.linear(part.low + part.extent)
        first = high if begin.terms.get(number, 0) > 0 else low
        last = low if end.terms.get(number, 0) > 0 else high
        if first is None or last is None:
            return None
        start = analyzer.simplify(substitute(part.low, {number: const(first)}))
        stop = analyzer.simplify(substitute(part.low + part.extent, {number: const(last)}))
        if any([number in variables(atom) and atom is not number
                for form in (begin, end) for atom in form.terms]):  # fmt: skip
            return None
        parts.append(Interval(start, analyzer.simplify(stop - start)))
    return tuple(parts)


def _clipped(part: Interval, size: Expr, analyzer: Analyzer) -> Interval:
    """What of an interval is in [0, size), as far as that is an interval of the same kind: nothing
    more, since all of it counts as stored."""
    low, high = part.low, part.low + part.extent
    first = int_value(analyzer.simplify(low))
    if first is not None and first < 0:
        low = const(0)
    if analyzer.prove(binary("<=", size, high)):
        high = size
    return Interval(low, analyzer.simplify(high - low))


def _in_buffer(indices: Sequence[Expr], buffer: Buffer) -> Expr:
    """What holds of the indices of each access."""
    pairs = list(zip(indices, buffer.shape))
    inside = [binary("<", index, size) for index, size in pairs]
    return all_of(*inside, *[binary("<=", const(0), index) for index, _ in pairs])
