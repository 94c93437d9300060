"""Borders that repeat an edge or wrap around cost what lies far from them nothing."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from tensorir import BinOp, For, Load, Stmt, Store, Target, interpret, lower
from tensorir import dtype as dt
from tensorir.text.parser import parse
from tensorir.vector_expr import Ramp
from tensorir.visit import child_stmts, walk_exprs

HEAD = "@prim_func\ndef f(A: f32[{size}], C: f32[{size}]):\n"

BORDERS = {
    "repeated": "min(max({x} - 2, 0), {n} - 1)",
    "repeated, the other limit first": "max(min({x} - 2, {n} - 1), 0)",
    "one end": "max({x} - 2, 0)",
    "wrapped ahead": "({x} + 2) % {n}",
    "wrapped behind": "({x} + {n} - 2) % {n}",
}
NESTS = {
    "serial": "for i in range(40):\n    for j in range({n}):\n        {store}\n",
    "lanes": "for i in range(40):\n    for j in vectorized({n}):\n        {store}\n",
    "tasks of tiles": "for i in parallel(40):\n    for j_0 in range({tiles}):\n"
    "        for j_1 in vectorized(16):\n            if j_0 * 16 + j_1 < {n}:\n"
    "                {store}\n",
}


@pytest.mark.parametrize("n", [64, 75])
@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("border", BORDERS)
def test_borders_without_conditions_are_far_from_most_elements(
    border: str, nest: str, n: int
) -> None:
    """However a border is written, and whichever loop meets it: most elements do not ask for it,
    vectors are loaded as neighbours, and each element is what it was."""
    column = "(j_0 * 16 + j_1)" if "tiles" in nest else "j"
    store = f"C[i * {n} + {column}] = A[i * {n} + {BORDERS[border].format(x=column, n=n)}]"
    body = NESTS[nest].format(n=n, tiles=-(-n // 16), store=store)
    func = parse(HEAD.format(size=40 * n) + textwrap.indent(body, "    "))
    made = lower(func, Target("c", vector_bits=512))
    counts = [_instances(made.body, kind) for kind in ("all", "gathers", "borders")]
    assert counts[1] * 3 < counts[0] and counts[2] * 3 < counts[0]
    a = np.arange(40 * n, dtype=np.float32)
    np.testing.assert_array_equal(interpret(made, a), interpret(func, a))


def _instances(stmt: Stmt, kind: str, times: float = 1) -> float:
    """How often stores run, all of them or those that gather or ask for a border."""
    if isinstance(stmt, For):
        times *= stmt.extent.value
    elif isinstance(stmt, Store):
        nodes = list(walk_exprs(stmt.value))
        loads = [n.indices[0] for n in nodes if isinstance(n, Load)]
        asks = {
            "all": True,
            "gathers": any(dt.lanes(i.dtype) > 1 and not isinstance(i, Ramp) for i in loads),
            "borders": any(isinstance(n, BinOp) and n.op in ("min", "max", "%") for n in nodes),
        }
        return times * asks[kind]
    return sum(_instances(s, kind, times) for s in child_stmts(stmt))
