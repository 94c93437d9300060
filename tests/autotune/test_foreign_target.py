"""Tuning for a machine that is not this one."""

from __future__ import annotations

import pytest

from autotune import Database, tune
from autotune.tuning import start
from tensorir import TensorIRError, te


def test_candidates_cannot_be_measured_elsewhere(monkeypatch, tmp_path):
    a = te.placeholder((8,), name="A")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")], name="add")
    monkeypatch.setattr(start, "why_not_here", lambda target: "this machine is a teapot")
    path = tmp_path / "tuning.db"
    with pytest.raises(TensorIRError, match="'c -march=z80' cannot be measured here: this machine"):
        tune(func, target="c -march=z80", trials=1, database=path)
    with Database(path) as db:
        assert db.stats()["records"] == 0
