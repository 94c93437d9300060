"""What the visits of a search's own trials tell of the noise it had."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.cost_model.ceiling import Ceiling, ceiling
from autotune.database.records import Record


def noise_ceiling(trials: Iterable[Record]) -> Ceiling:
    """How well two visits of the same trials agree, and the model's predictions beside that.

    Records of earlier versions have blocks in a row, which agree whatever the noise: they are left
    out.
    """
    found = [r for r in trials if r.status == "ok" and r.visits]
    return ceiling([r.times for r in found], [r.predicted for r in found])
