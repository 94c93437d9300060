"""Measuring candidates: builds in parallel, then checks and times them one after the other.

No candidate runs in this process. Whatever one does (crash, hang, write where it must not) becomes
the status of its result, and the next one is measured in a worker that is known to be sound.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import MeasureError
from autotune.measure.batch import Batch, Built, OnResult, once, result_of
from autotune.measure.builders import BuilderPool, elsewhere, tell_why
from autotune.measure.busy import TOLERABLE, Neighbours
from autotune.measure.cold import check_cold
from autotune.measure.design import (
    Design,
    Program,
    build_request,
    program_text,
    rounds_otherwise,
    text_request,
)
from autotune.measure.externs import declarations
from autotune.measure.lock import Report, machine_lock
from autotune.measure.memory import build_limit, run_limit
from autotune.measure.oracle import make_oracle
from autotune.measure.places.folder import no_room, working_folder
from autotune.measure.places.runner import HERE, LocalRunner, Slot, Workers
from autotune.measure.reference import Reference
from autotune.measure.scoring import feature_request, feature_requests, made_for, scored_of
from autotune.measure.settings import MeasureResult, MeasureSettings, Rounds
from autotune.noise.visits import Visits
from autotune.phases import Phases
from autotune.space import Candidate
from backends import default_cache, host_threads
from tensorir import Costs, Numbers, PrimFunc

if TYPE_CHECKING:
    from autotune.measure.places.executors import ExecutorBuilders
    from autotune.search.state import Scored

DEFAULT_BUILDER = "autotune.measure.builder:build"
START_SECONDS = 120.0

TOGETHER = 16
"""Programs that are visited in turns, at most: a worker keeps the kernels of twice as many."""

SOUND = ("ok", "pruned", "build_error")
"""After other outcomes, memory or device of the worker may be spoiled: it is renewed."""


class Measurer:
    """Measures schedules of `func`. Use it as a context manager, so that workers end.

    func       the unscheduled program, whose results are the truth
    target     text of the target, handed to the builder
    reference  inputs and expected results; None: made by `make_oracle` at the first use
    sizes      values of symbolic sizes, used when the reference is made here
    constants  parameters that kernels are built with; their preparation is checked, not timed
    builder    "module:function" that turns (text, target) into a kernel, see `measure.job`
    report     told about waits
    workers    who builds ahead, and on which device candidates run
    phases     where seconds are counted; what the worker that times builds itself is timing there

    `neighbours` tells how busy others were while times were taken.

    Raises MeasureError when the set-up is broken, such as a worker that cannot start.
    """

    def __init__(
        self,
        func: PrimFunc,
        target: object = "c",
        settings: MeasureSettings | None = None,
        *,
        reference: Reference | None = None,
        sizes: Numbers | None = None,
        constants: Collection[str] = (),
        builder: str = DEFAULT_BUILDER,
        report: Report | None = None,
        lock: Path | None = None,
        workers: Workers = HERE,
        phases: Phases | None = None,
    ) -> None:
        self.func = func
        self.target = str(target)
        self.settings = settings or MeasureSettings()
        if self.settings.is_cold:
            check_cold(self.target)
        self._sizes = sizes
        self._constants = tuple(constants)
        self._builder = builder
        self._report = report
        self._lock = lock
        self.neighbours, self._phases = Neighbours(), phases or Phases()
        self._folder = working_folder()
        self._reference = reference
        self._calls: dict[str, int] = {}
        self._sources: dict[str, str | None] = {}
        self._batches = self._candidates = 0
        self._executor, self._device = workers.builder, workers.runner or LocalRunner(lock)
        self._runner: Slot | None = None
        self._builders: BuilderPool | ExecutorBuilders | None = None

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and delete the temporary files."""
        for worker in (self._runner, self._builders):
            if worker is not None:
                worker.close()
        self._runner = self._builders = None
        self._folder.close()

    @property
    def reference(self) -> Reference:
        """Inputs and expected results; made at the first use."""
        if self._reference is None:
            self._reference = make_oracle(self.func, self.settings.seed, self._sizes)
        return self._reference

    def measure(
        self,
        programs: Sequence[Program],
        *,
        incumbent: float | None = None,
        check: bool = True,
        min_ms: float | None = None,
        repeats: int | None = None,
        known: Collection[str] = (),
        on_result: OnResult | None = None,
    ) -> list[MeasureResult]:
        """The result of each program, in order.

        incumbent  best time so far, seconds: far slower candidates are stopped early ("pruned");
                   within the batch, better times take its place
        min_ms     and `repeats` override the settings
        known      hashes of source texts: what is built ahead is timed once of each ("repeated"),
                   and not of these; none times all
        on_result  called with (position, result), in order, as soon as each is known: a batch is
                   visited in rounds, so that is mostly at its end
        """
        self._check_place()
        built = once(self._build(programs), known)
        self._start_runner()
        texts = [program_text(program) for program in programs]
        results: list[MeasureResult] = []
        for start in range(0, len(texts), TOGETHER):
            part = range(start, min(start + TOGETHER, len(texts)))
            requests = [
                self._request(programs[at], texts[at], built[at][1], check, min_ms) for at in part
            ]
            visits = self._visits(len(part), repeats, incumbent)
            told = None if on_result is None else partial(_tell, on_result, start)
            batch = Batch([built[at][0] for at in part], requests, visits, told)
            self._visit(batch)
            ran = [at for at, result in zip(part, batch.results) if result.ok]
            self._sources.update({texts[at]: built[at][1] for at in ran})
            results += batch.results
            incumbent = visits.best()
        return results

    def _visit(self, batch: Batch) -> None:
        """Visit the candidates of a batch until all is known."""
        while batch.begin_round(self._phases):
            with self._phases.holding(self._undisturbed(), "timing"):
                for at in batch.order:
                    request = batch.request(at, self.settings.prune_factor)
                    batch.take(at, self._run(request, fresh=batch.is_new(at)))

    def _visits(self, count: int, repeats: int | None, incumbent: float | None) -> Visits:
        """The plan of the visits of a batch; each batch has orders of its own."""
        settings = self.settings
        self._batches += 1
        rng = random.Random(f"{settings.seed}:{self._batches}")
        limit = settings.timeout_s / 2
        return Visits(count, repeats or settings.repeats, rng, incumbent, limit)

    def race(
        self, programs: Sequence[Program], rounds: int, before: int = 0, min_ms: float | None = None
    ) -> Rounds:
        """The times of programs that were measured "ok" before, in so many rounds.

        All are timed in turn, in a new random order each round, so that drift of the machine hits
        all alike, in blocks as the settings say, unless `min_ms` says otherwise. `before` is the
        number of rounds that were asked for earlier in the same race. Raises MeasureError if one of
        them fails now.
        """
        settings = self.settings
        texts = [program_text(program) for program in programs]
        message = {
            "op": "race",
            "texts": texts,
            "sources": [self._sources.get(text) for text in texts],
            "calls": [self._calls.get(text) for text in texts] if before else None,
            "rounds": rounds,
            "min_ms": settings.min_ms if min_ms is None else min_ms,
            "seed": [settings.seed, before],
        }
        others = Neighbours()
        with self._phases.holding(self._undisturbed(others), "race"):
            reply = self._start_runner().request(message, self._limits())
            if reply.outcome == "timeout":  # what was in time before may have been held up
                reply = self._start_runner().request(message, self._limits())
        if reply.outcome != "answer" or reply.data["status"] != "ok":
            raise MeasureError(
                f"a finalist failed in the race, though not before: {reply.outcome} in phase"
                f" {reply.phase!r} {reply.data.get('error', reply.error)}"
            )
        self._calls = dict(zip(texts, reply.data["calls"]))
        busy = (others.share() or 0.0) > TOLERABLE
        disturbed = tuple(busy and each for each in reply.data["disturbed"])
        return Rounds(tuple(map(tuple, reply.data["race"])), disturbed)

    def _undisturbed(self, *others: Neighbours) -> AbstractContextManager[object]:
        """Where times are taken: no other tuner works, and who else does is noted."""
        return self._device.alone(self._report, self.neighbours, *others)

    def begin(self, numerics: str, outline: str, costs: Costs | None = None) -> None:
        """Start the workers that build, which make the space of `features` while this process goes
        on; nothing where it builds alone, or others build for it."""
        if self._jobs < 2 or self._executor is not None:
            return
        pool = self._start_builders()
        assert isinstance(pool, BuilderPool)
        pool.begin(feature_request((), made_for(numerics, outline, costs)))

    def features(
        self,
        candidates: Sequence[Candidate],
        numerics: str,
        outline: str,
        costs: Costs | None = None,
    ) -> list[Scored] | None:
        """The features of candidates of the space with that outline, several at a time. It was made
        with these costs of a processor; None for the defaults.

        None where they are not found here: on one processor, where workers know another space
        (see `scoring`), or where one of them failed, of which a warning tells.
        """
        if self._jobs < 2 and self._executor is None:
            return None
        pool = self._start_builders()
        about = made_for(numerics, outline, costs)
        messages = feature_requests(candidates, 2 * pool.jobs, about)
        with self._phases.holding(self._building(), "proposing"):
            replies = pool.request(messages)
        results = [result_of(reply, self.settings) for reply in replies]
        if all(result.ok for result in results):
            return [scored for reply in replies for scored in scored_of(reply.data["rows"])]
        if not elsewhere(replies):
            tell_why(results)
        return None

    @property
    def _jobs(self) -> int:
        return self.settings.build_jobs or host_threads()

    def _building(self) -> AbstractContextManager[object]:
        """Where candidates are built: nobody times on this machine. An executor's workers see to
        that where they are."""
        if self._executor is not None:
            return nullcontext()
        return machine_lock(shared=True, report=self._report, path=self._lock)

    def _start_builders(self) -> BuilderPool | ExecutorBuilders:
        if self._builders is None:
            memory = build_limit(self.settings.memory_gib, self._jobs)
            given = (
                self._jobs,
                self._start_message(None, memory),
                {**self._places(), "OMP_NUM_THREADS": "1"},
                self._limits(),
                self.settings.restart_every,
            )
            if self._executor is None:
                self._builders = BuilderPool(*given)
            else:
                from autotune.measure.places.executors import ExecutorBuilders

                self._builders = ExecutorBuilders(self._executor, *given, self._report)
        return self._builders

    def _build(self, programs: Sequence[Program]) -> list[Built]:
        """Result and source text of building ahead; nothing when the runner is to build itself.

        The runner starts meanwhile, with the expected results: it is waited for here, so that
        nothing of it disturbs what is timed.
        """
        if self._executor is None and min(self._jobs, len(programs)) < 2:
            return [(MeasureResult("ok"), None)] * len(programs)
        pool = self._start_builders()
        messages = [build_request(program) for program in programs]
        with self._phases.holding(self._building(), "building"), ThreadPoolExecutor(1) as beside:
            runner = beside.submit(self._start_runner)
            replies = pool.request(messages)
            runner.result()
            strange = elsewhere(replies)
            texts = [text_request(programs[at]) for at in strange]
            for at, reply in zip(strange, pool.request(texts) if texts else ()):
                replies[at] = reply
        self._phases.divide("building", [reply.data.get("spent", {}) for reply in replies])
        for program, reply in zip(programs, replies):
            if isinstance(program, Design) and "made" in reply.data:
                program.tell(reply.data["made"])
        return [(result_of(reply, self.settings), reply.data.get("source")) for reply in replies]

    def _run(self, request: Mapping[str, Any], fresh: bool) -> MeasureResult:
        """Visit one candidate; after what may spoil a worker there is a new one."""
        runner = self._start_runner()
        if fresh:
            if self._candidates >= self.settings.restart_every:
                runner.kill()
                self._candidates = 0
            self._candidates += 1
        result = result_of(runner.request(request, self._limits()), self.settings)
        if result.status not in SOUND:
            runner.kill()
        return result

    def _request(
        self, program: Program, text: str, source: str | None, check: bool, min_ms: float | None
    ) -> dict[str, Any]:
        """Of checking one candidate and visiting it for the first time."""
        return {
            "op": "measure",
            "text": text,
            "source": source,
            "check": check,
            "loose": rounds_otherwise(program),
            "min_ms": self.settings.min_ms if min_ms is None else min_ms,
        }

    def _limits(self) -> dict[str, float]:
        run = self.settings.timeout_s
        build = self.settings.build_timeout_s
        return {"start": START_SECONDS, "build": build, "check": run, "time": run}

    def _start_message(self, reference: Path | None, memory: int | None) -> dict[str, Any]:
        return {
            "builder": self._builder,
            "target": self.target,
            "definition": str(self.func),
            "externs": declarations(self.func),
            "constants": {name: self.reference.inputs[name].shape for name in self._constants},
            "reference": None if reference is None else str(reference),
            "memory": memory,
            "cold": reference is not None and self.settings.is_cold,
        }

    def _places(self) -> dict[str, str]:
        """Where workers and their compilers write: what is killed leaves its files in our folder,
        and all keep objects where we do, even where that is no cache."""
        return {"TMPDIR": str(self._folder.path), "TENSORIR_CACHE": str(default_cache().place)}

    def _env(self) -> dict[str, str]:
        env = {**self._places(), "OMP_DYNAMIC": "false", "OMP_PROC_BIND": "close"}
        if self.settings.threads is not None:
            env["OMP_NUM_THREADS"] = str(self.settings.threads)
        return env

    def _check_place(self) -> None:
        """Raise MeasureError where nothing can be run, before anything is built for it."""
        if self._runner is None:
            self._device.check()
            if not self._folder.path.exists():
                raise MeasureError("the measurer is closed: make a new one")

    def _start_runner(self) -> Slot:
        if self._runner is None:
            self._check_place()
            path = self._folder.path / "reference.npz"
            try:
                self.reference.save(path)
            except OSError as error:
                raise no_room(error) from error
            memory = run_limit(self.settings.memory_gib, self.reference)
            message = self._start_message(path, memory)
            self._runner = self._device.slot(message, self._env())
        return self._runner


def _tell(on_result: OnResult, start: int, at: int, result: MeasureResult) -> None:
    on_result(start + at, result)
