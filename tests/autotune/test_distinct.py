"""What counts is the program: ways to the same one are one trial, stored once and raced once."""

from __future__ import annotations

import random
from functools import partial

import pytest

from autotune import Database, tune
from autotune.cost_model import make_cost_model
from autotune.database.records import Record
from autotune.measure import MeasureResult
from autotune.measure.scoring import scheduled_program, wanted_features
from autotune.rules import default_candidates
from autotune.search import STRATEGIES, Evolution, SearchState, evolutionary, search_named
from autotune.space import Candidate, Space
from autotune.tuning.options import Options
from autotune.tuning.race import final_race
from autotune.tuning.session import Session, start_session
from schedule import Schedule
from tensorir import TensorIRError, parse, program_key, te
from tests.autotune.distinct_spaces import PROGRAMS, TARGET, key, lowered, space_of, walked
from tests.brief import BRIEF
from tests.pretended import Pretended

TRIALS = 24
"""Enough that most strategies would try some program of these spaces twice."""

FEW = Evolution(builds=16)


def searched(space: Space, strategy: str, trials: int) -> list[Candidate]:
    """The trials of a search whose times are drawn."""
    state = SearchState(
        make_cost_model("random", 0), wanted_features(TARGET, (), "reassociated"),
        defaults=default_candidates(space), identify=scheduled_program,
    )  # fmt: skip
    few = partial(evolutionary.propose, settings=FEW)
    propose = few if strategy == "evolutionary" else search_named(strategy)
    while len(state.measured) < trials:
        rng = random.Random(len(state.measured))
        batch = propose(space, state, 8, rng)
        if not batch:
            break
        for candidate in batch:
            state.add(candidate, 1e-3 * (1 + rng.random()))
    return list(state.measured)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_equal_keys_are_equal_code(name):
    known: dict[str, list[Schedule]] = {}
    for schedule in walked(space_of(name), 10, seed=1):
        known.setdefault(key(schedule), []).append(schedule)
    twins = [some for some in known.values() if len(some) > 1][:2]
    alone = [some for some in known.values() if len(some) == 1][:4]
    assert len(twins) + len(alone) > 2
    for first, *_, last in twins:
        assert lowered(first) == lowered(last)
    found = {lowered(first) for first, *_ in twins + alone}
    # Where vectors end beyond the data, lowering alone tells that the rest never runs.
    assert len(found) == len(twins) + len(alone) or name == "blur"


@pytest.mark.parametrize(
    "name, strategy",
    [(name, "evolutionary") for name in ("product", "distances", "banded", "blur")]
    + [("banded", strategy) for strategy in STRATEGIES if strategy != "evolutionary"],
)
def test_no_program_is_tried_twice(name, strategy):
    space = space_of(name)
    programs = [scheduled_program(space.build(c)) for c in searched(space, strategy, TRIALS)]
    assert len(set(programs)) == len(programs) >= TRIALS


def scale(name: str = "C", loop: str = "i", extent: int = 8) -> Schedule:
    a = te.placeholder((extent, 4), name="A")
    c = te.compute((extent, 4), lambda i, j: a[i, j] * 2.0, name=name)
    return Schedule(te.create_prim_func([a, c], name=f"f{name}"))


def test_names_and_loops_of_one_iteration_are_no_difference():
    plain, split, unit = scale(), scale("D"), scale()
    split.split(split.get_loops("D")[0], [1, 8])
    unit.add_unit_loop("C")
    unit.unroll(unit.add_unit_loop(unit.get_loops("C")[0]))
    assert key(plain) == key(split) == key(unit)
    assert key(plain) == program_key(parse(str(plain.func)))


def test_what_lowering_reads_is_a_difference():
    made = {key(scale()), key(scale(extent=9))}
    for call in (
        lambda s, i, j: s.vectorize(j),
        lambda s, i, j: s.parallel(i),
        lambda s, i, j: s.reorder(j, i),
        lambda s, i, j: s.split(i, [2, 4]),
        lambda s, i, j: s.split(i, [4, 2]),
        lambda s, i, j: s.unroll(i),
        lambda s, i, j: (s.parallel(i), s.annotate(i, "schedule", "dynamic,4")),
        lambda s, i, j: s.prefetch("C", "A", i, 1),
        lambda s, i, j: s.prefetch("C", "A", j, 1),
        lambda s, i, j: s.prefetch("C", "A", i, 2),
    ):
        schedule = scale()
        call(schedule, *schedule.get_loops("C"))
        made.add(key(schedule))
    assert len(made) == 12


