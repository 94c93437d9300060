"""Steps of the sums of a contraction in tiles: how many terms a block of threads takes at once."""

from __future__ import annotations

from functools import cached_property

from autotune.rules.group import SYMBOLIC_SIZE
from schedule import library

DEPTHS = (4, 8, 16, 32)
"""Terms of a step, those of windows aside."""

MOST_DEPTH = 5 * DEPTHS[-1]
"""Terms up to which all are offered as one step."""

WINDOW = 64
"""Terms of windows that belong to one step."""


class TileSteps:
    """For sums in any order, or in that of the definition if they are to be `bitwise`."""

    def __init__(self, c: library.Contraction, bitwise: bool) -> None:
        self.c, self.bitwise = c, bitwise
        self.known: dict[int, dict[int, library.gpu.Cut]] = {}

    def extent(self, n: int) -> int:
        known = self.c.axes[n].extent
        return SYMBOLIC_SIZE if known is None else known

    @cached_property
    def windows(self) -> list[int]:
        """The axes of windows that are summed over."""
        return [n for n in self.c.reduced if self.c.is_window(n)]

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Terms of a step: where rows of some begin and end within sectors half a sector of these
        at least, more of them if they are moved one by one anyway, and all there are too, as whole
        ones lie side by side."""
        *_, deep = [n for n in self.c.reduced if n not in self.windows] or [0]
        rows = [o for o in self.c.operands if o.row >= 0 and o.dims[o.row][deep] == 1]
        sectors = [(library.gpu.in_sector(o.dtype), o.shape[o.row] or 0) for o in rows]
        odd = [sector for sector, row in sectors if row % sector]
        if not odd:
            return DEPTHS
        single = any(row % (sector // 2) for sector, row in sectors)  # no access has 16 bytes
        most = (2 * DEPTHS[-1],) if single else ()
        depths = (*(n for n in DEPTHS if 2 * n >= max(odd)), *most)
        whole = DEPTHS[-1] < self.extent(deep) <= MOST_DEPTH
        return (*depths, self.extent(deep)) if whole else depths

    def cuts(self, depth: int) -> dict[int, library.gpu.Cut]:
        """The cuts of the axes that are summed over."""
        c = self.c
        windows = self.windows
        cuts: dict[int, library.gpu.Cut] = {}
        room = WINDOW
        deep = [n for n in c.reduced if n not in windows]
        order = [*deep[-1:], *windows] if not self.bitwise else list(reversed(c.written))
        left = depth
        for n in order:
            extent = self.extent(n)
            if n in windows and not (self.bitwise and left <= 0):
                parts = extent if extent <= room else _divisor(extent, room)
                room //= max(1, parts)
            else:
                parts = _divisor(extent, max(1, left))
                left = 0
            cuts[n] = library.gpu.Cut(parts=max(1, parts))
            if self.bitwise and parts < extent:
                break
        return {n: cuts.get(n, library.gpu.Cut()) for n in c.reduced}

    def of(self, plan: library.gpu.TilePlan, depth: int) -> library.gpu.TilePlan:
        """A plan with steps of so many terms."""
        terms = self.known.get(depth) or self.known.setdefault(depth, self.cuts(depth))
        cuts = tuple([terms.get(n, cut) for n, cut in enumerate(plan.cuts)])
        return plan.changed(cuts, plan.results)


def _divisor(extent: int, most: int) -> int:
    """The largest divisor of an extent that is not larger; `most` where all are small."""
    found = max(n for n in range(1, min(extent, most) + 1) if extent % n == 0)
    return found if 2 * found > min(most, extent) else min(extent, most)
