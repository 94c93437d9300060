"""Contractions after moves, where that takes less time than the nest without them.

Moves that come along are sums in parts that are computed side by side, in lanes of vectors or by
threads, and added up: for rows that lie in memory one after the other, products with a vector or of
few rows, long sums with few results, sums of columns. Users register others (`moves.py`).

Source: the split-K schedules of NVIDIA's CUTLASS ("Efficient GEMM in CUDA"), and for lanes along
the terms the kernels without packing of LIBXSMM (Heinecke et al., SC 2016).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from autotune.rules.contraction import ContractionPlan, fits, nest_of, nest_values
from autotune.rules.group import Group
from autotune.rules.lanes import reduces_by_one
from autotune.rules.moves import MOVES, find_move
from autotune.rules.plan import Plan, Values
from autotune.rules.ranked import RankedPlan, group_contraction
from autotune.streams import Column
from schedule import Schedule, ScheduleError, library
from tensorir import Cpu, allows, weakest

SURELY, ABOUT, ALIKE = 1.35, 0.95, 1.03
"""How much better an estimate has to be than that of another kind of nest, or of the same kind."""

AHEAD = ("ahead", "factors_ahead")
"""The moves that come along and leave the nest to the same plans."""

Moves = tuple[tuple["library.Move", Any], ...]
Ranked = list[tuple[float, "library.MovedPlan"]]


@dataclass(frozen=True)
class _Base:
    """A contraction in a schedule, for which plans are looked for.

    `reduces` says whether partial sums are possible, `numerics` what its nests may do to the order
    of sums. What registered moves refuse is kept in `refused`, with the reason.
    """

    sch: Schedule
    c: library.Contraction
    cpu: Cpu
    reduces: bool
    numerics: str = "reassociated"
    refused: dict[str, str] = field(default_factory=dict)

    def ranked(self, constants: Collection[str]) -> dict[tuple[str, ...], Ranked]:
        """The plans by the names of their moves, the best kind first, and of each the best plan."""
        found = self.partial(self.c, constants)
        found += self.moved(self.sch, self.c, constants, _moves(self.numerics))
        kinds: dict[tuple[str, ...], Ranked] = {}
        for item in sorted(found, key=lambda item: item[0]):
            kinds.setdefault(_names(item[1]), []).append(item)
        return kinds

    def partial(self, c: library.Contraction, constants: Collection[str]) -> Ranked:
        """Plans with partial sums."""
        if not self.reduces or not allows(self.numerics, "reassociated"):
            return []
        from autotune.partials import partial_plans

        return partial_plans(c, self.cpu, constants)

    def moved(
        self,
        sch: Schedule,
        c: library.Contraction,
        constants: Collection[str],
        moves: Sequence[library.Move],
    ) -> Ranked:
        """Plans that begin with one of some moves, each of which is made once at most."""
        from autotune.plans import plans

        found: Ranked = []
        for move in moves:
            others = [other for other in moves if other is not move]
            for option in move.options(c, self.cpu):
                at = sch.copy()
                try:
                    after = move(at, c, option)
                except ScheduleError as error:
                    self.refused[error.call] = error.reason
                    continue
                nests = plans(after, self.cpu, constants, self.numerics)
                if move.name in AHEAD:
                    nests = [(t, library.with_parts_packed(c, after, nest)) for t, nest in nests]
                left = [(cycles, library.MovedPlan((), nest)) for cycles, nest in nests]
                left += self.partial(after, constants)
                left += self.moved(at, after, constants, others)
                own = move.cycles(c, option, self.cpu, constants)
                for cycles, plan in left:
                    whole = replace(plan, moves=((move, option), *plan.moves))
                    found.append((own + cycles, whole))
        return found


class MovedNest(RankedPlan["library.MovedPlan"]):
    """One contraction after moves of the same names, one after the other: these are its `name`.
    They are looked for again where operands are constants."""

    name: str
    group: Group
    numerics: str

    def __init__(self, group: Group, base: _Base, found: Ranked) -> None:
        self.group, self.of, self.base = group, base, base.sch
        self.operands = frozenset(o.buffer for o in base.c.operands)
        moves = found[0][1].moves
        self.kinds = _names(found[0][1])
        self.name = "_".join(self.kinds)
        self.moved = weakest(move.numerics for move, _ in moves)
        self.numerics = weakest([self.moved, base.numerics])
        self._found[frozenset()] = found
        self._left: dict[object, library.Contraction] = {}

    def within(self, numerics: str) -> MovedNest | None:
        """With sums in the order of the text, if no other is allowed."""
        if allows(numerics, self.numerics):
            return self
        if not allows(numerics, self.moved):
            return None
        base = replace(self.of, numerics="bitwise")
        found = base.ranked(()).get(self.kinds)
        return MovedNest(self.group, base, found) if found else None

    @property
    def refused(self) -> dict[str, str]:
        return self.of.refused

    def look_for(self, constants: frozenset[str]) -> Ranked:
        return self.of.ranked(constants).get(self.kinds) or self.ranked()

    @property
    def subject(self) -> Any:
        return (self.name, self.of.c, self.numerics)

    @cached_property
    def always(self) -> bool:  # type: ignore[override]
        """Whether there is no nest without moves."""
        from autotune.plans import has_plans

        return not has_plans(self.of.c, self.of.cpu)

    def suits(self, constants: Collection[str]) -> bool:
        """Whether it takes less time than the best nest without moves: surely so where that has
        reuse; else memory decides, which is best read in its order."""
        if self.always:
            return True
        from autotune.plans import plans

        c = self.of.c
        whole = plans(c, self.of.cpu, constants, self.of.numerics)
        if set(self.kinds) <= set(AHEAD):
            return self.estimate(constants) * ALIKE < whole[0][0]
        reuse = all(c.is_used_again(n) for n in range(len(c.operands)))
        return self.estimate(constants) * (SURELY if reuse else ABOUT) < whole[0][0]

    def columns(self, rows: Sequence[Values], constants: Collection[str] = ()) -> Column:
        """Of the moves, and of the nests of what they leave."""
        from autotune.estimate.estimate import Estimate

        alike: dict[Moves, list[int]] = {}
        for at, values in enumerate(rows):
            alike.setdefault(self._moves(values), []).append(at)
        found = np.zeros(len(rows))
        for moves, places in alike.items():
            estimate = Estimate(self._after(moves), self.of.cpu, constants)
            found[places] = estimate.cycles([self.nest(rows[at]).nest for at in places])
            for n, (move, option) in enumerate(moves):
                before = self._after(moves[:n])
                found[places] += move.cycles(before, option, self.of.cpu, constants)
        return found

    def make(self, sch: Schedule, nest: library.MovedPlan) -> None:
        library.make_moved_nest(sch, self.of.c, nest)

    def feasible(self, values: Values) -> bool:
        if not fits(self._after(self._moves(values)), values):  # drawn for another option
            return False
        nest = self.nest(values).nest
        return -(-prod(nest.tile) // nest.lanes) <= self.of.cpu.registers

    def values(self, plan: library.MovedPlan) -> dict[str, Any]:
        """The moves alone say how many lanes there are, and so how their terms are written."""
        nest, block = plan.nest, self.group.block
        if self.kinds[-1] == "lanes":
            nest = _with_lanes(nest, 1, "")
        return {
            f"{block}.moves": tuple((move.name, option) for move, option in plan.moves),
            **nest_values(self.of.c, nest),
        }

    def _moves(self, values: Values) -> Moves:
        chosen = values[f"{self.group.block}.moves"]
        return tuple((find_move(name), option) for name, option in chosen)

    def _after(self, moves: Moves) -> library.Contraction:
        """What moves leave, but for names and places; its choices are those of the group."""
        if moves not in self._left:
            left = library.left_by(moves, self.base, self.of.c)
            self._left[moves] = replace(left, block=self.group.block)
        return self._left[moves]

    def nest(self, values: Values) -> library.MovedPlan:
        moves = self._moves(values)
        after = self._after(moves)
        nest = nest_of(after, values)
        if self.kinds[-1] == "lanes":
            from autotune.estimate.traffic import asking
            from autotune.partials import flat_of

            flat = flat_of(after)
            asked = values[self.key("ahead")]
            nest = asking(after, _with_lanes(nest, moves[-1][1][1], flat), asked)
        return library.MovedPlan(moves, nest)


def _with_lanes(nest: library.NestPlan, count: int, flat: str) -> library.NestPlan:
    """The nest with so many lanes, and their terms so written."""
    tile, task = ((*s[: nest.lane], count, *s[nest.lane + 1 :]) for s in (nest.tile, nest.task))
    return replace(nest, tile=tile, task=task, flat=flat)


def moved_plans(sch: Schedule, group: Group, cpu: Cpu) -> list[Plan]:
    """A plan for each sequence of moves ahead of the nest of a reduction; beside partial sums, also
    for the nest without moves, for where it takes less time."""
    node = sch.state.block(group.block)
    if not reduces_by_one(node) and not (MOVES and node.is_reduction):
        return []
    c = group_contraction(sch, group)
    if c is None:
        return []
    base = _Base(sch.copy(), c, cpu, reduces_by_one(node))
    made = [MovedNest(group, base, found) for found in base.ranked(()).values()]
    if all({*MOVES, *AHEAD} & set(plan.kinds) for plan in made) or made[0].always:
        return list(made)
    return [*made, ContractionPlan(group, base.sch, c, cpu)]


def _moves(numerics: str) -> tuple[library.Move, ...]:
    """The moves that are tried one after the other, ahead of whatever nest."""
    found = [move for move in map(find_move, AHEAD) if allows(numerics, move.numerics)]
    return (*found, *MOVES.values())


def _names(plan: library.MovedPlan) -> tuple[str, ...]:
    return tuple(move.name for move, _ in plan.moves)
