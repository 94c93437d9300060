"""Records are values that survive JSON, and damaged ones are noticed."""

from __future__ import annotations

import json
import math
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.database.jsonl import decode, encode, read_records, write_records
from autotune.database.record_json import FIELDS, VISIT, content_id
from autotune.database.records import SCHEMA, STATUSES, Record, Verdict, Workload
from autotune.errors import DatabaseError
from autotune.machine.machine import KEY_FIELDS, Machine, this_machine
from autotune.noise.visits import Visit
from tensorir import parse

TEXT = """
@prim_func
def scale(A: f32[8, N], B: f32[8, N]):
    for i, j in grid(8, N):
        with block("B"):
            vi = spatial(8, i)
            vj = spatial(N, j)
            B[vi, vj] = A[vi, vj] * 2.0
"""


def workload(columns: int = 4) -> Workload:
    return Workload.of(parse(TEXT.replace("N", str(columns))))


def record(**changes) -> Record:
    values = {
        "workload": workload(), "target": "c", "machine_key": "m", "status": "ok",
        "times": (2e-3, 1e-3), "median": 1.5e-3, "verdict": Verdict(True, 0.0, 1e-5),
        "session": "s", "time": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    return Record(**{**values, **changes})


def test_workload_describes_the_program():
    four, five = workload(4), workload(5)
    assert four.name == "scale" and four.shapes[0] == ("A", (8, 4), "float32")
    assert four.key != five.key and four.structure == five.structure
    assert parse(four.text).name == "scale"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
seconds = st.floats(1e-9, 1e3)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.sampled_from(STATUSES), st.lists(seconds, max_size=4), seconds, json_values,
    st.lists(json_values, max_size=3), st.none() | seconds, st.text(), st.integers(0, 2**63),
)  # fmt: skip
def test_json_round_trip(status, times, median, decisions, trace, predicted, error, seed):
    before = record(
        status=status, times=times, median=median, decisions=decisions, trace=trace,
        predicted=predicted, error=error, seed=seed, machine={"cores": 2}, features=("avx2",),
    )  # fmt: skip
    line = encode(before)
    assert "\n" not in line
    after = decode(line)
    assert after == before
    assert encode(after) == line


def test_the_id_is_of_the_content():
    assert record().id == record().id
    assert record().id != record(trial=1).id
    assert record().with_(trial=1).id == record(trial=1).id


def test_tuples_and_whole_numbers_become_what_json_gives_back():
    before = record(times=(1, 2), median=1, decisions={"tile": (2, 4)}, trace=[("split", ["i"])])
    assert decode(encode(before)) == before
    assert before.decisions == {"tile": [2, 4]} and before.times == (1.0, 2.0)


def test_infinite_error_of_a_wrong_result_survives():
    verdict = Verdict(True, math.inf, 1.0)
    assert decode(encode(record(status="wrong_result", verdict=verdict))).verdict == verdict


def test_unknown_fields_of_a_later_version_are_ignored():
    data = {**record().to_json(), "colour": "blue"}
    data["id"] = content_id(data)
    assert Record.from_json(data).workload == workload()


def test_every_field_says_what_it_holds():
    """So nothing that reads a record whose id is right meets another kind of value there."""
    told = {f.name for f in fields(Record)} - {"schema", "text", "decisions"}
    assert told <= set(FIELDS)
    assert {f.name for f in fields(Visit)} == set(VISIT)


OTHERWISE = {
    "own": [{}, {"knobs": []}, {"function": "f"}, {"function": 1, "knobs": []}],
    "visits": [[{}], [1], [{"seconds": "x"}], [{"seconds": None}], [{"seconds": True}]]
    + [[{"seconds": 1.0, name: value}] for name in VISIT for value in ("1", [])],
    "program": [1, None, ["text"]],
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_records_that_were_edited_and_have_their_ids_are_refused(name):
    """Each search of the program read them, and ended in a KeyError or a TypeError."""
    for value in OTHERWISE[name]:
        data = {**record().to_json(), name: value}
        with pytest.raises(DatabaseError, match=f"not a tuning record: '{name}"):
            Record.from_json({**data, "id": content_id(data)})
    whole = {"own": {"function": "f", "knobs": ["a"]}, "visits": [Visit(1.0).to_json()]}
    if name in whole:
        data = {**record().to_json(), name: whole[name]}
        assert Record.from_json({**data, "id": content_id(data)})


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"schema": SCHEMA + 1}, f"schema {SCHEMA + 1}, and this version reads up to {SCHEMA}: up"),
        ({"schema": None}, "it has no 'schema' number"),
        ({"median": 9.0}, "not the hash of its content: damaged"),
    ],
)
def test_bad_records(changes, message):
    with pytest.raises(DatabaseError, match=message):
        Record.from_json({**record().to_json(), **changes})


def test_missing_field():
    data = record().to_json()
    del data["workload"]
    data["id"] = content_id(data)
    with pytest.raises(DatabaseError, match="not a tuning record: 'workload'"):
        Record.from_json(data)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"status": "fine"}, "unknown status 'fine'"),
        ({"numerics": "fuzzy"}, "unknown numerics 'fuzzy'"),
        ({"median": None}, "status 'ok' needs a positive median time, not None"),
        ({"median": math.nan}, "needs a positive median"),
        ({"decisions": object()}, "must be plain JSON data"),
    ],
)
def test_impossible_records(changes, message):
    with pytest.raises(DatabaseError, match=message):
        record(**changes)


def test_unreadable_lines_are_reported_and_cost_nothing_else(tmp_path):
    path = tmp_path / "r.jsonl"
    good = [encode(record(trial=i)) for i in range(3)]
    newer = json.dumps({**record().to_json(), "schema": 99})
    lines = [good[0], "{torn", "", "[1]", good[1].replace("scale", "scare"), newer, good[2]]
    path.write_bytes("\n".join(lines).encode() + b"\n" + good[0].encode()[:50] + b"\xff\n")
    problems: list[tuple[int, str]] = []
    found = list(read_records(path, problems))
    assert [r.trial for r in found] == [0, 2]
    assert [number for number, _ in problems] == [2, 4, 5, 6, 8]
    texts = [text for _, text in problems]
    assert "not JSON" in texts[0] and "no JSON object" in texts[1] and "damaged" in texts[2]
    assert "update the project" in texts[3] and "not JSON" in texts[4]


def test_write_replaces_in_one_step(tmp_path):
    path = tmp_path / "r.jsonl"
    write_records(path, [record()])

    def failing():
        yield record(trial=1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_records(path, failing())
    assert [r.trial for r in read_records(path, [])] == [0]
    assert [p.name for p in tmp_path.iterdir()] == ["r.jsonl"]


def test_missing_folder_and_file(tmp_path):
    with pytest.raises(DatabaseError, match="cannot write records to .*No such file"):
        write_records(tmp_path / "no" / "r.jsonl", [record()])
    with pytest.raises(DatabaseError, match="cannot read records from .*No such file"):
        list(read_records(tmp_path / "r.jsonl", []))


def test_machine_key_ignores_what_does_not_matter():
    here = this_machine()
    assert here.cores >= 1 and here.key.startswith(here.arch)
    data = here.to_json()
    assert Machine.from_json(data) == here
    assert Machine.from_json(json.loads(json.dumps(data))).key == here.key
    assert Machine.from_json({**data, "release": "x", "ram_gib": 1}).key == here.key
    for name in KEY_FIELDS:
        other = {**data, name: {"L9": 1} if name == "caches" else ["q"] if name == "isa" else "z"}
        assert Machine.from_json(other).key != here.key, name
