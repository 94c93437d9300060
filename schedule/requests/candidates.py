"""Requests worth trying: for each primitive, sensible arguments at every place of a program.

They are guesses, most of them cheap to refuse; moves.py tries them. A primitive without a row here
gets candidates from the names of its parameters, if those are known.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from schedule.analysis.uses import consumers, producers, read, read_by_others, written
from schedule.primitive import REGISTRY
from schedule.requests import layout_candidates as layout
from schedule.rewrite.placement import child_of
from schedule.state import State, loops_below
from tensorir import Buffer, For, format_expr, int_value

Args = tuple[Any, ...]
Candidates = Callable[[State], Iterator[Args]]

FACTORS = (2, 4, 8, 16, 32, 64)
"""Inner factors that split is tried with."""

THREADS = (
    "blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "warp", "lane", "vthread.x"
)  # fmt: skip
SCOPES = ("global", "shared", "local")


def candidates(state: State, name: str) -> Iterator[Args]:
    """Arguments to try the primitive `name` with, everywhere in the program."""
    row = CANDIDATES.get(name)
    yield from row(state) if row is not None else _by_parameter_names(state, name)


def _by_parameter_names(state: State, name: str) -> Iterator[Args]:
    """What the required parameters are called says what to try; others keep their defaults."""
    known: dict[str, Sequence[Any]] = {
        "block": state.block_names(),
        "loop": state.loop_names(),
        "block_or_loop": [*state.block_names(), *state.loop_names()],
        "thread": THREADS,
        "scope": SCOPES,
        "distance": (1, 2),
    }
    needed = _needed(name)
    if not needed or any(p not in known and p != "buffer" for p in needed):
        return
    if "buffer" not in needed:
        yield from product(*(known[p] for p in needed))
        return
    for block in state.block_names():
        buffers = [b.name for b in written(state.block(block))]
        loops = [loop.name for loop in state.loops_around(block)]
        own = {**known, "block": [block], "buffer": buffers, "loop": loops}
        yield from product(*(own[p] for p in needed))


@functools.cache
def _needed(name: str) -> list[str]:
    """The parameters that need a value; none for draws, which change no program."""
    if name not in REGISTRY or name.startswith("sample_"):
        return []
    found = list(inspect.signature(REGISTRY[name]).parameters.values())[1:]
    return [p.name for p in found if p.default is inspect.Parameter.empty or p.name == "buffer"]


def _split(state: State) -> Iterator[Args]:
    for loop in state.loop_names():
        extent = state.loop(loop).const_extent
        for factor in FACTORS:
            if extent is None or factor < extent:
                yield loop, [None, factor]


def _partition(state: State) -> Iterator[Args]:
    for loop in state.loop_names():
        extent = state.loop(loop).const_extent
        if extent is None or extent > 1:
            yield loop, [1, None]
            yield loop, [None, 1]


def _shift(state: State) -> Iterator[Args]:
    """By what a row of memory may begin behind a sector of eight elements."""
    for outer, inner in _nested(state):
        extent = state.loop(inner).extent
        if int_value(extent) is None or (int_value(extent) or 0) % 8:
            yield inner, f"{outer} * ({format_expr(extent)}) % 8"


def _nested(state: State) -> Iterator[tuple[str, str]]:
    """Pairs of loops, the second directly inside the first."""
    for name in state.loop_names():
        node = state.loop(name)
        for child in child_of(node):
            if isinstance(child, For):
                yield name, child.name


def _reorder(state: State) -> Iterator[Args]:
    for outer, inner in _nested(state):
        yield inner, outer


def _merge(state: State) -> Iterator[Args]:
    """Loops that follow each other."""
    parents = [state.loop(name) for name in state.loop_names()]
    rows = [child_of(p) for p in parents]
    top = state.func.body
    rows.append(tuple(getattr(top, "stmts", (top,))))
    for row in rows:
        for first, second in zip(row, row[1:]):
            if isinstance(first, For) and isinstance(second, For):
                yield first.name, second.name


def _run_before(state: State) -> Iterator[Args]:
    """Blocks that follow each other."""
    names = state.block_names()
    yield from ((second, first) for first, second in zip(names, names[1:]))


def _near(state: State, block: str, neighbours: Sequence[str]) -> list[str]:
    """The loops around `neighbours` and not around the block; any loop if there are none."""
    own = {loop.name for loop in state.loops_around(block)}
    found = [loop.name for other in neighbours for loop in state.loops_around(other)]
    return [n for n in dict.fromkeys(found) if n not in own] or state.loop_names()[:1]


def _compute_at(state: State) -> Iterator[Args]:
    for block in state.block_names():
        for loop in _near(state, block, consumers(state, block)):
            yield block, loop


def _reverse_compute_at(state: State) -> Iterator[Args]:
    for block in state.block_names():
        for loop in _near(state, block, producers(state, block)):
            yield block, loop


def _around(state: State) -> Iterator[Args]:
    """A block and a loop around it."""
    for block in state.block_names():
        for loop in state.loops_around(block):
            yield block, loop.name


def _buffers(found: Callable[[Any], tuple[Buffer, ...]]) -> Candidates:
    def each(state: State) -> Iterator[Args]:
        for block in state.block_names():
            for buffer in found(state.block(block)):
                yield block, buffer.name

    return each


def _prefetch(state: State) -> Iterator[Args]:
    for block, loop in _around(state):
        for buffer in read_by_others(state.block(block)):
            if buffer in state.func.params:
                yield block, buffer.name, loop


def _spread_prefetch(state: State) -> Iterator[Args]:
    for block, loop in _around(state):
        node = state.block(block)
        for buffer in dict.fromkeys((*read(node), *written(node))):
            if buffer in state.func.params:
                for inner in loops_below(state.loop(loop)):
                    yield block, buffer.name, loop, inner.name


def _set_scope(state: State) -> Iterator[Args]:
    for block in state.block_names():
        for buffer in written(state.block(block)):
            for scope in SCOPES:
                if scope != buffer.scope and buffer not in state.func.params:
                    yield block, buffer.name, scope


def _epilogue(state: State) -> Iterator[Args]:
    for block in state.block_names():
        for user in consumers(state, block):
            yield block, user


def _unannotate(state: State) -> Iterator[Args]:
    for loop in state.loop_names():
        for key in state.loop(loop).annotations:
            yield loop, key
    for block in state.block_names():
        for key in state.block(block).annotations:
            yield block, key


CANDIDATES: dict[str, Candidates] = {
    "split": _split,
    "partition": _partition,
    "shift": _shift,
    "fuse": _nested,
    "reorder": _reorder,
    "merge": _merge,
    "run_before": _run_before,
    "compute_at": _compute_at,
    "reverse_compute_at": _reverse_compute_at,
    "decompose_reduction": _around,
    "rfactor": _around,
    "cache_read": _buffers(read_by_others),
    "cache_write": _buffers(written),
    "stream": _buffers(written),
    "prefetch": _prefetch,
    "spread_prefetch": _spread_prefetch,
    "set_scope": _set_scope,
    "fuse_reduction_epilogue": _epilogue,
    "unannotate": _unannotate,
    "annotate": layout.annotate,
    "transform_layout": layout.transform_layout,
    "transform_block_layout": layout.transform_block_layout,
    "storage_align": layout.storage_align,
    "swizzle": layout.swizzle,
    "pad_einsum": layout.pad_einsum,
    "pipeline": layout.pipeline,
    "tensorize": layout.tensorize,
    "use_algorithm": layout.use_algorithm,
    "reassociate": layout.reassociate,
    "regroup": layout.regroup,
    "cache_value": layout.cache_value,
}
