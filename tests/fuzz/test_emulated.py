"""Random schedules run by the threads of the emulator, watched; and what they would show."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import emulated  # noqa: E402

from tensorir import Sync, walk  # noqa: E402
from tensorir.passes.rewriting import NOTHING, replace_stmts, with_body  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::backends.gpu.limits.OneThread")


def test_seeds_have_no_findings(cache):
    found = dict(emulated.findings(range(9000, 9030), cache=cache))
    assert len(found) > 25
    assert {seed: wrong for seed, wrong in found.items() if wrong} == {}


def test_schedules_for_gpus_alone(monkeypatch, capsys):
    """What is not drawn, not compiled or wrong is a finding, with its seed; the others go on."""
    monkeypatch.setattr(emulated, "TOGETHER", 2)
    drawn, text = emulated.program, emulated.cuda_text

    def program(seed):
        if seed == 9004:
            raise AssertionError("it cannot be drawn")
        return drawn(seed)

    def cuda_text(func, *others):
        made = text(func, *others)
        broken = "seed_9006_" in made.source
        return dataclasses.replace(made, source=made.source + "no_type x;") if broken else made

    monkeypatch.setattr(emulated, "program", program)
    monkeypatch.setattr(emulated, "cuda_text", cuda_text)
    assert emulated.main(["--gpu", "--seed", "9001", "--count", "5"]) == 1
    said = capsys.readouterr().out
    assert re.findall(r"FINDING seed (\d+)", said) == ["9004", "9006"]
    assert "AssertionError: it cannot be drawn" in said and "no_type" in said
    assert "5 programs on the emulator" in said and "2 findings; the last seed is 9010" in said


def test_programs_without_their_barriers_are_found(monkeypatch, cache):
    """Of the barriers that lowering leaves, none may go."""

    def lower(func, target):
        made = original(func, target)
        syncs = [s for s in walk(made.body) if isinstance(s, Sync)]
        removed.append(len(syncs))
        return with_body(made, replace_stmts(made.body, dict.fromkeys(syncs, NOTHING)))

    original, removed = emulated.lower, []
    monkeypatch.setattr(emulated, "lower", lower)
    found = dict(emulated.findings(range(9000, 9060, 2), cache=cache))
    needed = [seed for seed, count in zip(found, removed, strict=True) if count]
    assert len(needed) > 5
    wrong = [seed for seed, text in found.items() if text]
    assert set(wrong) <= set(needed)
    assert len(wrong) >= len(needed) * 0.8, "barriers are kept that no run needs"
