"""The estimated time of a tiled product: that of the thread with the most to do."""

from __future__ import annotations

import dataclasses

import pytest

from autotune.rules.tile_model import TileModel, best_tile, splits

WIDE = TileModel(
    rows=100, columns=90, terms=64, repeats=1, lanes=16, registers=32, threads=2, kept_bytes=1 << 19
)
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
WIDTHS = (16, 32, 48, 64, 96)


def simulated(model: TileModel, steps: int, r: int, width: int) -> float:
    """Every task by itself, dealt out to the threads in order."""
    tiles = [min(r, model.rows - i) for i in range(0, model.rows, r)]
    blocks = [tiles[i : i + steps] for i in range(0, len(tiles), steps)]
    panels = [min(width, model.columns - j) for j in range(0, model.columns, width)]
    resident = [4 * len(b) * r * model.terms <= model.kept_bytes for b in blocks]
    times = []
    for block, kept in [*zip(blocks, resident)] * model.repeats:
        for columns in panels:
            c = -(-columns // model.lanes)
            near = model.columns * model.terms * 4 <= model.kept_bytes
            lines = 0 if near else c * model.lanes * model.terms * 4 / 64
            copies = 2.0 * c * model.terms if model.packed else 0
            times.append(sum(model.tile_cycles(rows, c, kept) for rows in block) + lines + copies)
    share, more = divmod(len(times), model.threads)
    busiest, at = 0.0, 0
    for thread in range(model.threads):
        count = share + (thread < more)
        busiest, at = max(busiest, sum(times[at : at + count])), at + count
    return busiest


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("steps, r, width", [(1, 6, 64), (5, 6, 64), (17, 6, 32), (4, 7, 16)])
def test_the_closed_form_is_the_sum_of_the_tasks(
    threads: int, steps: int, r: int, width: int
) -> None:
    for change in ({}, {"repeats": 3}, {"rows": 1}, {"columns": 1}, {"kept_bytes": 512}):
        model = dataclasses.replace(WIDE, threads=threads, packed=bool(change), **change)
        assert model.cycles(steps, r, width) == pytest.approx(simulated(model, steps, r, width))


@pytest.mark.parametrize("size", [(256, 256), (777, 1025), (1000, 1000), (100, 100), (31, 33)])
def test_threads_get_equal_shares(size: tuple[int, int]) -> None:
    rows, columns = size
    model = dataclasses.replace(WIDE, rows=rows, columns=columns, terms=256)
    alone = dataclasses.replace(model, threads=1)
    steps, r, width = best_tile(model, ROWS, WIDTHS)
    assert model.fits(r, width // 16)
    assert model.cycles(steps, r, width) <= 0.57 * alone.cycles(*best_tile(alone, ROWS, WIDTHS))


def test_a_tile_is_found_where_none_fits() -> None:
    few = dataclasses.replace(WIDE, registers=2)
    assert best_tile(few, (4, 8), (32, 64))[1:] == (4, 32)


def test_splits_deal_out_all_tiles() -> None:
    for tiles in (1, 2, 7, 43):
        counts = [-(-tiles // n) for n in splits(tiles, 3)]
        assert counts[0] == 1 and all(count <= 12 for count in counts)


def test_rows_that_share_a_set_of_the_cache_make_low_tiles() -> None:
    narrow = dataclasses.replace(WIDE, rows=1024, columns=10, terms=1024, ways=12)
    assert best_tile(narrow, ROWS, (10,))[1] == 16
    apart = dataclasses.replace(narrow, row_bytes=4096 + 64)
    assert best_tile(apart, ROWS, (10,))[1] == 16
    for row_bytes in (4096, 8192):
        shared = dataclasses.replace(narrow, row_bytes=row_bytes)
        assert best_tile(shared, ROWS, (10,))[1] <= 12


def test_short_sums_are_written_along_the_rows_of_the_result() -> None:
    """Rows whole pages apart share a set of the cache: lines written there throw each other out."""
    outer = dataclasses.replace(WIDE, rows=2048, columns=2048, terms=1)
    assert best_tile(outer, ROWS, WIDTHS)[0] == 1
    long = dataclasses.replace(outer, terms=1024)
    assert best_tile(long, ROWS, WIDTHS)[0] > 1
