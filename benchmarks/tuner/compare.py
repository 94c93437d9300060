"""All strategies on all recordings over many seeds, and the policy without each ingredient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from autotune.search import STRATEGIES, Propose
from autotune.search.policy import DEFAULT, Policy, propose
from autotune.simulate import Recording, simulate
from autotune.simulate.replay import dealt
from benchmarks.tuner.record import recorded

MARKS = (1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 192, 256)
"""Numbers of trials after which a search is looked at."""

NEAR = 1.05
"""Within 5 % of the best known: that is as good as found."""

WITHOUT: Mapping[str, Policy] = {
    "trust: the model always counts": replace(DEFAULT, model="always"),
    "the model: the draft alone": replace(DEFAULT, model="never"),
    "coordinate descent": replace(DEFAULT, descent=0.0),
    "what formulas put first": replace(DEFAULT, formulas=0.0),
    "learning from failures": replace(DEFAULT, failures=False),
}
"""The policy without each ingredient, by what is left out."""


@dataclass(frozen=True)
class Row:
    """One strategy: `regrets` are times of winners over the best known ones, of shape (recordings,
    seeds, marks)."""

    name: str
    marks: tuple[int, ...]
    regrets: np.ndarray

    def mean(self, trials: int) -> float:
        """The geometric mean of the regrets after so many trials."""
        return float(np.exp(np.log(self._after(trials)).mean()))

    def found(self, trials: int) -> float:
        """The share of searches that are within 5 % of the best known after so many trials."""
        return float((self._after(trials) <= NEAR).mean())

    def against(self, other: Row, trials: int) -> tuple[float, float, float]:
        """How many times slower than the other's its winners are: the geometric mean, and an
        interval of 95 % by bootstrap over pairs of searches of one recording and seed."""
        apart = np.log(self._after(trials)) - np.log(other._after(trials))
        apart = apart.ravel()
        picks = np.random.default_rng(0).integers(len(apart), size=(1000, len(apart)))
        low, high = np.quantile(apart[picks].mean(axis=1), (0.025, 0.975))
        mean, low, high = np.exp((apart.mean(), low, high))
        return float(mean), float(low), float(high)

    def _after(self, trials: int) -> np.ndarray:
        """A search that found nothing that runs counts as ten times slower than the best."""
        at = self.marks.index(max(m for m in self.marks if m <= trials))
        return np.minimum(self.regrets[:, :, at], 10.0)


def ceiling(paths: Sequence[Path], draws: int = 2000, fastest: int = 60) -> float:
    """The share of searches that would count as good if all winners took as long as the best known:
    what judges two of the fastest candidates, but for the least of each, is within 5 % so often."""
    rng, shares = np.random.default_rng(0), []
    for path in paths:
        recording = recorded(path)
        ran = sorted((e for e in recording.entries if e.seconds), key=lambda e: e.seconds or 0.0)
        times = np.log([e.visits[: recording.visits] for e in ran[:fastest]])
        noise = times - times.min(axis=1, keepdims=True)
        pairs = rng.integers(len(noise), size=(draws, 2))
        for seed, (a, b) in enumerate(pairs):
            _, at = dealt(seed, recording)
            apart = noise[a, at].min() - noise[b, at].min()
            shares.append(np.exp(apart) <= NEAR)
    return float(np.mean(shares))


class Compared(NamedTuple):
    """Rows of all strategies on recorded times, of the same on recordings without their noise, and
    of the policy without each ingredient."""

    rows: list[Row]
    quiet: list[Row]
    without: list[Row]


def compared(
    paths: Sequence[Path], trials: int, seeds: int, jobs: int, ablations: bool
) -> Compared:
    marks = tuple(m for m in MARKS if m <= trials)
    kinds = [(name, quiet) for quiet in (False, True) for name in STRATEGIES]
    kinds += [(name, False) for name in WITHOUT if ablations]
    tasks = [(*kind, path, seed) for kind in kinds for path in paths for seed in range(seeds)]
    one = partial(_regrets, trials=trials, marks=marks)
    with ProcessPoolExecutor(jobs) as pool:
        found = np.array(list(pool.map(one, tasks, chunksize=max(seeds // 2, 1))))
    table = found.reshape(len(kinds), len(paths), seeds, len(marks))
    rows = [Row(name, marks, regrets) for (name, _), regrets in zip(kinds, table)]
    many = len(STRATEGIES)
    return Compared(rows[:many], rows[many : 2 * many], rows[2 * many :])


def _regrets(task: tuple[str, bool, Path, int], trials: int, marks: Sequence[int]) -> list[float]:
    name, quiet, path, seed = task
    recording = _without_noise(path) if quiet else recorded(path)
    run = simulate(recording, _strategy(name), trials, seed)
    return [run.regret(mark) for mark in marks]


@lru_cache(maxsize=16)
def _without_noise(path: Path) -> Recording:
    return recorded(path).without_noise()


def _strategy(name: str) -> str | Propose:
    return partial(propose, settings=WITHOUT[name]) if name in WITHOUT else name
