"""tune_family: who shares a schedule, which region has it, what is kept, and what is refused."""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from autotune import tune_family
from autotune.database.records import Verdict
from autotune.measure import MeasureResult
from autotune.measure.settings import Rounds
from autotune.search import DEFAULT_STRATEGY, policy
from autotune.search.strategies import STRATEGIES
from autotune.tasks.regions import regions
from autotune.tasks.sharing import served, shared
from tensorir import TensorIRError, te
from tests.fuzz.killed_searches import FakeMeasurer, Killed, Run

GIVEN = {"cost_model": "random", "progress": False}
TARGET = (
    "c -threads=2 -vector_bits=512 -l1d=32768 -l2=1048576 -l3=33554432 -features=avx512f,fma"
)
"""All machines draw the same programs, whose times their texts decide."""
SIZES, TRIALS = [4, 30, 1000], 9
FEW = partial(policy.propose, settings=policy.Policy(builds=12))


def total(times, columns):
    return times[:, [0, *columns]].min(axis=1).sum()


def test_few_schedules_serve_all_sizes_nearly_as_well_as_the_best_few():
    rng = np.random.default_rng(0)
    for _ in range(150):
        times = np.exp(rng.normal(size=(rng.integers(1, 9), rng.integers(1, 9))))
        times[:, 1:][rng.random(times[:, 1:].shape) < 0.2] = np.inf
        most = int(rng.integers(1, 4))
        found = shared(times, most)
        assert len(found) <= most and 0 not in found and len(set(found)) == len(found)
        every = [w for n in range(most + 1) for w in combinations(range(1, times.shape[1]), n)]
        assert total(times, found) <= 1.04 * min(total(times, way) for way in every)
        assert all(
            times[at, column] == times[at, [0, *found]].min()
            for at, column in enumerate(served(times, found))
        )
    assert shared(np.array([[1.0, 0.999], [1.0, np.inf]]), 3) == []  # not worth a kernel
    assert shared(np.array([[1.0, 0.5, 0.5]]), 3) == [1]
    assert shared(np.array([[1.0]]), 3) == []


def test_each_measured_size_lies_in_one_region_of_its_own_schedule():
    rng = np.random.default_rng(1)
    for dims in (1, 2, 3):
        names = "nmk"[:dims]
        for _ in range(40):
            sizes = {tuple(map(int, rng.integers(0, 60, dims))) for _ in range(rng.integers(1, 9))}
            given = [(dict(zip(names, each)), int(rng.integers(0, 3))) for each in sorted(sizes)]
            found = regions(given)
            for each, schedule in given:
                assert [r.schedule for r in found if r.holds(each)] == [schedule]
            for _ in range(30):
                any_size = dict(zip(names, map(int, rng.integers(0, 130, dims))))
                near = all(
                    min(s[n] for s, _ in given) <= 2 * size
                    and size <= 2 * max(s[n] for s, _ in given)
                    for n, size in any_size.items()
                )
                assert sum(r.holds(any_size) for r in found) == near
    found = regions([({"n": 16}, 1), ({"n": 30}, 1), ({"n": 100}, 2), ({"n": 1024}, 1)])
    assert [str(r) for r in found] == ["8 <= n <= 54", "55 <= n <= 320", "321 <= n <= 2048"]


def row_sums(name="row_sums"):
    n, k = te.var("n"), te.reduce_axis((0, 24), "k")
    a = te.placeholder((n, 24), name="A")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    return te.create_prim_func([a, b], name=name)


