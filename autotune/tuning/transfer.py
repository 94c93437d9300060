"""What the database knows of other sizes of a program, and of other machines: candidates to begin a
search with. They are tried here as all others are; no time of elsewhere counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING

from autotune.calibration.device import device_for
from autotune.database.nearest import Near
from autotune.database.ranking import is_undecided, kind_key, outcome
from autotune.database.records import Record, Workload
from autotune.rules import make_space
from autotune.search.transfer import adapted
from autotune.space import Candidate, Space
from autotune.tuning.replay import candidate_of
from tensorir import TensorIRError, parse

if TYPE_CHECKING:
    from autotune.tuning.session import Session

PLACES, EACH, MOST = 3, 4, 6
"""Other sizes, machines or conditions that are asked, the nearest ones; hints of each, and of all.

On recorded times, where a neighbour's differ by 20 % from candidate to candidate, four leave 8.4 %
between winners and the best in the mean of 32 trials, two 9.7, one 11.8, and none 15.3. Where its
times say nothing they cost nothing: hardly anything is then as fast there as its best."""


def hints(session: Session, without: Collection[str] = ()) -> dict[Candidate, str]:
    """The best candidates of the nearest records, as far as this space has them, and where they are
    from: the best of each place, those of the nearest first, then the second ones, and so on.

    What a race found to be slower than the default there is none: the default of this space is
    tried anyway. Those of programs with the keys of `without` do not count. The session notes how
    many cannot be read, since earlier versions did not store the names of choices.
    """
    near = session.database.nearest(
        session.workload, session.target, session.machine, session.conditions,
        limit=(PLACES + len(without)) * 2 * EACH, each=2 * EACH,
    )  # fmt: skip
    kept = [n for n in near if n.record.workload.key not in without]
    best = [each for _, each in sorted(_promising(kept), key=itemgetter(0))[:MOST]]
    constants = session.workload.constants
    known = [(c, n) for n in best if (c := candidate_of(n.record)) is not None]
    unnamed = sum(not n.record.choices and _has_others(session.space, c) for c, n in known)
    if unnamed:
        session.note(
            f"of other sizes, {unnamed} of the best records name no choices, and this version has"
            " others: they begin no search; those that are tuned anew do"
        )
    space_there = lru_cache(partial(_space_of, session))
    found: dict[Candidate, str] = {}
    for candidate, place in known:
        there = partial(space_there, place.record.workload if _is_raced(place.record) else None)
        here = adapted(session.space, candidate, place.record.choices, constants, there)
        if here is not None:
            found.setdefault(here, str(place))
    return found


def told(session: Session) -> str:
    """Where this search's hints are from, and what they were worth; "" where there were none."""
    state = session.state
    if not state.hints:
        return ""
    places = ", ".join(f"{n} of {place}" for place, n in Counter(state.hints.values()).items())
    tried = [state.measured[c] for c in state.hints if c in state.measured]
    text = f"{places}: {len(tried)} of {len(state.hints)} tried"
    best, ran = state.best_seconds(), [seconds for seconds in tried if seconds is not None]
    if best and ran:
        text += f", the best of them took {min(ran) / best:.2f} x the fastest trial"
    return text


def _is_raced(record: Record) -> bool:
    """Whether a race came to a verdict on it: else it may be among the best by luck alone."""
    return outcome(record) is not None and not is_undecided(record)


def _space_of(session: Session, workload: Workload | None) -> Space | None:
    """The space of another workload for this device; None where this version can make none."""
    if workload is None:
        return None
    device = device_for(session.target, session.costs)
    try:
        func = parse(workload.text)
        return make_space(func, device, session.numerics, constants=workload.constants)
    except TensorIRError:
        return None


def _has_others(space: Space, candidate: Candidate) -> bool:
    """Whether the sketch of a candidate has got choices since, or lost some."""
    sketch = space.sketches.get(candidate.sketch)
    return sketch is not None and len(sketch.choices) != len(candidate.values)


def _promising(found: Sequence[Near]) -> Iterator[tuple[int, Near]]:
    """Those that may be faster than the default of their place, EACH of one place at most, and how
    many of it are better, of records best first. Who took no part in its race was slower for
    certain."""
    counts: Counter[tuple[str, ...]] = Counter()
    raced: set[tuple[str, ...]] = set()
    for near in found:
        *kind, _ = kind_key(near.record)  # whatever they do to results
        place, race = tuple(kind), outcome(near.record)
        if race is not None:
            raced.add(place)
        default = near.record.trial == 0 if race is None else race.default
        slower = place in raced if race is None else race.gain.high <= 0
        if not default and not slower and counts[place] < EACH:
            yield counts[place], near
            counts[place] += 1
