"""State: one immutable program, with its loops and blocks found by name.

Names are handles: a loop or block is referred to by its (unique) name, so a trace is plain JSON
and a copy of a schedule costs nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import count
from operator import attrgetter
from typing import Any

from schedule.errors import Illegal
from schedule.nest_index import Names, Nest, RootIndex, declared, find_nest, with_child
from tensorir import (
    Analyzer,
    Block,
    Buffer,
    Expr,
    Extern,
    For,
    ForKind,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    Var,
    analyzer_of,
    child_stmts,
    part_axes,
    replace,
    with_body,
)

LONGEST_NAME = 96
"""Characters of the name of a loop that is made of others."""


class LoopRef(str):
    """The name of a loop."""

    __slots__ = ()


class BlockRef(str):
    """The name of a block."""

    __slots__ = ()


class State:
    """A PrimFunc and an index from names to the path of statements that leads to each of them.

    `concluded` is for what others find out about it, by what they asked.
    """

    __slots__ = ("_index", "_nests", "_places", "_root", "concluded", "func")

    def __init__(self, func: PrimFunc, before: State | None = None) -> None:
        self.func = func
        self.concluded: dict[object, Any] = {}
        self._places: dict[str, int] = {}
        body = func.body
        self._root = (body,) if isinstance(body, Seq) else ()
        stmts = body.stmts if isinstance(body, Seq) else (body,)
        self._index: RootIndex = RootIndex(stmts, None if before is None else before._index)
        self._nests = self._index.every

    @property
    def kinds(self) -> Container[ForKind]:
        """Those of loops, other than serial; not to be kept."""
        return self._index.every_one("kinds")

    @property
    def has_nested_blocks(self) -> bool:
        """Whether a block is inside of another one."""
        return any(map(_HAS_NESTED_BLOCKS, self._nests))

    @property
    def has_externs(self) -> bool:
        """Whether a block calls an extern function."""
        return any(map(_HAS_EXTERNS, self._nests))

    def _holder(self, name: str, blocks: bool = False) -> Nest | None:
        """The nest with a loop, or a block, of that name: looked for from where it was last."""
        at = find_nest(self._nests, self._places, name, blocks)
        return None if at is None else self._nests[at]

    def made_of(self, before: "State") -> None:
        """Know that a step made this state of another one: most names are where they were."""
        self._places = before._places
        self._index.follow(before._index)

    def place(self, name: str) -> tuple[int, int]:
        """Where a block is: numbers that are in the order of the program."""
        self.block(name)  # which refuses other names, and finds this one
        at = self._places[name]
        return at, list(self._nests[at].blocks).index(name)

    def uses(self, buffer: Buffer) -> tuple[list[str], list[str]]:
        """The blocks that write a buffer, and those that read it, in program order."""
        return self._index.uses(buffer)

    def users(self, buffers: Iterable[Buffer]) -> list[Nest]:
        """The nests at the root that use some buffers."""
        return self._index.users(buffers)

    def _loop_path(self, name: str) -> tuple[Stmt, ...] | None:
        """The statements from the root down to a loop, itself included."""
        nest = self._holder(name)
        return None if nest is None else self._root + nest.path(nest.loops[name])

    def _block_path(self, name: str) -> tuple[Stmt, ...] | None:
        """The same of a block."""
        nest = self._holder(name, blocks=True)
        return None if nest is None else self._root + nest.path(nest.blocks[name])

    def loop_names(self) -> list[str]:
        """All loops, in program order."""
        return [name for nest in self._nests for name in nest.loops]

    def loops(self) -> list[For]:
        """All loops, in program order."""
        return [loop for nest in self._nests for loop in nest.loops.values()]

    def blocks(self) -> list[Block]:
        """All blocks, in program order."""
        return [block for nest in self._nests for block in nest.blocks.values()]

    def block_names(self) -> list[str]:
        """All blocks, in program order."""
        return [name for nest in self._nests for name in nest.blocks]

    def path(self, name: str) -> tuple[Stmt, ...]:
        """The statements from the root down to the loop or block `name`, itself included."""
        found = self._loop_path(name) if isinstance(name, LoopRef) else None
        if found is None:
            found = self._block_path(name) or self._loop_path(name)
        if found is None:
            raise Illegal(name, f"there is no loop or block {name!r}")
        return found

    def loop(self, name: str) -> For:
        """The loop of that name; refuses a name that is no loop, listing those there are."""
        nest = self._holder(name)
        node = self.loop_path(name)[-1] if nest is None else nest.loops[name]
        assert isinstance(node, For)
        return node

    def block(self, name: str) -> Block:
        """The block of that name; refuses a name that is no block, listing those there are."""
        nest = self._holder(name, blocks=True)
        node = self.block_path(name)[-1] if nest is None else nest.blocks[name]
        assert isinstance(node, Block)
        return node

    def nests_beside(self, other: "State") -> list[Nest]:
        """The nests at the root that are not those of another state, in program order."""
        return self._index.beside(other._index)

    def block_path(self, name: str) -> tuple[Stmt, ...]:
        """The statements from the root down to a block; refuses a name that is no block."""
        found = self._block_path(name)
        if found is None:
            known = ", ".join(self.block_names())
            raise Illegal(name, f"there is no block {str(name)!r}; blocks are {known}")
        return found

    def loop_path(self, name: str) -> tuple[Stmt, ...]:
        """The statements from the root down to a loop; refuses a name that is no loop."""
        found = self._loop_path(name)
        if found is None:
            known = ", ".join(self.loop_names())
            raise Illegal(name, f"there is no loop {str(name)!r}; loops are {known}")
        return found

    def loops_around(self, name: str) -> list[For]:
        """The loops around a block, outermost first."""
        return [node for node in self.block_path(name) if isinstance(node, For)]

    def blocks_inside(self, name: str) -> list[str]:
        """The blocks below a loop, in program order."""
        loop = self.loop(name).name
        nest = self._holder(loop)
        return [] if nest is None else list(nest.inside.get(loop, ()))

    def loops_outside(self, name: str) -> list[For]:
        """The loops around a loop, outermost first, without itself."""
        return [node for node in self.loop_path(name)[:-1] if isinstance(node, For)]

    def replace(self, path: tuple[Stmt, ...], new: Stmt | None) -> "State":
        """The state with the last statement of `path` replaced; None removes it.

        Loops and sequences that become empty disappear with it.
        """
        node: Stmt | None = new
        for depth in range(len(path) - 1, 0, -1):
            node = with_child(path[depth - 1], path[depth], node)
        body = Seq(()) if node is None else node
        return State(replace_func(self.func, body=body), self)

    def names_in_scope(self) -> Names:
        """Names that variables of new blocks may not have: of loops, numbers and buffers.

        Variables of other blocks are out of their scope.
        """
        return self._names("loops")

    def _names(self, *of: str) -> Names:
        return Names(self._index, of, declared(self.func))

    def taken_names(self) -> Names:
        """Names that new loops may not have: those in scope, those of variables of all blocks, so
        that each may come to stand in every loop, and those of blocks, which are handles too."""
        return self._names("loops", "variables", "blocks")

    def fresh_loop(self, *hints: str) -> str:
        """A name for a loop."""
        return fresh(self.taken_names(), hints)

    def loop_of(self, loops: Iterable[For]) -> str:
        """A name for a loop that is made of others: their names, as far as these can be read."""
        return self.fresh_loop("_".join(loop.name for loop in loops)[:LONGEST_NAME])

    def fresh_block(self, *hints: str) -> str:
        """A name for a block, which may be that of a buffer."""
        return fresh(self.handles(), hints)

    def handles(self) -> Names:
        """Names of blocks and loops."""
        return Names(self._index, ("blocks", "loops"))

    def fresh_buffer(self, hint: str, beside: Iterable[str] = ()) -> str:
        """A name for a buffer that comes with others; it may be that of a block."""
        return fresh(self._names("loops", "variables").beside({*beside}), (hint,))

    def analyzer(self, loops: Iterable[For] = ()) -> Analyzer:
        """Knows that sizes are at least 0 and the ranges of `loops`.

        Every answer is a copy, of which all share what they conclude until they learn more, also
        those of other states.
        """
        return analyzer_of(self.func.size_ranges, extents(loops))


_HAS_NESTED_BLOCKS, _HAS_EXTERNS = attrgetter("has_nested_blocks"), attrgetter("has_externs")


def fresh(taken: Names | Container[str], hints: Iterable[str]) -> str:
    """The first hint that is free, else the last one with the smallest free number."""
    parts, last = taken.now() if isinstance(taken, Names) else [taken], ""
    for last in hints:
        if not any([last in part for part in parts]):
            return last
    numbered = (f"{last}_{number}" for number in count(1))
    return next(name for name in numbered if not any([name in part for part in parts]))


def replace_func(func: PrimFunc, **changes: object) -> PrimFunc:
    return replace(func, **changes)  # type: ignore[type-var]


def nest(loops: Iterable[For], body: Stmt) -> Stmt:
    """`body` inside `loops`, outermost first; the loops' own bodies are dropped."""
    for loop in reversed(list(loops)):
        body = with_body(loop, body)
    return body


def chain_below(loop: For) -> Iterator[For]:
    """The loops nested below `loop` as long as each is the only statement of the one above."""
    node = loop.body
    while isinstance(node, For):
        yield node
        node = node.body


def loops_below(stmt: Stmt) -> list[For]:
    """All loops in `stmt`, itself included, and one for each dimension of the parts that extern
    functions touch, which is run over as if by a loop."""
    found: list[For] = []
    stack = [stmt]
    while stack:
        node = stack.pop()
        while isinstance(node, For):
            found.append(node)
            node = node.body
        if not isinstance(node, Extern):
            below = () if isinstance(node, Store) else child_stmts(node)
            stack += [child for child in reversed(below) if not isinstance(child, Store)]
        else:
            axes = [axis for part in node.parts for axis in part_axes(part).items()]
            found += [For(var, extent, Seq(())) for var, extent in dict(axes).items()]
    return found


def extents(loops: Iterable[For]) -> dict[Var, Expr]:
    return {loop.var: loop.extent for loop in loops}


def add_buffers(func: PrimFunc, *buffers: Buffer) -> PrimFunc:
    return replace_func(func, buffers=(*func.buffers, *buffers))
