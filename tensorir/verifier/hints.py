"""Hints that a program carries, in the form in which primitives make them.

Lowering and backends take them at their word, so a text that was written by hand must not say what
no primitive would have. Other annotations are their owners' and mean nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorir.errors import VerifyError
from tensorir.func import PrimFunc
from tensorir.passes.facts.intervals import HELD
from tensorir.passes.partition_loops import MOST
from tensorir.passes.swizzle import LARGEST_RUN, SWIZZLE
from tensorir.passes.vectors.masked_tails import LOOSE, WHOLE
from tensorir.passes.vectors.pad_rows import ROWS
from tensorir.stmt import Extern, For
from tensorir.visit import walk

MADE_BY_LOWERING = (WHOLE, LOOSE, ROWS, HELD)


def _is_int(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _rows(value: Any, words: int, least: int) -> bool:
    """Lists of so many names and a distance."""
    return isinstance(value, (list, tuple)) and all(
        isinstance(row, (list, tuple))
        and len(row) == words + 1
        and all(isinstance(word, str) for word in row[:-1])
        and _is_int(row[-1], least)
        for row in value
    )


def _numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(map(_is_int, value))


LOOPS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "prefetch": (
        lambda value: _rows(value, 2, 1),
        'a list such as [["block", "buffer", 1]]',
    ),
    "spread_prefetch": (
        lambda value: _rows(value, 3, 0),
        'a list such as [["block", "buffer", "loop", 1]]',
    ),
    "pipeline": (_numbers, "a list with the stage of each statement of the loop"),
    "schedule": (lambda value: isinstance(value, str), "a text such as 'dynamic,4'"),
    "tensorize": (lambda value: isinstance(value, str), "the name of an intrinsic"),
    "unroll_limit": (_is_int, "an integer from 0 on"),
}
"""What the annotations of loops that somebody honours have to be, by key."""


def check_hints(func: PrimFunc) -> None:
    """Raise VerifyError for an annotation or an attribute that does not have its form."""
    for stmt in walk(func.body):
        if isinstance(stmt, For):
            _check_loop(stmt)
    for key in MADE_BY_LOWERING:
        if key in func.attrs:
            raise VerifyError(f"the attribute {key!r} is made by lowering; leave it out")
    for key in ("stream", "double_buffer"):
        value = func.attrs.get(key, ())
        listed = isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
        if not listed:
            raise VerifyError(f"the attribute {key!r} is {value!r}, not a list of buffers")
    align = func.attrs.get("align", {})
    if not isinstance(align, dict):
        raise VerifyError(f"the attribute 'align' is {align!r}, not a dictionary of buffers")
    _check_swizzle(func)
    ranks = {b.name: b.ndim for b in func.buffers}
    for name, value in align.items():
        if name in [p.name for p in func.params]:
            raise VerifyError(
                f"the attribute 'align' is for intermediates, and {name!r} is a parameter"
            )
        if name not in ranks:
            continue  # it was aligned, and is gone
        fits = _numbers(value) and len(value) == 3
        if not fits or not (value[0] < ranks[name] - 1 and value[2] < value[1]):
            raise VerifyError(
                f"the attribute 'align' has {value!r} for {name!r}, not [axis, factor, offset] "
                "with an axis that is not the last, and an offset below the factor"
            )


def _check_swizzle(func: PrimFunc) -> None:
    swizzle = func.attrs.get(SWIZZLE, {})
    if not isinstance(swizzle, dict):
        raise VerifyError(f"the attribute {SWIZZLE!r} is {swizzle!r}, not a dictionary of buffers")
    for name, value in swizzle.items():
        if name in [p.name for p in func.params]:
            raise VerifyError(
                f"the attribute {SWIZZLE!r} is for intermediates, and {name!r} is a parameter"
            )
        calls = [s for s in walk(func.body) if isinstance(s, Extern)]
        if any([part.buffer.name == name for call in calls for part in call.parts]):
            raise VerifyError(
                f"the attribute {SWIZZLE!r} has {name!r}, which an extern function gets: its rows "
                "are dense"
            )
        fits = _numbers(value) and len(value) == 3
        if not fits or value[0] < 1 or value[2] < 1 or value[0] + value[1] > LARGEST_RUN:
            raise VerifyError(
                f"the attribute {SWIZZLE!r} has {value!r} for {name!r}, not [bits, base, shift] "
                f"with bits and shift from 1 on, and bits + base up to {LARGEST_RUN}"
            )


def _check_loop(loop: For) -> None:
    for key, value in loop.annotations.items():
        if key == MOST:
            raise VerifyError(
                f"loop {loop.name!r} has the annotation {key!r}, which lowering makes; leave it out"
            )
        if key in LOOPS and not LOOPS[key][0](value):
            raise VerifyError(
                f"loop {loop.name!r} has the annotation {key!r} with the value {value!r}; "
                f"it takes {LOOPS[key][1]}"
            )
