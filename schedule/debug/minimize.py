"""minimize: the shortest schedule, of the smallest program, that still shows a failure.

Delta debugging (Zeller and Hildebrandt 2002): drop steps, in ever smaller groups; then shrink the
numbers among their arguments; then the extents of the program; until nothing more can go. Steps
that no longer apply are skipped, and names that shift are followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedule.arguments import literal
from schedule.debug.resize import SMALL, smaller_programs, work
from schedule.instruction import Instruction, output_names
from schedule.primitive import run
from schedule.schedule import Schedule
from schedule.trace import Trace
from tensorir import PrimFunc, TensorIRError, checked

Predicate = Callable[[Schedule], bool]
Make = Callable[..., PrimFunc]


@dataclass(frozen=True)
class Minimal:
    """What minimize found: a schedule that still fails, and the sizes its program was made of."""

    schedule: Schedule
    sizes: dict[str, int] | None = None
    tried: int = 0

    @property
    def trace(self) -> Trace:
        return self.schedule.trace

    @property
    def definition(self) -> PrimFunc:
        return self.schedule.definition

    def script(self) -> str:
        """A Python program that makes the schedule, on its own."""
        return as_script(self.schedule)

    def __str__(self) -> str:
        return self.script()


def as_script(sch: Schedule) -> str:
    """`sch` as Python text that runs on its own: the definition as printed, then the steps."""
    text = str(sch.definition).strip()
    return (
        "from schedule import Schedule\nfrom tensorir import parse\n\n"
        f'sch = Schedule(parse("""\n{text}\n"""))\n{sch.trace.as_python()}\nprint(sch.func)\n'
    )


@checked
def minimize(
    failing: Schedule | Trace,
    predicate: Predicate,
    *,
    func: PrimFunc | None = None,
    make: Make | None = None,
    sizes: Mapping[str, int] | None = None,
    limit: int = 5000,
) -> Minimal:
    """Shrink a schedule as long as `predicate(schedule)` says that it still fails.

    A Trace alone needs the `func` that it belongs to, or `make` and `sizes`: the program is then
    `make(**sizes)`, and shrinks by its sizes; otherwise its constant extents are made smaller
    directly. `limit` is the number of schedules tried at most. TensorIRError if the schedule as
    given does not fail.
    """
    trace = failing.trace if isinstance(failing, Schedule) else failing
    if func is None:
        if isinstance(failing, Schedule):
            func = failing.definition
        elif make is not None and sizes is not None:
            func = make(**sizes)
        else:
            raise TensorIRError("minimize of a trace needs func=, or make= and sizes=")
    start = replay(func, trace.instructions)
    if not predicate(start):
        raise TensorIRError("minimize: the schedule as given does not fail the predicate")
    search = _Search(start, predicate, limit, dict(sizes) if make and sizes is not None else None)
    while search.drop_steps() | search.shrink_arguments() | search.shrink_program(make):
        continue
    return Minimal(search.best, search.sizes, search.tried)


def replay(
    func: PrimFunc, steps: Sequence[Instruction], dropped: frozenset[int] = frozenset()
) -> Schedule:
    """The steps that still apply to `func`, without those at the positions `dropped`.

    Names that a step gives now stand for those that it gave when recorded; names of a step that
    is left out stand for the loop or block that it would have consumed.
    """
    sch = Schedule(func)
    names: dict[str, str] = {}
    for number, step in enumerate(steps):
        arguments = {key: _renamed(value, names) for key, value in step.args.items()}
        made = None
        if number not in dropped:
            try:
                state, outputs = run(sch.state, step.name, arguments)
            except Exception:  # refused here, or a primitive that fails on what is left
                pass
            else:
                made = literal(outputs)
                sch.commit(state, Instruction(step.name, arguments, made))
        was = _names(step.outputs)
        if made is None:
            used = _first_name(arguments)
            names.update((name, used) for name in was if used is not None)
        else:
            now = _names(made)
            names.update(zip(was, now))
            names.update((name, now[-1]) for name in was[len(now) :] if now)
    return sch


def _names(outputs: Any) -> list[str]:
    flat = [outputs] if isinstance(outputs, str) else outputs
    return output_names([v for v in flat if isinstance(v, str)]) if isinstance(flat, list) else []


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    return [_renamed(v, names) for v in value] if isinstance(value, list) else value


def _first_name(arguments: Mapping[str, Any]) -> str | None:
    for value in arguments.values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, str):
                return part
    return None


@dataclass
class _Search:
    """The best schedule so far; each method returns whether it found a smaller one."""

    best: Schedule
    predicate: Predicate
    limit: int
    sizes: dict[str, int] | None
    tried: int = 0
    seen: set[str] = field(default_factory=set)

    @property
    def steps(self) -> tuple[Instruction, ...]:
        return self.best.trace.instructions

    def accept(self, candidate: Schedule) -> bool:
        """Take the candidate if it is smaller and still fails."""
        if not _weight(candidate) < _weight(self.best) or self.tried >= self.limit:
            return False
        text = f"{candidate.definition}\n{candidate.trace.dumps()}"
        if text in self.seen:
            return False
        self.seen.add(text)
        self.tried += 1
        if not self.predicate(candidate):
            return False
        self.best = candidate
        return True

    def drop_steps(self) -> bool:
        found, size = False, max(len(self.steps), 1)
        while size >= 1:
            start = len(self.steps) - size  # from the end: nothing depends on the last steps
            while start > -size:
                gone = frozenset(range(max(start, 0), start + size))
                if self.accept(replay(self.best.definition, self.steps, gone)):
                    found = True
                    start = min(start, len(self.steps))
                start -= size
            size //= 2
        return found

    def shrink_arguments(self) -> bool:
        found, number = False, 0
        while number < len(self.steps):
            if self._smaller_step(number):
                found = True
            else:
                number += 1
        return found

    def _smaller_step(self, number: int) -> bool:
        head, old, tail = self.steps[:number], self.steps[number], self.steps[number + 1 :]
        return any(
            self.accept(replay(self.best.definition, [*head, step, *tail]))
            for step in _smaller_steps(old)
        )

    def shrink_program(self, make: Make | None) -> bool:
        found = False
        while self._smaller_program(make):
            found = True
        return found

    def _smaller_program(self, make: Make | None) -> bool:
        if make is None or self.sizes is None:
            programs = smaller_programs(self.best.definition)
            return any(self.accept(replay(p, self.steps)) for p in programs)
        for name, size in self.sizes.items():
            for value in sorted({n for n in (*SMALL, size // 2, size - 1) if 0 < n < size}):
                sizes = {**self.sizes, name: value}
                try:
                    func = make(**sizes)
                except (TensorIRError, ValueError):
                    continue
                if self.accept(replay(func, self.steps)):
                    self.sizes = sizes
                    return True
        return False


def _weight(sch: Schedule) -> tuple[int, int, int, int]:
    """What is minimised, in this order: steps, values, their sizes, and the program's work."""
    values = [v for s in sch.trace.instructions for a in s.args.values() for v in _flat(a)]
    numbers = sum(abs(v) for v in values if isinstance(v, int))
    return len(sch.trace), len(values), numbers, work(sch.definition)


def _flat(value: Any) -> list[Any]:
    return [v for part in value for v in _flat(part)] if isinstance(value, list) else [value]


def _smaller_steps(step: Instruction) -> Iterator[Instruction]:
    for key, value in step.args.items():
        for less in _smaller_values(value):
            yield Instruction(step.name, {**step.args, key: less}, step.outputs)


def _smaller_values(value: Any) -> Iterator[Any]:
    """Lists with an element less, then smaller numbers."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 1:
        yield from sorted({1, 2, value // 2, value - 1} - {value})
    if isinstance(value, list):
        for n in range(len(value) if len(value) > 1 else 0):
            yield value[:n] + value[n + 1 :]
        for n, part in enumerate(value):
            for less in _smaller_values(part):
                yield [*value[:n], less, *value[n + 1 :]]
