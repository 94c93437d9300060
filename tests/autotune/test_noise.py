"""What is concluded from noisy times: intervals, races, who is in them. No clock is looked at."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.cost_model.ceiling import ceiling
from autotune.noise.finalists import MOST, finalists, most_finalists
from autotune.noise.gain import Gain, Outcome
from autotune.noise.race import ALIKE, EARLY, LATER, LIMIT_S, WITHIN, Race, first_look
from autotune.noise.signed_rank import interval
from autotune.noise.spread import LEAST, USUAL, pooled_spread
from autotune.noise.visits import Visit
from tests.autotune.made_noise import NoisyMachine


@pytest.mark.parametrize("count", [1, 2, 5, 10, 17, 40])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_interval_is_that_of_wilcoxons_test(count, confidence):
    """What is just inside of it is not rejected, and what is just outside is."""
    from scipy import stats  # which takes a second to import

    data = np.random.default_rng(count).normal(0.3, 1, count)
    found = interval(data, confidence)
    possible = 2 * 0.5**count <= 1 - confidence
    assert math.isinf(found.low) == math.isinf(found.high) == (not possible)
    if possible:
        assert found.low <= found.estimate <= found.high
        for edge, outward in ((found.low, -1e-9), (found.high, 1e-9)):
            inside = stats.wilcoxon(data - edge + outward, method="exact").pvalue
            outside = stats.wilcoxon(data - edge - outward, method="exact").pvalue
            assert min(inside, outside) <= 1 - confidence < max(inside, outside)


def test_the_interval_bears_anything():
    assert math.isnan(interval(np.array([]), 0.95).estimate)
    assert interval(np.array([np.nan, np.inf]), 0.95).high == math.inf
    same = interval(np.zeros(12), 0.95)
    assert (same.estimate, same.low, same.high) == (0, 0, 0)
    spoiled = np.concatenate([np.full(18, 0.1), [50.0, -50.0]])
    assert interval(spoiled, 0.95).estimate == pytest.approx(0.1)
    assert interval(spoiled, 0.95).high < 1


def test_the_spread_between_visits():
    rng = np.random.default_rng(0)
    times = [t * np.exp(rng.normal(0, 0.04, 4)) for t in rng.uniform(1e-4, 1e-2, 30)]
    assert pooled_spread(times) == pytest.approx(0.04, rel=0.3)
    drifted = [t * (50 if at == 3 else 1) for at, t in enumerate(times)]
    assert pooled_spread(drifted) == pytest.approx(pooled_spread(times))
    assert pooled_spread([]) == pooled_spread([[1.0], [2.0]]) == USUAL
    assert pooled_spread([[1.0, 1.0]] * 9) == LEAST


def visits(times, **more):
    return [Visit(t, **more) for t in times]


def test_the_finalists_are_those_that_cannot_be_told_apart_from_the_best():
    clear = [visits(t) for t in ([1.0] * 5, [1.01] * 5, [1.5] * 5, [2.0])]
    assert finalists(clear) == [0, 1]
    assert finalists([visits([1.5]), visits([1.0])]) == [1]
    assert finalists([]) == []
    assert len(finalists([visits([1.0])] * 100)) == MOST
    blurred = [visits([t, t * 1.2, t * 0.9, t * 1.1]) for t in (1.0, 1.05, 1.1, 1.15, 4.0)]
    assert set(finalists(blurred)) >= {0, 1, 2} and 4 not in finalists(blurred)


def test_who_was_always_disturbed_may_be_the_fastest():
    unlucky = [visits([1.0] * 5), visits([2.0, 2.1], canary=2.0), visits([2.0, 2.1])]
    assert finalists(unlucky) == [0, 1]
    assert finalists([*unlucky, visits([0.9]) + visits([9.0] * 4, canary=3.0)])[0] == 3


@pytest.mark.parametrize("quiet", [0, 1, 3, 20])
@pytest.mark.parametrize("unlucky", [0, 1, 3, 20])
def test_what_a_slow_canary_promises_keeps_nobody_out(quiet, unlucky):
    """It was twice as slow, the kernels beside it by a tenth: divided by that, they seem to be the
    fastest by far."""
    trials = [*[visits([1.0 + n / 1000]) for n in range(quiet)],
              *[visits([1.1 + n / 1000], canary=2.0) for n in range(unlucky)]]  # fmt: skip
    found = finalists(trials)
    assert len(found) == min(MOST, quiet + unlucky)
    certain = [at for at in found if at < quiet]
    assert certain == list(range(len(certain))) and len(certain) >= min(quiet, MOST // 2)
    assert len(found) - len(certain) >= min(unlucky, MOST // 2)


def raced(times, seed, default=0, **noise) -> Race:
    race, machine = Race(len(times), default), NoisyMachine(seed, **noise)
    while race.wanted:
        race.add(machine.rounds([times[at] for at in race.running], race.wanted))
    return race


def winner(race: Race) -> int:
    return next(at for at, outcome in enumerate(race.outcomes()) if outcome.won)


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("default", [0, 5])
def test_the_default_is_never_lost_to_a_slower_one(quiet, default):
    """Sixty races under drift, bursts and outliers, against copies, slower ones and far slower."""
    noise = {"drift": 0.01, "load": 0.0} if quiet else {}
    others = [1e-3, 1e-3 * 1.003, 1e-3 * 1.01, 1e-3 * 1.03, 2e-3]
    times = [*others[:default], 1e-3 * 0.9999, *others[default:]]
    races = [raced(times, seed, default, **noise) for seed in range(60)]
    assert not [seed for seed, race in enumerate(races) if winner(race) != default]
    lucky = [np.argmin(np.nanmedian(race.times, axis=0)) for race in races]
    assert sum(at != default for at in lucky) > 10  # so it is no easy thing


def test_what_is_faster_wins_under_noise():
    times = [1e-3 * x for x in (1, 0.85, 0.87, 1.0, 1.1, 0.99, 1.3)]
    races = [raced(times, seed) for seed in range(60)]
    won = [times[winner(race)] for race in races]
    assert won.count(times[1]) >= 55 and max(won) <= times[2]
    gains = [race.outcomes()[winner(race)].gain for race in races]
    true = [times[0] / t - 1 for t in won]
    assert all(g.low <= t <= g.high for g, t in zip(gains, true))  # all 60, of 95 %


@pytest.mark.parametrize("gain", [0.0, ALIKE, 0.03])
@pytest.mark.parametrize("own", [0.003, 0.03])
def test_the_error_is_what_is_stated_wherever_a_race_ends(gain, own):
    """One in twenty races may be wrong: lose the default to a slower one, or tell a range that
    the truth is not in. Fewer are, since each pair and each look has its part of that."""
    rng, wrong = np.random.default_rng(0), 0
    logs = np.array([0.0, 0.01, -gain, -gain / 2, 0.001])
    for _ in range(100):
        race = Race(len(logs), 0)
        while race.wanted:
            rows = rng.normal(logs[race.running], own, (race.wanted, len(race.running)))
            race.add(1e-3 * np.exp(rows))
        won = winner(race)
        outcome, faster = race.outcomes()[won], math.exp(-logs[won]) - 1
        told = outcome.gain.low <= faster <= outcome.gain.high
        wrong += not (outcome.missed >= math.expm1(gain) if won == 0 else told and faster > 0)
    assert wrong <= 5


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_load_that_slows_one_kernel_more_than_another_decides_nothing(share):
    """As one does that takes one of two processors: threads wait for one another there."""
    rng, race = np.random.default_rng(0), Race(3, 0)
    while race.wanted:
        busy = rng.random(race.wanted) < share
        times = np.array([1e-3, 1.2e-3, 1.3e-3])[race.running] * np.exp(
            rng.normal(0, 0.01, (len(busy), len(race.running)))
        )
        times[busy, 0] *= 3
        race.add(times, list(busy))
    assert winner(race) == 0 and race.is_undecided == (share == 1.0)
    assert share < 1.0 or len(race.times) == first_look(3)  # and nobody waits for the others
    said = str(race.outcomes()[0])
    assert said.startswith("no verdict" if share == 1.0 else "no faster schedule found (all others")


def test_slow_kernels_are_not_raced_for_ever():
    race = Race(3, 0)
    while race.wanted:
        race.add(np.full((race.wanted, 3), 1.0))
    assert len(race.times) == first_look(3)
    for seconds in (1e-6, 1e-3, 0.02, 0.1, 0.4, 0.6, 1.0, 2.0, 9.0):
        many = most_finalists(seconds) + 1
        round_s = many * seconds
        race = Race(many, 0, round_s=round_s)
        rounds = race._looks[0]
        assert rounds * round_s <= max(LIMIT_S, 12 * seconds) + 1e-9
        assert (rounds == first_look(many)) == (seconds <= 1.0)
        rows = np.full((rounds, many), seconds)
        rows[:, 1] *= 0.9
        race.add(rows * np.exp(np.random.default_rng(0).normal(0, 1e-3, rows.shape)))
        assert winner(race) == 1 or not race.is_undecided and race.wanted


def test_a_race_ends_as_soon_as_it_is_decided():
    clear = raced([1e-3, 0.5e-3, 3e-3, 4e-3], 0)
    assert len(clear.times) <= LATER[0] and clear.running == [0, 1]
    copies = raced([1e-3] * 4, 0, own=0.0005, drift=0.0, load=0.0)
    assert len(copies.times) <= LATER[0] and winner(copies) == 0
    alone = raced([1e-3], 0)
    assert len(alone.times) == first_look(1)
    assert winner(alone) == 0 and not alone.outcomes()[0].missed


@pytest.mark.parametrize("finalists", [1, 2, 5, 9, 17, 60])
def test_the_first_look_is_the_first_that_can_decide_anything(finalists):
    """One that is slower in all rounds is out then, and with a round less nothing would be said,
    where the spread is so large that nobody is far behind."""
    race, early = Race(finalists, default=0), Race(finalists, default=0)
    count = race._looks[0]
    assert count == first_look(finalists) and race.wanted == (EARLY if finalists > 1 else count)
    times = np.ones((count, finalists))
    times[:, 1:] = 1.01 * np.exp(10 * np.random.default_rng(0).random((count, finalists - 1)) ** 6)
    early.add(times[:-1])
    race.add(times)
    assert race.running == [0] and early.running == list(range(finalists))
    assert early.outcomes()[0].missed == (math.inf if finalists > 1 else 0.0)


def test_who_is_far_behind_is_left_out_early_and_nobody_wins_early():
    """What 20 % less tells from the others in four rounds is no verdict yet."""
    race = Race(4, 0)
    rows = np.array([1.0, 0.8, 0.85, 0.81]) * np.exp(
        np.random.default_rng(0).normal(0, 0.005, (race.wanted, 4))
    )
    race.add(rows)
    assert len(race.times) == EARLY and race.running == [0, 1, 3] and winner(race) == 0
    assert race.wanted == first_look(4) - EARLY
    alike = Race(4, 0)
    alike.add(np.array([1.0, 1.0, 1.0 - 0.9 * ALIKE, 1.0]) * np.ones((EARLY, 4)))
    assert alike.running == [0, 1, 2, 3]
    busy = Race(4, 0)
    busy.add(rows, [False, True, False, False])
    assert busy.running == [0, 1, 2, 3]
    slow = Race(3, 0)
    slow.add(np.array([1.0, 2.0, 3.0]) * np.ones((EARLY, 3)))
    assert slow.running == [0] and not slow.wanted and winner(slow) == 0


@pytest.mark.parametrize("lead", [0.0, 0.001, 0.015])
def test_rounds_that_would_not_decide_are_not_raced(lead):
    """A small lead is looked at further where it can become certain, and the default is kept at
    once where it cannot, unless others might be much faster."""
    ended = [raced([1e-3, 1e-3 * (1 - lead)], s, own=0.012, drift=0, load=0) for s in range(20)]
    early = sum(len(race.times) < LATER[0] for race in ended)
    assert early >= 15 if lead < 0.01 else early <= 10
    assert all(
        winner(race) == 1 or race.outcomes()[0].missed <= WITHIN or len(race.times) == LATER[-1]
        for race in ended
    )


def test_no_interval_is_found_twice(monkeypatch):
    """A look and the outcomes ask for the same pairs again and again."""
    asked = []

    def counted(differences, confidence):
        asked.append((differences.tobytes(), confidence))
        return interval(differences, confidence)

    monkeypatch.setattr("autotune.noise.race.interval", counted)
    race = raced([1e-3 * x for x in (1, 0.97, 1.01, 0.98, 1.05)], 0)
    race.outcomes()
    assert len(asked) == len(set(asked)) > 4


def test_who_is_out_is_not_timed_and_the_default_always_is():
    race = raced([2e-3, 1e-3, 1.01e-3, 9e-3], 3, default=3)
    assert 3 in race.running and np.isfinite(race.times[:, 3]).all()
    assert all(np.isnan(race.times[-1, at]) == (at not in race.running) for at in range(3))


def test_who_is_not_among_the_better_half_is_set_aside_and_told_of():
    """Sixteen that nobody can tell apart take little more than half of what all would in all
    rounds, and the default is within what those set aside may have been."""
    race = raced([1e-3] * 16, 0, drift=0.01, load=0.0)
    assert winner(race) == 0 and len(race.times) >= LATER[0] > first_look(16)
    assert np.isfinite(race.times).sum() < 0.5 * LATER[-1] * 16
    gains = [outcome.gain for outcome in race.outcomes()]
    assert all(gain.high < math.inf for gain in gains)
    assert race.outcomes()[0].missed == max(gain.high for gain in gains[1:]) > 0


def test_what_is_said_of_an_outcome():
    certain = Gain(0.12, 0.09, 0.15, 0.95)
    assert str(certain) == "12 % [9, 15]" and certain.is_certain
    assert str(Gain(0.011, 0.005, 0.02, 0.95)) == "1.1 % [0.5, 2.0]"
    assert str(Outcome(True, False, certain)) == (
        "12 % [9, 15] faster than the default (95% confidence)"
    )
    kept = Outcome(True, True, Gain(0, 0, 0, 0.95), 0.021)
    assert str(kept) == (
        "no faster schedule found (the default is within 2.1 % of the best, 95% confidence)"
    )
    alone = Outcome(True, True, Gain(0, 0, 0, 0.95))
    assert "all others are slower than the default" in str(alone)
    for outcome in (kept, Outcome(False, False, Gain(0.1, -math.inf, math.inf, 0.95))):
        assert Outcome.from_json(outcome.to_json()) == outcome
    assert Outcome.from_json({"won": 1}) is None


def test_the_ceiling_is_how_well_visits_agree():
    true = np.geomspace(1e-3, 2e-3, 20)
    rng = np.random.default_rng(0)
    for spread, least, most in ((0.0, 1.0, 1.0), (0.05, 0.8, 0.95), (2.0, 0.3, 0.7)):
        visits = [list(t * np.exp(rng.normal(0, spread, 3))) for t in true]
        found = ceiling(visits, list(true))
        assert least <= found.noise.pairwise <= most and found.noise.samples == 20
        assert found.model.pairwise >= found.noise.pairwise - 0.1  # it knows the truth
    alone = ceiling([[1.0], [2.0, 2.1]], [None, None])
    assert alone.noise.samples == 1 and str(alone) == ""
    assert str(ceiling([[1.0, 1.0], [2.0, 2.0]], [None, 3.0])) == (
        "2 trials visited twice: pairs ordered alike 100%, rank correlation 1.00"
    )
    assert "; by the model pairs ordered alike 0%" in str(
        ceiling([[1.0, 1.0], [2.0, 2.0]], [4.0, 3.0])
    )
