"""sample_categorical: draw one of several values."""

from __future__ import annotations

import random
from collections.abc import Sequence

from schedule.errors import require
from schedule.primitive import draws, primitive
from schedule.state import State

Option = int | float | str | bool


@primitive
def sample_categorical(
    state: State,
    options: Sequence[Option],
    weights: Sequence[float] | None = None,
    decision: int | None = None,
) -> tuple[State, Option]:
    """Draw one of `options`, with probabilities in proportion to `weights`, or all the same.

    `decision` is the position of the one to take. The program stays as it is. The schedule's
    generator draws where none is given; the trace holds what was drawn.

    rewrite:  sample_categorical([4, 8, 16], weights=[1, 2, 1]) -> 8
        S  ->  S

    requires:
        - there is at least one option; options are finite numbers and strings
        - there is a weight for each, none is negative or infinite, and some are positive
        - a `decision` is a position in `options` whose weight is not 0
    """
    sizes = _weights(options, weights)
    require(decision is not None, "", "there is no decision, and nothing here draws one")
    assert decision is not None
    require(
        0 <= decision < len(options) and sizes[decision] > 0,
        "",
        f"decision {decision!r} is no position of {list(options)} with a weight above 0",
    )
    return state, options[decision]


@draws(sample_categorical)
def draw_categorical(
    state: State,
    generator: random.Random,
    options: Sequence[Option],
    weights: Sequence[float] | None = None,
) -> int:
    """The position of one option."""
    sizes = _weights(options, weights)
    return generator.choices(range(len(options)), sizes)[0]


def _weights(options: Sequence[Option], weights: Sequence[float] | None) -> list[float]:
    require(len(options) > 0, "", "there are no options")
    plain = all(isinstance(v, str) or isinstance(v, (int, float)) and v - v == 0 for v in options)
    require(plain, "", f"options {list(options)} are not finite numbers or strings")
    if weights is None:
        return [1.0] * len(options)
    require(len(weights) == len(options), "", f"{len(options)} options have {len(weights)} weights")
    fine = all(isinstance(w, (int, float)) and 0 <= w < float("inf") for w in weights)
    require(
        fine and sum(weights) > 0, "", f"weights {list(weights)} are negative, infinite or all 0"
    )
    return [float(w) for w in weights]
