"""The costs that were measured on this machine, kept for later processes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from autotune.calibration.measure import Measured, believed, measure_costs
from autotune.database.records import utc_now
from autotune.machine.machine import this_machine
from autotune.machine.measured_file import MeasuredFile, entry_key
from backends import resolve
from tensorir import Costs, Target, TensorIRError, usual_costs

FILE = MeasuredFile("costs.json")

MEASURED = "measured"
"""What asks for the costs of this machine in place of the defaults."""

CostsLike = Costs | str | None


def calibrate(target: Target | str = "c") -> Measured:
    """Measure the costs of this processor anew, and keep them under the machine's key.

    They hold for every number of threads and any sizes of caches that a target says. Raises as
    measure_costs, and TensorIRError for a target that is no processor's.
    """
    plain = _plain(target)
    found = measure_costs(plain)
    FILE.put(_key(plain), {
        "machine": this_machine().key, "target": str(plain), "time": utc_now(),
        "costs": dict(found.costs), "others": dict(found.others),
    })  # fmt: skip
    return found


def known_costs(target: Target | str = "c") -> tuple[Measured | None, str]:
    """What was measured for a target on this machine, or None; and a word on what is not read."""
    entries, word = FILE.read()
    entry = entries.get(_key(_plain(target)))
    if entry is None:
        return None, word
    costs, others = entry.get("costs"), entry.get("others")
    names = {f.name for f in fields(Costs)}
    if not (_numbers(costs) and _numbers(others) and costs and set(costs) <= names):
        return None, f"{FILE.path} has costs that are none: they are not used"
    return Measured(dict(costs), dict(others)), word


def costs_of(costs: CostsLike, target: Target) -> Costs:
    """The costs that were asked for: None for the defaults, "measured" for those of this machine.

    Where these were never measured, the defaults are taken, with a warning. Raises TensorIRError
    for anything else.
    """
    usual = usual_costs(target.features)
    if costs is None or isinstance(costs, Costs):
        return costs or usual
    if not (isinstance(costs, str) and costs == MEASURED):
        raise TensorIRError(f"costs {costs!r} are not known; give {MEASURED!r}, Costs(...) or None")
    if target.on_gpu:
        return Costs()
    found, word = known_costs(target)
    if found is None:
        reason = word or "the costs of this processor were never measured"
        warnings.warn(
            f"{reason}; the defaults are used. `tensorir doctor --calibrate` measures them",
            stacklevel=3,
        )
        return usual
    return found.applied(usual)


def _plain(target: Target | str) -> Target:
    resolved = resolve(target)
    if resolved.on_gpu:
        raise TensorIRError(f"costs are those of processors, and {str(resolved)!r} is a GPU")
    everywhere: dict[str, Any] = dict.fromkeys(("threads", "l1d", "l2", "l3"))
    return replace(resolved, **everywhere)


def _key(target: Target) -> str:
    return entry_key(("costs",), target)


def _numbers(found: object) -> bool:
    return isinstance(found, Mapping) and all(map(believed, found.values()))
