"""A tuning record: one trial, with everything that is needed to believe its time.

Records are values. Their `id` is a hash of their content, so that merging databases is set union
and a damaged line of an export is noticed. A record that was read keeps the text it was read from:
what it is stored and exported as is that text, with all that this version does not know. Times are
in seconds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import Any

from autotune.database.conditions import Conditions
from autotune.database.record_json import (
    canonical,
    check_fields,
    check_text,
    content_id,
    plain,
    readable,
)
from autotune.errors import DatabaseError
from tensorir import NUMERICS, PrimFunc, check_constants, int_value, structure_key, workload_key

SCHEMA = 2
"""Version of the record format. A change that old readers would misread increments it.

1  had no conditions: a reader took a time of one size for another one's.
"""

STATUSES = (
    "ok",
    "build_error",
    "build_timeout",
    "run_timeout",
    "crash",
    "out_of_memory",
    "wrong_result",
    "pruned",
    "repeated",
    "error",
)
"""How a trial ended. `pruned` was stopped early for being slow; its times are few. `repeated` has
the code of an earlier trial: it was not timed, and is no trial of its own."""

LISTS = frozenset(("trace", "visits"))
PLAIN = LISTS | {"machine", "toolchain", "settings", "decisions", "race", "own"}
"""Fields that a record holds as plain JSON data, which takes long to make of a trace."""


@dataclass(frozen=True)
class Workload:
    """The program before scheduling: `key` tells shapes and constants apart, `structure` neither.

    `constants` are the parameters that are known when a kernel is built: what is computed from
    them alone is not timed, so such trials compete only with one another.
    """

    key: str
    structure: str
    name: str
    text: str
    shapes: tuple[tuple[str, tuple[int | str, ...], str], ...]
    """(buffer, shape, dtype) of each parameter; a symbolic size is its name."""
    constants: tuple[str, ...] = ()

    @classmethod
    def of(cls, func: PrimFunc, constants: Collection[str] = ()) -> Workload:
        """The workload of `func`; raises TensorIRError for a name that cannot be a constant."""
        shapes = tuple((p.name, tuple(_size(s) for s in p.shape), p.dtype) for p in func.params)
        known = check_constants(func, constants)
        key = _key_with(workload_key(func), [func.params.index(p) for p in known])
        names = tuple(p.name for p in known)
        return cls(key, structure_key(func), func.name, str(func), shapes, names)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Workload:
        shapes = tuple((name, tuple(shape), dtype) for name, shape, dtype in data["shapes"])
        constants = tuple(data.get("constants", ()))
        return cls(data["key"], data["structure"], data["name"], data["text"], shapes, constants)


@dataclass(frozen=True)
class Verdict:
    """Whether the result was compared with the oracle, and the largest error that was found."""

    checked: bool = False
    max_error: float | None = None
    tolerance: float | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        return cls(
            data.get("checked", False),
            _float(data.get("max_error")),
            _float(data.get("tolerance")),
        )


@dataclass(frozen=True)
class Record:
    """One trial. Fields that a trial does not have (times of a failed build) keep their default.

    workload    the unscheduled program
    target      canonical text of the target; `features` what it resolved to
    machine     facts about the machine (Machine.to_json) and its key
    conditions  what else decides the time: sizes, threads, compiler
    rules       hash of the design space that the search had; "" where it is not known
    toolchain   versions of compiler, flags, Python, NumPy and this project
    settings    how it was measured
    session     identifies one call of `tune`; `seed` its seed
    trial       the number of trials before this one
    batch       how many trials and repetitions were known when its candidate was proposed, with
                others of the same number; None where a search proposed nothing (a race, earlier
                versions)
    race        what the race at the end of a search found (`autotune.noise.gain.Outcome`); None for
                trials and in earlier versions
    own         where a function with knobs made the schedule: `function`, its name and the hash of
                its source, and `knobs`, the names of the decisions; None where rules made it
    sketch      name of the sketch; `choices` the names of what it leaves open, which depend on
                sizes (none in earlier versions), and `decisions` their values
    trace       the schedule as a list of JSON instructions
    program     what the scheduled program is (tensorir.program_key): trials of one program are one,
                whatever was decided; "" where it is not known (earlier versions)
    status      one of STATUSES; `error` is the text of a failure
    times       block times, seconds per call, of visits that count
    visits      all visits, with what disturbed them (`autotune.noise.visits.Visit`); none for races
                and in earlier versions
    predicted   seconds that the cost model expected before the measurement
    time        UTC by the clock of the machine, for people: nothing is ordered by it
    text        the record as one line of JSON, which is what is stored
    """

    workload: Workload
    target: str
    machine_key: str
    status: str
    features: tuple[str, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    conditions: Conditions = Conditions()
    rules: str = ""
    toolchain: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""
    seed: int = 0
    trial: int = 0
    batch: int | None = None
    race: Mapping[str, Any] | None = None
    own: Mapping[str, Any] | None = None
    sketch: str = ""
    choices: tuple[str, ...] = ()
    decisions: Any = None
    trace: tuple[Any, ...] = ()
    program: str = ""
    error: str = ""
    times: tuple[float, ...] = ()
    median: float | None = None
    visits: tuple[Mapping[str, Any], ...] = ()
    predicted: float | None = None
    verdict: Verdict = Verdict()
    numerics: str = "bitwise"
    build_seconds: float | None = None
    source_hash: str = ""
    time: str = ""
    schema: int = SCHEMA
    id: str = ""
    text: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in PLAIN:
            value = plain(getattr(self, name))
            object.__setattr__(self, name, tuple(value) if name in LISTS else value)
        object.__setattr__(self, "times", tuple(map(float, self.times)))
        object.__setattr__(self, "error", readable(self.error))
        for name in ("median", "predicted", "build_seconds"):
            object.__setattr__(self, name, _float(getattr(self, name)))
        if self.status not in STATUSES:
            raise DatabaseError(
                f"unknown status {self.status!r} of a record; known are {', '.join(STATUSES)}"
            )
        if self.numerics not in NUMERICS:
            raise DatabaseError(
                f"unknown numerics {self.numerics!r} of a record; known are {', '.join(NUMERICS)}"
            )
        if self.status == "ok" and not (self.median and 0 < self.median < math.inf):
            raise DatabaseError(
                f"a record with status 'ok' needs a positive median time, not {self.median!r}"
            )
        if not self.text:
            self._write()

    def _write(self) -> None:
        """Make the text and the id of a new record."""
        if not self.time:
            object.__setattr__(self, "time", utc_now())
        data = {name: value for name, value in vars(self).items() if name not in ("id", "text")}
        for name in ("workload", "verdict", "conditions"):
            data[name] = dict(vars(data[name]))
        if not self.workload.constants:  # as records were before there were any
            del data["workload"]["constants"]
        for name in ("batch", "race", "own", "visits", "program", "choices"):
            if data[name] is None or data[name] in ("", ()):
                del data[name]
        data |= {name: plain(data[name]) for name in data.keys() - PLAIN}
        check_fields(data)
        data["id"] = content_id(data)
        object.__setattr__(self, "id", data["id"])
        object.__setattr__(self, "text", canonical(data))

    @property
    def is_final(self) -> bool:
        """Whether the times come from the race at the end of a search, and the trial was stored
        before: such a record is the better evidence, and no trial of its own."""
        return bool(self.settings.get("final"))

    @property
    def is_trial(self) -> bool:
        """Whether it counts as a trial: it is of no race, and repeats no other one."""
        return not self.is_final and self.status != "repeated"

    @property
    def has_failed(self) -> bool:
        """Whether there was code to time, and it was not timed."""
        return self.status not in ("ok", "pruned", "repeated")

    @property
    def function(self) -> str:
        """The schedule function that made it, with the hash of its source; "" where rules did."""
        return str(self.own["function"]) if self.own else ""

    @property
    def code(self) -> str:
        """Equal for records of what was compiled from one text; of one program where that is not
        known. Of symbolic sizes one text is for all."""
        return self.source_hash or self.program

    @property
    def identity(self) -> str:
        """Equal for trials that count as one: of one program, or else of one source text; of the
        same decisions where neither is known."""
        return self.program or self.source_hash or json.dumps([self.sketch, self.decisions])

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON data; `Record.from_json` gives an equal record.

        What the record was read with and this version does not know is there too.
        """
        data: dict[str, Any] = json.loads(self.text)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The record in `data`, which may lack optional fields and have those of later versions.

        Raises DatabaseError for a newer schema, a missing or impossible field, or an id that is
        not the hash of the content.
        """
        schema = data.get("schema")
        if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
            raise DatabaseError("not a tuning record: it has no 'schema' number")
        if schema > SCHEMA:
            raise DatabaseError(
                f"the record has schema {schema}, and this version reads up to {SCHEMA}:"
                " update the project"
            )
        if data.get("id") != content_id(data):
            raise DatabaseError("the id of the record is not the hash of its content: damaged")
        check_fields(data)
        text = canonical(data)
        check_text(data, text)
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data and f.name != "text"}
        known["workload"] = Workload.from_json(data["workload"])
        known["verdict"] = Verdict.from_json(data.get("verdict", {}))
        for name in ("features", "choices"):
            known[name] = tuple(data.get(name, ()))
        known["conditions"] = (
            Conditions.of_schema_1(data)
            if schema < 2
            else Conditions.from_json(data.get("conditions", {}))
        )
        return cls(**known, text=text)

    def with_(self, **changes: Any) -> Record:
        """A copy with some fields changed, and an id of its own; the rest is carried through."""
        named = {f.name: getattr(self, f.name) for f in fields(self)}
        fresh = Record(**{**named, **changes, "id": "", "text": ""}).to_json()
        data = {name: value for name, value in self.to_json().items() if name not in changes}
        data.update({name: fresh[name] for name in changes if name in fresh})
        return Record.from_json({**data, "id": content_id(data)})


def _key_with(key: str, constants: Sequence[int]) -> str:
    """`key` where there are no constants; else one of its own for each choice of positions."""
    if not constants:
        return key
    text = f"{key} with constants {','.join(map(str, constants))}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def utc_now() -> str:
    """The time now, UTC, ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _size(size: Any) -> int | str:
    value = int_value(size)
    return str(size) if value is None else value
