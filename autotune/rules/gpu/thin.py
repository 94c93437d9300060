"""Plans for products of few rows or columns, matrices by vectors among them: memory decides.

What is large is read once, in accesses of 16 bytes where that is aligned, and each element is used
for all of the few rows. Where its terms are neighbours in memory lanes share these; where elements
of the result are, lanes have these, and warps may share the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from schedule import library
from tensorir import Gpu, dtype

FEW = 16
"""Rows or columns at most: with more of them tiles of both operands are worth their copies."""

SOME = 8
"""Rows or columns from which on what they have goes through shared memory too."""

SUMS = 64
"""Sums of a thread, at most."""

ROWS = (1, 2, 4, 8)
"""Values of the long side that a thread has, where lanes share terms."""

WARPS = (1, 4, 8, 16)
"""Warps that share terms; where one does not, others have elements of their own."""

PIECES = (8, 4, 2, 1)
"""Terms of a thread in a step, where lanes have elements."""

BLOCK = 8
"""Warps of a block, where these have elements of their own."""


def thin_plans(
    c: library.Contraction,
    sides: Sequence[Sequence[int]],
    extent: Callable[[int], int],
) -> Iterator[library.gpu.TilePlan]:
    """Plans where one of two `sides`, axes of the result innermost first, has few values.

    None for windows, for what is read at other places than steps of one size, where a warp has no
    room in what is contiguous, and where few batches use nothing of what is large together.
    """
    lengths = [None if any(c.axes[n].extent is None for n in side) else prod(map(extent, side))
               for side in sides]  # fmt: skip
    known = [(n, at) for at, n in enumerate(lengths) if n is not None and n <= FEW]
    if not known or any(map(c.is_window, range(len(c.axes)))):
        return
    _, at = min(known)
    few, many = sides[at], sides[1 - at]
    if any(None in o.strides or o.pad is not None for o in c.operands) or not many:
        return
    moved = [o for o in c.operands if any(o.strides[n] for n in many)]
    large = [o for o in moved if any(o.strides[n] for n in c.reduced)]
    near = {n for o in large for n, step in enumerate(o.strides) if step == 1}
    batches = few and all(o.strides[n] for o in large for n in few)
    if len(near) != 1 or not large or batches:
        return
    thin = _Thin(c, few, many, extent, large, moved)
    (axis,) = near
    if axis in c.reduced:
        yield from thin.along_terms(axis)
    elif axis in many:
        yield from thin.along_elements(axis)


class _Thin:
    def __init__(
        self,
        c: library.Contraction,
        few: Sequence[int],
        many: Sequence[int],
        extent: Callable[[int], int],
        large: Sequence[library.Operand],
        moved: Sequence[library.Operand],
    ) -> None:
        self.c, self.few, self.many, self.extent, self.large = c, few, many, extent, large
        self.rows = prod(map(extent, few))
        self.small = tuple(n for n, o in enumerate(c.operands) if o not in moved)

    def along_terms(self, axis: int) -> Iterator[library.gpu.TilePlan]:
        """Lanes have neighbours among the terms."""
        cut = library.gpu.Cut
        wide = self.wide(axis)
        pieces = [wide, wide // 2] if wide > 1 and wide * self.rows > SUMS // 2 else [wide]
        owns = [n for n in ROWS if n * self.rows <= SUMS and n <= self.extent(self.many[0])]
        for piece, own, warps in product(pieces, owns, WARPS):
            if 2 * warps * Gpu.warp * piece > self.extent(axis):
                continue
            shares = {axis: cut(warps, 1, Gpu.warp, piece)}
            shares[self.many[0]] = cut(BLOCK if warps == 1 else 1, own)
            yield self.plan(shares)
            if self.rows > SOME and warps == 1 or self.rows > 1 and not self.small_along(axis):
                yield self.plan(shares, self.small)

    def small_along(self, axis: int) -> bool:
        """Whether lanes along an axis read neighbours in all that is small."""
        return all(self.c.operands[n].strides[axis] in (0, 1) for n in self.small)

    def along_elements(self, axis: int) -> Iterator[library.gpu.TilePlan]:
        """Lanes have neighbours among the elements of the result."""
        cut = library.gpu.Cut
        wide = min(self.wide(axis), max(1, SUMS // self.rows))
        if Gpu.warp > self.extent(axis):
            return
        deep = max(self.c.reduced, key=self.extent)
        for warps in WARPS:
            rest = BLOCK if warps == 1 else 1
            for piece in PIECES:
                whole = self.c.axes[deep].extent
                if 2 * warps * piece > self.extent(deep) or self.rows * piece > SUMS:
                    continue
                if warps > 1 and (whole or 1) % piece:
                    continue
                terms = cut(warps, 1, 1, piece) if warps > 1 else cut(parts=piece)
                shares = {axis: cut(rest, 1, Gpu.warp, wide), deep: terms}
                yield self.plan(shares)
                if self.rows > SOME and warps == 4:
                    yield self.plan(shares, self.small)

    def plan(
        self, cuts: dict[int, library.gpu.Cut], shared: tuple[int, ...] = ()
    ) -> library.gpu.TilePlan:
        """A thread has all of what is few, and short parts of terms that move nothing large."""
        cut, terms = library.gpu.Cut, (n for n in self.c.reduced if self.extent(n) <= SOME)
        short = [n for n in terms if not any(o.strides[n] for o in self.large)]
        cuts = {n: cut(parts=self.extent(n)) for n in (*self.few, *short)} | cuts
        every = tuple(cuts.get(n, cut()) for n in range(len(self.c.axes)))
        return library.gpu.TilePlan(every, shared, self.c.written)

    def wide(self, axis: int) -> int:
        """Neighbours along an axis that one access moves in all that is large, with at least two of
        them for each lane of a warp."""
        lanes = min(Gpu.access_bytes // dtype.itemsize(o.dtype) for o in self.large)
        steps = [s or 0 for o in self.large for n, s in enumerate(o.strides) if n != axis]
        while lanes > 1 and (
            any(x % lanes for x in (*steps, self.c.axes[axis].extent or 1))
            or 2 * lanes * Gpu.warp > self.extent(axis)
        ):
            lanes //= 2
        return max(1, lanes)
