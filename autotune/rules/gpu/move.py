"""MovePlan: a derived schedule for GPUs, with its parameters open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from autotune.choices import Categorical, Choice
from autotune.rules.group import Group
from autotune.rules.plan import Plan, Values
from schedule import Schedule, ScheduleError
from tensorir import (
    AllocationError,
    Block,
    For,
    ForKind,
    Gpu,
    PrimFunc,
    Seq,
    Stmt,
    body_loads,
    seq,
    walk,
    written,
)

if TYPE_CHECKING:
    from autotune.gpu.work import Room, Work

Move = Callable[..., object]
"""Schedules a group: takes the schedule, the group and a value for each of its options."""

Options = Mapping[str, tuple[Any, ...]]
"""The values of each option of a move."""

CLOSE = 1.02
"""How many times the estimated time may be taken for fewer transactions: no difference in it."""


@dataclass(frozen=True, eq=False)
class MovePlan(Plan):
    """Some blocks scheduled by one move, whose keyword arguments are the choices.

    base     the program that the rule looked at
    options  the values of each argument
    likely   points of these that may be good without tuning, preferred first; the one of the least
             estimated time is the default, and those after one that settles it are not tried
    told     what is not among the options because primitives refuse it, and why
    close    how many times the least estimated time the preferred one of them may take
    otherwise points that are tried where primitives refuse all likely ones
    bounds   cycles that each likely point takes at least, if formulas tell: those that cannot be
             the default are not tried
    """

    name: str
    group: Group
    gpu: Gpu
    base: Schedule
    move: Move
    options: Options
    likely: Sequence[Mapping[str, Any]]
    numerics: str = "bitwise"
    stages: tuple[str, ...] = ()
    told: Mapping[str, str] = field(default_factory=dict)
    close: float = 1.0
    otherwise: Sequence[Mapping[str, Any]] = ()
    bounds: Sequence[float] = ()
    _refusal: ScheduleError | None = None

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        return tuple(Categorical(self.key(name), found) for name, found in self.options.items())

    def default(self, constants: Collection[str] = ()) -> dict[str, Any]:
        """The likely point of the least estimated time; the only one without an estimate."""
        if self._found is None:
            assert self._refusal is not None
            raise self._refusal
        return self._found[0]

    @property
    def works(self) -> bool:
        """Whether the primitives accept one of the likely points."""
        return self._found is not None

    @property
    def refusal(self) -> ScheduleError | None:
        """Why primitives refused one of the points that `works` tried: the last one, if any."""
        return self._refusal

    @property
    def kernels(self) -> int:
        """Launches of its default, if it works."""
        return 0 if self._found is None else len(_nests(self._bound(self._found[1])))

    def _bound(self, sch: Schedule) -> PrimFunc:
        return bound_part(sch.func, self.base.func)

    is_timed = False
    """Whether times are compared even of one point: then it is lowered to the end anyway."""

    @property
    def is_least(self) -> bool:
        """Whether nothing else takes much less time, if it works."""
        return self._found is not None and self._leaves_little(self._found[1])

    @cached_property
    def _found(self) -> tuple[dict[str, Any], Schedule] | None:
        """The values of the default, and the program that they make."""
        return self._best_of(self.likely, self.bounds) or self._best_of(self.otherwise)

    def _best_of(
        self, points: Sequence[Mapping[str, Any]], bounds: Sequence[float] = ()
    ) -> tuple[dict[str, Any], Schedule] | None:
        """The values of the preferred point of those that take about the least time, and what they
        make: `bounds` are what each takes at least."""
        times = dict(enumerate(bounds or [0.0] * len(points)))  # of those made what they take
        made = dict[int, Schedule]()
        while (n := self._next(times, made)) is not None:
            sch = self._made(points[n])
            if sch is None:
                del times[n]
                continue
            made[n] = sch
            times[n] = 0.0 if len(points) == 1 else self._time(sch)
            if len(points) == 1 or self._settles(sch):
                break
        if not made:
            return None
        best = self._preferred({n: time for n, time in times.items() if n in made})
        return {self.key(name): value for name, value in points[best].items()}, made[best]

    def _preferred(self, times: Mapping[int, float]) -> int:
        """The first of those that take about the least time."""
        least = min(times.values())
        return next(n for n, time in times.items() if time <= self.close * least)

    def _next(self, times: Mapping[int, float], made: Collection[int]) -> int | None:
        """The point to make next, by the times of those that are made and the bounds of the others;
        None where none of these can take so little that the preferred one is another one."""
        if not times:
            return None
        best = self._preferred(times)
        if best not in made:
            return best
        left = [n for n in times if n not in made and self.close * times[n] < times[best]]
        return min(left, key=lambda n: times[n], default=None)

    def _is_found(self, values: Values) -> bool:
        """Whether its own values, among those of other plans, are those of the default."""
        return self._found is not None and self._found[0].items() <= values.items()

    def _made(self, point: Mapping[str, Any]) -> Schedule | None:
        sch = self.base.copy()
        try:
            self._make(sch, point)
        except ScheduleError as error:
            object.__setattr__(self, "_refusal", error.with_traceback(None))  # which knows the plan
            return None
        return sch

    def estimate(self, constants: Collection[str] = ()) -> float | None:
        """What nobody has bound yet has no kernels to tell the time of."""
        return self.cycles(self.default()) or None

    def cycles(self, values: Values, constants: Collection[str] = ()) -> float:
        """The estimated time of its kernels, one call, with such values."""
        if self._is_found(values):
            assert self._found is not None
            return self._time(self._found[1])
        sch = self.base.copy()
        self.apply(sch, values)
        return self._time(sch)

    def _time(self, sch: Schedule) -> float:
        from autotune.gpu.work import cycles

        return cycles(bound_works(sch.func, self.gpu, self.base.func), self.gpu)

    @property
    def asks(self) -> float:
        """Transactions and wavefronts of the default."""
        assert self._found is not None
        works = bound_works(self._found[1].func, self.gpu, self.base.func)
        return sum(work.sectors + work.wavefronts for work in works)

    @property
    def waste(self) -> float:
        """Times the sectors of what it moves that the default asks for, 1 where that is nothing."""
        assert self._found is not None
        works = bound_works(self._found[1].func, self.gpu, self.base.func)
        moved = sum(work.bytes for work in works)
        return sum(work.sectors for work in works) * Gpu.sector_bytes / moved if moved else 1.0

    def _leaves_little(self, sch: Schedule) -> bool:
        """Whether no way to do the same takes much less time; several kernels leave more than that,
        and need not be lowered to be told."""
        from autotune.gpu.work import leaves_little

        if len(_nests(self._bound(sch))) > 1:
            return False
        return leaves_little(bound_works(sch.func, self.gpu, self.base.func), self.gpu, CLOSE)

    def _settles(self, sch: Schedule) -> bool:
        """Whether the likely points after one that works need not be tried."""
        return self._leaves_little(sch)

    def apply(self, sch: Schedule, values: Values) -> None:
        point = {name: values[self.key(name)] for name in self.options}
        if not self._is_found(values):
            self._make(sch, point)
            return
        known = (self._found and self._found[1], self.__dict__.get("_applied"))
        if not any(made is not None and sch.follow(made) for made in known):
            self.move(sch, self.group, **point)  # which was found to have room
            self.__dict__["_applied"] = sch.copy()  # others that come before may come again

    def _make(self, sch: Schedule, point: Mapping[str, Any]) -> None:
        """Where its time is compared, the program is lowered to the end anyway."""
        call, block = f"{self.name}({self.group.block!r})", self.group.block
        compared = any(len(x) > 1 and point in x for x in (self.likely, self.otherwise))
        needs = bound_works if compared or self.is_timed else bound_rooms
        with launchable(sch, call, block, self.gpu, needs):
            self.move(sch, self.group, **point)


def by_time(plans: Sequence[MovePlan]) -> list[MovePlan]:
    """The plans that work, that of the least estimated time first, of several that take about it
    the one that asks memory least; the others as they come, made by nobody yet, where one leaves
    little."""
    if len(plans) > 1:
        for plan in plans:
            if plan.is_least:
                return [plan, *(other for other in plans if other is not plan)]
    works = [plan for plan in plans if plan.works]
    if len(works) > 1:
        times = {id(plan): plan.cycles(plan.default()) for plan in works}
        about = CLOSE * min(times.values())

        def order(plan: MovePlan) -> tuple[bool, float]:
            time = times[id(plan)]
            return time > about, time if time > about else plan.asks

        works.sort(key=order)
    return works


WORKS = 256
"""Programs of which the work is kept."""


@lru_cache(maxsize=WORKS)
def bound_works(func: PrimFunc, gpu: Gpu, before: PrimFunc | None = None) -> Sequence[Work]:
    """The work of the kernels of `bound_part`. Remembered: a space asks again for what its default
    was chosen from, and such steps are remembered too, so that the programs are the same ones."""
    from autotune.gpu.count import works_of

    return works_of(bound_part(func, before), gpu)


@lru_cache(maxsize=WORKS)
def bound_rooms(func: PrimFunc, gpu: Gpu, before: PrimFunc | None = None) -> Sequence[Room]:
    """What these kernels need to be launched at most, remembered too: registers are counted one by
    one where there would be too few for as many as there may be."""
    from autotune.gpu.count import rooms_of

    part = bound_part(func, before)
    rooms = rooms_of(part, gpu, registers=False)
    return rooms if all(_fits(room, gpu) for room in rooms) else rooms_of(part, gpu)


def _fits(room: Room | Work, gpu: Gpu) -> bool:
    """Whether a block of threads can be launched."""
    asked = room.threads <= gpu.threads_per_block and room.shared <= gpu.shared_most
    return asked and room.at_once(gpu) > 0


Needs = Callable[[PrimFunc, Gpu, PrimFunc], "Sequence[Room | Work]"]


@contextmanager
def launchable(
    sch: Schedule, call: str, block: str, gpu: Gpu, needs: Needs = bound_rooms
) -> Iterator[None]:
    """Undo all steps, and raise ScheduleError, where the kernels of `bound_part` that they make
    cannot be launched, by what they need. Moves know what they ask for; lowering may have to keep
    more in shared memory, where it cannot tell which elements a step reads, or rows begin in other
    banks."""
    start, before = len(sch.trace), sch.func
    yield
    shares = any(buffer.scope == "shared" for buffer in sch.func.buffers)
    reason = _why_not(sch.func, gpu, before, needs) if shares else None
    if reason is not None:
        sch.undo(len(sch.trace) - start)
        raise ScheduleError(call, block, reason, "take a smaller tile", sch.state, sch.trace)


def _why_not(func: PrimFunc, gpu: Gpu, before: PrimFunc, needs: Needs) -> str | None:
    """Why kernels cannot be launched, or None."""
    try:
        rooms = needs(func, gpu, before)
    except AllocationError as error:  # of what a step reads, lowering knows no constant part
        return str(error)
    for room in rooms:
        if not _fits(room, gpu):
            return (
                f"a block of {room.threads} threads would have {room.shared} bytes of shared "
                f"memory and {room.registers} registers each, which {gpu.target} lacks"
            )
    return None


def bound_part(func: PrimFunc, before: PrimFunc | None = None) -> PrimFunc:
    """The kernels of a program whose loops are bound to threads: those that a move made of the
    program `before` it. What they store for other kernels is a result of theirs: nobody would read
    it, and a lowering would leave them out."""
    there = set() if before is None else set(_nests(before))
    kernels = [stmt for stmt in _nests(func) if stmt not in there and _is_bound(stmt)]
    blocks = [part for stmt in kernels for part in walk(stmt) if isinstance(part, Block)]
    left = {buffer for block in blocks for buffer in written(block) if buffer.scope == "global"}
    left -= {load.buffer for block in blocks for load in body_loads(block)}
    params = *func.params, *(buffer for buffer in func.buffers if buffer in left)
    buffers = tuple(buffer for buffer in func.buffers if buffer not in left)
    return replace(func, params=params, buffers=buffers, body=seq(*kernels))


def _nests(func: PrimFunc) -> Sequence[Stmt]:
    return func.body.stmts if isinstance(func.body, Seq) else (func.body,)


def _is_bound(stmt: Stmt) -> bool:
    return any(isinstance(s, For) and s.kind is ForKind.THREAD for s in walk(stmt))
