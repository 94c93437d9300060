"""The builder that measuring uses by default: printed program -> kernel of its backend."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import backends
from tensorir import PrimFunc, Var, parse, specialize

if TYPE_CHECKING:
    from schedule import Schedule

Builder = Callable[..., Any]


def build(text: str, target: str, constants: Mapping[str, Any] | None = None) -> Any:
    """Parse the program, lower and compile it, or load it from the cache of the backend.

    `constants` maps names to arrays; to shapes where the kernel is only to be compiled, with the
    same source text as for arrays of these shapes.
    """
    return _built(parse(text), target, constants)


def build_schedule(
    schedule: Schedule, target: str, constants: Mapping[str, Any] | None = None
) -> Any:
    """The same for a schedule, whose program needs no proof: it proved each of its steps."""
    return _built(schedule, target, constants)


def _built(program: Schedule | PrimFunc, target: str, constants: Mapping[str, Any] | None) -> Any:
    given = dict(constants or {})
    if any(isinstance(value, tuple) for value in given.values()):
        func = program if isinstance(program, PrimFunc) else program.func
        func = specialize(func, _sizes(func, given))
        return backends.build(func, target=target, constants=tuple(given))
    return backends.build(program, target=target, constants=given)


def build_source(
    source: str, definition: str, target: str, constants: Mapping[str, Any] | None = None
) -> Any:
    """The kernel of a source text that `build` made, in another process, from a schedule of the
    program `definition`. The compiled object is in the cache.

    With `constants`, and for GPUs, `definition` is the scheduled program: it tells which part runs
    ahead, and what is launched with how many threads. For processors nothing is lowered again.
    """
    if constants:
        return backends.build_source(parse(definition), source, target, constants=constants)
    return backends.build_source(_parse_once(definition), source, target=target)


def _sizes(func: PrimFunc, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The symbolic sizes that the shapes of constants tell."""
    pairs = [
        (dim, extent) for p in func.params for dim, extent in zip(p.shape, shapes.get(p.name, ()))
    ]
    return {dim.name: extent for dim, extent in pairs if isinstance(dim, Var)}


@lru_cache(maxsize=4)
def _parse_once(text: str) -> PrimFunc:
    return parse(text)


def load_builder(path: str) -> tuple[Builder, Builder | None, Builder | None]:
    """The function that `module:function` names, and those for sources and schedules if there
    are any."""
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    others = (getattr(found, f"{name}_{of}", None) for of in ("source", "schedule"))
    return getattr(found, name), *others
