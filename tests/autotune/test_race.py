"""What decides between schedules: the verdict of a race, not the lower of two times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune import Database, tune
from autotune.database.conditions import Conditions
from autotune.database.ranking import outcome, ranking
from autotune.database.records import Record, Verdict, Workload
from autotune.examples import make_example
from autotune.measure import MeasureResult
from autotune.measure.busy import Neighbours
from autotune.measure.settings import Rounds
from autotune.noise.gain import Gain, Outcome
from autotune.phases import PHASES
from tests.autotune.made_noise import NoisyMachine
from tests.brief import BRIEF

FUNC = make_example("matmul", {"m": 16, "n": 16, "k": 16})


class Noisy:
    """A measurer that runs nothing: trial n takes `times[n]` on a noisy machine."""

    times: tuple[float, ...] = ()
    seed = 0
    busy = False

    def __init__(self, *args, **options):
        self.neighbours = Neighbours()
        self.machine = NoisyMachine(self.seed)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        return

    def begin(self, *args):
        return

    def features(self, *args):
        return None

    known: dict[str, float] = {}

    def measure(self, programs, incumbent=None, known=(), on_result=None):
        for index, program in enumerate(programs):
            true = self.times[len(self.known) % len(self.times)]
            true = self.known.setdefault(str(program.func), true)
            visits = tuple(self.machine.visit(true) for _ in range(5))
            blocks = tuple(visit.seconds for visit in visits)
            median, verdict = float(np.median(blocks)), Verdict(True, 0.0, 1e-5)
            on_result(index, MeasureResult("ok", "", blocks, median, verdict, visits=visits))

    def race(self, programs, rounds, before):
        true = [self.known[str(program.func)] for program in programs]
        times = self.machine.rounds(true, rounds).T * (3 if self.busy else 1)
        return Rounds(tuple(map(tuple, times)), (self.busy,) * rounds)


@pytest.fixture
def search(monkeypatch):
    """search(times, seed, database): what tune finds where trial n takes times[n]."""
    monkeypatch.setattr("autotune.tuning.search.Measurer", Noisy)
    monkeypatch.setattr("autotune.tuning.session.is_current", lambda *given: True)

    def run(times, seed=0, database=None, trials=8):
        monkeypatch.setattr(Noisy, "times", times)
        monkeypatch.setattr(Noisy, "seed", seed)
        if database is None:
            monkeypatch.setattr(Noisy, "known", {})
        return tune(
            FUNC, trials=trials, database=database, strategy="random", cost_model="random",
            settings=BRIEF, progress=False,
        )  # fmt: skip

    return run


def test_a_tie_goes_to_the_default(search):
    """The default, and seven that are slower by less than anyone can see."""
    times = (1e-3, 1.001e-3, 1.0005e-3, 1.002e-3, 1.001e-3, 1.0005e-3, 1.002e-3, 5e-3)
    lucky = 0
    for seed in range(5):
        with Database(":memory:") as db:
            Noisy.known = {}
            result = search(times, seed, db)
            assert result.outcome.default and result.outcome.won
            assert "no faster schedule found (the default is within" in repr(result)
            finals = [r for r in db.records() if r.is_final]
            lucky += min(finals, key=lambda r: r.median).id != result.record.id
            again = search(times, seed, db)
            assert again.from_database and again.record == result.record
            assert Noisy.known[str(result.schedule.func)] == 1e-3
    assert lucky  # a lower median is what does not count


def test_what_is_faster_is_said_with_its_interval(search):
    result = search((1e-3, 1.2e-3, 0.8e-3, 2e-3, 1.1e-3, 1.3e-3, 1.2e-3, 1.1e-3))
    assert not result.outcome.default and 1.05 < result.interval[0] <= 1.25 <= result.interval[1]
    assert result.interval[0] <= result.speedup <= result.interval[1]
    assert f"{result.outcome.gain} faster than the default (95% confidence)" in repr(result)


def test_the_records_of_a_race_tell_what_the_search_was_spent_in(search):
    with Database(":memory:") as db:
        Noisy.known = {}
        result = search((1e-3, 1.2e-3, 0.8e-3, 2e-3, 1.1e-3, 1.3e-3, 1.2e-3, 1.1e-3), 0, db)
        told = [r.settings["phases"] for r in db.records() if r.is_final]
        assert told and not any("phases" in r.settings for r in db.records() if not r.is_final)
    assert all(set(phases) <= set(PHASES) and phases["race"] >= 0 for phases in told)
    assert told[0]["proposing"] == pytest.approx(result.phases["proposing"], abs=2e-3)


def test_what_this_search_has_made_is_not_lowered_again(search, monkeypatch):
    """Neither to race nor to answer; the next call asks once whether its code is that of today."""
    looked = []

    def is_current(record, *given):
        looked.append(record.is_final)
        return True

    monkeypatch.setattr("autotune.tuning.session.is_current", is_current)
    times = (1e-3, 1.2e-3, 0.8e-3, 2e-3, 1.1e-3, 1.3e-3, 1.2e-3, 1.1e-3)
    with Database(":memory:") as db:
        Noisy.known = {}
        search(times, 0, db)
        assert not looked
        assert search(times, 0, db).from_database and looked == [True]


def test_the_noise_of_a_search_is_told(search):
    times = (1e-3, 1.2e-3, 0.8e-3, 2e-3, 1.1e-3, 1.3e-3, 1.2e-3, 1.1e-3)
    found = search(times).ceiling
    assert found.noise.samples == found.model.samples == 8
    assert 0.5 < found.noise.pairwise < 1.0
    assert str(found).startswith("8 trials visited twice: pairs ordered alike ")


def test_a_race_on_a_busy_machine_keeps_the_default_and_is_held_again(search, monkeypatch):
    """A load slows some kernels down more than others, however often they are timed."""
    times = (1e-3, 1.2e-3, 0.5e-3, 2e-3, 1.1e-3, 1.3e-3, 1.2e-3, 1.1e-3)
    with Database(":memory:") as db:
        Noisy.known = {}
        monkeypatch.setattr(Noisy, "busy", True)
        first = search(times, 0, db)
        assert first.outcome.default and first.outcome.busy == 1.0
        assert first.speedup is None and first.interval is None
        assert "no verdict: other programs disturbed 100% of the race's rounds" in repr(first)
        trials = [r for r in db.records() if not r.is_final and r.trace == first.record.trace]
        assert first.record.times == trials[0].times, "those of the race say nothing"
        monkeypatch.setattr(Noisy, "busy", False)
        second = search(times, 0, db)
        assert second.measured == 0 and not second.outcome.default and second.speedup > 1.5
        assert search(times, 0, db).record == second.record


def test_a_machine_that_is_always_busy_does_not_race_for_ever(search, monkeypatch):
    """Two races without a verdict are enough for the same trials, and the answer stays the same."""
    times = (1e-3, 1.2e-3, 0.5e-3, 2e-3, 1.1e-3, 1.3e-3, 1.2e-3, 1.1e-3, 1.4e-3)
    races = []

    def race(self, programs, rounds, before):
        races.append(before)
        return Noisy.race(self, programs, rounds, before)

    class Counted(Noisy):
        busy = True

    Counted.race = race
    monkeypatch.setattr("autotune.tuning.search.Measurer", Counted)
    with Database(":memory:") as db:
        Noisy.known = {}
        found = [search(times, 0, db) for _ in range(4)]
        assert [before == 0 for before in races].count(True) == 2
        assert len({result.record.id for result in found}) == 1
        assert "1 race without a verdict" in found[0].notice
        assert "one more is held by the next call" in found[0].notice
        for again in found[1:]:
            assert again.outcome.default and again.outcome.busy
            assert "2 races without a verdict" in again.notice
            assert "one more is held with further trials" in again.notice
        Counted.busy = False
        later = search(times, 0, db, trials=9)  # another trial is another race
        assert not later.outcome.default and "verdict" not in later.notice


def test_a_race_without_a_verdict_takes_the_place_of_none(search, monkeypatch):
    times = (1e-3, 1.2e-3, 0.5e-3, 2e-3, 1.1e-3, 1.3e-3, 1.2e-3, 1.1e-3, 1.4e-3)
    with Database(":memory:") as db:
        Noisy.known = {}
        first = search(times, 0, db)
        assert not first.outcome.default
        monkeypatch.setattr(Noisy, "busy", True)
        second = search(times, 0, db, trials=9)
        assert second.measured == 1 and second.record == first.record
        assert "1 race without a verdict" in second.notice


def test_a_later_race_takes_the_place_of_the_one_whose_winner_it_has(search):
    """Times of a better day do not count for ever."""
    with Database(":memory:") as db:
        Noisy.known = {}
        times = (1e-3, 1.2e-3, 0.8e-3, 2e-3, 1.1e-3, 1.3e-3, 1.2e-3, 1.1e-3)
        first = search(times, 0, db)
        Noisy.known = {text: 1.5 * t for text, t in Noisy.known.items()}
        second = search((1.2e-3, 0.9e-3, 1.4e-3), 1, db, trials=16)
        assert second.measured == 8 and second.record.session != first.record.session
        assert second.best_seconds > first.best_seconds
        assert db.best(Workload.of(FUNC), second.target, second.record.machine_key) == second.record
        raced = [r for r in db.records() if r.is_final and r.session == second.record.session]
        assert first.record.trace in [r.trace for r in raced]


def final(session, seconds, trace, race=None, **changes):
    values = {
        "workload": Workload.of(FUNC), "target": "c", "machine_key": "m", "status": "ok",
        "times": (seconds,), "median": seconds, "verdict": Verdict(True, 0.0, 1e-5),
        "conditions": Conditions.here("c"), "session": session, "trace": (trace,),
        "settings": {"final": True}, "race": race,
    }  # fmt: skip
    return Record(**{**values, **changes})


def found(won: bool) -> dict:
    return Outcome(won, False, Gain(0.1, 0.0, 0.2, 0.95)).to_json()


def test_the_ranking():
    alone = final("t", 0.1, "x", settings={})
    a, b = final("a", 1.0, "p", found(False)), final("a", 2.0, "q", found(True))
    assert ranking([alone, a, b]) == [b, a, alone]
    old, slow = final("old", 0.5, "p"), final("old", 3.0, "q")
    assert ranking([old, slow]) == [old, slow]  # earlier versions did not say who won
    assert ranking([old, slow, a, b])[0] == b  # p, who won, took part in the later race
    assert ranking([a, b, old, slow])[0] == old
    apart = final("c", 1.5, "r", found(True))
    assert ranking([a, b, apart])[:2] == [apart, b]  # they never met: by time
    assert ranking([replace(a, verdict=Verdict(), id="", text="")]) == []
    assert outcome(alone) is None and outcome(b).won
    with Database(":memory:") as db:
        db.add_many([alone, a, b])
        assert list(db.ranked(alone.workload, "c", "m")) == [b, a, alone]
        assert db.prune(keep=1) == 2 and db.records() == [b]
