"""Several tuners on one database: they share the work, and what they print is right."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from autotune import Database, tune
from autotune.database import storage
from autotune.tuning.turns import search_turn
from tensorir import te
from tests.brief import BRIEF

ROOT = Path(__file__).parents[2]

TUNER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_turns import scaled
from autotune import Database, tune
from autotune.tuning import search
from tests.brief import BRIEF
from tests.pretended import Pretended

def add_and_wait(self, record, add=Database.add):
    add(self, record)
    print("stored", flush=True)
    Database.add = add
    sys.stdin.read()

search.Measurer = Pretended
if sys.argv[5:]:
    Database.add = add_and_wait
result = tune(scaled(), trials=int(sys.argv[3]), seed=int(sys.argv[4]), database=sys.argv[2],
              strategy="random", cost_model="random", settings=BRIEF)
print(result.trials, result.measured, result.record.id)
"""


def scaled():
    a = te.placeholder((64, 8), name="A")
    b = te.compute((64, 8), lambda i, j: a[i, j] * 2.0 + 1.0, name="B")
    return te.create_prim_func([a, b], name="scaled")


def tuner(path: Path, trials: int, seed: int, *waits: str) -> subprocess.Popen[str]:
    """It waits with its first trial stored, between two uses of the database, until nothing more
    is written to it: where it is told so."""
    words = [str(Path(__file__).parent), str(path), str(trials), str(seed), *waits]
    env, pipe = {**os.environ, "PYTHONPATH": str(ROOT)}, subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", TUNER, *words],
        env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True,
    )  # fmt: skip


def stored(path: Path) -> list[str]:
    """The candidates tried, in order."""
    with Database(path) as db:
        return [f"{r.sketch} {r.decisions}" for r in db.records() if not r.is_final]


def two_tuners(path: Path, trials: int, more: int, seed: int):
    """One that has stored its first trial, and one that waits for it."""
    first = tuner(path, trials, 0, "waits")
    assert first.stdout.readline() == "stored\n"
    second = tuner(path, more, seed)
    line = second.stderr.readline()
    assert f"another tuner (process {first.pid}) is searching for 'scaled' in this" in line
    assert "waiting for it, then using its trials" in line
    return first, second


def test_two_tuners_with_different_seeds_share_the_work(tmp_path):
    path = tmp_path / "tuning.db"
    first, second = two_tuners(path, 3, 5, seed=1)
    (out, err), (out2, err2) = first.communicate(timeout=120), second.communicate(timeout=120)
    assert (first.returncode, second.returncode) == (0, 0), err + err2
    assert out.split()[:2] == ["3", "3"] and out2.split()[:2] == ["5", "2"]
    assert "is searching for" not in err + err2
    assert len(stored(path)) == len(set(stored(path))) == 5
    assert not list(tmp_path.glob("*.lock"))


def test_a_killed_tuner_hands_over_and_nothing_is_tried_again(pretended, tmp_path):
    path = tmp_path / "tuning.db"
    first, second = two_tuners(path, 5, 5, seed=0)
    first.kill()
    first.communicate()
    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, err
    assert out.split()[:2] == ["5", "4"]
    whole = tmp_path / "whole.db"
    tune(
        scaled(), trials=5, database=whole, strategy="random", cost_model="random", settings=BRIEF,
        progress=False,
    )  # fmt: skip
    assert stored(path) == stored(whole)


def test_a_program_that_is_told_to_end_leaves_its_trials_alone(tmp_path):
    path = tmp_path / "tuning.db"
    first = tuner(path, 3, 0, "waits")
    assert first.stdout.readline() == "stored\n"
    first.terminate()
    _, err = first.communicate(timeout=120)
    assert first.returncode == -signal.SIGTERM, err
    assert len(stored(path)) == 1 and not list(tmp_path.glob("*.lock"))


def test_what_the_first_found_is_enough_for_the_second(pretended, tmp_path):
    path = tmp_path / "tuning.db"
    results = []

    def run():
        results.append(tune(scaled(), trials=2, database=path, settings=BRIEF, progress=False))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r.measured for r in results) == [0, 2]
    assert results[0].record.id == results[1].record.id


