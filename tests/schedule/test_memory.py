"""How memory is used: stream, prefetch, double_buffer, rolling_buffer."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from memory_programs import PAIRS, affine, lowered, packed, rolled, stencil, stencils
from refusal import refused

from backends import build
from backends.c.emit.codegen import emit
from schedule import Schedule
from tensorir import Target, interpret, lower, parse, te, verify


class TestStream:
    def test_golden(self, check, golden):
        sch = Schedule(affine())
        sch.vectorize("j")
        sch.parallel("i")
        sch.stream("B")
        golden(str(sch.func), "stream")
        check(sch)

    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
    @pytest.mark.parametrize("m", [16, 40, 131])
    def test_types_and_alignments(self, check, dtype, m):
        sch = Schedule(affine(5, m, dtype))
        sch.vectorize("j")
        sch.stream("B", "B")
        check(sch)

    def test_unaligned_output(self):
        sch = Schedule(affine(3, 64))
        sch.vectorize("j")
        sch.stream("B")
        a = np.arange(192, dtype="float32").reshape(3, 64)
        memory = np.full(300, np.nan, "float32")
        for start in range(17):
            out = memory[start : start + 192].reshape(3, 64)
            build(sch)(a, out)
            np.testing.assert_array_equal(out, a + 1)

    def test_text(self):
        sch = Schedule(affine())
        sch.vectorize("j")
        plain = build(sch).source
        sch.parallel("i")
        sch.stream("B")
        source = build(sch).source
        assert "STREAM" not in plain
        assert "stream_f32x" in source
        assert source.count("    STREAM_FENCE();") == 2  # each thread's, and the caller's

    @pytest.mark.skipif(shutil.which("gcc") is None, reason="reads gcc's assembly")
    @pytest.mark.parametrize("dtype", ["float32", "int16"])
    def test_instructions(self, tmp_path, dtype):
        sch = Schedule(affine(6, 128, dtype))
        sch.vectorize("j")
        sch.stream("B")
        flat = lower(sch.func, Target(vector_bits=256))
        (tmp_path / "f.c").write_text(emit(flat, Target(vector_bits=256)))
        command = "gcc -O2 -std=gnu11 -march=x86-64-v3 -Wno-psabi -S f.c -o f.s".split()
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        if "bad value" in done.stderr or "unrecognized" in done.stderr:
            pytest.skip("this gcc does not make x86-64-v3 code")
        text = (tmp_path / "f.s").read_text()
        assert "vmovnt" in text and "sfence" in text

    def test_intermediate(self, chain, check):
        sch = Schedule(chain(4, 32))
        for block in ("B", "C"):
            sch.vectorize(sch.get_loops(block)[1])
            sch.stream(block)
        assert sch.func.attrs["stream"] == ["B", "C"]
        check(sch)

    def test_refuses(self, matmul, chain):
        sch = Schedule(matmul())
        refused(sch.stream, "C", "A", match="'A' is not among them: block 'C' writes C")
        refused(sch.stream, "C", match="(?s)block 'C' is a reduction, .*cache_write, and stream")
        sch.decompose_reduction("C", "k")
        refused(sch.stream, "C", match="'C' is also written by block 'C_init'")
        sch = Schedule(affine())
        refused(
            sch.stream, "B", match="(?s)neighbouring elements of 'B' .*vectorize the loop of the"
        )
        sch.reorder("j", "i")
        sch.vectorize("i")
        refused(sch.stream, "B", match="neighbouring elements of 'B'")
        sch = Schedule(affine())
        sch.vectorize("j")
        sch.stream("B")
        refused(sch.stream, "B", match="'B' is marked stream already")
        sch = Schedule(chain())
        sch.compute_at("B", sch.get_loops("C")[0])
        refused(sch.stream, "B", match="block 'C' reads 'B' in the same nest")
        sch = Schedule(affine())
        sch.cache_write("B", 0, "local")
        refused(sch.stream, "B", match="'B_local' is in scope local, not global")


class TestPrefetch:
    def test_golden(self, matmul, check, golden):
        sch = Schedule(matmul(4, 20, 30))
        outer, _ = sch.split("k", [None, 4])
        sch.prefetch("C", "B", outer, 2)
        sch.prefetch("C", "A", outer)
        golden(str(sch.func), "prefetch")
        golden(lowered(sch), "prefetch_lowered")
        check(sch)

    def test_text(self, matmul):
        sch = Schedule(matmul(4, 32, 8))
        sch.reorder("k", "j")
        sch.vectorize("j")
        sch.prefetch("C", "B", "k", 3)
        source = build(sch).source
        assert "PREFETCH(B, k * 32 + 96);" in source
        assert "PREFETCH(B, k * 32 + 112);" in source
        assert source.count("PREFETCH(B") == 2

    def test_imperfect_tile_in_parallel(self, matmul, check):
        sch = Schedule(matmul(7, 33, 29))
        outer, _ = sch.split("k", [None, 8])
        sch.reorder(outer, "j")
        sch.parallel("i")
        sch.prefetch("C", "A", outer, 1)
        lowered(sch)
        check(sch)

    def test_of_an_intermediate(self, matmul, check):
        """Of a packed operand: rows of 96 bytes, which are up to two lines each."""
        sch = Schedule(matmul(4, 72, 48))
        copy = sch.cache_read("C", "B", "global")
        sch.transform_layout(copy, "B_global", "k, j: j // 24, k, j % 24")
        outer, lane = sch.split("j", [None, 24])
        sch.reorder(outer, "k", lane)
        sch.vectorize(lane)
        sch.prefetch("C", "B_global", "k", 3)
        text = lowered(sch)
        assert text.count("prefetch(B_global[") == 2
        check(sch)

    @pytest.mark.parametrize("place", ["whole", "rows", "circular", "turns", "narrow"])
    def test_of_an_intermediate_wherever_it_is_kept(self, check, place):
        """All of it, a part whose places are others, one of which positions wrap, one of several
        versions, one whose elements could be registers."""
        sch = Schedule(stencil(20, 16 if place == "narrow" else 33, taps=3))
        if place != "whole":
            sch.compute_at("B", "i_C" if "i_C" in sch.state.loop_names() else sch.get_loops("C")[0])
        loops = sch.get_loops("C")
        if place == "circular":
            sch.rolling_buffer("B")
        elif place == "turns":
            sch.double_buffer("B")
        elif place == "narrow":
            sch.vectorize(sch.get_loops("B")[-1])
            sch.reorder(loops[-1], loops[-2])
            sch.vectorize(loops[-2])
        sch.prefetch("C", "B", sch.get_loops("C")[-1 if place != "narrow" else -2], 1)
        assert "prefetch(B[" in lowered(sch)
        check(sch)

    def test_of_what_a_later_step_moves_into_the_loop(self, check):
        """It stays a hint, which lowering leaves out: the memory is inside of the loop then."""
        sch = Schedule(stencil())
        sch.prefetch("C", "B", sch.get_loops("C")[0], 1)
        sch.compute_at("B", sch.get_loops("C")[0])
        assert "prefetch(B[" not in lowered(sch)
        check(sch)

    def test_tiles_of_which_nothing_is_left_ask_for_nothing(self):
        """Else they would have to be gone through for the requests alone."""
        n, k = te.var("n"), te.reduce_axis(8, name="k")
        a, b = te.placeholder((n, 8), name="A"), te.placeholder((8, 32), name="B")
        c = te.compute((n, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        sch = Schedule(te.create_prim_func([a, b, c]))
        _, _, row = sch.split("i", [None, 4, 2])
        sch.reorder("k", row, "j")
        sch.unroll(row)
        sch.vectorize("j")
        sch.prefetch("C", "B", "k", 2)
        lines = str(lower(sch.func, Target(vector_bits=512))).split("\n")
        asked = [n for n, line in enumerate(lines) if "prefetch(B[" in line]
        after = [line.lstrip() for line in (*lines[1:], "")]
        assert asked and all(after[n].startswith(("prefetch", "C[", "C =", "if ")) for n in asked)
        x, y = np.ones((11, 8), "float32"), np.arange(256, dtype="float32").reshape(8, 32)
        np.testing.assert_array_equal(build(sch)(x, y), x @ y)

    def test_survives_what_follows(self, matmul, check):
        """Other primitives may change what an iteration reads, or the block: it stays a hint."""
        sch = Schedule(matmul(4, 20, 30))
        sch.prefetch("C", "A", "k")
        sch.cache_read("C", "A", "local")
        sch.reorder("k", "i")
        sch.split("j", [None, 3])
        lowered(sch)
        check(sch)

    def test_refuses(self, matmul, chain):
        sch = Schedule(matmul(64, 600, 64))
        refused(sch.prefetch, "C", "C", "k", match="'C' is not among them: block 'C' reads A, B")
        refused(sch.prefetch, "C", "A", "k", 0, match="distance 0 is not a positive integer")
        refused(
            sch.prefetch, "C", "B", "i", match="(?s)too large to ask for.*prefetch in a loop furt"
        )
        refused(sch.prefetch, "C", "A", "j", match="each iteration of loop 'j' reads the same part")
        sch.prefetch("C", "A", "k")
        refused(sch.prefetch, "C", "A", "k", match="prefetches 'A' for block 'C' already")
        sch = Schedule(matmul())
        sch.parallel("i")
        refused(sch.prefetch, "C", "A", "i", match="loop 'i' is parallel")
        sch.vectorize("j")
        refused(sch.prefetch, "C", "A", "k", match="inside the vectorized loop 'j'")
        sch = Schedule(chain())
        refused(sch.prefetch, "D", "A", "i", match="loop 'i' is not around block 'D'")
        sch.compute_at("B", "i_C")
        refused(sch.prefetch, "C", "B", "i_C", match="loop 'i_C' makes 'B'")
        sch = Schedule(parse(PAIRS))
        sch.pipeline("i", [0, 1, 0, 1])
        refused(sch.prefetch, "T", "A", "i", match="loop 'i' is annotated with pipeline")


class TestRollingBuffer:
    def test_golden(self, check, golden):
        sch, _ = rolled(stencil())
        assert sch.rolling_buffer("B") == "B_first"
        golden(str(sch.func), "rolling_buffer")
        golden(lowered(sch), "rolling_buffer_lowered")
        check(sch)

    @pytest.mark.parametrize("tile", [None, 1, 2, 4, 8])
    @pytest.mark.parametrize(
        ("n", "taps", "step"), [(20, 3, 1), (7, 2, 1), (13, 5, 2), (9, 8, 3), (1, 4, 1)]
    )
    def test_shapes(self, check, n, taps, step, tile):
        sch, _ = rolled(stencil(n, 5, taps, step), tile)
        if n > 1 and tile != 1:  # else an iteration has no neighbour
            sch.rolling_buffer("B", "B")
        lowered(sch)
        check(sch, compiled=tile in (None, 4))

    def test_memory_is_circular_and_private(self):
        sch, _ = rolled(stencil(20, 33, 3), 8)
        sch.rolling_buffer("B")
        lines = lowered(sch).split("\n")
        place = next(n for n, line in enumerate(lines) if "with alloc(B, f32[132])" in line)
        assert any("parallel(3)" in line for line in lines[:place])

    def test_padding(self, check):
        a = te.placeholder((9, 7), name="A")
        pad = te.compute(
            (11, 7),
            lambda i, j: te.if_then_else(te.all(i >= 1, i < 10), a[i - 1, j], 0.0),
            name="pad",
        )
        r = te.reduce_axis(3, name="r")
        c = te.compute((9, 7), lambda i, j: te.sum(pad[i + r, j], axis=r), name="C")
        sch = Schedule(te.create_prim_func([a, c], name="padded"))
        outer, inner = sch.split(sch.get_loops("C")[0], [None, 4])
        sch.compute_at("pad", inner)
        sch.rolling_buffer("pad")
        sch.vectorize(sch.get_loops("pad")[-1])
        sch.parallel(outer)
        lowered(sch)
        check(sch)

    def test_reduction_as_producer(self, check):
        a = te.placeholder((12, 6), name="A")
        k, r = te.reduce_axis(6, name="k"), te.reduce_axis(3, name="r")
        b = te.compute((12,), lambda i: te.sum(a[i, k], axis=k), name="B")
        c = te.compute((10,), lambda i: te.sum(b[i + r], axis=r), name="C")
        sch, _ = rolled(te.create_prim_func([a, c], name="sums"))
        sch.rolling_buffer("B")
        lowered(sch)
        check(sch)

    @pytest.mark.parametrize("n", [1, 2, 5, 8, 13])
    def test_symbolic(self, n):
        size = te.var("n")
        a = te.placeholder((size + 2, 4), name="A")
        b = te.compute((size + 2, 4), lambda i, j: a[i, j] * 2.0, name="B")
        r = te.reduce_axis(3, name="r")
        c = te.compute((size, 4), lambda i, j: te.sum(b[i + r, j], axis=r), name="C")
        sch, _ = rolled(te.create_prim_func([a, c], name="symbolic"), 4)
        sch.rolling_buffer("B")
        verify(sch.func)
        x = np.arange((n + 2) * 4, dtype="float32").reshape(n + 2, 4)
        wanted = 2 * (x[:-2] + x[1:-1] + x[2:])
        (found,) = interpret(sch.func, x, sizes={"n": n})
        np.testing.assert_array_equal(found, wanted)
        out = np.full((n, 4), np.nan, "float32")
        build(sch)(x, out)
        np.testing.assert_array_equal(out, wanted)

    def test_order_matters_afterwards(self):
        sch, loop = rolled(stencil())
        sch.rolling_buffer("B")
        refused(sch.parallel, loop, match="iteration of loop 'i_C'")
        refused(sch.vectorize, loop, match="loop 'i_C'")

    def test_refuses_place(self, chain):
        sch = Schedule(stencil())
        refused(sch.rolling_buffer, "C", match="(?s)'C' does not store .* of an intermediate")
        refused(sch.rolling_buffer, "B", "A", match="'A' is not among them: block 'B' writes B")
        refused(sch.rolling_buffer, "B", match="(?s)no loop around block 'B' .*compute_at it where")
        sch, loop = rolled(stencil())
        sch.parallel(loop)
        refused(sch.rolling_buffer, "B", match="(?s)loop 'i_C' is parallel.*roll the buffer first")
        sch, _ = rolled(chain())
        refused(sch.rolling_buffer, "B", match="vi' of block 'B' is i_C: not a constant multiple")

    def test_refuses_rows(self):
        sch, _ = rolled(stencil(6, 5, 3, 3))
        refused(
            sch.rolling_buffer, "B", match="(?s)needs 3 rows and moves by 3: neighbouring .* share"
        )
        sch, _ = rolled(stencil())
        rows = sch.get_loops("B")[1]
        sch.unroll(rows)
        refused(
            sch.rolling_buffer, "B", match=f"(?s)loop '{rows}' is unrolled.*roll the buffer first"
        )
        sch, _ = rolled(stencil())
        sch.split(sch.get_loops("B")[1], [None, 2])
        refused(sch.rolling_buffer, "B", match="before splitting its loops")

    @pytest.mark.parametrize(("depth", "step"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2)])
    @pytest.mark.parametrize("tile", [None, 4])
    def test_every_stage_of_a_chain(self, check, depth, step, tile):
        """Rows of each stage are computed once, and kept in a circle, also by each thread."""
        sch = Schedule(stencils(24, 5, depth, step))
        stages = [b for b in "BCDEF" if b in sch.get_blocks()]
        rows = sch.get_loops(stages[-1])[0]
        outer = None
        if tile is not None:
            outer, rows = sch.split(rows, [None, tile])
        for block in reversed(stages[:-1]):
            sch.compute_at(block, rows)
        for block in stages[:-1]:
            assert sch.rolling_buffer(block) == f"{block}_first"
        if outer is not None:
            sch.parallel(outer)
        check(sch, compiled=depth == 3)
        text = lowered(sch)
        for block in stages[:-1] if tile is None else ():
            kept = text.split(f"alloc({block}, f32[")[1].split("]")[0]
            assert int(kept) in (20, 40, 80) and f"{block}: " not in text

    def test_a_chain_golden(self, golden):
        sch = Schedule(stencils(14, 5, 3))
        for block in "CB":
            sch.compute_at(block, "y_D")
        for block in "BC":
            sch.rolling_buffer(block)
        golden(str(sch.func), "rolling_chain")
        golden(lowered(sch), "rolling_chain_lowered")

    def test_a_chain_rolls_from_its_first_stage_on(self, check):
        sch = Schedule(stencils(14, 5, 3))
        for block in "CB":
            sch.compute_at(block, "y_D")
        refused(
            sch.rolling_buffer, "C", match="(?s)inside loop 'y_D', writes what .*roll the .*'B'"
        )
        sch.rolling_buffer("B")
        sch.rolling_buffer("C")
        check(sch, compiled=False)

    def test_a_chain_that_skips_a_stage(self, check):
        """D reads rows of B as well as of C, more of them than C does before the loop."""
        a = te.placeholder((14, 5), name="A")
        b = te.compute((14, 5), lambda y, j: a[y, j] * 2.0, name="B")
        c = te.compute((12, 5), lambda y, j: b[y, j] + b[y + 2, j], name="C")
        d = te.compute((8, 5), lambda y, j: c[y, j] + c[y + 1, j] + b[y + 5, j], name="D")
        sch = Schedule(te.create_prim_func([a, d], name="skips"))
        for block in "CB":
            sch.compute_at(block, "y_D")
        for block in "BC":
            sch.rolling_buffer(block)
        check(sch)

    def test_refuses_blocks(self):
        sch, loop = rolled(stencil())
        sch.cache_read("B", "A", "global")
        sch.compute_at("A_global", loop)
        refused(sch.rolling_buffer, "B", match="block 'A_global', inside loop 'i_C', writes what")
        sch, loop = rolled(stencil())
        sch.rolling_buffer("B")
        refused(sch.rolling_buffer, "B", match="'B' is also written by block 'B_first'")


class TestDoubleBuffer:
    def test_golden(self, matmul, check, golden):
        sch, copy, _ = packed(matmul(4, 20, 30))
        sch.double_buffer(copy)
        golden(str(sch.func), "double_buffer")
        golden(lowered(sch), "double_buffer_lowered")
        check(sch)

    def test_with_padding_between_rows(self, matmul, check):
        sch, copy, _ = packed(matmul(4, 20, 30))
        sch.storage_align(copy, 0, 0, 32, 4)
        sch.double_buffer(copy)
        assert "alloc(B_local, f32[576]" in lowered(sch)  # 2 versions of 8 rows of 32 + 4
        check(sch)

    def test_split_afterwards(self, matmul, check):
        sch, copy, outer = packed(matmul(4, 20, 30), 3)
        sch.double_buffer(copy)
        sch.split(outer, [None, 4])
        lowered(sch)
        check(sch)

    def test_refuses(self, matmul, chain):
        sch, copy, _ = packed(matmul(4, 20, 30))
        refused(sch.double_buffer, "C", match="'C' is an output of the function")
        refused(sch.double_buffer, copy, "B", match="'B' is not among them")
        sch.double_buffer(copy)
        refused(sch.double_buffer, copy, match="'B_local' is marked double_buffer already")
        sch = Schedule(chain())
        refused(sch.double_buffer, "B", match="no loop around block 'B' has other blocks inside")
        loop = sch.get_loops("C")[0]
        sch.compute_at("B", loop)
        sch.parallel(loop)
        refused(sch.double_buffer, "B", match="loop 'i_C' is parallel")
        sch = Schedule(stencil())
        sch.compute_at("B", sch.get_loops("C")[0])
        sch.rolling_buffer("B")
        refused(sch.double_buffer, "B", match="'B' is also written by block 'B_first'")
        sch = Schedule(parse(PAIRS))
        sch.pipeline("i", [0, 1, 0, 1])
        refused(sch.double_buffer, "T", match="loop 'i' is a pipeline, which has versions")
        shifted = PAIRS.replace("D[vi] = U[vi] + T[vi]", "D[vi] = U[7 - vi] + T[vi]")
        sch = Schedule(parse(shifted))
        refused(sch.double_buffer, "U", match="'D' reads parts of 'U' that block 'U' may not fill")
        after = (
            PAIRS.replace("f32[8]):", "f32[8], E: f32[8]):")
            + """    for j in range(8):
        with block("E"):
            vj = spatial(8, j)
            E[vj] = U[vj]
"""
        )
        sch = Schedule(parse(after))
        refused(sch.double_buffer, "U", match="'E' reads 'U', and does not follow 'U' inside")
