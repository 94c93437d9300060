"""How often Python looks for circles while schedules are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest

from autotune import tune
from autotune.collecting import COLLECTED, collected_seldom
from autotune.examples import make_example


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_as_before_when_done_however_it_ends() -> None:
    gc.set_threshold(700, 11, 12)
    with collected_seldom(), collected_seldom():
        assert gc.get_threshold() == (COLLECTED, 11, 12)
    assert gc.get_threshold() == (700, 11, 12)
    with suppress(ValueError), collected_seldom():
        raise ValueError
    assert gc.get_threshold() == (700, 11, 12)


@pytest.mark.parametrize("first", [0, COLLECTED + 1])
def test_what_looks_less_often_still_does(first: int) -> None:
    gc.set_threshold(first, 11, 12)
    with collected_seldom():
        assert gc.get_threshold()[0] == first


def test_the_last_of_several_threads_brings_back_what_was_there() -> None:
    gc.set_threshold(700, 11, 12)
    inside, leave = Event(), Event()

    def work() -> None:
        with collected_seldom():
            inside.set()
            leave.wait()

    thread = Thread(target=work)
    with collected_seldom():
        thread.start()
        inside.wait()
    assert gc.get_threshold()[0] == COLLECTED
    leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 11, 12)


def test_searches_look_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def begin(*args: object, **options: object) -> None:
        seen.append(gc.get_threshold()[0])
        raise KeyboardInterrupt

    monkeypatch.setattr("autotune.tuning.search.Search.begin", begin)
    gc.set_threshold(700, 11, 12)
    with pytest.raises(KeyboardInterrupt):
        tune(make_example("matmul", {"m": 16, "n": 16, "k": 16}), database=None, progress=False)
    assert seen == [COLLECTED] and gc.get_threshold() == (700, 11, 12)
