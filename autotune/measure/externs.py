"""Extern functions in worker processes, which see programs as text and not who declared what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from tensorir import (
    BUILT_IN_EXTERNS,
    Extern,
    ExternFunc,
    PrimFunc,
    TensorIRError,
    add_extern,
    find_extern,
    walk,
)

FIELDS = ("name", "signature", "dtypes", "c", "where", "rtol", "bounded")


def declarations(func: PrimFunc | None) -> list[dict[str, Any]]:
    """What the extern functions of a program say of themselves, without their meanings, as JSON.

    A builder of its own may make kernels of something that is no program; that calls none.
    """
    if func is None:
        return []
    names = dict.fromkeys(s.name for s in walk(func.body) if isinstance(s, Extern))
    own = [f for f in map(find_extern, names) if f not in BUILT_IN_EXTERNS]
    return [{field: getattr(f, field) for field in FIELDS} for f in own]


def declare(rows: Iterable[Mapping[str, Any]]) -> None:
    """Make functions known that another process has checked."""
    for row in rows:
        dtypes = tuple(map(tuple, row["dtypes"]))
        given = {**row, "dtypes": dtypes, "bounded": tuple(row["bounded"])}
        add_extern(ExternFunc(**given, numpy=_not_here))


def _not_here(*arrays: Any, **sizes: int) -> NoReturn:
    raise TensorIRError("the meaning of an extern function stays in the process that declared it")