class BySize(FakeMeasurer):
    """A time for each text and each size: small sizes want short texts, large ones long texts."""

    reference = None

    def __init__(self, run, func, *args, sizes, **options):
        super().__init__(SimpleNamespace(), run)
        self.n = sizes["n"]

    def time(self, text):
        length = min(len(text) / 2000, 1.0)
        return (2.0 - length if self.n > 100 else 1.0 + length) * 1e-6 * self.n

    def measure(self, programs, *, on_result, **options):
        self.run.trials += len(programs)
        for index, program in enumerate(programs):
            if self.run.end and self.run.after == 0:
                raise Killed
            self.run.after -= 1
            text = str(program.func)
            seconds, code = self.time(text), blake2b(text.encode()).hexdigest()
            checked = Verdict(True, 0.0, 1e-5)
            result = MeasureResult("ok", "", (seconds,), seconds, checked, source_hash=code)
            on_result(index, result)

    def race(self, programs, rounds, before):
        times = [self.time(str(program.func)) for program in programs]
        return Rounds(tuple((time,) * rounds for time in times), (False,) * rounds)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A family in `path`, of times that are made up; killed after so many of its measurements."""
    folder = tmp_path_factory.mktemp("families")

    def run(path="family.db", after=None, **given):
        ran = Run(0, "" if after is None else "killed", after or 0)
        options = {"target": TARGET, "trials": TRIALS, "database": folder / path, **GIVEN, **given}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("autotune.tuning.session.is_current", lambda *given: True)
            patch.setattr("autotune.tuning.search.Measurer", partial(BySize, ran))
            patch.setitem(STRATEGIES, DEFAULT_STRATEGY, FEW)
            return tune_family(row_sums(), {"n": SIZES}, **options), ran.trials

    return run


@pytest.fixture(scope="module")
def family(tuned):
    found, measured = tuned()
    assert measured == found.measured > TRIALS
    return found


def test_sizes_share_few_schedules(family):
    assert [member.sizes["n"] for member in family.members] == SIZES
    assert 2 <= len(family.records) <= 4
    small, large = family.members[0], family.members[-1]
    assert small.schedule != large.schedule
    assert all(m.best <= m.seconds <= m.default and m.regret >= 0 for m in family.members)
    for member in family.members:
        assert family.schedule_for(**member.sizes) == member.schedule
    assert family.schedule_for(n=0) == family.schedule_for(n=10**6) == 0
    lines = repr(family).splitlines()
    assert lines[0].split()[:2] == ["sizes", "schedule"] and lines[1].split()[0] == "n=4"
    assert lines[-1].startswith("mean regret") and lines[-2].startswith("schedule 0, the default")
    with pytest.raises(TensorIRError, match="depends on 'n': give it too"):
        family.schedule_for()
    with pytest.raises(TensorIRError, match="sizes has 'm'"):
        family.schedule_for(m=3)


def test_a_later_call_measures_nothing(family, tuned):
    again, measured = tuned(kernels=1)
    assert measured == again.measured == 0 and again.from_database
    assert len(again.records) <= 2 and again.regret >= family.regret
    assert [m.best for m in again.members] == [m.best for m in family.members]


def test_the_kernel_is_right_for_every_size(family):
    kernel = family.build()
    for n in (0, 1, 2, 3, *SIZES, 77, 101, 2001, 4099):
        a = np.random.default_rng(n).random((n, 24), dtype=np.float32)
        np.testing.assert_allclose(kernel(a), a.sum(axis=1), rtol=1e-5)
    assert kernel.source.count("return row_sums_case") == len(family.regions) > 0


def test_killed_in_the_search_and_in_the_comparison_the_same_is_found(family, tuned):
    for after in (TRIALS // 2, TRIALS - TRIALS // 2 + 1):
        with pytest.raises(Killed):
            tuned("killed.db", after)
    found = tuned("killed.db")[0]
    assert found.members == family.members and found.regions == family.regions
    assert [r.trace for r in found.records] == [r.trace for r in family.records]


def fixed():
    a = te.placeholder((8,), name="A")
    return te.create_prim_func([a, te.compute((8,), lambda i: a[i] + 1.0, name="B")])


@pytest.mark.parametrize(
    ("sizes", "given", "message"),
    [
        ([4, 8], {}, "sizes must be a mapping such as"),
        ({}, {}, "sizes needs lists of values, all of one length: there is no list"),
        ({"n": 4}, {}, "there is no list"),
        ({"n": []}, {}, "'n' has 0"),
        ({"n": [4], "m": [4, 5]}, {}, "'n' has 1, 'm' has 2"),
        ({"m": [4]}, {}, "sizes has 'm', which is no symbolic size"),
        ({"n": [4, 4]}, {}, "sizes has n=4 twice"),
        ({"n": [4, -1]}, {}, "must be at least 0"),
        ({"n": [4, 8]}, {"kernels": 0}, "kernels must be at least 1"),
        ({"n": [4, 8]}, {"weights": [1]}, "weights has 1 entries for 2"),
        ({"n": [4, 8]}, {"weights": [1, 0]}, "weights.* must be positive"),
        ({"n": [4, 8]}, {"target": "cuda"}, "families are for processors, not for 'cuda'"),
        ({"n": [4, 8]}, {"trials": 1}, "trials must be at least 2"),
    ],
)
def test_arguments_that_are_refused(sizes, given, message):
    with pytest.raises(TensorIRError, match=message):
        tune_family(row_sums(), sizes, database=None, **given)


def test_a_function_without_symbolic_sizes_is_none():
    with pytest.raises(TensorIRError, match="has no symbolic size: use tune"):
        tune_family(fixed(), {"n": [4]}, database=None)
