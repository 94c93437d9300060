"""Random requests for the primitives on loops, scopes, annotations and decisions."""

from __future__ import annotations

from typing import Any

from schedule import Schedule
from schedule.analysis.uses import read_by_others
from tensorir import For, ForKind, PrimFunc, Seq, Stmt, map_children, replace

Arguments = tuple[Any, ...] | None
AXES = ["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread.x"]
ANNOTATIONS = [("schedule", "dynamic,2"), ("schedule", "guided"), ("unroll_limit", 3)]


def on_cpu(func: PrimFunc) -> PrimFunc:
    """`func` with loops over threads made serial: what it computes, for the C backend."""
    return replace(func, body=_serial(func.body))  # type: ignore[type-var]


def _serial(stmt: Stmt) -> Stmt:
    stmt = map_children(stmt, _serial)
    if isinstance(stmt, For) and stmt.kind is ForKind.THREAD:
        return replace(stmt, kind=ForKind.SERIAL, thread=None)
    return stmt


def add_unit_loop(stress: Any, sch: Schedule) -> Arguments:
    return (stress.pick([stress.block(sch), *stress.loops(sch)]),)


def partition(stress: Any, sch: Schedule) -> Arguments:
    loop = stress.loop(sch)
    factors = stress.pick([[1, None], [None, 1], [2, None], [3, None, 1], [None, 4], [2, 2]])
    return None if loop is None else (loop, factors)


def shift(stress: Any, sch: Schedule) -> Arguments:
    """By a number, or by what a loop around says."""
    loop = stress.loop(sch)
    if loop is None:
        return None
    around = [f.name for f in sch.state.loops_outside(loop)]
    says = [f"{name} * {step} % {size}" for name in around for step, size in ((1, 4), (5, 8))]
    return loop, stress.pick([0, 3, *says])


def merge(stress: Any, sch: Schedule) -> Arguments:
    """Mostly neighbours, which random loops rarely are."""
    pairs = [
        (a.name, b.name)
        for stmt in _sequences(sch.func.body)
        for a, b in zip(stmt.stmts, stmt.stmts[1:])
        if isinstance(a, For) and isinstance(b, For)
    ]
    if pairs:
        return stress.pick(pairs)  # type: ignore[no-any-return]
    loop = stress.loop(sch)
    return None if loop is None else (loop, stress.loop(sch) or loop)


def fission(stress: Any, sch: Schedule) -> Arguments:
    """Mostly of loops around several statements, at one of these or at all."""
    found = [n for n in sch.state.loop_names() if isinstance(sch.state.loop(n).body, Seq)]
    loop = stress.pick(found) if found else stress.loop(sch)
    if loop is None or stress.pick([True, False]):
        return None if loop is None else (loop,)
    return loop, stress.pick(list(sch.get_child_blocks(loop)))


def run_before(stress: Any, sch: Schedule) -> Arguments:
    """Of two blocks the later one first; mostly of a copy of an argument, which needs none."""
    names = [str(name) for name in sch.get_blocks()]
    place = stress.pick(range(len(names)))
    reads = read_by_others(sch.state.block(names[place]))
    given = [n for n, buffer in enumerate(reads) if buffer in sch.func.params]
    if place and given and stress.pick([True, True, False]):
        if stress.ask(sch, "cache_read", names[place], stress.pick(given), "global"):
            return str(sch.trace.instructions[-1].outputs), names[0]
    return names[place], names[max(0, place - 1)]


def _sequences(stmt: Stmt) -> list[Seq]:
    if isinstance(stmt, Seq):
        return [stmt, *(found for child in stmt.stmts for found in _sequences(child))]
    return _sequences(stmt.body) if isinstance(stmt, For) else []


def bind(stress: Any, sch: Schedule) -> Arguments:
    loop = stress.loop(sch)
    return None if loop is None else (loop, stress.pick(AXES))


def set_scope(stress: Any, sch: Schedule) -> Arguments:
    return stress.block(sch), 0, stress.pick(["local", "shared", "global"])


def annotate(stress: Any, sch: Schedule) -> Arguments:
    fitting = [
        name
        for name in sch.state.loop_names()
        if sch.state.loop(name).kind in (ForKind.PARALLEL, ForKind.UNROLLED)
    ]
    loop = stress.pick(fitting) if fitting else stress.loop(sch)
    return None if loop is None else (loop, *stress.pick(ANNOTATIONS))


def unannotate(stress: Any, sch: Schedule) -> Arguments:
    found = [(n, k) for n in sch.state.loop_names() for k in sch.state.loop(n).annotations]
    if found:
        return stress.pick(found)  # type: ignore[no-any-return]
    loop = stress.loop(sch)
    return None if loop is None else (loop, "schedule")


def sample_perfect_tile(stress: Any, sch: Schedule) -> Arguments:
    loop = stress.loop(sch)
    return None if loop is None else (loop, stress.pick([1, 2, 3]), stress.pick([None, 4]))


def sample_categorical(stress: Any, sch: Schedule) -> Arguments:
    return stress.pick([([1, 2, 4],), (["a", "b"], [1, 0]), ([2.5],), ([1, 2], [0, 0])])  # type: ignore[no-any-return]


def sample_compute_location(stress: Any, sch: Schedule) -> Arguments:
    return (stress.block(sch),)
