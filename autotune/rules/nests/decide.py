"""Decisions: what values of the choices come to for each stage, and which do not go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autotune.rules.nests.places import INLINE, ROOT, SLIDE, Links
from autotune.rules.nests.stage import PLAIN_LEVELS, Axis, Stage
from autotune.rules.plan import Values

MOST_CODE = 512
"""Operations on vectors, or on scalars, that a tile may be written out as: far more than registers
hold. Last pieces and borders have texts of their own besides, and gcc takes seconds for 200 KB."""

MOST_INLINED = 512
"""Operations of one instance, what is inlined into it counted."""

ORDER = ("first", "task", "tile")
"""Spots of a nest, from the outermost on."""


@dataclass(frozen=True)
class Decision:
    """The values of one stage's choices.

    place    where it is computed
    tiles    of each axis (middle tiles, inner tile)
    orders   of the axes of the result in the outer and the middle tiles, and of those of the terms
    levels   the order of the levels of tiles
    cached   whether sums are kept in a local copy of the tile
    vector   whether the inner tile of the lanes' axis is vectors
    unroll   what is written out: "none", "rows", "rows and terms"
    threads  outer loops that threads share
    stream   whether results are written past the caches
    """

    place: str
    tiles: Mapping[str, tuple[int, int]]
    orders: Mapping[str, tuple[str, ...]]
    levels: tuple[str, ...]
    cached: bool
    vector: bool
    unroll: str
    threads: int
    stream: bool

    @property
    def spot(self) -> str:
        """The loop of the user's nest; "" at the root and inline."""
        return self.place.split()[-1] if " " in self.place else ""

    @property
    def slides(self) -> bool:
        return self.place.startswith(SLIDE)


def decide(stage: Stage, values: Values) -> Decision:
    """What `values` say of one stage; what is not open has its only value."""
    get = lambda what, other: values.get(stage.key(what), other)  # noqa: E731
    spatial = tuple([axis.var for axis in stage.spatial])
    terms = tuple([axis.var for axis in stage.reduce])

    def order(what: str, axes: tuple[str, ...]) -> tuple[str, ...]:
        places = get(what, None)
        return axes if places is None else tuple([axes[place] for place in places])

    return Decision(
        place=get("where", ROOT),
        tiles={axis.var: values[stage.key(f"tile[{axis.var}]")] for axis in stage.axes},
        orders={
            "s0": order("outer", spatial),
            "s1": order("inner", spatial),
            "s2": tuple(sorted(spatial, key=lambda var: var == stage.lane)),  # it comes last
            "r": order("terms", terms),
        },
        levels=tuple(get("levels", PLAIN_LEVELS).split()),
        cached=get("sums", "memory") == "registers",
        vector=get("lanes", "scalar") == "vector",
        unroll=get("unroll", "none"),
        threads=get("threads", 0),
        stream=get("stores", "plain") == "stream",
    )


def pieces(axis: Axis, tile: tuple[int, int], reduce: bool) -> dict[str, int | None]:
    """The loops that an axis is cut into, by level, outermost first; None for what is left over.

    A level of one iteration has no loop, and a tile that holds all of the axis has the whole loop.
    """
    names = ("r0", "r1", "r2") if reduce else ("s0", "s1", "s2")
    middle, inner = tile
    if axis.known and inner >= axis.extent:
        return {names[2]: None}
    found: dict[str, int | None] = {}
    if not axis.known or middle * inner < axis.extent:
        found[names[0]] = None
        if middle > 1:
            found[names[1]] = middle
    else:
        found[names[1]] = None
    if inner > 1:
        found[names[2]] = inner
    return found


def level_loops(stage: Stage, d: Decision) -> dict[str, list[str]]:
    """The axes that have a loop in each level, in their order, of a nest at the root."""
    cut = {a.var: pieces(a, d.tiles[a.var], a in stage.reduce) for a in stage.axes}
    return {
        level: [var for var in d.orders["r" if level[0] == "r" else level] if level in cut[var]]
        for level in d.levels
    }


