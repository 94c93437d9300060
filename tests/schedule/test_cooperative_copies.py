"""Copies of tiles: by all threads of a block, and from there to registers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from refusal import refused

from schedule import Schedule, ScheduleError, Trace
from tensorir import ForKind, TensorIRError, parse, prove, te

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from thread_races import race, unseen  # noqa: E402


def blocks_of_rows(program, rows=8):
    """A matmul whose operands are copied in each step over k, by threads that are not bound."""
    sch = Schedule(program)
    i, j, k = sch.get_loops("C")
    outer, inner = sch.split(i, [None, rows])
    step, rest = sch.split(k, [None, 4])
    sch.reorder(outer, step, inner, j, rest)
    sch.decompose_reduction("C", step)
    sch.bind(outer, "blockIdx.x")
    copies = [sch.cache_read("C", name, "shared") for name in ("A", "B")]
    for copy in copies:
        sch.compute_at(copy, step)
    return sch, copies, (inner, j)


def verified(sch):
    prove(parse(str(sch.func)))
    assert race(sch.func) is None and unseen(sch.func) is None


class TestCooperativeFetch:
    @pytest.mark.parametrize(("vector", "shape"), [(1, (7, 5, 9)), (3, (16, 8, 8)), (3, (7, 5, 9))])
    def test_threads_share_a_tile(self, matmul, check, vector, shape):
        sch, copies, _ = blocks_of_rows(matmul(*shape))
        for copy in copies:
            *outer, y, x = sch.cooperative_fetch(
                copy, {"threadIdx.x": 4, "threadIdx.y": 2}, vector
            )[: 3 if vector > 1 else None]
            assert [sch.state.loop(n).thread for n in (y, x)] == ["threadIdx.y", "threadIdx.x"]
            assert len(outer) == 1
        check(sch, compiled=False)
        verified(sch)
        kinds = [loop.kind for loop in sch.state.loops()]
        assert kinds.count(ForKind.VECTORIZED) == (2 if vector > 1 else 0)

    def test_as_many_threads_as_the_kernel_has(self, matmul, golden):
        sch, copies, (inner, _) = blocks_of_rows(matmul(16, 8, 8))
        with pytest.raises(TensorIRError, match="has no loops over threads yet; give threads"):
            sch.cooperative_fetch(copies[0])
        sch.bind(inner, "threadIdx.y")
        for copy in copies:
            sch.cooperative_fetch(copy, vector=2)
        golden(str(sch.func), "cooperative_fetch")
        steps = [step.name for step in sch.trace.instructions][-10:]
        assert steps == ["split", "fuse", "split", "bind", "vectorize"] * 2
        again = Schedule(sch.definition).apply(Trace.from_json(sch.trace.dumps()))
        assert str(again.func) == str(sch.func)

    def test_refusals_leave_the_schedule_as_it_was(self, matmul):
        sch, copies, (inner, _) = blocks_of_rows(matmul(16, 8, 8))
        with pytest.raises(TensorIRError, match="'blockIdx.x' is no axis of threads"):
            sch.cooperative_fetch(copies[0], {"blockIdx.x": 4})
        sch.bind(inner, "threadIdx.x")
        before = sch.func
        with pytest.raises(ScheduleError, match="of one kernel are both bound to threadIdx.x"):
            sch.cooperative_fetch(copies[0], 4)
        assert sch.func is before

    def test_one_element(self, check):
        a = te.placeholder((3,), name="A")
        s = te.compute((), lambda: a[0] + a[2], name="S")
        b = te.compute((3,), lambda i: a[i] * s[()], name="B")
        sch = Schedule(te.create_prim_func([a, b], name="scaled"))
        sch.set_scope("S", 0, "shared")
        outer = sch.add_unit_loop(sch.get_loops("B")[0])
        sch.compute_at("S", outer)
        sch.bind(sch.get_loops("B")[1], "threadIdx.x")
        sch.cooperative_fetch("S")
        check(sch, compiled=False)
        verified(sch)


class TestCopiesInside:
    """cache_read of what is computed in the nest of its readers."""

    @pytest.mark.parametrize("shape", [(16, 8, 8), (7, 5, 9)])
    def test_tiles_to_registers(self, matmul, check, golden, shape):
        sch, copies, (inner, j) = blocks_of_rows(matmul(*shape))
        sch.bind(inner, "threadIdx.y")
        sch.bind(j, "threadIdx.x")
        for copy in copies:
            sch.cooperative_fetch(copy)
        rest = sch.get_loops("C")[-1]
        for name in ("A_shared", "B_shared"):
            copy = sch.cache_read("C", name, "local")
            assert sch.get_loops(copy)[:4] == sch.get_loops("C")[:4]
        sch.compute_at(copy, rest)
        if shape == (16, 8, 8):
            golden(str(sch.func), "registers")
        check(sch, compiled=False)
        verified(sch)

    def test_what_is_read_in_an_iteration(self, chain, check):
        sch = Schedule(chain())
        sch.compute_at("C", sch.get_loops("D")[0])
        copy = sch.cache_read("D", "C", "local")
        assert len(sch.get_loops(copy)) == 2
        check(sch)

    def test_refuses(self, chain, conv):
        sch = Schedule(chain())
        sch.compute_at("C", sch.get_loops("D")[0])
        sch.pipeline(sch.get_loops("D")[0], [0, 1])
        refused(sch.cache_read, "D", "C", match="writes 'C' in the same nest, and not in a stat")
        sch = Schedule(conv())
        sch.compute_at("pad", sch.get_loops("conv")[0])
        sch.rolling_buffer("pad")
        refused(sch.cache_read, "conv", "pad", match="not known to write all of what it reads of")
