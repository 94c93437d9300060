"""The sets of rows by name."""

from __future__ import annotations

from benchmarks.peers.operator_rows import FEW, OPERATORS
from benchmarks.peers.rows import MAIN, OTHER, QUICK

SETS = {"main": MAIN, "other": OTHER, "operators": OPERATORS, "quick": (*QUICK, *FEW)}
