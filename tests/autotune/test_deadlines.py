"""How long is waited for a worker: seconds in which everything stood still do not count."""

from __future__ import annotations

import pytest

from autotune.measure.process import Deadline


class Clock:
    """Seconds that pass where something waits; at times of `stops` everything stands still."""

    def __init__(self, stops=()):
        self.now, self.stops, self.ready_at = 0.0, dict(stops), float("inf")

    def __call__(self):
        return self.now

    def wait(self, seconds):
        end = min(self.now + seconds, max(self.now, self.ready_at))
        for at in [at for at in self.stops if self.now <= at <= end]:
            end += self.stops.pop(at)
        self.now = end
        return self.now >= self.ready_at


@pytest.mark.parametrize("ready, stops, met", [
    (9.0, {}, True), (11.0, {}, False), (69.0, {3.0: 60.0}, True), (71.5, {3.0: 60.0}, False),
    (140.0, {1.0: 60.0, 65.0: 70.0}, True), (69.0, {10.0: 60.0}, True), (11.5, {3.0: 1.0}, False),
])  # fmt: skip
def test_seconds_in_which_all_stood_still_do_not_count(ready, stops, met):
    clock = Clock(stops)
    clock.ready_at = ready
    assert Deadline(10.0, clock).met(clock.wait) is met


def test_seconds_between_two_waits_do_not_count_either():
    clock = Clock()
    deadline = Deadline(10.0, clock)
    clock.now, clock.ready_at = 100.0, 108.0
    assert deadline.met(clock.wait)
    clock.now, clock.ready_at = 200.0, 203.0
    assert not deadline.met(clock.wait), "two of the ten seconds were left"
