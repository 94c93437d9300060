"""What primitives made of states, remembered: schedules that begin alike share their states."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from schedule.primitive import run
from schedule.state import State

STEPS = 8192
"""Steps that a process keeps, of all its schedules. A state with what was concluded about it takes
some ten kilobytes."""


def remembered(state: State, name: str, args: dict[str, Any]) -> tuple[State, Any]:
    """As schedule.primitive.run: the state after the primitive, and what it returns. The last
    different steps of the process are remembered; refusals are found anew each time.

    A primitive is a pure function and states never change, so a remembered result is as good as a
    new one. States are told apart by identity: those of other schedules share nothing.
    """
    after, outputs = _made(state, name, _Arguments(args))
    return after, list(outputs) if isinstance(outputs, list) else outputs


class _Arguments:
    """Arguments by name that are equal for the same values of equal types only."""

    __slots__ = ("_frozen", "given")

    def __init__(self, given: dict[str, Any]) -> None:
        self.given, self._frozen = given, _frozen(given)

    def __hash__(self) -> int:
        return hash(self._frozen)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Arguments) and self._frozen == other._frozen


@lru_cache(maxsize=STEPS)
def _made(state: State, name: str, args: _Arguments) -> tuple[State, Any]:
    return run(state, name, args.given)


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple([(key, _frozen(v)) for key, v in value.items()])
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, float):
        return type(value), value.hex()  # -0.0 is not 0.0, and a NaN is itself
    return type(value), value
