"""The policy: what each of its ingredients does, on trials that are made up."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import partial
from statistics import geometric_mean

import numpy as np
import pytest

from autotune.choices import Categorical
from autotune.cost_model import make_cost_model
from autotune.cost_model.make import REGRESSORS
from autotune.cost_model.model import ResidualModel
from autotune.search import Evolution, SearchState, evolutionary
from autotune.search.batch import Batch
from autotune.search.failures import Failures
from autotune.search.hints import FIRST, expected, next_hints
from autotune.search.policy import DEFAULT, Policy, propose
from autotune.search.pool import UNLIKELY
from autotune.search.state import Hint
from autotune.search.trust import trust
from autotune.simulate import simulate
from autotune.space import Candidate, Sketch, Space
from tests.autotune.test_simulate import made

QUICK = replace(DEFAULT, builds=64)
SIZES = Categorical("i", tuple(range(40))), Categorical("j", tuple(range(6)))
SPACE = Space([Sketch(name, SIZES, dict) for name in ("one", "other", "third")])


class Told(Sketch):
    """A sketch whose formula takes i for the cycles."""

    def cycles(self, rows):
        return np.array([1.0 + i for i, _ in rows])


class Guess:
    """A model: the draft says j, what it learned says i (or the opposite of it)."""

    notice = None

    def __init__(self, sign: int = 1) -> None:
        self.sign = sign

    def fit(self, features, seconds):
        pass

    def predict(self, features, learned=1.0):
        i, j = np.asarray(features, dtype=float).T
        return np.exp(learned * self.sign * i / 10 + (1 - learned) * j)


def state_of(model, trials=()):
    """A state that has tried these, each foreseen by the model."""
    extract = lambda values: np.array([values["i"], values["j"]], dtype=np.float32)  # noqa: E731
    state = SearchState(model, extract)
    for candidate, seconds in trials:
        state.features(SPACE, candidate)
        state.add(candidate, seconds, predicted=state.predicted([candidate])[0])
    return state


def trials(count, seconds):
    rng = random.Random(1)
    chosen = dict.fromkeys(SPACE.sample(rng, "one") for _ in range(3 * count))
    return [(c, seconds(*c.values)) for c in list(chosen)[:count]]


def test_the_model_counts_as_far_as_it_beat_the_draft_before_measuring():
    by_i = trials(16, lambda i, j: 1.0 + i)
    by_j = trials(16, lambda i, j: 1.0 + j)
    assert trust(SPACE, state_of(Guess(), by_i)).share == 1
    worse = trust(SPACE, state_of(Guess(-1), by_i))
    assert worse.share == 0 and worse.model < worse.draft
    assert trust(SPACE, state_of(Guess(), by_j)).share == 0
    few = trust(SPACE, state_of(Guess(), by_i[:7]))
    assert (few.samples, few.share) == (7, 0.5)
    equal = trust(SPACE, state_of(Guess(), trials(16, lambda i, j: 1.0)))
    assert equal.share == 0.5  # equal times say nothing of an order
    text = str(trust(SPACE, state_of(Guess(), by_i)))
    assert text.startswith("model 1.00, draft ") and text.endswith("the model counts 100%")


def test_only_predictions_made_before_measuring_count():
    state = state_of(Guess())
    for candidate, seconds in trials(16, lambda i, j: 1.0 + i):
        state.add(candidate, seconds)
    assert trust(SPACE, state).samples == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_what_the_model_is_worth_decides_what_is_proposed(sign):
    state = state_of(Guess(sign), trials(24, lambda i, j: 1.0 + i))
    shares = {"trusted": 1.0 if sign == 1 else 0.0, "always": 1.0, "never": 0.0}
    for model, share in shares.items():
        settings = Policy(builds=64, model=model, descent=0, failures=False)
        found = propose(SPACE, state, 4, random.Random(0), settings)
        rows = np.stack([state.features(SPACE, c) for c in found])
        expected = Guess(sign).predict(rows, share)
        assert max(expected) < (np.exp(1.5) if share else np.exp(2.5))


def test_nothing_is_explored_that_is_expected_to_take_ten_times_the_best():
    state = state_of(Guess(), trials(24, lambda i, j: 1.0 + i))
    blind = Evolution(builds=64, explore=1.0)
    found = evolutionary.propose(SPACE, state, 8, random.Random(0), blind)
    expected = state.predicted(found)
    assert len(found) == 8 and max(expected) <= UNLIKELY * state.best_seconds()
    assert np.median(expected) > 2 * min(state.predicted([*state.measured]))  # drawn blindly


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_no_sketch_gets_more_than_half_of_a_batch_where_others_are_not_hopeless(taken):
    """Those that were taken before count."""
    expected = {Candidate("one", (n, 0)): 1.0 + n / 100 for n in range(20)}
    expected |= {Candidate("other", (n, 0)): 1.8 + n / 100 for n in range(3)}
    expected |= {Candidate("third", (n, 0)): 2.2 + n / 100 for n in range(3)}
    batch = Batch(state_of(Guess()), expected, 8, failures=False)
    batch.take([Candidate("one", (19 - n, 0)) for n in range(taken)], taken)
    batch.fill()
    wanted = Counter(one=5, other=3)  # of the other one there are no more
    assert Counter(c.sketch for c in batch.chosen) == wanted
    assert [c.values[0] for c in batch.chosen[taken:] if c.sketch == "other"] == [0, 1, 2]


def test_failures_put_back_what_has_their_values():
    good = [(Candidate("one", (n, n % 5)), 1.0) for n in range(8)]
    assert Failures(state_of(Guess(), good)).chance(Candidate("one", (0, 5))) == 0
    bad = [(Candidate("one", (10 + n, 5)), None) for n in range(8)]
    known = Failures(state_of(Guess(), good + bad))
    risky, sound = known.chance(Candidate("one", (30, 5))), known.chance(Candidate("one", (30, 0)))
    assert sound < 0.6 < 0.8 < risky < 1
    state = state_of(Guess(-1), good + bad)
    expected = {Candidate("one", (30, j)): 1.0 for j in (0, 5)}
    batch = Batch(state, expected, 2, failures=True)
    batch.fill()
    assert [c.values[1] for c in batch.chosen] == [0, 5]
    assert Batch(state, expected, 2, failures=False).scores == expected


def test_hints_come_first_that_are_not_far_from_the_best_here():
    """What was best elsewhere may be hopeless: `likely` says so of it as of what is explored."""
    state = state_of(Guess())
    good, far = [Candidate("other", (9, 1)), Candidate("third", (7, 1))], Candidate("one", (39, 5))
    state.hints = dict.fromkeys([far, *good], Hint())
    found = propose(SPACE, state, 4, random.Random(0), QUICK)
    assert found[:2] == good and far not in found
    state.hints = {far: Hint()}
    state.defaults = [Candidate("one", (38, 5))]  # where nothing that is known is likely, all is
    assert propose(SPACE, state, 4, random.Random(0), QUICK)[:2] == [*state.defaults, far]
    state.defaults, state.hints = [], dict.fromkeys(good, Hint())
    blind = propose(SPACE, state, 4, random.Random(0), replace(QUICK, hints=False))
    assert not set(good) & set(blind)


HINTS = dict.fromkeys((Candidate("third", (n, 2)) for n in range(8, 18)), Hint("", 0.85))


@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("tried", [0, 9])
def test_few_hints_are_tried_before_it_is_known_whether_they_are_good(count, tried):
    """However many there are: where they say nothing, a search is so many trials late at most."""
    state = state_of(Guess(), trials(tried, lambda i, j: 1.0 + i))
    state.defaults = [Candidate("one", (0, 0))]
    assert state.defaults[0] not in state.measured
    without = propose(SPACE, state, count, random.Random(0), QUICK)
    state.hints = HINTS  # likely, and not the best here
    found = propose(SPACE, state, count, random.Random(0), QUICK)
    assert found[0] == without[0] == state.defaults[0] and not set(HINTS) & set(without)
    most = min(FIRST, count // 2)
    assert found[1 : 1 + most] == list(HINTS)[:most] and len(found) == count
    assert not set(HINTS) & set(found[1 + most :])


@pytest.mark.parametrize(
    ("times", "wanted"),
    [((0.8, 0.9), 4), ((1.8, 0.7), 0), ((None, 0.9), 4), ((1.05, 1.2), 0), ((), 2)],
)
def test_hints_go_on_while_they_are_expected_to_beat_what_needs_no_tuning(times, wanted):
    """The others wait for the model to say that they are good; failures are no good either."""
    default = Candidate("one", (0, 0))
    state = state_of(Guess(), [(default, 1.0), *zip(HINTS, times)])
    state.defaults, state.hints = [default], HINTS
    assert len(next_hints(state, HINTS, 8)) == wanted
    state.hints = {default: Hint(), **HINTS}
    assert len(next_hints(state, state.hints, 8)) == wanted, "the default itself says nothing"


def test_hints_of_other_sketches_are_compared_with_what_these_begin_with_here():
    """Whichever was the best elsewhere: another one may be so here."""
    usual = [Candidate(name, (0, 0)) for name in ("one", "other")]
    good = {Candidate("one", (n, 1)): Hint("", 0.8) for n in range(6)}
    good |= {Candidate("other", (n, 1)): Hint("", 0.8 + n / 100, usual[1]) for n in range(3)}
    seconds = zip([*usual, *good], (1.0, 0.7, 0.9, 0.9))
    state = state_of(Guess(), seconds)
    state.defaults, state.hints = usual, good
    assert next_hints(state, good, 8) == [Candidate("other", (n, 1)) for n in range(3)]
    assert expected(state, Candidate("other", (1, 1))) == pytest.approx(0.7 * 0.81)
    assert expected(state, Candidate("one", (5, 1))) == pytest.approx(0.9), "as two were"
    busy = {c: Hint("", 1e-3) for c in good if c.sketch == "one"}  # its default was timed there so
    state.hints = busy
    assert expected(state, Candidate("one", (5, 1))) == pytest.approx(0.9)
    late = Hint("", 1.2, usual[1])
    state.hints = {**good, Candidate("other", (9, 1)): late}
    assert Candidate("other", (9, 1)) not in next_hints(state, state.hints, 8)


def test_the_policy_beats_chance_on_what_was_recorded():
    """One of the choices decides much and is in no feature: a part is luck, so in many searches."""
    recordings = [made(count=600, seed=seed, failing=0.2) for seed in range(8)]

    def regret(strategy):
        runs = [simulate(r, strategy, 24, seed) for r in recordings for seed in range(3)]
        return geometric_mean(run.regret() for run in runs)

    policy = partial(propose, settings=Policy(builds=128))  # as many as searches look at
    assert regret(policy) - 1 < 0.8 * (regret("random") - 1)


class Misled:
    """Learns, and then says thrice the opposite."""

    def __init__(self, seed):
        self.learned = REGRESSORS["gaussian"][1](seed)

    def fit(self, rows, targets, weights):
        self.learned.fit(rows, -3 * targets, weights)

    def predict(self, rows):
        return self.learned.predict(rows)


def test_a_model_that_misleads_is_not_followed(monkeypatch):
    """As one of a user may: with our own the trust in it makes no difference."""
    misled = lambda kind, seed, draft: ResidualModel(kind, Misled, seed, draft)  # noqa: E731
    monkeypatch.setattr("autotune.simulate.replay.make_cost_model", misled)
    recordings = [made(count=600, seed=seed, failing=0.0) for seed in range(4)]

    def regret(model):
        strategy = partial(propose, settings=Policy(builds=128, model=model))
        runs = [simulate(r, strategy, 24, seed) for r in recordings for seed in range(4)]
        return geometric_mean(run.regret(n) for run in runs for n in (16, 24))

    assert regret("trusted") < 0.98 * regret("always")


@pytest.mark.parametrize("at", [0, 2])
def test_what_fails_always_is_tried_seldom(at):
    """Such as a vector length or a place that a compiler cannot do: models learn of times alone."""

    def failing(recording):
        value = recording.fastest(range(recording.visits)).candidate.values[at]
        entries = [
            replace(e, status="runtime_error", visits=()) if e.candidate.values[at] == value else e
            for e in recording.entries
        ]
        default = next(e.candidate for e in entries if e.status == "ok")
        return replace(recording, entries=entries, defaults=(default,))

    recordings = [failing(made(count=400, seed=seed, failing=0.0)) for seed in range(4)]

    def failed(learn):
        strategy = partial(propose, settings=Policy(builds=128, failures=learn))
        runs = [simulate(r, strategy, 32, seed) for r in recordings for seed in range(2)]
        return sum(run.seen.count(None) for run in runs)

    assert failed(True) < 0.6 * failed(False)


def test_the_same_model_for_the_same_trials_after_a_search_was_ended():
    """What was foreseen is in the records: trust is the same in a search that goes on."""
    state = state_of(make_cost_model("random"), trials(20, lambda i, j: 1.0 + i))
    again = state_of(make_cost_model("random"))
    for candidate, seconds in state.measured.items():
        again.add(candidate, seconds, predicted=state.foreseen[candidate])
    assert trust(SPACE, again) == trust(SPACE, state)
    one, other = (propose(SPACE, s, 8, random.Random(3), QUICK) for s in (state, again))
    assert one == other


@pytest.mark.parametrize("unit", [1.0, 1e-9])
def test_formulas_and_the_draft_count_alike_whatever_their_units_are(unit):
    space = Space([Told("told", SIZES, dict), Sketch("other", SIZES, dict)])
    tried = [Candidate("told", (i, 0)) for i in range(12)]
    state = state_of(make_cost_model(draft=lambda rows: unit * (1.0 + rows[:, 1])))
    for turn in range(2):  # before the first trial, and when the draft is scaled to times
        some = [Candidate("told", (i, j)) for i, j in ((39, 0), (0, 0), (0, 5))]
        assert all(state.features(space, c) is not None for c in some)
        by_formula, least, by_draft = state.expected(some, learned=0.0)
        assert by_formula / least == pytest.approx(40**0.5), turn
        assert by_draft / least == pytest.approx(6**0.5)
        for candidate in tried:
            state.add(candidate, 1e-3 * (1 + candidate.values[0]) ** 0.5)
        state.fit(space)
    other = Candidate("other", (9, 0))  # no formula: in the middle of the trials
    state.features(space, other)
    assert 1e-3 < state.expected([other], learned=0.0)[0] < 4e-3


def test_what_formulas_put_first_gets_slots_whatever_draft_and_model_say():
    space = Space([Told("told", SIZES, dict), Sketch("other", SIZES, dict)])
    known = [(Candidate("other", (i, j)), 1.0 + j) for i in range(4) for j in range(6)]
    for share, firsts in ((0.0, []), (0.5, [0])):
        state = state_of(Guess())
        state.model.predict = lambda rows, learned=1.0: np.exp(-rows[:, 0])  # not its order
        for candidate, seconds in known:
            state.add(candidate, seconds)
        settings = Policy(builds=256, descent=0, failures=False, formulas=share)
        found = propose(space, state, 8, random.Random(0), settings)
        assert [c.values[0] for c in found if c.sketch == "told"] == firsts
