"""Plans for tiles as columns of numbers: hundreds are looked at, and few of them made."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from schedule import library

Cuts = npt.NDArray[np.int64]
"""Those of some plans: by plan, axis and who has a part."""

Flags = npt.NDArray[np.bool_]
"""What holds for each plan."""


class TilePlans:
    """Plans that were made."""

    def __init__(self, plans: Sequence[library.gpu.TilePlan], axes: int) -> None:
        self.made = plans
        self.cuts = np.array([plan.cuts for plan in plans], np.int64).reshape(len(plans), axes, 4)

    def __len__(self) -> int:
        return len(self.cuts)

    def __getitem__(self, row: int) -> library.gpu.TilePlan:
        return self.made[row]

    @cached_property
    def split(self) -> npt.NDArray[np.int64]:
        """Parts of each sum."""
        return np.array([plan.split for plan in self.made], np.int64)

    @cached_property
    def ahead(self) -> npt.NDArray[np.int64]:
        """Steps that copies run ahead."""
        return np.array([plan.ahead for plan in self.made], np.int64)

    @cached_property
    def results(self) -> Flags:
        """Whether results go through shared memory."""
        return np.array([plan.results for plan in self.made], bool)

    @property
    def sectors(self) -> list[bool]:
        """Whether rows are fetched from where their sectors begin."""
        return [plan.sectors for plan in self.made]

    def fetches(self, operand: int) -> Flags:
        """Whether an operand goes through shared memory."""
        return np.array([operand in plan.shared for plan in self.made], bool)

    def lays_out(self, operand: int) -> list[bool]:
        """Whether an operand is laid out ahead."""
        return [operand in plan.laid for plan in self.made]


class AlikePlans(TilePlans):
    """Plans that are one but for their cuts, and for whether `results` go through shared memory."""

    def __init__(self, plan: library.gpu.TilePlan, cuts: Cuts, results: Flags) -> None:
        self.plan, self.cuts, self.through = plan, cuts, results

    def __getitem__(self, row: int) -> library.gpu.TilePlan:
        cuts = tuple([library.gpu.Cut(*cut) for cut in self.cuts[row].tolist()])
        return self.plan.changed(cuts, bool(self.through[row]))

    @cached_property
    def split(self) -> npt.NDArray[np.int64]:
        return np.full(len(self), self.plan.split)

    @cached_property
    def ahead(self) -> npt.NDArray[np.int64]:
        return np.full(len(self), self.plan.ahead)

    @cached_property
    def results(self) -> Flags:
        return self.through

    @property
    def sectors(self) -> list[bool]:
        return [self.plan.sectors] * len(self)

    def fetches(self, operand: int) -> Flags:
        return np.full(len(self), operand in self.plan.shared)

    def lays_out(self, operand: int) -> list[bool]:
        return [operand in self.plan.laid] * len(self)
