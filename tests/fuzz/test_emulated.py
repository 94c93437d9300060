"""Random schedules run by the threads of the emulator, watched; and what they would show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import emulated  # noqa: E402

from tensorir import Sync, walk  # noqa: E402
from tensorir.passes.rewriting import NOTHING, replace_stmts, with_body  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::backends.gpu.limits.OneThread")


def test_seeds_have_no_findings():
    found = dict(emulated.findings(range(9000, 9080)))
    assert len(found) > 70
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}


def test_programs_without_their_barriers_are_found(monkeypatch):
    """Of the barriers that lowering leaves, none may go."""

    def lower(func, target):
        made = original(func, target)
        syncs = [s for s in walk(made.body) if isinstance(s, Sync)]
        removed.append(len(syncs))
        return with_body(made, replace_stmts(made.body, dict.fromkeys(syncs, NOTHING)))

    original, removed = emulated.lower, []
    monkeypatch.setattr(emulated, "lower", lower)
    found = dict(emulated.findings(range(9000, 9080, 2)))
    needed = [seed for seed, count in zip(found, removed, strict=True) if count]
    assert len(needed) > 5
    wrong = [seed for seed, text in found.items() if text]
    assert set(wrong) <= set(needed)
    assert len(wrong) >= len(needed) * 0.8, "barriers are kept that no run needs"
