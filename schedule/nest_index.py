"""The index of the nests of a program: where loops and blocks are, and what is said of each nest,
and of all together.

Most steps change one nest. What was found of the others is found again, and what was said of the
program before is brought up to date: in a deep network a step costs as much as in one layer.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, count, islice
from operator import is_
from threading import get_ident
from types import NoneType
from typing import Any

from tensorir import (
    Block,
    Buffer,
    Extern,
    For,
    ForKind,
    Let,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Var,
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

FEW = 16
"""Nests up to which what they say is put together anew for each program: bringing up to date what
was said of the one before takes longer."""


class Nest:
    """One statement at the root of a program, and the loops and blocks in it by name.

    kinds  of its loops, other than serial
    """

    def __init__(self, stmt: Stmt) -> None:
        self.stmt = stmt
        loops: dict[str, For] = {}
        blocks: dict[str, Block] = {}
        above: dict[Stmt, Stmt] = {}  # one for what holds a loop or block: names are unique
        self.loops, self.blocks, self._above = loops, blocks, above
        self.has_nested_blocks = self.has_externs = False
        self.kinds: set[ForKind] = set()
        self._paths: dict[Stmt, tuple[Stmt, ...]] = {}
        stack: list[tuple[Stmt, bool]] = [(stmt, False)]
        serial = ForKind.SERIAL
        while stack:
            node, in_block = stack.pop()
            while isinstance(node, For):
                loops[node.var.name] = node
                if node.kind is not serial:
                    self.kinds.add(node.kind)
                body = node.body
                above[body] = node
                node = body
            if isinstance(node, Block):
                blocks[node.name] = node
                self.has_nested_blocks |= in_block
                if isinstance(node.body, Store) and isinstance(node.init, (Store, NoneType)):
                    continue
                in_block = True
            elif isinstance(node, Extern):
                self.has_externs = True
            for child in reversed(child_stmts(node)):
                above[child] = node
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
    def buffers(self) -> frozenset[Buffer]:
        """What its blocks read or write."""
        return frozenset().union(*self.uses)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of those that its blocks define."""
        return frozenset[str]().union(*map(own_names, self.blocks.values()))


