"""What was best for one size begins the search of another."""

from __future__ import annotations

import random
from itertools import islice, permutations

import numpy as np
import pytest

from autotune import Database
from autotune.choices import Categorical, ImperfectTile, PerfectTile
from autotune.database.records import Verdict
from autotune.measure import MeasureResult
from autotune.noise.gain import Gain, Outcome
from autotune.rules import make_space
from autotune.search.policy import Policy, propose
from autotune.search.transfer import LESS, _least, adapted
from autotune.space import Candidate, Sketch, Space
from autotune.tuning import transfer
from autotune.tuning.options import Options
from autotune.tuning.replay import candidate_of
from autotune.tuning.session import start_session
from autotune.tuning.transfer import hints, told
from backends import resolve
from benchmarks.tuner.workloads import FAMILIES, NEIGHBOURS
from tensorir import device_of, te


def space_of(extent, *, options=("a", "b"), feasible=lambda decisions: True):
    tiles = PerfectTile("i", extent, 3), ImperfectTile("j", extent, 3, (8, 16))
    return Space([Sketch("s", (*tiles, Categorical("c", options)), dict, feasible)])


@pytest.mark.parametrize("extent", [64, 96, 512, 1000, 7, 1])
def test_inner_factors_are_kept_and_the_outermost_makes_up_the_rest(extent):
    best = Candidate("s", ((8, 4, 4), (4, 16), "b"))
    found = adapted(space_of(extent), best)
    assert found is not None and space_of(extent).contains(found)
    i, j, c = found.values
    assert c == "b" and i[0] * i[1] * i[2] == extent
    if extent % 16 == 0:
        assert i[1:] == (4, 4)
    if extent >= 64:
        assert j[1] == 16 and j[0] in (3, 4)


def test_what_this_space_has_is_taken_as_it_is():
    best = Candidate("s", ((8, 4, 4), (4, 16), "b"))
    assert adapted(space_of(128), best) == best


def test_what_is_not_alike_is_no_hint():
    best = Candidate("s", ((8, 4, 4), (4, 16), "b"))
    assert adapted(space_of(64), Candidate("other", best.values)) is None
    assert adapted(space_of(64), Candidate("s", best.values[:2])) is None
    assert adapted(space_of(64, feasible=lambda decisions: False), best) is None
    other = adapted(space_of(64, options=("x", "y")), best)
    assert other is not None and other.values[2] in ("x", "y")
    odd = adapted(space_of(64), Candidate("s", ("eight", None, 3)))
    assert odd is None or space_of(64).contains(odd)


TILES = (1, 16, (9, 48), ""), (1, 16, (6, 64), ""), (0, 16, (5, 64), ""), (1, 16, (5, 64), "rows")


@pytest.mark.parametrize("tiles", list(permutations(TILES)))
def test_of_options_the_one_of_the_nearest_sizes_is_taken(tiles):
    """Wherever it stands among them: what differs and is no size is far away."""
    tasks = Categorical("task", ((64, 1), (16, 6), (43, 4)))
    space = Space([Sketch("s", (Categorical("tile", tiles), tasks), dict)])
    found = adapted(space, Candidate("s", ((1, 16, (5, 64), ""), (20, 8))))
    assert found is not None and found.values == ((1, 16, (6, 64), ""), (16, 6))


