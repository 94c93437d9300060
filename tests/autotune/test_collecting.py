"""How often Python looks for circles while schedules are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest

from autotune import collecting, tune
from autotune.collecting import COLLECTED, collected_seldom
from autotune.examples import make_example


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.unfreeze()
    yield
    gc.set_threshold(*before)
    if frozen:
        gc.freeze()


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


def _rings(count: int) -> None:
    for _ in range(count):
        ring: list[object] = []
        ring.append(ring)


def test_what_is_new_is_not_looked_at_at_the_end() -> None:
    gc.set_threshold(700, 11, 12)
    gc.collect()
    before = [each["collections"] for each in gc.get_stats()]
    with collected_seldom():
        _rings(5_000)
    assert [each["collections"] for each in gc.get_stats()] == before
    assert gc.get_count()[0] < 700
    assert gc.collect() >= 5_000  # they are no less found


def test_circles_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where nobody else looks at all objects."""
    monkeypatch.setattr(collecting, "KEPT", 20_000)
    gc.collect()
    before = gc.get_stats()[-1]["collections"]
    for _ in range(6):
        with collected_seldom():
            _rings(5_000)
    assert gc.get_stats()[-1]["collections"] == before + 1


def test_what_was_frozen_stays_so() -> None:
    gc.set_threshold(700, 11, 12)
    gc.freeze()
    try:
        with collected_seldom():
            _rings(2_000)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_nothing_is_done_where_looking_is_switched_off() -> None:
    gc.set_threshold(0, 11, 12)
    with collected_seldom():
        _rings(2_000)
    assert gc.get_count()[0] > 1_000


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
