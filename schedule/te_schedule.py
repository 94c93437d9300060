"""create_schedule: TVM's tensor-expression schedules, recorded as traces of ordinary primitives.

Stages are scheduled in any order, as it was there: `compute_at` may come before or after the
consumer is split. After every request the schedule is made anew from the definition: first the
stages that were added (cache_read, cache_write, rfactor), then, consumers before producers, where
each stage is computed and its loops, and last how loops are run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedule.analysis import written
from schedule.schedule import Schedule
from schedule.te_lower import StageMaker
from schedule.te_stage import CachedTensor, IterVar, Stage, StageOp
from schedule.trace import Trace
from tensorir import PrimFunc, TensorIRError, te


def create_schedule(ops: Any, args: Sequence[Any] | None = None, name: str = "main") -> TESchedule:
    """A schedule of all computes that `ops`, operations or tensors, need; also te.create_schedule.

    `args` are the parameters of the function in call order, inputs first; without them they are
    all placeholders in order of appearance, then the tensors of `ops`.

        s = te.create_schedule(C.op)
        xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 32, 32)
        s[C].vectorize(yi)
        kernel = build(s)
    """
    several = isinstance(ops, (tuple, list))
    outputs: list[Any] = []
    for op in ops if several else (ops,):
        found = (op,) if isinstance(op, te.Tensor) else getattr(op, "outputs", None)
        if not found:
            raise TensorIRError(f"create_schedule of {op!r}, which computes nothing; give it C.op")
        outputs += [t for t in found if t not in outputs]
    params = [*_placeholders(outputs), *outputs] if args is None else list(args)
    return TESchedule(params, name)


def _placeholders(outputs: Sequence[Any]) -> list[Any]:
    """The placeholders that the outputs read, in order of appearance."""
    found: dict[Any, None] = {}
    seen: set[Any] = set()
    stack = list(reversed(outputs))
    while stack:
        tensor = stack.pop()
        if isinstance(tensor.op, te.PlaceholderOp):
            found[tensor] = None
        elif tensor.op not in seen:
            seen.add(tensor.op)
            stack.extend(reversed(tensor.op.inputs))
    return list(found)


class TESchedule:
    """Stages of a definition; `schedule` is what they come to, `func` its program."""

    def __init__(self, params: Sequence[Any], name: str) -> None:
        self._definition, blocks = te.create_named_blocks(params, name)
        self._params = list(params)
        self._added: list[tuple[Any, ...]] = []
        self._stages: dict[Any, Stage] = {}
        for op, block in blocks.items():
            axes, reduced = op.axis, op.reduce_axis
            self._stages[op] = Stage(
                self, block, StageOp(op.name, axes, reduced), (*axes, *reduced)
            )
        self._made = Schedule(self._definition)

    @property
    def schedule(self) -> Schedule:
        """An ordinary schedule at this point: to print, store and continue with primitives."""
        return self._made.copy()

    @property
    def func(self) -> PrimFunc:
        """The scheduled program; so build(s) works."""
        return self._made.func

    @property
    def prim_func(self) -> PrimFunc:
        """The program before any primitive."""
        return self._definition

    @property
    def trace(self) -> Trace:
        """The primitives that the requests came to."""
        return self._made.trace

    @property
    def stages(self) -> list[Stage]:
        """All stages: those of the definition, then those that were added."""
        return list(self._stages.values())

    def show(self) -> None:
        """Print the program and the primitives that led to it."""
        self._made.show()

    def __getitem__(self, tensor: Any) -> Stage:
        op = getattr(tensor, "op", tensor)
        found = self._stages.get(op) if isinstance(op, (StageOp, te.ComputeOp)) else None
        if found is None:
            known = ", ".join(stage.block for stage in self.stages)
            name = getattr(tensor, "name", tensor)
            raise TensorIRError(f"{name!r} is no stage of this schedule; stages are {known}")
        return found

    def cache_write(self, tensor: Any, scope: str) -> CachedTensor:
        """Compute `tensor` in `scope`, as the stage returned; the stage of `tensor` copies it."""
        stage = self[tensor]
        self._require_fresh(stage, "cache_write")
        axes = [IterVar(f"{axis.name}.c") for axis in stage.op.axis]
        op = StageOp(f"{stage.op.name}.{scope}", axes, stage.op.reduce_axis)
        inner = Stage(self, stage.block, op, (*axes, *stage.op.reduce_axis))
        copier = Stage(self, "", StageOp(stage.op.name, stage.op.axis, ()), stage.op.axis)
        key = getattr(tensor, "op", tensor)
        self._add(("cache_write", inner, copier, scope), {op: inner, key: copier})
        return CachedTensor(op.name, op)

    def cache_read(self, tensor: Any, scope: str, readers: Any) -> CachedTensor:
        """Have `readers`, one stage, read `tensor` through a copy in `scope`.

        It may be scheduled already, since its loops stay as they are.
        """
        found = readers if isinstance(readers, (tuple, list)) else (readers,)
        if len(found) != 1:
            raise TensorIRError("cache_read is for one reader; call it once for each")
        reader = self[found[0]]
        rank = len(getattr(tensor, "shape", ())) or len(tensor.op.axis)
        axes = [IterVar(f"ax{d}") for d in range(rank)]
        op = StageOp(f"{tensor.name}.{scope}", axes, ())
        copier = Stage(self, "", op, axes)
        self._add(("cache_read", reader, copier, tensor, scope), {op: copier})
        return CachedTensor(op.name, op)

    def rfactor(self, tensor: Any, axis: Any, factor_axis: int = 0) -> CachedTensor:
        """Make the reduction loop `axis` independent, in the stage returned, which the stage of
        `tensor` then reduces."""
        stage = self[tensor]
        stage._leaf(axis)
        reduced, steps = {id(a) for a in stage.op.reduce_axis}, list(stage.steps)
        for name, args, made in steps:
            if name != "split" or id(args[0]) not in reduced:
                raise TensorIRError(f"rfactor of {stage.block!r} comes before {name} of its axes")
            reduced |= {id(m) for m in made}
        stage.steps = []
        try:
            self._require_fresh(stage, "rfactor")
        finally:
            stage.steps = steps
        rest = [leaf for leaf in stage.leaves if id(leaf) in reduced and leaf is not axis]
        spatial = [IterVar(f"{a.name}.rf") for a in stage.op.axis]
        own, left = IterVar(f"{axis.name}.rf"), [IterVar(f"{a.name}.rf") for a in rest]
        at = factor_axis % (len(spatial) + 1)
        op = StageOp(f"{stage.op.name}.rf", [*spatial[:at], own, *spatial[at:]], left)
        factored = Stage(self, "", op, (*spatial, own, *left))
        last = IterVar(f"{axis.name}.v")
        final_op = StageOp(stage.op.name, stage.op.axis, [last])
        final = Stage(self, stage.block, final_op, (*stage.op.axis, last))
        change = {op: factored, getattr(tensor, "op", tensor): final}
        self._add(("rfactor", stage, factored, steps, axis, factor_axis), change)
        return CachedTensor(op.name, op)

    def update(self) -> None:
        """Make the schedule anew; called after each request."""
        self._made = StageMaker(self._definition, self._added, self.stages, self._buffer).run()

    def _require_fresh(self, stage: Stage, call: str) -> None:
        if stage.steps or stage.kinds or stage.place is not None:
            raise TensorIRError(
                f"{call} changes stage {stage.block!r}, which was scheduled already; "
                f"{call} first, then split, reorder and the like"
            )
        for other in self.stages:
            if isinstance(other.place, tuple) and other.place[0] is stage:
                raise TensorIRError(
                    f"{call} changes stage {stage.block!r}, in which {other.block!r} is computed; "
                    f"{call} first, then compute_at"
                )

    def _add(self, step: tuple[Any, ...], stages: dict[Any, Stage]) -> None:
        before = dict(self._stages)
        self._stages.update(stages)
        self._added.append(step)
        try:
            self.update()
        except TensorIRError:
            self._added.pop()
            self._stages = before
            raise

    def _buffer(self, sch: Schedule, tensor: Any) -> str:
        """The name of the buffer that holds `tensor` in `sch`."""
        for param, buffer in zip(self._params, self._definition.params):
            if param is tensor and isinstance(tensor.op, te.PlaceholderOp):
                return buffer.name
        made = written(sch.state.block(self[tensor].block))
        return str(made[tensor.index].name)
