"""spread_prefetch: requests for the next rows, spread over a loop that computes."""

from __future__ import annotations

import re

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


def tiles(n, m, terms):
    """A product in tiles of 4 x 32 whose lines are asked for in the loop over terms, with more."""
    a, b = te.placeholder((n, terms), name="A"), te.placeholder((terms, m), name="B")
    k = te.reduce_axis(terms, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], name="product"))
    out = sch.cache_write("C", 0, "local")
    i, j = sch.get_loops(out)
    i, rows = sch.split(i, [None, 4])
    j, columns = sch.split(j, [None, 32])
    sch.reorder(i, j, rows, columns)
    sch.compute_at("C", j)
    *inside, over = sch.get_loops("C")[2:]
    sch.reorder(over, *inside)
    sch.prefetch("C", "B", over, 2)
    sch.spread_prefetch(out, "C", j, over, 0)
    return sch, over


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
        sch = Schedule(rows().definition)
        outer, inner = sch.split("i_C", [3, 2])
        sch.compute_at("B", inner)
        sch.pipeline(inner, [0, 1])
        refused(sch.spread_prefetch, "C", "C", outer, inner, match="annotated with pipeline")

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

    @pytest.mark.parametrize(("n", "m"), [(8, 64), (10, 70), (3, 33)])
    @pytest.mark.parametrize("terms", [3, 24])
    def test_tiles_of_rows(self, check, n, m, terms):
        """Rows of a tile that lie apart are asked for one after the other, beside its sums."""
        sch, _ = tiles(n, m, terms)
        text = lowered(sch)
        assert "prefetch(B" in text and "prefetch(C" in text
        check(sch)

    def test_all_lines_of_a_tile_are_asked_for(self):
        """One by one where there are more steps, and no others."""
        sch, over = tiles(8, 64, 19)
        place = re.search(r"prefetch\(C\[(.*)\]\)", lowered(sch)).group(1)
        names = [str(loop) for loop in sch.get_loops("C")[:2]]
        asked = {
            eval(place, {}, {names[0]: i, names[1]: j, str(over): step})
            for i in range(2) for j in range(2) for step in range(19)
        }  # fmt: skip
        assert asked == {i * 64 + j for i in range(8) for j in range(0, 64, 16)}

    def test_refuses_what_has_no_size(self):
        n = te.var("n")
        a = te.placeholder((8, n), name="A")
        c = te.compute((8, n), lambda i, j: a[i, j] + 1.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="wide"))
        refused(sch.spread_prefetch, "C", "A", "i", "j", match="has no constant size")

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
