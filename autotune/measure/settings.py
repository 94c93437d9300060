"""How candidates are measured, and what a measurement gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from autotune.arguments import LARGEST_SEED, integer, number
from autotune.database.records import Verdict
from autotune.errors import MeasureError
from autotune.noise.visits import Visit, Visits

CACHES = ("hot", "cold")


@dataclass(frozen=True)
class MeasureSettings:
    """How long, how often and how strictly; times in seconds unless the name says otherwise.

    min_ms           least duration of a block of calls, milliseconds
    repeats          visits of a candidate, a block in each, spread over the time of its batch; the
                     call that is checked is the first where it is as long as a block. Those that
                     are certainly slower than the best get one. Few are enough: who may be the
                     fastest is told by the race
    timeout_s        longest time a candidate may run without an answer before it is killed
    build_timeout_s  longest time of one build
    prune_factor     stop a candidate whose first calls are this many times the incumbent
    threads          OpenMP threads of the kernels; None leaves the choice to the runtime
    build_jobs       builds at a time; None means one per usable processor
    memory_gib       most memory of one process of a candidate, compiler or kernel, GiB; None: by
                     what the machine has and the arrays need
    restart_every    candidates after which a worker that builds or runs them is renewed, so that
                     memory cannot grow
    cache            "hot": each call finds in the caches what the one before left there; "cold":
                     it finds nothing there, and is timed alone; such times answer no other question
    seed             of the random inputs

    The race at the end of a search takes such blocks too, as many as its verdict needs.
    """

    min_ms: float = 5.0
    repeats: int = 2
    timeout_s: float = 10.0
    build_timeout_s: float = 60.0
    prune_factor: float = 3.0
    threads: int | None = None
    build_jobs: int | None = None
    memory_gib: float | None = None
    restart_every: int = 200
    cache: str = "hot"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("timeout_s", "build_timeout_s", "memory_gib"):
            if name != "memory_gib" or self.memory_gib is not None:
                self._set(
                    name, number(name, getattr(self, name), 0, above=True, error=MeasureError)
                )
        self._set("min_ms", number("min_ms", self.min_ms, 0, error=MeasureError))
        factor = number("prune_factor", self.prune_factor, 1, above=True, error=MeasureError)
        self._set("prune_factor", factor)
        for name in ("repeats", "restart_every", "threads", "build_jobs"):
            if getattr(self, name) is not None or name in ("repeats", "restart_every"):
                self._set(name, integer(name, getattr(self, name), 1, error=MeasureError))
        if self.cache not in CACHES:
            raise MeasureError(f"cache must be one of {', '.join(CACHES)}, not {self.cache!r}")
        self._set("seed", integer("seed", self.seed, 0, LARGEST_SEED, MeasureError))

    @property
    def is_cold(self) -> bool:
        return self.cache == "cold"

    def _set(self, name: str, value: float) -> None:
        object.__setattr__(self, name, value)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class MeasureResult:
    """The outcome of one candidate.

    status         one of `autotune.database.records.STATUSES`
    error          the text of a failure
    times          seconds per call, of each visit that counts; `median` is their median
    visits         all of them, with what disturbed them; `calls` in a block of each
    verdict        comparison with the expected result
    build_seconds  of lowering and compiling; run_seconds of checking and timing
    source_hash    of the source text that was compiled
    """

    status: str
    error: str = ""
    times: tuple[float, ...] = ()
    median: float | None = None
    verdict: Verdict = field(default_factory=Verdict)
    build_seconds: float | None = None
    run_seconds: float | None = None
    source_hash: str = ""
    visits: tuple[Visit, ...] = ()
    calls: int = 0

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MeasureResult:
        """The result in the answer of a worker."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        verdict = Verdict(**data.get("verdict", {}))
        times, visits = tuple(data.get("times", ())), map(Visit.from_json, data.get("visits", ()))
        return cls(**{**known, "verdict": verdict, "times": times, "visits": tuple(visits)})

    def unless_in(self, sources: Collection[str]) -> MeasureResult:
        """The result; a repetition where its source text is one of these, by their hashes."""
        if not self.source_hash or self.source_hash not in sources or self.status == "repeated":
            return self
        error, code = "its code is that of an earlier trial", self.source_hash
        return MeasureResult("repeated", error, build_seconds=self.build_seconds, source_hash=code)

    def visited(self, visits: Visits, at: int) -> MeasureResult:
        """The result with the times of all visits of the candidate at a place of its batch."""
        times = tuple(v.seconds for v in visits.counting(at))
        median = float(np.median(times))
        return replace(self, times=times, median=median, visits=tuple(visits.made[at]))

    def record_fields(self) -> dict[str, Any]:
        """The fields of a `Record` that the measurement determines."""
        names = ("status", "error", "times", "median", "verdict", "build_seconds", "source_hash")
        visits = tuple(visit.to_json() for visit in self.visits)
        return {**{name: getattr(self, name) for name in names}, "visits": visits}


class Rounds(NamedTuple):
    """What was timed in turns.

    times  seconds per call of each program, one for each round
    busy   of each round, whether other programs worked meanwhile and disturbed it
    """

    times: tuple[tuple[float, ...], ...]
    busy: tuple[bool, ...]
