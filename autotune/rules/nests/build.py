"""From decisions to a schedule: cut, place, slide, then write out what is innermost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.rules.group import stores_of
from autotune.rules.nest import finish_nest, loop_of
from autotune.rules.nests.decide import Decision, Refusals, pieces
from autotune.rules.nests.places import INLINE
from autotune.rules.nests.stage import Stage
from schedule import LoopRef, Schedule, library
from tensorir import Cpu, variables


@dataclass
class Nest:
    """The loops of a stage by level, outermost first.

    inside  the loop that the stage was moved into; None at the root
    writers  the blocks that copy sums from registers
    """

    levels: dict[str, list[tuple[str, LoopRef]]] = field(default_factory=dict)
    inside: LoopRef | None = None
    writers: Sequence[str] = ()

    def loops(self, *levels: str) -> list[LoopRef]:
        return [loop for level in levels for _, loop in self.levels.get(level, ())]

    def spot(self, name: str) -> LoopRef:
        """The loop that a place in this nest names."""
        if name == "beside":
            assert self.inside is not None
            return self.inside
        if name == "tile":
            return self.loops("s1")[-1]
        tasks = self.loops("s0") if self.inside is None else self.loops("s0", "s1")
        return (tasks or self.loops(*self.levels))[0 if name == "first" else -1]


def make_nests(
    sch: Schedule,
    stages: Sequence[Stage],
    decisions: Mapping[str, Decision],
    refusals: Refusals,
    cpu: Cpu,
) -> None:
    """Schedule the stages, in the order of the program, as decided.

    Raises ScheduleError where a primitive refuses.
    """
    for stage in stages:
        if decisions[stage.block].place == INLINE:
            sch.compute_inline(stage.block)
    rest = [stage for stage in stages if decisions[stage.block].place != INLINE]
    nests: dict[str, Nest] = {}
    for stage in reversed(rest):
        d = decisions[stage.block]
        at = nests[refusals.home(stage.block, decisions)].spot(d.spot) if d.spot else None
        nests[stage.block] = _placed(sch, stage, d, at)
    for stage in rest:
        first = sch.rolling_buffer(stage.block) if decisions[stage.block].slides else None
        if first is not None:
            finish_nest(sch, first, cpu, unroll_rows=0)
    for stage in rest:
        _finish(sch, stage, decisions[stage.block], nests[stage.block], cpu)


def _placed(sch: Schedule, stage: Stage, d: Decision, at: LoopRef | None) -> Nest:
    """A stage with its loops cut and ordered, in loop `at` or with tasks for threads."""
    block = stage.block
    nest, values = Nest(inside=at), range(len(stores_of(sch.state.block(block))))
    if at is not None:
        sch.compute_at(block, at)
        for n in values if d.cached else ():
            sch.set_scope(block, n, "local")
        if d.slides:  # what of its loops is left is known once it has rolled
            nest.levels = {"s1": [("", loop) for loop in library.own_loops(sch, block)]}
            return nest
    elif d.cached:
        nest.writers = [str(sch.cache_write(block, n, "local")) for n in values]
    nest.levels = _cut(sch, stage, d)
    sch.reorder(*_ordered(sch, stage, d, nest))
    for writer in nest.writers:
        sch.reverse_compute_at(writer, _before_terms(nest, d))
    if at is None and d.threads:
        together = nest.levels["s0"][: d.threads]
        task = sch.fuse(*(loop for _, loop in together)) if d.threads > 1 else together[0][1]
        sch.parallel(task)
        nest.levels["s0"] = [("", task), *nest.levels["s0"][d.threads :]]
    return nest


def _ordered(sch: Schedule, stage: Stage, d: Decision, nest: Nest) -> list[LoopRef]:
    """The loops of a stage in their order; those of one iteration are outermost, and of terms
    outside of other terms."""
    known = nest.loops(*d.levels)
    block = sch.state.block(stage.block)
    terms = {var.name for it in block.reduced for var in variables(it.binding)}
    units = [loop for loop in library.own_loops(sch, stage.block) if loop not in known]
    first = next((n for n, level in enumerate(d.levels) if level[0] == "r"), 2)
    inside = nest.loops(*d.levels[first:])
    outside = nest.loops(*d.levels[:first])
    alone = [loop for loop in units if loop in terms]
    return [*(loop for loop in units if loop not in terms), *outside, *alone, *inside]


def _cut(sch: Schedule, stage: Stage, d: Decision) -> dict[str, list[tuple[str, LoopRef]]]:
    """Split the loops of a stage into levels, each in its order; of a stage that computes a part
    of its axes only, tiles are cut to what there is."""
    parts: dict[tuple[str, str], LoopRef] = {}
    for axis in stage.axes:
        loop = loop_of(sch, stage.block, axis.var)
        if loop is None:
            continue
        extent = sch.state.loop(loop).const_extent
        here = type(axis)(axis.var, axis.extent if extent is None else extent, extent is not None)
        cut = pieces(here, d.tiles[axis.var], axis in stage.reduce)
        made = sch.split(loop, list(cut.values())) if len(cut) > 1 else (loop,)
        parts.update(((level, axis.var), part) for level, part in zip(cut, made))
    return {
        level: [
            (var, parts[level, var])
            for var in d.orders["r" if level[0] == "r" else level]
            if (level, var) in parts
        ]
        for level in d.levels
    }


def _before_terms(nest: Nest, d: Decision) -> LoopRef:
    """The last loop outside of all loops of terms."""
    found: list[LoopRef] = []
    for level in d.levels:
        loops = nest.loops(level)
        if level[0] == "r" and loops:
            break
        found += loops
    return found[-1]


def _finish(sch: Schedule, stage: Stage, d: Decision, nest: Nest, cpu: Cpu) -> None:
    """Vectors, what is written out, and how results are stored."""
    if d.slides:
        finish_nest(sch, stage.block, cpu, unroll_rows=0)
        return
    rows = list(nest.levels["s2"])
    if d.vector and rows and rows[-1][0] == stage.lane:
        sch.vectorize(rows.pop()[1])
    if d.unroll != "none":
        terms = nest.loops("r2") if d.unroll == "rows and terms" else []
        for loop in (*terms, *(loop for _, loop in rows)):
            sch.unroll(loop)
    for writer in nest.writers:
        finish_nest(sch, writer, cpu, unroll_rows=16)
    if d.stream:
        sch.stream(nest.writers[-1] if nest.writers else stage.block)
