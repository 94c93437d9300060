"""Tiles on their way through registers: loaded a step ahead, stored after the last one is used."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from memory_programs import PAIRS, lowered, packed
from refusal import refused
from small_programs import make_matmul

from backends import build
from schedule import Schedule
from tensorir import Alloc, For, Sync, Target, VerifyError, interpret, lower, parse, prove, walk

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from thread_races import race, unseen  # noqa: E402

ORDER = [0, 2, 4, 1, 3]
"""Both loads, the sum of the last step, both stores."""


def tiled(shape, vector=1, tile=16, own=4, depth=8):
    """A product in tiles of shared memory, sums in registers; and the loop over steps of k."""
    sch = Schedule(make_matmul(*shape))
    result = sch.cache_write("C", 0, "local")
    i, j, k = sch.get_loops("C")
    i0, i1, i2 = sch.split(i, [None, tile // own, own])
    j0, j1, j2 = sch.split(j, [None, tile // own, own])
    k0, k1 = sch.split(k, [None, depth])
    sch.reorder(i0, j0, k0, i1, j1, k1, i2, j2)
    sch.reverse_compute_at(result, j0)
    rows, columns = (sch.split(loop, [None, own]) for loop in sch.get_loops(result)[-2:])
    sch.reorder(rows[0], columns[0], rows[1], columns[1])
    y, x = sch.get_loops(sch.decompose_reduction("C", k0))[2:4]
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.bind([i1, rows[0], y], "threadIdx.y")
    sch.bind([j1, columns[0], x], "threadIdx.x")
    for operand in ("A", "B"):
        copy = sch.cache_read("C", operand, "shared")
        sch.compute_at(copy, k0)
        sch.cooperative_fetch(copy, vector=vector)
    return sch, k0


def through_registers(sch, k0, copy, vector=1):
    """Let `copy` take its tile from registers, which are loaded in loops of their own."""
    own = sch.get_loops(copy)
    own = own[own.index(k0) + 1 :]
    registers = sch.cache_read(copy, 0, "local")
    sch.compute_at(registers, own[-2 if vector > 1 else -1])
    if vector > 1:
        sch.vectorize(sch.get_loops(registers)[-1])
    sch.fission(own[0], after=registers)
    return registers


def ahead(shape, vector=1, order=ORDER, **sizes):
    sch, k0 = tiled(shape, vector, **sizes)
    for copy in ("A_shared", "B_shared"):
        through_registers(sch, k0, copy, vector)
    sch.pipeline(k0, [0, 0, 0, 0, 1], order=order)
    return sch


def operands(m, n, k):
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, shape).astype("float32") for shape in ((m, k), (k, n))]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("vector", [1, 4])
@pytest.mark.parametrize("shape", [(16, 16, 12), (9, 13, 11), (12, 11, 5)])
def test_same_values(shape, vector):
    sch = ahead(shape, vector, tile=8, depth=4)
    assert str(parse(str(sch.func))) == str(sch.func)
    assert str(Schedule(sch.definition).apply(sch.trace).func) == str(sch.func)
    prove(parse(str(sch.func)))
    a, b = operands(*shape)
    np.testing.assert_array_equal(interpret(sch.func, a, b)[0], a @ b)
    low = lower(sch.func, Target.parse("cuda"))
    found = interpret(low, a.ravel(), b.ravel(), races=True)[0]
    np.testing.assert_array_equal(found, (a @ b).ravel())


def test_registers_tiles_and_waits():
    """A thread has registers for its own share; tiles have two versions; one wait for a step."""
    low = lower(ahead((64, 64, 64), tile=32).func, Target.parse("cuda"))
    sizes = {s.buffer.name: s.buffer.const_shape[0] for s in walk(low.body) if isinstance(s, Alloc)}
    assert sizes["A_local"] == sizes["B_local"] == 32 * 8 // 64
    assert sizes["A_shared"] == sizes["B_shared"] == 2 * 32 * 8
    (steps,) = [s for s in walk(low.body) if isinstance(s, For) and s.name == "k_0_all"]
    assert [s.scope for s in walk(steps) if isinstance(s, Sync)] == ["block"]


def test_no_race_instance_by_instance():
    sch = ahead((7, 5, 9), tile=4, own=2, depth=3)
    assert race(sch.func) is None and unseen(sch.func) is None


def test_on_the_emulator():
    """One wait a step and one more at the most, and as many transactions as without registers."""
    shape, vector = (33, 40, 29), 4
    plain, k0 = tiled(shape, vector)
    plain.pipeline(k0, [0, 0, 1])
    a, b = operands(*shape)
    counted = []
    for sch in (plain, ahead(shape, vector)):
        kernel = build(sch, "cuda-emulator -check=counts,races,bounds,uninitialised")
        np.testing.assert_array_equal(kernel(a, b), a @ b)
        counts = kernel.findings.counts
        waits = sum(c.instructions for c in counts if c.what.startswith("ti_sync"))
        sectors = sum(c.transactions for c in counts if c.space == "global")
        counted.append((waits, sectors))
    assert counted[1][0] <= (4 + 1) * 9 and counted[1][1] <= counted[0][1]


@pytest.mark.parametrize("order", [[1, 0], [0, 1]])
def test_order_on_processors(order, check):
    sch, _, outer = packed(make_matmul(4, 16, 29))
    sch.decompose_reduction("C", outer)
    sch.pipeline(outer, [0, 1], order=order)
    lowered(sch)
    check(sch)


def test_order_is_that_of_the_statements(check):
    sch = Schedule(parse(PAIRS))
    sch.pipeline("i", [0, 1, 0, 2], order=[3, 2, 1, 0])
    assert sch.state.loop("i").annotations == {"pipeline": [2, 0, 1, 0]}
    assert list(sch.get_child_blocks("i")) == ["D", "U", "C", "T"]
    check(sch)
    lowered(sch)


def test_refuses_orders():
    sch = Schedule(parse(PAIRS))
    for order in ([0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 4]):
        refused(sch.pipeline, "i", [0, 1, 0, 1], order, match="does not have each of the 4")
    refused(sch.pipeline, "i", [0, 1, 0, 1], [True, 0, 2, 3], match="a list of integers")
    refused(sch.pipeline, "i", [0, 1, 0, 0], [3, 0, 1, 2], match="(?s)of one stage and share 'T'")
    sch, k0 = tiled((16, 16, 16))
    for copy in ("A_shared", "B_shared"):
        through_registers(sch, k0, copy)
    refused(sch.pipeline, k0, [0, 0, 0, 0, 1], [1, 0, 2, 3, 4], match="share 'A_local'")


FUSED = """
@prim_func
def stages(A: f32[6, 5], D: f32[6, 5]):
    S = alloc(f32[6, 5], scope="local")
    for i in thread("threadIdx.x", 6):
        for p in range(5):
            with block("S"):
                vi = spatial(6, (p * 6 + i) // 5)
                vj = spatial(5, (p * 6 + i) % 5)
                S[vi, vj] = A[vi, vj]
    for j in thread("threadIdx.x", 6):
        for q in range(5):
            with block("D"):
                vi = spatial(6, ({used}) // 5)
                vj = spatial(5, ({used}) % 5)
                D[vi, vj] = S[vi, vj] + 1.0
"""


def kernel(used):
    """In one kernel: a loop over blocks of one around."""
    lines = FUSED.format(used=used).splitlines()
    start = next(n for n, line in enumerate(lines) if " for i in" in line)
    lines[start:] = ['    for b in thread("blockIdx.x", 1):', *("    " + x for x in lines[start:])]
    return parse("\n".join(lines))


def test_fused_loops_tell_whose_an_element_is():
    """One function of the loops, by whatever names, is touched by one thread at each element."""
    func = kernel("q * 6 + j")
    prove(func)
    a = np.arange(30, dtype="float32")
    low = lower(func, Target.parse("cuda"))
    np.testing.assert_array_equal(interpret(low, a, np.zeros(30, "f4"), races=True)[0], a + 1)
    for used in ("q * 6 + 5 - j", "j * 5 + q", "q * 6 + (j + 1) % 6"):
        with pytest.raises(VerifyError, match="'S' is in local memory"):
            prove(kernel(used))


class TestFission:
    def test_loops_inside_are_divided_too(self):
        sch, k0 = tiled((13, 9, 11), tile=8, own=2)
        own = sch.get_loops("A_shared")
        registers = through_registers(sch, k0, "A_shared")
        for block in (registers, "A_shared"):
            loops = sch.get_loops(block)
            assert len(loops) == len(own)
            kinds = [sch.state.loop(loop).thread for loop in loops]
            assert kinds[-2:] == ["threadIdx.y", "threadIdx.x"]
        a, b = operands(13, 9, 11)
        low = lower(sch.func, Target.parse("cuda"))
        found = interpret(low, a.ravel(), b.ravel(), races=True)[0]
        np.testing.assert_array_equal(found, (a @ b).ravel())

    def test_refuses(self):
        sch, k0 = tiled((16, 16, 16))
        own = sch.get_loops("A_shared")
        registers = sch.cache_read("A_shared", 0, "local")
        sch.compute_at(registers, own[-1])
        refused(sch.fission, own[-1], registers, match="is thread")
        inner = sch.split(sch.get_loops("A_shared")[-3], [None, 2])[1]
        sch.unroll(inner)
        refused(sch.fission, own[-3] + "_0", registers, match="is unrolled")
