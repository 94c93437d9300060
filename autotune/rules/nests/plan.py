"""NestsPlan: the general nests of some stages of a program, with all of their choices open."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from autotune.choices import Categorical, Choice, ImperfectTile
from autotune.rules.group import Group
from autotune.rules.nests.build import make_nests
from autotune.rules.nests.decide import Decision, Refusals, decide
from autotune.rules.nests.places import INLINE, ROOT, Links, find_links, find_places
from autotune.rules.nests.stage import Stage, find_stage
from autotune.rules.plan import Plan, Values
from autotune.space import Infeasible
from autotune.streams import Column
from schedule import Schedule
from tensorir import Const, Cpu, Var

if TYPE_CHECKING:
    from autotune.rules.nests.columns import Formula

MEANINGS = {
    "where": "where a stage is computed that others read: in a nest of its own (root), in place of"
    " what reads it (inline), or in a loop of its reader's nest, only what that needs (at) or only"
    " what the iterations before did not compute (slide): in the first loop, the last one of the"
    " tasks, the last one of the middle tiles, or the loop that its reader is in (beside)",
    "tile[x]": "axis x in tasks of so many middle tiles, these of so many inner tiles, and the"
    " iterations of an inner tile",
    "outer, inner": "order of the axes among the loops over tasks, and over middle tiles; 0 is"
    " the first axis",
    "levels": "order of the levels of tiles: s0 s1 s2 of the result, r0 r1 r2 of the terms of a"
    " sum, each from tasks to inner tiles",
    "terms": "order of the axes of the terms",
    "sums": "whether sums are kept in registers, and copied to the result, or added up there",
    "lanes": "whether the inner tile of the last axis is vectors",
    "unroll": "what of the inner tiles is written out, besides vectors",
    "threads": "how many of the outer loops threads share; 0: one thread",
    "stores": "whether results are written past the caches",
}
"""What the choices decide, for newcomers."""

TRIES = 50
"""Values of one stage that are drawn before it gets those that need no tuning."""


@dataclass(frozen=True, eq=False)
class NestsPlan(Plan):
    """Nests of some stages, `parts`, in the order of the program.

    base     the program, of which nothing was done to them
    links    who reads what each of them makes
    inlined  those that need no tuning to be inlined
    told     what is not among the choices, and why
    bitwise  whether sums keep the order of their terms
    wanted   what needs no tuning, by the last parts of the names of choices, instead of what is
             usual; of a tile the inner one
    least    the class of the program whatever is chosen
    """

    group: Group
    cpu: Cpu
    base: Schedule = field(repr=False)
    parts: tuple[Stage, ...]
    links: Mapping[str, Links]
    inlined: frozenset[str] = frozenset()
    bitwise: bool = False
    least: str = "bitwise"
    told: Mapping[str, str] = field(default_factory=dict)
    name: str = "nest"
    wanted: Mapping[str, Any] = field(default_factory=dict)
    meanings: ClassVar[Mapping[str, str]] = MEANINGS

    @property
    def stages(self) -> tuple[str, ...]:
        return tuple(stage.block for stage in self.parts)

    def within(self, numerics: str) -> Plan | None:
        kept = replace(self, bitwise=True) if numerics == "bitwise" else self
        return super(NestsPlan, kept).within(numerics)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(choice for stage in self.parts for choice in stage.choices)

    @cached_property
    def refusals(self) -> Refusals:
        return Refusals(self.parts, self.links, self.bitwise)

    @property
    def numerics(self) -> str:
        """The class of the plan whatever is chosen."""
        free = not self.bitwise and any(stage.reorders for stage in self.parts)
        return "reassociated" if free else self.least

    def decisions(self, values: Values) -> dict[str, Decision]:
        return {stage.block: decide(stage, values) for stage in self.parts}

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """Stages inlined as rules do it, or at the root: four vectors a row; sums of four rows of
        two vectors."""
        found: dict[str, Any] = {}
        decisions: dict[str, Decision] = {}
        for stage in reversed(self.parts):
            place = INLINE if stage.block in self.inlined else ROOT
            found.update(self._plain(stage, place, decisions))
        return {choice.name: found[choice.name] for choice in self.choices}

    def _plain(self, stage: Stage, place: str, decisions: dict[str, Decision]) -> dict[str, Any]:
        """Values of a stage that need no tuning, which `decisions` learn."""
        for sums in ("registers", "memory"):  # where all of the result is one tile
            values = _default(stage, place, sums, self.wanted)
            decisions[stage.block] = decide(stage, values)
            if not self.refusals.of(stage.block, decisions):
                break
        return values

    def is_possible(self) -> bool:
        """Whether primitives accept what needs no tuning, of a program that nothing was done to."""
        values = self.default()
        kept = all(v in getattr(c, "options", (v,)) for c, v in zip(self.choices, values.values()))
        return kept and not self.refusals.first(self.decisions(values))

    def draw(self, rng: random.Random) -> list[Any]:
        """Random values that go together: stage by stage from the last one on."""
        values: dict[str, Any] = {}
        decisions: dict[str, Decision] = {}
        for stage in reversed(self.parts):
            for _ in range(TRIES):
                drawn = {choice.name: choice.sample(rng) for choice in stage.choices}
                decisions[stage.block] = decide(stage, drawn)
                if not self.refusals.of(stage.block, decisions):
                    break
            else:
                drawn = self._plain(stage, ROOT, decisions)
            values.update(drawn)
        return [values[choice.name] for choice in self.choices]

    def feasible(self, values: Values) -> bool:
        reason = self.refusals.first(self.decisions(values))
        if reason:
            raise Infeasible(reason)
        return True

    @cached_property
    def formula(self) -> Formula:
        from autotune.rules.nests.columns import Formula  # the default schedule needs none

        return Formula(self.base, self.parts, self.refusals, self.cpu)

    def columns(self, rows: Sequence[Values], constants: Collection[str] = ()) -> Column:
        return self.formula.cycles([self.decisions(values) for values in rows])

    def apply(self, sch: Schedule, values: Values) -> None:
        make_nests(sch, self.parts, self.decisions(values), self.refusals, self.cpu)


def nests_plan(
    sch: Schedule,
    blocks: Sequence[str],
    device: Cpu,
    inlined: Collection[str] = (),
    name: str = "nest",
    wanted: Mapping[str, Any] | None = None,
) -> NestsPlan:
    """The plan of some blocks of a program that nothing was done to but inlining.

    `inlined` are those that rules inline, and `wanted` what else needs no tuning. Places are found
    by trying them.
    """
    names = [str(name) for name in sch.get_blocks() if name in blocks]
    links = find_links(sch, names)
    refused: dict[str, str] = {}
    stages = [
        find_stage(sch, name, device, find_places(sch, name, links, refused)) for name in names
    ]
    return NestsPlan(
        Group(names[-1]), device, sch.copy(), tuple(stages), links, frozenset(inlined),
        least=_least(sch, names), told=refused, name=name, wanted=wanted or {},
    )  # fmt: skip


def _least(sch: Schedule, names: Sequence[str]) -> str:
    """The class of nests that change nothing: of sums over sizes that are computed from symbols a
    schedule does not tell that they are the same."""
    for name in names:
        block = sch.state.block(name)
        plain = all(isinstance(it.extent, (Const, Var)) for it in block.iters)
        if block.is_reduction and not plain:
            return "reassociated"
    return sch.numerics


def _default(stage: Stage, place: str, sums: str, instead: Mapping[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "where": place,
        "sums": sums,
        "lanes": "vector",
        "unroll": "rows",
        "stores": "plain",
        "threads": min(stage.threads, max(1, len(stage.spatial) - 1)) if stage.large else 0,
        **instead,
    }
    found: dict[str, Any] = {}
    for choice in stage.choices:
        what = choice.name.removeprefix(f"{stage.block}.")
        if isinstance(choice, ImperfectTile):
            found[choice.name] = (1, _inner(stage, choice, instead.get(what)))
        else:
            assert isinstance(choice, Categorical)
            found[choice.name] = wanted.get(what, choice.options[0])
    return found


def _inner(stage: Stage, choice: ImperfectTile, wanted: int | None) -> int:
    """The inner tile of an axis that needs no tuning, at most `wanted`."""
    assert choice.inner is not None
    axes = [axis.var for axis in stage.spatial]
    rows = [var for var in axes if var != stage.lane]
    most = 1
    if choice.name == stage.key(f"tile[{stage.lane}]"):
        most = stage.lanes * (2 if stage.reduce else 4)
    elif stage.reduce and rows and choice.name == stage.key(f"tile[{rows[-1]}]"):
        most = 4
    most = wanted or most
    return max((n for n in choice.inner if n <= most), default=choice.inner[0])
