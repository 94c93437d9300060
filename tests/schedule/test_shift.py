"""shift: the iterations of a loop begin later, in each row where its memory says."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import refused

from schedule import Schedule
from tensorir import parse, te

RECORDED = """
@prim_func
def scan(A: f32[4], B: f32[4]):
    for t in range(4):
        with block("B"):
            vt = opaque(4, t)
            B[vt] = select(vt < 1, A[vt], B[vt - 1] + A[vt])
"""


def rows(n=3, m=13):
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2.0, name="C")
    return te.create_prim_func([a, c], name="rows")


def test_parts_lie_between_borders(check, golden):
    """Of rows of 13 elements, each in four parts: one more element before the first of each row."""
    sch = Schedule(rows())
    sch.compute_inline("B")
    loop = sch.shift("j_C", "i_C * 13 % 4")
    assert loop == "j_C_shifted"
    parts, lane = sch.split(loop, [None, 4])
    golden(str(sch.func), "shift")
    check(sch)
    sch.vectorize(lane)
    sch.parallel("i_C")
    check(sch)
    assert sch.numerics == "bitwise"
    assert len(sch.partition(parts, [1, 2, None])) == 3
    assert "where" not in str(sch.func).split("C_1")[1].split("C_2")[0]  # nothing is left out
    check(sch)


def test_by_a_number_and_by_no_iteration(check):
    sch = Schedule(rows())
    sch.shift("i", 2)
    sch.shift("j_C", 0)
    check(sch)


def test_rows_there_are_none_of(check):
    """What is shifted by the place of a row that there is none of begins where it did."""
    sch = Schedule(rows(0, 3))
    sch.shift("j", "i * 5 % 8")
    assert parse(str(sch.func)) is not None
    check(sch)


def test_what_is_computed_in_it(check):
    sch = Schedule(rows(5, 11))
    parts, _ = sch.split(sch.shift("j_C", "i_C * 11 % 8"), [None, 8])
    sch.compute_at("B", parts)
    check(sch)


def test_the_loops_change_places(check):
    """The extent is the same for all rows, whatever the loops are that say how far."""
    sch = Schedule(rows(6, 5))
    outer, inner = sch.split("i", [None, 4])
    loop = sch.shift("j", f"({outer} * 20 + {inner} * 5) % 8")
    sch.reorder(loop, outer, inner)
    sch.fuse(outer, inner)
    check(sch)


def test_sizes(check):
    n = te.var("n")
    sch = Schedule(rows(n, n))
    sch.split(sch.shift("j_C", "i_C * n % 8"), [None, 8])
    assert "n + 7" in str(sch.func)
    refused(sch.shift, "j", "i * n", match="no known largest value")


def test_a_copy_of_terms(check, matmul):
    """Terms themselves stay where they are; what they read may be shifted."""
    sch = Schedule(matmul(3, 4, 7))
    copy = sch.cache_read("C", "B", "local")
    sch.shift(sch.get_loops(copy)[-1], f"{sch.get_loops(copy)[0]} * 4 % 8")
    check(sch)


@settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.integers(0, 5), st.data())
def test_any_amount(check, n, m, step, first, data):
    width = data.draw(st.integers(1, 8))
    sch = Schedule(rows(n, m))
    loop = sch.shift("j_C", f"(i_C * {step} + {first}) % {width}")
    parts, _ = sch.split(loop, [None, data.draw(st.integers(1, 8))])
    if data.draw(st.booleans()):
        sch.compute_at("B", parts)
    check(sch, compiled=False)


class TestRefused:
    def test_loop(self):
        sch = Schedule(rows())
        sch.parallel("i")
        refused(sch.shift, "i", 1, match="loop 'i' is parallel")
        sch.parallel("i_C")
        sch.annotate("i_C", "schedule", "dynamic")
        sch.unroll("j")
        refused(sch.shift, "j", 1, match="loop 'j' is unrolled")

    @pytest.mark.parametrize(
        ("by", "match"),
        [
            ("i_C % 4", "cannot be read: .*'i_C'"),
            ("j % 4", "cannot be read"),
            ("i %", "cannot be read"),
            ("A[i, 0]", "cannot be read"),
            ("0.5", "is no integer, but float"),
            ("i < 2", "is no integer, but bool"),
        ],
    )
    def test_what_it_speaks_of(self, by, match):
        refused(Schedule(rows()).shift, "j", by, match=match)

    @pytest.mark.parametrize("by", [-1, "i % 4 - 1", "0 - i"])
    def test_backwards(self, by):
        refused(Schedule(rows()).shift, "j", by, match="may be negative")

    def test_terms(self, matmul):
        sch = Schedule(matmul())
        refused(sch.shift, "k", 1, match="has terms or steps along loop 'k'")
        sch.reorder("k", "j")
        refused(sch.shift, "j", "k % 2", match="has terms or steps along loop 'k'")
        sch.shift("j", "i % 2")

    def test_steps(self):
        refused(Schedule(parse(RECORDED)).shift, "t", 1, match="terms or steps along loop 't'")
