"""The shuffles that transpose a tile whose rows are vectors.

The element of row r and lane l has an address, the bits of r and of l. A round exchanges one bit of
the row for one of the lane in every address: it takes two rows that differ in that bit, and makes
two in which the bit tells lanes apart. After log2 of the shorter side all bits are exchanged. Lanes
are first exchanged within blocks, then blocks (unpack and shuffle instructions of x86). Vectors of
a tile with more rows than lanes grow first, those of one with fewer shrink in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

Row = tuple[int, int, int, int, tuple[int, ...]]
"""(first, second, lanes, to, chosen): row `to` has the lanes `chosen` of two rows of `lanes`."""

Bits = tuple[str, ...]
"""Names of bits, the most significant first; "r0" is the least of the row, "l0" of the lane."""


@cache
def network(rows: int, lanes: int, block: int, beside: int = 1) -> list[list[Row]]:
    """The rounds that make `lanes` rows of `rows` lanes of `rows` rows of `lanes` lanes.

    All are powers of two; `block` is the number of lanes in a block. `beside` rows, at most
    `rows // lanes`, follow each other in each vector as it is read: one round then chooses lanes
    from all over two vectors, and vectors need not grow so much.
    """
    high, wide, near = (n.bit_length() - 1 for n in (rows, lanes, beside))
    steps = _steps(high, wide, block.bit_length() - 1, near)
    wanted = _names("r", high)
    renamed = dict(zip(steps[-1][1] if steps else (), wanted))
    row_bits, lane_bits = wanted[: high - near], (*wanted[high - near :], *_names("l", wide))
    rounds: list[list[Row]] = []
    for taken, after, given in steps:
        new_lanes = tuple(renamed.get(bit, bit) for bit in after)
        out = renamed.get(taken, taken)
        new_rows = tuple(bit for bit in row_bits if bit != out) + ((given,) if given else ())
        if len(rounds) + 1 == len(steps):
            new_rows = _names("l", wide)
        rounds.append(_round(row_bits, lane_bits, new_rows, new_lanes))
        row_bits, lane_bits = new_rows, new_lanes
    return rounds


def _names(letter: str, count: int) -> Bits:
    return tuple(f"{letter}{n}" for n in reversed(range(count)))


def _steps(high: int, wide: int, inner: int, near: int) -> list[tuple[str, Bits, str]]:
    """For each round the bit taken from the row, the bits of the lane after it, and the bit given.

    Bits of the row have numbers in the order in which they are taken: which they are is seen from
    where they have come in the end. The last `near` of them are bits of the lane from the start,
    and are its last ones in the end.
    """
    lane: list[str] = [*_names("r", near), *_names("l", wide)]
    steps: list[tuple[str, Bits, str]] = []
    for n in range(high - near):
        new, given = f"x{n}", ""
        if n < high - near - wide:  # grow
            lane = [new, *lane]
        else:
            low = lane[len(lane) - inner :] if inner else []
            top = lane[: len(lane) - len(low)]
            own = [bit for bit in low if bit.startswith("l")]
            if own:
                given = own[0]
                below = next((n for n, bit in enumerate(reversed(low)) if bit.startswith("l")))
                low.insert(len(low) - below, new)
                low.remove(given)
            else:
                given = [bit for bit in top if bit.startswith("l")][-1]
                top = [new, *(bit for bit in top if bit != given)]
            lane = [*top, *low]
        if n + 1 == high - near:
            lane.sort(key=lambda bit: bit in _names("r", near))
        steps.append((new, tuple(lane), given))
    for bit in [bit for bit in lane if bit.startswith("l")]:  # shrink
        lane.remove(bit)
        steps.append(("", tuple(lane), bit))
    return steps


def _round(rows: Bits, lanes: Bits, new_rows: Bits, new_lanes: Bits) -> list[Row]:
    """The shuffles from addresses (rows, lanes) to addresses (new_rows, new_lanes)."""
    found: list[Row] = []
    for to, values in enumerate(product((0, 1), repeat=len(new_rows))):
        place = dict(zip(new_rows, values))
        sources: list[tuple[int, int]] = []
        for lane_values in product((0, 1), repeat=len(new_lanes)):
            bits = {**place, **dict(zip(new_lanes, lane_values))}
            sources.append((_number(rows, bits), _number(lanes, bits)))
        used = sorted({row for row, _ in sources})
        first, second, count = used[0], used[-1], 2 ** len(lanes)
        chosen = tuple(lane + (count if row != first else 0) for row, lane in sources)
        found.append((first, second, count, to, chosen))
    return found


def _number(bits: Sequence[str], values: dict[str, int]) -> int:
    number = 0
    for bit in bits:
        number = 2 * number + values[bit]
    return number
