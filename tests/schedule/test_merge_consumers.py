"""reverse_compute_inline and fuse_reduction_epilogue: consumers that join their producers."""

from __future__ import annotations

import pytest
from refusal import refused

from schedule import Schedule, ScheduleError
from tensorir import parse, te


def matmul_then(epilogue, m=5, n=7, k=6):
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((k, n), name="B")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis(k, name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((m, n), lambda i, j: epilogue(c[i, j], bias[j]), name="D")
    return te.create_prim_func([a, b, bias, d], name="matmul")


def transposed():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: b[j, i] * 2.0, name="C")
    return te.create_prim_func([a, c], name="transposed")


ORDER = """
@prim_func
def order(A: f32[8], D: f32[8]):
    X = alloc(f32[8])
    Y = alloc(f32[8])
    for i in range(8):
        with block("X"):
            vi = spatial(8, i)
            X[vi] = A[vi] + 1.0
        with block("Y"):
            vi = spatial(8, i)
            Y[vi] = A[7 - vi] + 2.0
    for j in range(8):
        with block("D"):
            vj = spatial(8, j)
            D[vj] = X[7 - vj] + Y[vj]
"""


class TestReverseComputeInline:
    def test_golden(self, chain, check, golden):
        sch = Schedule(chain())
        sch.reverse_compute_inline("D")
        sch.reverse_compute_inline("C")
        assert sch.get_blocks() == ["B"]
        golden(str(sch.func), "reverse_compute_inline")
        check(sch)

    def test_scheduled_producer(self, chain, check, golden):
        sch = Schedule(chain(13, 5))
        i, j = sch.get_loops("B")
        sch.reorder(*sch.split(i, [None, 4]), j)
        sch.reorder(j, "i_1")
        sch.reverse_compute_inline("C")
        sch.parallel("i_0")
        sch.vectorize("i_1")
        golden(str(sch.func), "reverse_compute_inline_scheduled")
        check(sch)

    def test_symbolic_transposed(self, golden):
        sch = Schedule(transposed())
        sch.reverse_compute_inline("C")
        golden(str(sch.func), "reverse_compute_inline_symbolic")

    @pytest.mark.parametrize(
        ("shape", "place"),
        [
            ((24,), lambda i: (i // 6, i % 6)),
            ((4, 3, 2), lambda i, j, k: (i, j * 2 + k)),
            ((8, 3), lambda i, j: (i // 2, i % 2 * 3 + j)),
            ((6, 4), lambda i, j: (j, i)),
            ((2, 2, 6), lambda i, j, k: (i + 2 * j, k)),
            ((2, 12), lambda i, j: (i * 2 + j // 6, j % 6)),
            ((12, 2), lambda i, j: ((i * 2 + j) % 4, (i * 2 + j) // 4)),
            ((1, 24, 1), lambda i, j, k: (j % 4, j // 4)),
        ],
    )
    def test_reshaped_and_transposed(self, check, shape, place):
        """Whatever permutes the elements; the producer keeps its loops, also vectors."""
        a = te.placeholder((4, 6), name="A")
        b = te.compute((4, 6), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute(shape, lambda *i: b[place(*i)] * a[3, place(*i)[1]], name="C")
        sch = Schedule(te.create_prim_func([a, c], name="moved"))
        sch.reverse_compute_inline("C")
        assert sch.get_blocks() == ["B"] and not sch.func.buffers
        check(sch, compiled=False)
        sch.parallel("i")
        sch.vectorize(sch.split("j", [None, 4])[1])
        check(sch, compiled=len(shape) == 2)

    def test_golden_of_a_reshape(self, check, golden):
        a = te.placeholder((4, 6), name="A")
        b = te.compute((4, 6), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute((24,), lambda i: b[i // 6, i % 6] * 2.0, name="C")
        d = te.compute((3, 8), lambda i, j: c[i * 8 + j] - 1.0, name="D")
        sch = Schedule(te.create_prim_func([a, d], name="reshapes"))
        sch.reverse_compute_inline("C")
        golden(str(sch.func), "reverse_compute_inline_reshape")
        check(sch, compiled=False)
        refused(sch.reverse_compute_inline, "D", match="does not store to its own variables")

    def test_symbolic_rows_reshaped(self, golden):
        n = te.size_var("n")
        a = te.placeholder((n, 6), name="A")
        b = te.compute((n, 6), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute((n, 2, 3), lambda i, j, k: b[i, j * 3 + k] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="heads"))
        sch.reverse_compute_inline("C")
        golden(str(sch.func), "reverse_compute_inline_heads")

    @pytest.mark.parametrize(
        ("shape", "place"),
        [
            ((12,), lambda i: (i // 6, i % 6)),  # half of them
            ((4, 6), lambda i, j: (i, 5 - j)),  # digits that are taken from something
            ((4, 6), lambda i, j: (te.min(i, 2), j)),
            ((4, 6, 2), lambda i, j, k: (i, j)),
            ((48,), lambda i: (i // 12, i // 2 % 6)),
            ((4, 5), lambda i, j: (i, j + 1)),
        ],
    )
    def test_refuses_what_is_no_permutation(self, shape, place):
        a = te.placeholder((4, 6), name="A")
        b = te.compute((4, 6), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute(shape, lambda *i: b[place(*i)] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="moved"))
        words = "does not read all of 'B' at its own variables, each once, or at places that tell"
        refused(sch.reverse_compute_inline, "C", match=words)

    @pytest.mark.parametrize(
        ("shape", "place"),
        [
            ((12,), lambda i: (i // 6, i % 6)),
            ((4, 5), lambda i, j: (i, j + 1)),
            ((2, 3), lambda i, j: (i, j)),
            ((2, 3), lambda i, j: (j, i + 2)),
            ((4, 2, 2), lambda i, j, k: (i, j * 3 + k)),
            ((21,), lambda i: ((i + 2) // 6, (i + 2) % 6)),
            ((5, 3), lambda i, j: ((i + 3) % 4, (i + 3) // 4 * 3 + j)),
        ],
    )
    def test_part_of_the_elements(self, check, shape, place):
        """What is left out is computed and not stored; each element goes where it went before."""
        a = te.placeholder((4, 6), name="A")
        b = te.compute((4, 6), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute(shape, lambda *i: b[place(*i)] * a[3, place(*i)[1]], name="C")
        sch = Schedule(te.create_prim_func([a, c], name="moved"))
        refused(sch.reverse_compute_inline, "C", match="part=True")
        sch.reverse_compute_inline("C", part=True)
        assert sch.get_blocks() == ["B"] and not sch.func.buffers
        check(sch, compiled=False)
        sch.parallel("i")
        sch.vectorize(sch.split("j", [None, 4])[1])
        check(sch, compiled=len(shape) == 1)

    @pytest.mark.parametrize(
        ("shape", "place"),
        [
            ((2, 6), lambda i, j: (i * 2, j)),  # between elements that it reads
            ((4, 2), lambda i, j: (i, j * 3 + 1)),
            ((4, 6), lambda i, j: (te.min(i + 1, 3), j)),
            ((3, 4), lambda i, j: (i + 1, i + j)),
        ],
    )
    def test_refuses_parts_with_gaps(self, shape, place):
        a = te.placeholder((4, 6), name="A")
        b = te.compute((4, 6), lambda i, j: a[i, j] + 1.0, name="B")
        c = te.compute(shape, lambda *i: b[place(*i)] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="gaps"))
        with pytest.raises(ScheduleError, match="does not read all of 'B'"):
            sch.reverse_compute_inline("C", part=True)

    def test_split_and_fused_consumer(self, chain, check):
        sch = Schedule(chain(12, 5))
        sch.fuse(*sch.get_loops("C"))
        sch.split(sch.get_loops("C")[0], [None, 7])
        refused(sch.reverse_compute_inline, "C", match="may leave out some elements")
        sch.undo()
        sch.reverse_compute_inline("C")
        check(sch)

    def test_inside_one_loop(self, chain, check):
        sch = Schedule(chain())
        sch.compute_at("B", sch.get_loops("C")[0])
        sch.reverse_compute_inline("C")
        check(sch)

    def test_refuses_reductions(self, matmul):
        sch = Schedule(matmul_then(lambda c, b: te.max(c + b, 0.0)))
        refused(sch.reverse_compute_inline, "D", match="use reverse_compute_at at the innermost")
        refused(sch.reverse_compute_inline, "C", match="block 'C' is a reduction")
        a = te.placeholder((8,), name="A")
        b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
        sch = Schedule(te.create_prim_func([a, b], name="one"))
        refused(sch.reverse_compute_inline, "B", match="reads inputs of the function only")

    def test_refuses_several_links(self, chain):
        sch = Schedule(chain())
        copy = sch.cache_write("D", 0)
        sch.reverse_compute_inline(copy)
        a = te.placeholder((8,), name="A")
        b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
        c = te.compute((8,), lambda i: b[i] * 2.0, name="C")
        d = te.compute((8,), lambda i: b[i] * 3.0, name="D")
        sch = Schedule(te.create_prim_func([a, c, d], name="fork"))
        refused(sch.reverse_compute_inline, "D", match="'B' is also read by block 'C'")
        sch = Schedule(te.create_prim_func([a, b, c], name="seen"))
        refused(sch.reverse_compute_inline, "C", match="is an output of the function")

    def test_refuses_other_places(self):
        a = te.placeholder((8, 4), name="A")
        b = te.compute((8, 4), lambda i, j: a[i, j] + 1.0, name="B")
        for value in (
            lambda i, j: b[7 - i, j],
            lambda i, j: b[i, j] + b[i, 3 - j],
            lambda i, j: b[i, 0],
        ):
            c = te.compute((8, 4), value, name="C")
            sch = Schedule(te.create_prim_func([a, c], name="places"))
            refused(sch.reverse_compute_inline, "C", match="at its own variables, each once")
        c = te.compute((4, 4), lambda i, j: b[i, j] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="part"))
        refused(sch.reverse_compute_inline, "C", match="does not read all of 'B'")
        c = te.compute((8, 4, 3), lambda i, j, k: b[i, j] * 2.0, name="C")
        sch = Schedule(te.create_prim_func([a, c], name="more"))
        refused(sch.reverse_compute_inline, "C", match="at its own variables, each once")

    def test_refuses_repeated_producer(self):
        n = 8
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
        c = te.compute((n,), lambda i: b[i] * 3.0, name="C")
        text = str(te.create_prim_func([a, c], name="twice"))
        text = text.replace(
            "for i in range(8):\n        with block", "for r, i in grid(2, 8):\n        with block"
        )
        sch = Schedule(parse(text))
        refused(sch.reverse_compute_inline, "C", match="loop 'r' may repeat instances of block 'B'")

    def test_refuses_late_input(self):
        sch = Schedule(parse(ORDER))
        refused(sch.reverse_compute_inline, "D", match="block 'X', which 'D' reads, may run after")

    def test_refuses_shared_target(self):
        text = ORDER.replace("X = alloc(f32[8])\n    ", "").replace("X[7 - vj] + ", "")
        text = text.replace("X[vi] = A[vi] + 1.0", "D[vi] = A[vi] + 1.0")
        sch = Schedule(parse(text))
        refused(sch.reverse_compute_inline, "D", match="block 'X' also uses 'D'")
        sch = Schedule(parse(ORDER.replace("X[7 - vj]", "D[vj]")))
        refused(sch.reverse_compute_inline, "D", match="reads 'D', which it also writes")

    def test_refuses_memory_of_one_thread(self, chain):
        sch = Schedule(chain())
        copy = sch.cache_write("D", 0)
        sch.bind(sch.get_loops("C")[0], "threadIdx.x")
        refused(sch.reverse_compute_inline, "D", match="local memory, and 'C' is bound to threads")
        assert copy == "D_local"

    def test_refuses_many_to_one(self):
        text = ORDER.replace("D[vj] = X[7 - vj] +", "D[vj // 2] =")
        sch = Schedule(parse(text))
        refused(sch.reverse_compute_inline, "D", match="the same elements of 'D' at different 'vj'")


class TestFuseReductionEpilogue:
    def test_golden(self, check, golden):
        sch = Schedule(matmul_then(lambda c, b: c + b))
        sch.fuse_reduction_epilogue("C", "D")
        golden(str(sch.func), "fuse_reduction_epilogue")
        assert sch.numerics == "reassociated"
        check(sch)
        sch.decompose_reduction("C", "k")
        assert sch.numerics == "reassociated"
        check(sch)

    def test_scheduled(self, check, golden):
        sch = Schedule(matmul_then(lambda c, b: b + c))
        i, j, k = sch.get_loops("C")
        i0, i1 = sch.split(i, [None, 2])
        j0, j1 = sch.split(j, [None, 4])
        sch.reorder(i0, j0, k, i1, j1)
        sch.fuse_reduction_epilogue("C", "D")
        sch.parallel(i0)
        sch.vectorize(j1)
        golden(str(sch.func), "fuse_reduction_epilogue_tiled")
        check(sch)

    def test_bound_of_a_maximum_is_bitwise(self, check):
        a = te.placeholder((6, 5), name="A")
        k = te.reduce_axis(5, name="k")
        c = te.compute((6,), lambda i: te.max(a[i, k], axis=k), name="C")
        d = te.compute((6,), lambda i: te.max(c[i], 0.0), name="D")
        sch = Schedule(te.create_prim_func([a, d], name="bounded"))
        sch.fuse_reduction_epilogue("C", "D")
        assert sch.numerics == "bitwise"
        check(sch)

    def test_conditional_terms(self, check):
        a = te.placeholder((6, 5), name="A")
        k = te.reduce_axis(5, name="k")
        c = te.compute((6,), lambda i: te.sum(a[i, k], axis=k, where=k <= i), name="C")
        d = te.compute((6,), lambda i: c[i] + a[i, 0], name="D")
        sch = Schedule(te.create_prim_func([a, d], name="triangle"))
        sch.fuse_reduction_epilogue("C", "D")
        check(sch)

    @pytest.mark.parametrize(
        "epilogue",
        [
            lambda c, b: te.max(c, 0.0),
            lambda c, b: te.clip(c, -1.0, 1.0),
            lambda c, b: te.max(c + b, 0.0),
            lambda c, b: c * b,
            lambda c, b: c - b,
            lambda c, b: c + c,
            lambda c, b: c + (b + c),
            lambda c, b: c + b * c,
        ],
    )
    def test_what_means_something_else_stays_outside(self, check, epilogue):
        """TVM had accepted relu and clip inside of the sum."""
        sch = Schedule(matmul_then(epilogue))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="means something else before the last")
        sch.reverse_compute_at("D", "j")
        check(sch)

    def test_refuses(self, matmul, conv):
        sch = Schedule(matmul_then(lambda c, b: c + b))
        refused(sch.fuse_reduction_epilogue, "D", "C", match="block 'D' is no reduction")
        refused(sch.fuse_reduction_epilogue, "C", "C", match="block 'C' is a reduction")
        sch.decompose_reduction("C", "k")
        refused(sch.fuse_reduction_epilogue, "C", "D", match="its init was split off")
        sch = Schedule(conv())
        refused(sch.fuse_reduction_epilogue, "conv", "pad", match="does not read what 'conv' makes")

    def test_refuses_transposed_bias_of_itself(self):
        a = te.placeholder((4, 6), name="A")
        k = te.reduce_axis(6, name="k")
        c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
        d = te.compute((4,), lambda i: c[i] + c[3 - i], name="D")
        sch = Schedule(te.create_prim_func([a, d], name="mirror"))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="at its own variables, each once")

    def test_refuses_other_reductions(self):
        a = te.placeholder((4, 6), name="A")
        k = te.reduce_axis(6, name="k")
        m = te.compute((4,), lambda i: te.argmax(a[i, k], axis=k), name="M")
        d = te.compute((4,), lambda i: m[i] + 1, name="D")
        sch = Schedule(te.create_prim_func([a, d], name="argmax"))
        refused(sch.fuse_reduction_epilogue, "M", "D", match="is no reduction, or its init")

    def test_refuses_an_epilogue_inside_the_reduction(self):
        sch = Schedule(parse(RUNNING))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="inside loop 'k' of the reduction")

    def test_refuses_a_late_bias(self):
        a = te.placeholder((4, 6), name="A")
        k = te.reduce_axis(6, name="k")
        c = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="C")
        b = te.compute((4,), lambda i: c[i] * 2.0, name="B")
        d = te.compute((4,), lambda i: c[i] + b[i], name="D")
        sch = Schedule(te.create_prim_func([a, d], name="late"))
        refused(sch.fuse_reduction_epilogue, "C", "D", match="'C' is also read by block 'B'")
        sch.compute_inline("B")
        refused(sch.fuse_reduction_epilogue, "C", "D", match="means something else")


RUNNING = """
@prim_func
def running(A: f32[4, 6], D: f32[4]):
    C = alloc(f32[4])
    for i, k in grid(4, 6):
        with block("C"):
            vi = spatial(4, i)
            vk = reduce(6, k)
            with init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
        with block("D"):
            vi = spatial(4, i)
            D[vi] = C[vi] + 1.0
"""
