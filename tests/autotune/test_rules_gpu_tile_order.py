"""Which of the tiles of a contraction on a GPU is the first."""

from types import SimpleNamespace

from autotune.rules.gpu.tiles import in_order


def test_of_tiles_that_take_about_as_long_that_which_moves_least_is_the_first():
    """Of equal ones that with all terms in one step; the launch belongs to the time."""
    kinds = [(900, 50, 1), (800, 60, 2), (800, 60, 1), (990, 40, 1), (5000, 1, 1)]
    given = [SimpleNamespace(cycles=c, transactions=t, steps=s) for c, t, s in kinds]
    found = [(x.cycles, x.transactions, x.steps) for x in in_order(given)]
    assert found == [(990, 40, 1), (900, 50, 1), (800, 60, 1), (800, 60, 2), (5000, 1, 1)]
