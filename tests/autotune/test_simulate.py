"""Searches on recorded times: honest, reproducible, and read from files that say what they are."""

from __future__ import annotations

import gzip
import json
import math
import random
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from autotune.choices import Categorical
from autotune.cost_model import draft
from autotune.errors import DatabaseError
from autotune.features.table import COLUMN, FEATURES
from autotune.measure import Measurer
from autotune.noise.finalists import MOST
from autotune.noise.race import Race
from autotune.search import STRATEGIES
from autotune.search.state import Hint
from autotune.simulate import Recorded, Recording, simulate
from autotune.simulate.journal import Journal
from autotune.simulate.recorder import Recorder
from autotune.simulate.replay import dealt
from autotune.simulate.space import RecordedSpace, row_of, space_of
from autotune.space import Candidate, Sketch, Space
from benchmarks.tuner.searches import main as benchmark
from tensorir import TensorIRError, te
from tests.autotune.distinct_spaces import PROGRAMS, key
from tests.brief import BRIEF


def made(count=300, seed=0, visits=3, noise=0.05, failing=0.1):
    """A recording of what never ran: the draft of made up features, times a trend, with noise."""
    rng = np.random.default_rng(seed)
    entries = []
    for values in dict.fromkeys(
        (1 << int(rng.integers(7)), (1 << int(rng.integers(6)), int(rng.integers(1, 9))), flag)
        for flag in ("near", "far") * count
    ):
        if len(entries) == count:
            break
        candidate = Candidate("tiled" if values[2] == "near" else "plain", values)
        if rng.random() < failing / 2:
            entries.append(Recorded(candidate, "refused", "split: too long"))
            continue
        row = np.zeros(len(FEATURES), dtype=np.float32)
        row[COLUMN["flops"]], row[COLUMN["lanes"]], row[COLUMN["reduce_total"]] = 30, 4, 6
        row[COLUMN["vector_use"]] = -abs(math.log2(values[0]) - 4)
        row[COLUMN["accumulators"]] = math.log2(values[1][0])
        if rng.random() < failing / 2:
            entries.append(Recorded(candidate, "wrong_result", "output differs", row))
            continue
        truth = float(draft(row)[0]) * 2 ** (0.3 * values[1][1] - 0.5 * (values[2] == "near"))
        times = truth * np.exp(noise * rng.standard_normal(visits))
        entries.append(Recorded(candidate, "ok", "", row, tuple(map(float, times))))
    default = next(e.candidate for e in entries if e.status == "ok")
    choices = {"tiled": ("vector", "tile", "place"), "plain": ("vector", "tile", "place")}
    return Recording("made", choices, entries, (default,), {"machine": "none"})


MADE = made()


def test_searches_of_a_recording_share_its_space():
    """Who is near whom takes a sixth of a search to find out."""
    space = space_of(MADE)
    simulate(MADE, "descent", 16)
    known = {name: len(places._orders) for name, places in space._places.items()}
    assert sum(known.values()) > 0
    simulate(MADE, "descent", 16)
    assert space_of(MADE) is space
    assert known == {name: len(places._orders) for name, places in space._places.items()}


def test_a_file_says_the_same(tmp_path):
    path = tmp_path / "made.jsonl.gz"
    MADE.write(path)
    first = path.read_bytes()
    read = Recording.read(path)
    read.write(path)
    assert path.read_bytes() == first
    assert [e.candidate for e in read.entries] == [e.candidate for e in MADE.entries]
    for one, other in zip(read.entries, MADE.entries):
        assert (one.status, one.error) == (other.status, other.error)
        assert one.visits == pytest.approx(other.visits, rel=1e-3)
        assert (one.row is None) == (other.row is None)
        assert one.row is None or np.abs(one.row - other.row).max() < 1e-3
    for strategy in ("random", "evolutionary"):
        assert simulate(read, strategy, 16).tried == simulate(MADE, strategy, 16).tried


@pytest.mark.parametrize(
    "pack, content, message",
    [
        (bytes, b"", "is not a recording"),
        (bytes, b"text", "is not a recording"),
        (gzip.compress, b"{}", "is not a recording: 'format'"),
        (gzip.compress, b'{"format": 99}', "of format 99, not 1: record it again"),
        (gzip.compress, b'{"format": 1, "features": ["a"]}', "features of another version"),
    ],
)
def test_other_files_are_refused(tmp_path, pack, content, message):
    path = tmp_path / "other.gz"
    path.write_bytes(pack(content))
    with pytest.raises(DatabaseError, match=message):
        Recording.read(path)
    with pytest.raises(DatabaseError, match="is not a recording"):
        Recording.read(tmp_path / "none.gz")


