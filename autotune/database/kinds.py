"""Kinds of machines: what decides which schedule is fast, in place of which machine it is.

A record that ships with the project was timed on some machine. On another one of the same kind its
schedule is as good, and its time about right; on a machine of another kind neither is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autotune.database.conditions import Conditions
from autotune.database.records import Record
from autotune.machine.machine import Machine

FACTS = ("arch", "isa", "caches", "gpu")
"""Facts of a machine that count. The name of the processor does not: rented machines have many for
one core, or hide it. Nor does the number of processors, since that of threads does."""

Kind = Mapping[str, str]
"""What has to be equal, in words. What is not known is missing, and equals nothing."""


def kind_of(record: Record) -> Kind:
    """The kind of machine that a record's time was taken on, with what else decides it."""
    return _kind(record.target, record.machine, record.conditions)


def kind_here(target: object, machine: Machine, conditions: Conditions) -> Kind:
    """The same of a kernel for `target` on `machine`."""
    return _kind(str(target), machine.to_json(), conditions)


def differences(asked: Kind, stored: Kind) -> dict[str, tuple[str, str]]:
    """By name, what differs: as it was asked for, and as it is stored. Empty for one kind."""
    return {
        name: (asked.get(name, "unknown"), stored.get(name, "unknown"))
        for name in dict.fromkeys((*asked, *stored))
        if name not in asked or asked[name] != stored.get(name)
    }


def _kind(target: str, machine: Mapping[str, Any], conditions: Conditions) -> Kind:
    words = [word for word in target.split() if not word.startswith("-threads=")]
    found = {"target": " ".join(words)}
    found.update({name: _shown(machine[name]) for name in FACTS if name in machine})
    told = {**conditions.to_json(), "compiler": compiler_release(conditions.compiler)}
    del told["flags"]  # the target's options and the release's own
    told["calls"] = told.pop("caches")  # warm or cold; a machine's caches are another thing
    return found | {name: _shown(value) for name, value in told.items() if value is not None}


def compiler_release(version: str | None) -> str | None:
    """ "gcc 12" of "gcc (Debian 12.2.0-14) 12.2.0": name and first number; None for None.

    Later numbers of a release mend errors and leave the code as it is.
    """
    if version is None:
        return None
    outside = re.sub(r"\([^)]*\)", "", version)
    number = re.search(r"(\d+)\.\d+", outside)
    name = "clang" if "clang" in version else version.partition(" ")[0]
    return f"{name} {number[1]}" if number else version


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={value[name]}" for name in sorted(value)) or "none"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
