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
        """Refuse to compute the stage in one that is computed in it."""
        outer: StageState | None = parent
        while outer is not None:
            if self.stage in outer.with_groups():
                raise self.refused(
                    f"{parent.shown} is computed in {self.stage.shown} itself; compute_at needs a "
                    "consumer"
                )
            home = outer.home[0]
            outer = home[0] if isinstance(home, tuple) else None

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
        stage = self.stage

        def revert() -> None:
            if stage.kinds.get(kind.slot) is kind:
                del stage.kinds[kind.slot]
                if before is not None:
                    stage.kinds[kind.slot] = before

        kind = Kind(name, axis, args, self._record(revert, stands_alone=True))
        before = stage.kinds.get(kind.slot)
        stage.kinds[kind.slot] = kind

    def put(self, place: Home) -> None:
        """The stage is computed elsewhere."""
        stage, before = self.stage, (self.stage.place, self.stage.placed_by)

        def revert() -> None:
            if stage.placed_by is request:
                stage.place, stage.placed_by = before

        request = self._record(revert, stands_alone=True)
        stage.place, stage.placed_by = place, request

    def _record(self, revert: Callable[[], None], stands_alone: bool = False) -> Request:
        request = self.request(revert, stands_alone)
        self.stage._owner.record(request)
        return request

    def request(self, revert: Callable[[], None], stands_alone: bool = False) -> Request:
        """The call as a request that `revert` takes back."""
        return Request(self.text, caller(), revert, stands_alone)
