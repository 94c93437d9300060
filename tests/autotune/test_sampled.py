"""What can be proposed is built, or refused as something a user may ask for: nothing else fails."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from autotune.rules import default_candidates, make_space
from autotune.rules.group import find_groups
from autotune.space import Candidate, Space
from backends import resolve
from schedule import Schedule
from tensorir import TensorIRError, device_of
from tests.autotune.sampled_programs import PROGRAMS

SAMPLES = 2
"""Of each sketch."""


def proposed(space: Space) -> Iterator[Candidate]:
    """The defaults, then some of each sketch."""
    rng = random.Random(0)
    yield from default_candidates(space)
    for name in space.sketches:
        yield from (space.sample(rng, name) for _ in range(SAMPLES))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_candidates_are_built_or_refused(name):
    space = make_space(PROGRAMS[name](), device_of(resolve("c")))
    built = 0
    for candidate in proposed(space):
        try:
            space.build(candidate)
        except TensorIRError:
            continue
        built += 1
    assert built > 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_block_is_in_one_group(name):
    """Two plans would schedule it, the second one as the first has not left it."""
    blocks = [block for group in find_groups(Schedule(PROGRAMS[name]())) for block in group.blocks]
    assert len(set(blocks)) == len(blocks)
