"""What users name is written whole or not at all: a full disk leaves what was there."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from autotune.cli.page import write_page
from autotune.cost_model import make_cost_model
from autotune.database.jsonl import write_records
from autotune.report import figures
from autotune.simulate.journal import Journal
from autotune.simulate.recording import Recording
from backends import build
from tensorir import te, whole_file
from tests.autotune.made import record


@contextmanager
def full_disk():
    """No file grows beyond eight bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] + 1.0, name="B")


@pytest.fixture(scope="module")
def kernel():
    return build(te.create_prim_func([A, B], name="x"))


WRITERS = {
    "records": ("x.jsonl", lambda path, _: write_records(path, [record()])),
    "a report": ("x.html", lambda path, _: write_page(SimpleNamespace(best=None), str(path), [])),
    "a plot": ("x.png", lambda path, _: figures.plot(SimpleNamespace(), path)),
    "a kernel": ("x.c", lambda path, kernel: kernel.export(path.parent)),
    "a cost model": ("x.npz", lambda path, _: make_cost_model("gaussian").save(path)),
    "recorded times": ("x.gz", lambda path, _: Recording("x", {}, [], []).write(path)),
}


@pytest.mark.parametrize("what", WRITERS)
def test_a_full_disk_leaves_what_was_there(what, tmp_path, monkeypatch, kernel):
    name, write = WRITERS[what]
    drawn = SimpleNamespace(savefig=lambda path, **_: path.write_bytes(b"picture" * 99))
    monkeypatch.setattr(figures, "search_curve", lambda *_: drawn)
    monkeypatch.setattr("autotune.cli.page.page", lambda *_: "page" * 99)
    path = tmp_path / name
    path.write_text("old")
    with full_disk(), pytest.raises(Exception, match="File too large|Errno 27"):
        write(path, kernel)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [name]
    write(path, kernel)
    assert path.stat().st_size > 8


def test_links_rights_and_devices(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    with whole_file(tmp_path / "link") as draft:
        draft.write_text("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    with whole_file("/dev/null") as draft:
        draft.write_text("gone")
    assert not os.path.isfile("/dev/null")
    reads, writes = os.pipe()
    with whole_file(f"/dev/fd/{writes}") as draft:
        draft.write_text("passed on")
    os.close(writes)
    with open(reads, encoding="utf-8") as pipe:
        assert pipe.read() == "passed on"


def test_a_line_of_a_journal_that_was_cut_off_is_dropped(tmp_path):
    """By itself: the lines before it are not written again, as that may fail."""
    path = tmp_path / "journal"
    Journal(path).add(first=1)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"sec')
    with full_disk():
        assert Journal(path).entries == [{"first": 1}]
    assert path.read_bytes() == whole