def test_the_space_answers_with_what_was_recorded_alone():
    space, rng = RecordedSpace(MADE), random.Random(0)
    known = {e.candidate for e in MADE.entries}
    assert space.size() == len(known)
    for _ in range(100):
        a, b = space.sample(rng), space.sample(rng)
        near = space.neighbors(a)
        assert {space.mutate(a, rng), space.crossover(a, b, rng), *near} <= known
        assert a not in near and len(set(near)) == len(near) >= 8
        assert all(c.sketch == a.sketch for c in near)
    places = [p / 500 for p in range(500)]
    assert {Candidate(n, s.at(p)) for n, s in space.sketches.items() for p in places} == known
    with pytest.raises(TensorIRError, match="has no candidate"):
        MADE.entry(Candidate("tiled", (5, (1, 1), "near")))


def test_formulas_of_a_space_are_those_of_its_recorded_sketches():
    """Where choices are the same, or there are others since, which nothing recorded has made; of
    others nothing is told, and nothing of it is in the file."""
    other = sketch_of("plain", ("vector", "tile"))
    for now in (("tile", "vector", "place"), ("since", "tile", "vector", "place", "later")):
        told = sketch_of("delit", now, set(now) - {"tile", "vector", "place"})
        recording = MADE.with_formulas(Space([told, other]))
        space = RecordedSpace(recording)
        for name, sketch in space.sketches.items():
            rows = [e.candidate.values for e in MADE.entries if e.candidate.sketch == name]
            cycles = sketch.cycles(rows)
            assert (cycles is not None) == (name == "tiled")
            if cycles is not None:
                np.testing.assert_array_equal(cycles, [v[0] for v in rows], "in any order")
    assert RecordedSpace(MADE).sketches["tiled"].cycles([]) is None


def sketch_of(name, choices, unmade=()):
    """A sketch whose cycles are its vector; rows make all choices but some."""

    class Told(Sketch):
        def cycles(self, rows):
            for row in rows:
                assert {c for c, value in zip(choices, row) if value is ...} == set(unmade)
            at = choices.index("vector")
            return np.array([float(row[at]) for row in rows])

    return Told(name, tuple(Categorical(what, (1, 2)) for what in choices), lambda values: None)


def test_hints_are_among_the_first_that_are_tried():
    best = min((e for e in MADE.entries if e.seconds), key=lambda e: e.seconds).candidate
    assert best in simulate(MADE, "policy", 8, hints={best: Hint()}).tried
    assert best not in simulate(MADE, "policy", 8).tried


def test_near_is_one_choice_first_and_then_a_small_step():
    known = [(1, 8, "a"), (2, 8, "a"), (64, 8, "a"), (2, 9, "a"), (2, 9, "b"), (4, (8, 1), "a")]
    entries = [Recorded(Candidate("s", values), "ok", "", None, (1.0,)) for values in known]
    space = RecordedSpace(Recording("few", {"s": ("i", "j", "k")}, entries))
    near = [c.values for c in space.neighbors(Candidate("s", known[0]))]
    assert near == [(2, 8, "a"), (64, 8, "a"), (2, 9, "a"), (4, (8, 1), "a"), (2, 9, "b")]


def test_refusals_and_failures_are_those_of_the_recording():
    space = RecordedSpace(MADE)
    for entry in MADE.entries:
        if entry.status == "refused":
            with pytest.raises(TensorIRError, match="split: too long"):
                space.build(entry.candidate)
        else:
            assert row_of(space.build(entry.candidate)) is entry.row
    run = simulate(MADE, "random", 300)
    failed = {e.candidate for e in MADE.entries if e.status == "wrong_result"}
    assert {c for c, s in zip(run.tried, run.seen) if s is None} == failed
    assert run.ended and len(run.tried) == sum(e.status != "refused" for e in MADE.entries)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_the_same_seed_gives_the_same_search(strategy):
    run = simulate(MADE, strategy, 24, 3)
    again = simulate(MADE, strategy, 24, 3)
    assert (again.tried, again.seen) == (run.tried, run.seen)
    assert len(run.tried) == 24 == len(set(run.tried))
    if strategy != "grid":
        assert simulate(MADE, strategy, 24, 4).tried != run.tried


def test_times_are_those_of_one_visit_and_others_judge_the_winner():
    run = simulate(MADE, "random", 40)
    for candidate, seconds in zip(run.tried, run.seen):
        assert seconds is None or seconds in MADE.entry(candidate).visits
    winner = run.winner()
    assert winner is not None and winner.candidate in run.tried
    exact = made(noise=0)
    regrets = [simulate(exact, "random", 60).regret(n) for n in (1, 8, 24, 60)]
    assert regrets == sorted(regrets, reverse=True) and regrets[-1] >= 1


