"""Whether tiles are for a contraction: what is fetched once is to be used several times."""

from __future__ import annotations

from schedule import library


def has_windows(c: library.Contraction) -> bool:
    """Whether an index moves with elements of the result and with terms."""
    return any(
        any(row[n] for n in c.spatial) and any(row[n] for n in c.reduced)
        for o in c.operands
        for row in o.dims
    )


def is_shared(c: library.Contraction) -> bool:
    """Whether all operands are used again, or there are windows: else memory decides, not tiles.
    What no terms move, such as where a body is in a sum over all others, a thread reads once."""
    moved = (n for n, o in enumerate(c.operands) if any(o.strides[k] != 0 for k in c.reduced))
    return has_windows(c) or all(map(c.is_used_again, moved))
