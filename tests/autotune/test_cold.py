"""Times of calls that find nothing in the caches."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from autotune import Database, MeasureSettings, tune
from autotune.cli import main
from autotune.errors import MeasureError
from autotune.examples import make_example
from autotune.measure import Measurer
from autotune.measure.blocks import CALLS, more_calls
from autotune.measure.cold import ColdCaches
from tests.brief import BRIEF

FUNC = make_example("matmul", {"m": 16, "n": 16, "k": 16})
COLD = replace(BRIEF, cache="cold")
SMALL = {"L2": 1 << 16, "L3": 1 << 16}


def test_every_call_is_timed_alone_after_eviction():
    events = []
    with closing(ColdCaches(SMALL)) as caches:
        caches.evict = lambda: events.append("evict")

        def seconds(calls):
            events.append(calls)
            return 2.0

        assert caches.timer(seconds)(3) == 6.0
    assert events == ["evict", 1] * 3


def test_eviction_passes_over_more_than_the_caches_on_each_processor():
    with closing(ColdCaches({"L2": 1 << 16, "L3": 1 << 20})) as caches:
        caches.evict()
        caches.evict()
        assert all((buffer == 3.0).all() for buffer in caches._buffers)
        assert sum(buffer.nbytes for buffer in caches._buffers) >= 2 << 20
        assert all(buffer.nbytes >= 2 << 16 for buffer in caches._buffers)


def test_what_was_in_the_caches_is_gone():
    """The sum of 512 KiB is slower when they come from memory: the best of both, in turns, as many
    as it takes on a busy machine."""
    data = np.ones(1 << 16)
    data.sum()

    def seconds(calls):
        start = time.perf_counter()
        for _ in range(calls):
            data.sum()
        return time.perf_counter() - start

    with closing(ColdCaches()) as caches:
        cold = caches.timer(seconds)
        pairs = [(cold(1), seconds(1))]
        while not (found := fastest(pairs, 0) > 1.1 * fastest(pairs, 1)) and len(pairs) < 200:
            pairs.append((cold(1), seconds(1)))
    assert found


def fastest(pairs, which):
    return min(pair[which] for pair in pairs)


def test_a_block_has_few_calls():
    assert more_calls(1, 1e-6, 10.0, CALLS) == more_calls(CALLS, 5e-6, 10.0, CALLS) == CALLS
    assert more_calls(1, 4e-3, 10.0, CALLS) == more_calls(3, 12e-3, 10.0, CALLS) == 3
    assert more_calls(1, 1.0, 10.0, CALLS) == more_calls(1, 0.0, 0.0, CALLS) == 1


def test_a_candidate_is_timed_in_cold_caches():
    with Measurer(FUNC, settings=COLD) as measurer:
        (result,) = measurer.measure([FUNC])
    assert result.ok and 1 <= result.calls <= CALLS


def test_cold_and_hot_records_do_not_answer_for_each_other(pretended):
    with Database(":memory:") as db:
        options = {"trials": 2, "database": db, "progress": False}
        cold = tune(FUNC, settings=COLD, **options)
        assert cold.measured == 2 and cold.record.conditions.caches == "cold"
        hot = tune(FUNC, settings=BRIEF, **options)
        assert hot.measured == 2 and hot.record.conditions.caches == "warm"
        assert tune(FUNC, settings=COLD, **options).record == cold.record


def test_only_caches_of_processors_can_be_emptied():
    with pytest.raises(MeasureError, match="cache='cold' empties the caches of processors"):
        Measurer(FUNC, "cuda -arch=sm_90", COLD)
    with pytest.raises(MeasureError, match="cache must be one of hot, cold, not 'lukewarm'"):
        MeasureSettings(cache="lukewarm")


def test_the_commands_know_cold_caches(pretended, tmp_path, capsys, monkeypatch):
    """`tune --cache cold` has records of its own, which `best` and `db explain` ask for alike."""
    asked = []

    def recorded(*args, settings, **options):
        asked.append(settings)
        return tune(*args, settings=BRIEF if settings is None else COLD, **options)

    monkeypatch.setattr("autotune.cli.tune.tune", recorded)
    words = ["matmul", "--shape", "m=16", "n=16", "k=16", "--database", str(tmp_path / "db")]
    cold = [*words, "--cache", "cold"]
    assert main(["tune", *cold, "--trials", "2", "--quiet"]) == 0
    assert [settings.cache for settings in asked] == ["cold"]
    assert "--cache cold --database" in capsys.readouterr().out
    for command in (["best"], ["db", "explain"]):
        assert main([*command, *cold]) == 0
        assert main([*command, *words]) == 1
    out = capsys.readouterr()
    assert "caches" in out.out and "cold" in out.out
    assert main(["tune", *words, "--trials", "2", "--quiet"]) == 0
    assert "2 measured now" in capsys.readouterr().out and asked[1] is None
    assert main(["best", *words]) == 0
    assert main(["report", "matmul", "--database", words[-1]]) == 0
    assert capsys.readouterr().out.count(", cold caches") == 1
