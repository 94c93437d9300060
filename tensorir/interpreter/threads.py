"""The threads of a kernel, one after the other: each runs to where it waits, and goes on when those
that it waits for have come there too.

A place where threads wait is a Sync or an Exchange in certain iterations of the loops around it. If
they wait for each other in different places, or some have ended, they would wait forever on a GPU:
VerifyError says who is where.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import product
from typing import Any, NoReturn

from tensorir.errors import VerifyError
from tensorir.interpreter.sanitize import Races
from tensorir.passes.gpu.axes import WARP

Stop = tuple[Any, ...]
"""What a thread says where it waits: scope, number, iterations; of an exchange value and source."""

ENDED: Stop = ("end", 0, ())


class Threads:
    """Runs the blocks of threads of the kernels of one function."""

    def __init__(self, func: str, races: ThreadRaces | None) -> None:
        self.func = func
        self.races = races

    def shared(self, places: dict[str, tuple[int, int]]) -> None:
        """The first slot of each shared buffer and its slots for an element, where they overlap."""
        if self.races is not None:
            self.races.slots = places

    def run(
        self,
        kernel: Callable[..., Generator[Stop, Any, None]],
        extents: Sequence[int],
        axes: Sequence[str],
        block: tuple[int, ...],
    ) -> None:
        """One block of threads, from its beginning to its end."""
        indices = list(product(*map(range, extents)))
        group = _Group(self, [kernel(*index) for index in indices], indices, axes)
        if self.races is not None:
            self.races.enter(block, group.name)
        group.run()


class _Group:
    """The threads of one block."""

    def __init__(
        self,
        owner: Threads,
        threads: list[Generator[Stop, Any, None]],
        indices: list[tuple[int, ...]],
        axes: Sequence[str],
    ) -> None:
        self.owner, self.threads, self.indices, self.axes = owner, threads, indices, axes
        self.stops: list[Stop] = [ENDED] * len(threads)
        self.answers: list[Any] = [None] * len(threads)

    def name(self, thread: int) -> str:
        """A thread in words."""
        index = self.indices[thread]
        shown = ", ".join(f"{axis} = {n}" for axis, n in zip(self.axes, index))
        return f"({shown})" if shown else "the only thread"

    def run(self) -> None:
        ready = list(range(len(self.threads)))
        while ready:
            for thread in ready:
                self.step(thread)
            ready = self.released()

    def step(self, thread: int) -> None:
        if self.owner.races is not None:
            self.owner.races.go_on(thread)
        answer, self.answers[thread] = self.answers[thread], None
        try:
            self.stops[thread] = self.threads[thread].send(answer)
        except StopIteration:
            self.stops[thread] = ENDED

    def released(self) -> list[int]:
        """The threads that may go on; none where all have ended."""
        races, first = self.owner.races, self.stops[0]
        if all(stop[:3] == first[:3] for stop in self.stops) and first[0] in ("block", "end"):
            if races is not None:
                races.block_sync()
            return [] if first is ENDED else list(range(len(self.threads)))
        ready: list[int] = []
        for low in range(0, len(self.threads), WARP):
            warp = range(low, min(low + WARP, len(self.threads)))
            first = self.stops[low]
            if first[0] not in ("warp", "exchange"):
                continue
            if any(self.stops[lane][:3] != first[:3] for lane in warp):
                self.divergent()
            if first[0] == "exchange":
                self.exchange(warp)
            elif races is not None:
                races.warp_sync(low // WARP)
            ready += warp
        if not ready:
            self.divergent()
        return ready

    def exchange(self, warp: range) -> None:
        for lane in warp:
            source = self.stops[lane][4]
            if not 0 <= source < len(warp):
                raise VerifyError(
                    f"function {self.owner.func!r}: thread {self.name(lane)} asks lane {source} of "
                    f"its warp, which has {len(warp)} lanes"
                )
            self.answers[lane] = self.stops[warp[source]][3]

    def divergent(self) -> NoReturn:
        places: dict[Stop, list[int]] = {}
        for thread, stop in enumerate(self.stops):
            places.setdefault(stop[:3], []).append(thread)
        told = "; ".join(self.told(stop, threads) for stop, threads in places.items())
        raise VerifyError(
            f"threads of one block wait in different places in function {self.owner.func!r}: {told}"
        )

    def told(self, stop: Stop, threads: list[int]) -> str:
        who = self.name(threads[0])
        if len(threads) > 1:
            who += f" and {len(threads) - 1} more"
        scope, number, loops = stop
        if scope == "end":
            return f"{who} at the end"
        what = "exchange" if scope == "exchange" else f'sync("{scope}")'
        where = ", ".join(f"{name!r} = {n}" for name, n in loops)
        return f"{who} at {what} {number}" + (f" in loops {where}" if where else "")


class ThreadRaces(Races):
    """What the threads of a kernel have touched, and which accesses are ordered by waiting.

    Two accesses of different threads are ordered if the block has waited in between, or their warp,
    if it is the same. Blocks of threads are never ordered within a kernel.
    """

    def __init__(self, private: frozenset[str], shared: frozenset[str]) -> None:
        super().__init__()
        self.private, self.own = private, shared
        self.slots: dict[str, tuple[int, int]] = {}
        self.thread = 0
        self.block: tuple[int, ...] = ()
        self.phase = 0
        self.phases: dict[int, int] = {}
        self.now: tuple[Any, ...] = ((), 0, 0, 0)
        self.who: tuple[Any, ...] = ((), 0)
        self.seen: dict[Any, tuple[Any, dict[Any, Any]]] = {}
        self.name: Callable[[int], str] = str

    def enter(self, block: tuple[int, ...], name: Callable[[int], str]) -> None:
        """The threads of `block` begin; a kernel's first block has the index 0 on all axes."""
        if not any(block):
            self.seen = {}
        self.block, self.name, self.phase, self.phases = block, name, 0, {}

    def go_on(self, thread: int) -> None:
        """The accesses from here on are of `thread`, until it waits."""
        self.thread = thread
        self.who = (self.block, thread)
        self.now = (self.block, thread, self.phase, self.phases.get(thread // WARP, 0))

    def block_sync(self) -> None:
        self.phase += 1

    def warp_sync(self, warp: int) -> None:
        self.phases[warp] = self.phases.get(warp, 0) + 1

    def touch(self, buffer: str, index: tuple[int, ...], write: bool) -> None:
        if self.running:
            super().touch(buffer, index, write)
        if buffer in self.private:
            return
        if buffer in self.slots:
            first, each = self.slots[buffer]
            for slot in range(first + index[0] * each, first + (index[0] + 1) * each):
                self.touched((self.block, slot), buffer, index, write)
        elif buffer in self.own:
            self.touched((self.block, buffer, index), buffer, index, write)
        else:
            self.touched((buffer, index), buffer, index, write)

    def touched(self, key: Any, buffer: str, index: tuple[int, ...], write: bool) -> None:
        now, found = self.now, self.seen.get(key)
        if found is None:
            self.seen[key] = (now, {}) if write else (None, {self.who: now})
            return
        writer, readers = found
        if writer is not None and writer is not now and self.unordered(writer, now):
            self.collide(buffer, index, writer, "writes", write)
        if not write:
            readers[self.who] = now
            return
        for reader in readers.values():
            if reader is not now and self.unordered(reader, now):
                self.collide(buffer, index, reader, "reads", write)
        self.seen[key] = (now, {})

    def unordered(self, earlier: Any, now: Any) -> bool:
        if earlier[0] != now[0]:
            return True
        if earlier[1] == now[1] or earlier[2] != now[2]:
            return False
        same_warp = earlier[1] // WARP == now[1] // WARP
        return not (same_warp and earlier[3] != now[3])

    def collide(
        self, buffer: str, index: tuple[int, ...], earlier: Any, did: str, write: bool
    ) -> NoReturn:
        at = ", ".join(map(str, index))
        does = "writes" if write else "reads"
        if earlier[0] != self.block:
            raise VerifyError(
                f"race between blocks of threads: block {earlier[0]} {did} {buffer}[{at}] and "
                f"block {self.block} {does} it"
            )
        raise VerifyError(
            f"race: thread {self.name(earlier[1])} {did} {buffer}[{at}] and thread "
            f"{self.name(self.thread)} {does} it, and they do not wait for each other in between"
        )
