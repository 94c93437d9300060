"""An audit finds what is no longer what a record says, and what fails is withdrawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autotune.cli import main
from autotune.database.conditions import Conditions
from autotune.database.database import Database
from autotune.database.records import Record
from autotune.examples import make_example
from autotune.measure import MeasureResult
from autotune.measure.settings import Rounds
from autotune.tuning import audit as module
from autotune.tuning.audit import CHANGED, FAILED, IMPOSSIBLE, SOUND, audit, withdrawn
from autotune.tuning.replay import replayed, source_hash
from backends import resolve
from tensorir import PrimFunc
from tests.brief import BRIEF

FUNC = make_example("matmul", {"m": 16, "n": 16, "k": 16})


@pytest.fixture(scope="module")
def trials(made_records: Callable[[PrimFunc], list[Record]]) -> list[Record]:
    """Trials with the hashes of their source texts, as tune stores them."""
    found = []
    for record in made_records(FUNC):
        made = source_hash(record, replayed(FUNC, record), resolve("c"))
        found.append(record.with_(source_hash=made))
    return found


class FakeMeasurer:
    """Kernels end in this way, and take two and three seconds."""

    result = MeasureResult("ok", median=2.0)

    def __init__(self, *_: object, **options: object) -> None:
        self.options = options
        self.settings = BRIEF

    def __enter__(self) -> FakeMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def measure(self, programs: list[object], **_: object) -> list[MeasureResult]:
        return [self.result for _ in programs]

    def race(self, programs: list[object], rounds: int) -> Rounds:
        return Rounds(((2.0, 1.0, 2.0), (3.0, 3.0, 9.0)), (False,) * 3)


@pytest.fixture
def fake(monkeypatch) -> type[FakeMeasurer]:
    monkeypatch.setattr(module, "Measurer", FakeMeasurer)
    monkeypatch.setattr(FakeMeasurer, "result", MeasureResult("ok", median=2.0))
    return FakeMeasurer


def test_all_that_succeeded_are_replayed_and_the_best_is_run(trials, fake):
    found = list(audit(trials))
    assert [f.record.trial for f in found] == [7, 6, 3, 2, 1, 0], "failures claim nothing"
    assert {f.state for f in found} == {SOUND}
    assert [f.status for f in found] == ["ok", *[""] * 5]
    assert not any(f.status for f in audit(trials, run=False))


def test_times_are_taken_beside_the_default(trials, fake):
    best = next(audit(trials, retime=True))
    assert (best.seconds, best.default) == (2.0, 3.0)
    assert best.drift == pytest.approx(2.0 / trials[7].median)
    assert next(audit(trials)).drift is None


def test_what_changed_and_what_cannot_be_made(trials, fake):
    other = trials[7].with_(source_hash="0" * 32)
    steps = [[name.upper(), args, out] for name, args, out in trials[6].trace]
    gone = trials[6].with_(trace=steps)
    changed, impossible = list(audit([other, gone]))
    assert changed.state == CHANGED and changed.status == "ok" and "other code" in changed.detail
    assert impossible.state == IMPOSSIBLE and "no primitive" in impossible.detail


def test_records_of_other_machines_are_replayed_and_not_run(trials, fake):
    caches = {**trials[7].machine["caches"], "L2": 1}
    far = trials[7].with_(machine={**trials[7].machine, "caches": caches})
    bare = trials[7].with_(conditions=Conditions())
    for record, word in ((far, "L2=1"), (bare, "threads is unknown")):
        (found,) = audit([record], retime=True)
        assert (found.state, found.status, found.seconds) == (SOUND, "", None)
        assert word in found.detail


def test_what_fails_today_is_withdrawn(trials, fake, tmp_path):
    fake.result = MeasureResult("wrong_result", "output 'C' differs at [0, 0]\nmore")
    with Database(tmp_path / "t.db") as db:
        db.add_many(trials)
        (bad,) = (f for f in audit(db.records()) if f.state == FAILED)
        assert bad.record == trials[7] and bad.status == "wrong_result"
        db.replace(bad.record, withdrawn(bad))
        best = db.best(bad.record.workload, bad.record.target, bad.record.machine_key)
        assert best == trials[6]
        (marked,) = [r for r in db.records(status="wrong_result") if r.trial == 7]
        assert "differs at [0, 0] (found by an audit of record" in marked.error
        assert marked.trace == trials[7].trace and len(db.records()) == len(trials)


def test_replacing_is_all_or_nothing(trials, tmp_path):
    with Database(tmp_path / "t.db") as db:
        db.add(trials[0])
        db.replace(trials[0], trials[1])
        assert db.records() == [trials[1]]
        db.replace(trials[0], trials[2])
        assert db.records() == [trials[1]], "what was replaced meanwhile is not replaced again"


def test_an_audit_that_runs(trials):
    """With compilers and workers: a right kernel, and one whose record is of another program."""
    wrong = replace(
        trials[0].workload, key="0" * 32, text=trials[0].workload.text.replace(" * B", " + B")
    )
    right, other = audit(
        [trials[7], trials[7].with_(workload=wrong)], retime=True, settings=BRIEF
    )
    assert right.state == SOUND and right.status == "ok"
    assert right.seconds and right.default and right.drift
    assert other.state == CHANGED, "its steps make another kernel, which is right"


def test_the_command(trials, fake, tmp_path, capsys):
    database = str(tmp_path / "t.db")
    with Database(database) as db:
        db.add_many(trials)
    assert main(["db", "audit", "--retime", "--database", database]) == 0
    out = capsys.readouterr().out
    assert "6 records: 6 sound" in out
    (row,) = (line.split() for line in out.splitlines() if line.startswith("sound"))
    assert row[-4:] == ["1", "2000", "+199900%", "3000"]
    fake.result = MeasureResult("crash", "died of SIGSEGV")
    assert main(["db", "audit", "--database", database]) == 1
    told = capsys.readouterr()
    assert "1 failed" in told.out and "died of SIGSEGV" in told.out and "--mark" in told.err
    assert "1 of 1: running" in told.err, "which takes seconds"
    assert main(["db", "audit", "--mark", "--database", database]) == 1
    with Database(database) as db:
        assert len(db.records(status="crash")) == 2
    assert main(["db", "check", "--database", database]) == 0
    assert "of another version" not in capsys.readouterr().out
