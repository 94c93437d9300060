"""Races: two iterations of a concurrent loop that touch one element, one of them writing.

The program runs as the backends see it, with every intermediate allocated where lowering puts it,
so that memory that belongs to one iteration is never blamed. Iterations still run in order, one
after the other, but each access is remembered for every parallel, vectorized or thread loop around
it: a write by one iteration and any access by another are reported even where the order in which
they happened to run gave the right values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import NoReturn

from tensorir.buffer import Buffer
from tensorir.errors import VerifyError
from tensorir.func import PrimFunc
from tensorir.interpreter.python_source import Emitter
from tensorir.passes.gpu.axes import has_threads, is_thread_loop
from tensorir.passes.gpu.thread_reductions import COMBINE, COPIES
from tensorir.passes.lower_blocks import lower_blocks
from tensorir.passes.lower_init import lower_init
from tensorir.passes.place_buffers import place_buffers
from tensorir.stmt import Alloc, Block, For, ForKind, Store
from tensorir.visit import blocks, variables, walk

CONCURRENT = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD)

Cell = list[int | None]
"""Of one element, in one run of a loop: the iteration that wrote, and two different readers."""


def placed(func: PrimFunc) -> PrimFunc:
    """`func` with its buffers allocated as lowering does; one that is so already stays."""
    nodes = list(walk(func.body))
    if not func.buffers and not any(isinstance(s, Block) for s in nodes):
        return func
    return place_buffers(lower_blocks(lower_init(func)))


def combined_by_threads(func: PrimFunc) -> dict[str, set[str]]:
    """The buffers, by the name of the loop, that the threads of a block reduce into together.

    Code for a GPU combines the parts of such a reduction; the threads do not update one element.
    Nor do those of which each writes a copy of its own.
    """
    found: dict[str, set[str]] = {}
    for loop in walk(func.body):
        if not isinstance(loop, For) or not is_thread_loop(loop):
            continue
        if {COMBINE, COPIES} & loop.annotations.keys():
            stores = [s for s in walk(loop) if isinstance(s, Store)]
            found[loop.name] = {s.buffer.name for s in stores}
        for block in blocks(loop.body):
            fed = block.reduced
            if any(loop.var in variables(it.binding) for it in fed):
                stores = [s for s in walk(block.body) if isinstance(s, Store)]
                found.setdefault(loop.name, set()).update(s.buffer.name for s in stores)
    return found


class Races:
    """What the concurrent loops that are running now have touched, each on its own."""

    def __init__(self, combined: Mapping[str, set[str]] | None = None) -> None:
        self.running: list[Run] = []
        self.combined = combined or {}

    def concurrently(self, loop: str, kind: str, iterations: range) -> Iterator[int]:
        """The iterations of a loop, watched."""
        run = Run(loop, kind, self.combined.get(loop, frozenset()))
        self.running.append(run)
        for run.iteration in iterations:
            yield run.iteration
        self.running.pop()

    def fresh(self, buffer: str) -> None:
        """Memory for `buffer` was allocated: what it held before is forgotten."""
        for run in self.running:
            run.cells.pop(buffer, None)

    def touch(self, buffer: str, index: tuple[int, ...], write: bool) -> None:
        """One access by the current iteration of every running loop."""
        for run in self.running:
            if buffer in run.combined:
                continue
            cells = run.cells.get(buffer)
            if cells is None:
                cells = run.cells[buffer] = {}
            cell = cells.get(index)
            if cell is None:
                cells[index] = [run.iteration, None, None] if write else [None, run.iteration, None]
                continue
            now, (writer, reader, other) = run.iteration, cell
            if writer is not None and writer != now:
                run.race(buffer, index, writer, "writes", "writes" if write else "reads")
            if write:
                for earlier in (reader, other):
                    if earlier is not None and earlier != now:
                        run.race(buffer, index, earlier, "reads", "writes")
                cell[0] = now
            elif reader is None:
                cell[1] = now
            elif reader != now:
                cell[2] = now


class Run:
    """One execution of a concurrent loop, whose iterations reduce into `combined` together."""

    __slots__ = ("cells", "combined", "iteration", "kind", "loop")

    def __init__(self, loop: str, kind: str, combined: Set[str]) -> None:
        self.loop, self.kind, self.combined, self.iteration = loop, kind, combined, 0
        self.cells: dict[str, dict[tuple[int, ...], Cell]] = {}

    def race(
        self, buffer: str, index: tuple[int, ...], earlier: int, did: str, does: str
    ) -> NoReturn:
        at = ", ".join(map(str, index))
        raise VerifyError(
            f"race in the {self.kind} loop {self.loop!r}: iteration {earlier} {did} "
            f"{buffer}[{at}] and iteration {self.iteration} {does} it"
        )


class RaceEmitter(Emitter):
    """Writes the program so that it calls `races`, an instance of Races."""

    def domain(self, stmt: For) -> str:
        iterations = super().domain(stmt)
        serial = stmt.kind is ForKind.PARALLEL and has_threads(self.func.body)  # run one by one
        if serial or stmt.kind not in CONCURRENT:
            return iterations
        kind = stmt.thread or str(stmt.kind)
        return f"races.concurrently({stmt.name!r}, {kind!r}, {iterations})"

    def check(self, buffer: Buffer, verb: str, depth: int) -> None:
        super().check(buffer, verb, depth)
        where = "".join(f"{i}, " for i in self.indices(buffer))
        self.line(depth, f"races.touch({buffer.name!r}, ({where}), {verb == 'writes'})")

    def stmt_alloc(self, stmt: Alloc, depth: int) -> None:
        self.line(depth, f"races.fresh({stmt.buffer.name!r})")
        super().stmt_alloc(stmt, depth)
