"""What is left of a random tuning database after random damage."""

from __future__ import annotations

import contextlib
import io
import random
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "autotune")]
from checks import Mismatch  # noqa: E402
from made import WORKLOAD, first_version, later, record  # noqa: E402

from autotune.cli import main  # noqa: E402
from autotune.database.database import Database  # noqa: E402
from autotune.database.records import Record  # noqa: E402
from autotune.database.salvage import salvage  # noqa: E402
from autotune.errors import DatabaseError  # noqa: E402

ACTIONS = (
    ["db", "list"], ["db", "stats"], ["db", "sessions"], ["db", "export", "-"], ["db", "check"],
    ["report"], ["report", "scale", "--limit", "0"], ["db", "prune", "--keep", "3"],
    ["db", "repair"],
)  # fmt: skip
"""What is done to a damaged database, those that change it last."""


class Case:
    """One seed: a database of `before`, and what was done to its file.

    `whole` are the ids of the records that the damage did not touch; `hidden` says that damage of
    the file may keep SQLite from finding one of them without a word from it, where `db check` has
    to say so.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.path = folder / "tuning.db"
        self.hidden = False
        count = self.rng.choice([1, 3, 10, 40])
        self.before = [self._record(number) for number in range(count)]
        old = self.rng.random() < 0.25
        if old:
            first_version(self.path, self.before, self.rng.random() < 0.5)
            with Database(self.path) as db:
                self.before = db.records()
        else:
            with Database(self.path) as db:
                db.add_many(self.before)
                if self.rng.random() < 0.3 and count > 3:
                    gone = self.rng.sample(self.before, 2)
                    db.delete([each.id for each in gone])
                    self.before = [each for each in self.before if each not in gone]
        self.whole = {each.id for each in self.before}
        kinds = [self.flip, self.truncate, self.overwrite] + ([] if old else [self.edit] * 3)
        self.kind: Callable[[], None] = self.rng.choice(kinds)
        self.kind()

    def _record(self, number: int) -> Record:
        if self.rng.random() < 0.2:
            return Record.from_json(later(number))
        text = "x" * self.rng.choice([0, 10, 1000, 5000, 30000])
        status = self.rng.choice(["ok", "ok", "crash"])
        return record(number, error=text, status=status, settings={"final": number % 3 == 2})

    def flip(self) -> None:
        """Single bits, anywhere or in the first page."""
        data = bytearray(self.path.read_bytes())
        end = self.rng.choice([100, 4096, len(data), len(data)])
        bits = self.rng.choice([1, 3, 30])
        places = [self.rng.randrange(min(end, len(data))) for _ in range(bits)]
        self._touch(places)
        for place in places:
            data[place] ^= 1 << self.rng.randrange(8)
        self.path.write_bytes(data)

    def truncate(self) -> None:
        """The file ends early."""
        data = self.path.read_bytes()
        end = self.rng.randrange(1, len(data))
        self._touch(range(end, len(data)))
        self.path.write_bytes(data[:end])

    def overwrite(self) -> None:
        """A piece of noise or of zeros."""
        data = bytearray(self.path.read_bytes())
        start = self.rng.randrange(len(data))
        end = min(start + self.rng.choice([1, 100, 4096, 20000]), len(data))
        self._touch(range(start, end))
        noise = self.rng.randbytes(end - start) if self.rng.random() < 0.5 else bytes(end - start)
        data[start:end] = noise
        self.path.write_bytes(data)

    def _touch(self, places: Any) -> None:
        self.hidden = True
        pages = {place // 4096 + 1 for place in places}
        for each in salvage(self.path):
            if pages & set(each.pages):
                self.whole.discard(each.record.id)

    def edit(self) -> None:
        """Rows edited, swapped, repeated and put in, in a file that is itself sound."""
        connection = sqlite3.connect(self.path)
        rows = connection.execute("SELECT seq, id FROM records").fetchall()
        for _ in range(self.rng.choice([1, 2, 5])):
            number, identity = self.rng.choice(rows)
            change = self.rng.choice([self._column, self._text, self._swap, self._foreign])
            for touched in change(connection, number, [n for n, _ in rows]):
                self.whole.discard(dict(rows)[touched])
        connection.commit()
        connection.close()

    def _column(self, connection: Any, number: int, rows: list[int]) -> list[int]:
        name = self.rng.choice(
            "id session workload structure target machine conditions status numerics median"
            " believed payload".split()
        )
        value = self.rng.choice([None, 7, -1, 2.5, "text", "\ud7ff\0", b"\xff\xfe", "[" * 5000])
        connection.execute(
            f"UPDATE OR IGNORE records SET {name} = ? WHERE seq = ?", (value, number)
        )
        return [number]

    def _text(self, connection: Any, number: int, rows: list[int]) -> list[int]:
        """A piece of the JSON replaced by another piece of JSON."""
        found = connection.execute(
            "SELECT payload FROM records WHERE seq = ?", (number,)
        ).fetchone()
        text = found[0] if isinstance(found[0], str) else ""
        at = self.rng.randrange(len(text) + 1)
        pieces = ["", "{", "]", '"', "null", "1e999", "-", "\\ud800", "9" * 31, "\0", "[" * 2000]
        changed = text[:at] + self.rng.choice(pieces) + text[at + self.rng.choice([0, 1, 20]) :]
        connection.execute("UPDATE records SET payload = ? WHERE seq = ?", (changed, number))
        return [number]

    def _swap(self, connection: Any, number: int, rows: list[int]) -> list[int]:
        """The text of another row, which is then there twice."""
        other = self.rng.choice(rows)
        connection.execute(
            "UPDATE records SET payload = (SELECT payload FROM records WHERE seq = ?)"
            " WHERE seq = ?", (other, number),
        )  # fmt: skip
        return [number]

    def _foreign(self, connection: Any, number: int, rows: list[int]) -> list[int]:
        connection.execute(
            "INSERT OR IGNORE INTO records (id, payload, workload) VALUES (?, ?, ?)",
            (self.rng.choice([None, "id", 3]), self.rng.choice([None, "{}", 1, "[]"]), "key4"),
        )
        return []


def check(case: Case) -> None:
    """Everything undamaged is read, nothing else is, and errors are ours."""
    known = {each.id: each for each in case.before}
    try:
        with Database(case.path) as db:
            found = db.records()
            told = db.check()
            db.best(WORKLOAD, "c", "m")
    except DatabaseError as error:
        if case.whole and "update the project" not in str(error):
            raise Mismatch(f"{len(case.whole)} whole records and: {error}") from error
        return
    if any(known.get(each.id) != each for each in found):
        raise Mismatch("a record was read that was never stored")
    order = [each.id for each in found]
    if order != [identity for identity in known if identity in set(order)]:
        raise Mismatch("records were read in another order")
    lost = case.whole - set(order)
    if lost and not (case.hidden and told):
        raise Mismatch(f"{len(lost)} whole records were not read; check says {told}")
    if case.hidden and not case.whole <= {each.record.id for each in salvage(case.path)}:
        raise Mismatch("whole records were not salvaged")


def check_commands(case: Case) -> None:
    """No command fails with an error that is not ours."""
    for words in ACTIONS:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            status = main([*words, "--database", str(case.path)])
        if status not in (0, 1, 2) or "Traceback" in err.getvalue():
            raise Mismatch(f"{' '.join(words)} ended with {status}: {err.getvalue()[:200]}")


def check_lines(seed: int, folder: Path) -> None:
    """Damaged lines of an export cost themselves only."""
    rng = random.Random(seed)
    made = [record(number) for number in range(rng.choice([2, 10]))]
    lines = [each.text.encode() for each in made]
    spoiled = set(rng.sample(range(len(lines)), rng.randrange(len(lines))))
    for number in spoiled:
        line = bytearray(lines[number])
        for _ in range(rng.choice([1, 5])):
            at = rng.randrange(len(line))
            line[at : at + rng.choice([0, 1, 50])] = bytes(
                rng.choice([b"", b"[", b"\0", b"\xff", b"\\ud800", b"9" * 40, b"{" * 3000])
            )
        lines[number] = bytes(line).replace(b"\n", b"")
    (folder / "in.jsonl").write_bytes(b"\n".join(lines))
    with Database(folder / "imported.db") as db:
        report = db.import_jsonl(folder / "in.jsonl")
        found = [each.id for each in db.records()]
    whole = [each.id for number, each in enumerate(made) if number not in spoiled]
    if [identity for identity in found if identity in whole] != whole:
        raise Mismatch("good lines were lost")
    if not {number - 1 for number, _ in report.problems} <= spoiled:
        raise Mismatch(f"good lines were called bad: {report}")


def check_seed(seed: int) -> dict[str, Any]:
    """Everything about one seed, as a row for the fuzzer."""
    row: dict[str, Any] = {"seed": seed, "compiled": 0, "bitwise": 0, "finding": None}
    kind, stage = "database", "making"
    with tempfile.TemporaryDirectory(prefix="fuzz-db-") as name:
        try:
            case = Case(seed, Path(name))
            kind = case.kind.__name__
            stage = "reading"
            check(case)
            stage = "commands"
            check_commands(case)
            stage = "lines"
            check_lines(seed, Path(name))
        except Exception as error:
            text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            program = f"tests/fuzz/database_checks.py: check_seed({seed}), {kind}\n"
            row["finding"] = {"seed": seed, "stage": stage, "error": text, "program": program}
    row["workload"], row["asked"] = kind, dict(Counter([kind]))
    row["accepted"] = row["asked"]
    return row
