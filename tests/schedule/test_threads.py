"""bind and set_scope: which programs threads can run."""

from __future__ import annotations

import numpy as np
import pytest
from refusal import refused

from backends import BuildError, build
from schedule import Schedule
from tensorir import Target, interpret, lower, ops, parse, reference, te


def chain_sum(n=12, m=8):
    """B = A + 1, S = row sums of B."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis(m, name="k")
    s = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="S")
    return te.create_prim_func([a, s], name="chain_sum")


TUPLES = {
    "argmax": lambda x: ops.argmax(x, 1),
    "welford": lambda x: ops.var(x, 1, algorithm="welford"),
    "online": lambda x: ops.softmax(x, 1, algorithm="online"),
}
TUPLE_AXES = [
    [("threadIdx.x", 8)],
    [("warp", 2), ("lane", 32)],
    [("threadIdx.y", 3), ("threadIdx.x", 5)],
]
CHECKED = "cuda-emulator -check=races,bounds,uninitialised"


def of_tuples(name, columns, axes):
    """Rows reduced to tuples by threads; of few columns, with the serial loop inside."""
    x = te.placeholder((3, columns), name="X")
    sch = Schedule(te.create_prim_func([x, TUPLES[name](x)], name=name))
    block = next(b for b in sch.get_blocks() if sch.state.block(b).is_reduction)
    row, terms = sch.get_loops(block)
    parts = sch.split(terms, [None, *[size for _, size in axes]])
    if columns < 30:
        sch.reorder(*parts[1:], parts[0])
    if axes:
        sch.bind(row, "blockIdx.x")
    for loop, (axis, _) in zip(parts[1:], axes):
        sch.bind(loop, axis)
    return sch


STAGED = """
@prim_func
def staged(A: f32[4, 32], D: f32[4, 32]):
    S = alloc(f32[4, 32], scope="shared")
    for b in range(4):
        for i in range(32):
            with block("S"):
                vb = spatial(4, b)
                vi = spatial(32, i)
                S[vb, vi] = A[vb, vi]
        for j in range(32):
            with block("D"):
                vb = spatial(4, b)
                vj = spatial(32, j)
                D[vb, vj] = S[vb, 31 - vj]
"""
"""A row of each block of threads is read in another order than it was written."""


UNEVEN = """
@prim_func
def uneven(A: f32[4, 4], D: f32[4, 4]):
    for i in range(4):
        if {condition}:
            for j in range(4):
                with block("D"):
                    vi = spatial(4, i)
                    vj = spatial(4, j)
                    D[vi, vj] = A[vi, vj]
