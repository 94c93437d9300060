"""Timing the forms of several processes in turns.

Threads of a library spin for a while after a call and slow whatever runs next, so there is a pause
between two libraries; the forms of one library follow each other in one stretch of its turn. Every
round has another order, and every block begins with untimed calls.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from backends import Timing
from benchmarks.peers.process import Gone, Process

PAUSE_S = 0.15
SLOW_S = 0.1
"""A call this long needs no warm-up, and takes part in every SLOW_EVERY-th round only."""

SLOW_EVERY = 5
WARM_SHARE = 3
"""A block of so many calls is preceded by one more untimed call: the caches hold other data."""

ANSWER_S = 120.0


@dataclass(frozen=True)
class Subject:
    """One form of one library, with the calls that fill a block and the seconds of one."""

    library: str
    form: str
    calls: int
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.library} {self.form}"


def in_turns(
    subjects: Mapping[str, list[Subject]],
    processes: Mapping[str, Process],
    rounds: int,
    pause_s: float = PAUSE_S,
    seed: int = 0,
) -> tuple[dict[Subject, Timing], dict[str, str]]:
    """The times of all subjects (by library), and the reasons of libraries that dropped out."""
    times: dict[Subject, list[float]] = {s: [] for found in subjects.values() for s in found}
    gone: dict[str, str] = {}
    order = np.random.default_rng(seed)
    names = list(subjects)
    for number in range(rounds):
        for place in order.permutation(len(names)):
            library = names[place]
            if library in gone:
                continue
            due = [s for s in subjects[library] if s.seconds <= SLOW_S or number % SLOW_EVERY == 0]
            if not due:
                continue
            time.sleep(pause_s)
            try:
                for at in order.permutation(len(due)):
                    times[due[at]].append(_block(processes[library], due[at]))
            except Gone as reason:
                gone[library] = str(reason)
    kept = {s: Timing(tuple(t), s.calls) for s, t in times.items() if t and s.library not in gone}
    return kept, gone


def _block(process: Process, subject: Subject) -> float:
    warm = 0 if subject.seconds > SLOW_S else 1 + subject.calls // WARM_SHARE
    answer = process.ask(ANSWER_S, do="time", form=subject.form, calls=subject.calls, warm=warm)
    if "error" in answer:
        raise Gone(answer["error"])
    seconds: float = answer["seconds"]
    return seconds
