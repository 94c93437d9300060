"""The loops of one stage as its user sees them: handles, and what was asked of them in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tensorir import Expr

if TYPE_CHECKING:
    from schedule.te.request import Request


class IterVar:
    """A loop of a stage, as split, fuse and the like return it; compared by identity.

    `extent` is its number of iterations where the stage is computed as a whole; `is_mixed` says of
    a loop of a reduction that data axes were fused into it.
    """

    __slots__ = ("extent", "is_mixed", "is_reduce", "name")

    def __init__(
        self, name: str, extent: Expr, is_reduce: bool = False, is_mixed: bool = False
    ) -> None:
        self.name, self.extent = name, extent
        self.is_reduce, self.is_mixed = is_reduce, is_mixed

    def __repr__(self) -> str:
        return self.name


def is_data(axis: Any) -> bool:
    """Whether the loop tells which element is computed."""
    return not axis.is_reduce or getattr(axis, "is_mixed", False)


def among(axis: Any, axes: Iterable[Any]) -> bool:
    """Whether `axis` itself is one of `axes`; `==` of expressions makes an expression."""
    return any(axis is other for other in axes)


@dataclass(frozen=True, eq=False)
class Step:
    """A request that changes loops: the handles that it takes, and those that it makes of them.

    `name` is "split", "fuse", "reorder", "unit" or "decompose"; `option` is what else it needs.
    """

    name: str
    args: tuple[Any, ...]
    made: tuple[IterVar, ...]
    request: Request
    option: Any = None


@dataclass(frozen=True, eq=False)
class Nest:
    """`roots` has the handle of each variable of the block; `steps` make `leaves` of them, which
    are the loops as they stand, outermost first."""

    roots: tuple[Any, ...]
    leaves: tuple[Any, ...]
    steps: tuple[Step, ...] = ()

    @property
    def data(self) -> tuple[Any, ...]:
        """The roots that are not of a reduction: one for each dimension of the tensor."""
        return tuple(root for root in self.roots if not root.is_reduce)

    @property
    def reduced(self) -> tuple[Any, ...]:
        """The roots of the reduction."""
        return tuple(root for root in self.roots if root.is_reduce)

    def then(self, step: Step, leaves: Sequence[Any]) -> Nest:
        return Nest(self.roots, tuple(leaves), (*self.steps, step))

    def came_of(self, axis: Any) -> list[Any]:
        """The loops that `axis` has become, outermost first; itself if it is one still."""
        found = [axis]
        for step in self.steps:
            if step.made and any(among(arg, found) for arg in step.args):
                found += step.made
        return [leaf for leaf in self.leaves if among(leaf, found)]

    def part(self, roots: Sequence[Any]) -> Nest:
        """What was asked of some of the roots alone, where no loop is made of these and others."""
        own, steps = list(roots), []
        for step in self.steps:
            args = tuple(arg for arg in step.args if among(arg, own))
            if len(args) > (step.name == "reorder"):
                steps.append(replace(step, args=args))
                own += step.made
        leaves = tuple(leaf for leaf in self.leaves if among(leaf, own))
        return Nest(tuple(roots), leaves, tuple(steps))

    def copied(self, suffix: str) -> Nest:
        """The same with handles of its own, named after these and `suffix`."""
        new: dict[int, IterVar] = {}

        def copy(axis: Any) -> IterVar:
            if id(axis) not in new:
                new[id(axis)] = IterVar(f"{axis.name}{suffix}", axis.extent)
            return new[id(axis)]

        steps = tuple(
            replace(s, args=tuple(map(copy, s.args)), made=tuple(map(copy, s.made)))
            for s in self.steps
        )
        return Nest(tuple(map(copy, self.roots)), tuple(map(copy, self.leaves)), steps)

    def all_handles(self) -> list[Any]:
        """Every handle that there was, in the order in which they were made."""
        return [*self.roots, *(axis for step in self.steps for axis in step.made)]
