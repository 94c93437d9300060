"""blockize: what the new block is, what can still be done, and what is refused."""

from __future__ import annotations

import pytest
from refusal import refused

from schedule import REGISTRY, Schedule
from schedule.checks.nested import LOOPS_ONLY
from tensorir import Target, lower, parse, te, verify


def tiled(func):
    sch = Schedule(func)
    parts = [sch.split(loop, [None, size]) for loop, size in zip("ijk", (4, 5, 2))]
    sch.reorder(*(outer for outer, _ in parts), *(inner for _, inner in parts))
    sch.decompose_reduction("C", "k_0")
    return sch


class TestBlockize:
    def test_golden(self, chain, check, golden):
        sch = Schedule(chain(12, 5))
        sch.split("i", [None, 4])
        assert sch.blockize("i_1") == "B_o"
        golden(str(sch.func), "blockize")
        check(sch)

    def test_imperfect_reduction(self, matmul, check, golden):
        """The conditions that are about the inner loops go inside."""
        sch = tiled(matmul(6, 10, 7))
        assert sch.blockize("i_1") == "C_o"
        golden(str(sch.func), "blockize_reduction")
        assert sch.numerics == "bitwise"
        check(sch)

    def test_loops_of_a_blockized_program(self, matmul, check):
        """The loops outside and inside of the new block can be changed, but not across it."""
        sch = tiled(matmul(6, 10, 7))
        sch.blockize("i_1")
        sch.parallel("i_0")
        sch.reorder("k_1", "j_1", "i_1")
        sch.vectorize("i_1")
        sch.split("j_1", [None, 2])
        sch.unroll("k_1")
        sch.split("k_0", [None, 3])
        check(sch)
        refused(sch.reorder, "k_0_1", "k_1", match="not in one nest")
        refused(sch.fuse, "k_0_1", "k_1", match="each loop must be|not directly inside|only")
        refused(sch.vectorize, "k_1", match="has the vectorized loop 'i_1' inside")
        sch = tiled(matmul(6, 10, 7))
        sch.blockize("i_1")
        refused(sch.parallel, "k_0", match="loop 'k_0' is a reduction of block 'C'")
        refused(sch.parallel, "k_1", match="loop 'k_1' is a reduction of block 'C'")

    def test_reordered_terms_are_seen(self, matmul, check):
        sch = tiled(matmul(4, 5, 6))
        sch.blockize("i_1")
        sch.split("k_1", [None, 1])
        assert sch.numerics == "bitwise"
        sch = Schedule(matmul(4, 5, 8))
        k0, k1, k2 = sch.split("k", [None, 2, 2])
        sch.reorder(k2, k1)
        sch.decompose_reduction("C", k0)
        sch.blockize(k2)
        assert sch.numerics == "reassociated"
        check(sch)

    def test_tensorize_inside(self, matmul, check):
        sch = Schedule(matmul(16, 32, 5))
        sch.split("i", [None, 8])
        sch.split("j", [None, 16])
        sch.reorder("i_0", "j_0", "k", "i_1", "j_1")
        sch.decompose_reduction("C", "k")
        sch.blockize("i_1")
        sch.tensorize("i_1", "f32.fma_8x16")
        check(sch)

    def test_fused_loops_outside(self, chain, check):
        sch = Schedule(chain(12, 6))
        sch.split("i", [None, 4])
        sch.split("j", [None, 3])
        sch.reorder("i_0", "j_0", "i_1", "j_1")
        sch.fuse("i_0", "j_0")
        sch.blockize("i_1")
        check(sch)

    def test_blocks_in_blocks(self, chain, check):
        """Found by random schedules: two variables of one name, one inside of the other."""
        sch = Schedule(chain(7, 5))
        sch.split("i", [None, 2, 2])
        sch.blockize("i_2")
        assert sch.blockize("j") == "B_o_1"
        sch.parallel("i_0")
        check(sch)

    def test_symbolic(self, golden):
        n = te.var("n")
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
        sch = Schedule(te.create_prim_func([a, b], name="symbolic"))
        sch.split("i", [None, 4])
        sch.blockize("i_1")
        golden(str(sch.func), "blockize_symbolic")
        verify(sch.func)
        assert str(parse(str(sch.func))) == str(sch.func)
        lower(sch.func, Target())

    def test_refuses_other_nests(self, matmul, chain):
        sch = Schedule(matmul())
        refused(sch.blockize, "k", match="block 'C' still has its init")
        refused(sch.blockize, "q", match="no loop 'q'")
        sch = Schedule(chain())
        sch.compute_at("B", sch.get_loops("C")[0])
        refused(sch.blockize, sch.get_loops("C")[0], match="more than one block")
        sch = Schedule(chain())
        sch.blockize("j")
        refused(sch.blockize, "i", match="block 'B_o' contains a block already")
        sch = Schedule(chain())
        sch.parallel("j")
        refused(sch.blockize, "j", match="loop 'j' is parallel")
        sch = Schedule(chain())
        sch.bind("i", "blockIdx.x")
        refused(sch.blockize, "j", match="loop 'i' is thread")

    def test_refuses_what_is_no_division(self, chain):
        sch = Schedule(chain(12, 5))
        sch.fuse("i", "j")
        sch.split("i_j", [None, 7])
        refused(sch.blockize, "i_j_1", match="no multiple of an outer part plus a smaller inner")
        sch = Schedule(chain(12, 5))
        sch.split("i", [None, 4])
        sch.reorder("i_1", "i_0")
        refused(sch.blockize, "i_0", match="no multiple of an outer part plus a smaller inner")

    def test_refuses_what_is_no_condition_of_a_variable(self):
        Schedule(parse(TRIANGLE)).blockize("j")
        sch = Schedule(parse(TRIANGLE.replace("i + j", "i * j")))
        sch.split("i", [None, 2])
        refused(sch.blockize, "i_1", match="runs where .* not about its variables")

    def test_refuses_a_condition_on_a_loop_that_no_variable_is_bound_to(self):
        """The loop is outside of the new block, whose body would use it."""
        sch = Schedule(parse(TRIANGLE))
        sch.split(sch.add_unit_loop("i"), [2, 2])
        refused(sch.blockize, "unit_1", match="runs where unit_0 .* not about its variables")
        sch.blockize("unit_0")
        verify(sch.func)

    @pytest.mark.parametrize("name", sorted({"compute_inline", "cache_write", "rfactor", "bind"}))
    def test_other_primitives_do_not_look_inside(self, chain, name):
        sch = Schedule(chain())
        sch.blockize("j")
        arguments = {"cache_write": ("D", 0), "rfactor": ("D", "j_D"), "bind": ("i", "blockIdx.x")}
        refused(
            getattr(sch, name),
            *arguments.get(name, ("C",)),
            match=f"inside another block, which {name} does not look into",
        )

    def test_the_list_names_primitives(self):
        assert set(LOOPS_ONLY) <= set(REGISTRY)


TRIANGLE = """
@prim_func
def triangle(A: f32[8, 8], B: f32[8, 8]):
    for i, j in grid(8, 8):
        with block("B"):
            vi = spatial(8, i)
            vj = spatial(8, j)
            where(i + j < 8)
            B[vi, vj] = A[vi, vj]
"""
