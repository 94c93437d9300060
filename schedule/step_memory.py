"""What primitives made of states, remembered: schedules that begin alike share their states."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from schedule.primitive import run
from schedule.state import State

LIMIT = 4096
"""Steps that are kept. A state with what was concluded about it takes some ten kilobytes."""

Key = tuple[State, str, Any]


class StepMemory:
    """The last `limit` different steps that were asked for; refusals are found anew each time.

    A primitive is a pure function and states never change, so a remembered result is as good as a
    new one. States are told apart by identity: those of other schedules share nothing.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.hits = 0
        self._made: OrderedDict[Key, tuple[State, Any]] = OrderedDict()

    def run(self, state: State, name: str, args: dict[str, Any]) -> tuple[State, Any]:
        """As schedule.primitive.run: the state after the primitive, and what it returns."""
        key = (state, name, _frozen(args))
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = run(state, name, args)
            if len(self._made) > self.limit:
                self._made.popitem(last=False)
        else:
            self.hits += 1
            self._made.move_to_end(key)
        after, outputs = found
        return after, list(outputs) if isinstance(outputs, list) else outputs


def _frozen(value: Any) -> Any:
    """Arguments as something that hashes, equal for equal values of equal types only."""
    if isinstance(value, dict):
        return tuple([(key, _frozen(v)) for key, v in value.items()])
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    return type(value), value
