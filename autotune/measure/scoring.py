"""Features of candidates, found by the processes that build: the search asks for many at a time.

A worker makes the design space again from the printed program. Its outline tells whether that is
the space of the search: it is not where rules, algorithms or intrinsics were registered there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorir import Costs, PrimFunc, Target, allows, device_of, parse, program_key

if TYPE_CHECKING:
    from autotune.search.state import Scored
    from autotune.space import Candidate, Space
    from schedule import Schedule


def outline(space: Space, target: Target) -> str:
    """A hash of the sketches, their choices, and the machine that they are made for."""
    parts = [repr((target, target.processor))]
    parts += [repr((name, sketch.choices)) for name, sketch in space.sketches.items()]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def wanted_features(
    target: Target, constants: Collection[str], numerics: str
) -> Callable[[Schedule], np.ndarray[Any, Any]]:
    """The features of a schedule on `target`; Refusal for one that `numerics` forbids."""
    from autotune.features.features import extractor
    from schedule import Refusal

    extract = extractor(target, constants)

    def features(schedule: Schedule) -> np.ndarray[Any, Any]:
        if not allows(numerics, schedule.numerics):
            raise Refusal(f"the schedule is {schedule.numerics}, and {numerics} is asked for")
        return extract(schedule)

    return features


KEPT = 128
"""Schedules that a worker keeps: those that are measured are among the last that were scored."""

OTHER_SPACE = "other_space"
"""The status of a worker's answer about candidates of a space that it does not know."""


def made_for(numerics: str, outline: str, costs: Costs | None) -> dict[str, Any]:
    """What a worker needs to make the space with this outline, which was made with such costs."""
    known = None if costs is None else asdict(costs)
    return {"numerics": numerics, "outline": outline, "costs": known}


def feature_request(candidates: Sequence[Candidate], about: Mapping[str, Any]) -> dict[str, Any]:
    """The message that asks for the features of candidates of the space that `about` tells of."""
    return {"op": "features", **about, "candidates": [c.as_json() for c in candidates]}


def feature_requests(
    candidates: Sequence[Candidate], most: int, about: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The same in at most so many messages, of as many candidates each."""
    size = max(1, -(-len(candidates) // most))
    parts = [candidates[at : at + size] for at in range(0, len(candidates), size)]
    return [feature_request(part, about) for part in parts]


def scheduled_program(schedule: Schedule) -> str:
    """The identity of the program that a schedule has made."""
    return _identity(schedule.func)


@lru_cache(KEPT)
def _identity(func: PrimFunc) -> str:
    """Asked once for the features of a candidate, and again where it is built."""
    return program_key(func)


class Scoring:
    """The space of one search in a worker."""

    def __init__(
        self,
        definition: str,
        target: str,
        constants: Collection[str],
        numerics: str,
        costs: Mapping[str, float] | None = None,
    ) -> None:
        from autotune.rules import make_space
        from backends import resolve

        resolved = resolve(target)
        self.made_for = (numerics, costs)
        device = device_of(resolved, None if costs is None else Costs(**costs))
        self.space = make_space(parse(definition), device, numerics, constants=constants)
        self.extract = wanted_features(resolved, constants, numerics)
        self.outline = outline(self.space, resolved)
        self._build = lru_cache(KEPT)(self.space.build)

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The features of the candidates in `message`, unless its space is another one."""
        from autotune.search.state import score
        from autotune.space import Candidate

        if message["outline"] != self.outline:
            return {"status": OTHER_SPACE}
        scored = [
            score(self._build, self.extract, Candidate.from_json(each), scheduled_program)
            for each in message["candidates"]
        ]
        return {
            "status": "ok",
            "rows": [
                [None if row is None else row.tolist(), refusal, program]
                for row, refusal, program in scored
            ],
        }

    def schedule(self, message: Mapping[str, Any]) -> Schedule | None:
        """The schedule of the candidate in `message`; None where its space is another one."""
        from autotune.space import Candidate

        if message["outline"] != self.outline:
            return None
        return self._build(Candidate.from_json(message["candidate"]))


def scored_of(rows: Sequence[Any]) -> list[Scored]:
    """What `Scoring.answer` gave, after it was JSON."""
    from autotune.search.state import Scored

    return [
        Scored(None if row is None else np.asarray(row, dtype=np.float32), str(why), str(program))
        for row, why, program in rows
    ]
