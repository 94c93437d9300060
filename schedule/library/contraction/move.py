"""Moves: steps ahead of the nest of a contraction, as values that users, defaults and searches
share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from schedule.analysis.numerics import numerics_class
from schedule.analysis.uses import own_store
from schedule.errors import ScheduleError
from schedule.library.contraction.axes import Contraction
from schedule.library.contraction.find import find_again
from schedule.library.contraction.nest import make_nest
from schedule.library.contraction.plan import NestPlan
from schedule.schedule import Schedule
from tensorir import Device, Load, TensorIRError, allows, check_numerics, weakest


@dataclass(frozen=True)
class Move:
    """A step that makes another contraction of one, which is easier to compute.

        c = find_contraction(sch, "out")
        c = lanes(sch, c, (1, 16))         # a move is called with an option

    name      of letters, digits and _; sketches of searches have it in theirs
    apply     from a schedule, a contraction in it and an option to the contraction that is left: by
              primitives only. What it adds to the program besides, it schedules
    requires  why a contraction does not allow an option, or None where it does
    options   those worth trying on a device, none for contractions that it does nothing for:
              numbers, texts and tuples of them, as records keep them. Axes and operands are given
              by their positions, never by names
    cycles    of a call that what it adds takes; `constants` are buffers that are known before. What
              is left is estimated by itself
    numerics  the class of what it does to results, one of NUMERICS
    foresee   what is left, but for names and places, where that can be told without a schedule

    Raises TensorIRError for a name of other letters, and for unknown `numerics`.
    """

    name: str
    apply: Callable[[Schedule, Contraction, Any], Contraction]
    requires: Callable[[Contraction, Any], str | None] = lambda c, option: None
    options: Callable[[Contraction, Device], Iterable[Any]] = lambda c, device: ()
    cycles: Callable[[Contraction, Any, Device, Collection[str]], float] = lambda *asked: 0.0
    numerics: str = "bitwise"
    foresee: Callable[[Contraction, Any], Contraction] | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name.isidentifier()):
            raise TensorIRError(f"a move cannot be called {self.name!r}: give it an identifier")
        check_numerics(self.numerics)

    def __call__(self, sch: Schedule, c: Contraction, option: Any) -> Contraction:
        """Apply it to `c`, a contraction in `sch` as it is; returns the one that is left.

        Raises ScheduleError where it requires something else, and where a primitive refuses;
        TensorIRError where it returned what is not left, or did more to results than it says. The
        schedule is then as it was.
        """
        reason = self.requires(c, option)
        if reason is not None:
            raise self._refusal(sch, c, option, reason)
        before, done = sch.func, len(sch.trace.instructions)
        try:
            after = self.apply(sch, c, option)
            self._check(sch, c, option, after)
            if not allows(self.numerics, sch.numerics):
                was = numerics_class(before, sch.definition)
                if not allows(weakest([self.numerics, was]), sch.numerics):
                    raise TensorIRError(
                        f"move {self.name!r} says that its schedules are {self.numerics}, and they "
                        f"are {sch.numerics}: give it numerics={sch.numerics!r}"
                    )
        except BaseException as error:
            sch.undo(len(sch.trace.instructions) - done)
            if isinstance(error, ScheduleError):
                raise self._refusal(sch, c, option, error.headline) from error
            raise
        return after

    def _refusal(self, sch: Schedule, c: Contraction, option: Any, reason: str) -> ScheduleError:
        call = f"{self.name}({c.block!r}, {option!r})"
        return ScheduleError(call, c.block, reason, None, sch.state, sch.trace)

    def _check(self, sch: Schedule, c: Contraction, option: Any, after: Any) -> None:
        """Whether what was returned is what is left."""
        if not isinstance(after, Contraction):
            raise TensorIRError(
                f"move {self.name!r} returned {after!r} and not the contraction that is left: end "
                "it with `return find_again(sch, c)`"
            )
        left = find_again(sch, after) if self.foresee is None else self.foresee(c, option)
        if _forms(left) != _forms(after):
            raise TensorIRError(
                f"move {self.name!r} returned a contraction that is not what block "
                f"{after.block!r} computes after it: end it with `return find_again(sch, c)`"
            )


def _forms(c: Contraction) -> object:
    """What a nest is made by: axes, and how far each moves what is read and written."""
    return (
        [(axis.reduce, axis.extent) for axis in c.axes], c.written,
        sorted(repr(o.strides) for o in c.operands), c.sums.strides, c.result.strides,
    )  # fmt: skip


@dataclass(frozen=True)
class MovedPlan:
    """Moves with their options, each for what the one before it leaves, and the nest of what is
    left in the end."""

    moves: tuple[tuple[Move, Any], ...]
    nest: NestPlan


def make_moved_nest(sch: Schedule, c: Contraction, plan: MovedPlan) -> None:
    """Schedule a contraction by moves and the nest of what they leave. TensorIRError if refused."""
    before = set(sch.get_blocks())
    for move, option in plan.moves:
        c = move(sch, c, option)
    made = [block for block in sch.get_blocks() if block not in before]
    packed = ((c.operands[p.operand], p.axis) for p in plan.nest.packs)
    straight = {o.buffer for o, axis in packed if o.strides[axis] == 1}
    taken = [block for block in made if _computes(sch, block, straight)]
    make_nest(sch, c, plan.nest)
    for block in taken:
        sch.compute_inline(block)


def _computes(sch: Schedule, block: str, buffers: Collection[str]) -> bool:
    """Whether a stage is no reduction and no copy, and makes one of some buffers: the copy that
    packs it computes it, as it reads what lies side by side."""
    store = own_store(sch.state.block(block))
    if store is None or isinstance(store.value, Load):
        return False
    return store.buffer.name in buffers


def left_by(moves: Sequence[tuple[Move, Any]], sch: Schedule, c: Contraction) -> Contraction:
    """What moves leave of a contraction in a schedule, which stays as it is: by `foresee`, or for
    moves without it by applying them to a copy."""
    known = all(move.foresee is not None for move, _ in moves)
    copy = None if known else sch.copy()
    for move, option in moves:
        if copy is not None:
            c = move(copy, c, option)
        elif move.foresee is not None:
            c = move.foresee(c, option)
    return c
