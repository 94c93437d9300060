"""The stages of a scan over blocks of terms: found by what they read and write, without names."""

from __future__ import annotations

from functools import cached_property

from schedule.analysis.uses import accesses, is_output, written
from schedule.errors import require
from schedule.schedule import Schedule
from tensorir import Buffer, ForKind, IterKind, Var, body_loads, int_value, variables


class Stages:
    """The stages of a scan by the part that they play. The first states, what makes the elements
    that enter, the steps, and what reads the last states are its `members`.

    Elementwise stages that only others of them use are computed in these from the start.
    """

    def __init__(self, sch: Schedule, block: str) -> None:
        """Those of the scan whose last states `block` reads."""
        self.sch = sch
        last = [n for b in self.reads(block) for n in self.makers(b) if self.is_step(n)]
        none = f"block {block!r} reads no states of a scan"
        require(bool(last), block, none, "use_algorithm makes one of a sum weighted by a softmax")
        self.time = sch.get_loops(last[0])[0]
        self.steps = [n for n in self.names() if self.time in sch.get_loops(n)]
        made = dict.fromkeys(b for n in self.steps for b in self.writes(n))
        self.states = [b for b in made if len(self.makers(b)) > 1]
        self.first = [n for b in self.states for n in self.makers(b) if n not in self.steps]
        self.ends = self.join_ends()
        self.before = self.join_before()

    def names(self) -> list[str]:
        return [str(name) for name in self.sch.get_blocks()]

    def writes(self, name: str) -> tuple[Buffer, ...]:
        return written(self.sch.state.block(name))

    def reads(self, name: str) -> list[Buffer]:
        return list(dict.fromkeys(x.buffer for x in body_loads(self.sch.state.block(name))))

    def makers(self, buffer: Buffer) -> list[str]:
        return [name for name in self.names() if buffer in self.writes(name)]

    def is_step(self, name: str) -> bool:
        return any(it.kind is IterKind.OPAQUE for it in self.sch.state.block(name).iters)

    def is_sum(self, name: str) -> bool:
        return self.sch.state.block(name).is_reduction

    def is_alone(self, name: str) -> bool:
        """Whether a stage is elementwise, and nobody has scheduled it yet."""
        loops = [self.sch.state.loop(x) for x in self.sch.get_loops(name)]
        serial = all(f.kind is ForKind.SERIAL and not f.annotations for f in loops)
        alone = all(len(self.sch.get_child_blocks(f.name)) == 1 for f in loops)
        return serial and alone and not self.is_sum(name)

    @property
    def members(self) -> list[str]:
        return [*self.first, *self.before, *self.steps, *self.ends]

    def join_ends(self) -> list[str]:
        """What reads the states after all steps, in it the stages that make something else of
        that."""
        sch = self.sch
        while True:
            states = set(self.states)
            found = [n for n in self.names() if n not in self.steps and states & {*self.reads(n)}]
            for name in found:
                users = [str(user) for user in sch.get_consumers(name)]
                kept = any(is_output(sch.state, b) for b in self.writes(name))
                if not kept and users and all(map(self.is_alone, users)):
                    sch.compute_inline(name)
                    break
            else:
                return found

    def join_before(self) -> list[str]:
        """What makes the elements that enter, in program order: the elements, what is reduced of
        them, and the sums that they alone are made of."""
        sch, found = self.sch, list[str]()
        for name in reversed(self.names()):
            users = {str(user) for user in sch.get_consumers(name)}
            if name in {*self.steps, *self.first} or not users <= {*found, *self.steps}:
                continue
            sums = {str(u) for n in found if self.is_sum(n) for u in sch.get_producers(n)}
            elements = [n for n in found if n in sums and not self.is_sum(n)]
            if not users or any(is_output(sch.state, b) for b in self.writes(name)):
                continue
            if users & {*self.steps} or (self.is_sum(name) and users <= {*elements}):
                found.insert(0, name)
            elif users <= {*elements}:
                sch.compute_inline(name)
        return found

    @cached_property
    def kinds(self) -> dict[tuple[str, Var], object]:
        """What each variable of a block runs over: the same as others at one place of an array that
        one of the blocks makes."""
        same: dict[object, object] = {}

        def root(e: object) -> object:
            while e in same:
                e = same[e]
            return e

        made = {b for name in self.members for b in self.writes(name)}
        places = [
            (root((name, index)), (access.buffer.name, at))
            for name in self.members
            for access in accesses(self.sch.state.block(name))
            for at, index in enumerate(access.indices)
            if access.buffer in made and isinstance(index, Var)
        ]
        for var, place in places:
            if root(var) != root(place):
                same[root(var)] = root(place)
        return {
            (name, it.var): root((name, it.var))
            for name in self.members
            for it in self.sch.state.block(name).iters
        }

    def dimensions(self, name: str) -> list[object]:
        """What the dimensions of what a block makes run over, without the time of a scan and those
        of one element."""
        node = self.sch.state.block(name)
        stored = next(a for a in accesses(node) if a.is_write)
        many = {
            it.var
            for it in node.iters
            if it.kind is not IterKind.OPAQUE and int_value(it.extent) != 1
        }
        own = [i for i in stored.indices if isinstance(i, Var) and i in many]
        return [self.kinds[name, var] for var in own]

    @cached_property
    def filled(self) -> list[str]:
        """What fills up an operand of a product where the last block has fewer terms: a copy."""
        return [name for name in self.before if self.rows[-1] not in self.dimensions(name)]

    @cached_property
    def rows(self) -> list[object]:
        """The dimensions of what is a number for each row; last that which no other operand of a
        product than the weights moves along, if there is one: its neighbours share a tile."""
        updates = [n for n in self.steps if set(self.writes(n)) & {*self.states}]
        rows = min(map(self.dimensions, updates), key=len)
        require(bool(rows), self.ends[0], "there are no rows that threads could share")
        inner = {b for name in self.steps for b in self.writes(name)}
        moved = {
            self.kinds[name, var]
            for name in filter(self.is_sum, self.steps)
            for load in body_loads(self.sch.state.block(name))
            for index in load.indices
            for var in variables(index)
            if load.buffer not in inner
        }
        free = [row for row in rows if row not in moved]
        last = free[-1] if free else rows[-1]
        return [*(row for row in rows if row != last), last]
