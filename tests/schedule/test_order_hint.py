"""What an error says about another order of requests was tried, and is done here as it says."""

from __future__ import annotations

import ast
import pickle
import re

import numpy as np
import pytest

from schedule import Schedule, ScheduleError, Trace
from tensorir import interpret, te


def rolled(n=12):
    A = te.placeholder((n + 2,), name="A")
    B = te.compute((n + 2,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    sch = Schedule(te.create_prim_func([A, C], name="blur"))
    sch.compute_at("B", "i_C")
    sch.rolling_buffer("B")
    return sch


def definition(n=12):
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    return Schedule(te.create_prim_func([A, C], name="f"))


def pipelined(n=12):
    sch = definition(n)
    sch.compute_at("B", "i_C")
    sch.pipeline("i_C", [0, 1])
    return sch


def refused(sch, name, *args):
    func, trace = sch.func, sch.trace
    with pytest.raises(ScheduleError) as caught:
        getattr(sch, name)(*args)
    assert sch.func is func and sch.trace is trace
    return caught.value


def same(sch, other):
    a = np.arange(sch.func.params[0].shape[0].value, dtype="float32")
    assert np.array_equal(interpret(sch.func, a)[0], interpret(other.func, a)[0])


STEP = r"step (\d+), (\w+\(.*?\))"
SPLIT = re.compile(
    rf"split '(\w+)'( and (\w+) the outer loop)? before {STEP}, of the inner loop(.*)"
)
BEFORE = re.compile(
    rf"(\w+\(.*\)) before {STEP}(?:, and from there on '(\w+)' in place of '(\w+)')?$"
)
LEAVE = re.compile(rf"leave out {STEP}: they do not go together$")


def follow(sch, name, args, hint):
    """A schedule on which the hint was followed; which kind of hint it was."""
    steps = sch.trace.instructions
    trial = sch.copy()

    def back(place, said):
        step = steps[int(place) - 1]
        assert ast.dump(ast.parse(said)) == ast.dump(ast.parse(str(step).partition(" -> ")[0]))
        trial.undo(len(steps) - int(place) + 1)
        return steps[int(place) - 1 :]

    def redo(rest, old=None, new=None):
        for step in rest:
            values = [new if v == old else v for v in step.args.values()]
            getattr(trial, step.name)(*values)

    if found := LEAVE.match(hint):
        redo(back(*found.groups())[1:])
        getattr(trial, name)(*args)
        return trial, "leave out"
    if found := SPLIT.match(hint):
        loop, early, kind, place, said, late = found.groups()
        rest = back(place, said)
        outer, inner = trial.split(loop, [2, None])
        if early:
            getattr(trial, name)(outer, *args[1:])
        redo(rest, loop, inner)
        if not early:
            assert late == f", and then {name} the outer one"
            getattr(trial, name)(outer, *args[1:])
        return trial, "split"
    found = BEFORE.match(hint)
    assert found, hint
    request, place, said, new, old = found.groups()
    rest = back(place, said)
    trial.apply(Trace.from_python(f"sch.{request}"))
    redo(rest, old, new)
    return trial, "before"


@pytest.mark.parametrize(
    "make, name, args, kind",
    [
        (rolled, "parallel", ("i_C",), "split"),
        (lambda: rolled(13), "parallel", ("i_C",), "leave out"),
        (rolled, "compute_inline", ("B",), "leave out"),
        (rolled, "cache_read", ("C", "B", "local"), "before"),
        (rolled, "cache_write", ("B",), "before"),
        (rolled, "transform_layout", ("B", "B", "i: i // 2, i % 2"), "leave out"),
        (pipelined, "parallel", ("i_C",), "split"),
        (lambda: pipelined(13), "parallel", ("i_C",), "split"),
        (pipelined, "vectorize", ("i_C",), "split"),
        (pipelined, "bind", ("i_C", "threadIdx.x"), "split"),
        (pipelined, "unroll", ("i_C",), "leave out"),
        (pipelined, "cache_read", ("C", "B", "local"), "before"),
        (pipelined, "cache_write", ("B",), "before"),
        (pipelined, "split", ("i_C", [None, 4]), "before"),
        (pipelined, "partition", ("i_C", [1, None]), "before"),
    ],
)
def test_the_order_that_the_hint_names_is_accepted(make, name, args, kind):
    sch = make()
    error = refused(sch, name, *args)
    assert error.hint is not None
    assert error.headline.endswith(error.hint) and f"hint: {error.hint}" in str(error)
    assert pickle.loads(pickle.dumps(error)).hint == error.hint
    trial, found = follow(sch, name, args, error.hint)
    assert found == kind
    same(trial, sch)


def test_where_no_order_helps_the_hint_is_that_of_the_refusal():
    assert refused(rolled(), "parallel", "nowhere").hint is None
    error = refused(rolled(), "storage_align", "B", "B", 0, 4, 1)
    assert error.hint == "align an axis further out"


def test_the_orders_are_tried_when_somebody_reads(monkeypatch):
    tried = []
    monkeypatch.setattr("schedule.requests.order_hint.order_hint", lambda *args: tried.append(args))
    error = refused(rolled(), "parallel", "i_C")
    assert not tried
    assert error.hint is None and tried


def test_a_pipeline_of_one_statement_names_what_could_run_ahead():
    sch = definition()
    error = refused(sch, "pipeline", "i_C", [0, 1])
    assert error.hint == "compute_at('B', 'i_C') first"
    sch.compute_at("B", "i_C")
    sch.pipeline("i_C", [0, 1])
    same(sch, definition())
    sch = definition()
    error = refused(sch, "pipeline", "i", [0, 1])
    assert error.hint == "cache_read('B', 'A', 'local') and compute_at the copy in loop 'i' first"
    sch.compute_at(sch.cache_read("B", "A", "local"), "i")
    sch.pipeline("i", [0, 1])
    same(sch, definition())
