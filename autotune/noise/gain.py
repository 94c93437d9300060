"""How much faster one schedule is than another, with an interval, in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.noise.signed_rank import Interval


@dataclass(frozen=True)
class Gain:
    """The default's time / the schedule's time - 1, within `low` and `high` at `confidence`."""

    estimate: float
    low: float
    high: float
    confidence: float

    @classmethod
    def of(cls, logs: Interval, confidence: float) -> Gain:
        """The gain where `logs` is the interval of log(the default's time / the other time)."""
        return cls(
            _factor(logs.estimate) - 1, _factor(logs.low) - 1, _factor(logs.high) - 1, confidence
        )  # fmt: skip

    @property
    def is_certain(self) -> bool:
        return self.low > 0

    def __str__(self) -> str:
        """ "12 % [9, 15]"."""
        digits = 1 if max(abs(self.low), abs(self.high)) < 0.03 else 0
        low, high = (f"{100 * x:.{digits}f}" for x in (self.low, self.high))
        return f"{100 * self.estimate:.{digits}f} % [{low}, {high}]"


@dataclass(frozen=True)
class Outcome:
    """What a race found about one schedule.

    won      whether it is the one to take
    default  whether it is the schedule that needs no tuning, and is kept unless another one is
             certainly faster
    gain     how much faster than the default it is
    missed   where the default won: how much faster the best of the others can be at most
    busy     where there were too few quiet rounds to decide anything: the share of the others
    """

    won: bool
    default: bool
    gain: Gain
    missed: float = 0.0
    busy: float = 0.0

    def __str__(self) -> str:
        """What may be said of the winner: never a number that may be luck."""
        level = f"{self.gain.confidence:.0%} confidence"
        if self.busy:
            return (
                f"no verdict: other programs disturbed {self.busy:.0%} of the race's rounds; the "
                "default is kept until a race on a quieter machine"
            )
        if not self.default:
            return f"{self.gain} faster than the default ({level})"
        found = "no faster schedule found"
        percent = f"{100 * self.missed:.{1 if self.missed < 0.1 else 0}f} %"
        if self.missed <= 0:
            return f"{found} (all others are slower than the default, {level})"
        return (
            f"{found} (the default is within {percent} of the best, {level})"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "won": self.won, "default": self.default, "missed": self.missed,
            "busy": self.busy,
            "gain": [self.gain.estimate, self.gain.low, self.gain.high],
            "confidence": self.gain.confidence,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome | None:
        """The outcome in the field `race` of a record; None where it holds something else."""
        try:
            estimate, low, high = (float(x) for x in data["gain"])
            gain = Gain(estimate, low, high, float(data["confidence"]))
            missed, busy = float(data["missed"]), float(data.get("busy", 0.0))
            return cls(bool(data["won"]), bool(data["default"]), gain, missed, busy)
        except (KeyError, TypeError, ValueError):
            return None


def _factor(log: float) -> float:
    return math.inf if log > 700 else math.exp(log)
