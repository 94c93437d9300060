"""Records that ship with the project: found at once on machines of their kind, and only there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import benchmarks.ship
from autotune import default_schedule, tune
from autotune.cli import main
from autotune.database import shipped
from autotune.database.conditions import Conditions
from autotune.database.database import Database
from autotune.database.jsonl import write_records
from autotune.database.kinds import compiler_release, differences, kind_of
from autotune.database.records import Record, Workload
from autotune.database.shipped import Shipped, all_shipped, shipped_here, shipped_of, trials_of
from autotune.errors import DatabaseError
from autotune.examples import make_example
from autotune.machine.machine import this_machine
from autotune.noise.gain import Gain, Outcome
from autotune.tuning import tuner
from autotune.tuning.options import Options
from autotune.tuning.replay import replayed, source_hash
from autotune.tuning.session import Session, start_session
from autotune.tuning.shipped import shipped_answer
from autotune.tuning.transfer import hints, told
from backends import resolve
from benchmarks.general.renamed import NAMINGS, renamed
from benchmarks.ship import Row, _place, write
from tensorir import PrimFunc, TensorIRError, parse

SIZES = {"m": 16, "n": 16, "k": 16}
FUNC = make_example("matmul", SIZES)
FOLDER = shipped.BESIDE


@pytest.fixture(scope="module")
def won(made_records: Callable[[PrimFunc], list[Record]]) -> Record:
    """The winner of a race after 64 trials."""
    record = made_records(FUNC)[-1]
    made = source_hash(record, replayed(FUNC, record), resolve("c"))
    return record.with_(trial=64, settings={"final": True}, source_hash=made)


@pytest.fixture
def ship(tmp_path, monkeypatch) -> Callable[..., Path]:
    """ship(record, ...) has exactly these records ship."""
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "tuning_logs")

    def write(*records: Record) -> Path:
        shipped.FOLDER.mkdir(exist_ok=True)
        write_records(shipped.FOLDER / "made.jsonl", records)
        return shipped.FOLDER / "made.jsonl"

    return write


@pytest.fixture
def nothing_is_measured(monkeypatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a search began")

    monkeypatch.setattr(tuner, "_search", refuse)


def session(func: PrimFunc = FUNC, numerics: str = "mixed", **options: object) -> Session:
    database = Database(":memory:")
    how = Options(numerics=numerics, cost_model="random")
    return start_session(func, "c", database, 0, how, **options)


def elsewhere(record: Record, **facts: object) -> Record:
    return record.with_(machine={**record.machine, **facts}, machine_key="x86_64-9t-else")


def test_tune_answers_at_once(ship, won, nothing_is_measured, tmp_path):
    ship(won)
    database = tmp_path / "own.db"
    result = tune(FUNC, trials=64, database=database, progress=False)
    assert result.record == won and result.from_database
    assert result.source.startswith("tuning_logs/made.jsonl, line 1: found on ")
    assert "tuning_logs/made.jsonl, line 1" in repr(result)
    assert result.trials == 64 and result.schedule.trace == replayed(FUNC, won).trace
    assert not database.exists(), "an answer is not stored: it was not measured here"


def test_who_wants_more_or_its_own_searches(ship, won, nothing_is_measured):
    ship(won)
    for options in ({"trials": 65}, {"trials": 8, "shipped": False}):
        with pytest.raises(AssertionError, match="a search began"):
            tune(FUNC, database=None, progress=False, **options)


def test_trials_of_this_machine_go_before_what_ships(ship, won):
    ship(won)
    own = session()
    own.stored = 1
    assert shipped_answer(own, 8) is None
    assert shipped_answer(session(), 8).record == won


def test_the_name_of_the_processor_and_mends_of_the_compiler_do_not_count(ship, won):
    other = elsewhere(won, cpu="AMD EPYC 9R14", cores=64, ram_gib=512, release="5.10")
    mended = won.conditions.compiler.rpartition(".")[0] + ".99"
    other = other.with_(conditions=replace(won.conditions, compiler=mended, flags="-O2 -march=x"))
    ship(other)
    answer = shipped_answer(session(), 64)
    assert answer.record == other and "AMD EPYC 9R14" in str(answer)


CHANGES = {
    "caches": lambda r: elsewhere(r, caches={**r.machine["caches"], "L2": 123}),
    "isa": lambda r: elsewhere(r, isa=["sse4_2"]),
    "arch": lambda r: elsewhere(r, arch="aarch64"),
    "gpu": lambda r: elsewhere(r, gpu="H200"),
    "threads": lambda r: r.with_(conditions=replace(r.conditions, threads=77)),
    "compiler": lambda r: r.with_(conditions=replace(r.conditions, compiler="gcc (X 3.1) 3.1.0")),
    "sizes": lambda r: r.with_(conditions=replace(r.conditions, sizes={"n": 4})),
    "target": lambda r: r.with_(target="c -vector_bits=64"),
    "unknown": lambda r: r.with_(conditions=Conditions()),
    "bare machine": lambda r: r.with_(machine={}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_record_of_another_kind_is_never_used(change, ship, won):
    other = CHANGES[change](won)
    ship(other)
    assert shipped_answer(session(), 1) is None
    differing = differences(kind_of(won), kind_of(other))
    assert change in differing or change in ("unknown", "bare machine") and len(differing) > 2
    steps = default_schedule(FUNC).trace
    assert default_schedule(FUNC, shipped=True).trace == steps


def test_the_number_of_threads_counts_however_it_was_asked_for(won):
    words = f"{won.target.partition(' ')[0]} -threads={won.conditions.threads}"
    asked = won.with_(target=f"{words} {won.target.partition(' ')[2]}")
    assert not differences(kind_of(won), kind_of(asked))


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "gcc 12"),
        ("gcc-13 (Ubuntu 13.1.0) 13.1.0", "gcc-13 13"),
        ("Debian clang version 14.0.6", "clang 14"),
        ("something new", "something new"),
        (None, None),
    ],
)
def test_the_release_of_a_compiler(version, release):
    assert compiler_release(version) == release


def test_what_another_version_made_is_not_used_and_said(ship, won):
    ship(won.with_(source_hash="0" * 32))
    asked = session()
    assert shipped_answer(asked, 64) is None
    assert "tuning_logs/made.jsonl, line 1 is of another version" in asked.told()


def test_the_best_of_what_counts(ship, won):
    faster = elsewhere(won.with_(median=won.median / 2))
    other_class = won.with_(median=won.median / 4, numerics="algebraic")
    unchecked = won.with_(median=won.median / 8, verdict=replace(won.verdict, checked=False))
    ship(unchecked, faster, won, other_class)
    place = Workload.of(FUNC), resolve("c"), this_machine(), Conditions.here("c")
    assert [s.record for s in shipped_here(*place)] == [other_class, won, faster]
    assert [s.line for s in shipped_here(*place, numerics="reassociated")] == [3, 2]
    assert shipped_of("another program") == []


def test_a_damaged_line_names_file_and_line_and_tune_searches(ship, won):
    path = ship(won, won)
    path.write_text(path.read_text().replace('"seed":0', '"seed":1'))
    with pytest.raises(DatabaseError, match=r"tuning_logs/made.jsonl, line 1: the id of"):
        all_shipped()
    asked = session()
    assert shipped_answer(asked, 64) is None
    assert "records that ship are not used: tuning_logs/made.jsonl, line 1" in asked.told()


@pytest.mark.parametrize("scheme", NAMINGS)
def test_a_program_by_other_names_finds_them_too(scheme, ship, won, nothing_is_measured):
    ship(won)
    func = renamed(FUNC, NAMINGS[scheme])
    result = tune(func, trials=64, database=None, progress=False)
    assert result.record == won
    assert [p.name for p in result.schedule.func.params] == [p.name for p in func.params]
    assert len(result.trace) == len(won.trace)


def test_default_schedules_take_them_if_asked(ship, won):
    rules = default_schedule(FUNC).trace
    ship(won)
    assert default_schedule(FUNC).trace == rules
    assert default_schedule(FUNC, shipped=True).trace == replayed(FUNC, won).trace != rules
    ship(won.with_(numerics="algebraic"))
    assert default_schedule(FUNC, shipped=True).trace == rules
    assert default_schedule(FUNC, numerics="mixed", shipped=True).trace != rules


@pytest.mark.parametrize("other", ["size", "version"])
def test_what_ships_begins_a_search_that_it_does_not_answer(ship, won, other):
    """Of another size, and of this program where its steps make other code by now."""
    func = FUNC if other == "version" else make_example("matmul", {**SIZES, "m": 32})
    gain = Outcome(True, False, Gain(0.25, 0.2, 0.3, 0.95)).to_json()
    ship(won.with_(race=gain, source_hash="another"))
    asked = session(func)
    assert shipped_answer(asked, 64) is None and hints(asked) == {}
    found = hints(asked, shipped=True)
    assert [(h.place, h.ratio) for h in found.values()] == [
        ("matmul 16x16, 16x16, 16x16; ships", 0.8)
    ]
    asked.state.hints = found
    assert told(asked) == "1 of matmul 16x16, 16x16, 16x16; ships: 0 of 1 tried"
    path = ship(won)
    path.write_text(path.read_text().replace(won.id, "0" * 32))
    assert hints(asked, shipped=True) == {}, "damaged: `tune` tells of it"


def test_the_command_line_finds_them(ship, won, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.cli.tune.share_of_peak", lambda *_: None)
    monkeypatch.setattr("autotune.cli.best.share_of_peak", lambda *_: None)
    ship(won)
    program = ["matmul", "--shape", "m=16", "n=16", "k=16", "--database", str(tmp_path / "own.db")]
    assert main(["tune", *program]) == 0
    out = capsys.readouterr().out
    assert "none measured now: the result ships with the project, in tuning_logs/made.jsonl" in out
    assert main(["best", *program]) == 0
    assert "tuning_logs/made.jsonl, line 1: found on" in capsys.readouterr().out


def test_a_search_that_ran_out_of_candidates_answers_for_all_that_were_wanted(ship, won):
    few = won.with_(trial=12, settings={"final": True, "wanted": 96})
    ship(few)
    assert shipped_answer(session(), 96).record == few
    assert shipped_answer(session(), 97) is None


def test_winners_take_the_place_of_their_kind_only(ship, won, tmp_path):
    old, far = won.with_(median=9.0), elsewhere(won, isa=["sse4_2"])
    path = ship(old, far)
    assert write([won], path) == 2
    assert sorted(each.record.id for each in all_shipped()) == sorted([won.id, far.id])
    assert write([], path) == 2, "rows that were not tuned again stay"


def test_the_benchmark_ships_what_it_tuned(ship, won, monkeypatch, capsys, tmp_path):
    ship()
    rows = [Row("a", FUNC), Row("again", FUNC), Row("bad", FUNC)]

    def tuned(row: Row, *_: object) -> Record:
        if row.name == "bad":
            raise TensorIRError("nothing ran")
        return won

    monkeypatch.setattr(benchmarks.ship, "ROWS", {"one": lambda: iter(rows)})
    monkeypatch.setattr(benchmarks.ship, "_tuned", tuned)
    words = ["--folder", str(shipped.FOLDER), "--database", str(tmp_path / "ship.db")]
    assert benchmarks.ship.main(words) == 1
    assert "one, bad: nothing ran" in capsys.readouterr().err
    assert [each.place for each in all_shipped()] == ["tuning_logs/one.jsonl, line 1"]


@pytest.mark.parametrize(("ended", "answers"), [("7.5 s", 30), ("converged: no gain", 96)])
def test_a_search_that_was_cut_off_answers_for_its_own_trials(won, monkeypatch, ended, answers):
    """One that ended because nothing is to be gained answers for as many as were allowed."""
    given = []

    def searched(*args: object, **options: object) -> SimpleNamespace:
        given.append(options["seconds"])
        return SimpleNamespace(record=won.with_(trial=30), trials=30, ended=ended)

    monkeypatch.setattr(benchmarks.ship, "searched", searched)
    options = SimpleNamespace(quick=False, trials=96)
    clock = benchmarks.ship.Clock(1000, 10)
    found = [benchmarks.ship._tuned(Row("a", FUNC), None, options, clock) for _ in range(2)]
    assert [trials_of(record) for record in found] == [answers] * 2
    assert given[0] <= 300 and given[1] <= 1000 / 3, "thrice a row's share of what is left"


def fault(each: Shipped) -> str:
    """What is wrong with a record that ships, with its place; "" for nothing."""
    record = each.record
    func = parse(record.workload.text)
    if Workload.of(func, record.workload.constants) != record.workload:
        return f"{each.place}: its program has another key today"
    if not record.is_final or not record.verdict.checked:
        return f"{each.place}: it won no race"
    try:
        numerics = replayed(func, record).numerics
    except TensorIRError as error:
        return f"{each.place}: {error}"
    return "" if numerics == record.numerics else f"{each.place}: it is {numerics}"


def test_what_ships_can_be_made():
    """Its steps are legal on the program, and do to numbers what the record says."""
    assert not [text for each in all_shipped(FOLDER) if (text := fault(each))]


def test_faults_of_what_ships_are_found(ship, won):
    key = replace(won.workload, key="0" * 32)
    steps = [[name.upper(), args, out] for name, args, out in won.trace]
    ship(
        won, won.with_(workload=key), won.with_(settings={}), won.with_(trace=steps),
        won.with_(numerics="mixed"),
    )  # fmt: skip
    found = [fault(each) for each in all_shipped()]
    words = ["", "another key", "won no race", "no primitive", f"it is {won.numerics}"]
    assert all(word in text and bool(text) == bool(word) for word, text in zip(words, found)), found


def test_what_ships_has_no_two_answers():
    """One record for each program, kind of machine and class."""
    found = [_place(each.record) for each in all_shipped(FOLDER)]
    assert len(set(found)) == len(found)
