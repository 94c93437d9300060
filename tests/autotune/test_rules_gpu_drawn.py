"""Defaults for GPUs hold their limits for shapes that nobody chose: a sample of those that
`benchmarks/gpu.py --dry-run --drawn N` looks at, and runs besides."""

from __future__ import annotations

from math import prod

import pytest

from autotune.explain import least_transactions
from autotune.gpu.count import works_of
from autotune.gpu.work import under_way
from benchmarks.gpus.counts import default, implied, most_transactions, most_wavefronts
from benchmarks.gpus.drawn import FAMILIES, drawn
from benchmarks.gpus.rows import MEMORY, PRODUCT, Row
from tensorir import Gpu, Target

DEVICE = Gpu(Target.parse("cuda -arch=sm_90a"))

DRAWN = 6 * len(FAMILIES)

MISSED, BEYOND = 6, 1.04
"""Rows of a sample that may ask for more than their limits, and times these that all ask for, in
the geometric mean: a ratchet, lower whenever fewer do."""


def beyond(row: Row) -> float:
    """Times its limits that a row asks for, 1 where they hold."""
    func = row.func()
    sch, _, tiles = default(func)
    works = works_of(sch.func, DEVICE)
    product = row.family is PRODUCT and tiles is not None
    least = implied(tiles) if product else least_transactions(func, {})
    moved = sum(work.sectors for work in works)
    met = max(work.wavefronts / most_wavefronts(work, DEVICE) for work in works)
    return max(1.0, met, moved / most_transactions(row.family, least, DEVICE))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [0, 1])
def test_few_of_what_is_drawn_ask_for_more_than_their_limits(seed):
    times = {row.name: beyond(row) for row in drawn(seed, DRAWN)}
    told = "\n".join(f"{name}: {n:.2f}" for name, n in times.items() if n > 1)
    assert sum(n > 1 for n in times.values()) <= MISSED, told
    assert prod(times.values()) ** (1 / DRAWN) <= BEYOND, told


def test_rows_are_drawn_by_their_seed_and_number():
    names = [row.name for row in drawn(3, DRAWN)]
    assert names == [row.name for row in drawn(3, DRAWN)]
    assert names[:8] == [row.name for row in drawn(3, 8)]
    assert not {*names} & {row.name for row in drawn(4, DRAWN)}


def test_what_is_under_way_at_once_is_no_reason_beyond_it():
    """Ten thousand transactions may be as many as memory has under way; a million may not be more
    than a twentieth above what they are."""
    most = under_way(DEVICE) / Gpu.sector_bytes
    assert 40e3 < most < 50e3
    assert most_transactions(MEMORY, 10e3, DEVICE) == pytest.approx(1.05 * most)
    assert most_transactions(MEMORY, 1e6, DEVICE) == pytest.approx(1.05e6)
