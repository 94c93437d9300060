"""What a kernel takes of a GPU: registers, spills and shared memory, as the compiler's log says."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from backends.cuda.nvrtc import FILE
from tensorir import Architecture, find_architecture


@dataclass(frozen=True)
class Resources:
    """What the compiler gave one kernel, for each of its threads if nothing else is said.

    kernel        name in the text
    arch          what it was compiled for
    registers     of 32 bits
    spill_stores  bytes that did not fit into registers and are stored to memory; spill_loads: read
                  back. Of functions that were not inlined too, which any kernel of a text may call
    stack         bytes of memory of its own: spills, and local arrays that are indexed by values
    shared        bytes of static shared memory of a block; launches ask for dynamic memory
    barriers      named barriers of a block
    warnings      what the compiler said of this kernel, or of the text as a whole
    """

    kernel: str
    arch: str
    registers: int
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    shared: int = 0
    barriers: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def spills(self) -> bool:
        """Whether values that did not fit into registers go through memory."""
        return self.spill_stores > 0 or self.spill_loads > 0

    @property
    def architecture(self) -> Architecture:
        """Limits and rates of what it was compiled for."""
        return find_architecture(self.arch)

    def blocks_at_once(self, threads: int, dynamic_shared: int = 0) -> int:
        """Blocks of `threads` threads that an SM runs at once; 0 where none can be launched."""
        shared = self.shared + dynamic_shared
        return self.architecture.blocks_at_once(threads, self.registers, shared)

    def occupancy(self, threads: int, dynamic_shared: int = 0) -> float:
        """The share of the warps that an SM can run that blocks of this kernel fill, 0 to 1."""
        shared = self.shared + dynamic_shared
        return self.architecture.occupancy(threads, self.registers, shared)

    def __str__(self) -> str:
        spilled = f"{self.spill_stores} bytes spilled" if self.spills else "no spills"
        parts = [f"{self.registers} registers", spilled]
        if self.stack:
            parts.append(f"{self.stack} bytes of stack")
        if self.shared:
            parts.append(f"{self.shared} bytes of static shared memory")
        lines = [f"{self.kernel} for {self.arch}: {', '.join(parts)}"]
        return "\n".join([*lines, *(f"  {warning}" for warning in self.warnings)])


_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_FUNCTION = re.compile(r"Function properties for (\S+)")
_MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_STACK = re.compile(r"(\d+) bytes cumulative stack size")
_USED = re.compile(r"Used (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+) bytes smem")
_SAID = re.compile(
    rf"^(?:{re.escape(FILE)}\(\d+\): warning|ptxas warning *:|ptxas info *: \(C\d+\))"
)
_OF_KERNEL = re.compile(r"function '([^']+)'")


def read_resources(log: str) -> dict[str, Resources]:
    """What each kernel of a text takes, by its name, from a log made with `--ptxas-options=-v`."""
    memory: dict[str, tuple[int, int, int]] = {}
    entries: dict[str, tuple[str, str]] = {}  # name -> architecture, line of what it uses
    function = entry = arch = ""
    for line in log.splitlines():
        if found := _ENTRY.search(line):
            entry, arch = found.groups()
        elif found := _FUNCTION.search(line):
            function = found[1]
        elif found := _MEMORY.search(line):
            frame, stores, loads = map(int, found.groups())
            memory[function] = (frame, stores, loads)
        elif _USED.search(line):
            entries[entry] = (arch, line)
    called = [memory[name] for name in memory if name not in entries]
    warnings = list(_warnings(log, entries))
    return {
        name: _of_kernel(
            name,
            *used,
            [memory.get(name, (0, 0, 0)), *called],
            tuple(text for text, of in warnings if of in (name, "")),
        )
        for name, used in entries.items()
    }


def _of_kernel(
    name: str,
    arch: str,
    used: str,
    memory: list[tuple[int, int, int]],
    warnings: tuple[str, ...],
) -> Resources:
    frames, stores, loads = map(sum, zip(*memory))
    return Resources(
        kernel=name,
        arch=arch,
        registers=_number(_USED, used),
        spill_stores=stores,
        spill_loads=loads,
        stack=max(frames, _number(_STACK, used)),
        shared=_number(_SHARED, used),
        barriers=_number(_BARRIERS, used),
        warnings=warnings,
    )


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(found[1]) if found else 0


def _warnings(log: str, kernels: Container[str]) -> Iterator[tuple[str, str]]:
    """The lines of warnings, and of what the assembler calls a loss of performance.

    Each with the kernel that it names; "" where it names none, or a function that any may call.
    """
    for line in log.splitlines():
        if _SAID.search(line):
            named = _OF_KERNEL.search(line)
            yield line, named[1] if named and named[1] in kernels else ""
