"""Which stages go along with loops of a stage that uses them: found by what they access alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from autotune.rules.group import stores_of
from schedule import Schedule
from tensorir import (
    Block,
    Expr,
    IterKind,
    IterVar,
    Var,
    body_loads,
    const,
    determines,
    int_value,
    slope,
    substitute,
    variables,
)

NOWHERE: Mapping[Var, Expr] = MappingProxyType({})
"""The places of a stage that is needed elsewhere too, or does not store at its variables."""

MOST_STAGES = 48
"""Stages that go along with one: of a deep network more are not looked at."""


class Follower(NamedTuple):
    """A stage, and where its elements are needed.

    places  its variables in terms of the loops of the last stage, and of others that are free there
    loops   those loops of the last stage of which each element belongs to one iteration
    moving  loops along which other elements are needed that `places` do not tell
    """

    block: str
    places: Mapping[Var, Expr]
    loops: frozenset[Var]
    moving: frozenset[Var] = frozenset()


def followers(
    sch: Schedule, last: str, among: Collection[str] | None = None, one: bool = False,
    aside: Collection[str] = (), results: bool = False,
) -> dict[str, Follower]:  # fmt: skip
    """The last stage, and those before it, `among` some if given, that only it and stages `aside`
    need, directly or not, and that go along with one of its loops at least, unless all of them are
    to be `one` row; by name, the last one first. What they make is a result of the program
    only if `results`."""
    return _Search(sch, last, aside, results).run(among, one)


class _Search:
    def __init__(self, sch: Schedule, last: str, aside: Collection[str], results: bool) -> None:
        self.sch, self.last, self.aside = sch, last, aside
        self.known = () if results else sch.func.params
        node, around = sch.state.block(last), sch.state.loops_around(last)
        bindings = [it.binding for it in node.spatial]
        data = {var for binding in bindings for var in variables(binding)}
        loops = frozenset(loop.var for loop in around if loop.var in data)
        self.extents: dict[Var, Expr] = {loop.var: loop.extent for loop in around}
        self.analyzer = sch.state.analyzer(around)
        self.found = {last: Follower(last, {it.var: it.binding for it in node.iters}, loops)}

    def run(self, among: Collection[str] | None, one: bool) -> dict[str, Follower]:
        place, pending = self.sch.state.place, [self.last]
        end = place(self.last)
        for name in pending:  # a stage is ready with the last of those that use it
            for maker in map(str, () if self.ends(name) else self.sch.get_producers(name)):
                users = [str(u) for u in self.sch.get_consumers(maker) if u not in self.aside]
                outside = among is not None and maker not in among or len(self.found) == MOST_STAGES
                if maker in self.found or outside or place(maker) > end:
                    continue
                if users and all(user in self.found for user in users):
                    stage = self.follower(maker, [self.found[user] for user in users])
                    if stage.loops or (one and stage.places is not NOWHERE):
                        self.found[maker] = stage
                        pending.append(maker)
        return dict(sorted(self.found.items(), key=lambda item: place(item[0]), reverse=True))

    def follower(self, name: str, users: Sequence[Follower]) -> Follower:
        """A stage whose users are known."""
        node = self.sch.state.block(name)
        stored = stored_at(node)
        buffers = {store.buffer for store in stores_of(node)}
        steps = any(it.kind is IterKind.OPAQUE for it in node.iters)
        if stored is None or steps or any(buffer in self.known for buffer in buffers):
            return Follower(name, NOWHERE, frozenset())
        read = [
            tuple(self.analyzer.simplify(substitute(i, user.places)) for i in load.indices)
            for user in users
            for load in body_loads(self.sch.state.block(user.block))
            if load.buffer in buffers
        ]
        common = frozenset.intersection(*[user.loops for user in users])
        where = {index: n for n, index in enumerate(stored)}  # a tuple would ask which are equal
        places: dict[Var, Expr] = {}
        moving: set[Var] = set()
        for it in node.iters:
            at = {point[where[it.var]] for point in read} if it.var in where else set()
            place = [*at][0] if len(at) == 1 else self.place(name, it, at, common)
            places[it.var] = place
            moving.update(
                *(variables(e) & common for e in at if variables(place).isdisjoint(common))
            )
        values = list(places.values())
        one = (v for v in common if int_value(self.extents[v]) == 1)
        kept = {*one, *(v for v in common if determines(values, v, self.extents, self.analyzer))}
        return Follower(name, places, frozenset(kept), frozenset(moving))

    def ends(self, name: str) -> bool:
        """Whether a stage is a sum of which rows have elements along several axes that are not one
        in all that it reads: no rows go on before it."""
        node, found = self.sch.state.block(name), self.found[name]
        wide = [it.var for it in node.spatial if int_value(it.extent) != 1]
        own = {v for v in wide if found.loops.isdisjoint(variables(found.places[v]))}
        reads = [own & load.variables for load in body_loads(node) if node.is_reduction]
        return name != self.last and any(mine and mine != own for mine in reads)

    def place(self, name: str, it: IterVar, at: Collection[Expr], loops: Collection[Var]) -> Expr:
        """Where all of `at` lie: what they share, and a variable that is free for the rest."""
        free = Var(f"{name}.{it.var.name}")
        base: Expr = const(0)
        steps = {
            var: {slope(e, var, self.analyzer) if var in variables(e) else 0 for e in at}
            for var in loops
        }
        shared = {var: next(iter(found)) for var, found in steps.items() if len(found) == 1}
        apart = min((step for step in shared.values() if step), default=0)
        if apart and apart > 0:
            for var, step in shared.items():
                base = base + var * (step or 0)
            ranges = [self.analyzer.bounds(self.analyzer.simplify(e - base)) for e in at]
            if any(a is None or b is None or a < 0 or b >= apart for a, b in ranges):
                apart = 0
        extent = const(apart) if apart > 0 else it.extent
        self.extents[free] = extent
        self.analyzer.bind(free, extent)
        return base + free if apart > 0 else free


def stored_at(block: Block) -> tuple[Expr, ...] | None:
    """Where a block stores, if at one place of which no two indices are the same variable."""
    places = {store.indices for store in stores_of(block)}
    if len(places) != 1:
        return None
    (indices,) = places
    own = [index for index in indices if isinstance(index, Var)]
    return indices if len(set(own)) == len(own) else None
