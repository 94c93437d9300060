"""The sets of rows by name."""

from __future__ import annotations

from benchmarks.peers.invented import INVENTED_QUICK, INVENTED_ROWS
from benchmarks.peers.operator_rows import FEW, OPERATORS
from benchmarks.peers.rows import MAIN, OTHER, QUICK

SETS = {
    "main": MAIN,
    "other": OTHER,
    "operators": OPERATORS,
    "invented": INVENTED_ROWS,
    "quick": (*QUICK, *FEW, *INVENTED_QUICK),
}
