"""cache_write, cache_read and rfactor: what the user gets, and what is recorded to be met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schedule.te.call import Call
from schedule.te.dataflow import CacheOutput, CacheRead, CacheWrite, RFactor
from schedule.te.errors import RequestError
from schedule.te.layout import require_first_layout
from schedule.te.nest import IterVar, Nest, Step, among
from schedule.te.ops import CachedTensor, StageOp, key_of, rewired
from schedule.te.request import call_text
from schedule.te.stage import Stage

if TYPE_CHECKING:
    from schedule.te.schedule import TESchedule


def cache_write(s: TESchedule, tensor: Any, scope: str) -> Any:
    """See TESchedule.cache_write."""
    text = call_text("s", "cache_write", (tensor, scope), {})
    several = isinstance(tensor, (tuple, list))
    tensors = [tensor_of(t) for t in (tensor if several else [tensor])]
    if not tensors:
        raise RequestError(text, "", "there is no tensor to cache")
    if len(set(map(key_of, tensors))) < len(tensors):
        raise RequestError(text, "", "a tensor is named twice")
    call = Call(s[tensors[0]], text)
    for other in tensors[1:]:
        if other.op is not tensors[0].op:
            reason = f"{other.name!r} and {tensors[0].name!r} are not outputs of one operation"
            raise call.refused(reason, "cache each by itself")
    call.require_computed()
    call.require_movable()
    require_first_layout(s, call, s[tensors[0]], "cache_write")
    copied = any(s.copy_of(t) is not None for t in call.stage.op.outputs)
    if copied or len(tensors) < len(call.stage.op.outputs):
        made = _cache_outputs(s, tensors, scope, text)
    else:
        made = _cache_all(s, s[tensors[0]], call, scope)
        made = [made[t.index] for t in tensors]
    return made if several else made[0]


def tensor_of(value: Any) -> Any:
    """A tensor, or the first one of an operation."""
    return value.output(0) if hasattr(value, "output") else value


def _cache_all(s: TESchedule, stage: Stage, call: Call, scope: str) -> list[CachedTensor]:
    """All outputs: a new stage computes them, with the loops that there were, and the old one
    copies."""
    op, nest = stage.op, stage.nest
    reduced = nest.part(nest.reduced)
    _require_loops(call, [*nest.data, *reduced.leaves], "cache_write")
    spatial = nest.part(nest.data).copied(".c")
    leaves = (*spatial.leaves, *reduced.leaves)
    steps = (*spatial.steps, *reduced.steps)
    if steps:
        steps = (*steps, Step("reorder", leaves, (), steps[-1].request))
    name = s.fresh_name(f"{op.name}.{scope}")
    made = StageOp(name, spatial.leaves, op.reduce_axis, op.inputs, op.tag, op.attrs)
    inner = Stage(s, name, made, Nest((*spatial.roots, *reduced.roots), leaves, steps))
    labels = [name] if len(op.outputs) == 1 else [f"{t.name}.{scope}" for t in op.outputs]
    _add_outputs(op, made, labels, None)
    axes = _copy_axes(stage, op.outputs[0])
    copy = StageOp(op.name, axes, (), made.outputs, op.tag, op.attrs)
    copy.outputs = op.outputs
    request = s.change(call.text, [stage], {made: inner, copy: stage})
    outputs, cached = tuple(map(key_of, op.outputs)), tuple(map(key_of, made.outputs))
    s.meet(CacheWrite(outputs, cached, inner, stage, scope, request))
    stage.op, stage.nest = copy, Nest(axes, axes)
    inner.marks = [kind for kind in stage.marks if among(kind.axis, reduced.leaves)]
    stage.marks = [kind for kind in stage.marks if kind not in inner.marks]
    inner.group = stage.group
    return list(made.outputs)


def _copy_axes(stage: Stage, tensor: Any) -> tuple[Any, ...]:
    """The axes of a stage that copies: those of `stage`, unless an extern function makes whole rows
    there, along which it has none."""
    data = stage.nest.data
    rest = enumerate(tensor.shape[len(data) :], len(data))
    return (*data, *(IterVar(f"ax{d}", extent) for d, extent in rest))


def _cache_outputs(
    s: TESchedule, tensors: Sequence[Any], scope: str, text: str
) -> list[CachedTensor]:
    """Some of several outputs: a new stage copies each, the old one computes all as before."""
    request = s.change(text, [], {})
    found = []
    for tensor in tensors:
        stage = s[tensor]
        name = s.fresh_name(f"{tensor.name}.{scope}")
        made = StageOp(name, stage.op.axis, stage.op.reduce_axis, stage.op.inputs)
        cached = CachedTensor(name, made, tensor.shape, tensor.dtype)
        made.outputs = (cached,)
        axes = tuple(IterVar(a.name, a.extent) for a in _copy_axes(stage, tensor))
        copy = StageOp(tensor.name, axes, (), [cached])
        copy.outputs = (tensor,)
        copier = Stage(s, s.fresh_name(tensor.name), copy, Nest(axes, axes))
        copier.group = stage.group
        s.add({made: stage, copy: copier})
        s.set_copy_of(tensor, copier)
        s.meet(CacheOutput(key_of(tensor), key_of(cached), stage, copier, scope, request))
        found.append(cached)
    return found


def cache_read(s: TESchedule, tensor: Any, scope: str, readers: Any) -> CachedTensor:
    """See TESchedule.cache_read."""
    text = call_text("s", "cache_read", (tensor, scope, readers), {})
    found = readers if isinstance(readers, (tuple, list)) else [readers]
    source = tensor_of(tensor)
    if s.find(source) is None:
        name = getattr(source, "name", source)
        raise RequestError(text, "", f"{name!r} is no tensor of this schedule")
    Call(s[source], text).require_movable()
    require_first_layout(s, Call(s[source], text), s[source], "cache_read")
    if s.is_state(source):
        raise RequestError(
            text, "", f"{source.name!r} is the state of a te.scan, which its steps write",
            "cache_read what else they read",
        )  # fmt: skip
    stages = list(dict.fromkeys(s[reader] for reader in found))
    if not stages:
        raise RequestError(text, "", "there is no reader", "name the stages that read the copy")
    for stage in stages:
        call = Call(stage, text)
        call.require_computed()
        call.require_movable()
        if not _reads(stage.op, source):
            known = ", ".join(t.name for t in stage.op.inputs) or "nothing"
            reason = f"{stage.shown} does not read {source.name!r}; it reads {known}"
            raise call.refused(reason)
    name = s.fresh_name(f"{source.name}.{scope}")
    axes = tuple(IterVar(f"ax{d}", extent) for d, extent in enumerate(source.shape))
    made = StageOp(name, axes, (), [source])
    cached = CachedTensor(name, made, source.shape, source.dtype)
    made.outputs = (cached,)
    copier = Stage(s, name, made, Nest(axes, axes))
    copier.group = s[source].group
    table: dict[Any, Stage] = {made: copier}
    reading: list[tuple[Stage, StageOp]] = []
    for stage in stages:
        inputs = [cached if key_of(t) == key_of(source) else t for t in stage.op.inputs]
        reading.append((stage, rewired(stage.op, inputs)))
        table[reading[-1][1]] = stage
    request = s.change(text, stages, table)
    for stage, op in reading:
        stage.op = op
    change = CacheRead(key_of(source), key_of(cached), tuple(stages), copier, scope, request)
    s.meet(change)
    return cached


def _reads(op: Any, tensor: Any) -> bool:
    return any(key_of(t) == key_of(tensor) for t in op.inputs)


def rfactor(s: TESchedule, tensor: Any, axis: Any, factor_axis: int) -> Any:
    """See TESchedule.rfactor."""
    stage = s[tensor]
    call = Call(stage, call_text("s", "rfactor", (tensor, axis), {}))
    call.require_computed()
    require_first_layout(s, call, stage, "rfactor")
    stage.require_leaf(call, axis)
    op, nest = stage.op, stage.nest
    if not axis.is_reduce:
        raise call.refused(f"{axis.name!r} is no reduction loop of {stage.shown}")
    rank = len(nest.data) + 1
    if not isinstance(factor_axis, int) or not -rank <= factor_axis < rank:
        raise call.refused(f"factor_axis {factor_axis!r} is none of {rank} dimensions")
    at, kept, reduced = factor_axis % rank, nest.part(nest.data), nest.part(nest.reduced)
    _require_loops(call, kept.all_handles(), "rfactor")
    name = s.fresh_name(f"{op.name}.rf")
    spatial = [IterVar(f"{a.name}.rf", a.extent) for a in nest.data]
    own = IterVar(f"{axis.name}.rf", axis.extent)
    rest = [a for a in reduced.leaves if a is not axis]
    left = [IterVar(f"{a.name}.rf", a.extent, True) for a in rest]
    made = StageOp(name, [*spatial[:at], own, *spatial[at:]], left, op.inputs, op.tag, op.attrs)
    labels = [name] if len(op.outputs) == 1 else [f"{t.name}.rf" for t in op.outputs]
    _add_outputs(op, made, labels, (at, axis.extent))
    after = Nest((*spatial, own, *left), (*made.axis, *left))
    factored = Stage(s, name, made, after)
    last = IterVar(f"{axis.name}.v", axis.extent, True)
    final = StageOp(op.name, op.axis, [last], made.outputs, op.tag, op.attrs)
    final.outputs = op.outputs
    request = s.change(call.text, [stage], {made: factored, final: stage})
    before = Nest(nest.roots, nest.leaves, reduced.steps)
    outputs, parts = tuple(map(key_of, op.outputs)), tuple(map(key_of, made.outputs))
    pairs = tuple(zip(rest, left))
    s.meet(RFactor(stage, factored, before, after, axis, pairs, at, outputs, parts, request))
    factored.group = stage.group
    stage.op, stage.nest = final, Nest((*nest.data, last), (*kept.leaves, last), kept.steps)
    return made.outputs[0] if len(made.outputs) == 1 else list(made.outputs)


def _add_outputs(
    op: Any, made: StageOp, names: Sequence[str], more: tuple[int, Any] | None
) -> None:
    """Give `made` tensors like those of `op`; `more` is (place, extent) of a further axis."""

    def shape(t: Any) -> tuple[Any, ...]:
        if more is None:
            return tuple(t.shape)
        return (*t.shape[: more[0]], more[1], *t.shape[more[0] :])

    made.outputs = tuple(
        CachedTensor(name, made, shape(t), t.dtype, n)
        for n, (name, t) in enumerate(zip(names, op.outputs))
    )


def _require_loops(call: Call, kept: Sequence[Any], change: str) -> None:
    """Refuse a change of the graph that takes loops from a stage for which requests were made.
    Those who are computed in such a loop may still be put elsewhere."""
    stage = call.stage
    for step in stage.nest.steps:
        if any(axis.is_mixed for axis in step.made):
            raise call.refused(
                f"{step.request.text} has made one loop of data and reduce axes", f"{change} first"
            )
        if step.name == "decompose":
            raise call.refused(
                f"{step.request.text} has taken the first values out", f"{change} first"
            )
    for kind in stage.kinds.values():
        if kind.axis is not None and not among(kind.axis, kept):
            raise call.refused(
                f"{kind.request.text} is for a loop that {change} takes from {stage.shown}",
                f"{change} first, or withdraw that request",
            )
