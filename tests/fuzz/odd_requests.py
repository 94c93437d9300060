"""Requests for any primitive with any arguments: names that are there and names that are not,
numbers that are too large, negative or none, lists of any length, index maps of all kinds.

What a parameter is called and what its annotation says decide what is drawn for it, so that a new
primitive needs no line here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from random_schedules import Stress

from schedule import REGISTRY, Schedule, ScheduleError
from schedule.checks.annotations import KEYS
from schedule.debug.resize import work
from tensorir import annotation_text, known_algorithms
from tensorir.tensorize.tensor_intrin import known_intrins

INTEGERS = [0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 33]
BEYOND = [-1, -2, -7, 2**31, 2**62, 10**30]
SCOPES = ["global", "local", "shared", "warp", "register", "wmma.accumulator", "Global"]
THREADS = [
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "warp",
    "lane", "vthread", "vthread.x", "vthread.y", "thread",
]  # fmt: skip
VALUES = [
    None, 0, 1, 3, -1, 2.5, float("inf"), float("nan"), "dynamic,2", "static", "0", "", True, 300,
]  # fmt: skip
ANY_NAME = ["", "x y", "nowhere", "class", "A[0]"]


MOST_WORK = 20_000
"""Statements of a program, about, beyond which a step is taken back: the interpreter runs all."""


@dataclass
class OddStress(Stress):
    """Asks for primitives with arguments that few mean, after some that prepare for them."""

    def run(self, sch: Schedule, steps: int) -> None:
        super().run(sch, self.pick(range(max(1, steps // 2))))
        names = sorted(REGISTRY)
        for _ in range(2 * steps):
            name = self.pick(names)
            self.ask(sch, name, **self.arguments(sch, name))

    def ask(self, sch: Schedule, name: str, *arguments: Any, **named: Any) -> bool:
        """As Stress does; a refusal says what it is about, in one line."""
        if not named:
            return super().ask(sch, name, *arguments)
        loops = named.pop("loops", ())
        self.asked[name] += 1
        before, trace = sch.func, sch.trace
        self.last = f"sch.{name}(*{loops!r}, **{named!r})"
        try:
            getattr(sch, name)(*loops, **named)
        except ScheduleError as error:
            assert sch.func is before, f"{self.last} was refused and changed the program"
            assert sch.trace is trace, f"{self.last} was refused and changed the trace"
            line = error.headline
            assert line.startswith(f"{name}(") and "\n" not in line, f"{self.last}: {line!r}"
            assert str(error).startswith(f"{error.call}: {error.reason}")
            return False
        self.accepted[name] += 1
        if work(sch.func) > MOST_WORK:  # a split by a large factor and the like
            sch.undo()
        return True

    def arguments(self, sch: Schedule, name: str) -> dict[str, Any]:
        """Something for each parameter that needs a value, and for some of the others."""
        found = {}
        for key, parameter in list(inspect.signature(REGISTRY[name]).parameters.items())[1:]:
            several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
            if parameter.default is parameter.empty or self.pick([True, False]):
                text = annotation_text(parameter.annotation)
                found[key] = self.several(sch, key, text) if several else self.value(sch, key, text)
        return found

    def several(self, sch: Schedule, key: str, annotation: str) -> list[Any]:
        return [self.value(sch, key[:-1], annotation) for _ in range(self.pick([1, 2, 2, 3, 4]))]

    def value(self, sch: Schedule, key: str, annotation: str) -> Any:
        """By the name of the parameter; else by one of the types that its annotation names."""
        if self.pick([True] + [False] * 60):
            return self.pick([*VALUES, *BEYOND, *ANY_NAME, [], [None], {}])
        if key in BY_NAME:
            return BY_NAME[key](self, sch)
        kind = self.pick([each.strip() for each in annotation.split("|")])
        return BY_KIND.get(kind, OddStress.anything)(self, sch)

    def anything(self, sch: Schedule) -> Any:
        return self.pick(VALUES)

    def integer(self, sch: Schedule) -> int:
        return int(self.pick(INTEGERS * 4 + BEYOND))

    def integers(self, sch: Schedule) -> list[int]:
        return [self.integer(sch) for _ in range(self.pick([0, 1, 2, 2, 3, 3, 4, 7]))]

    def small(self, sch: Schedule) -> list[int]:
        return [self.pick([0, 0, 1, 1, 2, 3]) for _ in range(self.pick([1, 2, 2, 3, 3, 4, 5]))]

    def factors(self, sch: Schedule) -> list[Any]:
        sizes = [1, 2, 3, 4, 5, 8] * 2 + [*INTEGERS, *BEYOND] + [None] * 12
        return [self.pick(sizes) for _ in range(self.pick([0, 1, 2, 2, 2, 3, 3, 5]))]

    def padding(self, sch: Schedule) -> list[int]:
        block = sch.state.block(self.pick(sch.state.block_names()))
        return [self.pick([1, 1, 1, 2, 3, 4, 5, 8, 16, 0]) for _ in block.iters]

    def any_loop(self, sch: Schedule) -> str:
        return str(self.pick([*sch.state.loop_names()] * 8 + [*sch.state.block_names(), "gone"]))

    def any_block(self, sch: Schedule) -> str:
        return str(self.pick([*sch.state.block_names()] * 8 + [*sch.state.loop_names(), "gone"]))

    def place(self, sch: Schedule) -> str:
        return self.pick([self.any_loop, self.any_block])(sch)  # type: ignore[no-any-return]

    def blocks(self, sch: Schedule) -> list[str]:
        return [self.any_block(sch) for _ in range(self.pick([0, 1, 1, 2, 3]))]

    def buffer(self, sch: Schedule) -> Any:
        names = [b.name for b in (*sch.func.params, *sch.func.buffers) if hasattr(b, "shape")]
        return self.pick([*names, *names, 0, 0, 1, 2, -1, 9, "gone"])

    def bound_loops(self, sch: Schedule) -> Any:
        loops = [self.any_loop(sch) for _ in range(self.pick([1, 2, 3]))]
        return self.pick([loops[0], loops[0], loops[0], loops, [loops, loops[:1]]])

    def threads(self, sch: Schedule) -> Any:
        one = self.pick(THREADS)
        return self.pick([one, one, one, [one, self.pick(THREADS)], []])

    def index_map(self, sch: Schedule) -> str:
        """Of as many indices as some buffer or block has, mostly."""
        buffers = [b.ndim for b in sch.func.buffers]
        blocks = [len(sch.state.block(name).iters) for name in sch.state.block_names()]
        count = self.pick([*buffers, *buffers, *blocks, 1, 2])
        names = [*"ijklmnopqr"][:count]
        parts = [self.index(names, 2) for _ in range(self.pick([count, count, count + 1, 1, 3]))]
        rest = [name for name in names if not any(name in part for part in parts)]
        parts += rest if self.pick([True, True, False]) else []
        return f"{', '.join(names)}: {', '.join(parts)}"

    def index(self, names: list[str], depth: int) -> str:
        """The text of an expression of `names`."""
        if not depth or not names or self.pick([True, False]):
            return str(self.pick([*names, *names, *names, "0", "3"]))
        left, right = self.index(names, depth - 1), self.index(names, depth - 1)
        number = self.pick([1, 2, 3, 4, 5, 7, 8])
        return str(
            self.pick([
                f"({left}) // {number}", f"({left}) % {number}", f"({left}) * {number}",
                f"({left}) * {number} + {right}", f"({left}) + {right}", f"({left}) - {right}",
                f"{number} - {left}", f"min({left}, {right})", f"max({left}, {number})",
                f"({left}) % {number} * {number} + ({left}) // {number}",
            ])
        )  # fmt: skip

    def by(self, sch: Schedule) -> Any:
        """How far to shift: a number, or what loops say."""
        loops = [*sch.state.loop_names(), *(v.name for v in sch.func.size_vars)]
        return self.pick([self.integer(sch), self.index(loops, 2), self.index(loops, 1) + " % 4"])

    def path(self, sch: Schedule) -> list[int]:
        return [self.pick([0, 0, 1, 1, 2, -1]) for _ in range(self.pick([0, 1, 1, 2, 3]))]

    def groups(self, sch: Schedule) -> list[list[int]]:
        return [self.small(sch) for _ in range(self.pick([1, 2, 2, 3]))]

    def intrinsic(self, sch: Schedule) -> str:
        return str(self.pick([*sorted(known_intrins()), "f32.fma_4", "f32.copy_4", "gone"]))

    def weights(self, sch: Schedule) -> Any:
        return [self.pick([0, 1, 0.5, 2, -1, float("inf")]) for _ in range(self.pick([1, 2, 3]))]

    def decision(self, sch: Schedule) -> Any:
        return self.pick([None, None, self.integer(sch), self.any_loop(sch), self.integers(sch)])


Draw = Callable[[OddStress, Schedule], Any]

BY_NAME: dict[str, Draw] = {
    "loop": OddStress.any_loop,
    "over": OddStress.any_loop,
    "block": OddStress.any_block,
    "other": OddStress.any_block,
    "after": OddStress.any_block,
    "reduction": OddStress.any_block,
    "epilogue": OddStress.any_block,
    "block_or_loop": OddStress.place,
    "consumer_blocks": OddStress.blocks,
    "buffer": OddStress.buffer,
    "scope": lambda self, sch: self.pick(SCOPES[:3] * 4 + SCOPES),
    "thread": OddStress.threads,
    "key": lambda self, sch: self.pick([*KEYS, *KEYS, "pragma"]),
    "factors": OddStress.factors,
    "padding": OddStress.padding,
    "stages": OddStress.small,
    "order": OddStress.small,
    "index_map": OddStress.index_map,
    "by": OddStress.by,
    "groups": OddStress.groups,
    "intrinsic": OddStress.intrinsic,
    "algorithm": lambda self, sch: self.pick([*sorted(known_algorithms()), "gone"]),
    "weights": OddStress.weights,
    "decision": OddStress.decision,
    "distance": lambda self, sch: self.pick([0, 1, 1, 2, 3, 100, -1, 2**62]),
    "axis": lambda self, sch: self.pick([0, 1, 2, -1, -2, -3, 9]),
    "factor_axis": lambda self, sch: self.pick([0, 1, 2, -1, -2, -3, 9]),
    "bits": lambda self, sch: self.pick([0, 1, 2, 3, 5, 63, -1]),
    "base": lambda self, sch: self.pick([0, 0, 1, 2, 5, 63, -1]),
    "product": lambda self, sch: self.pick([0, 0, 0, 1, -1, 5]),
}
"""What is drawn for parameters of these names."""

BY_KIND: dict[str, Draw] = {
    "int": OddStress.integer,
    "bool": lambda self, sch: self.pick([True, False]),
    "str": lambda self, sch: self.pick([*ANY_NAME, self.any_block(sch), self.any_loop(sch)]),
    "None": lambda self, sch: None,
    "Sequence[int]": OddStress.integers,
}
"""What is drawn for others, by a type that the annotation admits; for other types anything."""