"""


def bound(program, *pairs):
    sch = Schedule(parse(program)) if isinstance(program, str) else Schedule(program)
    for loop, axis in pairs:
        sch.bind(loop, axis)
    return sch


class TestBind:
    def test_golden(self, matmul, check, golden):
        sch = Schedule(matmul())
        i_0, i_1 = sch.split("i", [None, 4])
        j_0, j_1 = sch.split("j", [None, 4])
        sch.reorder(i_0, j_0, i_1, j_1)
        for loop, axis in zip(
            (i_0, j_0, i_1, j_1), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
        ):
            sch.bind(loop, axis)
        golden(str(sch.func), "bind")
        check(sch, compiled=False)
        with pytest.raises(BuildError, match="bind is for GPUs"):
            build(sch)

    def test_shared_memory(self, golden):
        """The usual GPU schedule: a tile of the input is copied to shared memory by all threads."""
        sch = bound(STAGED, ("b", "blockIdx.x"), ("i", "threadIdx.x"), ("j", "threadIdx.x"))
        golden(str(sch.func), "bind_shared")
        a = np.arange(128, dtype="float32").reshape(4, 32)
        np.testing.assert_array_equal(interpret(sch.func, a)[0], a[:, ::-1])

    def test_kernels_have_their_own_extents(self, chain, check):
        sch = Schedule(chain())
        sch.split("i_C", [None, 4])
        for loop in ("i", "i_C_1"):
            sch.bind(loop, "threadIdx.x")
        sch.bind("i_D", "blockIdx.x")
        check(sch, compiled=False)

    def test_virtual_threads(self, matmul, check):
        sch = bound(matmul(), ("i", "blockIdx.x"), ("j", "vthread.x"))
        check(sch, compiled=False)

    def test_later_primitives_keep_to_the_rules(self, chain, check):
        sch = bound(chain(), ("i_D", "threadIdx.x"))
        sch.compute_at("C", "i_D")
        sch.compute_at("B", "i_D")
        sch.vectorize("j_D")
        sch.unroll("j_C")
        check(sch, compiled=False)

    def test_later_primitives_are_refused(self, chain):
        sch = bound(chain(), ("i_D", "threadIdx.x"))
        refused(sch.split, "i_D", [None, 2], match="loop 'i_D' is thread")
        refused(sch.parallel, "j_D", match="the parallel loop 'j_D' is inside thread loop 'i_D'")
        sch = bound(chain(), ("j_D", "threadIdx.x"))
        refused(sch.parallel, "i_D", match="thread loop 'j_D' is inside the parallel 'i_D'")
        refused(sch.vectorize, "i_D", match="inside the vectorized 'i_D'|has the thread loop 'j_D'")

    def test_refuses_kinds_and_axes(self, matmul):
        sch = Schedule(matmul())
        refused(sch.bind, "i", "threadIdx.w", match="'threadIdx.w' is no thread axis")
        sch.unroll("i")
        refused(sch.bind, "i", "threadIdx.x", match="loop 'i' is unrolled")
        sch = Schedule(matmul())
        sch.parallel("i")
        refused(sch.bind, "j", "threadIdx.x", match="'j' is inside the parallel 'i'")
        sch = Schedule(matmul())
        sch.parallel("j")
        refused(sch.bind, "i", "threadIdx.x", match="parallel loop 'j' is inside thread loop 'i'")
        sch = Schedule(matmul())
        sch.vectorize("i")
        refused(sch.bind, "j", "threadIdx.x", match="'j' is inside the vectorized 'i'")

    def test_refuses_dependences(self, matmul):
        sch = Schedule(matmul())
        refused(sch.bind, "k", "blockIdx.x", match="'k' is a reduction of block 'C'")
        merged = STAGED.replace("        for j in range(32):\n", "").replace("(32, j)", "(32, i)")
        sch = Schedule(parse(merged))
        refused(sch.bind, "i", "threadIdx.x", match="block 'D' uses what block 'S' writes")

    def test_refuses_orders(self, matmul):
        sch = bound(matmul(), ("i", "threadIdx.x"))
        refused(sch.bind, "j", "blockIdx.x", match="'j', bound to blockIdx.x, is inside loop 'i'")
        refused(sch.bind, "j", "threadIdx.x", match="'i' and 'j', one inside the other")
        sch = Schedule(matmul())
        refused(sch.bind, "j", "blockIdx.x", match="'i', which is bound to no block axis")
        sch = bound(matmul(), ("i", "blockIdx.x"))
        refused(sch.bind, "j", "blockIdx.x", match="'i' and 'j', one inside the other")

    def test_refuses_two_extents(self):
        sch = Schedule(parse(STAGED))
        sch.split("j", [None, 16])
        sch.bind("i", "threadIdx.x")
        refused(
            sch.bind, "j_1", "threadIdx.x", match="'i' and 'j_1' of one kernel .* extents 32 and 16"
        )
        sch.bind("j_1", "threadIdx.y")

    def test_refuses_too_many(self, matmul):
        sch = Schedule(matmul(2, 1025, 3))
        refused(sch.bind, "j", "threadIdx.x", match="has extent 1025; threadIdx.x takes 1 to 1024")
        sch = bound(matmul(64, 32, 3), ("i", "threadIdx.y"))
        refused(sch.bind, "j", "threadIdx.x", match="'i', 'j' make 2048 threads per block")
        sch = Schedule(matmul(65, 2, 3))
        refused(sch.bind, "i", "threadIdx.z", match="extent 65; threadIdx.z takes 1 to 64")

    def test_warps(self, matmul, check):
        """Lanes and warps are what threadIdx.x is made of."""
        sch = Schedule(matmul(3, 64, 2))
        warp, lane = sch.split("j", [None, 32])
        sch.bind("i", "threadIdx.y")
        sch.bind(warp, "warp")
        sch.bind(lane, "lane")
        check(sch, compiled=False)
        sch = bound(matmul(32, 64, 2), ("i", "lane"))
        refused(sch.bind, "j", "threadIdx.x", match="a part of threadIdx.x, to which loop 'j'")
        refused(sch.bind, "j", "warp", match="'j' has extent 64; warp takes 1 to 32")
        sch = Schedule(matmul(16, 64, 3))
        refused(sch.bind, "i", "lane", match="has extent 16; a warp has 32 lanes")
        sch = bound(matmul(4, 32, 3), ("i", "threadIdx.x"))
        refused(sch.bind, "j", "lane", match="'j' is bound to lane, which is a part of threadIdx.x")
        sch = bound(matmul(16, 3, 3), ("i", "warp"))
        refused(sch.bind, "j", "threadIdx.y", match="'i', 'j' make 1536 threads per block")

    def test_uneven_conditions(self):
        """All threads of a block come to the end of a loop over threads, where they wait."""
        for condition in ("i < 3", "A[i, 0] < 1.0"):
            sch = Schedule(parse(UNEVEN.format(condition=condition)))
            sch.bind("j", "threadIdx.x")
            sch.bind("i", "threadIdx.y")
        sch = Schedule(parse(UNEVEN.format(condition="D[i, 0] < 1.0")))
        refused(sch.bind, "j", "threadIdx.x", match="wait for each other where it ends")

    def test_symbolic(self):
        n = te.var("n")
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
        sch = Schedule(te.create_prim_func([a, b], name="symbolic"))
        refused(sch.bind, "i", "threadIdx.x", match="(?s)extent n of loop 'i' is not a number.*spl")
        outer, inner = sch.split("i", [None, 128])
        sch.bind(outer, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")


class TestCrossThreadReduction:
    def test_golden(self, matmul, check, golden):
        sch = bound(matmul(), ("i", "blockIdx.y"), ("j", "blockIdx.x"))
        _, inner = sch.split("k", [None, 4])
        sch.bind(inner, "threadIdx.x")
        golden(str(sch.func), "cross_thread")
        assert sch.numerics == "reassociated"
        check(sch, compiled=False)

    def test_maximum_is_bitwise(self, check):
        a = te.placeholder((5, 9), name="A")
        k = te.reduce_axis(9, name="k")
        m = te.compute((5,), lambda i: te.max(a[i, k], axis=k), name="M")
        sch = bound(te.create_prim_func([a, m], name="rows"), ("k", "threadIdx.x"))
        assert sch.numerics == "bitwise"
        check(sch, compiled=False)

    def test_refuses(self, matmul):
        sch = Schedule(matmul())
        for axis in ("blockIdx.x", "vthread.x"):
            refused(sch.bind, "k", axis, match="(?s)only threads of one block can share.*rfactor")
        sch.reorder("k", "j")
        refused(sch.bind, "k", "threadIdx.x", match="'j' chooses the element of block 'C' inside")
        fused = sch.fuse("k", "j")
        refused(sch.bind, fused, "threadIdx.x", match="(?s)chooses its element too.*split it into")
        sch = bound(matmul(), ("k", "threadIdx.x"))
        refused(sch.decompose_reduction, "C", "k", match="init was split off")
        sch = Schedule(matmul())
        sch.decompose_reduction("C", "k")
        refused(sch.bind, "k", "threadIdx.x", match="'k' reduces, but .* init was split off")

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("axes", TUPLE_AXES)
    @pytest.mark.parametrize("name", TUPLES)
    def test_tuples_are_combined_as_a_whole(self, name, axes):
        """Of 1, of primes, of fewer terms than threads; the loops in either order."""
        for columns in (1, 29, 77):
            sch = of_tuples(name, columns, axes)
            rng = np.random.default_rng(columns)
            x = rng.integers(-9, 10, (3, columns)).astype("float32")
            if name == "argmax":
                x[1, columns // 2 :] = np.nan
            (wanted,) = reference(sch.definition, x)
            (found,) = interpret(sch.func, x)
            np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)
            (found,) = interpret(lower(sch.func, Target.parse("cuda")), x.ravel(), races=True)
            np.testing.assert_allclose(found, wanted.ravel(), 1e-5, 1e-5)

    @pytest.mark.parametrize("name", TUPLES)
    def test_tuples_on_the_emulator(self, name):
        """Within a warp, then across warps, the last of which is not whole."""
        sch = of_tuples(name, 77, [("threadIdx.x", 40)])
        kernel = build(sch, CHECKED)
        x = np.random.default_rng(1).integers(-9, 10, (3, 77)).astype("float32")
        (wanted,) = reference(sch.definition, x)
        np.testing.assert_allclose(kernel(x), wanted, 1e-5, 1e-5)

    def test_refuses_what_is_not_associative(self):
        a = te.placeholder((5, 9), name="A")
        k = te.reduce_axis(9, name="k")
        twice = te.comm_reducer(lambda x, y: x * 2.0 + y, lambda kind: te.const(0.0, kind), "twice")
        m = te.compute((5,), lambda i: twice(a[i, k], axis=k), name="M")
        sch = Schedule(te.create_prim_func([a, m], name="rows"))
        loop = sch.get_loops("M")[-1]
        refused(sch.bind, loop, "threadIdx.x", match="found to be associative and commutative")

    def test_refuses_a_tuple_that_starts_otherwise_than_from_nothing(self):
        text = str(of_tuples("welford", 9, ()).func).replace("] = 0.0", "] = 5.0")
        sch = Schedule(parse(text))
        loop = sch.get_loops("moments")[-1]
        refused(sch.bind, loop, "threadIdx.x", match="starts from .*5.0.*, which every part")

    def test_refuses_a_start_that_would_be_added_twice(self, matmul, check):
        """A sum that starts from 5 has 5 once, not once for each part, as rfactor sees to."""
        sch = Schedule(parse(str(matmul()).replace("0.0", "5.0")))
        sch.split("k", [None, 3])
        refused(sch.bind, "k_1", "threadIdx.x", match="starts from 5.0, which every part")
        sch.rfactor("C", "k_1")
        check(sch, compiled=False)

    def test_refuses_early_use(self):
        text = """
