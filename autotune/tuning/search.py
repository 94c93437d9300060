"""A search in progress: its batches one by one, and the race at its end.

`tune` goes on with one until its budget is spent, `tune_all` with several in turns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack

from autotune.database.records import Record
from autotune.measure import Measurer, MeasureResult
from autotune.measure.lock import Report
from autotune.measure.reference import Reference
from autotune.space import Candidate
from autotune.tuning.batches import Batch, next_batch
from autotune.tuning.options import Options
from autotune.tuning.progress import Task
from autotune.tuning.replay import candidate_of
from autotune.tuning.session import Session


class Search:
    """The search of a session. Use it as a context manager, so that its workers end.

    how      what proposes candidates, who builds them and where they run
    report   told about waits
    shipped  whether records that ship with the project begin it too
    """

    def __init__(self, session: Session, how: Options, report: Report, shipped: bool) -> None:
        self.session, self._shipped = session, shipped
        self._how, self._report = how, report
        self._measurer: Measurer | None = None
        self._workers = ExitStack()
        self._reference: Reference | None = None

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.session.state.ahead = None
        self._end()

    def begin(self, task: Task, several: bool, without: Collection[str] = ()) -> None:
        """Look for what is known of like programs, those with the keys of `without` left out. With
        `several` trials to come, workers make schedules ahead; for one alone they are not started,
        and they have no functions of users."""
        from autotune.tuning.transfer import hints

        session = self.session
        if several and not session.function:
            session.state.ahead = lambda some: self._running().features(
                some, session.numerics, session.rules, session.costs
            )
            self._start_workers()
        session.state.hints = hints(session, without, self._shipped)
        best = session.stored_best()
        task.best(None if best is None else best.median)
        if best is None:
            from autotune.tuning.expect import expected

            session.expectation = expected(session)
            task.expect(session.expectation)

    def _start_workers(self) -> None:
        """Have the workers start that make schedules ahead, while this process goes on; nothing
        where they run."""
        if self._measurer is None and self.session.state.ahead is not None:
            session = self.session
            self._running().begin(session.numerics, session.rules, session.costs)

    def step(self, task: Task, goal: float) -> Batch:
        """Propose a batch and measure it, or what is missing of one that was cut off, until the
        session has `goal` trials. Nothing is proposed where nothing is left to try."""
        from autotune.search.trust import trust

        session = self.session
        self._start_workers()
        with session.phases("proposing"):
            batch = next_batch(session, self._how.propose)
        if batch.proposed:
            task.model(str(trust(session.space, session.state)))
        left = list(batch.missing)
        while left and (most := goal - session.trials) > 0:  # some may repeat what is known
            count = int(min(most, len(left)))
            self._measure(left[:count], batch.number, task)
            left = left[count:]
        return batch

    def finish(self, task: Task) -> None:
        """Race the best, unless that is settled."""
        if not self.session.is_settled():
            self._race(task)

    def compare(self, records: Sequence[Record], task: Task) -> None:
        """Race schedules of `records`, which may be of other sizes, with the best of this session;
        those of which there is no trial here are tried before, and their trials are stored."""
        tried = {record.code for record in self.session.trial_records() if record.is_trial}
        found = {r.code: candidate_of(r) for r in records if r.code not in tried}
        self._measure([c for c in found.values() if c is not None], None, task)
        self._race(task, [record.code for record in records])

    def _race(self, task: Task, codes: Sequence[str] = ()) -> None:
        from autotune.tuning.race import final_race

        task.phase("racing the best")
        with self.session.phases("race"):
            final_race(self.session, self._running(), codes)

    def rest(self) -> None:
        """End the workers, of which the next step starts others."""
        if self._measurer is not None:
            self._reference = self._measurer.reference  # it is not made again
        self._end()

    def _end(self) -> None:
        if self._measurer is not None:
            share = self._measurer.neighbours.share()
            if share is not None:
                self.session.others = max(share, self.session.others or 0.0)
        self._measurer = None
        self._workers.close()

    def _running(self) -> Measurer:
        """The measurer; it is made where there is none."""
        if self._measurer is None:
            session = self.session
            self._measurer = self._workers.enter_context(
                Measurer(
                    session.func,
                    str(session.target),
                    session.settings,
                    reference=self._reference,
                    sizes=session.sizes,
                    constants=session.workload.constants,
                    report=self._report,
                    workers=self._how.workers,
                    phases=session.phases,
                )
            )
        return self._measurer

    def _measure(self, some: Sequence[Candidate], batch: int | None, task: Task) -> None:
        """Measure some candidates of a batch; each trial is stored when it is finished."""
        session = self.session
        designs = [session.design(candidate) for candidate in some]
        predicted = session.state.predicted(some)

        def store(index: int, result: MeasureResult) -> None:
            record = session.record(
                some[index], designs[index], result.unless_in(session.sources),
                predicted[index], batch=batch,
            )  # fmt: skip
            session.database.add(record)
            session.remember(record)
            if record.is_trial:
                task.advance(record)

        best, known = session.state.best_seconds(), frozenset(session.sources)
        self._running().measure(designs, incumbent=best, known=known, on_result=store)
