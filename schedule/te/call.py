"""One call of a method of a stage: refused, or recorded in one of three ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from schedule.te.errors import RequestError
from schedule.te.kinds import Kind
from schedule.te.nest import IterVar, Step
from schedule.te.request import Request, caller

if TYPE_CHECKING:
    from schedule.te.stage import Stage
    from schedule.te.stage_state import Home, StageState


class Call:
    """What was called, of which stage."""

    def __init__(self, stage: StageState, text: str) -> None:
        self.stage, self.text = stage, text

    def refused(self, reason: str, hint: str | None = None) -> RequestError:
        return RequestError(self.text, self.stage.name, reason, hint)

    def require_computed(self) -> None:
        """Refuse to ask anything of an input or a te.scan."""
        if self.stage.fixed:
            reason, _, hint = self.stage.fixed.partition("; ")
            raise self.refused(reason, hint)

    def require_outside(self, parent: Stage) -> None:
        """Refuse to compute a stage in itself, or a group in one of its stages."""
        if self.stage in parent.with_groups():
            raise self.refused(f"{parent.shown} is in {self.stage.shown}", "give it a consumer")

    def require_movable(self) -> None:
        """Refuse for a stage that is a part of another."""
        if self.stage.stays:
            raise self.refused(self.stage.stays, "ask it of that stage")

    def change(
        self,
        name: str,
        args: Sequence[Any],
        made: tuple[IterVar, ...],
        leaves: Sequence[Any],
        option: Any = None,
    ) -> None:
        """Loops become others."""
        stage, before = self.stage, self.stage.nest

        def revert() -> None:
            stage.nest = before

        request = self._record(revert)
        stage.nest = before.then(Step(name, tuple(args), made, request, option), leaves)

    def mark(self, name: str, axis: Any, *args: Any) -> None:
        """A loop is to be run in some way, or the stage's memory to be used so."""
        self.stage.marks.append(Kind(name, axis, args, self._record()))

    def put(self, place: Home) -> None:
        """The stage is computed elsewhere."""
        self.stage.places.append((place, self._record()))

    def _record(self, revert: Callable[[], None] | None = None) -> Request:
        request = self.request(revert)
        self.stage._owner.record(request)
        return request

    def request(self, revert: Callable[[], None] | None) -> Request:
        """The call as a request that `revert` takes back."""
        return Request(self.text, caller(), revert)
