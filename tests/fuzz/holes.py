"""Workloads whose blocks leave out elements, in boxes that overlap between iterations."""

from __future__ import annotations

from typing import Any

from tensorir import PrimFunc, parse

TEXT = """
@prim_func
def holes(A: f32[{n}], C: f32[{rows}, {width}]):
    B = alloc(f32[{n}])
{before}
    for t in range({rows}):
{first}
        for a in range({width}):
            with block("B"):
                v = spatial({n}, t * {step} + a)
                where({where})
                B[v] = A[v] + 1.0
        for u in range({width}):
            with block("C"):
                vt = spatial({rows}, t)
                vu = spatial({width}, u)
                C[vt, vu] = {value}
"""

BEFORE = """
    for e in range({n}):
        with block("all"):
            ve = spatial({n}, e)
            B[ve] = A[ve] * 2.0
"""

FIRST = """
        for e in range({n}):
            with block("all"):
                ve = spatial({n}, e)
                where(t < 1)
                B[ve] = A[ve] * 2.0
"""

NAMES = ("holes",)
"""What the programs are called."""


def holes(d: Any) -> PrimFunc:
    """Each iteration writes a part of a box; it reads what it wrote, and what others did."""
    rows, width, step = d.pick([1, 2, 3, 5, 8]), d.pick([2, 3, 4, 6]), d.pick([0, 1, 2, 3, 6])
    n = (rows - 1) * step + width
    kept = d.pick(["{x} != {h}", "{x} % 2 == 0", "{x} < {h}", "{h} <= {x}", "{x} // 2 != 1"])
    hole = d.pick(list(range(width)))
    where = kept.format(x="a", h=hole)
    filled = d.pick(["", "before", "first"])
    if filled:
        place = d.pick(["vt * {s} + vu", "{n} - 1 - vu", "min(vt * {s} + vu + 1, {n} - 1)"])
        value = f"B[{place.format(s=step, n=n)}]"
    else:
        later = kept.format(x=f"(vu + {step})", h=hole)
        here = kept.format(x="vu", h=hole)
        value = (
            f"select({here} or (1 <= vt and vu + {step} < {width} and {later}), "
            f"B[vt * {step} + vu], 0.0)"
        )
    text = TEXT.format(
        before=BEFORE.format(n=n) if filled == "before" else "",
        first=FIRST.format(n=n) if filled == "first" else "",
        n=n, rows=rows, width=width, step=step, where=where, value=value,
    )  # fmt: skip
    return parse("\n".join(line for line in text.splitlines() if line.strip()))
