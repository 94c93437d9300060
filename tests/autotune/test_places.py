"""Executors that build, and runners: candidates are built and run where the user says."""

from __future__ import annotations

import inspect
import os
import re
import signal
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import fields, replace
from functools import partial
from inspect import get_annotations
from unittest.mock import patch

import pytest

from autotune import Database, MeasureError, tune, tune_all, tune_family
from autotune.measure.places.executors import ExecutorBuilders
from autotune.measure.places.remote import Answer, made_with
from autotune.measure.places.runner import LocalRunner, Runner
from autotune.measure.process import Reply
from autotune.tuning.options import Options, OptionsGiven
from backends import default_cache
from tensorir import TensorIRError, te
from tests.brief import BRIEF
from tests.fuzz.killed_searches import twice

FAST = replace(BRIEF, build_jobs=2)
ALIKE = {
    "database": None, "settings": FAST, "progress": False,
    "strategy": "random", "cost_model": "random",
}  # fmt: skip
GIVEN = {**ALIKE, "shipped": False}


def scaled():
    a = te.placeholder((te.var("n"),), name="A")
    return te.create_prim_func([a, te.compute(a.shape, lambda i: a[i] * 2.0, name="B")])


WAYS = [(tune, (twice(),)), (tune_all, ([twice()],)), (tune_family, (scaled(), {"n": [4, 8]}))]
"""Each function that searches, with what it cannot do without."""


class Watched(LocalRunner):
    """This machine; `asked` has what its slot was asked for."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def slot(self, start_message, env):
        slot = super().slot(start_message, env)
        request = slot.request

        def watched(message, limits):
            self.asked.append(message)
            return request(message, limits)

        slot.request = watched
        return slot


def test_an_executor_builds_and_a_runner_runs():
    runner = Watched()
    assert isinstance(runner, Runner)
    with ThreadPoolExecutor(1) as executor:
        result = tune(twice(), trials=2, builder=executor, runner=runner, **GIVEN)
        assert executor.submit(int, "3").result() == 3  # it is not ours to shut down
    assert result.trials == 2 and set(result.statuses) <= {"ok", "pruned"}
    kinds = [message["op"] for message in runner.asked]
    assert kinds.count("measure") >= 2 and "race" in kinds
    measured = [message for message in runner.asked if message["op"] == "measure"]
    assert all(message["source"] for message in measured)  # all were built ahead


class Inline(Executor):
    """Gives what `answer` gives."""

    def __init__(self, answer):
        self.answer = answer

    def submit(self, fn, *args, **kwargs):
        future = Future()
        try:
            future.set_result(self.answer(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def builders(answer):
    start = {"builder": "b", "target": "c", "definition": "", "reference": None}
    env, limits = {"TMPDIR": "/x", "A": "1"}, {"build": 9.0}
    return ExecutorBuilders(Inline(answer), 2, start, env, limits, 7, None)


def test_objects_of_workers_elsewhere_come_back(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path))
    asked = []

    def answer(question, made=None):
        asked.append(question)
        key = f"{len(asked):040d}"
        reply = Reply("answer", "build", {"number": len(asked)})
        return Answer(reply, (key, b"object"), made or made_with("c"))

    replies = builders(answer).request([{"op": "build", "text": "a"}, {"op": "build", "text": "b"}])
    assert [reply.data["number"] for reply in replies] == [1, 2]
    assert default_cache().find(f"{2:040d}").read_bytes() == b"object"
    assert [q.message["text"] for q in asked] == ["a", "b"]
    assert asked[0].env == {"A": "1"} and asked[0].restart == 7  # folders here are none there
    with pytest.warns(UserWarning, match="another compiler, or a processor with other features"):
        builders(partial(answer, made="another")).request([{"op": "build", "text": "a"}])


@pytest.mark.parametrize("error", [BrokenExecutor("died"), ModuleNotFoundError("no autotune")])
def test_an_executor_that_fails_is_said(error):
    def answer(question):
        raise error

    with pytest.raises(MeasureError, match=f"{type(error).__name__}.*finished trials are stored"):
        builders(answer).request([{"op": "build", "text": "a"}])


@pytest.mark.parametrize(("call", "given"), WAYS)
def test_each_way_to_tune_hands_on_builder_and_runner(call, given, monkeypatch):
    runner = LocalRunner()

    def asked(*args, workers, **options):
        raise MeasureError(f"asked {workers.builder is executor and workers.runner is runner}")

    monkeypatch.setattr("autotune.tuning.search.Measurer", asked)
    with ThreadPoolExecutor(1) as executor, pytest.raises(MeasureError, match="asked True"):
        call(*given, builder=executor, runner=runner, **ALIKE)


@pytest.mark.parametrize(("call", "given"), WAYS)
def test_each_way_to_tune_takes_the_same_options(call, given):
    taken = inspect.signature(call).parameters
    for field in fields(Options):
        assert taken[field.name].default == field.default
        assert re.search(rf"\b{field.name}\b", call.__doc__.partition("How to search")[2])
    assert {field.name for field in fields(Options)} == set(get_annotations(OptionsGiven))
    with pytest.raises(TypeError, match="keyword argument 'strateg'; beside .* options are num"):
        call(*given, strateg="random")


def test_what_is_no_executor_and_no_runner():
    with pytest.raises(TensorIRError, match="builder must be a concurrent.futures.Executor"):
        tune(twice(), builder=3, **GIVEN)
    with pytest.raises(TensorIRError, match=r"runner must be a runner such as .*DaskRunner"):
        tune(twice(), runner=3, **GIVEN)


class Elsewhere(Watched):
    def check(self):
        raise MeasureError("the device is another one")


def test_a_device_of_another_kind_is_refused():
    with pytest.raises(MeasureError, match="the device is another one"):
        tune(twice(), trials=2, runner=Elsewhere(), **GIVEN)


def test_a_worker_of_a_cluster_dies_in_mid_tuning(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    from autotune.measure.places.clusters import DaskRunner, dask_builder

    monkeypatch.setattr("autotune.tuning.batches.BATCH", 2)
    start = partial(
        distributed.LocalCluster, n_workers=2, threads_per_worker=1, dashboard_address=None,
        local_directory=str(tmp_path),
    )  # fmt: skip
    # Dask limits the threads of this process too, and of the tests that follow
    with patch.dict(os.environ), start() as cluster, distributed.Client(cluster) as client:
        runner, killed = DaskRunner(client), []
        add = Database.add

        def add_and_kill(db, record):
            add(db, record)
            if not killed:
                killed.append(runner.pick(()))
                os.kill(client.run(os.getpid, workers=killed)[killed[0]], signal.SIGKILL)

        monkeypatch.setattr(Database, "add", add_and_kill)
        result = tune(twice(), trials=3, builder=dask_builder(client), runner=runner, **GIVEN)
    assert killed and result.trials == 3
    assert set(result.statuses) <= {"ok", "pruned"} and result.record.is_final
