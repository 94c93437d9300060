"""A search that was ended at any moment and begun again tries what it would have tried."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.tuning import batches

sys.path.insert(0, str(Path(__file__).parent))
import fuzz  # noqa: E402
import killed_searches  # noqa: E402
from killed_searches import Case, Ended, Run, check, same_end  # noqa: E402


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_seeds_have_no_findings(seed):
    row = killed_searches.check_seed(seed)
    assert row["finding"] is None, fuzz.show_finding(row["finding"])


def case_of(*runs):
    case = Case(0)
    case.func, case.strategy, case.cost_model = killed_searches.products(), "evolutionary", "auto"
    case.batch, case.trials, case.failing, case.before = 3, 7, 0.3, []
    case.runs = list(runs)
    return case


@pytest.fixture(scope="module")
def never_ended():
    return killed_searches.whole(case_of())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("after", (0, 1, 3, 5, 7))
def test_ended_after_some_trials(after, never_ended):
    """Before the first, inside of batches of three and between them, and after the last."""
    check(case_of(Run(7, "killed", after), Run(7, "killed in the race")), never_ended)


def test_ended_among_the_larger_batches():
    """Batches of one, and of two once there are four trials."""

    def case(*runs):
        made = case_of(*runs)
        made.batch, made.trials = 1, 13
        return made

    assert [batches.batch_size(known) for known in (0, 31, 32, 256)] == [8, 8, 16, 16]
    whole = killed_searches.whole(case())
    for after in (9, 10, 11):
        check(case(Run(13, "killed", after)), whole)


def test_a_search_that_begins_a_batch_anew_is_found(never_ended, monkeypatch):
    monkeypatch.setattr(batches, "split_open", lambda records, seed, rules: (records, []))
    monkeypatch.setattr("autotune.tuning.session.split_open", batches.split_open)
    with pytest.raises(AssertionError):
        check(case_of(Run(7, "killed", 4)), never_ended)


def test_only_answers_that_were_told_before_may_be_in_the_race_besides():
    expected = Ended([], frozenset("ab"), ["a"], frozenset())
    told = Ended([], frozenset("abc"), ["a"], frozenset("c"))
    same_end(told, expected, [])
    for wrong in (
        replace(told, earlier=frozenset()),
        replace(told, raced=frozenset("abcd")),
        replace(told, answer=["c"]),
        replace(told, raced=frozenset("a")),
    ):
        with pytest.raises(AssertionError):
            same_end(wrong, expected, [])
