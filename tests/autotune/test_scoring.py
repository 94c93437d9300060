"""Features found by other processes are those that are found here, and so is the search."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from autotune.cost_model import make_cost_model
from autotune.measure import Measurer
from autotune.measure.builders import Waiting
from autotune.measure.design import Made
from autotune.measure.process import Reply
from autotune.measure.scoring import Scoring, outline, scheduled_program, wanted_features
from autotune.rules import default_candidates, make_space
from autotune.search import SearchState, evolutionary
from autotune.search.state import MANY, score
from autotune.space import Space
from backends import resolve
from tensorir import Costs, device_of, ops, te
from tests.brief import BRIEF

TARGET = resolve("c")
TWO = replace(BRIEF, build_jobs=2)


def linear(symbolic: bool = True):
    size = te.var("n") if symbolic else 24
    x = te.placeholder((size, 40), name="X")
    w = te.placeholder((48, 40), name="W")
    return te.create_prim_func([x, w, ops.linear(x, w)], name="linear")


def scored(space, extract, count, seed=0):
    rng = random.Random(seed)
    candidates = [space.sample(rng) for _ in range(count)]
    return candidates, [score(space.build, extract, c, scheduled_program) for c in candidates]


@pytest.fixture(scope="module")
def measurer():
    """Its workers are started once: each message tells of which space it speaks."""
    with Measurer(linear(), str(TARGET), TWO, sizes={"n": 8}) as made:
        yield made


@pytest.mark.parametrize("numerics", ["mixed", "bitwise"])
def test_workers_find_the_same(measurer, numerics):
    func = linear()
    space = make_space(func, device_of(TARGET), numerics)
    extract = wanted_features(TARGET, (), numerics)
    candidates, here = scored(space, extract, 6)
    there = measurer.features(candidates, numerics, outline(space, TARGET))
    assert there is not None and len(there) == len(here)
    for (row, why, program), (other, reason, same) in zip(here, there):
        assert (why, program) == (reason, same) and bool(program) == (row is not None)
        assert (row is None) == (other is None)
        assert row is None or (row.dtype == other.dtype and np.array_equal(row, other))
    with pytest.warns(UserWarning, match="workers know other schedules"):
        assert measurer.features(candidates, numerics, "another outline") is None


def test_workers_know_the_space_of_other_costs(measurer):
    """Its choices have other values, and workers are told by what."""
    func = linear()
    costs = Costs(copy_turned=50.0, ports=0.25, tile=200.0)
    space = make_space(func, device_of(TARGET, costs))
    assert outline(space, TARGET) != outline(make_space(func, device_of(TARGET)), TARGET)
    candidates = [space.sample(random.Random(0))]
    with pytest.warns(UserWarning, match="workers know other schedules"):
        assert measurer.features(candidates, "mixed", outline(space, TARGET)) is None
    assert measurer.features(candidates, "mixed", outline(space, TARGET), costs) is not None


def test_a_worker_finds_the_identity_of_a_program_once(monkeypatch):
    """For its features, and where it is built."""
    asked = []
    monkeypatch.setattr(
        "autotune.measure.scoring.program_key", lambda func: str(asked.append(func))
    )
    space = make_space(linear(), device_of(TARGET))
    first, other = (
        space.build(c) for c in (default_candidates(space)[0], space.sample(random.Random(1)))
    )
    assert scheduled_program(first) == Made.of(first).program and asked == [first.func]
    assert scheduled_program(other) and asked == [first.func, other.func]


def test_workers_are_renewed_for_what_they_build_alone():
    """They tell the features of many more candidates, and a new one makes the space again."""
    func = linear(symbolic=False)
    space = make_space(func, device_of(TARGET))
    candidates = [space.sample(random.Random(seed)) for seed in range(4)]
    with Measurer(func, str(TARGET), replace(TWO, restart_every=1)) as measurer:
        pool, pids = measurer._start_builders(), []
        for _ in range(3):
            assert measurer.features(candidates, "mixed", outline(space, TARGET)) is not None
            pids.append([worker.pid for worker in pool._workers])
        assert pids[0] == pids[1] == pids[2]
        built = pool.request([{"op": "build", "text": str(func)}] * 4)
        assert [reply.data["status"] for reply in built] == ["ok"] * 4
        assert [worker.pid for worker in pool._workers] != pids[0]


def test_workers_begin_with_the_space_before_they_are_asked():
    func = linear(symbolic=False)
    space = make_space(func, device_of(TARGET))
    with Measurer(func, str(TARGET), TWO) as measurer:
        measurer.begin("mixed", outline(space, TARGET))
        pool = measurer._start_builders()
        answers = [begun.result() for begun in pool._begun]
        assert [reply.data for reply in answers] == [{"status": "ok", "rows": []}] * 2
        pids = [worker.pid for worker in pool._workers]
        candidates = [space.sample(random.Random(seed)) for seed in range(4)]
        assert measurer.features(candidates, "mixed", outline(space, TARGET)) is not None
        assert pids == [worker.pid for worker in pool._workers]


def test_workers_that_begin_end_with_the_measurer():
    func = linear(symbolic=False)
    with Measurer(func, str(TARGET), TWO) as measurer:
        measurer.begin("mixed", "whatever")
        pool = measurer._start_builders()
        begun = pool._begun
    assert len(begun) == 2 and all(each.done() for each in begun)
    assert [worker.pid for worker in pool._workers] == [None, None]


def test_who_has_scored_a_candidate_builds_it():
    """Its schedule is there; who has nothing left takes what another would come to last."""
    scored = [["a", "b", "c", "d"], ["e"]]
    wanted = [["e"], ["x"], ["a"], ["b"], [], ["c"]]
    waiting = Waiting(wanted, scored)
    assert [waiting.take(0), waiting.take(1), waiting.take(0)] == [2, 0, 3]
    assert [waiting.take(1), waiting.take(1), waiting.take(1)] == [1, 4, 5]
    assert waiting.take(0) is waiting.take(1) is None


def test_a_candidate_that_was_scored_is_not_scheduled_again(monkeypatch):
    built = []
    build = Space.build
    monkeypatch.setattr(Space, "build", lambda self, c: built.append(c) or build(self, c))
    scoring = Scoring(str(linear(symbolic=False)), str(TARGET), (), "mixed")
    candidate = scoring.space.sample(random.Random(0))
    message = {"outline": scoring.outline}
    answer = scoring.answer({**message, "candidates": [candidate.as_json()]})
    assert answer["status"] == "ok"
    found = scoring.schedule({**message, "candidate": candidate.as_json()})
    assert found is not None and built == [candidate]
    assert scheduled_program(found) == answer["rows"][0][2]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply("died", "build", {}, "the process died of SIGSEGV"), "crash: .*SIGSEGV"),
        (Reply("timeout", "build", {}), "build_timeout: .* longer than 60 s"),
        (Reply("answer", "build", {"status": "error", "error": "KeyError: 3"}), "error: KeyError"),
    ],
    ids=lambda each: getattr(each, "outcome", ""),
)
def test_a_worker_that_fails_is_told_of(measurer, monkeypatch, reply, told):
    """The search goes on without it, and takes longer."""
    monkeypatch.setattr(measurer._start_builders(), "request", lambda messages: [reply])
    space = make_space(linear(), device_of(TARGET))
    candidates = [space.sample(random.Random(0))]
    with pytest.warns(UserWarning, match=f"found no features of candidates.*{told}"):
        assert measurer.features(candidates, "mixed", outline(space, TARGET)) is None


def test_one_processor_scores_alone():
    func = linear(symbolic=False)
    space = make_space(func, device_of(TARGET))
    with Measurer(func, str(TARGET), BRIEF) as measurer:
        candidates = [space.sample(random.Random(0))]
        assert measurer.features(candidates, "mixed", outline(space, TARGET)) is None
        assert measurer._builders is None


def test_outlines_differ_where_spaces_do():
    x = te.placeholder((24, 640), name="X")
    func = te.create_prim_func([x, ops.sum(x, 1)], name="sums")  # whose lanes are reassociated
    spaces = [make_space(func, device_of(TARGET), n) for n in ("mixed", "bitwise")]
    assert outline(spaces[0], TARGET) == outline(make_space(func, device_of(TARGET)), TARGET)
    assert outline(spaces[0], TARGET) != outline(spaces[1], TARGET)
    other = resolve("c -l2=65536")
    assert outline(spaces[0], TARGET) != outline(spaces[0], other)


class TestSearch:
    """Proposals with `ahead` are those without it."""

    @staticmethod
    def proposals(ahead):
        func = linear(symbolic=False)
        space = make_space(func, device_of(TARGET))
        extract = wanted_features(TARGET, (), "mixed")
        asked: list[int] = []

        def many(candidates):
            asked.append(len(candidates))
            return ahead(space, extract, candidates)

        state = SearchState(
            make_cost_model("auto", 0), extract, defaults=default_candidates(space),
            ahead=many if ahead else None,
        )  # fmt: skip
        found = []
        few = evolutionary.Evolution(builds=64)
        for batch in range(2):
            made = evolutionary.propose(space, state, 4, random.Random(batch), few)
            for number, candidate in enumerate(made):
                state.add(candidate, 1e-3 * (1 + number + batch))
            found.append(made)
        return found, asked, state

    def test_are_the_same(self):
        alone, _, one = self.proposals(None)
        together, asked, two = self.proposals(lambda s, e, cs: [score(s.build, e, c) for c in cs])
        assert alone == together
        assert asked and min(asked) >= MANY
        assert one.refusals == two.refusals and one.builds == two.builds

    def test_go_on_where_workers_fail(self):
        alone, _, _ = self.proposals(None)
        together, asked, state = self.proposals(lambda space, extract, candidates: None)
        assert alone == together
        assert len(asked) == 1 and state.ahead is None
