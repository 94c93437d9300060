"""What a worker does with one candidate: build it, check its result, time it.

A builder is a function `(text, target) -> kernel`. The text is a printed program; the kernel is
called with all arrays in call order, and numbers by name, and `kernel.timer(*arrays)`, with numbers
in `sizes`, gives a function from a number of calls to the seconds they take. Beside a builder `f`
there may be a function `f_source`, see `builder.build_source`, for kernels whose source text
another process has made, and `f_schedule`, which takes a schedule in place of the text. Where some
parameters are constants, all take `constants` too: their arrays by name, or their shapes where the
kernel is not run; the kernel takes the other arrays.
"""

from __future__ import annotations

import hashlib
import math
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.measure.blocks import CALLS, is_block, is_hopeless, more_calls, pruned, slow_calls
from autotune.measure.builder import load_builder
from autotune.measure.canary import Canary
from autotune.measure.cold import ColdCaches
from autotune.measure.design import Made
from autotune.measure.guard import GuardedArray
from autotune.measure.memory import text_of
from autotune.measure.reference import Reference, same_bits
from autotune.measure.scoring import OTHER_SPACE
from autotune.noise.visits import PAUSE, PAUSES, Visit
from autotune.phases import Work
from backends import OutOfMemory
from schedule import Refusal
from tensorir import Target, TensorIRError, dtype

if TYPE_CHECKING:
    from autotune.measure.scoring import Scoring
    from schedule import Schedule

KEPT_KERNELS = 32
ERROR_CHARS = 4000

Timer = Callable[[int], float]
Announce = Callable[[str], None]
"""Told the name of a phase when it begins; the parent's watchdog listens."""


class Failure(Exception):
    """The candidate fails with this status."""

    def __init__(self, status: str, text: str, **more: Any) -> None:
        super().__init__(text)
        self.answer = {"status": status, "error": text[:ERROR_CHARS], **more}


