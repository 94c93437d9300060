"""Requests that programs which write over their inputs refuse."""

from __future__ import annotations

from refusal import refused

from schedule import Schedule
from tensorir import parse

STEP = """
@prim_func
def step(A: f32[8], C: f32[8]{more}):
    T = alloc(f32[8])
    for i in range(8):
        with block("T"):
            vi = spatial(8, i)
            T[vi] = C[{place}] * f32(2.0)
    for j in range(8):
        with block("C"):
            vi = spatial(8, j)
            C[vi] = T[vi] + A[vi]
"""
AFTER = """\
    for k in range(8):
        with block("D"):
            vi = spatial(8, k)
            D[vi] = T[vi]
"""
UPPER = """
@prim_func
def upper(A: f32[8], C: f32[8]):
    for i in range(4):
        with block("C"):
            vi = spatial(4, i)
            C[vi + 4] = A[vi]
"""


def step(place="vi", after=""):
    more = ", D: f32[8]" if after else ""
    return Schedule(parse(STEP.strip().format(place=place, more=more) + "\n" + after))


def test_what_is_overwritten_is_not_read_later():
    again = "block 'C' may write 'C' again between block 'T', which reads it"
    refused(step("7 - vi").compute_inline, "T", match=again)
    refused(step(after=AFTER).compute_inline, "T", match=again)
    refused(step("7 - vi").compute_at, "T", "j", match="block 'C', which 'T' reads, runs later")


def test_a_part_has_no_copy_of_the_whole():
    refused(Schedule(parse(UPPER.strip())).cache_write, "C", match="'C' writes a part of 'C' only")
