"""How tests measure that ask for no times."""

from autotune.measure import MeasureSettings

BRIEF = MeasureSettings(min_ms=0.1, repeats=2, build_jobs=1, prune_factor=1e9)
"""Briefly, and whatever else the machine does: what runs is "ok", and nothing is ever "pruned"."""
