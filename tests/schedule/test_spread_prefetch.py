"""spread_prefetch: requests for the next rows, spread over a loop that computes."""

from __future__ import annotations

import pytest
from memory_programs import lowered
from refusal import refused

from backends import build
from schedule import Schedule
from tensorir import te


def rows(n=6, m=70):
    """C = 2 A + 1 by way of B, whose rows are made in each row of C."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + 1.0, name="C")
    sch = Schedule(te.create_prim_func([a, c], name="rows"))
    sch.compute_at("B", "i_C")
    return sch


class TestSpreadPrefetch:
    def test_golden(self, check, golden):
        sch = rows()
        outer, _ = sch.split("j", [None, 16])
        sch.spread_prefetch("B", "A", "i_C", outer, 1)
        sch.spread_prefetch("C", "C", "i_C", outer, 0)
        golden(str(sch.func), "spread_prefetch")
        golden(lowered(sch), "spread_prefetch_lowered")
        check(sch)

    def test_text(self):
        """An argument that is written is asked for so; all lines of a row are, and no others."""
        sch = rows(4, 64)
        sch.spread_prefetch("B", "A", "i_C", "j_C", 2)
        sch.spread_prefetch("C", "C", "i_C", "j_C", 0)
        source = build(sch).source
        assert "PREFETCH(A, i_C * 64 + j_C * 16 + 128);" in source
        assert "PREFETCH_WRITE(C, i_C * 64 + j_C * 16);" in source

    @pytest.mark.parametrize(("n", "m"), [(1, 40), (5, 2), (7, 33), (3, 257)])
    @pytest.mark.parametrize("factor", [1, 2, 4])
    def test_rows_of_a_task(self, check, n, m, factor):
        """Blocks of rows that do not divide their number, on threads, over nested loops."""
        sch = rows(n, m)
        sch = Schedule(sch.definition)
        task, _ = sch.split("i_C", [None, factor])
        sch.compute_at("B", task)
        loop, vector = sch.split(sch.get_loops("B")[-1], [None, 8])
        sch.vectorize(vector)
        if n > factor:
            sch.spread_prefetch("B", "A", task, loop, 1)
            sch.spread_prefetch("C", "C", task, loop, 0)
        sch.parallel(task)
        lowered(sch)
        check(sch)

    def test_survives_what_follows(self, check):
        """A block or a loop that is gone makes a hint less."""
        sch = rows()
        sch.spread_prefetch("B", "A", "i_C", "j", 1)
        sch.split("i_C", [None, 2])
        assert "prefetch(" not in lowered(sch)
        check(sch)

    def test_refuses(self):
        sch = rows()
        refused(sch.spread_prefetch, "C", "A", "i_C", "j", match="'A' is not among them")
        refused(sch.spread_prefetch, "C", "B", "i_C", "j", match="'B' is no argument of")
        refused(sch.spread_prefetch, "B", "A", "j_C", "j", match="not around block 'B'")
        refused(sch.spread_prefetch, "B", "A", "i_C", "i_C", match="not inside of loop 'i_C'")
        refused(sch.spread_prefetch, "B", "A", "i_C", "j", -1, match="no integer from 0 on")
        sch.spread_prefetch("B", "A", "i_C", "j")
        refused(
            sch.spread_prefetch, "B", "A", "i_C", "j", match="asks for 'A' of block 'B' already"
        )
        refused(sch.split, "j", [None, 4], match="annot")
        sch = rows()
        sch.prefetch("B", "A", "j")
        refused(sch.spread_prefetch, "B", "A", "i_C", "j", match="annotated with prefetch")

    def test_refuses_other_kinds_of_loops(self):
        sch = rows()
        sch.unroll("j")
        refused(sch.spread_prefetch, "B", "A", "i_C", "j", match="loop 'j' is unrolled")
        sch = Schedule(rows().definition)
        sch.reorder("j_C", "i_C")
        sch.vectorize("i_C")
        refused(sch.spread_prefetch, "C", "C", "i_C", "i_C", match="loop 'i_C' is vectorized")
        inner, _ = sch.split("j_C", [None, 7])
        refused(sch.spread_prefetch, "C", "C", inner, "i_C", match="loop 'i_C' is vectorized")
        sch = Schedule(rows().definition)
        lanes, _ = sch.split("i_C", [None, 2])
        sch.compute_at("B", lanes)
        sch.vectorize("i")
        refused(sch.spread_prefetch, "B", "A", lanes, "j", match="inside the vectorized loop 'i'")

    def test_refuses_what_is_not_one_piece(self):
        sch = Schedule(rows(4, 64).definition)
        sch.reorder("j_C", "i_C")
        refused(sch.spread_prefetch, "C", "C", "j_C", "i_C", match="do not follow each other")
        n = te.var("n")
        a = te.placeholder((8, n), name="A")
        c = te.compute((8, n), lambda i, j: a[i, j] + 1.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="wide"))
        refused(sch.spread_prefetch, "C", "A", "i", "j", match="do not follow each other")

    def test_refuses_too_many_lines(self):
        sch = rows(4, 2000)
        outer, _ = sch.split("j", [None, 500])
        refused(sch.spread_prefetch, "B", "A", "i_C", outer, match="too many cache lines")
        sch.spread_prefetch("B", "A", "i_C", "j_C")

    def test_refuses_what_stays(self):
        a = te.placeholder((64,), name="A")
        c = te.compute((4, 64), lambda i, j: a[j] + 1.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="same"))
        refused(sch.spread_prefetch, "C", "A", "i", "j", match="touches the same part")
