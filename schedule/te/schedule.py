"""TVM's tensor-expression schedules, which become traces of ordinary primitives.

Requests are recorded; the schedule is made when the program is asked for. So a stage may be put
into its consumer before the consumer is, or an axis be asked for what only a later request makes
legal: what counts is what all requests together come to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedule.analysis.uses import written
from schedule.schedule import Schedule
from schedule.state import fresh
from schedule.te import graph
from schedule.te.dataflow import Change
from schedule.te.errors import RequestError
from schedule.te.group import Group, create_group
from schedule.te.layout import StageLayout
from schedule.te.maker import StageMaker
from schedule.te.nest import Nest
from schedule.te.ops import CachedTensor, StageOp, key_of
from schedule.te.request import Request, caller
from schedule.te.stage import Stage
from schedule.trace import Trace
from tensorir import VIRTUAL_AXES, PrimFunc, TensorIRError, blocks, te


class _Start:
    """A program before any request, with the names of its blocks and buffers."""

    def __init__(self, params: Sequence[Any], name: str) -> None:
        self.func, self.blocks, buffers = te.create_named_tensors(params, name)
        self.buffers = {key: buffer.name for key, buffer in buffers.items()}


class TESchedule:
    """Stages of a definition; `schedule` is what they come to, `func` its program."""

    def __init__(self, params: Sequence[Any], name: str) -> None:
        self._params = [each for each in params if isinstance(each, te.Tensor)]
        self._start = _Start(params, name)
        self._changes: list[Change] = []
        self.requests: list[Request] = []
        """What was asked, in order."""
        self._stages: dict[Any, Stage] = {}
        self._copied: dict[tuple[Any, int], Stage] = {}
        """The stages of single outputs, where they are not those of their operation."""
        self._fixed: dict[Any, Stage] = {}
        for op, block in self._start.blocks.items():
            roots = (*op.axis, *op.reduce_axis)
            self._stages[op] = Stage(self, block, op, Nest(roots, roots))
        self._originals = dict(self._stages)
        self._made: StageMaker | None = None
        self._virtual: list[Any] = []
        """The axes with the tag "vthread", in the order in which loops were bound to them."""

    def axis_of(self, thread: Any) -> Any:
        """The name of an axis of threads; those that are only called "vthread" are numbered."""
        name = getattr(thread, "name", thread)
        if name != "vthread":
            return name
        if not any(thread is known for known in self._virtual):
            self._virtual.append(thread)
        place = next(n for n, known in enumerate(self._virtual) if known is thread)
        return VIRTUAL_AXES[place] if place < len(VIRTUAL_AXES) else name

    @property
    def schedule(self) -> Schedule:
        """An ordinary schedule at this point: to print, store and continue with primitives.

        Making it is when requests are met; ScheduleError, naming the request, if one cannot be.
        """
        return self._maker().sch.copy()

    @property
    def func(self) -> PrimFunc:
        """The scheduled program; so build(s) works."""
        return self._maker().sch.func

    @property
    def prim_func(self) -> PrimFunc:
        """The program before any primitive."""
        return self._start.func

    @property
    def trace(self) -> Trace:
        """The primitives that the requests came to."""
        return self._maker().sch.trace

    @property
    def stages(self) -> list[Stage]:
        """All stages: those of the definition, then those that were added."""
        return list(dict.fromkeys((*self._stages.values(), *self._copied.values())))

    def normalize(self) -> TESchedule:
        """This schedule, with all requests met or one of them refused. Its loops begin at 0 in any
        case, which is what TVM's function of this name makes of a new schedule."""
        self._maker()
        return self

    def show(self) -> None:
        """Print the program and the primitives that led to it."""
        self._maker().sch.show()

    def __str__(self) -> str:
        return "\n".join(map(_described, self.stages))

    def block_of(self, stage: Stage) -> str:
        """The name of a stage's block in the program."""
        return self._maker().blocks[stage]

    def __getitem__(self, tensor: Any) -> Stage:
        found = self.find(tensor)
        if found is None:
            known = ", ".join(stage.name for stage in self.stages)
            name = getattr(tensor, "name", tensor)
            raise TensorIRError(f"{name!r} is no stage of this schedule; stages are {known}")
        return found

    def find(self, tensor: Any) -> Stage | None:
        if isinstance(tensor, (te.Tensor, CachedTensor)):
            copied = self._copied.get(key_of(tensor))
            if copied is not None:
                return copied
        op = getattr(tensor, "op", tensor)
        if isinstance(op, (StageOp, te.ComputeOp)):
            return self._stages.get(op)
        if isinstance(op, (te.PlaceholderOp, te.ScanOp, te.StatementsOp)):
            return self._fixed_stage(op)
        return None

    def _fixed_stage(self, op: Any) -> Stage | None:
        """The stage of an input, a te.scan or statements, of which nothing can be asked."""
        if op in self._fixed:
            return self._fixed[op]
        ops = [t.op for t in self._params]
        scans = [o for o in self._definition_ops() if isinstance(o, te.ScanOp)]
        if isinstance(op, te.PlaceholderOp):
            if op not in ops and not any(op is t.op for scan in scans for t in scan.state):
                return None
            reason = (
                f"{op.name!r} is an input, which is not computed here; "
                "s.cache_read makes a stage that copies it"
            )
        elif op in scans:
            parts = ", ".join(f"s[{t.name}]" for t in (*op.init, *op.update))
            reason = (
                f"{op.name!r} is a te.scan, a loop over the stages of its steps; "
                f"schedule these: {parts}"
            )
        elif isinstance(op, te.StatementsOp) and op in self._definition_ops():
            buffers = {self._start.buffers[key_of(t)] for t in op.outputs}
            names = ", ".join(
                repr(block.name)
                for block in blocks(self._start.func.body)
                if any(buffer.name in buffers for buffer in written(block))
            )
            reason = (
                f"{op.name!r} is a program of statements, which has no stage of loops; "
                f"schedule its blocks on s.schedule, when the stages are: {names} write the result"
            )
        else:
            return None
        name = op.outputs[0].name if len(op.outputs) == 1 else op.name
        stage = Stage(self, name, op, Nest((), ()))
        stage.fixed = reason
        self._fixed[op] = stage
        return stage

    def is_state(self, tensor: Any) -> bool:
        """Whether `tensor` stands for what a te.scan has computed so far."""
        scans = [op for op in self._definition_ops() if isinstance(op, te.ScanOp)]
        return any(tensor is state for scan in scans for state in scan.state)

    def _definition_ops(self) -> list[Any]:
        """All operations that the outputs need."""
        found: dict[Any, None] = {}
        stack = [t.op for t in self._params]
        while stack:
            op = stack.pop()
            if op not in found:
                found[op] = None
                stack += [t.op for t in op.inputs]
        return list(found)

    def is_output(self, stage: Stage) -> bool:
        """Whether the caller gets what the stage computes."""
        return any(self.find(t) is stage for t in self._params)

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Compute `tensor` in `scope`, as the stage returned; the stage of `tensor` copies it.

        What was asked of its loops before goes to the stage returned, the axes of which they are.
        Of an operation with several outputs, a list of all of them goes through copies together,
        as in TVM, and gives a list; one of them alone does so while the others are computed by the
        stage as before.
        """
        return graph.cache_write(self, tensor, scope)

    def cache_read(self, tensor: Any, scope: str, readers: Any) -> CachedTensor:
        """Have `readers`, a stage or a list of them, read `tensor` through a copy in `scope`.

        They may be scheduled already, since their loops stay as they are.
        """
        return graph.cache_read(self, tensor, scope, readers)

    def rfactor(self, tensor: Any, axis: Any, factor_axis: int = 0) -> Any:
        """Make the reduction loop `axis` independent, in the stage returned, which the stage of
        `tensor` then reduces. A list for a reduction of several tensors at once.

        What was asked of the data axes before stays with the stage of `tensor`.
        """
        return graph.rfactor(self, tensor, axis, factor_axis)

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Group:
        """The stages from `inputs` to `outputs`, these included, as a group that compute_at moves
        together; the stages of `inputs` are in it only if asked for."""
        return create_group(self, outputs, inputs, include_inputs)

    def undo(self, steps: int = 1) -> None:
        """Take back the last requests."""
        if not isinstance(steps, int) or not 0 <= steps <= len(self.requests):
            raise TensorIRError(f"undo({steps}): only {len(self.requests)} requests were made")
        for request in reversed(self.requests[len(self.requests) - steps :]):
            self._take_back(request)

    def withdraw(self, request: Request) -> None:
        """Take back one request, as that of an error, and keep those after it.

        TensorIRError for one that made loops or stages, which later ones may be about: undo it.
        """
        if request not in self.requests:
            text = getattr(request, "text", repr(request))
            raise TensorIRError(f"{text} was not asked of this schedule, or was taken back")
        later = len(self.requests) - self.requests.index(request)
        if later > 1 and request.revert is not None:
            raise TensorIRError(
                f"{request.text} made what the {later - 1} requests after it may be about; "
                f"undo({later}) takes it back with them"
            )
        self._take_back(request)

    def _take_back(self, request: Request) -> None:
        if request.revert is not None:
            request.revert()
        for stage in self.stages:
            for each in stage.with_groups():
                each.forget(request)
        self.requests.remove(request)
        self._made = None

    def record(self, request: Request) -> None:
        """Called by stages: something was asked, so what was made before holds no more."""
        self.requests.append(request)
        self._made = None

    def lower(self, args: Sequence[Any] | None = None, name: str = "main") -> PrimFunc:
        """The scheduled program; with other arguments, if these are given in call order.

        Tensors that the definition computes for itself may be among them: they become outputs.
        """
        if args is None:
            return self.func
        start = _Start(args, name)
        unknown = [op.name for op in start.blocks if op not in self._originals]
        missing = [op.name for op in self._originals if op not in start.blocks]
        if unknown or missing:
            raise TensorIRError(
                f"the arguments need {', '.join(unknown) or 'nothing new'}, and not "
                f"{', '.join(missing) or 'less'}: this schedule is of other stages; "
                "te.create_schedule takes the outputs that are wanted"
            )
        return self._make(start).sch.func

    def _maker(self) -> StageMaker:
        if self._made is None:
            self._made = self._make(self._start)
        return self._made

    def _make(self, start: _Start) -> StageMaker:
        """Meet all requests, beginning with this program."""
        blocks = {self._originals[op]: block for op, block in start.blocks.items()}
        maker = StageMaker(start.func, blocks, start.buffers, self._changes, self.stages)
        try:
            maker.run()
        except RequestError as error:
            self._explain(error)
            raise
        return maker

    def _explain(self, error: RequestError) -> None:
        """Say where the request was made, how it is taken back, and what else is asked."""
        request = error.request
        later = len(self.requests) - self.requests.index(request)
        back = "s.withdraw(error.request)" if request.revert is None else f"s.undo({later})"
        error.place, error.remedy = request.place, f"{back} takes it back"
        error.stages = f"stages:\n{self}"

    def change(self, text: str, stages: Sequence[Stage], table: Mapping[Any, Stage]) -> Request:
        """Record a request that changes the graph: new operations with their stages in `table`;
        `stages` are those that it changes."""
        states = [(stage, stage.op, stage.nest, list(stage.marks)) for stage in stages]
        known, copied, changes = dict(self._stages), dict(self._copied), list(self._changes)

        def revert() -> None:
            self._stages, self._copied, self._changes = known, copied, changes
            for stage, op, nest, marks in states:
                stage.op, stage.nest = op, nest
                stage.marks = [kind for kind in marks if kind.request in self.requests]

        request = Request(text, caller(), revert)
        self.record(request)
        self.add(table)
        return request

    def add(self, table: Mapping[Any, Stage]) -> None:
        """New operations, as a part of the last request."""
        self._stages.update(table)

    def meet(self, change: Change) -> None:
        """The change of the graph that the last request is."""
        self._changes.append(change)

    def has_layout(self, stage: Stage) -> bool:
        """Whether the layout of what the stage computes was transformed."""
        return any(isinstance(c, StageLayout) and c.stage is stage for c in self._changes)

    def copy_of(self, tensor: Any) -> Stage | None:
        """The stage that copies one of several outputs, if there is one."""
        return self._copied.get(key_of(tensor))

    def set_copy_of(self, tensor: Any, copier: Stage) -> None:
        self._copied[key_of(tensor)] = copier

    def fresh_name(self, name: str) -> str:
        """A name for a stage."""
        return fresh([stage.name for stage in self.stages], (name,))


def _described(stage: Stage) -> str:
    """A line about a stage: its loops, where it is computed, and what else is asked of it."""
    line = f"  {stage.shown}: {', '.join(a.name for a in stage.leaves) or 'no loops'}"
    place = stage.home[0]
    if isinstance(place, tuple):
        line += f"; at {place[1].name} of {place[0].shown}"
    elif place is not None:
        line += f"; {place}"
    asked = [kind.request.text.removeprefix(f"{stage.shown}.") for kind in stage.kinds.values()]
    return "; ".join([line, *asked])
