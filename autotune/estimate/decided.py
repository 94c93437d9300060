"""Where compilers know what is padding, of plans that compute it in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.estimate.facts import Facts
from autotune.streams import Column
from schedule import library
from tensorir import copies_of_body, dtype

Decided = npt.NDArray[np.bool_]
"""A row for each plan, a column for each operand."""


def decided(
    of: Facts, plans: Sequence[library.NestPlan], tile: Column, task: Column, tall: Column
) -> Decided:
    """Whether compilers write a tile out for each way in which its lanes can reach into the padding
    of an operand, so that what is padding is known there. Where there are too many ways to get to
    their loop, lanes are masked; those of types that have no masks look for themselves."""
    c = of.c
    found = np.zeros((len(plans), len(c.operands)), dtype=bool)
    own = [at for at, plan in enumerate(plans) if plan.pad == "inline" and plan.flat]
    if not own:
        return found
    tile, task, around = tile[own], task[own], [_around(c, plans[at]) for at in own]
    body = (2 * np.prod(tall[own], axis=1) * of.terms).tolist()
    most = {size: copies_of_body(int(size)) for size in set(body)}
    copies = np.array([most[size] for size in body])
    tasks = np.minimum(np.ceil(of.spatial / task), 3.0)
    tiles, rest = np.ceil(task / tile), of.spatial % tile > 0
    for operand, o in enumerate(c.operands):
        if o.pad is None:
            continue
        axes = [n for n in c.spatial if c.in_padding(n, operand)]
        near = np.array([any(row[n] in (1, -1) for row in o.dims) for n in axes], dtype=bool)
        ends = np.where(rest[:, axes] | near, 3.0, 2.0)  # else only the first tile reaches beyond
        inside = np.where(np.array(around)[:, axes], np.minimum(tiles[:, axes], ends), 1.0)
        known = np.prod(tasks[:, axes] * inside, axis=1) <= copies
        masked = dtype.bits(o.dtype) in of.masked
        lanes = {n for n in axes if masked and c.in_padding(n, operand) == 1}
        found[own, operand] = known & [plans[at].lane in lanes for at in own]
    return found


def _around(c: library.Contraction, plan: library.NestPlan) -> list[bool]:
    """Whether the loop of each spatial axis is around that of the lanes, or is it."""
    outer = plan.order[: plan.order.index(plan.lane) + 1]
    return [n in outer for n in c.spatial]
