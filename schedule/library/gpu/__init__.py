"""Derived schedules for GPUs, written only with primitives."""

from schedule.library.gpu.blockwise.on_axes import use_on_axes
from schedule.library.gpu.blockwise.online import OnlineRows, online, online_rows
from schedule.library.gpu.boxes import boxes
from schedule.library.gpu.columns import columns
from schedule.library.gpu.elementwise import elementwise, widest
from schedule.library.gpu.filled import copied_bytes, laid_out, values_fetched, ways_apart
from schedule.library.gpu.in_rows.long_rows import long_rows
from schedule.library.gpu.in_rows.rows import Rows, rows
from schedule.library.gpu.in_rows.short_rows import short_rows
from schedule.library.gpu.matmul import matmul
from schedule.library.gpu.memory.fetch import asked_together, room_for_fetched
from schedule.library.gpu.memory.pitches import tile_pitches
from schedule.library.gpu.memory.sectors import before_rows, begins_within, in_sector
from schedule.library.gpu.realigned import realigned
from schedule.library.gpu.recurrences import recurrence
from schedule.library.gpu.same_rows import same_rows
from schedule.library.gpu.scans import scan, states_in_rows
from schedule.library.gpu.scattered import (
    COLUMNS,
    COMBINING,
    chosen_by_data,
    columns_of,
    scattered,
    terms_at_once,
)
from schedule.library.gpu.staged import StagedTile, staged_results
from schedule.library.gpu.steps import in_memory, turned_reads
from schedule.library.gpu.tile_plan import Cut, TilePlan
from schedule.library.gpu.tiles import make_tiles, words
from schedule.library.gpu.transpose import transpose, turned_rows
from schedule.library.gpu.whole import whole
from schedule.library.gpu.windows import shared_reads, windows

__all__ = [
    "COLUMNS",
    "COMBINING",
    "Cut",
    "OnlineRows",
    "Rows",
    "StagedTile",
    "TilePlan",
    "asked_together",
    "before_rows",
    "begins_within",
    "boxes",
    "chosen_by_data",
    "columns",
    "columns_of",
    "copied_bytes",
    "elementwise",
    "in_memory",
    "in_sector",
    "laid_out",
    "long_rows",
    "make_tiles",
    "matmul",
    "online",
    "online_rows",
    "realigned",
    "recurrence",
    "room_for_fetched",
    "rows",
    "same_rows",
    "scan",
    "scattered",
    "shared_reads",
    "short_rows",
    "staged_results",
    "states_in_rows",
    "terms_at_once",
    "tile_pitches",
    "transpose",
    "turned_reads",
    "turned_rows",
    "use_on_axes",
    "values_fetched",
    "ways_apart",
    "whole",
    "widest",
    "windows",
    "words",
]
