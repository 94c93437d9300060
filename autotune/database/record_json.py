"""The JSON form of records: its one text, the id that is a hash of it, what a field may hold."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from autotune.errors import DatabaseError

DEEPEST = 100
"""Lists and mappings inside of one another; more is damage."""


def canonical(data: Any) -> str:
    """The one JSON text of `data`: sorted keys, no spaces, ASCII."""
    try:
        return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DatabaseError(f"a record must be plain JSON data: {error}") from error
    except RecursionError as error:
        raise DatabaseError("a record must be plain JSON data: this is nested too deep") from error


def content_id(data: Mapping[str, Any]) -> str:
    """blake2b of the canonical JSON text of a record without its id, 32 hex digits.

    The data is taken as it is given: fields that this version does not know count too, and 1 is
    not 1.0.
    """
    body = {name: value for name, value in data.items() if name != "id"}
    return hashlib.blake2b(canonical(body).encode(), digest_size=16).hexdigest()


def plain(value: Any, depth: int = 0) -> Any:
    """`value` with tuples as lists, the floats JSON does not have as text, and readable texts."""
    if isinstance(value, str):
        return value if value.isascii() else readable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, int):  # most values, and mappings take long to tell
        return value
    if depth >= DEEPEST:
        raise DatabaseError(f"a record must not have more than {DEEPEST} levels of lists")
    if isinstance(value, (tuple, list)):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item, depth + 1) for name, item in value.items()}
    return value


def readable(text: str) -> str:
    """`text` without halves of surrogate pairs, which cannot be written to any file."""
    return text.encode("utf-8", "backslashreplace").decode()


def check_text(data: Any, text: str) -> None:
    """Raise DatabaseError where a text in `data`, which is `text` as JSON, could not be written."""
    if "\\ud" not in text:
        return
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DatabaseError("a text in the record has half of a surrogate pair") from error


def check_fields(data: Mapping[str, Any]) -> None:
    """Raise DatabaseError where a field of a record does not hold what the field is for.

    Optional fields may be missing, and others may be there.
    """
    for name in REQUIRED:
        if name not in data:
            raise DatabaseError(f"not a tuning record: {name!r} is missing")
    _check(data, FIELDS, "")
    for name, parts in PARTS.items():
        if isinstance(data.get(name), Mapping):
            _check(data[name], parts, f"{name}.")
    for part in ("workload", "own"):
        for name in PARTS[part] if part in data else ():
            if name not in data[part] and name != "constants":
                raise DatabaseError(f"not a tuning record: '{part}.{name}' is missing")


def _check(data: Mapping[str, Any], kinds: Mapping[str, Kind], prefix: str) -> None:
    for name, (phrase, allowed) in kinds.items():
        if name in data and not allowed(data[name]):
            shown = repr(data[name])
            shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
            raise DatabaseError(
                f"not a tuning record: '{prefix}{name}' has to be {phrase}, not {shown}"
            )


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return isinstance(value, str) and value in ("inf", "-inf", "nan")
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _or_none(allowed: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or allowed(value)


def _list_of(allowed: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(map(allowed, value))


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value)) and all(
        map(_is_integer, value.values())
    )  # fmt: skip


def _is_visit(value: Any) -> bool:
    """What `autotune.noise.visits.Visit` is made of; `waited` may be None."""
    if not isinstance(value, Mapping) or not _is_real(value.get("seconds")):
        return False
    told = {name: value[name] for name in VISIT if name in value}
    return all(_is_real(n) or name == "waited" and n is None for name, n in told.items())


def _is_real(value: Any) -> bool:
    return not isinstance(value, str) and _is_number(value)


def _is_shape(value: Any) -> bool:
    """(buffer, shape, dtype) of one parameter."""
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        return False
    name, shape, dtype = value
    sizes = _list_of(lambda size: _is_integer(size) or _is_text(size))
    return _is_text(name) and sizes(shape) and _is_text(dtype)


Kind = tuple[str, Callable[[Any], bool]]
"""What a field holds, as a phrase and as a test."""

TEXT: Kind = ("a text", _is_text)
COUNT: Kind = ("an integer from 0 to 2^63 - 1", _is_count)
NUMBER: Kind = ("a number or null", _or_none(_is_number))
MAPPING: Kind = ("a mapping", _is_mapping)
TEXTS: Kind = ("a list of texts", _list_of(_is_text))

REQUIRED = ("workload", "target", "machine_key", "status")

FIELDS: dict[str, Kind] = {
    "id": TEXT, "workload": MAPPING, "target": TEXT, "machine_key": TEXT, "status": TEXT,
    "features": TEXTS, "machine": MAPPING, "toolchain": MAPPING, "settings": MAPPING,
    "conditions": MAPPING, "race": MAPPING, "own": MAPPING, "rules": TEXT, "session": TEXT,
    "seed": ("an integer", _is_integer), "trial": COUNT, "batch": COUNT, "sketch": TEXT,
    "trace": ("a list", _list_of(lambda step: True)), "error": TEXT,
    "times": ("a list of numbers", _list_of(_is_number)), "median": NUMBER, "predicted": NUMBER,
    "verdict": MAPPING, "numerics": TEXT, "build_seconds": NUMBER, "source_hash": TEXT,
    "choices": TEXTS, "time": TEXT, "program": TEXT,
    "visits": ("a list of visits, each with its seconds", _list_of(_is_visit)),
}  # fmt: skip

VISIT = ("seconds", "at", "lasted", "canary", "switches", "faults", "waited")

PARTS: dict[str, dict[str, Kind]] = {
    "workload": {
        "key": TEXT, "structure": TEXT, "name": TEXT, "text": TEXT,
        "shapes": ("a list of (buffer, shape, dtype)", _list_of(_is_shape)), "constants": TEXTS,
    },
    "verdict": {
        "checked": ("true or false", lambda value: isinstance(value, bool)),
        "max_error": NUMBER, "tolerance": NUMBER,
    },
    "own": {"function": TEXT, "knobs": TEXTS},
    "conditions": {
        "sizes": ("a mapping of sizes or null", _or_none(_is_sizes)),
        "threads": ("an integer or null", _or_none(_is_integer)),
        "compiler": ("a text or null", _or_none(_is_text)),
        "flags": ("a text or null", _or_none(_is_text)),
        "caches": ("a text or null", _or_none(_is_text)),
    },
}  # fmt: skip
