"""What all primitives share: argument coercion, tracing, and errors that say where.

A primitive is a pure function `(state, args...) -> (state, results)`. `method` turns it into a
method of Schedule; a refused call leaves the schedule as it was.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from schedule.arguments import Parameters, bound, literal
from schedule.checks.buffer_hints import without_lost
from schedule.checks.changed import Changed
from schedule.checks.early_init import init_conflict
from schedule.checks.externs import extern_conflict, require_changeable
from schedule.checks.nested import require_flat
from schedule.checks.overgrown import overgrown
from schedule.checks.provable import unprovable
from schedule.checks.sharing import sharing_conflict
from schedule.checks.threads import thread_conflict
from schedule.errors import Illegal, ScheduleError
from schedule.instruction import Instruction, format_args
from schedule.state import BlockRef, LoopRef, State
from tensorir import RangeError, TensorIRError

if TYPE_CHECKING:
    from schedule.schedule import Schedule

P = ParamSpec("P")
R = TypeVar("R")

REGISTRY: dict[str, Callable[..., Any]] = {}
"""All primitives by name; filled by `@primitive` when schedule.primitives is imported."""


def primitive(
    fn: Callable[Concatenate[State, P], tuple[State, R]],
) -> Callable[Concatenate[State, P], tuple[State, R]]:
    """Register a primitive under its own name."""
    REGISTRY[fn.__name__] = fn
    return fn


DRAWS: dict[str, Callable[..., Any]] = {}
"""What draws the `decision` of a primitive where the caller gives none, by the primitive's name."""


def draws(fn: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register `(state, generator, args without decision) -> decision` for the primitive `fn`."""

    def register(draw: Callable[..., Any]) -> Callable[..., Any]:
        DRAWS[fn.__name__] = draw
        return draw

    return register


@functools.cache
def _parameters(name: str) -> inspect.Signature:
    signature = inspect.signature(REGISTRY[name])
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def parameter_names(name: str) -> list[str]:
    """The parameters of a primitive in order; none for a name that is no primitive."""
    return list(_parameters(name).parameters) if name in REGISTRY else []


def bind(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Literals by parameter name, defaults left out; Illegal where the primitive takes no such."""
    least, names = _places(name)
    if not kwargs and least <= len(args) <= len(names) and all(map(_is_plain, args)):
        plain = dict(zip(names, map(literal, args)))  # nearly all calls: as `bound` gives them
    else:
        plain = bound(_parameters(name), args, kwargs)
    check_arguments(name, plain)
    return plain


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, int, float))


@functools.cache
def _places(name: str) -> tuple[int, tuple[str, ...]]:
    """How many arguments a primitive needs, and the names of those that it takes by their places;
    none where it takes some otherwise."""
    parameters = _parameters(name).parameters
    if any([each.kind is not each.POSITIONAL_OR_KEYWORD for each in parameters.values()]):
        return 1, ()
    needed = [key for key, each in parameters.items() if each.default is each.empty]
    return len(needed), tuple(parameters)


def check_arguments(name: str, args: dict[str, Any]) -> None:
    """Refuse arguments, by name, that are not of the types that the primitive takes."""
    _admitted(name).require_fitting(args)


@functools.cache
def _admitted(name: str) -> Parameters:
    return Parameters(_parameters(name))


def bind_arguments(name: str, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a primitive by parameter name, as the trace stores them; TensorIRError for
    what is no primitive or no arguments of it."""
    if name not in REGISTRY:
        raise TensorIRError(f"{name!r} is no primitive; known are {', '.join(sorted(REGISTRY))}")
    try:
        return bind(name, tuple(args), kwargs)
    except Illegal as refusal:
        raise TensorIRError(f"{name}({_as_typed(tuple(args), kwargs)}): {refusal.reason}") from None


def run(state: State, name: str, args: dict[str, Any]) -> tuple[State, Any]:
    """Apply the primitive `name` to `state`; raises Illegal when it is refused.

    Whatever the primitive, the result has no hints for buffers that are gone, it keeps to the
    rules of threads and extern functions, threads share no memory that was each one's own, what an
    init reads is there before the reduction, nested blocks are for those only that see inside, no
    expression has become too large, and accesses of symbolic range are provably inside of their
    buffers.
    """
    require_flat(state, name)
    require_changeable(state, name, args)
    try:
        after, outputs = _apply(state, name, args)
    except RangeError as error:
        raise Illegal("", str(error)) from None
    refusal = None
    if after is not state:
        after = without_lost(state, after)
        after.made_of(state)
        changed = Changed(state, after)
        refusal = thread_conflict(state, after) or extern_conflict(after)
        refusal = refusal or init_conflict(changed) or overgrown(changed)
        refusal = refusal or sharing_conflict(changed) or unprovable(changed)
    if refusal is not None:
        raise refusal
    return after, outputs


def _apply(state: State, name: str, args: dict[str, Any]) -> tuple[State, Any]:
    if not _takes_any_number(name):
        return REGISTRY[name](state, **args)  # type: ignore[no-any-return]
    positional: list[Any] = []
    for key, parameter in _parameters(name).parameters.items():
        if key not in args:
            continue
        value = args[key]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional.extend(value)
        else:
            positional.append(value)
    return REGISTRY[name](state, *positional)  # type: ignore[no-any-return]


@functools.cache
def _takes_any_number(name: str) -> bool:
    """Whether a primitive has a parameter for any number of arguments."""
    kinds = [parameter.kind for parameter in _parameters(name).parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL in kinds


def method(
    fn: Callable[Concatenate[State, P], tuple[State, R]],
) -> Callable[Concatenate["Schedule", P], R]:
    """The Schedule method of a primitive: same parameters, same docstring, results only."""
    name = fn.__name__

    @functools.wraps(fn)
    def call(self: "Schedule", *args: P.args, **kwargs: P.kwargs) -> R:
        values: dict[str, Any] | None = None
        try:
            values = bind(name, args, kwargs)
            if name in DRAWS and values.get("decision") is None:
                given = {key: value for key, value in values.items() if key != "decision"}
                decision = DRAWS[name](self.state, self.generator, **given)
                values["decision"] = literal(decision)
            state, outputs = self.run_primitive(name, values)
        except Illegal as refusal:
            text = f"{name}({_as_typed(args, kwargs) if values is None else format_args(values)})"
            where, reason = refusal.where, self.describe_missing(refusal)
            hint = refusal.hint if values is None else self.hint_for(name, values, refusal.hint)
            raise ScheduleError(
                text, where, reason, hint, self.state, self.trace, refusal.detail
            ) from None
        self.commit(state, Instruction(name, values, literal(outputs)))
        return outputs  # type: ignore[no-any-return]

    call.__signature__ = _parameters(name).replace(  # type: ignore[attr-defined]
        parameters=[inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        + list(_parameters(name).parameters.values())
    )
    return cast("Callable[Concatenate[Schedule, P], R]", call)


def _as_typed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Arguments that no primitive takes, as they were typed."""
    return ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())])


__all__ = ["REGISTRY", "BlockRef", "LoopRef", "State", "bind", "method", "primitive", "run"]
