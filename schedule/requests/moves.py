"""What is possible at a block or loop, and why other things are not.

Primitives are pure functions, so a move is legal exactly if trying it succeeds: nothing here
repeats a condition of any primitive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schedule.errors import Illegal, hint_text, require
from schedule.primitive import REGISTRY, bind, parameter_names, run
from schedule.requests.candidates import Args, candidates
from schedule.state import State
from tensorir import ForKind

MOST_SHOWN = 4
"""Of the calls with one verdict, so many are printed."""

FOR_GPUS = ("bind",)
"""Primitives that only programs for GPUs need."""

NO_PLACES = ("buffer", "thread", "scope", "key", "value", "index_map", "intrinsic", "algorithm")
"""Parameters whose values are names of something else than a loop or block."""


@dataclass(frozen=True)
class LegalCall:
    """A call of a primitive that the schedule accepts: `getattr(sch, m.name)(*m.args)`."""

    name: str
    args: Args

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True)
class Verdict:
    """One call, and why it is refused; `reason` is None if it is accepted."""

    name: str
    args: Args
    reason: str | None = None
    hint: str | None = None

    @property
    def legal(self) -> bool:
        return self.reason is None

    def __str__(self) -> str:
        call = str(LegalCall(self.name, self.args))
        hint = f" ({self.hint})" if self.hint else ""
        return f"{call}: {self.reason}{hint}" if self.reason else f"{call}: ok"


class Explanation(list[Verdict]):
    """Verdicts, one for each call that was tried; prints as a table."""

    @property
    def legal(self) -> list[LegalCall]:
        return [LegalCall(v.name, v.args) for v in self if v.legal]

    def __str__(self) -> str:
        lines = []
        for name in dict.fromkeys(v.name for v in self):
            rows = [v for v in self if v.name == name]
            grouped: dict[str, list[Verdict]] = {}
            for row in rows:
                why = "ok" if row.legal else f"no: {row.reason}"
                grouped.setdefault(why + (f" ({row.hint})" if row.hint else ""), []).append(row)
            label = f"{name:<20} "
            for why, same in sorted(grouped.items(), key=lambda item: item[0] != "ok"):
                lines.append(f"{label}{_calls(same)} {why}")
                label = " " * len(label)
        return "\n".join(lines)

    __repr__ = __str__


def _calls(verdicts: list[Verdict]) -> str:
    shown = [f"({', '.join(map(repr, v.args))})" for v in verdicts[:MOST_SHOWN]]
    more = len(verdicts) - len(shown)
    return " ".join(shown) + (f" and {more} more" if more else "")


def attempt(state: State, name: str, args: Args) -> Verdict:
    """Try one call; the state stays as it is."""
    try:
        run(state, name, bind(name, args, {}))
    except Illegal as refusal:
        return Verdict(name, args, refusal.reason, hint_text(refusal.hint))
    return Verdict(name, args)


def accepted(state: State, name: str, args: Args) -> bool:
    """Whether one call is legal."""
    try:
        run(state, name, bind(name, args, {}))
    except Illegal:
        return False
    return True


def requests(state: State, where: str | None, names: list[str]) -> Iterator[tuple[str, Args]]:
    """What is worth trying with these primitives; with `where`, what names that loop or block."""
    if where is not None:
        state.path(where)  # refuses a name that is neither
    for name in names:
        for args in dict.fromkeys(map(_hashable, candidates(state, name))):
            plain = tuple(list(a) if isinstance(a, tuple) else a for a in args)
            if where is None or where in _places(name, plain):
                yield name, plain


def _places(name: str, args: Args) -> list[Any]:
    """The arguments that name loops or blocks, not buffers, threads or scopes."""
    names = parameter_names(name)
    return [a for n, a in enumerate(args) if names[min(n, len(names) - 1)] not in NO_PLACES]


def _useful_first(state: State) -> list[str]:
    """The primitives as the table of `Schedule` has them, others after.

    Threads of a GPU come last, unless the program has some.
    """
    from schedule.schedule import Schedule

    names = [name for name in vars(Schedule) if name in REGISTRY]
    names += sorted(set(REGISTRY) - set(names))
    loops = map(state.loop, state.loop_names())
    if not any(loop.kind is ForKind.THREAD for loop in loops):
        names.sort(key=lambda name: name in FOR_GPUS)
    return names


def _hashable(args: Args) -> Args:
    return tuple(tuple(a) if isinstance(a, list) else a for a in args)


def _primitives(state: State, name: str | None) -> list[str]:
    """The one that is named, or all."""
    if name is None:
        return _useful_first(state)
    known = isinstance(name, str) and name in REGISTRY
    require(known, str(name), f"{name!r} is no primitive; known are {', '.join(sorted(REGISTRY))}")
    return [name]


def legal_moves(state: State, where: str | None = None, name: str | None = None) -> list[LegalCall]:
    """The moves, among those worth trying, that are accepted; of primitive `name` if given."""
    names = _primitives(state, name)
    return [LegalCall(*r) for r in requests(state, where, names) if accepted(state, *r)]


def explain(state: State, where: str, name: str | None, args: tuple[Any, ...]) -> Explanation:
    """The verdict on every request that names `where`, on those of one primitive, or on one call.

    One call, that of `name` with `where` followed by `args`, is tried where arguments are given
    or where there is nothing that is worth trying.
    """
    names = _primitives(state, name)
    if name is not None and args:
        return Explanation([attempt(state, name, (where, *args))])
    found = Explanation(attempt(state, *request) for request in requests(state, where, names))
    if name is not None and not found:
        found.append(attempt(state, name, (where,)))
    return found


__all__ = ["Explanation", "LegalCall", "Verdict", "explain", "legal_moves"]
