"""Reductions that take some of the values of their variables: windows, diagonals, steps.

Moving a block makes loops over all values of its variables. What a reduction leaves out must stay
left out, whatever says so: a predicate, the extents of the loops, or how variables are bound.
"""

from __future__ import annotations

import numpy as np
import pytest

from schedule import Schedule
from tensorir import interpret, parse

PROGRAM = """
@prim_func
def some(A: f32[6, 6], D: f32[4]):
    C = alloc(f32[4])
    for i in range(4):
        for k in range({extent}):
            with block("C"):
                vi = spatial(4, i)
                {rows} = reduce(6, {first})
                {columns} = reduce(6, {second})
                with init():
                    C[vi] = 0.0
                C[vi] = C[vi] + A[{rows}, {columns}]
    for j in range(4):
        with block("D"):
            vj = spatial(4, j)
            D[vj] = C[vj] * 2.0
"""

MOVES = {
    "compute_at": lambda s: s.compute_at("C", "j"),
    "compute_at a part": lambda s: [s.split("j", [None, 3]), s.compute_at("C", "j_0")],
    "rfactor": lambda s: s.rfactor("C", s.get_loops("C")[-1]),
    "rfactor of a part": lambda s: s.rfactor("C", s.split(s.get_loops("C")[-1], [None, 2])[1]),
    "decompose": lambda s: s.decompose_reduction("C", s.get_loops("C")[-1]),
    "reorder": lambda s: s.reorder(*reversed(s.get_loops("C"))),
}


PROGRAMS = [
    (6, "k", "k"),
    (4, "k", "k"),
    (4, "k", "5 - k"),
    (3, "k", "k * 2"),
    (3, "k + i", "k"),
    (2, "i * 6 // 4 + k", "0"),
    (36, "k // 6", "k % 6"),
    (30, "k // 6", "k % 6"),
    (18, "k // 3", "k % 3"),
]


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("case", PROGRAMS, ids=str)
def test_what_is_left_out_stays_left_out(case, move):
    extent, first, second = case
    func = parse(PROGRAM.format(extent=extent, first=first, second=second, rows="v1", columns="v2"))
    array = np.random.default_rng(0).integers(0, 9, (6, 6)).astype(np.float32)
    (want,) = interpret(func, array)
    sch = Schedule(func)
    MOVES[move](sch)
    (got,) = interpret(sch.func, array)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(interpret(parse(repr(sch.func)), array)[0], want)


def test_a_reduction_of_all_terms_keeps_its_variables():
    func = parse(PROGRAM.format(extent=36, first="k // 6", second="k % 6", rows="va", columns="vb"))
    assert repr(Schedule(func).func) == repr(func)


@pytest.mark.parametrize("name", ["v1", "vfor", "v", "v_", "vi_1", "w"])
def test_block_variables_may_have_any_name(name):
    func = parse(PROGRAM.format(extent=36, first="k // 6", second="k % 6", rows=name, columns="v2"))
    array = np.random.default_rng(0).integers(0, 9, (6, 6)).astype(np.float32)
    sch = Schedule(func)
    sch.compute_at("C", "j")
    assert repr(parse(repr(sch.func))) == repr(sch.func)
    np.testing.assert_array_equal(interpret(sch.func, array)[0], interpret(func, array)[0])
