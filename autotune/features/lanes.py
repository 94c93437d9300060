"""How accesses move with a loop, and what it takes to fill vectors with what they read."""

from __future__ import annotations

import numpy as np

from autotune.features.nest import Access
from autotune.streams import Column

APART = 2.3
"""Loads that each element takes by which the values of neighbouring lanes lie further apart."""


def stride_class(access: Access, depth: int) -> int:
    """How an access moves with a loop: 0 not at all, 1 to the next element, 2 otherwise."""
    moving = [dim for dim, form in enumerate(access.forms) if depth in form.terms or form.unknown]
    if not moving:
        return 0
    last = len(access.forms) - 1
    if moving == [last] and not access.forms[last].unknown:
        return 1 if abs(access.forms[last].terms[depth][0]) == 1 else 2
    return 2


def lane_loads(
    access: Access, depth: int, extent: int, size: Column | int, lanes: int
) -> Column | float:
    """The loads that fill the vectors of `lanes` for `size` iterations of a loop of `extent`: one
    for each where neighbours are read, also where they are in several rows of which each is long;
    a few where they are that many elements apart; one for each value otherwise."""
    moved = [form.terms[depth] for form in access.forms[:-1] if depth in form.terms]
    coef, _ = access.forms[-1].terms.get(depth, (0, 0)) if access.forms else (0, 0)
    if not coef or any(form.unknown for form in access.forms):
        return size
    rows: Column | float = 1.0
    for _, steps in moved:
        rows = rows * (np.floor((size - 1) * (steps / max(extent - 1, 1))) + 1)
    each = min(lanes, 1 + APART * (abs(coef) - 1))
    return np.minimum(size, rows * np.ceil(size / rows / lanes) * each)
