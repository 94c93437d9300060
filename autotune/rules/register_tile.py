"""How many rows and vectors the sums of a product take in registers."""

from __future__ import annotations

MANY = 32
"""Registers from which on the simple choice is as good as any that was tried."""

WIDTHS = (6, 4, 3, 2, 1)
"""Vectors in a row of a tile, preferred first."""

CHAINS = 8
"""Sums that keep both multipliers busy: two of them, and four cycles until a sum is there."""

LOAD = 0.25
"""A load beside multiply-adds, in units of these."""


def register_tile(rows: int, vectors: int, registers: int) -> tuple[int, int]:
    """The rows and vectors of a tile for `rows` x `vectors` vectors of sums; the most of each.

    Beside the sums, the operand of each column and one of a row have to be in registers: one sum
    that is not makes a chain of loads and stores of all its steps. With few registers that decides,
    and then what a step costs: 4 x 3 or 6 x 2 of 16, whichever leaves less at the end of a row.
    With many, three quarters of them hold sums.
    """
    if registers >= MANY:
        width = min(4, vectors)
        return max(1, 3 * registers // 4 // width), width

    def height(width: int) -> int:
        return max(1, min(rows, (registers - 1) // width - 1))

    def step(width: int, tall: int) -> float:
        return max(tall * width, CHAINS) + LOAD * (tall + width) if width else 0.0

    def cost(width: int) -> float:
        panels, last = divmod(vectors, width)
        tall = height(width)
        return (panels * step(width, tall) + step(last, tall)) / tall

    best = min((width for width in WIDTHS if width <= vectors), key=cost)
    return height(best), best
