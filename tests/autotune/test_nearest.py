"""Records of like programs: by structure, then by doublings of extents and what else differs."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from made import WORKLOAD, record

from autotune.database.conditions import Conditions
from autotune.database.database import Database
from autotune.database.records import Record, Workload
from autotune.errors import DatabaseError
from autotune.examples import make_example
from autotune.machine.machine import this_machine
from benchmarks.general.renamed import NAMINGS, renamed
from tensorir import te

HERE = this_machine()


def matmul(m: int, n: int = 64, k: int = 64) -> Workload:
    return Workload.of(make_example("matmul", {"m": m, "n": n, "k": k}))


def stored(workload: Workload, median: float = 1.0, **changes: object) -> Record:
    facts = {"machine": HERE.to_json(), "machine_key": HERE.key}
    return record(workload=workload, median=median, **{**facts, **changes})


@pytest.fixture
def db():
    with Database(":memory:") as database:
        yield database


def test_the_nearest_sizes_come_first(db):
    db.add_many([stored(matmul(m), trial=m) for m in (64, 1024, 256, 128, 512)])
    found = db.nearest(matmul(256), "c", HERE)
    assert [near.record.trial for near in found] == [128, 512, 64, 1024], "256 itself is exact"
    assert {near.differs for near in found} == {("extents",)}
    # m is an extent of A and of C
    assert found[0].distance == pytest.approx(2**0.5)
    assert found[-1].distance == pytest.approx(2 * 2**0.5)
    assert db.nearest(matmul(256), "c", HERE, limit=1) == found[:1]


def test_other_structures_and_what_is_not_believed_are_left_out(db):
    db.add_many([
        stored(WORKLOAD), stored(matmul(512), target="cuda"),
        stored(matmul(512), status="crash", median=None, times=()),
        stored(matmul(512), verdict=replace(record().verdict, checked=False)),
    ])  # fmt: skip
    assert db.nearest(matmul(256), "c", HERE) == []


def test_other_names_machines_threads_and_constants(db):
    func = make_example("matmul", {"m": 256, "n": 64, "k": 64})
    other = Workload.of(renamed(func, NAMINGS["topi"]))
    assert other.text != str(func) and other.key == matmul(256).key
    far = {**HERE.to_json(), "caches": {"L2": 1}, "isa": ["sse4_2"]}
    conditions = Conditions.here("c", threads=77)
    db.add_many([
        stored(other, trial=1, machine=far, machine_key="far"),
        stored(Workload.of(func, ("B",)), trial=2),
        stored(other, trial=3, conditions=conditions),
        stored(other, trial=4),
    ])  # fmt: skip
    found = db.nearest(func, "c", HERE)
    assert [(n.record.trial, n.differs) for n in found] == [
        (2, ("constants",)), (3, ("threads",)), (1, ("isa", "caches")),
    ]  # fmt: skip
    assert [n.distance for n in found] == pytest.approx([1.0, 1.0, 2**0.5])


def test_the_best_of_each_place_and_no_steps_twice(db):
    steps = [[["a", {}, None]], [["b", {}, None]], [["b", {}, None]], [["c", {}, None]]]
    db.add_many([stored(matmul(512), 4.0 - n, trial=n, trace=s) for n, s in enumerate(steps)])
    db.add(stored(matmul(512), 9.0, trial=9, trace=[["r", {}, None]], settings={"final": True}))
    assert [n.record.trial for n in db.nearest(matmul(256), "c", HERE)] == [9]
    assert [n.record.trial for n in db.nearest(matmul(256), "c", HERE, each=3)] == [9, 3, 2]
    assert len(db.nearest(matmul(256), "c", HERE, each=9)) == 4


def test_symbolic_sizes_are_extents(db):
    n = te.var("n")
    a = te.placeholder((n, 8), name="a")
    func = te.create_prim_func([a, te.compute((n, 8), lambda i, j: a[i, j] * 2.0, name="b")])
    asked = Workload.of(func)
    for size in (16, 2000, 0):
        db.add(stored(asked, trial=size, conditions=Conditions.here("c", {"n": size})))
    db.add(stored(asked, trial=1, conditions=replace(Conditions.here("c"), sizes=None)))
    found = db.nearest(asked, "c", HERE, Conditions.here("c", {"n": 1024}))
    assert [(near.record.trial, near.differs) for near in found] == [
        (2000, ("extents",)), (16, ("extents",)), (0, ("extents",)),
    ]  # fmt: skip
    assert str(found[0]).endswith(" 2000x8, 2000x8")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [(("key", "c", HERE), {}), ((WORKLOAD, "c", "m"), {}), ((WORKLOAD, "c", HERE), {"each": 0})],
)
def test_what_is_asked_wrongly_is_refused(arguments, options, db):
    with pytest.raises(DatabaseError):
        db.nearest(*arguments, **options)
