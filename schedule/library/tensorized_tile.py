"""Sizes of the register tile of a tensorized product, and of the blocks of rows around it."""

from __future__ import annotations

STRIP = 16
"""Columns that a packing intrinsic moves at once; tiles have whole strips."""
AREA = 24
"""Rows times strips of a tile where a strip is one vector of 512 bits: of 32 registers, that leaves
a few for the operands."""
REGISTERS = 32
CONSTANTS = 4
"""Registers that what follows a product should have."""
SMALL_AREA = 6
"""The same for shorter vectors, of which a strip needs several."""
LATENCY = 8
"""Sums that are needed at once for the next one to start while others are not finished."""
LOADS = 0.3
"""The share that a load adds to the time of a product."""
PADDING = 6
"""Vectors of sums that take as long as padding one of the second matrix."""
WIDEST = 4
"""Strips of a tile that has more rows than FEW_ROWS."""
FEW_ROWS = 3
"""Rows of a matrix that leave room for a tile of more strips."""
BLOCK_ROWS = (64, 144)
"""Rows of the first matrix that are used with one panel of the second before the next one."""


def dot_tile(
    lanes: int,
    total: int | None,
    rows: int | None = None,
    columns: int | None = None,
    height: int | None = None,
    divide: bool = False,
    epilogue: bool = False,
) -> tuple[int, int]:
    """Rows and columns of a tile of a matrix with `total` columns, as far as they are not given.

    height  rows of the matrix, None for many
    divide  whether columns have to divide `total`
    epilogue  whether more is done with the sums, which takes registers for its constants

    Chosen is what takes the least steps, a step being one vector of one row: the columns are padded
    to whole tiles, and rows that are left over have a tile of their own.
    """
    area = AREA if lanes == STRIP else SMALL_AREA
    strips = -(-(total or AREA * STRIP) // STRIP)
    tall = height or 60 * area
    widest = WIDEST if lanes == STRIP else 1
    if tall <= FEW_ROWS:
        widest = area // tall
    widths = [columns // STRIP] if columns is not None else range(1, min(widest, strips) + 1)
    best = (float("inf"), 0, 1, 1)
    for wide in widths:
        if divide and total is not None and total % (wide * STRIP):
            continue
        most = min(tall, max(1, area // max(1, wide)))
        if epilogue and lanes == STRIP:  # gcc 12 keeps constants of the epilogue through the loop
            most = min(most, max(1, (REGISTERS - CONSTANTS - 1 - wide) // max(1, wide)))
        for high in [rows] if rows is not None else range(1, most + 1):
            best = min(best, (_steps(tall, strips, high, wide, area), -wide, high, wide))
    return best[2], (columns if columns is not None else best[3] * STRIP)


def _steps(height: int, strips: int, high: int, wide: int, area: int) -> float:
    """About the time of a product, in vectors of sums that are updated once."""
    if high < 1 or wide < 1:
        return 0.0
    whole, rest = divmod(height, high)
    tiles = [(whole, high), (1 if rest else 0, rest)]
    padding = PADDING * strips if strips % wide else 0
    # Products, but no fewer than their latency allows, and a share of the loads they need.
    least = LATENCY * area / AREA
    each = [n * (max(rows * wide, least) + LOADS * (rows + wide)) for n, rows in tiles]
    return padding + -(-strips // wide) * sum(each)


def block_tiles(rows: int | None, tile: int) -> int:
    """How many register tiles make a block of rows, so that the last one is not much smaller."""
    low, high = (max(1, -(-size // tile)) for size in BLOCK_ROWS)
    if rows is None:
        return high
    tiles = -(-rows // tile)
    if tiles <= high:
        return max(1, tiles)
    return min(range(low, high + 1), key=lambda count: (-tiles % count, -count))
