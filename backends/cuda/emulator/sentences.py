"""The sentences of reports, made of the records that the runtime writes."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any

Record = dict[str, Any]


def kind_of(r: Record) -> str:
    """The kind of a report. Where threads are stuck, lanes lack if part of a warp waits for the
    rest of it; else a barrier of the block was not reached by all."""
    if r["kind"] == "mismatch":
        return "lanes" if r["lanes"] else "divergence"
    if r["kind"] != "stuck":
        return str(r["kind"])
    of_warps = any(line and what != "ti_sync" for _, _, what, line in r["waits"])
    return "lanes" if of_warps else "divergence"


def sentence(r: Record) -> str:
    """What happened, with the numbers."""
    return _SENTENCES[r["kind"]](r)


def _who(r: Record) -> str:
    return f"thread {_index(r['thread'])} of block {_index(r['block'])}"


def _index(of: Iterable[int]) -> str:
    return f"({', '.join(map(str, of))})"


def _elements(r: Record) -> str:
    last = r["index"] + r.get("count", 1) - 1
    span = r["index"] if last == r["index"] else f"{r['index']} to {last}"
    return f"{r['buffer']}[{span}]"


def _race(r: Record) -> str:
    same = r["block"] == r["other_block"]
    first, then = {
        "write": ("writes", "writes it too"),
        "read": ("writes", "reads it"),
        "read first": ("reads", "writes it"),
    }[r["how"]]
    other = f"thread {_index(r['other_thread'])}"
    other += "" if same else f" of block {_index(r['other_block'])}"
    why = "no barrier lies between" if same else "blocks do not wait for each other"
    return (
        f"{other} {first} {_elements(r)} in line {r['other_line']} and {_who(r)} {then} in line "
        f"{r['line']}: {why}"
    )


def _bounds(r: Record) -> str:
    return (
        f"{_who(r)} {'writes' if r['write'] else 'reads'} {_elements(r)}, and {r['buffer']} has "
        f"{r['elements']} elements"
    )


def _mismatch(r: Record) -> str:
    others = "other lanes of its warp" if r["lanes"] else "others"
    return (
        f"{_who(r)} comes to {r['what']} of line {r['line']} while {others} wait in "
        f"{r['other_what']} of line {r['other_line']}: all have to come to the same one"
    )


def _stuck(r: Record) -> str:
    waits = "; ".join(
        f"{_span(first, end)} {f'in {what} of line {line}' if line else 'ended'}"
        for first, end, what, line in r["waits"]
    )
    needed = "lanes of a warp" if kind_of(r) == "lanes" else "threads of the block"
    return (
        f"no thread of block {_index(r['block'])} can go on, since not all {needed} come to the "
        f"same place: {waits}"
    )


def _span(first: int, end: int) -> str:
    """Threads by their linear numbers, and what they do."""
    return f"thread {first}" if end == first + 1 else f"threads {first} to {end - 1}"


def _alignment(r: Record) -> str:
    if "off" not in r:
        return (
            f"{_who(r)} accesses {r['elements']} elements of {r['buffer']} from {r['index']} on, "
            f"which is no multiple of {r['elements']}"
        )
    buffer = f" of {r['buffer']}" if r["buffer"] else ""
    return (
        f"{_who(r)} accesses {r['bytes']} bytes{buffer} at an address that is {r['off']} beyond a "
        f"multiple of {r['bytes']}"
    )


def _crash(r: Record) -> str:
    where = f"{_who(r)} did, after line {r['line']}" if "thread" in r else "outside of any thread"
    return (
        f"the kernel died of {signal.Signals(r['signal']).name} ({where}): of a division by zero, "
        "of too much local memory, or of what an extern function did"
    )


_SENTENCES = {
    "race": _race,
    "bounds": _bounds,
    "uninitialised": lambda r: f"{_who(r)} reads {_elements(r)}, which nobody has written",
    "wait": lambda r: (
        f"{_who(r)} reads {_elements(r)} before the asynchronous copy of line {r['other_line']} "
        "to it was waited for"
    ),
    "alignment": _alignment,
    "mismatch": _mismatch,
    "stuck": _stuck,
    "lanes": lambda r: (
        f"{_who(r)} takes the value of lane {r['source']} in {r['what']}, and its warp has no such "
        "lane"
    ),
    "arena": lambda r: (
        f"it has {r['bytes']} bytes of shared memory, and the launch gives {r['given']}"
    ),
    "memory": lambda r: f"there is no memory for the stacks of {r['threads']} threads",
    "crash": _crash,
    "timeout": lambda r: f"it did not end within {r['seconds']:g} s",
    "died": lambda r: f"the process that ran the kernel {r['how']}",
}
