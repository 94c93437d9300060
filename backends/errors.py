"""What building a kernel can raise."""

from __future__ import annotations

from tensorir import TensorIRError

SHOWN_LINES = 16


class BuildError(TensorIRError):
    """A kernel could not be compiled or loaded.

    command  the compiler's command line, empty where none was run
    output   everything the compiler said
    source   the text that it was given
    """

    def __init__(
        self, message: str, command: tuple[str, ...] = (), output: str = "", source: str = ""
    ) -> None:
        super().__init__(message, command, output, source)
        self.message = message
        self.command = command
        self.output = output
        self.source = source

    def __str__(self) -> str:
        parts = [self.message]
        if self.command:
            parts.append(f"  command: {' '.join(self.command)}")
        lines = self.output.strip().splitlines()
        parts.extend(f"  {line}" for line in lines[:SHOWN_LINES])
        if len(lines) > SHOWN_LINES:
            parts.append(f"  ... {len(lines) - SHOWN_LINES} more lines in the error's .output")
        if self.source:
            parts.append(f"  the {len(self.source.splitlines())} lines given are in .source")
        return "\n".join(parts)


class BuildTimeout(BuildError):
    """The compiler took longer than it was given."""


class OutOfMemory(TensorIRError):
    """A compiler or a kernel did not get the memory that it asked for."""


class BuildMemoryError(BuildError, OutOfMemory):
    """The compiler ran out of memory."""


class BuildPlaceError(BuildError):
    """A folder cannot be written: the disk is full, or read-only."""