class Padded(Sketch):
    """Its formula is the extent that tiles cover, however they are read."""

    def cycles(self, rows):
        extent = self.build({})
        sizes = [tile[1] * task[0] for tile, task, _ in rows]
        return np.array([float(-(-extent // size) * size) for size in sizes])


def padded(extent, *tiles):
    """A space of these tiles, tasks of two or three of them, and two orders."""
    found = Categorical("tile", tiles or ((1, 48, "rows"), (1, 60, "rows"), (1, 64, "rows")))
    others = Categorical("task", ((2,), (3,))), Categorical("order", ((0, 1), (1, 0)))
    return Space([Padded("s", (found, *others), lambda decisions: extent)])


def test_sizes_that_fit_badly_here_are_changed_to_near_ones():
    """By the formula, unless they were as bad where they are from."""
    best = Candidate("s", ((1, 48, "rows"), (2,), (1, 0)))
    better = Candidate("s", ((1, 60, "rows"), (2,), (1, 0)))
    assert adapted(padded(192), best) == best
    assert adapted(padded(240), best) == better, "240 in place of 288; the order stays"
    for there, found in ((padded(96), better), (padded(120), best), (None, better)):
        assert adapted(padded(240), best, there=lambda there=there: there) == found
    alike = padded(1000, (1, 48, "rows"), (1, 50, "rows"))
    assert adapted(alike, best) == best, "less by a twentieth says nothing"
    other = padded(240, (1, 48, "rows"), (1, 60, "columns"))
    assert adapted(other, best) == best, "more than sizes would be another"


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_best_by_the_formula_is_so_among_its_near_ones_here_too(name):
    """Of all families of operators, of all their sketches with formulas: where a candidate has no
    near one that is faster by more than a tenth, what it becomes in another size has none."""
    device = device_of(resolve("c -march=haswell -threads=2"))
    there, here = (make_space(FAMILIES[name](**s), device) for s in (NEIGHBOURS[name], {}))
    rng, compared = random.Random(name), 0
    for sketch in there.sketches.values():
        if not sketch.choices or sketch.name not in here.sketches:
            continue
        choices = [choice.name for choice in sketch.choices]
        for candidate in (there.sample(rng, sketch.name) for _ in range(4)):
            before, _ = _least(sketch, candidate.values)
            found = adapted(here, candidate, choices, there=lambda: there)
            if found is not None:
                assert here.contains(found)
                after, _ = _least(here.sketches[sketch.name], found.values)
                assert after <= LESS * before
                compared += 1
    assert compared > 2


def products(n):
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis(n, name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="products")


def session_of(n, db):
    return start_session(products(n), "c", db, 0, Options(numerics="mixed", cost_model="random"))


def test_records_of_another_size_begin_the_search():
    with Database(":memory:") as db:
        small = session_of(64, db)
        assert hints(small) == {}
        rng = random.Random(3)
        drawn = (small.space.sample(rng) for _ in range(50))
        good = (c for c in drawn if c.sketch != "untouched")  # others are likely to be faster
        candidates = list(islice(good, 5))
        for at, candidate in enumerate([small.default, *candidates]):
            seconds = 1e-3 * (at or 2.5)
            result = MeasureResult("ok", "", (seconds,), seconds, Verdict(True, 0.0, 1e-5))
            db.add(small.record(candidate, small.space.build(candidate), result, None))
            small.remember(db.records()[-1])
        large = session_of(128, db)
        large.state.hints = hints(large)
        found = list(large.state.hints)
        assert found[0] == adapted(large.space, candidates[0]) and 1 <= len(found) <= 4
        told = [(hint.place, round(hint.ratio, 3)) for hint in large.state.hints.values()]
        assert told[0] == ("products 64x64, 64x64, 64x64", 0.4) and len({*told}) == len(told)
        quick = Policy(builds=16)
        first = propose(large.space, large.state, 8, random.Random(0), quick)
        wanted = [c for c in found if large.state.features(large.space, c) is not None]
        assert wanted[0] in first  # others, which are drawn, may be too far from good to be tried


def conv_session(size, db):
    """A convolution, for which there are several algorithms."""
    return start_session(
        FAMILIES["conv2d"](size=size), "c -threads=1", db, 0, Options(cost_model="random")
    )


def small_default(session, candidate):
    return next(c for c in session.state.defaults if c.sketch == candidate.sketch)


def race_of(small, *gains, busy=0.0):
    """Trials of the default and of others, and a race of theirs: a gain may be twice as large, and
    none if it is above 0."""
    rng, raced = random.Random(3), []
    for at, gain in enumerate((0.0, *gains)):
        candidate = small.default if at == 0 else small.space.sample(rng)
        seconds, made = 1e-3 / (1 + gain), small.space.build(candidate)
        result = MeasureResult("ok", "", (seconds,), seconds, Verdict(True, 0.0, 1e-5))
        small.database.add(small.record(candidate, made, result, None))
        small.remember(small.database.records()[-1])
        told = Gain(gain, min(gain, 0.0), 2 * gain, 0.95)
        race = Outcome(gain == max(0.0, *gains), at == 0, told, busy=busy)
        raced.append(small.record(candidate, made, result, None, race=race))
    small.database.add_many(raced)


def test_what_was_slower_than_the_default_is_no_hint():
    """By a race between the default and two others, of which the first may be faster."""

    def found(*gains):
        with Database(":memory:") as db:
            race_of(session_of(64, db), *gains)
            return len(hints(session_of(128, db)))

    assert [found(0.5, 0.2), found(0.5, -0.2), found(-0.1, -0.2)] == [2, 1, 0]


def test_of_several_sizes_the_best_of_each_come_first():
    """And no more of all than leave room in the first batch for what is drafted here."""
    with Database(":memory:") as db:
        sizes = (64, 96, 256)
        for n in sizes:
            race_of(session_of(n, db), *(0.5 - 0.01 * at for at in range(5)))
        session = session_of(128, db)
        places = transfer._places(session, (), shipped=False)
        ranks = [rank for place in places for rank, *_ in place.promising()]
        assert max(ranks) == transfer.EACH - 1 and ranks.count(0) == len(sizes)
        assert 2 < len(hints(session)) <= transfer.MOST < 8


def test_sizes_where_the_default_won_leave_their_turn_to_others():
    """However many are nearer."""
    with Database(":memory:") as db:
        for n in (120, 96, 160, 144):
            race_of(session_of(n, db), -0.1)
        race_of(session_of(32, db), 0.5)
        assert {hint.place for hint in hints(session_of(128, db)).values()} == {
            "products 32x32, 32x32, 32x32"
        }


def test_of_sketches_that_have_defaults_the_best_of_each_are_hints():
    """Whether they were the best there or not: how they compare with what they began with there."""
    with Database(":memory:") as db:
        small, large = (conv_session(n, db) for n in (12, 16))
        first, *others = small.state.defaults
        assert len(others) > 2
        rng = random.Random(1)
        tried = {c: 1e-3 * (2 + at) for at, c in enumerate(small.state.defaults)}
        drawn = {o.sketch: small.space.sample(rng, o.sketch) for o in others}
        better = [c for c in drawn.values() if c not in tried]
        tried |= {c: 0.75 * tried[small_default(small, c)] for c in better}
        for candidate, seconds in tried.items():
            result = MeasureResult("ok", "", (seconds,), seconds, Verdict(True, 0.0, 1e-5))
            db.add(small.record(candidate, small.space.build(candidate), result, None))
            small.remember(db.records()[-1])
        found = hints(large)
        told = {h.usual.sketch: h.ratio for h in found.values() if h.usual}
        assert told and set(told) <= {c.sketch for c in better} and first.sketch not in told
        assert all(ratio == pytest.approx(0.75) for ratio in told.values())
        assert all(h.usual in large.state.defaults for h in found.values() if h.usual)


def test_a_race_without_a_verdict_is_none():
    """Its trials tell who was faster than the default, by less."""
    with Database(":memory:") as db:
        race_of(session_of(64, db), 0.5, 0.2, busy=0.9)
        assert len(hints(session_of(128, db))) == 2


@pytest.mark.parametrize("busy", [0.0, 0.9])
def test_what_is_best_by_luck_alone_may_be_as_bad_nowhere(busy, monkeypatch):
    """Sizes that fit badly are kept where a race has told that they were good there."""
    spaces = []

    def asked(space, candidate, choices, constants, there):
        spaces.append(there())
        return candidate

    monkeypatch.setattr(transfer, "adapted", asked)
    with Database(":memory:") as db:
        race_of(session_of(64, db), 0.5, 0.2, busy=busy)
        assert len(hints(session_of(128, db))) == 2
        assert [found is None for found in spaces] == [busy > 0] * 2
        assert busy or spaces[0] is spaces[1], "made once"


def test_choices_that_only_some_sizes_have_are_no_obstacle():
    """What was not decided there needs no tuning here, and what is not decided here is left out."""

    class Planned(Sketch):
        def values(self, constants=()):
            return {"more": "usual", "c": "b"}

    tile, more = PerfectTile("i", 64, 3), Categorical("more", ("other", "usual"))
    here = Space([Planned("s", (more, tile, Categorical("c", ("a", "b"))), dict)])
    other = Candidate("s", ((8, 4, 4), "a", (1, 2)))
    assert adapted(here, other, ("i", "c", "less")) == Candidate("s", ("usual", (4, 4, 4), "a"))
    assert adapted(here, other, ("i", "d", "less")) == Candidate("s", ("usual", (4, 4, 4), "b"))
    assert adapted(here, other, ("j", "c", "less")) is None, "no value that needs no tuning"
    assert adapted(here, other, ("i", "c")) is None, "values of other choices"


@pytest.mark.parametrize("sizes", [(64, 512), (512, 64)])
def test_hints_have_the_choices_of_their_space(sizes):
    """Spaces of small and of large products have others: whether panels are asked for ahead."""
    with Database(":memory:") as db:
        small, large = (session_of(n, db) for n in sizes)
        best = small.default
        names = [[c.name for c in s.space.sketches[best.sketch].choices] for s in (small, large)]
        assert names[0] != names[1]
        result = MeasureResult("ok", "", (1e-4,), 1e-4, Verdict(True, 0.0, 1e-5))
        race = Outcome(True, False, Gain(9.0, 9.0, 9.0, 0.95))
        db.add(small.record(best, small.space.build(best), result, None, race))
        (found,) = hints(large)
        assert found.sketch == best.sketch and large.space.contains(found)


def test_records_that_name_no_choices_are_taken_as_they_are_or_the_user_is_told():
    """Earlier versions stored values alone: with as many choices they are what they were."""
    told = []
    for fewer in (0, 1):
        with Database(":memory:") as db:
            race_of(session_of(64, db), 0.5)
            old = [
                r.with_(choices=(), decisions=r.decisions[fewer if r.is_final else 0 :])
                for r in db.records()
            ]
            with Database(":memory:") as earlier:
                earlier.add_many(old)
                session = session_of(128, earlier)
                told.append((len(hints(session)), session.notice))
    assert told[0] == (1, "")
    count, notice = told[1]
    assert count == 0 and "1 of the best records name no choices" in notice


@pytest.mark.parametrize("differs", ["machine", "target"])
def test_what_was_best_on_another_machine_begins_a_search_and_is_no_result(differs):
    """Of the very same program, by a race there: nothing is known here before it was tried."""
    with Database(":memory:") as elsewhere, Database(":memory:") as db:
        race_of(session_of(64, elsewhere), 0.5, 0.2)
        far = {"machine_key": "far", "machine": {**session_of(64, db).machine.to_json(), "isa": []}}
        changes = far if differs == "machine" else {"target": "c -march=x86-64"}
        db.add_many(r.with_(**changes) for r in elsewhere.records())
        session = session_of(64, db)
        assert session.stored == 0 and session.stored_best() is None and session.answer() is None
        session.state.hints = hints(session)
        best = candidate_of(next(r for r in elsewhere.records() if r.race and r.race["won"]))
        assert next(iter(session.state.hints)) == best
        named = "isa" if differs == "machine" else "target"
        assert told(session).endswith(f"64x64; another {named}: 0 of 2 tried")
        for at, candidate in enumerate((session.default, best)):
            session.state.add(candidate, 1.0 + at)
        worth = ": 1 of 2 tried, the best of them took 2.00 x the fastest trial"
        assert told(session).endswith(worth)
        result = MeasureResult("ok", "", (1.0,), 1.0, Verdict(True, 0.0, 1e-5))
        race = Outcome(True, False, Gain(9.0, 9.0, 9.0, 0.95))
        record = session.record(best, session.space.build(best), result, None, race=race)
        assert record.settings["hints"] == told(session), "for the report"