class Job:
    """The kernels and arrays of one worker."""

    def __init__(
        self,
        builder: str,
        target: str,
        definition: str,
        reference: Reference | None,
        constants: Mapping[str, Sequence[int]] | None = None,
        cold: ColdCaches | None = None,
    ) -> None:
        self.target = target
        self.definition = definition
        self.reference = reference
        self._cold = cold
        self._constants = self._known(constants or {})
        self._build_text, self._build_source, self._build_schedule = load_builder(builder)
        self._kernels: OrderedDict[str, tuple[Any, float]] = OrderedDict()
        self._arrays: list[GuardedArray] | None = None
        self._scoring: Scoring | None = None

    def build(self, message: Mapping[str, Any], announce: Announce) -> dict[str, Any]:
        """Build only, which leaves the compiled object in the cache of the backend.

        The message has the text of a program, or a candidate of the space of a search.
        """
        work = Work()
        return {**self._prepared(message, announce), "spent": work.spent()}

    def _prepared(self, message: Mapping[str, Any], announce: Announce) -> dict[str, Any]:
        if "candidate" not in message:
            return self._built(message["text"], announce)
        announce("build")
        try:
            schedule = self._scoring_for(message).schedule(message)
        except Refusal as error:
            raise Failure("build_error", str(error)) from error
        if schedule is None:
            return {"status": OTHER_SPACE}
        text = str(schedule.func)
        made = {**vars(Made.of(schedule)), "text": text}
        return {**self._built(text, announce, schedule), "made": made}

    def _built(
        self, text: str, announce: Announce, schedule: Schedule | None = None
    ) -> dict[str, Any]:
        kernel, seconds = self._kernel(text, announce, schedule=schedule)
        source = getattr(kernel, "source", None) if self._build_source else None
        return {
            "status": "ok", "build_seconds": seconds, "source_hash": source_hash(kernel),
            "source": source, "object": getattr(kernel, "object_key", ""),
        }  # fmt: skip

    def measure(self, message: Mapping[str, Any], announce: Announce) -> dict[str, Any]:
        """Check one candidate and visit it for the first time."""
        kernel, seconds = self._kernel(message["text"], announce, message["source"])
        answer = {"build_seconds": seconds, "source_hash": source_hash(kernel)}
        start, first = time.perf_counter(), None
        with self._running(answer):
            if message["check"]:
                announce("check")
                answer["verdict"], first = self._check(kernel, message.get("loose", True))
            announce("time")
            answer.update(self._time(kernel, message, first))
        return {**answer, "run_seconds": time.perf_counter() - start}

    def visit(self, message: Mapping[str, Any], announce: Announce) -> dict[str, Any]:
        """Time one more block of a candidate that was measured before."""
        kernel = self._kernel(message["text"], announce, message["source"])[0]
        with self._running({}):
            announce("time")
            timer, calls = self._timer(kernel), message["calls"]
            if calls > 1:
                timer(1)  # another kernel had the caches before
            visit = self._canary.visit(timer, calls)
            self._check_guards()
        return {"status": "ok", "visits": [visit.to_json()]}

    def features(self, message: Mapping[str, Any], announce: Announce) -> dict[str, Any]:
        """The features of candidates, in a worker that only builds."""
        announce("build")
        return self._scoring_for(message).answer(message)

    def _scoring_for(self, message: Mapping[str, Any]) -> Scoring:
        """The space that a message speaks of, made again here."""
        made_for = (message["numerics"], message["costs"])
        if self._scoring is None or self._scoring.made_for != made_for:
            from autotune.measure.scoring import Scoring

            self._scoring = Scoring(self.definition, self.target, tuple(self._constants), *made_for)
        return self._scoring

    def race(self, message: Mapping[str, Any], announce: Announce) -> dict[str, Any]:
        """Time several candidates in turn; one block of each makes a round."""
        given = zip(message["texts"], message["sources"])
        kernels = [self._kernel(text, announce, source)[0] for text, source in given]
        rng = np.random.default_rng(message["seed"])
        with self._running({}):
            timers = [self._timer(kernel) for kernel in kernels]
            calls = list(message["calls"] or [None] * len(timers))
            for index, timer in enumerate(timers):
                if calls[index] is None:
                    announce("time")
                    calls[index] = self._block(timer, message["min_ms"])[0]
            rounds: list[tuple[bool, list[float]]] = []
            wanted, pause = message["rounds"], PAUSE
            while len(rounds) < 2 * wanted and sum(not bad for bad, _ in rounds) < wanted:
                rounds.append(self._round(timers, calls, rng, announce))
                if rounds[-1][0] and pause < PAUSES:
                    time.sleep(pause)
                    pause *= 2
        best = sorted(rounds, key=lambda made: made[0])[:wanted]
        return {
            "status": "ok", "calls": calls, "disturbed": [bad for bad, _ in best],
            "race": [list(column) for column in zip(*(made for _, made in best))],
        }  # fmt: skip

    def _round(
        self, timers: Sequence[Timer], calls: Sequence[int], rng: Any, announce: Announce
    ) -> tuple[bool, list[float]]:
        """Whether something disturbed a round of a race, and the seconds per call of each."""
        times = [0.0] * len(timers)

        def all_in_turn(_: int) -> float:
            for index in rng.permutation(len(timers)):
                announce("time")
                times[index] = timers[index](calls[index]) / calls[index]
            return sum(times)

        return bool(self._canary.visit(all_in_turn, 1).disturbed), times

    def _kernel(
        self, text: str, announce: Announce, source: str | None = None,
        schedule: Schedule | None = None,
    ) -> tuple[Any, float]:  # fmt: skip
        """The kernel of a program and the seconds that its build took."""
        if text in self._kernels:
            self._kernels.move_to_end(text)
            return self._kernels[text]
        announce("build")
        start = time.perf_counter()
        try:
            kernel = self._make(text, source, schedule)
        except (MemoryError, OutOfMemory) as error:
            raise Failure("out_of_memory", text_of(error)) from error
        except TensorIRError as error:
            raise Failure("build_error", str(error)) from error
        self._kernels[text] = kernel, time.perf_counter() - start
        while len(self._kernels) > KEPT_KERNELS:
            self._kernels.popitem(last=False)
        return self._kernels[text]

    def _make(self, text: str, source: str | None, schedule: Schedule | None) -> Any:
        if schedule is not None and self._build_schedule is not None:
            return self._build_schedule(schedule, self.target, self._constants or None)
        known: dict[str, Any] = {"constants": self._constants} if self._constants else {}
        if source is None or self._build_source is None:
            return self._build_text(text, self.target, **known)
        # What is prepared from constants, and launched on a GPU, the scheduled program tells.
        scheduled = bool(known) or Target.parse(self.target).on_gpu
        program = text if scheduled else self.definition
        return self._build_source(source, program, self.target, **known)

    def _known(self, constants: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The arrays of the constants; their shapes in a worker that only builds."""
        if self.reference is None:
            return {name: tuple(shape) for name, shape in constants.items()}
        return {name: self.reference.inputs[name] for name in constants}

    @contextmanager
    def _running(self, answer: Mapping[str, Any]) -> Iterator[None]:
        """Failures of the block keep what is known already."""
        try:
            yield
        except Failure as failure:
            failure.answer = {**answer, **failure.answer}
            raise
        except (MemoryError, OutOfMemory) as error:
            raise Failure("out_of_memory", text_of(error), **answer) from error
        except Exception as error:
            text = "".join(traceback.format_exception(error))[-ERROR_CHARS:]
            raise Failure("error", text, **answer) from error

    def _check(self, kernel: Any, loose: bool) -> tuple[dict[str, Any], Visit]:
        """Run once on poisoned outputs and compare everything; raises Failure. The verdict, and how
        long that call took."""
        reference, arrays = self._data(), self._guarded()
        for name, guarded in zip(reference.names, arrays, strict=True):
            if name in reference.expected and name not in reference.inputs:
                guarded.poison()
        self._renew()

        def called(_: int) -> float:
            begun = time.perf_counter()
            kernel(*self._values(), **reference.numbers)
            return time.perf_counter() - begun

        first = self._canary.visit(called, 1)
        self._check_guards()
        largest, allowed = 0.0, 0.0
        for name, guarded in zip(reference.names, arrays, strict=True):
            if name not in reference.expected:
                if not same_bits(guarded.array, reference.inputs[name]):
                    raise Failure("wrong_result", f"the kernel wrote to its input {name!r}")
                continue
            error, tolerance, index = reference.error(name, guarded.array, loose)
            if index is not None:
                raise Failure(
                    "wrong_result",
                    f"output {name!r} differs at {list(index)}: found {guarded.array[index]!s},"
                    f" expected {reference.expected[name][index]!s} (largest error {error:.3g},"
                    f" tolerance {tolerance:.3g})",
                    verdict={"checked": True, "max_error": error, "tolerance": tolerance},
                )
            if error >= largest:
                largest, allowed = error, tolerance
        return {"checked": True, "max_error": largest, "tolerance": allowed}, first

    def _renew(self) -> None:
        """Give in-out arrays the values again that they have before a call.

        Before each block of calls that are timed, they get them too: sums of thousands of calls
        would grow from block to block, and products leave the numbers that a processor is fast on.
        """
        data = self._data()
        for name, guarded in zip(data.names, self._guarded(), strict=True):
            if name in data.expected and name in data.inputs:
                guarded.array[...] = data.inputs[name]

    def _timer(self, kernel: Any) -> Timer:
        """The timer of a kernel, on arrays that hold what they should before each block."""
        numbers = self._data().numbers
        given = {"sizes": numbers} if numbers else {}
        seconds: Timer = kernel.timer(*self._values(), **given)
        if self._cold is not None:
            seconds = self._cold.timer(seconds)
        if not self._data().expected.keys() & self._data().inputs.keys():
            return seconds

        def renewed(calls: int) -> float:
            self._renew()
            return seconds(calls)

        return renewed

    def _block(self, timer: Timer, min_ms: float, first: Visit | None = None) -> tuple[int, Visit]:
        """The number of calls that take `min_ms`, and a block of so many. Shorter blocks, of which
        a `first` one may be made already, find that out and warm up."""
        most = math.inf if self._cold is None else CALLS
        calls, visit = 1, first or self._canary.visit(timer, 1)
        while (more := more_calls(calls, calls * visit.seconds, min_ms, most)) > calls:
            calls, visit = more, self._canary.visit(timer, more)
        return calls, visit

    def _check_guards(self) -> None:
        for name, guarded in zip(self._data().names, self._guarded(), strict=True):
            damage = guarded.damage()
            if damage is not None:
                raise Failure("wrong_result", f"the kernel wrote {damage} of {name!r}")

    def _time(
        self, kernel: Any, message: Mapping[str, Any], checked: Visit | None = None
    ) -> dict[str, Any]:
        """Time a block, unless the first calls show that the candidate is out of the race, or even
        the one by which it was `checked`, which is the block where it is as long as one."""
        timer = self._timer(kernel)
        limit = message["prune_above"]
        told = self._told(checked)
        if told is not None and limit is not None and is_hopeless(told.seconds, limit):
            return pruned([told.seconds], limit)
        enough = told and not self._cold and is_block(told.seconds, message["min_ms"])
        first = told if told and enough else self._canary.visit(timer, 1)
        fits = limit is None or first.seconds <= limit
        if not fits and (slow := self._slow_calls(first, told, timer, limit, message["min_ms"])):
            return pruned(slow, limit)
        calls, visit = self._block(timer, message["min_ms"], first if fits else None)
        self._check_guards()
        return {"status": "ok", "calls": calls, "visits": [visit.to_json()]}

    def _slow_calls(
        self, first: Visit, told: Visit | None, timer: Timer, limit: float, min_ms: float
    ) -> list[float]:
        """Times of calls that all take longer than `limit`, while nothing disturbed them, what was
        `told` before among them; none where that does not hold."""
        times: list[float] = []
        known = [] if told is None or told is first or told.seconds <= limit else [told.seconds]

        def on(_: int) -> float:
            enough = min_ms / 2000 if self._cold is None else 0.0
            times.extend(slow_calls([*known, first.seconds], timer, limit, enough))
            return sum(times)

        if first.disturbed or self._canary.visit(on, 1).disturbed or min(times) <= limit:
            return []
        return times

    def _told(self, checked: Visit | None) -> Visit | None:
        """What the call that was checked tells of others; on a GPU it also copies its arrays."""
        nothing = checked is None or checked.disturbed or Target.parse(self.target).on_gpu
        return None if nothing else checked

    @cached_property
    def _canary(self) -> Canary:
        return Canary()

    def _data(self) -> Reference:
        if self.reference is None:
            raise Failure("error", "the worker has no reference data: it only builds")
        return self.reference

    def _guarded(self) -> list[GuardedArray]:
        if self._arrays is None:
            data = self._data()
            self._arrays = [
                GuardedArray.copy_of(data.inputs[name])
                if name in data.inputs
                else GuardedArray(
                    data.expected[name].shape, dtype.numpy_dtype(data.dtypes[name]), 0
                )
                for name in data.names
            ]
        return self._arrays

    def _values(self) -> Sequence[np.ndarray]:
        """The arrays of a call."""
        pairs = zip(self._data().names, self._guarded(), strict=True)
        return [guarded.array for name, guarded in pairs if name not in self._constants]


def source_hash(kernel: Any) -> str:
    """A hash of the source text of a kernel; "" if it does not show one."""
    source = getattr(kernel, "source", None)
    if not isinstance(source, str):
        return ""
    return hashlib.blake2b(source.encode(), digest_size=16).hexdigest()
