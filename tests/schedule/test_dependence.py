"""Dependences that the analysis of loops once missed."""

from __future__ import annotations

import pytest

from schedule import Schedule, ScheduleError
from tensorir import parse

PROGRAM = """
@prim_func
def program(A: f32[32], {param}D: f32[4, 32]):{alloc}
    for o, i, j in grid(4, 8, 4):
        with block("B"):
            vi = spatial(8, i)
            vj = spatial(4, j)
            B[vi * 4 + vj] = A[vi * 4 + vj]
        with block("D"):
            vo = spatial(4, o)
            vi = spatial(8, i)
            vj = spatial(4, j)
            where({where})
            D[vo, vi * 4 + vj] = B[{index}]
"""


def program(index, private=False, where="True"):
    alloc = "\n    B = alloc(f32[40])" if private else ""
    text = PROGRAM.format(
        param="" if private else "B: f32[40], ", alloc=alloc, index=index, where=where
    )
    return Schedule(parse(text.replace("            where(True)\n", "")))


def refused(sch, loop):
    with pytest.raises(ScheduleError, match="block 'D' uses what block 'B' writes|write the same"):
        sch.parallel(loop)


def test_own_elements():
    sch = program("vi * 4 + vj", private=True)
    sch.parallel("i")


def test_shifted_by_a_loop_outside():
    """The digits of i agree; that D looks o elements further was not seen."""
    refused(program("vi * 4 + vj + vo"), "i")
    refused(program("vi * 4 + vo + vj", private=True), "i")


def test_borrowed_digits():
    """vi * 4 + vj - vk reaches what the iteration before wrote."""
    text = str(program("vi * 4 + vj - vo + 3").func)
    text = text.replace("for o, i, j in grid(4, 8, 4)", "for i, j, o in grid(8, 4, 4)")
    refused(Schedule(parse(text)), "i")


@pytest.mark.parametrize(
    "index", ["vi // 2 * 4 + vj", "vj", "28 - vi * 4 + vj", "max(vi - 1, 0) * 4"]
)
def test_values_of_earlier_iterations_in_private_memory(index):
    """Nothing outside of the loop uses B, and still an iteration reads what others wrote."""
    refused(program(index, private=True), "i")
