"""The index of one nest of a program: where its loops and blocks are, and what is said of it.

Most steps leave most nests as they are, so that what was found of these is found again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from types import NoneType

from tensorir import (
    Block,
    Buffer,
    Extern,
    For,
    ForKind,
    Let,
    Seq,
    Stmt,
    Store,
    child_stmts,
    map_children,
    read,
    walk,
    written,
)

Uses = tuple[dict[Buffer, list[str]], dict[Buffer, list[str]]]
"""The blocks that write each buffer, and those that read it, in program order; not to change."""

NESTS = 2048
"""Nests at the root of programs of which the index is kept."""


class Nest:
    """One statement at the root of a program, and the loops and blocks in it by name.

    kinds  of its loops, other than serial
    """

    def __init__(self, stmt: Stmt) -> None:
        self.stmt = stmt
        self.loops: dict[str, For] = {}
        self.blocks: dict[str, Block] = {}
        self.has_nested_blocks = self.has_externs = False
        self.kinds: set[ForKind] = set()
        self._above: dict[Stmt, Stmt] = {}  # one for what holds a loop or block: names are unique
        self._paths: dict[Stmt, tuple[Stmt, ...]] = {}
        stack: list[tuple[Stmt, bool]] = [(stmt, False)]
        while stack:
            node, in_block = stack.pop()
            while isinstance(node, For):
                self.loops[node.var.name] = node
                if node.kind is not ForKind.SERIAL:
                    self.kinds.add(node.kind)
                self._above[node.body] = node
                node = node.body
            if isinstance(node, Block):
                self.blocks[node.name] = node
                self.has_nested_blocks |= in_block
                if isinstance(node.body, Store) and isinstance(node.init, (Store, NoneType)):
                    continue
                in_block = True
            elif isinstance(node, Extern):
                self.has_externs = True
            for child in reversed(child_stmts(node)):
                self._above[child] = node
                stack.append((child, in_block))

    def path(self, node: Stmt) -> tuple[Stmt, ...]:
        """The statements from the root of the nest down to a loop or block, itself included."""
        found = self._paths.get(node)
        if found is None:
            above = () if node is self.stmt else self.path(self._above[node])
            found = self._paths[node] = (*above, node)
        return found

    @cached_property
    def inside(self) -> dict[str, list[str]]:
        """The names of the blocks below each loop that holds some, in program order."""
        found: dict[str, list[str]] = {}
        for name, block in self.blocks.items():
            for node in self.path(block):
                if isinstance(node, For):
                    found.setdefault(node.var.name, []).append(name)
        return found

    @cached_property
    def uses(self) -> Uses:
        """The blocks that write each buffer, and those that read it, in program order."""
        made: dict[Buffer, list[str]] = {}
        used: dict[Buffer, list[str]] = {}
        for block in self.blocks.values():
            for names, buffers in ((made, written(block)), (used, read(block))):
                for buffer in buffers:
                    names.setdefault(buffer, []).append(block.name)
        return made, used

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of those that its blocks define."""
        return frozenset[str]().union(*map(own_names, self.blocks.values()))


def together(nests: Iterable[Nest]) -> Uses:
    """The uses of several nests."""
    known: Uses = ({}, {})
    for nest in nests:
        for names, found in zip(known, nest.uses):
            for buffer, blocks in found.items():
                names[buffer] = names[buffer] + blocks if buffer in names else blocks
    return known


def nests_beside(nests: Sequence[Nest], others: Sequence[Nest]) -> list[Nest]:
    """Those of some nests that are not others: most steps change one, and leave those before it."""
    begin, end = 0, min(len(nests), len(others))
    while begin < end and nests[begin] is others[begin]:
        begin += 1
    kept = {nest.stmt for nest in others[begin:]}
    return [nest for nest in nests[begin:] if nest.stmt not in kept]


def find_nest(nests: Sequence[Nest], places: dict[str, int], name: str, blocks: bool) -> int | None:
    """Which nest has a loop, or a block, of that name: looked for from where it was last, which
    `places` know."""
    if not isinstance(name, str):
        return None
    at, last = places.get(name, -1), len(nests) - 1
    if 0 <= at <= last and name in (nests[at].blocks if blocks else nests[at].loops):
        places[""] = at  # as it nearly always is
        return at
    begin = min(places.get(name, places.get("", 0)), last)
    for near in range(last + 1) if begin >= 0 else ():
        for at in (begin - near, begin + near):
            if 0 <= at <= last and name in (nests[at].blocks if blocks else nests[at].loops):
                places[name] = places[""] = at
                return at
    return None


def with_child(parent: Stmt, old: Stmt, new: Stmt | None) -> Stmt | None:
    """A statement with another child in the place of one; None where none is left."""
    if isinstance(parent, Seq):
        at, stmts = parent.stmts.index(old), parent.stmts
        made = new.stmts if isinstance(new, Seq) else () if new is None else (new,)
        flat = (*stmts[:at], *made, *stmts[at + 1 :])
        if not flat:
            return None
        return flat[0] if len(flat) == 1 else Seq(flat)
    if new is None:
        return None
    return map_children(parent, lambda child: new if child is old else child)


@lru_cache(maxsize=NESTS)
def nest_of(stmt: Stmt) -> Nest:
    """The index of a statement at the root of a program."""
    return Nest(stmt)


def own_names(block: Block) -> list[str]:
    """The names of the variables that a block defines, and of those of lets inside of it."""
    found = [it.var.name for it in block.iters]
    if not isinstance(block.body, Store):
        found += [node.var.name for node in walk(block.body) if isinstance(node, Let)]
    return found
