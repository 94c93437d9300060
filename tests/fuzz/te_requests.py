"""Requests to te schedules as data, so that they can be made again, in another order."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from te_workloads import WORKLOADS

from schedule.te.errors import RequestError
from tensorir import TensorIRError, te

CHANGES = ("cache_read", "cache_write", "rfactor", "transform_layout")
STEPS = ("split", "fuse", "reorder", "decompose_reduction")
PLACES = ("compute_at", "compute_inline", "compute_root")


@dataclass(frozen=True)
class Ask:
    """One call. Stages and loops are given by name, loops as (stage, loop).

    `uses` are the loops it takes, `makes` those it makes, `about` the stages it is asked of or
    computed in, `slot` what later ones of it replace.
    """

    name: str
    stage: str
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    uses: frozenset[tuple[str, str]] = frozenset()
    makes: frozenset[tuple[str, str]] = frozenset()
    about: frozenset[str] = frozenset()
    slot: Any = None

    def __str__(self) -> str:
        values = [*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.kwargs)]
        return f"{self.stage}.{self.name}({', '.join(values)})"


def _uses(loops: Sequence[Any]) -> frozenset[tuple[str, str]]:
    return frozenset(loop[1:] for loop in loops)


def loops_of(s: Any) -> set[tuple[str, str]]:
    """All loops that there were, as (stage, loop)."""
    return {(st.name, axis.name) for st in s.stages for axis in st.nest.all_handles()}


def perform(s: Any, ask: Ask) -> None:
    """Make the call on `s`, which has the stages and loops of these names."""
    stages = {stage.name: stage for stage in s.stages}
    stage = stages.get(ask.stage)

    def value(arg: Any) -> Any:
        if not isinstance(arg, tuple):
            return arg
        if arg[0] == "stage":
            return stages[arg[1]]
        if arg[0] == "loop":
            handles = stages[arg[1]].nest.all_handles()
            return [axis for axis in handles if axis.name == arg[2]][-1]
        if arg[0] == "read":
            return next(t for st in s.stages for t in st.op.inputs if t.name == arg[1])
        if arg[0] == "tensor":
            return stages[arg[1]].op.output(arg[2])
        return [value(each) for each in arg[1:]]

    args = [value(arg) for arg in ask.args]
    target = s if hasattr(s, ask.name) else stage
    getattr(target, ask.name)(*args, **dict(ask.kwargs))


@dataclass
class Drawn:
    """A schedule of a random workload, and the requests that it took."""

    seed: int
    asks: list[Ask] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.make = WORKLOADS[self.seed % len(WORKLOADS)]
        self.sizes = [self.rng.choice([1, 2, 3, 4, 5, 8]) for _ in range(3)]
        self.s = self.fresh()

    def fresh(self) -> Any:
        return te.create_schedule([t.op for t in self.make(*self.sizes)])

    def draw(self) -> None:
        """Ask for something; what is refused leaves no trace."""
        before = str(self.s), len(self.s.requests)
        ask, old = self._random(), loops_of(self.s)
        if ask is None:
            return
        self.asked[ask.name] += 1
        names = {stage.name for stage in self.s.stages}
        try:
            perform(self.s, ask)
        except TensorIRError:
            assert before == (str(self.s), len(self.s.requests)), f"{ask} left something behind"
            return
        assert len(self.s.requests) == before[1] + 1
        made = {stage.name for stage in self.s.stages} - names
        values = {
            "makes": frozenset(loops_of(self.s) - old),
            "about": ask.about | made,
        }
        self.asks.append(Ask(**{**ask.__dict__, **values}))

    def _random(self) -> Ask | None:
        stage, call = self.rng.choice(self.s.stages), self.rng.choice(NAMES)
        about = frozenset([stage.name])
        if call in ("set_scope", "double_buffer", "rolling_buffer", *PLACES[1:]):
            slot = (stage.name, "place" if call in PLACES else call)
            args = ("local",) if call == "set_scope" else ()
            return Ask(call, stage.name, args, about=about, slot=slot)
        if call == "compute_at":
            return self._compute_at(stage)
        if call == "cache_read":
            return self._cache_read(stage)
        if call == "cache_write":
            tensors = [("tensor", stage.name, n) for n in range(len(stage.op.outputs))]
            tensor = self.rng.choice([("list", *tensors), *tensors])
            scope = self.rng.choice(["local", "global"])
            return Ask(call, stage.name, (tensor, scope), about=about)
        if call == "transform_layout":
            return Ask(call, stage.name, (self._index_map(len(stage.nest.data)),), about=about)
        leaves = [("loop", stage.name, axis.name) for axis in stage.leaves]
        if call == "fuse" or not leaves:
            at = self.rng.randrange(len(leaves)) if leaves else 0
            chosen = tuple(leaves[at : at + self.rng.randint(1, 2)])
            return Ask("fuse", stage.name, chosen, uses=_uses(chosen), about=about)
        if call == "reorder":
            chosen = tuple(self.rng.sample(leaves, self.rng.randint(1, len(leaves))))
            return Ask(call, stage.name, chosen, about=about)
        return self._of_loop(call, stage, self.rng.choice(leaves))

    def _index_map(self, rank: int) -> str:
        """The axes in another order, one of them in two parts."""
        names = [f"d{n}" for n in range(rank)]
        parts = self.rng.sample(names, rank)
        if parts and self.rng.random() < 0.5:
            at, factor = self.rng.randrange(rank), self.rng.choice([2, 4])
            parts[at : at + 1] = [f"{parts[at]} // {factor}", f"{parts[at]} % {factor}"]
        return f"{', '.join(names)}: {', '.join(parts)}"

    def _of_loop(self, call: str, stage: Any, loop: Any) -> Ask:
        about, uses = frozenset([stage.name]), _uses([loop])
        if call == "split":
            sizes = self.rng.choice([("factor", 2), ("factor", 3), ("nparts", 2)])
            return Ask(call, stage.name, (loop,), (sizes,), uses, about=about)
        if call == "rfactor":
            args = (("tensor", stage.name, 0), loop, self.rng.choice([0, -1]))
            return Ask(call, stage.name, args, about=about)
        if call == "decompose_reduction":
            return Ask(call, stage.name, (loop,), about=about)
        more = ("auto_unroll_max_step", 4) if call == "pragma" else ()
        slot = (loop, call if call == "pragma" else "loop")
        return Ask(call, stage.name, (loop, *more), uses=uses, about=about, slot=slot)

    def _compute_at(self, stage: Any) -> Ask | None:
        parent = self.rng.choice(self.s.stages)
        if not parent.leaves:
            return None
        loop = ("loop", parent.name, self.rng.choice(parent.leaves).name)
        about, slot = frozenset([stage.name, parent.name]), (stage.name, "place")
        args = (("stage", parent.name), loop)
        return Ask("compute_at", stage.name, args, uses=_uses([loop]), about=about, slot=slot)

    def _cache_read(self, reader: Any) -> Ask | None:
        inputs = [t for t in reader.op.inputs if not getattr(t.op, "is_state", False)]
        if not inputs:
            return None
        source = self.rng.choice(inputs)
        readers = [st for st in self.s.stages if any(t is source for t in st.op.inputs)]
        chosen = [reader, *self.rng.sample(readers, self.rng.randint(0, len(readers)))]
        names = tuple(dict.fromkeys(st.name for st in chosen))
        args = (("read", source.name), "local", ("list", *(("tensor", n, 0) for n in names)))
        return Ask("cache_read", reader.name, args, about=frozenset())

    def settle(self) -> list[RequestError]:
        """Take back what cannot be met, until the rest can; the errors."""
        errors = []
        while True:
            try:
                self.s.normalize()
                return errors
            except RequestError as error:
                errors.append(error)
                at = self.s.requests.index(error.request)
                if error.request.revert is None:
                    self.s.withdraw(error.request)
                    del self.asks[at]
                else:
                    self.s.undo(len(self.s.requests) - at)
                    del self.asks[at:]


NAMES = [
    "split", "split", "fuse", "reorder", "reorder", "vectorize", "parallel", "unroll", "compute_at",
    "compute_at", "compute_at", "compute_at", "compute_inline", "compute_root", "set_scope",
    "cache_read", "cache_write", "rfactor", "decompose_reduction", "pragma", "double_buffer",
    "rolling_buffer", "transform_layout",
]  # fmt: skip


def before(first: Ask, second: Ask) -> bool:
    """Whether `first`, which was asked before `second`, has to be: other requests may change
    places."""
    if first.name in CHANGES or second.name in CHANGES:
        both = first.name in CHANGES and second.name in CHANGES
        return both or bool(first.about & second.about)
    if first.name in STEPS and second.name in STEPS and first.stage == second.stage:
        return True
    if first.makes & _touched(second) or (_touched(first) & second.uses and second.name in STEPS):
        return True
    if first.name == "decompose_reduction" and first.about & second.about:
        return True
    return first.slot is not None and first.slot == second.slot


def _touched(ask: Ask) -> set[tuple[str, str]]:
    loops = [arg for arg in ask.args if isinstance(arg, tuple) and arg[0] == "loop"]
    return {loop[1:] for loop in loops} | set(ask.uses)


def in_another_order(asks: Sequence[Ask], key: Any) -> list[Ask]:
    """The requests by `key`, a function of the request and its place, where they are free."""
    known = _with_what_they_replace(asks)
    waits = [[i for i in range(j) if before(known[i], known[j])] for j in range(len(asks))]
    left = [len(w) for w in waits]
    ready = [(key(ask, j), j) for j, ask in enumerate(asks) if not left[j]]
    heapq.heapify(ready)
    found: list[Ask] = []
    while ready:
        _, j = heapq.heappop(ready)
        found.append(asks[j])
        for k, needed in enumerate(waits):
            if j in needed:
                left[k] -= 1
                if not left[k]:
                    heapq.heappush(ready, (key(asks[k], k), k))
    return found


def _with_what_they_replace(asks: Sequence[Ask]) -> list[Ask]:
    """A request that takes the place of another one is about its stages too: it frees them."""
    about: dict[Any, frozenset[str]] = {}
    found = []
    for ask in asks:
        if ask.slot is not None:
            about[ask.slot] = about.get(ask.slot, frozenset()) | ask.about
            ask = replace(ask, about=about[ask.slot])
        found.append(ask)
    return found


def legal(ask: Ask, place: int) -> tuple[int, int]:
    """The order in which each request finds what it needs: the graph, what is inlined, loops of
    consumers and then producers, how loops are run."""
    if ask.name in CHANGES:
        return 0, place
    if ask.name == "compute_inline":
        return 1, place
    return (2 if ask.name in (*STEPS, *PLACES) else 3), place


def again(drawn: Drawn, asks: Sequence[Ask]) -> Any:
    """A new schedule of the same workload with these requests."""
    s = drawn.fresh()
    for ask in asks:
        perform(s, ask)
    return s
