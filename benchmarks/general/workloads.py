"""The programs that are rewritten: main rows of the peers' benchmark, and invented operators."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.general.form import is_dense
from benchmarks.peers.kinds import KINDS
from benchmarks.peers.programs import prim_func
from benchmarks.peers.rows import Row
from benchmarks.peers.sets import SETS
from tensorir import PrimFunc


@dataclass(frozen=True)
class Workload:
    """A program to rewrite.

    constants   places among its inputs of what is known ahead of calls
    dense       whether arithmetic bounds it, so that other types are compared by that
    """

    name: str
    func: PrimFunc
    constants: tuple[int, ...]
    dense: bool


def rows(tiny: bool = False) -> list[Row]:
    """The rows of all workloads, or tiny ones of every operator among them."""
    if tiny:
        return [row for row in SETS["quick"] if row.kind != "operator"]
    return [*SETS["main"], *SETS["invented"]]


def workload(row: Row) -> Workload:
    func, kind = prim_func(row.kind, row.sizes), KINDS[row.kind]
    names = [b.name for b in func.inputs]
    constants = tuple(names.index(name) for name in kind.constants)
    return Workload(row.name, func, constants, is_dense(kind.flops(row.sizes), func))