def test_one_at_a_time_and_only_for_the_same(tmp_path):
    path, told, order = tmp_path / "tuning.db", [], []
    begun, waited_for = threading.Event(), threading.Event()

    def other():
        with search_turn(path, "f", ("f",), lambda text: None):
            begun.set()
            waited_for.wait(60)
            order.append("other")

    def report(text):
        told.append(text)
        waited_for.set()

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    with search_turn(path, "g", ("g",), told.append):
        order.append("different")
    (tmp_path / "link.db").symlink_to(path)
    with search_turn(tmp_path / "link.db", "f", ("f",), report):
        order.append("same")
    thread.join()
    assert order == ["different", "other", "same"] and len(told) == 1


def test_many_turns_at_once(tmp_path):
    inside, most = [], []

    def work():
        for _ in range(5):
            with search_turn(tmp_path / "tuning.db", "f", ("f",), lambda text: None):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.002)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(most) == 20 and not list(tmp_path.glob("*.lock"))


def test_files_of_dead_tuners_go_and_those_of_others_stay(tmp_path):
    """A tuner that is killed leaves its file, whatever it searched for."""
    path, code = tmp_path / "tuning.db", "import os, signal\nfrom pathlib import Path\n"
    code += "from autotune.tuning.turns import search_turn\n"
    code += f"with search_turn(Path({str(path)!r}), 'f', ('f',), print):\n"
    code += "    os.kill(os.getpid(), signal.SIGKILL)\n"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)})
    mine = [tmp_path / name for name in ("tuning.db.lock", "tuning.db.mine.lock", "other.db.lock")]
    (dead,) = tmp_path.glob("*.lock")
    for file in (*mine, tmp_path / dead.name.replace("tuning", "other")):
        file.touch()
    before = {*tmp_path.iterdir()}
    with search_turn(path, "g", ("g",), pytest.fail):
        with search_turn(path, "h", ("h",), pytest.fail):
            assert len({*tmp_path.iterdir()} - before) == 2
    assert {*tmp_path.iterdir()} == before - {dead}


@pytest.mark.parametrize("handler", ["", "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"])
def test_who_is_told_to_end_leaves_nothing(tmp_path, handler):
    """Turns inside of one another, as of several functions; a handler of the program is kept."""
    code = "import os, signal, sys\nfrom pathlib import Path\n"
    code += f"from autotune.tuning.turns import search_turn\n{handler}"
    code += f"path = Path({str(tmp_path / 'tuning.db')!r})\n"
    code += "with search_turn(path, 'f', ('f',), print), search_turn(path, 'g', ('g',), print):\n"
    code += "    print(len(list(path.parent.glob('*.lock'))), flush=True)\n"
    code += "    os.kill(os.getpid(), signal.SIGTERM)\n"
    code += "    print('later')\n"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7 if handler else -signal.SIGTERM, "2\n"), done.stderr
    assert not list(tmp_path.iterdir())


def test_the_usual_end_is_back_after_a_turn(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with search_turn(tmp_path / "tuning.db", "f", ("f",), pytest.fail):
        assert (signal.getsignal(signal.SIGTERM) is not before) == (before is signal.SIG_DFL)
    assert signal.getsignal(signal.SIGTERM) is before


def test_where_nothing_can_be_locked_the_search_goes_on(tmp_path):
    with search_turn(tmp_path / "no" / "tuning.db", "f", ("f",), lambda text: None):
        pass
    with pytest.raises(KeyError), search_turn(Path(":memory:"), "f", ("f",), lambda text: None):
        raise KeyError


def test_a_file_that_another_one_is_making_is_read_as_a_whole(tmp_path, monkeypatch):
    """Its head and its tables are of one moment, whoever writes between two questions."""
    path, reads = tmp_path / "tuning.db", []
    pragma = storage._pragma

    def while_another_makes_it(connection, name):
        value = pragma(connection, name)
        if not reads:
            reads.append(name)
            other = sqlite3.connect(path, timeout=0, isolation_level=None)
            with contextlib.suppress(sqlite3.OperationalError):  # it is locked: it has to wait
                storage.migrate(other, path)
            other.close()
        return value

    monkeypatch.setattr(storage, "_pragma", while_another_makes_it)
    connection = storage.open_writing(path)
    assert reads and storage.version_of(connection, path) == storage.VERSION
    connection.close()
