"""Which cases of tests run: all of those that are asked for, and samples where all tests run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

Source = pytest.Config.ArgsSource


@pytest.fixture(scope="module")
def conftest(request):
    path = request.config.rootpath / "tests" / "conftest.py"
    return request.config.pluginmanager.get_plugin(str(path))


def config(source=Source.TESTPATHS, every=False, **more):
    return SimpleNamespace(args_source=source, getoption=lambda name: every, **more)


def test_only_a_run_of_all_tests_takes_samples(conftest):
    assert conftest.takes_samples(config())
    assert not conftest.takes_samples(config(every=True))
    assert not conftest.takes_samples(config(Source.ARGS))


@pytest.mark.parametrize("asked", [True, False])
def test_workers_do_what_was_asked_of_the_run(conftest, asked):
    """They are given the names of folders in either case."""
    node = SimpleNamespace(config=config(every=not asked), workerinput={})
    conftest.pytest_configure_node(node)
    worker = config(Source.ARGS, workerinput=node.workerinput)
    assert conftest.takes_samples(worker) == asked


def test_each_test_has_a_case_in_the_sample(conftest):
    mark = pytest.mark.sampled(1 << 33).mark
    items = [
        Case(name=name, nodeid=name, get_closest_marker=lambda _: mark)
        for name in ("test_one[a]", "test_one[b]", "test_two[a]")
    ]
    found = conftest.sample_of(items)
    assert [item.name for item in items if item in found] == ["test_one[a]", "test_two[a]"]


class Case(SimpleNamespace):
    __hash__ = object.__hash__


def test_a_sample_has_its_share_of_each_value_of_each_parameter(conftest):
    names = [f"test_it[{x}-{y}]" for x in range(100) for y in "ab"]
    mark = pytest.mark.sampled(4).mark
    items = [SimpleNamespace(name=name, get_closest_marker=lambda _: mark) for name in names]
    taken = [item.name for item in items if conftest.in_sample(item)]
    assert all(15 <= sum(f"-{y}]" in name for name in taken) <= 35 for y in "ab")
    plain = SimpleNamespace(name="test_it", get_closest_marker=lambda _: None)
    assert conftest.in_sample(plain)


def test_each_case_is_drawn_by_some_of_many_trees(conftest, monkeypatch):
    names = [f"test_it[{x}]" for x in range(100)]
    mark = pytest.mark.sampled(3).mark
    items = [SimpleNamespace(name=name, get_closest_marker=lambda _: mark) for name in names]
    taken = []
    for seed in range(0, 1 << 32, 1 << 27):
        monkeypatch.setattr(conftest, "draw", lambda seed=seed: seed)
        taken.append({item.name for item in items if conftest.in_sample(item)})
    assert set.union(*taken) == {*names} and max(map(len, taken)) <= 60