@pytest.mark.parametrize("visits, judging", [(3, 1), (4, 1), (6, 2), (9, 3)])
def test_what_judges_the_winner_has_no_say_before(visits, judging):
    """With other times in the visits that judge, the search is the same."""
    recording = made(visits=visits, noise=0.1)
    shown, kept = dealt(1, recording)
    assert len(kept) == judging and sorted([*shown, *kept]) == list(range(visits))

    def slower(entry, at):
        factors = (1 + entry.candidate.values[0] * (n in at) for n in range(visits))
        return replace(entry, visits=tuple(t * f for t, f in zip(entry.visits, factors)))

    def searched(at):
        entries = [slower(entry, at) for entry in recording.entries]
        run = simulate(replace(recording, entries=entries), "random", 24, 1)
        return run.tried, run.seen, run.winner().candidate

    assert searched(kept) == searched([]) != searched(shown)


@pytest.mark.parametrize("visits", [2, 3, 6])
def test_what_the_best_takes_is_not_what_luck_tells(visits):
    """Of a thousand equal candidates the least median is far too low."""
    rng, row = np.random.default_rng(visits), np.zeros(len(FEATURES), dtype=np.float32)

    def alike(noise):
        times = 1e-3 * np.exp(noise * rng.standard_normal((1000, visits)))
        named = [(Candidate("s", (n,)), tuple(map(float, each))) for n, each in enumerate(times)]
        some = [Recorded(candidate, "ok", "", row, each) for candidate, each in named]
        return Recording("alike", {"s": ("a",)}, some)

    lucky = alike(0.1)
    assert min(e.seconds for e in lucky.entries) < 0.87e-3 < lucky.best_seconds() < 1.2e-3
    assert alike(0).best_seconds() == 1e-3
    once = [replace(e, visits=e.visits[:1]) for e in lucky.entries]
    assert replace(lucky, entries=once).best_seconds() == min(e.seconds for e in once)


def test_without_noise_each_takes_the_least_of_its_times():
    """Whatever the seed, and whoever judges: what is left to find is told by what was tried."""
    quiet = MADE.without_noise()
    for before, after in zip(MADE.entries, quiet.entries, strict=True):
        assert set(after.visits) == ({min(before.visits)} if before.status == "ok" else set())
        assert len(after.visits) == len(before.visits) and after.row is before.row
    run, best = simulate(quiet, "random", 40), min(e.seconds for e in quiet.entries if e.seconds)
    assert run.regret() >= min(s for s in run.seen if s is not None) / best >= 1
    assert quiet.best_seconds() == best


def test_nothing_ran():
    row = np.zeros(len(FEATURES))
    entries = [Recorded(Candidate("s", (n,)), "crash", "dead", row) for n in range(3)]
    dead = Recording("dead", {"s": ("a",)}, entries)
    run = simulate(dead, "random", 8)
    assert run.seen == (None, None, None) and run.ended and run.winner() is None
    assert run.regret() == math.inf
    with pytest.raises(DatabaseError, match="'dead' has no times: run the recorder's phase"):
        dead.best_seconds()


def tied(seconds: float, others: int = 12) -> Recording:
    """The default takes 1 ms, the last candidate so many seconds, all others nearly as long as the
    default."""
    rng, row = np.random.default_rng(0), np.zeros(len(FEATURES), dtype=np.float32)
    truth = [1e-3, *(1e-3 * (1 + 1e-3 * rng.random(others))), seconds]
    noise = np.exp(0.02 * rng.standard_normal((len(truth), 6)))
    entries = [
        Recorded(Candidate("s", (n,)), "ok", "", row, tuple(map(float, t * noise[n])))
        for n, t in enumerate(truth)
    ]
    return Recording("tied", {"s": ("a",)}, entries, (entries[0].candidate,))


def test_the_winner_is_that_of_the_race_of_searches(monkeypatch):
    """The default, unless another one is certainly faster; all that may be take part."""
    fields = []

    def seen(finalists: int, default: int, round_s: float) -> Race:
        fields.append((finalists, default))
        return Race(finalists, default, round_s=round_s)

    monkeypatch.setattr("autotune.simulate.replay.Race", seen)
    for recording, at in ((tied(1.001e-3), 0), (tied(0.7e-3), 13)):
        for seed in range(5):
            run = simulate(recording, "random", 14, seed)
            winner = run.winner()
            assert winner.candidate.values == (at,) and run.winner() is winner
    assert len(fields) == 10 and {default for _, default in fields} == {0}
    assert {many for many, _ in fields} == {2, MOST}  # one that is far ahead races with the default


