"""Random requests to te schedules, in the order in which they were drawn and in others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import te_checks  # noqa: E402
import te_requests  # noqa: E402


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(48))
def test_requests_in_any_order(seed):
    te_checks.check(seed)


def test_the_requests_are_of_all_kinds():
    """What is drawn is met often enough for the test to mean something."""
    met = {ask.name for seed in range(60) for ask in drawn(seed).asks}
    assert met == set(te_requests.NAMES)


def drawn(seed):
    found = te_requests.Drawn(seed)
    for _ in range(te_checks.REQUESTS):
        found.draw()
    return found


def test_orders_are_others():
    """Few requests have to keep their order."""
    turned = [
        te_requests.in_another_order(found.asks, lambda ask, place: -place) != found.asks
        for found in map(drawn, range(20))
    ]
    assert sum(turned) > 15
