"""The annotations that something honours: what each means, where it may stand, and its values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensorir import Block, For, ForKind


@dataclass(frozen=True)
class Key:
    """A known annotation. `allowed` describes `accepts`; `place` describes `fits`."""

    meaning: str
    place: str
    fits: Callable[[For | Block], bool]
    allowed: str
    accepts: Callable[[Any], bool]


MAX_UNROLLED = 65536


def _is_loop(kind: ForKind) -> Callable[[For | Block], bool]:
    return lambda node: isinstance(node, For) and node.kind is kind


def _schedule(value: Any) -> bool:
    pattern = r"(static|dynamic|guided)(,[1-9][0-9]{0,8})?"
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _limit(value: Any) -> bool:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return plain and 0 <= value <= MAX_UNROLLED


KEYS: dict[str, Key] = {
    "schedule": Key(
        "how the C backend shares the iterations among its threads (OpenMP)",
        "a parallel loop",
        _is_loop(ForKind.PARALLEL),
        "'static', 'dynamic' or 'guided', or one of these with a chunk size as in 'dynamic,4'",
        _schedule,
    ),
    "unroll_limit": Key(
        "the most statements to write out; a larger nest is left to the compiler with a pragma",
        "an unrolled loop",
        _is_loop(ForKind.UNROLLED),
        f"an integer from 0 to {MAX_UNROLLED}",
        _limit,
    ),
}