class RootIndex:
    """The nests of a program in order, `every` one, and what they say together.

    `before` is that of a program of which this one was made. All that are made of each other share
    what they know, each thread for itself, which is that of the one that was asked last.
    """

    def __init__(self, stmts: Sequence[Stmt], before: RootIndex | None = None) -> None:
        self.stmts = stmts
        self._known: dict[tuple[str, int], tuple[RootIndex, dict[Any, Any]]] = {}
        self._said: dict[str, frozenset[Any]] = {}
        if before is None:
            self.every = list(map(nest_of, stmts))
            return
        self.follow(before)
        begin, end = alike(stmts, before.stmts)
        last, known = len(stmts) - end, before.every
        self.every = [*known[:begin], *map(nest_of, stmts[begin:last]), *known[len(known) - end :]]

    def follow(self, before: RootIndex) -> None:
        """Share what is known of the program that this one was made of."""
        self._known = before._known

    def every_one(self, of: str) -> Container[Any]:
        """All `of` nests: names of loops, blocks or variables, or kinds. Not to be kept: it may
        become that of the next program that is asked."""
        if len(self.every) > FEW:
            return self._counts(of)
        found = self._said.get(of)
        if found is None:
            said = [getattr(nest, of) for nest in self.every]
            found = self._said[of] = frozenset().union(*said)
        return found

    def _counts(self, of: str) -> Mapping[Any, int]:
        """The same, with how many nests have each."""
        found, gone, made = self._begun(of)
        for nests, step in ((made, 1), (gone, -1)):
            for name in chain.from_iterable([getattr(nest, of) for nest in nests]):
                left = found.get(name, 0) + step
                if left:
                    found[name] = left
                else:
                    del found[name]
        return self._kept(of, found)

    def users(self, buffers: Iterable[Buffer]) -> list[Nest]:
        """The nests that use some buffers, in program order."""
        if len(self.every) <= FEW:
            wanted = {*buffers}
            return [nest for nest in self.every if not wanted.isdisjoint(nest.buffers)]
        found, gone, made = self._begun("uses")
        for nest in gone:
            for buffer in nest.buffers:
                del found[buffer][nest]
        for nest in made:
            for buffer in nest.buffers:
                found.setdefault(buffer, {})[nest] = None
        self._kept("uses", found)
        nests = {*chain.from_iterable([found.get(buffer, ()) for buffer in buffers])}
        return sorted(nests, key=self.places.__getitem__) if len(nests) > 1 else [*nests]

    def uses(self, buffer: Buffer) -> tuple[list[str], list[str]]:
        """The blocks that write a buffer, and those that read it, in program order."""
        used = [nest.uses for nest in self.users((buffer,))]
        made, read = ([name for use in used for name in use[n].get(buffer, ())] for n in (0, 1))
        return made, read

    @cached_property
    def places(self) -> Mapping[Nest, int]:
        """Where in the program each nest is."""
        return dict(zip(self.every, count()))

    def beside(self, other: RootIndex) -> list[Nest]:
        """The nests that are not those of another program, in program order."""
        begin, end = alike(self.every, other.every)
        kept = {*other.every[begin : len(other.every) - end]}
        return [nest for nest in self.every[begin : len(self.every) - end] if nest not in kept]

    def _begun(self, key: str) -> tuple[dict[Any, Any], list[Nest], list[Nest]]:
        """What is known by a key, for the caller to bring up to date and to keep: nests that are
        gone, and those that are new. Whoever is interrupted in between knows nothing any more."""
        last, found = self._known.pop((key, get_ident()), (None, {}))
        if last is self:
            return found, [], []
        return found, last.beside(self) if last else [], self.beside(last) if last else self.every

    def _kept(self, key: str, found: dict[Any, Any]) -> dict[Any, Any]:
        self._known[key, get_ident()] = self, found
        return found


class Names:
    """Names that are taken: those `of` the nests of a program, `others`, and what is added."""

    def __init__(self, index: RootIndex, of: Sequence[str], *others: Container[str]) -> None:
        self._index, self._of, self._others = index, of, others
        self._added: set[str] = set()

    def now(self) -> list[Container[str]]:
        """Where names are looked for, until the next program is asked."""
        return [self._added, *self._others, *map(self._index.every_one, self._of)]

    def beside(self, names: Container[str]) -> Names:
        """These, and others."""
        return Names(self._index, self._of, *self._others, self._added, names)

    def add(self, name: str) -> None:
        """Take one more."""
        self._added.add(name)


def declared(func: PrimFunc) -> frozenset[str]:
    """The names of numbers and buffers of a program."""
    return _names_of(func.free_vars, func.params, func.buffers)


@lru_cache(maxsize=16)
def _names_of(*declared: tuple[Var | Buffer, ...]) -> frozenset[str]:
    return frozenset([each.name for some in declared for each in some])


def alike(one: Sequence[object], other: Sequence[object]) -> tuple[int, int]:
    """How many elements of two lists are the same at the beginning, and how many at the end."""
    begin = [*map(is_, one, other), False].index(False)
    rest = min(len(one), len(other)) - begin
    backwards = map(is_, reversed(one[begin:]), reversed(other[begin:]))
    return begin, [*islice(backwards, rest), False].index(False)


def find_nest(nests: Sequence[Nest], places: dict[str, int], name: str, blocks: bool) -> int | None:
    """Which nest has a loop, or a block, of that name: looked for from where it was last, which
    `places` know."""
    if not isinstance(name, str):
        return None
    at, last = places.get(name, -1), len(nests) - 1
    if 0 <= at <= last:
        nest = nests[at]
        if name in (nest.blocks if blocks else nest.loops):
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
