"""What users of TVM type: its names of arguments, copies for several readers, `sch.mod`."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from refusal import refused

from backends import build
from schedule import REGISTRY, Schedule
from schedule.tvm_names import TVM_NAMES
from tensorir import TensorIRError, int_value, parse, te


def readers():
    """C and D read A, E does not."""
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 8), lambda i, j: a[i, j] * b[i, j], name="C")
    d = te.compute((8, 4), lambda i, j: a[j, i] - 1.0, name="D")
    e = te.compute((8, 4), lambda i, j: d[i, j] * 2.0, name="E")
    return te.create_prim_func([a, c, e], name="readers")


REWRITTEN = """
@prim_func
def rewritten(A: f32[4], D: f32[4], E: f32[4]):
    B = alloc(f32[4])
    for i in range(4):
        with block("B"):
            vi = spatial(4, i)
            B[vi] = A[vi]
    for i_D in range(4):
        with block("D"):
            vi = spatial(4, i_D)
            D[vi] = B[vi]
    for i_1 in range(4):
        with block("B_1"):
            vi = spatial(4, i_1)
            B[vi] = A[vi] * 2.0
    for i_E in range(4):
        with block("E"):
            vi = spatial(4, i_E)
            E[vi] = B[vi]
"""


class TestSeveralReaders:
    def test_one_copy_for_all_that_are_named(self, check, golden):
        sch = Schedule(readers())
        copy = sch.cache_read("D", "A", "global", consumer_blocks=["B", "C"])
        golden(str(sch.func), "cache_read_for_three")
        assert sch.get_consumers(copy) == ["B", "C", "D"]
        check(sch)

    @pytest.mark.parametrize("others", [[], ["C"], ["D", "C"], ["C", "B"], ["B", "B"]])
    def test_others_read_the_buffer_itself(self, check, others):
        sch = Schedule(readers())
        copy = sch.cache_read("B", 0, "global", others)
        assert set(sch.get_consumers(copy)) == {"B", *others}
        check(sch, compiled=False)

    def test_the_copy_moves_to_where_its_readers_are(self, check):
        sch = Schedule(readers())
        sch.compute_at("B", "i_C")
        copy = sch.cache_read("C", "A", "local", consumer_blocks=["B"])
        sch.compute_at(copy, "i_C")
        check(sch)

    def test_refuses(self):
        sch = Schedule(readers())
        refused(sch.cache_read, "B", "A", "local", ["E"], match="block 'E' reads D")
        refused(sch.cache_read, "B", "A", "local", ["F"], match="no block 'F'")
        sch = Schedule(parse(REWRITTEN))
        refused(sch.cache_read, "D", "B", "local", ["E"], match="'B' between its readers")


def test_a_copy_between_two_writers(check):
    sch = Schedule(parse(REWRITTEN))
    sch.cache_read("D", "B", "local")
    sch.cache_read("E", "B", "local")
    check(sch)


class TestNames:
    def test_both_names_are_one_argument(self):
        ours, theirs = Schedule(readers()), Schedule(readers())
        ours.cache_read("C", "A", scope="global")
        theirs.cache_read("C", read_buffer_index="A", storage_scope="global")
        ours.cache_write("C", buffer=0, scope="local")
        theirs.cache_write("C", write_buffer_index=0, storage_scope="local")
        ours.set_scope("B", buffer=0, scope="local")
        theirs.set_scope("B", buffer_index=0, storage_scope="local")
        assert str(ours.func) == str(theirs.func)
        assert ours.trace.dumps() == theirs.trace.dumps()

    def test_one_argument_is_given_once(self):
        sch = Schedule(readers())
        twice = "'scope' is given twice: 'storage_scope' is what TVM calls it"
        refused(sch.cache_read, "C", "A", storage_scope="local", scope="local", match=twice)
        refused(sch.parallel, "i", storage_scope="local", match="argument 'storage_scope'")

    def test_each_name_is_of_some_primitive_and_hides_none(self):
        names = {p for fn in REGISTRY.values() for p in inspect.signature(fn).parameters}
        assert set(TVM_NAMES.values()) <= names
        assert not set(TVM_NAMES) & names


class TestUnitLoops:
    @pytest.mark.parametrize("keep", [False, True])
    def test_compute_at(self, check, keep):
        sch = Schedule(readers())
        sch.compute_at("B", "i_C", preserve_unit_loops=keep)
        own = [f for f in sch.get_loops("B") if f not in sch.get_loops("C")]
        extents = [int_value(sch.state.loop(f).extent) for f in own]
        assert extents == ([1, 8] if keep else [8])
        check(sch)

    def test_every_variable_has_its_loop(self, check, golden):
        sch = Schedule(readers())
        sch.reverse_compute_at("E", sch.get_loops("D")[-1], preserve_unit_loops=True)
        assert len(sch.get_loops("E")) == 4
        golden(str(sch.func), "preserve_unit_loops")
        check(sch)


class TestModule:
    def test_it_is_the_program(self, capsys):
        sch = Schedule(readers())
        sch.compute_inline("B")
        mod = sch.mod
        assert mod["main"] is mod["readers"] is sch.func
        assert mod.functions == {"readers": sch.func}
        assert mod.script() == str(mod) == str(sch.func)
        mod.show()
        assert capsys.readouterr().out.rstrip() == str(sch.func).rstrip()
        with pytest.raises(TensorIRError, match="no function 'other'; it has one, 'readers'"):
            mod["other"]

    def test_it_is_built(self):
        a = np.arange(32, dtype="float32").reshape(4, 8)
        c, e = build(Schedule(readers()).mod)(a)
        np.testing.assert_array_equal(c, a * (a + 1))
        np.testing.assert_array_equal(e, (a.T - 1) * 2)
