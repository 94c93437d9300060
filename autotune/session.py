"""Session: one search over one function, and what the database knows of it."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from autotune.cost_model import make_cost_model
from autotune.database import Database
from autotune.machine import Machine, this_machine
from autotune.measure import MeasureResult, MeasureSettings
from autotune.measure.scoring import wanted_features
from autotune.records import Record, Workload
from autotune.rules import default_candidates, machine_of, make_space
from autotune.search import SearchState
from autotune.space import Candidate, Space
from autotune.toolchain import toolchain
from autotune.work import flops
from backends import resolve, why_not_here
from schedule import Schedule
from tensorir import PrimFunc, Target, TensorIRError, check_numerics, split_constants


@dataclass
class Session:
    """What is fixed during a search, and what has been measured.

    trials  distinct candidates in the database, those of earlier runs included
    state   what the search strategy decides from
    work    operations of the function; None if a size is symbolic
    notice  what the user should know of the cost model; "" for nothing
    """

    func: PrimFunc
    target: Target
    space: Space
    database: Database
    seed: int
    settings: MeasureSettings
    numerics: str
    workload: Workload
    machine: Machine
    state: SearchState
    work: int | None
    notice: str
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    trials: int = 0

    def trial_records(self) -> list[Record]:
        """The stored trials, oldest first, without the records of final races."""
        found = self.database.records(self.workload, self.target, self.machine)
        return [r for r in found if not r.is_final]

    def stored_best(self) -> Record | None:
        """The best record that the wanted numerics class allows."""
        return self.database.best(self.workload, self.target, self.machine, self.numerics)

    def statuses(self) -> Counter[str]:
        """How the stored trials ended."""
        return Counter(r.status for r in self.trial_records())

    def remember(self, record: Record) -> None:
        """Take a stored trial into the search state."""
        self.trials += 1
        candidate = candidate_of(record)
        if candidate is not None and candidate.sketch in self.space.sketches:
            timed = record.status in ("ok", "pruned")
            self.state.add(candidate, record.median if timed else None)

    def record(
        self,
        candidate: Candidate,
        schedule: Schedule,
        result: MeasureResult,
        predicted: float | None,
        final: bool = False,
    ) -> Record:
        """The record of one measurement."""
        settings = self.settings.to_json()
        return Record(
            workload=self.workload,
            target=str(self.target),
            features=self.target.features,
            machine_key=self.machine.key,
            machine=self.machine.to_json(),
            toolchain=toolchain(self.target),
            settings={**settings, "final": True} if final else settings,
            session=self.name,
            seed=self.seed,
            trial=self.trials,
            sketch=candidate.sketch,
            decisions=list(candidate.values),
            trace=tuple(schedule.trace.as_json()),
            predicted=predicted,
            numerics=schedule.numerics,
            **result.record_fields(),
        )


def start_session(
    func: PrimFunc,
    target: str | Target,
    database: Database,
    seed: int,
    numerics: str,
    cost_model: str,
    settings: MeasureSettings | None,
    sizes: Mapping[str, int] | None,
    constants: Collection[str] = (),
) -> Session:
    """A session that knows the trials which the database has of this work."""
    check_numerics(numerics)
    missing = [v.name for v in func.size_vars if v.name not in (sizes or {})]
    if missing:
        raise TensorIRError(
            f"{func.name!r} has the symbolic size {missing[0]!r}: give a number for it in `sizes`"
        )
    why = why_not_here(target)
    if why is not None:
        raise TensorIRError(
            f"candidates for {str(target)!r} cannot be measured here: {why}; tune on that machine"
        )
    resolved = resolve(target)
    machine = machine_of(resolved)
    facts = this_machine()
    workload = Workload.of(func, constants)
    space = make_space(func, machine, numerics)
    model = make_cost_model(cost_model, seed)
    features = wanted_features(resolved, workload.constants, numerics)
    session = Session(
        func=func,
        target=resolved,
        space=space,
        database=database,
        seed=seed,
        settings=settings or MeasureSettings(threads=resolved.threads),
        numerics=numerics,
        workload=workload,
        machine=facts,
        state=SearchState(model, features, defaults=default_candidates(space, workload.constants)),
        work=flops(split_constants(func, constants).main),
        notice=getattr(model, "notice", None) or "",
    )
    for record in session.trial_records():
        session.remember(record)
    return session


def candidate_of(record: Record) -> Candidate | None:
    """The candidate that a record measured; None for a record without decisions."""
    if not record.sketch or record.decisions is None:
        return None
    return Candidate.from_json([record.sketch, record.decisions])
