"""How loops are to be run and memory to be used: the last request for each counts.

What was asked of a loop goes on to what it becomes: after `parallel(i)` and `split(i)` the outer
part is parallel, after `vectorize(i)` the inner one has the lanes, after `unroll(i)` both parts are
written out; of loops that are fused, what was asked of one is asked of all. TVM forgets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedule.te.nest import Nest, Step

if TYPE_CHECKING:
    from schedule.te.request import Request

PASSED_ON = {"parallel": (0,), "vectorize": (1,), "unroll": (0, 1)}
"""To which parts of a split the kind of a loop goes on; other kinds are for one loop as it is."""

Slot = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Kind:
    """A request about a loop, or about the memory of the stage where `axis` is None."""

    name: str
    axis: Any
    args: tuple[Any, ...]
    request: Request

    @property
    def slot(self) -> Slot:
        """Requests of one slot replace each other."""
        loop = "loop" if self.name in (*PASSED_ON, "bind", "tensorize") else self.name
        if loop == "pragma":
            return loop, id(self.axis), self.args[0]
        if loop == "prefetch":
            return loop, id(self.axis), id(self.args[0])
        return loop, id(self.axis)


def of_loops(nest: Nest, kinds: Mapping[Slot, Kind]) -> dict[int, Kind]:
    """The kind of each loop by the identity of its handle: asked of itself, or of what it was."""
    found = {id(kind.axis): kind for slot, kind in kinds.items() if slot[0] == "loop"}
    for step in nest.steps:
        for target, kind in _passed_on(step, found):
            found.setdefault(id(target), kind)
    return found


def _passed_on(step: Step, found: dict[int, Kind]) -> list[tuple[Any, Kind]]:
    if step.name not in ("split", "fuse"):
        return []
    kinds = [found.pop(id(axis)) for axis in step.args if id(axis) in found]
    if not kinds:
        return []
    if step.name == "fuse":
        return [(step.made[0], kinds[0])]
    return [(step.made[n], kinds[0]) for n in PASSED_ON.get(kinds[0].name, (0,))]


def in_the_way(
    nest: Nest, kinds: Mapping[Slot, Kind], axes: Sequence[Any], change: str
) -> str | None:
    """Why loops cannot be split or fused, seen what was asked of them already."""
    for (what, which, *_), kind in kinds.items():
        if what in ("prefetch", "pragma") and which in map(id, axes):
            return f"{kind.request.text} is for the loop as it is; {change} first, then {what}"
    marks = of_loops(nest, kinds)
    found = [marks[id(axis)] for axis in axes if id(axis) in marks]
    for kind in found:
        if kind.name not in PASSED_ON:
            return f"{kind.request.text} is for the loop as it is; {change} first, then {kind.name}"
        if kind.name != found[0].name:
            return f"one loop cannot do both, {found[0].request.text} and {kind.request.text}"
    return None
