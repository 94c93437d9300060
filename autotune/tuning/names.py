"""A program by the names that its stored trials have for it.

Names are no part of a workload, and choices are called after blocks: so a search goes on in the
names that it was begun with, whatever the program is called by now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from autotune.database.database import Database
from autotune.database.records import Workload
from autotune.machine.machine import Machine
from tensorir import Numbers, PrimFunc, Target, TensorIRError, parse


def as_stored(
    database: Database,
    func: PrimFunc,
    sizes: Numbers,
    constants: Collection[str],
    target: Target,
    machine: Machine,
) -> tuple[PrimFunc, Numbers, tuple[str, ...]]:
    """`func`, `sizes` and `constants` as most of the stored trials of this place call things; as
    they are where some have the same names, or none can be read."""
    given = func, sizes, tuple(constants)
    asked = Workload.of(func, constants)
    found = database.records(asked, target, machine)
    texts = Counter(record.workload.text for record in found)
    if not texts or _nameless(asked.text) in map(_nameless, texts):
        return given
    ((text, _),) = texts.most_common(1)
    try:
        stored = replace(parse(text), name=func.name)
    except TensorIRError:  # of another version: its trials are skipped, and said to be
        return given
    params = {mine.name: theirs.name for mine, theirs in zip(func.params, stored.params)}
    numbers = {mine.name: theirs.name for mine, theirs in zip(func.free_vars, stored.free_vars)}
    names = tuple(params[name] for name in constants)
    if Workload.of(stored, names).key != asked.key:
        return given
    return stored, {numbers[name]: value for name, value in sizes.items()}, names


def _nameless(text: str) -> str:
    """A printed program without the name of its function, which no choice is called after."""
    return text.partition("(")[2]
