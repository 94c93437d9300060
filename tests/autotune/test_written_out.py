"""Register tiles whose terms are written out: loads that registers save, and sums that wait."""

from __future__ import annotations

from collections import OrderedDict
from itertools import product

import numpy as np
import pytest
from contraction_programs import conv

from autotune.device import Cpu
from autotune.estimate.arithmetic import WAITING
from autotune.estimate.estimate import Estimate, _Nests
from autotune.estimate.nests import sizes_of
from autotune.estimate.varied import varied
from autotune.rules.group import find_groups
from autotune.rules.inlined import inline_stages
from backends import resolve
from schedule import Schedule
from schedule.library import NestPlan, find_contraction
from tensorir import te

CPU = Cpu(resolve("c -vector_bits=512 -threads=1"))
WAYS = ("rows", "single", "shifts")


def banded(terms=9):
    """Sums along diagonals: rows of the result read rows that begin one further each."""
    band, x = te.placeholder((64, terms), name="band"), te.placeholder((64 + terms, 64), name="x")
    k = te.reduce_axis(terms, "k")
    out = te.compute((64, 64), lambda i, j: te.sum(band[i, k] * x[i + k, j], axis=k), name="out")
    return te.create_prim_func([band, x, out])


def depthwise(size=5):
    """Windows in each channel: rows of the result share all but the first row of them."""
    x, w = te.placeholder((4, 32, 64), name="x"), te.placeholder((4, size, size), name="w")
    d, e = te.reduce_axis(size, "d"), te.reduce_axis(size, "e")
    out = te.compute(
        (4, 32 - size + 1, 64 - size + 1),
        lambda c, i, j: te.sum(x[c, i + d, j + e] * w[c, d, e], axis=[d, e]),
        name="out",
    )
    return te.create_prim_func([x, w, out])


FORMS = {"banded": banded, "depthwise": depthwise, "convolution": lambda: conv(1, 4, 16, 16, 8)}


def written(func, rows, flat, vectors=1):
    """The contraction, and the plan of a tile of so many rows of the axis before the lanes."""
    sch = Schedule(func)
    inline_stages(sch)
    (group,) = (g for g in find_groups(sch) if sch.state.block(g.block).is_reduction)
    c = find_contraction(sch, group.block, group.epilogue, group.padding)
    lane = c.spatial[-1]
    tile = [1] * len(c.spatial)
    tile[lane], tile[lane - 1] = 16 * vectors, rows
    whole = tuple(c.axes[n].extent for n in c.spatial)
    return c, NestPlan(lane, 16, tuple(tile), whole, c.reduced, c.spatial, flat=flat)


def loads(c, plan, operand, room):
    """What one vector of a tile loads of an operand, in order, with so many registers of which the
    one that was not used for longest is given away."""
    outside, inside = plan.around_rows(c)
    order = (*outside, *(n for n in c.spatial if n != plan.lane), *inside)
    extents = [plan.tile[n] if n in c.spatial else c.axes[n].extent for n in order]
    held, count = OrderedDict(), 0
    for at in product(*map(range, extents)):
        values = dict(zip(order, at))
        place = tuple(
            sum((step or 0) * values.get(n, 0) for n, step in enumerate(row))
            for row in c.operands[operand].dims
        )
        count += place not in held
        held[place] = None
        held.move_to_end(place)
        while len(held) > room:
            held.popitem(last=False)
    return count


def _nests(c, plan):
    estimate = Estimate(c, CPU)
    return _Nests(estimate, sizes_of(estimate, [plan]))


@pytest.mark.parametrize("flat", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_loads_are_those_of_registers_that_keep_what_was_used_last(form, flat):
    for rows in (1, 2, 3, 6):
        c, plan = written(FORMS[form](), rows, flat)
        nests = _nests(c, plan)
        for operand in range(len(c.operands)):
            for room in (0, 1, 3, 8, 20, 1000):
                found, once = nests.loaded(operand, nests.tile, np.array([float(room)]))
                assert once[0] == loads(c, plan, operand, 1000)
                least, most = (loads(c, plan, operand, n) for n in (room, room // 2))
                assert least <= found[0] <= most, (rows, operand, room)


def test_sums_wait_for_each_other_as_far_as_operations_can_wait_for_them():
    """Of long sums, rows one after the other wait for nearly all of their terms; side by side, for
    those of one sum. So a tile of them takes longer, though it does the same."""
    for terms in (3, 9, 33):
        c, plan = written(banded(terms), 4, "rows")
        alone, together, shifted = (
            float(_nests(c, each).chains(np.array([4.0]), np.array([2.0]))[0])
            for each in (varied(plan, flat="single"), plan, varied(plan, flat="shifts"))
        )
        chain = terms * CPU.costs.latency
        assert together <= chain and alone == shifted
        assert alone == 4 * chain / max(1.0, WAITING / (2 * terms))
        estimate = Estimate(c, CPU)
        one, other = estimate.arithmetic([varied(plan, flat="single"), plan])
        assert other < one if terms == 33 else other <= 1.1 * one
