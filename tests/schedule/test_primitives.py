"""Each primitive: what it makes, and every request that it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from refusal import refused

from schedule import Schedule, ScheduleError, Trace
from tensorir import TensorIRError, interpret, parse, te, verify


class TestSplit:
    def test_golden(self, matmul, check, golden):
        sch = Schedule(matmul())
        assert sch.split("i", [None, 4]) == ("i_0", "i_1")
        golden(str(sch.func), "split_imperfect")
        check(sch)

    @pytest.mark.parametrize("factors", [[2, 3], [7, 1], [1, 6], [None], [3, None], [2, None, 2]])
    def test_factors(self, matmul, check, factors):
        sch = Schedule(matmul())
        sch.split("i", factors)
        check(sch)

    def test_nested(self, matmul, check):
        sch = Schedule(matmul(7, 11, 5))
        _, inner = sch.split("i", [None, 4])
        sch.split(inner, [None, 3])
        sch.split("k", [None, 2])
        check(sch)

    def test_refuses(self, matmul):
        sch = Schedule(matmul())
        refused(sch.split, "q", [2, 3], match="no loop 'q'; loops are i, j, k")
        refused(sch.split, "i", [None, None], match="more than one None")
        refused(sch.split, "i", [0, 6], match="0 is not a positive integer")
        refused(sch.split, "i", [2, 2], match="cover 4 of the 6 iterations")
        refused(sch.split, "i", [], match="no factors")
        sch.parallel("i")
        refused(sch.split, "i", [None, 2], match="loop 'i' is parallel")

    def test_stale_name(self, matmul):
        sch = Schedule(matmul())
        sch.split("i", [None, 2])
        refused(sch.split, "i", [None, 2], match="no longer exists: step 1, split, made i_0, i_1")


class TestFuse:
    def test_golden(self, matmul, check, golden):
        sch = Schedule(matmul())
        assert sch.fuse("i", "j") == "i_j"
        golden(str(sch.func), "fuse")
        check(sch)

    def test_three_and_split_again(self, chain, check):
        sch = Schedule(chain())
        loops = sch.get_loops("D")
        fused = sch.fuse(*loops)
        sch.split(fused, [None, 7])
        check(sch)

    def test_data_with_the_reduction(self, matmul, check):
        sch = Schedule(matmul())
        fused = sch.fuse("i", "j", "k")
        check(sch)
        refused(sch.rfactor, "C", fused, match="chooses the element of block 'C'")
        refused(sch.parallel, fused, match="is a reduction of block 'C'")
        refused(sch.vectorize, fused, match="is a reduction of block 'C'")
        sch.reorder(*reversed(sch.split(fused, [None, 7])))
        check(sch)
        sch = Schedule(matmul())
        sch.reorder("k", "j")
        outer, inner = sch.split(sch.fuse("i", "k"), [None, 4])
        sch.decompose_reduction("C", outer)
        check(sch)

    @pytest.mark.parametrize("size", [0, None])
    def test_data_with_a_reduction_over_nothing(self, check, size):
        """The sum of nothing is 0, for each element, although no iteration is left."""
        n = te.var("n") if size is None else size
        a, k = te.placeholder((3, n), name="A"), te.reduce_axis(n, name="k")
        sums = te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="B")
        sch = Schedule(te.create_prim_func([a, sums]))
        refused(sch.fuse, "i", "k", match="'i' with it would leave out its first values")
        sch.decompose_reduction("B", "i")
        sch.fuse("i", "k")
        found = interpret(sch.func, np.zeros((3, 0), np.float32))[0]
        np.testing.assert_array_equal(found, np.zeros(3, np.float32))

    def test_undoes_split(self, matmul, check):
        sch = Schedule(matmul())
        sch.fuse(*sch.split("i", [2, 3]))
        check(sch)

    def test_refuses(self, matmul):
        sch = Schedule(matmul())
        refused(sch.fuse, match="no loops were given")
        refused(sch.fuse, "i", "k", match="not directly inside 'i'")
        sch.unroll("j")
        refused(sch.fuse, "i", "j", match="loop 'j' is unrolled")


class TestReorder:
    def test_golden(self, matmul, check, golden):
        sch = Schedule(matmul())
        sch.reorder("k", "i")
        golden(str(sch.func), "reorder")
        check(sch)

    def test_refuses(self, matmul, conv):
        sch = Schedule(matmul())
        refused(sch.reorder, "i", "i", match="named twice")
        sch = Schedule(conv())
        refused(sch.reorder, "i", "r", match="not in one nest")


class TestLoopKinds:
    @pytest.mark.parametrize("kind", ["parallel", "vectorize", "unroll"])
    def test_spatial(self, matmul, check, kind):
        sch = Schedule(matmul(5, 19, 3))
        getattr(sch, kind)("j")
        check(sch)

    def test_golden(self, matmul, check, golden):
        sch = Schedule(matmul())
        sch.parallel("i")
        sch.reorder("k", "j")
        sch.vectorize("j")
        sch.unroll("k")
        golden(str(sch.func), "loop_kinds")
        check(sch)

    @pytest.mark.parametrize("kind", ["parallel", "vectorize"])
    def test_refuses_reduction(self, matmul, kind):
        sch = Schedule(matmul())
        refused(getattr(sch, kind), "k", match="loop 'k' is a reduction of block 'C'")

    @pytest.mark.parametrize("kind", ["parallel", "vectorize", "unroll"])
    def test_refuses_twice(self, matmul, kind):
        sch = Schedule(matmul())
        getattr(sch, kind)("j")
        refused(getattr(sch, kind), "j", match="loop 'j' is")

    def test_refuses_nesting(self, matmul):
        sch = Schedule(matmul())
        sch.parallel("i")
        refused(sch.parallel, "j", match="inside the parallel loop 'i'")
        sch = Schedule(matmul())
        sch.vectorize("i")
        refused(sch.vectorize, "j", match="inside the vectorized loop 'i'")
        sch = Schedule(matmul())
        sch.vectorize("j")
        refused(sch.vectorize, "i", match="has the vectorized loop 'j' inside")

    @pytest.mark.parametrize("kind", ["parallel", "vectorize"])
    def test_refuses_dependence(self, kind):
        sch = Schedule(parse(SHIFTED))
        refused(getattr(sch, kind), "i", match="block 'D' uses what block 'B' writes")

    def test_refuses_shared_writes(self):
        sch = Schedule(parse(SHIFTED.replace("spatial(8, i)", "spatial(8, 0)")))
        refused(sch.parallel, "i", match="write the same elements of 'B' in block 'B'")

    def test_accepts_private_overlap(self, check):
        """What neighbouring iterations both compute is private to each of them."""
        sch = Schedule(TestDecomposeReduction.overlapping())
        loop = sch.get_loops("D")[0]
        sch.compute_at("S", loop)
        sch.parallel(loop)
        check(sch)


SHIFTED = """
@prim_func
def shifted(A: f32[8], B: f32[8], D: f32[8]):
    for i in range(8):
        with block("B"):
            vi = spatial(8, i)
            B[vi] = A[vi] + 1.0
        with block("D"):
            vi = spatial(8, i)
            D[vi] = B[7 - vi]
