"""The page of a report: it stands alone, its numbers are the database's, and browsers show it."""

from __future__ import annotations

import ast
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from autotune import figures, summarize
from autotune.cli import main
from autotune.database.database import Database
from autotune.report import facts
from autotune.report.facts import OWN, algorithms, algorithms_of, decisions, explained, sketches
from autotune.report.figures import FIGURES, as_svg
from autotune.report.hot_loop import hot_loop
from autotune.report.summary import hints_text, spent_text
from tensorir import TensorIRError

pytest.importorskip("matplotlib")


class Page(HTMLParser):
    """What a page refers to, its tags, the cells of its trials, and its texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.rows: dict[str, list[str | None]] = {}
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "srcset", "action", "data")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.row = self.rows.setdefault(given.get("id", ""), [])
        if tag == "td":
            self.row.append(given.get("data-seconds"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} is closed out of turn"

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def database(made_records, tmp_path_factory) -> Path:
    from autotune.examples import make_example

    records = made_records(make_example("matmul", {"m": 16, "n": 16, "k": 16}))
    odd = records[4].with_(error='<script src="http://x/y.js">alert(1)</script> & "so on"')
    spent = {"proposing": 1.0, "timing": 2.5, "race": 0.5}
    told = {"final": True, "phases": spent, "hints": "2 of matmul 8x8: 1 of 2 tried"}
    races = [records[n].with_(settings=told, median=s, session="race")
             for n, s in ((7, 1.5e-3), (0, 8.5e-3))]  # fmt: skip
    path = tmp_path_factory.mktemp("page") / "t.db"
    with Database(path) as db:
        db.add_many([*records[:4], odd, *records[5:], *races])
    return path


@pytest.fixture(scope="module")
def written(database) -> Path:
    path = database.with_name("page.html")
    assert main(["report", "matmul", "--database", str(database), "--html", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def read(written) -> Page:
    return Page(written.read_text(encoding="utf-8"))


def test_it_stands_alone(read, written):
    assert read.open == [], "all that was opened is closed"
    assert read.links and all(link.startswith("data:image/svg+xml;base64,") for link in read.links)
    assert not {"script", "link", "iframe", "object", "form", "base"} & set(read.tags)
    style = written.read_text().partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style and "@import" not in style
    assert any('<script src="http://x/y.js">' in text for text in read.texts), "as a text"


def test_its_numbers_are_those_of_the_database(read, database):
    with Database(database) as db:
        trials = [r for r in db.records() if not r.is_final]
        races = {str(r.decisions): r.median for r in db.records() if r.is_final}
    assert set(read.rows) - {""} == {r.id for r in trials}
    for record in trials:
        race = races.get(str(record.decisions)) if record.status == "ok" else None
        shown = [None if cell is None else float(cell) for cell in read.rows[record.id][3:6]]
        assert shown == [race, record.median, record.predicted]
    words = " ".join(read.texts)
    assert "1.5 ms" in words and "8.5 ms" in words, "best and default, of the race"
    assert "died of SIGSEGV" not in words and "wrong_result" in words


def test_it_tells_what_the_seconds_were_spent_in(read, database):
    assert "4.0 s: proposing 25%, timing 62%, race 12%" in read.texts
    with Database(database) as db:
        records = db.records()
    for told in (None, "long", {}, {"race": "long"}, {"race": -1.0}):
        odd = [r.with_(settings={**r.settings, "phases": told}) for r in records]
        assert spent_text(odd) == ""


def test_it_tells_where_hints_are_from(read, database):
    assert "2 of matmul 8x8: 1 of 2 tried" in read.texts
    with Database(database) as db:
        records = db.records()
    earlier = [r.with_(settings={"final": True}) for r in records if r.is_final]
    assert hints_text(records) and hints_text(earlier) == ""


def test_the_winner_is_there_to_be_run(read, database, capsys):
    titles = [t for t in read.texts if t.startswith(("a Python file", "its ", "the "))]
    assert titles[:4] == [
        "a Python file that builds, checks and times it", "its steps", "the scheduled program",
        "its source",
    ]  # fmt: skip
    script = next(t for t in read.texts if t.startswith('"""matmul'))
    ast.parse(script)
    words = ["best", "matmul", "--shape", "m=16", "n=16", "k=16", "--database", str(database)]
    main([*words, "--show", "schedule"])
    assert capsys.readouterr().out.strip() == script.strip()


def test_a_browser_shows_it(written, tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if browser is None:
        pytest.skip("no chromium: what the page refers to is tested without one")
    picture = tmp_path / "page.png"
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,2400",
            f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}", written.as_uri(),
        ],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert picture.exists(), done.stderr
    from matplotlib.image import imread

    shown = imread(picture)[..., :3]
    assert shown.shape[0] >= 1200
    dark = (shown.min(axis=2) < 0.5).mean(axis=1)
    assert (dark > 0).mean() > 0.3, "text and figures down the page"
    coloured = (shown.max(axis=2) - shown.min(axis=2) > 0.2).sum()
    assert coloured > 500, "the figures were drawn"


