"""A tuning record: one trial, with everything that is needed to believe its time.

Records are values. Their `id` is a hash of their content, so that merging databases is set union
and a damaged line of an export is noticed. Times are in seconds.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from typing import Any

from autotune.errors import DatabaseError
from tensorir import NUMERICS, PrimFunc, check_constants, int_value, structure_key, workload_key

SCHEMA = 1
"""Version of the record format. A change that old readers would misread increments it."""

STATUSES = (
    "ok",
    "build_error",
    "build_timeout",
    "run_timeout",
    "crash",
    "out_of_memory",
    "wrong_result",
    "pruned",
    "error",
)
"""How a trial ended. `pruned` was stopped early for being slow; its times are few."""


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
        return cls(bool(data["checked"]), _float(data["max_error"]), _float(data["tolerance"]))


@dataclass(frozen=True)
class Record:
    """One trial. Fields that a trial does not have (times of a failed build) keep their default.

    workload    the unscheduled program
    target      canonical text of the target; `features` what it resolved to
    machine     facts about the machine (Machine.to_json) and its key
    toolchain   versions of compiler, flags, Python, NumPy and this project
    settings    how it was measured
    session     identifies one call of `tune`; `seed` and `trial` its seed and running number
    sketch      name of the sketch; `decisions` the values of its choices
    trace       the schedule as a list of JSON instructions
    status      one of STATUSES; `error` is the text of a failure
    times       all block times, seconds per call
    predicted   seconds that the cost model expected before the measurement
    """

    workload: Workload
    target: str
    machine_key: str
    status: str
    features: tuple[str, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    toolchain: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    session: str = ""
    seed: int = 0
    trial: int = 0
    sketch: str = ""
    decisions: Any = None
    trace: tuple[Any, ...] = ()
    error: str = ""
    times: tuple[float, ...] = ()
    median: float | None = None
    predicted: float | None = None
    verdict: Verdict = Verdict()
    numerics: str = "bitwise"
    build_seconds: float | None = None
    source_hash: str = ""
    time: str = ""
    schema: int = SCHEMA
    id: str = ""

    def __post_init__(self) -> None:
        for name in ("machine", "toolchain", "settings", "decisions"):
            object.__setattr__(self, name, _plain(getattr(self, name)))
        object.__setattr__(self, "trace", tuple(map(_plain, self.trace)))
        object.__setattr__(self, "times", tuple(map(float, self.times)))
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
        if not self.time:
            object.__setattr__(self, "time", utc_now())
        if not self.id:
            object.__setattr__(self, "id", content_id(self.to_json()))

    @property
    def is_final(self) -> bool:
        """Whether the times come from the race at the end of a search, and the trial was stored
        before: such a record is the better evidence, and no trial of its own."""
        return bool(self.settings.get("final"))

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON data; `Record.from_json` gives an equal record."""
        data = asdict(self)
        if not self.workload.constants:  # as records were before there were any: ids stay
            del data["workload"]["constants"]
        return {name: _plain(value) for name, value in data.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The record in `data`, which may have fields of a later project version.

        Raises DatabaseError for a newer schema, a missing field, or an id that is not the hash
        of the content.
        """
        schema = data.get("schema")
        if not isinstance(schema, int):
            raise DatabaseError("not a tuning record: it has no 'schema' number")
        if schema > SCHEMA:
            raise DatabaseError(
                f"the record has schema {schema}, and this version reads up to {SCHEMA}:"
                " update the project"
            )
        if data.get("id") != content_id(data):
            raise DatabaseError("the id of the record is not the hash of its content: damaged")
        known = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        try:
            return cls(**{**known, **_typed(known)})
        except (KeyError, TypeError, ValueError) as error:
            raise DatabaseError(f"not a tuning record: {error}") from error

    def with_(self, **changes: Any) -> Record:
        """A copy with some fields changed, and an id of its own."""
        return replace(self, **changes, id="")


def _key_with(key: str, constants: Sequence[int]) -> str:
    """`key` where there are no constants; else one of its own for each choice of positions."""
    if not constants:
        return key
    text = f"{key} with constants {','.join(map(str, constants))}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def content_id(data: Mapping[str, Any]) -> str:
    """blake2b of the canonical JSON text of a record without its id, 32 hex digits."""
    body = {name: value for name, value in data.items() if name != "id"}
    return hashlib.blake2b(canonical(body).encode(), digest_size=16).hexdigest()


def canonical(data: Any) -> str:
    """The one JSON text of `data`: sorted keys, no spaces."""
    try:
        return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DatabaseError(f"a record must be plain JSON data: {error}") from error


def utc_now() -> str:
    """The time now, UTC, ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _typed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `data` whose JSON form is not their type."""
    return {
        "workload": Workload.from_json(data["workload"]),
        "verdict": Verdict.from_json(data["verdict"]),
        "features": tuple(data["features"]),
    }


def _plain(value: Any) -> Any:
    """`value` with tuples as lists and the floats JSON does not have as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _size(size: Any) -> int | str:
    value = int_value(size)
    return str(size) if value is None else value
