"""Places: where a stage may be computed whose result other stages read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.rules.group import attempt, stores_at_variables
from schedule import Schedule, library
from tensorir import Block, Load, body_loads, variables, written

ROOT = "root"
INLINE = "inline"
SPOTS = ("first", "task", "tile", "beside")
"""Loops of a user's nest: its first one, the last one of its tasks, the last one of its middle
tiles, and the one that the user itself is computed in."""

AT = "at "
SLIDE = "slide "


@dataclass(frozen=True)
class Links:
    """Who reads what a stage makes.

    users  the blocks that read it, in program order
    reads  in how many places one instance of each of them reads
    shares  their variables along which neighbours read the same elements
    """

    users: tuple[str, ...]
    reads: Mapping[str, int]
    shares: Mapping[str, frozenset[str]]


def find_links(sch: Schedule, stages: Sequence[str]) -> dict[str, Links]:
    """The links of each stage of a program, in its order."""
    found = {}
    for name in stages:
        users = tuple(str(user) for user in sch.get_consumers(name))
        reads = {user: _reads(sch, name, user) for user in users}
        found[name] = Links(
            users,
            {user: len(rows) for user, rows in reads.items()},
            {user: _shared(sch.state.block(user), rows) for user, rows in reads.items()},
        )
    return found


def find_places(
    sch: Schedule, name: str, links: Mapping[str, Links], refused: dict[str, str]
) -> tuple[str, ...]:
    """The places of a stage, found by trying; `refused` gets the reasons of what is impossible."""
    block, users = sch.state.block(name), links[name].users
    outside = [user for user in users if user not in links]
    if not users or outside:
        return (ROOT,)
    order = list(links)
    if any(order.index(user) <= order.index(name) for user in users):
        refused[f"{name} elsewhere than at the root"] = "the next step of a scan reads it"
        return (ROOT,)
    if any(buffer in sch.func.params for buffer in written(block)):
        refused[f"{name} elsewhere than at the root"] = "it is an output"
        return (ROOT,)
    found = [ROOT]
    inline = sch.copy().compute_inline
    if not block.is_reduction and attempt(refused, f"{name} inline", inline, name):
        found.append(INLINE)
    if not stores_at_variables(block):
        refused[f"{name} in a loop"] = "it stores elsewhere than at its own variables"
        return tuple(found)
    if len(users) > 1 or _enters(sch, refused, name, users[0]):
        found += [AT + spot for spot in SPOTS]
        if not block.is_reduction and any(links[name].shares.values()):
            found += [SLIDE + spot for spot in SPOTS]
    return tuple(found)


def _enters(sch: Schedule, refused: dict[str, str], name: str, user: str) -> bool:
    """Whether a stage can be computed in the first loop of its user."""
    own = library.own_loops(sch, user)
    if not own:
        refused[f"{name} in a loop"] = f"{user!r} has no loop of its own"
        return False
    return attempt(refused, f"{name} in a loop", sch.copy().compute_at, name, own[0])


def _reads(sch: Schedule, name: str, user: str) -> list[Load]:
    made = written(sch.state.block(name))
    return [n for n in body_loads(sch.state.block(user)) if n.buffer in made]


def _shared(user: Block, reads: Sequence[Load]) -> frozenset[str]:
    """The variables of a block that some index of its reads has beside others, or with different
    distances: neighbours along them read what it reads."""
    found: set[str] = set()
    for indices in zip(*(load.indices for load in reads)):
        used = [{var.name for var in variables(index)} for index in indices]
        if len(set(indices)) > 1 or len(used[0]) > 1:
            found.update(*used)
    return frozenset(it.var.name for it in user.iters if it.var.name in found)