def test_names_in_annotations_are_places():
    """A request that speaks of a loop and a buffer is the same one under other names."""
    text = str(asked("C").func)
    assert key(asked("C")) == key(asked("D"))
    renamed = text.replace("i_", "row_").replace('"A"', '"B"').replace("A[", "B[")
    renamed = renamed.replace("A:", "B:")
    assert '"A"' in text and program_key(parse(renamed)) == key(asked("C"))


def asked(name: str) -> Schedule:
    schedule = scale(name, extent=64)
    i, _ = schedule.get_loops(name)
    _, inner = schedule.split(i, [8, 8])
    schedule.prefetch(name, "A", inner, 1)
    return schedule


class TestRecords:
    """Trials of one program are one in a session, and in the race at its end."""

    def session(self, database: Database) -> Session:
        func = PROGRAMS["product"]()
        how = Options(numerics="reassociated", settings=BRIEF)
        return start_session(func, "c", database, 0, how)

    def stored(self, database: Database, **changes: object) -> tuple[Session, list[Record]]:
        """A database with the default and another way to it, and what `changes` say of both."""
        session = self.session(database)
        default = session.state.defaults[0]
        program = scheduled_program(session.space.build(default))
        rng = random.Random(0)
        while True:
            other = session.space.mutate(default, rng)
            if self.made(session, other) == program:
                break
        times = MeasureResult("ok", "", (1e-3,), 1e-3, source_hash="s")
        records = [
            session.record(c, session.space.build(c), times, None).with_(**changes)
            for c in (other, default)
        ]
        database.add_many(records)
        return self.session(database), records

    @staticmethod
    def made(session: Session, candidate: Candidate) -> str:
        try:
            return scheduled_program(session.space.build(candidate))
        except TensorIRError:
            return ""

    def test_count_once(self):
        for changes in ({}, {"program": ""}):
            with Database(":memory:") as database:
                session, records = self.stored(database, **changes)
                assert records[0].decisions != records[1].decisions
                assert session.trials == 1
                assert ("program" in records[0].to_json()) == (not changes)

    def test_copies_of_a_program_do_not_race(self):
        with Database(":memory:") as database:
            session, records = self.stored(database)
            session._current = {record.id: True for record in records}
            final_race(session, Pretended(session.func, str(session.target)))
            raced = [record for record in database.records() if record.is_final]
            assert [record.decisions for record in raced] == [records[1].decisions]

    def test_earlier_records_are_built_again_where_a_search_goes_on(self):
        with Database(":memory:") as database:
            session, _ = self.stored(database, program="")
            state, space = session.state, session.space
            batch = search_named("random")(space, state, 8, random.Random(0))
            assert scheduled_program(space.build(session.state.defaults[0])) not in [
                scheduled_program(space.build(candidate)) for candidate in batch
            ]


def test_code_that_only_lowering_tells_to_be_the_same_is_one_trial(monkeypatch):
    """Vectors of 64 and 128 lanes are the same for 58 elements: that is known when it is built."""
    monkeypatch.setattr("autotune.tuning.search.Measurer", Pretended)
    with Database(":memory:") as database:
        result = tune(
            PROGRAMS["blur"](),
            strategy="random",
            trials=16,
            database=database,
            progress=False,
        )
        records = [record for record in database.records() if not record.is_final]
    codes = [record.source_hash for record in records if record.is_trial]
    again = [record for record in records if record.status == "repeated"]
    assert again and all(r.source_hash in codes and r.median is None for r in again)
    assert len(set(codes)) == len(codes) == result.trials == len(result.history)
    assert "repeated" not in result.statuses
    assert len({record.program for record in records}) == len(records)
