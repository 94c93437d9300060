"""The innermost loop of machine code that does most of the arithmetic."""

from __future__ import annotations

import re

LABEL = re.compile(r"^(\.?\w+):")
JUMP = re.compile(r"^\s+(?:j\w+|b\.?\w*|cbn?z|tbn?z)\s+(?:\S+,\s*)*(\.?\w+)\s*$")
"""A jump of x86 or ARM to a label."""

ARITHMETIC = re.compile(r"^\s+v?(?:f?n?m(?:add|sub|la|ls)|f?(?:add|sub|mul|div|max|min)|\w*dot|dp)")
SHOWN = 80
"""Lines of a loop that are written out."""


def hot_loop(asm: str) -> str:
    """The lines of the loop in `asm`, without directives; "" where there is none."""
    lines = [line for line in asm.splitlines() if not re.match(r"^\s+\.", line)]
    loops = [lines[start : end + 1] for start, end in _innermost(lines)]
    best = max(loops, key=_weight, default=[])
    more = len(best) - SHOWN
    shown = best if more <= 0 else [*best[: SHOWN - 1], f"\t... {more} more lines", best[-1]]
    return "\n".join(line.expandtabs(8) for line in shown)


def _innermost(lines: list[str]) -> list[tuple[int, int]]:
    """First and last line of each loop without another one inside: a label, and a jump to it."""
    places = {found[1]: at for at, line in enumerate(lines) if (found := LABEL.match(line))}
    loops = []
    for at, line in enumerate(lines):
        jump = JUMP.match(line)
        start = places.get(jump[1], at) if jump else at
        if start < at:
            loops.append((start, at))
    inside = lambda a, b: a != b and b[0] <= a[0] and a[1] <= b[1]  # noqa: E731
    return [loop for loop in loops if not any(inside(other, loop) for other in loops)]


def _weight(loop: list[str]) -> tuple[int, int]:
    return sum(bool(ARITHMETIC.match(line)) for line in loop), len(loop)