class Refusals:
    """Which decisions of a plan's stages do not go together, and why: asked before anything is
    built. Stages are looked at from the last one on, since a place is one in a user's nest."""

    def __init__(self, stages: Sequence[Stage], links: Mapping[str, Links], bitwise: bool) -> None:
        self.stages = {stage.block: stage for stage in stages}
        self.links, self.bitwise = links, bitwise

    def first(self, decisions: Mapping[str, Decision]) -> str:
        """The reason why something does not go together; "" for nothing."""
        for name in reversed(self.stages):
            reason = self.of(name, decisions)
            if reason:
                return f"{name}: {reason}"
        return ""

    def of(self, name: str, decisions: Mapping[str, Decision]) -> str:
        """Why a stage cannot be so; "" if it can. Only stages behind it are asked."""
        stage, d = self.stages[name], decisions[name]
        if d.place == INLINE:
            return self._inlined(name, decisions)
        reason = self._nest(stage, d)
        if not reason and d.spot:
            reason = self._place(name, decisions)
        return reason

    def _nest(self, stage: Stage, d: Decision) -> str:
        levels = level_loops(stage, d)
        if d.threads > len(levels["s0"]) and d.place == ROOT:
            return "more loops for threads than tasks have"
        if d.vector and d.levels[-1] != "s2":
            return "lanes around the loops of terms"
        if d.cached and d.place == ROOT and not _outside_terms(d, levels):
            return "no loop around the terms of sums in registers"
        if d.cached and d.spot and d.spot != "tile":
            return "sums in registers in more than a tile"
        if self.bitwise and reassociates(stage, d):
            return "another order of terms"
        if d.stream and not (d.vector and (d.cached or not stage.reduce)):
            return "results past the caches, and no vectors, or vectors that are read back"
        return "too much code" if _code(stage, d) > max(MOST_CODE, stage.work) else ""

    def _inlined(self, name: str, decisions: Mapping[str, Decision]) -> str:
        for user in self.users(name, decisions):
            if self.operations(user, decisions) > MOST_INLINED:
                return "too many operations inlined"
        return ""

    def operations(self, name: str, decisions: Mapping[str, Decision]) -> int:
        """Of one instance of a stage, with what is inlined into it as often as it reads it."""
        found = self.stages[name].work
        for other, links in self.links.items():
            if other in decisions and decisions[other].place == INLINE and name in links.users:
                found += self.operations(other, decisions) * links.reads[name]
        return found

    def users(self, name: str, decisions: Mapping[str, Decision]) -> list[str]:
        """Which stages read a stage, once those that are inlined are gone."""
        found: dict[str, None] = {}
        for user in filter(self.stages.get, self.links[name].users):
            inlined = decisions[user].place == INLINE
            found.update(dict.fromkeys(self.users(user, decisions) if inlined else [user]))
        return [stage for stage in self.stages if stage in found]

    def home(self, name: str, decisions: Mapping[str, Decision]) -> str:
        """The user in whose nest a stage is computed: the only one, or the one that has all the
        others inside; "" where there is none."""
        users = self.users(name, decisions)
        if len(users) == 1:
            return users[0]
        roots = {self.root(user, decisions) for user in users}
        return roots.pop() if len(roots) == 1 else ""

    def root(self, name: str, decisions: Mapping[str, Decision]) -> str:
        """The stage at the root that a stage is computed in; the stage itself if it is one."""
        while decisions[name].spot:
            name = self.home(name, decisions)
        return name

    def _place(self, name: str, decisions: Mapping[str, Decision]) -> str:
        d, home = decisions[name], self.home(name, decisions)
        users = self.users(name, decisions)
        if not home:
            return "users in several nests"
        if len(users) > 1 and not self._holds(d.spot, [decisions[u] for u in users if u != home]):
            return "users outside of the loop"
        if any(decisions[user].slides for user in users) and d.place != f"{SLIDE}beside":
            return "part of what slides, and does not slide with it"
        if decisions[home].spot:
            return self._nested(d, self.stages[home], decisions[home])
        if d.spot == "beside":
            return "a user at the root is beside no loop"
        return self._in_root(name, d, home, decisions[home])

    def _nested(self, d: Decision, home: Stage, inside: Decision) -> str:
        """A place in the nest of a user that is in a loop itself: what is left of its axes is
        known when it is there."""
        axes = {"beside": 0, "first": 2, "task": 3}.get(d.spot)
        if axes is None or len(home.axes) < axes:
            return f"a user that is in a loop itself has no {d.spot} loop"
        if d.slides and d.spot == "beside" and not inside.slides:
            return "a window beside what does not slide"
        return ""

    def _in_root(self, name: str, d: Decision, home: str, inside: Decision) -> str:
        var = spot_axis(level_loops(self.stages[home], inside), d.spot, inside.threads)
        if var is None:
            return f"a user without a {d.spot} loop"
        along = self.links[name].shares.get(home)
        shared = inside.threads and d.spot == "first"
        if d.slides and (shared or (along is not None and var not in along)):
            return "a window that does not move with the loop"
        return ""

    def _holds(self, spot: str, others: Sequence[Decision]) -> bool:
        """Whether a loop at `spot` has all others inside, which are in the same nest."""
        spots = [other.spot for other in others]
        known = spot in ORDER and all(other in ORDER for other in spots)
        return known and all(ORDER.index(other) >= ORDER.index(spot) for other in spots)


def spot_axis(levels: Mapping[str, Sequence[str]], spot: str, threads: int) -> str | None:
    """The axis of the loop at a spot of a nest at the root; "" for a loop of several, None where
    the nest has no such loop, or it is that of another spot."""
    tasks, tiles = levels["s0"], levels["s1"]
    if spot == "tile":
        return tiles[-1] if tiles else None
    if not tasks or (spot == "task" and len(tasks) <= max(1, threads)):
        return None
    if spot == "first":
        return "" if threads > 1 else tasks[0]
    return tasks[-1]


def reassociates(stage: Stage, d: Decision) -> bool:
    """Whether terms are added in another order than that of the text."""
    if not stage.reorders:
        return False
    number = {axis.var: n for n, axis in enumerate(stage.reduce)}
    levels = level_loops(stage, d)
    found = [number[var] for level in d.levels if level[0] == "r" for var in levels[level]]
    return found != sorted(found)


def _outside_terms(d: Decision, levels: Mapping[str, Sequence[str]]) -> bool:
    return next((level[0] != "r" for level in d.levels if levels[level]), False)


def _code(stage: Stage, d: Decision) -> int:
    """Operations that the innermost tile is written out as."""
    rows = prod(d.tiles[axis.var][1] for axis in stage.spatial if axis.var != stage.lane)
    lane = d.tiles[stage.lane][1] if stage.lane else 1
    count = stage.work
    if d.unroll != "none":
        count *= rows * (1 if d.vector else lane)
    if d.unroll == "rows and terms":
        count *= prod(d.tiles[axis.var][1] for axis in stage.reduce)
    return count * (-(-lane // stage.lanes) if d.vector else 1)
