"""The whole CUDA text of a lowered program, and where its lines come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from backends.cuda.emitter import CudaEmitter
from backends.cuda.prelude import prelude
from backends.gpu.emitter import Line, Origin, Shared
from backends.gpu.launches import Launches
from backends.gpu.text import grouped
from tensorir import ExternFunc, PrimFunc, Target, TensorIntrin


@dataclass(frozen=True)
class CudaText:
    """A text with all kernels of one program, and of the one that prepares its constants.

    source   the text
    origins  of its lines, counted from 1; lines of helpers and of the prelude have none
    """

    source: str
    origins: dict[int, Origin]


class LineTable(Mapping[int, str]):
    """What the lines of `source` are in the program, in words; made when first asked for.

    Of a text that was edited since it was emitted nothing is known.
    """

    def __init__(self, source: str, emit: Callable[[], CudaText]) -> None:
        self._source = source
        self._emit = emit

    @cached_property
    def _lines(self) -> dict[int, str]:
        text = self._emit()
        if text.source != self._source:
            return {}
        return {number: str(origin) for number, origin in text.origins.items()}

    def __getitem__(self, number: int) -> str:
        return self._lines[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def cuda_text(
    func: PrimFunc,
    target: Target,
    *before: PrimFunc | None,
    trial: TensorIntrin | ExternFunc | None = None,
) -> CudaText:
    """The CUDA text of a lowered program; needs no header.

    The kernels of other programs stand `before` those of `func`, if there are any: of the one that
    prepares its constants, or of any that are to be compiled together and have other names.
    `trial` is a tensor intrinsic or an extern function that is being checked, and not yet known.
    Raises BuildError where the program is not in SPMD form or uses what CUDA does not have.
    """
    shared = Shared(trial=trial)
    kernels: list[list[str]] = []
    for each in (*before, func):
        if each is not None:
            for kernel in Launches.of(each).kernels:
                emitter = CudaEmitter(each, target, kernel, shared)
                kernels.append(emitter.text())
    body: list[str] = []
    for group in grouped(shared.declarations):
        body += ["", *group.splitlines()]
    for lines in kernels:
        body += ["", *lines]
    head = [f"// {func.name}, generated for {target}", "", *prelude("\n".join(body)).splitlines()]
    lines = [*head, *body]
    origins = {n: line.origin for n, line in enumerate(lines, 1) if isinstance(line, Line)}
    return CudaText("\n".join(lines) + "\n", origins)