def test_a_recording_has_each_program_once(tmp_path):
    """Whatever its loops are called, and however many of them have one iteration."""
    recorder, chosen = Recorder(tmp_path, "blur", PROGRAMS["blur"](), 24), {}
    assert list(recorder._drawn(random.Random(0), 24, chosen, compile_them=False)) == list(chosen)
    programs = {key(recorder.space.build(candidate)) for candidate in chosen}
    assert len(chosen) == len(programs) == 24
    other = Candidate("of other rules", ())
    first = [other, *list(chosen)[-2:]]
    again = Recorder(tmp_path, "blur", PROGRAMS["blur"](), 24, also=first)
    wanted = list(islice(again._wanted(), len(again.defaults) + 2))
    assert wanted[-2:] == again.also == first[1:]
    recorder._know(other, [0.0], recorder._told[first[1]])
    assert [recorder.recorded_as(c) for c in first] == [first[1], *first[1:]]


def test_a_journal_forgets_a_line_that_was_cut_off(tmp_path):
    path = tmp_path / "folder" / "journal.jsonl"
    Journal(path).add(a=1)
    Journal(path).add(b=[2.5])
    path.write_text(path.read_text() + '{"c": ')
    again = Journal(path)
    assert again.entries == [{"a": 1}, {"b": [2.5]}]
    again.add(d=None)
    assert Journal(path).entries == [{"a": 1}, {"b": [2.5]}, {"d": None}]


@pytest.fixture
def one_measurer(monkeypatch):
    """Recorders measure by one, whose worker is started once."""
    with ExitStack() as made:

        def once(*given, **options):
            if not kept:
                kept.append(made.enter_context(Measurer(*given, **options)))
            return nullcontext(kept[0])

        kept: list[Measurer] = []
        monkeypatch.setattr("autotune.simulate.recorder.Measurer", once)
        yield


def test_the_recorder_goes_on_where_it_was(one_measurer, tmp_path):
    a = te.placeholder((32, 64), name="A")
    k = te.reduce_axis(64, name="k")
    sums = te.compute((32,), lambda i: te.sum(a[i, k], axis=k), name="B")
    func = te.create_prim_func([a, sums], name="sums")
    with pytest.raises(DatabaseError, match="no candidate of 'sums' is timed"):
        Recorder(tmp_path, "sums", func, 6).recording()
    assert not Recorder(tmp_path, "sums", func, 6).build(seconds=0)
    first = Recorder(tmp_path, "sums", func, 3)
    assert first.build() and first.built == 3
    first.time(0, BRIEF)
    scored = tmp_path / "scored.jsonl"  # an earlier version told programs apart by their texts
    scored.write_text(scored.read_text().replace('"key"', '"program"'))
    more = Recorder(tmp_path, "sums", func, 5)
    assert more._programs == first._programs
    assert more.built == 3 and more.build() and more.built == 5
    whole = Recorder(tmp_path, "sums", func, 5)
    assert list(whole._wanted()) == [], "whatever samples of today's rules would be"
    for visit in (0, 1):
        more.time(visit, BRIEF)
    found = Recorder(tmp_path, "sums", func, 5).recording()
    ran = [e for e in found.entries if e.status == "ok"]
    assert [len(e.visits) for e in ran] == [2] * 5 and found.defaults[0] == ran[0].candidate
    assert len(simulate(found, "descent", 8).tried) == 5
    sources = [p.read_bytes() for p in (tmp_path / "sources").iterdir()]
    assert len(set(sources)) == 5


def test_the_benchmark_compares_all_strategies(tmp_path, capsys):
    assert benchmark(["--recorded", str(tmp_path)]) == 2
    assert "benchmarks.tuner.record makes them" in capsys.readouterr().err
    made(count=60).write(tmp_path / "made.jsonl.gz")
    found = tmp_path / "found.json"
    words = ["--seeds", "2", "--trials", "8", "--jobs", "1", "--no-ablations"]
    assert benchmark(["--recorded", str(tmp_path), *words, "--json", str(found)]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in STRATEGIES)
    data = json.loads(found.read_text())
    assert set(data["strategies"]) == set(STRATEGIES) and data["trials"] == [1, 2, 4, 8]
    regrets = np.array(list(data["strategies"].values()))
    assert regrets.shape == (len(STRATEGIES), 1, 2, 4) and (regrets > 0.8).all()
    quiet = np.array([data["quiet"][name] for name in data["strategies"]])
    assert quiet.shape == regrets.shape and (quiet >= 1).all(), "nobody is lucky"
    assert found.with_suffix(".png").stat().st_size > 5000