def test_figures_in_a_notebook(database):
    with Database(database) as db:
        report = summarize(db.records())
    drawn = figures(report)
    assert {"search", "predictions", "worth", "noise"} <= set(drawn) <= set(FIGURES)
    assert as_svg(drawn["search"]) == as_svg(figures(report)["search"]), "the same each time"
    labels = [t.get_text() for t in drawn["search"].axes[0].get_legend().get_texts()]
    assert labels == ["trial", "best so far", "failed", "in the race", "default schedule"]


@pytest.mark.parametrize("race", [False, True])
def test_where_no_trial_succeeded(race, database, tmp_path):
    """A race alone is no trial: those that it was of may be of another machine, or pruned."""
    with Database(database) as db:
        records = db.records()
    failed = [r for r in records if r.status != "ok"]
    if race:
        ok = next(r for r in records if r.status == "ok")
        failed = [replace(ok, settings={"final": True}, id="", text="")]
    with pytest.raises(TensorIRError, match="no trial succeeded"):
        figures(summarize(failed))
    path = str(tmp_path / "failed.db")
    with Database(path) as db:
        db.add_many(failed)
    page = tmp_path / "page.html"
    assert main(["report", "matmul", "--database", path, "--html", str(page)]) == 1
    assert not page.exists()


def test_what_a_choice_explains():
    times = np.log([1.0, 1.0, 2.0, 2.0, 4.0, 4.0])
    assert explained(["a", "a", "b", "b", "c", "c"], times) == pytest.approx(1.0)
    assert explained(["x"] * 6, times) is None, "one value"
    assert explained(list("abcdef"), times) is None, "each trial has its own"
    rng = np.random.default_rng(0)
    shares = [explained(list(rng.choice(list("pqrs"), 60)), rng.normal(size=60)) for _ in range(50)]
    assert np.mean(shares) < 0.05, "chance explains nothing, however many values there are"


def test_the_choice_that_decides_times_comes_first(database, monkeypatch):
    with Database(database) as db:
        first = db.records()[0]
    monkeypatch.setattr(facts, "choice_names", lambda report: {"s": ("tile", "order", "only")})
    trials = [
        first.with_(sketch="s", decisions=[n % 4, n // 4 % 2, 7], median=float(2 ** (n % 4)))
        for n in range(16)
    ]
    found = decisions(summarize(trials))
    assert [(d.name, d.values, d.trials) for d in found] == [("tile", 4, 16), ("order", 2, 16)]
    assert found[0].share == pytest.approx(1.0) and found[0].best == "0"
    assert found[1].share == 0.0
    assert decisions(summarize(trials[:7])) == []


def test_worth_of_sketches_and_algorithms(database):
    with Database(database) as db:
        records = db.records()
    step = ["use_algorithm", {"block": "C", "algorithm": "winograd_2x4"}, "C"]
    other = records[1].with_(sketch="other", trace=[step, *records[1].trace], median=1e-4)
    report = summarize([*records, other])
    assert algorithms_of(other) == "winograd_2x4" and algorithms_of(records[1]) == OWN
    assert [(w.name, w.trials, w.ok) for w in algorithms(report)] == [
        ("winograd_2x4", 1, 1), (OWN, 8, 6),
    ]  # fmt: skip
    assert sketches(report)[0].name == "other" and sketches(report)[0].seconds == 1e-4


X86 = """kernel:
\t.cfi_startproc
.L2:
\tmovq\t%rax, %rbx
.L3:
\tvmovups\t(%rsi), %zmm1
\tvfmadd231ps\t(%rdi), %zmm1, %zmm0
\taddq\t$64, %rsi
\tcmpq\t%rsi, %rdx
\tjne\t.L3
\taddq\t$1, %rcx
\tjne\t.L2
.L4:
\tmovb\t$1, (%rax)
\tje\t.L4
\tret
"""

ARM = """kernel:
.L3:
\tldr\tq1, [x0]
\tfmla\tv0.4s, v1.4s, v2.4s
\tsubs\tx3, x3, 1
\tb.ne\t.L3
\tcbnz\tx5, .L9
"""


def test_the_hot_loop():
    assert hot_loop(X86).splitlines()[0] == ".L3:" and "jne" in hot_loop(X86).splitlines()[-1]
    assert len(hot_loop(X86).splitlines()) == 6, "the innermost, not what is around it"
    assert "fmla" in hot_loop(ARM) and hot_loop(ARM).splitlines()[-1].split() == ["b.ne", ".L3"]
    assert hot_loop("kernel:\n\tret\n") == ""
    long = ".L1:\n" + "\tvaddps\t%a, %b, %c\n" * 300 + "\tjne\t.L1\n"
    lines = hot_loop(long).splitlines()
    assert len(lines) == 81 and "more lines" in lines[-2] and "jne" in lines[-1]
