"""What a stage is and what was asked of it so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

from schedule.te.call import Call
from schedule.te.kinds import Kind, Slot
from schedule.te.nest import Nest
from schedule.te.request import Request, call_text

if TYPE_CHECKING:
    from schedule.te.group import Group
    from schedule.te.schedule import TESchedule
    from schedule.te.stage import Stage

Place = tuple["Stage", Any]
"""A loop of a stage, in which others are computed."""

Home = Union[Place, str, None]
"""Where a stage is computed: in a loop, "inline" in its readers, or by itself."""


class StageState:
    """What the requests to a stage have in common; see Stage."""

    def __init__(self, owner: TESchedule, name: str, op: Any, nest: Nest) -> None:
        self._owner = owner
        self.name = name
        """What the stage is called in messages: the name of its block, or of the cached tensor."""
        self.op = op
        self.nest = nest
        self.marks: list[Kind] = []
        """What was asked of the loops, and of the memory, in order."""
        self.places: list[tuple[Home, Request]] = []
        """Where it was to be computed, in order."""
        self.group: Group | None = None
        self.fixed = ""
        """Why nothing can be asked of the stage, if so."""

        self.stays = ""
        """Why the stage can neither be put elsewhere nor cached, if so."""

    def __repr__(self) -> str:
        return f"Stage({self.name}: {', '.join(a.name for a in self.leaves)})"

    @property
    def shown(self) -> str:
        """The stage as it is typed."""
        return f"s[{self.name}]"

    @property
    def leaves(self) -> list[Any]:
        """The loops as they stand, outermost first."""
        return list(self.nest.leaves)

    leaf_iter_vars = leaves

    def with_groups(self) -> list[StageState]:
        """The stage and the groups that it is in, innermost first."""
        return [self, *(() if self.group is None else self.group.with_groups())]

    @property
    def home(self) -> tuple[Home, Request | None]:
        """Where the stage is computed, by itself or with its group, and who asked for that."""
        own = self.places[-1] if self.places else (None, None)
        return self.group.home if own[0] is None and self.group is not None else own

    @property
    def kinds(self) -> dict[Slot, Kind]:
        """What is asked of the loops and of the memory now: the last request for each."""
        return {kind.slot: kind for kind in self.marks}

    def forget(self, request: Request) -> None:
        """Take back a request about how loops are run or where this is computed."""
        self.marks = [kind for kind in self.marks if kind.request is not request]
        self.places = [(home, by) for home, by in self.places if by is not request]

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Call:
        call = Call(self, call_text(self.shown, name, args, kwargs))
        call.require_computed()
        return call

    def _mark(self, name: str, axis: Any, *rest: Any) -> None:
        call = self._call(name, axis, *rest)
        self.require_leaf(call, axis)
        call.mark(name, axis, *rest)

    def require_leaf(self, call: Call, axis: Any) -> int:
        """The place of a loop among the leaves; refuses the call if it is none."""
        for place, leaf in enumerate(self.nest.leaves):
            if leaf is axis:
                return place
        raise call.refused(
            f"{getattr(axis, 'name', axis)!r} is no loop of stage {self.name!r} now; its loops are "
            f"{self._names()}"
        )

    def _names(self) -> str:
        return ", ".join(leaf.name for leaf in self.leaves) or "none"