@prim_func
def early(A: f32[4, 8], S: f32[4], D: f32[4, 8]):
    for i, k in grid(4, 8):
        with block("S"):
            vi = spatial(4, i)
            vk = reduce(8, k)
            with init():
                S[vi] = 0.0
            S[vi] = S[vi] + A[vi, vk]
        with block("D"):
            vi = spatial(4, i)
            vk = spatial(8, k)
            D[vi, vk] = S[vi]
"""
        sch = Schedule(parse(text))
        refused(sch.bind, "k", "threadIdx.x", match="uses what block 'S' writes|uses 'S' inside")


class TestMemoryOfThreads:
    def test_local_across_threads(self):
        sch = bound(STAGED.replace('"shared"', '"local"'), ("b", "blockIdx.x"))
        refused(
            sch.bind, "i", "threadIdx.x", match="'S' is in local memory, which belongs to one t"
        )

    def test_shared_across_kernels(self, chain):
        sch = Schedule(chain())
        sch.set_scope("B", 0, "shared")
        sch.bind("i_C", "threadIdx.x")  # the nest that writes B may be computed there yet
        refused(
            sch.bind, "i", "threadIdx.x", match="'B' is in shared memory, which belongs to one b"
        )
        sch.compute_at("B", "i_C")

    def test_global_across_blocks(self):
        """Blocks of threads do not wait for each other: a row made by many is not ready."""
        text = STAGED.replace(', scope="shared"', "").replace("S[vb, 31 - vj]", "S[vb, vj]")
        sch = bound(text, ("b", "blockIdx.y"))
        refused(
            sch.bind, "i", "blockIdx.x", match="'S' is in global memory, which blocks of threads"
        )

    def test_overlapping_tiles_need_memory_of_their_own(self, conv, check):
        """Neighbours compute the same elements of `pad`, each for itself."""
        sch = Schedule(conv())
        loop = sch.get_loops("conv")[0]
        sch.compute_at("pad", loop)
        refused(
            sch.bind,
            loop,
            "threadIdx.x",
            match="(?s)write the same .* of 'pad'.*set_scope it to local",
        )
        sch.set_scope("pad", "pad", "local")
        sch.bind(loop, "threadIdx.x")
        check(sch, compiled=False)
        refused(sch.set_scope, "pad", 0, "shared", match="write the same elements of 'pad'")

    def test_compute_at_into_threads(self, conv):
        sch = bound(conv(), ("i_conv", "blockIdx.x"))
        refused(sch.compute_at, "pad", "i_conv", match="the same elements of 'pad'")
        sch.undo()
        sch.set_scope("pad", 0, "shared")
        sch.compute_at("pad", "i_conv")
        sch.bind("i_conv", "blockIdx.x")


class TestSetScope:
    def test_golden(self, chain, check, golden):
        sch = Schedule(chain())
        sch.set_scope("B", "B", "shared")
        sch.set_scope("C", 0, "local")
        golden(str(sch.func), "set_scope")
        sch.set_scope("C", 0, "local")
        check(sch)

    def test_reduction(self, check):
        sch = Schedule(chain_sum())
        sch.cache_write("S", 0, "global")
        sch.reverse_compute_at("S_global", "i_S")
        sch.set_scope("S", 0, "local")
        sch.parallel("i_S")
        check(sch)

    def test_refuses(self, matmul, chain):
        sch = Schedule(chain())
        refused(sch.set_scope, "B", "A", "local", match="'A' is not among them: block 'B' writes B")
        refused(sch.set_scope, "B", 0, "cloud", match="scope 'cloud' is none of")
        refused(sch.set_scope, "D", 0, "local", match="'D' is a parameter of the function")
        sch.parallel("i_C")
        refused(
            sch.set_scope, "B", 0, "local", match="inside and outside of the parallel loop 'i_C"
        )
        sch.set_scope("B", 0, "shared")
