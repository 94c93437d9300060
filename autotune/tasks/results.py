"""What tune_all returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from autotune.tuning.result import TuneResult
from tensorir import TensorIRError


@dataclass(frozen=True, repr=False)
class TaskResults(Mapping[str, TuneResult]):
    """The result of each function by its name; printing it shows who got which share of the search.

    weights  how often each is called: what was made short is the weighted sum of the times
    failed   why there is no result, by the names of functions of which nothing ran
    ended    why the search ended
    """

    results: Mapping[str, TuneResult]
    weights: Mapping[str, float]
    failed: Mapping[str, str] = field(default_factory=dict)
    ended: str = ""

    def __getitem__(self, name: str) -> TuneResult:
        if name in self.failed:
            raise TensorIRError(f"{name!r} has no result: {self.failed[name]}")
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def best_seconds(self) -> float:
        """The weighted sum of the best times, seconds."""
        return sum(self.weights[name] * result.best_seconds for name, result in self.items())

    @property
    def speedup(self) -> float | None:
        """The weighted sum of the defaults' times over that of the best; None where a race is
        missing."""
        ratios = {name: result.speedup for name, result in self.items()}
        if not ratios or None in ratios.values():
            return None
        before = [self.weights[n] * self[n].best_seconds * (r or 1.0) for n, r in ratios.items()]
        return sum(before) / self.best_seconds

    def __repr__(self) -> str:
        spent = sum(result.seconds for result in self.values())
        rows = [("function", "weight", "best ms", "default/best", "trials", "new", "seconds", "")]
        for name, result in self.items():
            gain = "" if result.speedup is None else f"{result.speedup:.2f}"
            share = f"{result.seconds / spent:.0%}" if spent else ""
            rows.append(
                (
                    name, f"{self.weights[name]:g}", f"{1e3 * result.best_seconds:.4g}", gain,
                    str(result.trials), str(result.measured), f"{result.seconds:.1f}", share,
                )
            )  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in rows
        ]
        total = f"in all {1e3 * self.best_seconds:.4g} ms"
        if self.speedup is not None:
            total += f", {self.speedup:.2f} times as fast as by default"
        ended = f"; ended: {self.ended}" if self.ended else ""
        failed = [f"{name}: {why}" for name, why in self.failed.items()]
        return "\n".join([*lines, *failed, f"{total}{ended}"])
