"""What it takes to write the results of a nest."""

from __future__ import annotations

import numpy as np

from autotune.estimate.nests import Alike
from autotune.streams import LINE, Column, stays

LAST = 4
"""Lanes that are read together where those of one vector are added up."""

DRAINED = 0.05
"""The share of arithmetic in which processors store what tiles before have left."""


class Results(Alike):
    """Sums of lanes, rows that are stored in turns, results that are turned on the way out."""

    def writing(self, work: Column) -> Column | float:
        """Results that are turned on the way out or stored in turns, or sums that are added up,
        of so much arithmetic."""
        if self.added:
            return self.adding()
        if self.c.result.strides[self.plan.lane] == 1:
            return self.in_turns(work)
        turned = self.cpu.costs.transpose * float(np.prod(self.of.spatial)) / self.plan.lanes
        return turned + self.kept()

    def in_turns(self, work: Column) -> Column:
        """The rows of a tile, each a run of vectors, where they may begin within lines: beside what
        is hidden, which is all of it where the second cache holds all arrays."""
        result, run = self.of.result, self.tile[:, self.plan.lane]
        if not self.c.result.param and result.aligned(LINE // result.item):
            return np.zeros(len(run))
        each = self.cpu.piece * (1.0 - stays(self.of.used, self.cpu.l2_bytes))
        times = self.of.terms / self.plan.depth if self.plan.depth else 1.0
        pieces = float(np.prod(self.of.spatial)) / run * (self.rows() > 1)
        return np.maximum(0.0, each * pieces * times - DRAINED * work)

    def adding(self) -> Column:
        """The lanes of each result are added up: those of one row wait for each other, and the rows
        of a tile go on meanwhile."""
        costs, count, lanes = self.cpu.costs, self.of.extents[self.plan.lane], self.plan.lanes
        each = costs.add * (1 + 1 / self.rows()) / 2 + -(-count // lanes) - 1
        return float(np.prod(self.of.spatial)) / count * each

    def stalls(self) -> Column | float:
        """Where the last lanes are narrower vectors, which are then read as a part of wide ones."""
        count, lanes = self.of.extents[self.plan.lane], self.plan.lanes
        last = (count - self.c.missing) % lanes if self.added and self.c.missing else 0
        first = lanes if count > lanes else min(lanes, LAST)
        if last == 0 or last & (last - 1) or last >= first:
            return 0.0
        return self.cpu.costs.stall * float(np.prod(self.of.spatial)) / count / self.rows()

    def kept(self) -> Column:
        """Panels of what a task makes that leave a cache before they are turned, and come back."""
        item, lane = self.of.result.item, self.plan.lane
        panel = np.prod(self.task, axis=1) / self.task[:, lane] * self.tile[:, lane] * item
        lines = 2 * float(np.prod(self.of.spatial)) * item / LINE
        costs = [cost * (1 - stays(panel, room)) for room, cost in self.cpu.caches[1:]]
        return lines * np.sum(costs, axis=0)
