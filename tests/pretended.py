"""Measurers that run nothing, for what does not depend on who measures, and how."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

from autotune.database.records import Verdict
from autotune.measure import MeasureResult
from autotune.measure.busy import Neighbours
from autotune.measure.settings import Rounds
from autotune.tuning.replay import source_hash
from schedule import Schedule
from tensorir import Numbers, PrimFunc, Target


class RunsNothing:
    """In place of a `Measurer`: `result` says what becomes of each program."""

    def __init__(self) -> None:
        self.neighbours = Neighbours()

    def __enter__(self) -> RunsNothing:
        return self

    def __exit__(self, *exc_info: object) -> None:
        return

    def begin(self, *args: Any) -> None:
        return

    def features(self, *args: Any) -> None:
        return

    def result(self, program: Any) -> MeasureResult:
        raise NotImplementedError

    def measure(
        self, programs: Sequence[Any], on_result: Any = None, **options: Any
    ) -> list[MeasureResult]:
        results = []
        for at, program in enumerate(programs):
            results.append(self.result(program))
            if on_result is not None:
                on_result(at, results[-1])
        return results

    def race(self, programs: Sequence[Any], rounds: int, before: int) -> Rounds:
        times = tuple((self.result(program).median or 1.0,) * rounds for program in programs)
        return Rounds(times, (False,) * rounds)


class Pretended(RunsNothing):
    """All programs are right, and take what the hash of their source text says, 1 to 2 ms."""

    reference = None

    def __init__(
        self, func: PrimFunc, target: str, *settings: Any, sizes: Numbers | None = None,
        constants: Collection[str] = (), **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.target = Target.parse(target)
        self.made: dict[str, MeasureResult] = {}
        self.record: Any = SimpleNamespace(
            workload=SimpleNamespace(constants=constants), conditions=SimpleNamespace(sizes=sizes)
        )

    def result(self, program: Schedule) -> MeasureResult:
        text = str(program.func)
        if text not in self.made:
            self.made[text] = self._made(program)
        return self.made[text]

    def _made(self, program: Schedule) -> MeasureResult:
        code = source_hash(self.record, program, self.target)
        seconds = (1 + int(code[:4], 16) / 16**4) * 1e-3
        verdict = Verdict(True, 0.0, 1e-5)
        return MeasureResult("ok", "", (seconds,), seconds, verdict, source_hash=code)