"""


class TestComputeInline:
    def test_golden(self, chain, check, golden):
        sch = Schedule(chain())
        sch.compute_inline("B")
        sch.compute_inline("C")
        golden(str(sch.func), "compute_inline")
        check(sch)

    def test_padding(self, conv, check):
        sch = Schedule(conv())
        sch.compute_inline("pad")
        check(sch)

    def test_refuses(self, chain, conv):
        sch = Schedule(chain())
        refused(sch.compute_inline, "D", match="'D' is an output")
        refused(sch.compute_inline, "Z", match="no block 'Z'; blocks are B, C, D")
        sch = Schedule(conv())
        refused(sch.compute_inline, "conv", match="is a reduction")

    def test_refuses_the_init_of_a_reduction(self, matmul):
        """Found by the random schedules: the init of a decomposed reduction was inlined."""
        sch = Schedule(matmul())
        sch.cache_write("C", 0, "local")
        init = sch.decompose_reduction("C", "i")
        refused(sch.compute_inline, init, match="'C_local' is also written by block 'C'")


class TestComputeAt:
    def test_golden(self, conv, check, golden):
        sch = Schedule(conv())
        outer, _ = sch.split(sch.get_loops("conv")[0], [None, 4])
        sch.compute_at("pad", outer)
        golden(str(sch.func), "compute_at")
        check(sch)

    def test_chain(self, chain, check):
        sch = Schedule(chain())
        loop = sch.get_loops("D")[0]
        sch.compute_at("C", loop)
        sch.compute_at("B", loop)
        sch.parallel(loop)
        check(sch)

    def test_refuses(self, chain, conv):
        sch = Schedule(chain())
        loop = sch.get_loops("D")[0]
        refused(sch.compute_at, "D", loop, match="'D' is an output")
        refused(
            sch.compute_at,
            "B",
            loop,
            match="(?s)reader 'C' of 'B' is outside.*loops that cover its readers: i_C, j_C",
        )
        refused(sch.compute_at, "C", sch.get_loops("C")[0], match="is already inside")
        inner = sch.get_loops("D")[1]
        sch.vectorize(inner)
        refused(sch.compute_at, "C", inner, match="is vectorized")
        sch = Schedule(chain())
        sch.parallel(sch.get_loops("C")[0])
        refused(sch.compute_at, "C", sch.get_loops("D")[0], match="of block 'C' is parallel")

    def test_refuses_too_early(self, conv):
        sch = Schedule(conv())
        sch.reverse_compute_at("relu", sch.get_loops("conv")[0])
        loop = sch.get_loops("conv")[0]
        refused(sch.compute_at, "conv", loop, match="is already inside")


class TestReverseComputeAt:
    def test_golden(self, conv, check, golden):
        sch = Schedule(conv())
        outer, _ = sch.split(sch.get_loops("conv")[0], [None, 4])
        sch.reverse_compute_at("relu", outer)
        golden(str(sch.func), "reverse_compute_at")
        check(sch)

    def test_refuses_incomplete(self, matmul):
        sch = Schedule(matmul())
        copy = sch.cache_write("C", "C", "local")
        sch.reorder("k", "i", "j")
        refused(sch.reverse_compute_at, copy, "j", match="'k' is a reduction of block 'C'")

    def test_refuses(self, chain, matmul):
        sch = Schedule(chain())
        refused(sch.reverse_compute_at, "D", sch.get_loops("B")[0], match="reads 0 of the buffers")
        sch = Schedule(matmul())
        sch.cache_read("C", "A", "local")
        loop = sch.get_loops("A_local")[0]
        refused(sch.reverse_compute_at, "C", loop, match="'C' is a reduction")

    def test_refuses_passing_a_producer(self):
        a = te.placeholder((8,), name="A")
        b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
        c = te.compute((8,), lambda i: b[7 - i] * 2.0, name="C")
        d = te.compute((8,), lambda i: b[i] + c[i], name="D")
        sch = Schedule(te.create_prim_func([a, d], name="diamond"))
        refused(sch.reverse_compute_at, "D", "i", match="block 'C', which 'D' reads, runs after")

    def test_refuses_other_places(self):
        a = te.placeholder((8,), name="A")
        b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
        d = te.compute((8,), lambda i: b[7 - i], name="D")
        sch = Schedule(te.create_prim_func([a, d], name="reverse"))
        refused(sch.reverse_compute_at, "D", "i", match="at other places than its own variables")


class TestCache:
    def test_read_golden(self, matmul, check, golden):
        sch = Schedule(matmul())
        outer, _ = sch.split("j", [None, 4])
        sch.reorder(outer, "i")
        copy = sch.cache_read("C", "B", "local")
        sch.compute_at(copy, outer)
        golden(str(sch.func), "cache_read")
        check(sch)

    def test_write_golden(self, matmul, check, golden):
        sch = Schedule(matmul())
        copy = sch.cache_write("C", "C", "local")
        sch.reverse_compute_at(copy, "i")
        golden(str(sch.func), "cache_write")
        check(sch)

    def test_refuses(self, matmul, chain):
        sch = Schedule(matmul())
        refused(sch.cache_read, "C", "Z", match="'Z' is not among them: block 'C' reads A, B")
        refused(sch.cache_read, "C", 7, match="no buffer number 7")
        refused(sch.cache_read, "C", "A", "cloud", match="scope 'cloud' is none of")
        refused(sch.cache_write, "C", "A", match="'A' is not among them: block 'C' writes C")
        sch.decompose_reduction("C", "k")
        refused(sch.cache_write, "C", "C", match="also written by block 'C_init'")
        sch = Schedule(chain())
        sch.compute_at("C", sch.get_loops("D")[0])
        refused(sch.cache_write, "C", "C", match="reads 'C' in the same nest")

    def test_consumers_of_a_copy(self, chain, check):
        sch = Schedule(chain())
        copy = sch.cache_write("C", "C", "global", ["D"])
        assert sch.get_producers("D") == ["C"] and not sch.get_consumers(copy)
        check(sch)
        refused(sch.cache_write, "C", 0, "local", ["C"], match="'C' does not read 'C_global' after")


class TestDecomposeReduction:
    @pytest.mark.parametrize("loop", ["i", "j", "k"])
    def test_everywhere(self, matmul, check, golden, loop):
        sch = Schedule(matmul())
        assert sch.decompose_reduction("C", loop) == "C_init"
        golden(str(sch.func), f"decompose_reduction_{loop}")
        check(sch)

    def test_refuses(self, matmul, chain):
        sch = Schedule(matmul())
        sch.reorder("k", "j")
        refused(sch.decompose_reduction, "C", "j", match="'k', outside 'j', is a reduction")
        sch.decompose_reduction("C", "k")
        refused(sch.decompose_reduction, "C", "k", match="was split off before")
        sch = Schedule(chain())
        refused(sch.decompose_reduction, "B", sch.get_loops("B")[0], match="is no reduction")
        other = Schedule(matmul())
        other.cache_read("C", "A", "local")
        refused(other.decompose_reduction, "C", "ax0", match="'ax0' is not around")

    def test_refuses_repeated_instances(self, conv):
        """Parts computed twice would be added to one init."""
        sch = Schedule(self.overlapping())
        loop = sch.get_loops("D")[0]
        sch.compute_at("S", loop)
        refused(sch.decompose_reduction, "S", loop, match="repeats instances of block 'S'")

    @staticmethod
    def overlapping():
        a = te.placeholder((9, 4), name="A")
        k = te.reduce_axis(4, name="k")
        s = te.compute((9,), lambda i: te.sum(a[i, k], axis=k), name="S")
        d = te.compute((8,), lambda i: s[i] + s[i + 1], name="D")
        return te.create_prim_func([a, d], name="overlapping")


class TestRfactor:
    @pytest.mark.parametrize("axis", [-1, 0, 1])
    def test_sum(self, matmul, check, golden, axis):
        sch = Schedule(matmul())
        _, inner = sch.split("k", [None, 3])
        assert sch.rfactor("C", inner, axis) == "C_rf"
        if axis == -1:
            golden(str(sch.func), "rfactor")
        assert sch.numerics == "reassociated"
        check(sch)

    def test_refuses(self, matmul, conv):
        sch = Schedule(matmul())
        refused(sch.rfactor, "C", "i", match="no reduction loop")
        _, inner = sch.split("k", [None, 2])
        refused(sch.rfactor, "C", inner, 5, match="outside rank 3")
        other = sch.copy()
        other.unroll("i")
        refused(other.rfactor, "C", inner, match="loop 'i' is unrolled")
        sch.decompose_reduction("C", "k_0")
        refused(sch.rfactor, "C", inner, match="init was split off")
        sch = Schedule(conv())
        sch.compute_at("pad", sch.get_loops("conv")[0])
        outer, _ = sch.split("r", [None, 2])
        refused(sch.rfactor, "conv", outer, match="not alone in its nest")

    def test_new_loops_do_not_take_the_name_of_a_size(self):
        """The block variable `vb` asks for a loop `b`, which is what the size is called."""
        size = te.size_var("b")
        a = te.placeholder((size, 8), name="A")
        k = te.reduce_axis(8, name="k")
        s = te.compute((size,), lambda b: te.sum(a[b, k], axis=k), name="S")
        t = te.compute((size,), lambda b: s[b] * 2.0, name="T")
        sch = Schedule(te.create_prim_func([a, t], name="rows"))
        _, inner = sch.split("k", [None, 4])
        sch.rfactor("S", inner)
        sch.reverse_compute_at("T", sch.get_loops("S")[0])
        copy = sch.cache_write("T", 0, "local")
        assert sch.get_loops(copy)
        assert "b" not in sch.state.loop_names()


class TestTrace:
    def test_sorted_json_keeps_argument_order(self, matmul):
        """Records store JSON with sorted keys."""
        sch = Schedule(matmul())
        sch.split("i", [None, 2])
        stored = json.loads(json.dumps(sch.trace.as_json(), sort_keys=True))
        assert Trace.from_json(stored).as_python() == sch.trace.as_python()
        assert sch.trace.as_python() == "sch.split('i', factors=[None, 2])  # -> i_0, i_1"

    @pytest.mark.parametrize("text", ["sch.split(x, [2])", "x = 1", "sch.melt('i')", "[1"])
    def test_bad_python(self, text):
        with pytest.raises(TensorIRError, match=r"trace|no primitive"):
            Trace.from_python(text)

    @pytest.mark.parametrize("text", ["{}x", "[1]", '[["split"]]'])
    def test_bad_json(self, text):
        with pytest.raises(TensorIRError, match="not a trace"):
            Trace.from_json(text)

    def test_replay_on_another_program(self, matmul, chain):
        sch = Schedule(matmul())
        sch.split("k", [None, 2])
        other = Schedule(chain())
        before = other.func
        with pytest.raises(ScheduleError, match=r"step 1, split.*no loop 'k'"):
            other.apply(sch.trace)
        assert other.func is before

    def test_replay_with_other_names(self, matmul):
        sch = Schedule(matmul())
        sch.split("i", [None, 2])
        again = Schedule(sch.func)
        again.fuse("i_0", "i_1")
        with pytest.raises(ScheduleError, match="no loop 'i'"):
            again.apply(sch.trace)

    def test_undo_and_copy(self, matmul):
        sch = Schedule(matmul())
        first = sch.func
        sch.split("i", [None, 2])
        other = sch.copy()
        other.unroll("j")
        sch.undo()
        assert sch.func is first and len(sch.trace) == 0
        assert len(other.trace) == 2
        with pytest.raises(ScheduleError, match="only 0 steps"):
            sch.undo()

    def test_error_shows_place_and_steps(self, matmul):
        sch = Schedule(matmul())
        sch.split("i", [None, 2])
        with pytest.raises(ScheduleError) as caught:
            sch.parallel("k")
        text = str(caught.value)
        assert text.startswith("parallel('k'): loop 'k' is a reduction of block 'C'\n")
        assert ">>>" in text and "for" in text.split(">>>")[1]
        assert "after: split('i', factors=[None, 2]) -> i_0, i_1" in text
        assert caught.value.headline.count("\n") == 0


class TestNumerics:
    @pytest.mark.parametrize(
        ("steps", "expected"),
        [
            ([("reorder", "k", "i")], "bitwise"),
            ([("split", "k", [None, 2])], "bitwise"),
            ([("split", "k", [None, 2]), ("reorder", "k_1", "k_0")], "reassociated"),
            ([("split", "k", [None, 2]), ("rfactor", "C", "k_1")], "reassociated"),
        ],
    )
    def test_class(self, matmul, steps, expected):
        sch = Schedule(matmul())
        for name, *args in steps:
            getattr(sch, name)(*args)
        assert sch.numerics == expected


def test_moved_blocks_name_no_loop_like_a_buffer():
    a, scale = te.placeholder((4, 6), name="A"), te.placeholder((6,), name="j")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 6), lambda x, y: b[x, y] * scale[y], name="C")
    sch = Schedule(te.create_prim_func([a, scale, c], name="clash"))
    sch.compute_at("B", "x")
    assert sch.get_loops("B") == ["x", "j_B"]
    verify(sch.func)
