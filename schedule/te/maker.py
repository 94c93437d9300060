"""From what was asked of stages to a schedule made with primitives.

Requests are met in an order of their own, in which each finds what it needs, whatever the order in
which they were made: first those that change the graph, then the stages that are inlined, then,
consumers before producers, where each stage is computed and its loops, and last how loops are run
and memory is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from schedule.schedule import Schedule
from schedule.state import LoopRef
from schedule.te.errors import RequestError, Words
from schedule.te.kinds import Kind, of_loops
from schedule.te.mark import mark, with_copies
from schedule.te.nest import Nest, Step, among
from schedule.te.request import Request
from schedule.te.stage import Stage
from schedule.te.stage_state import Place
from schedule.te.threads import outside_of_threads
from tensorir import IterKind, PrimFunc, TensorIRError, variables

if TYPE_CHECKING:
    from schedule.te.dataflow import Change

Loops = dict[int, LoopRef | None]
Marked = tuple[Stage, Kind, LoopRef | None]


class StageMaker:
    """Makes one schedule.

    `blocks` has the block of each stage, `buffers` the name of the buffer of each tensor, and
    `loops` for each stage the loop of each handle, None where it has one iteration and is gone.
    `without_variable` are roots of one iteration for which a block has no variable; `copies` has
    the loops that a loop of threads became besides itself, to which its requests apply too.
    """

    def __init__(
        self,
        definition: PrimFunc,
        blocks: Mapping[Stage, str],
        buffers: Mapping[tuple[Any, int], str],
        changes: Sequence[Change],
        stages: Sequence[Stage],
    ) -> None:
        self.sch = Schedule(definition)
        self.blocks, self.buffers = dict(blocks), dict(buffers)
        self.changes, self.stages = changes, stages
        self.loops: dict[Stage, Loops] = {}
        self.without_variable: dict[Stage, Sequence[Any]] = {}
        self.copies: dict[LoopRef, tuple[LoopRef, ...]] = {}

    def run(self) -> Schedule:
        for change in self.changes:
            with self.meeting(change.request):
                change.apply(self)
        for stage in self._in_order([s for s in self.stages if s.home[0] == "inline"]):
            with self.meeting(stage.home[1]):
                self.sch.compute_inline(self.blocks[stage])
        live = [stage for stage in self.stages if stage.home[0] != "inline"]
        for stage in reversed(self._in_order(live)):
            self._place(stage)
            if not _rolling(stage):
                self._build(stage)
        for stage in self._in_order([s for s in live if _rolling(s)]):
            self._roll(stage)
        self._mark(self._in_order(live))
        return self.sch

    def _in_order(self, stages: Iterator[Stage] | Sequence[Stage]) -> list[Stage]:
        """Stages in the order of the program, producers first."""
        order = {str(name): place for place, name in enumerate(self.sch.get_blocks())}
        return sorted((s for s in stages if s in self.blocks), key=lambda s: order[self.blocks[s]])

    def _place(self, stage: Stage) -> None:
        """Put a stage where it is computed."""
        place, request = stage.home
        if isinstance(place, tuple):
            with self.meeting(request):
                self._attach(stage, place)

    def _roll(self, stage: Stage) -> None:
        """The stages of a chain roll from the first one on, when all are in their loop, and have
        their own loops after that."""
        for kind in _rolling(stage):
            with self.meeting(kind.request):
                self.sch.rolling_buffer(self.blocks[stage])
        self._build(stage)

    def _build(self, stage: Stage) -> None:
        """Make the loops of a stage."""
        if stage not in self.loops:
            self.find_loops(stage, stage.nest)
        for step in stage.nest.steps:
            with self.meeting(step.request):
                self.change(stage, step)
        for step in stage.nest.steps:
            if step.name == "decompose":
                self._build(step.option[0])

    def _attach(self, stage: Stage, place: Place) -> None:
        loop = self._loop_at(stage, place)
        if loop is not None and loop not in self.sch.get_loops(self.blocks[stage]):
            self.sch.compute_at(self.blocks[stage], outside_of_threads(self, stage, loop))

    def _loop_at(self, stage: Stage, place: Place) -> LoopRef | None:
        """The loop of a place; a loop of one iteration that is gone has the next one outside stand
        in, if need be outside of the stage itself."""
        parent, axis = place
        became = parent.nest.came_of(axis)
        if not became:
            raise TensorIRError(
                f"loop {axis.name!r}, in which {stage.name!r} is computed, is gone: the loops of "
                f"{parent.shown} are {', '.join(a.name for a in parent.leaves) or 'none'}"
            )
        if _rolling(parent) and parent in self.blocks:
            raise TensorIRError(
                f"{parent.shown} is a rolling buffer: each iteration computes a part of what is "
                f"read, and nothing can be computed in its loops; compute {stage.shown} where "
                f"{parent.shown} is computed"
            )
        if parent not in self.loops:
            raise TensorIRError(
                f"{parent.shown} runs before {stage.shown} or is inlined; compute_at needs a "
                "consumer"
            )
        leaves = parent.leaves
        at = next(n for n, leaf in enumerate(leaves) if leaf is became[-1])
        for leaf in reversed(leaves[: at + 1]):
            loop = self.loops[parent][id(leaf)]
            if loop is not None:
                return loop
        outer = parent.home[0]
        return self._loop_at(stage, outer) if isinstance(outer, tuple) else None

    def find_loops(self, stage: Stage, nest: Nest) -> None:
        """The loop of each variable of the block, among those that are its own."""
        state, block = self.sch.state, self.blocks[stage]
        around = state.loops_around(block)
        outside: set[str] = set()
        place = stage.home[0]
        if isinstance(place, tuple) and place[0] in self.loops:
            outside = {f.name for f in state.loops_around(self.blocks[place[0]])}
        own = [f for f in around if f.name not in outside]
        found: Loops = {}
        free = {f.name for f in own}
        once = self.without_variable.get(stage, ())
        found.update({id(handle): None for handle in once})
        roots = [handle for handle in nest.roots if not among(handle, once)]
        for it, handle in zip(state.block(block).iters, roots, strict=True):
            used = [f.name for f in own if f.var in variables(it.binding)]
            found[id(handle)] = LoopRef(used[-1]) if used else None
            free.difference_update(used)
        absent = [handle for handle in nest.roots if found[id(handle)] is None]
        if len(absent) == len(free):  # loops of one iteration, of which no binding speaks
            names = [LoopRef(f.name) for f in own if f.name in free]
            found.update(zip(map(id, absent), names))
        self.loops[stage] = found

    def change(self, stage: Stage, step: Step) -> None:
        """split, fuse or reorder; loops of one iteration that are gone change nothing."""
        loops = self.loops[stage]
        if step.name == "split":
            self._split(stage, step)
            return
        if step.name == "decompose":
            self._decompose(stage, step)
            return
        if step.name == "unit":
            outermost = next(iter(self._present_loops(stage)), self.blocks[stage])
            loops[id(step.made[0])] = self.sch.add_unit_loop(outermost)
            return
        real = [loop for a in step.args if (loop := loops[id(a)]) is not None]
        if step.name == "reorder":
            self.sch.reorder(*real)
            return
        fused = real[0] if len(real) == 1 else None
        loops[id(step.made[0])] = self.sch.fuse(*real) if len(real) > 1 else fused

    def _split(self, stage: Stage, step: Step) -> None:
        loop, (factors, exact) = self.loops[stage][id(step.args[0])], step.option
        parts: Sequence[LoopRef | None] = (None, None)
        if loop is not None:
            before = self.sch.state.block(self.blocks[stage]).predicate
            parts = self.sch.split(loop, factors)
            if exact and self.sch.state.block(self.blocks[stage]).predicate is not before:
                raise TensorIRError(
                    "it is not proved that no iteration is beyond the extent "
                    f"{step.args[0].extent!r}; leave disable_predication out, or give a factor "
                    "that divides it"
                )
        self.loops[stage].update(zip(map(id, step.made), parts))

    def _decompose(self, stage: Stage, step: Step) -> None:
        """The loops of the first values repeat those of the data axes inside."""
        init, inside = step.option
        loops, block = self.loops[stage], self.blocks[stage]
        around = self.sch.get_loops(block)
        at = loops[id(step.args[0])]
        if at is None:
            raise TensorIRError(f"loop {step.args[0].name!r} has one iteration and is gone")
        iters = self.sch.state.block(block).iters
        data = [it.binding for it in iters if it.kind is not IterKind.REDUCE]
        used = {var.name for binding in data for var in variables(binding)}
        name = self.sch.decompose_reduction(block, at)
        self.blocks[init] = name
        fresh = iter([loop for loop in self.sch.get_loops(name) if loop not in around])
        self.loops[init] = {
            id(own): next(fresh) if loops[id(axis)] in used else None
            for own, axis in zip(init.nest.roots, inside)
        }

    def _present_loops(self, stage: Stage) -> list[LoopRef]:
        """The loops of a stage that are there, outermost first."""
        known = {*self.loops[stage].values()}
        return [loop for loop in self.sch.get_loops(self.blocks[stage]) if loop in known]

    def _mark(self, stages: Sequence[Stage]) -> None:
        """How loops are run and memory is used. Each may need others: of threads that share
        memory, say, all. So what is refused is tried again after the others, and then loops over
        one axis are bound at once."""
        pending = [(stage, kind, loop) for stage in stages for kind, loop in self._kinds_of(stage)]
        pending.sort(key=lambda row: row[1].name == "pragma")
        while pending:
            refused: dict[Marked, TensorIRError] = {}
            for stage, kind, loop in pending:
                try:
                    with self.meeting(kind.request):
                        mark(self, stage, kind, loop)
                except TensorIRError as error:
                    refused[stage, kind, loop] = error
            together = self._bind_together(refused) if len(refused) == len(pending) else set()
            if len(refused) == len(pending) and not together:
                raise next(iter(refused.values()))
            pending = [row for row in refused if row not in together]

    def _bind_together(self, refused: Iterable[Marked]) -> set[Marked]:
        """Bind all loops that wait for one axis of threads, if that is allowed; these."""
        axes: dict[str, list[Marked]] = {}
        for row in refused:
            if row[1].name == "bind":
                axes.setdefault(row[1].args[0], []).append(row)
        for axis, rows in axes.items():
            loops = [each for _, _, loop in rows if loop for each in with_copies(self, loop)]
            try:
                self.sch.bind(loops, axis)
            except TensorIRError:
                continue
            return set(rows)
        return set()

    def _kinds_of(self, stage: Stage) -> list[tuple[Kind, LoopRef | None]]:
        """What is asked of the memory of a stage, and of its loops that are there, from the
        outermost inwards."""
        places = {id(leaf): place for place, leaf in enumerate(stage.nest.leaves)}
        loops = of_loops(stage.nest, stage.kinds)
        asked = [(axis, kind) for axis, kind in loops.items()]
        asked += [(id(k.axis), k) for slot, k in stage.kinds.items() if slot[0] != "loop"]
        found: list[tuple[int, Kind, LoopRef | None]] = []
        for axis, kind in asked:
            if kind.name == "rolling_buffer":
                continue
            if kind.axis is None or kind.name == "storage_align":
                found.append((-1, kind, None))
                continue
            if axis not in places:
                text = f"{kind.axis.name!r} is no loop of {stage.shown} any more"
                raise self.refusal(kind.request, TensorIRError(text))
            loop = self.loops[stage][axis]
            if loop is not None:
                found.append((places[axis], kind, loop))
        found.sort(key=lambda row: (row[0], row[1].name, str(row[1].args[:1])))
        return [(kind, loop) for _, kind, loop in found]

    @contextmanager
    def meeting(self, request: Request | None) -> Iterator[None]:
        """What is refused inside is refused of this request, in its user's words."""
        try:
            yield
        except RequestError:
            raise
        except TensorIRError as error:
            assert request is not None
            raise self.refusal(request, error) from error

    def refusal(self, request: Request, error: TensorIRError) -> RequestError:
        """`error`, which a primitive gave, as a refusal of the request."""
        words = self._words()
        reason = words.of(getattr(error, "reason", str(error)))
        hint = words.of(getattr(error, "hint", None)) or None
        where = words.of(getattr(error, "where", ""))
        return RequestError(request.text, where, reason, hint, request=request, cause=error)

    def _words(self) -> Words:
        """What loops, buffers and blocks are for the user."""
        loops: dict[str, str] = {}
        live = {*self.sch.get_blocks()}
        for stage, block in self.blocks.items():
            if block not in live:
                continue
            if stage not in self.loops:
                self._find_first_loops(stage)
            known = self.loops.get(stage, {})
            for axis in stage.nest.all_handles():
                loop = known.get(id(axis))
                if loop is not None:
                    loops[loop] = f"{axis.name} of {stage.shown}"
        buffers = {
            buffer: op.outputs[n].name
            for (op, n), buffer in self.buffers.items()
            if n < len(op.outputs)
        }
        blocks = {block: stage.name for stage, block in self.blocks.items()}
        return Words(loops, buffers, blocks)

    def _find_first_loops(self, stage: Stage) -> None:
        """The loops of a stage whose turn has not come."""
        iters = self.sch.state.block(self.blocks[stage]).iters
        if len(iters) + len(self.without_variable.get(stage, ())) == len(stage.nest.roots):
            self.find_loops(stage, stage.nest)


def _rolling(stage: Stage) -> list[Kind]:
    """The request for a rolling buffer, if there is one."""
    return [kind for kind in stage.kinds.values() if kind.name == "rolling_buffer"]
