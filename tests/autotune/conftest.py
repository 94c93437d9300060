"""Records made without measuring anything, for what reads databases."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from autotune.database.conditions import Conditions
from autotune.database.database import Database
from autotune.database.records import Record, Verdict, Workload
from autotune.examples import make_example
from autotune.machine.machine import this_machine
from autotune.measure.scoring import outline
from autotune.rules import default_candidate, make_space
from autotune.space import Candidate
from backends import resolve
from schedule import Schedule, ScheduleError
from tensorir import PrimFunc, device_of
from tests.pretended import Pretended

SIZES = {"m": 16, "n": 16, "k": 16}


@pytest.fixture(scope="module", autouse=True)
def _few_builds(few_builds: None) -> None:
    """Most time of a search for a few trials would go to schedules that are never tried."""


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches run nothing: the trials of a database need no kernels, and no times."""
    monkeypatch.setattr("autotune.tuning.search.Measurer", Pretended)


@pytest.fixture(scope="module")
def all_pretended() -> Iterator[None]:
    """The same for what a module makes once, and for all of its tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.tuning.search.Measurer", Pretended)
        yield


@pytest.fixture
def any_peaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Peaks of the machine that take no time to measure, and are not kept."""
    from autotune.calibration import peak

    monkeypatch.setattr(peak, "_flops", lambda *_: 1e6)
    monkeypatch.setattr(peak, "_gbps", lambda *_: 1e6)
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def made_records() -> Callable[[PrimFunc], list[Record]]:
    """Eight trials of a function: the default schedule (8 ms), others of 7, 6, ... ms, a crash
    (the fifth) and a wrong result (the sixth)."""

    def make(func: PrimFunc) -> list[Record]:
        target = resolve("c")
        space = make_space(func, device_of(target))
        rng = random.Random(0)
        built: dict[Candidate, Schedule] = {}
        candidate = default_candidate(space)
        for _ in range(200):
            with suppress(ScheduleError):
                built[candidate] = space.build(candidate)
            if len(built) == 8:
                break
            candidate = space.sample(rng)
        failures = {4: ("crash", "died of SIGSEGV"), 5: ("wrong_result", "C[0, 0] is 1, not 2")}
        records = []
        for number, (candidate, schedule) in enumerate(built.items()):
            status, error = failures.get(number, ("ok", ""))
            seconds = (8 - number) * 1e-3 if status == "ok" else None
            records.append(
                Record(
                    Workload.of(func), str(target), this_machine().key, status, error=error,
                    machine=this_machine().to_json(), session="s", trial=number,
                    sketch=candidate.sketch, decisions=list(candidate.values),
                    trace=tuple(schedule.trace.as_json()), numerics=schedule.numerics,
                    median=seconds, times=(seconds,) * 3 if seconds else (),
                    predicted=(9 - number) * 1e-3, verdict=Verdict(status == "ok", 0.0, 1e-5),
                    time=f"2026-01-01T00:00:{number:02}.000Z", conditions=Conditions.here(target),
                    rules=outline(space, target),
                )
            )  # fmt: skip
        return records

    return make


@pytest.fixture
def stored(tmp_path: Path, made_records: Callable[[PrimFunc], list[Record]]) -> str:
    """Path of a database with the trials of made_records of a small matmul."""
    path = tmp_path / "stored.db"
    with Database(path) as db:
        db.add_many(made_records(make_example("matmul", SIZES)))
    return str(path)
