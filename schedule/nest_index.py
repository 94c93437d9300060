"""The index of one nest of a program: the paths to its loops and blocks, and what is said of it.

Most steps leave most nests as they are, so that what was found of these is found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from types import NoneType

from tensorir import Block, Extern, For, ForKind, Let, Stmt, Store, child_stmts, walk

NESTS = 256
"""Nests at the root of programs of which the index is kept."""


class Nest:
    """One statement at the root of a program, with the paths in it to its loops and blocks.

    kinds      of its loops, other than serial
    variables  the names of those that its blocks define
    """

    __slots__ = (
        "blocks", "has_externs", "has_nested_blocks", "kinds", "loops", "stmt", "variables"
    )  # fmt: skip

    def __init__(self, stmt: Stmt) -> None:
        self.stmt = stmt
        self.loops: dict[str, tuple[Stmt, ...]] = {}
        self.blocks: dict[str, tuple[Stmt, ...]] = {}
        self.has_nested_blocks = self.has_externs = False
        self.kinds: set[ForKind] = set()
        stack: list[tuple[Stmt, tuple[Stmt, ...], bool]] = [(stmt, (), False)]
        while stack:
            node, above, in_block = stack.pop()
            path = (*above, node)
            if isinstance(node, For):
                self.loops[node.var.name] = path
                if node.kind is not ForKind.SERIAL:
                    self.kinds.add(node.kind)
                stack.append((node.body, path, in_block))
                continue
            if isinstance(node, Block):
                self.blocks[node.name] = path
                self.has_nested_blocks |= in_block
                if isinstance(node.body, Store) and isinstance(node.init, (Store, NoneType)):
                    continue
                in_block = True
            elif isinstance(node, Extern):
                self.has_externs = True
            stack.extend([(child, path, in_block) for child in reversed(child_stmts(node))])
        found = [name for path in self.blocks.values() for name in own_names(path[-1])]
        self.variables = frozenset(found)


@lru_cache(maxsize=NESTS)
def nest_of(stmt: Stmt) -> Nest:
    """The index of a statement at the root of a program."""
    return Nest(stmt)


def own_names(block: Stmt) -> Iterator[str]:
    """The names of the variables that a block defines, and of those of lets inside of it."""
    assert isinstance(block, Block)
    yield from (it.var.name for it in block.iters)
    if not isinstance(block.body, Store):
        yield from (node.var.name for node in walk(block.body) if isinstance(node, Let))
