"""The index of one nest of a program: where its loops and blocks are, and what is said of it.

Most steps leave most nests as they are, so that what was found of these is found again.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from types import NoneType

from tensorir import Block, Extern, For, ForKind, Let, Stmt, Store, child_stmts, walk

NESTS = 256
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
    def variables(self) -> frozenset[str]:
        """The names of those that its blocks define."""
        return frozenset[str]().union(*map(own_names, self.blocks.values()))


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
