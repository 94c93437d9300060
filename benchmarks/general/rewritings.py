"""All rewritings by name. Each is a function on any program, and gives no form where it finds
nothing to rewrite."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from benchmarks.general.around import embedded, symbolic
from benchmarks.general.axes import fused, permuted, reordered, split, units
from benchmarks.general.form import Form, Rewriting
from benchmarks.general.operands import scaled, typed
from benchmarks.general.renamed import renamings
from benchmarks.general.stages import spelled, staged
from tensorir import PrimFunc

REWRITINGS: Mapping[str, Rewriting] = {
    "renamed": renamings,
    "reordered": reordered,
    "permuted": permuted,
    "split": split,
    "fused": fused,
    "unit": units,
    "staged": staged,
    "spelled": spelled,
    "scaled": scaled,
    "type": typed,
    "embedded": embedded,
    "symbolic": symbolic,
}


def forms_of(func: PrimFunc, kinds: Collection[str] = tuple(REWRITINGS)) -> Iterator[Form]:
    """The forms of a program, of some kinds of rewritings."""
    for kind, rewriting in REWRITINGS.items():
        if kind in kinds:
            yield from rewriting(func)
