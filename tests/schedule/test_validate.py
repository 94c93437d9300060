"""Debug mode: a primitive that breaks its promise is caught, blamed and cut down to size."""

from __future__ import annotations

import pytest

from schedule import REGISTRY, MiscompiledError, Schedule, ScheduleError
from schedule.debug.resize import capped, extents_of, resized, smaller_programs, work
from schedule.debug.validate import LIMIT, difference, instances
from schedule.primitive import method, primitive
from schedule.state import LoopRef, State
from tensorir import ForKind, parse, replace, te, verify


def hasty_parallel(state: State, loop: LoopRef) -> tuple[State, None]:
    """parallel without its check."""
    node = replace(state.loop(loop), kind=ForKind.PARALLEL)
    return state.replace(state.loop_path(loop), node), None


def greedy_split(state: State, loop: LoopRef, factor: int) -> tuple[State, LoopRef]:
    """Loses the tail: rounds down where split rounds up."""
    node = state.loop(loop)
    size = node.const_extent or 0
    shorter = replace(node, extent=node.extent // factor * factor)
    return state.replace(state.loop_path(loop), shorter if size > factor else node), LoopRef(loop)


@pytest.fixture
def buggy():
    made = [primitive(hasty_parallel), primitive(greedy_split)]
    yield {fn.__name__: method(fn) for fn in made}
    for fn in made:
        del REGISTRY[fn.__name__]


def test_good_schedules_pass(matmul, chain, conv):
    for make in (matmul, chain, conv):
        sch = Schedule(make(), debug=True)
        last = sch.get_blocks()[-1]
        loops = sch.get_loops(last)
        outer, inner = sch.split(loops[0], [None, 4])
        sch.unroll(inner)
        sch.parallel(outer)
        copy = sch.copy()
        copy.cache_read(last, 0, "local")
        assert len(copy.trace) == len(sch.trace) + 1


def test_a_race_is_caught(buggy, matmul):
    sch = Schedule(matmul(), debug=True)
    sch.split("i", [None, 2])
    sch.unroll("i_1")
    before, trace = sch.func, sch.trace
    with pytest.raises(MiscompiledError) as caught:
        buggy["hasty_parallel"](sch, "k")
    text = str(caught.value)
    assert "race in the parallel loop 'k': iteration 0 writes C[0, 0] and iteration 1" in text
    assert "This is a bug in the primitive, not in your request" in text
    assert caught.value.schedule.trace.as_python() == "sch.hasty_parallel('k')"
    assert sch.func is before and sch.trace is trace


def test_a_lost_tail_is_caught_in_a_large_program(buggy, matmul):
    sch = Schedule(matmul(1000, 300, 500), debug=True)
    sch.reorder("j", "i")
    buggy["greedy_split"](sch, "i", 1)
    with pytest.raises(MiscompiledError, match="of output 'C' is never written") as caught:
        buggy["greedy_split"](sch, "i", 64)
    found = caught.value.schedule
    assert len(found.trace) == 1 and work(found.definition) < 200


def test_replay_validates_too(buggy, matmul):
    plain = Schedule(matmul())
    buggy["hasty_parallel"](plain, "k")
    with pytest.raises(MiscompiledError):
        Schedule(matmul(), debug=True).apply(plain.trace)


def test_refusals_come_first(matmul):
    sch = Schedule(matmul(), debug=True)
    with pytest.raises(ScheduleError, match="is a reduction"):
        sch.parallel("k")


def test_symbolic_sizes():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis(m, name="k")
    c = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, c], name="rows"), debug=True)
    sch.split("i", [None, 4])
    sch.parallel("i_0")
    sch.split("k", [None, 3])
    assert len(sch.trace) == 3


def test_large_programs_are_shrunk(matmul):
    sch = Schedule(matmul(1024, 1024, 1024))
    i0, i1 = sch.split("i", [None, 8])
    j0, j1 = sch.split("j", [None, 32])
    sch.reorder(i0, j0, "k", i1, j1)
    sch.vectorize(j1)
    as_is, tiny = instances(sch)
    assert [s.name for s in as_is.trace.instructions] == [s.name for s in sch.trace.instructions]
    assert as_is.trace == sch.trace and "vectorized(3)" in str(tiny.func)
    for small in (as_is, tiny):
        assert work(small.func) <= LIMIT
        assert difference(small) is None


def test_padded_programs_are_shrunk(conv):
    """Extents of 4000 and 4002 depend on each other, in shapes and in indices."""
    func = capped(conv(4000, 3), 13)
    assert func is not None
    verify(func)
    assert max(extents_of(func)) == 15


@pytest.mark.parametrize("name", ["matmul", "chain", "conv"])
def test_smaller_programs_are_well_formed(name, request):
    func = request.getfixturevalue(name)()
    found = list(smaller_programs(func))
    assert found
    for program in found:
        verify(program)
        assert work(program) < work(func)


def test_resized_refuses_what_reads_outside(conv):
    func = conv(11, 3)
    assert resized(func, {13: 5}, False) is None
    assert resized(func, {3: 4}, False) is None


def test_inputs_that_mean_nothing_are_replaced():
    """Shifts by more than an element has bits have no value; by zero they do."""
    sch = Schedule(parse(SHIFT), debug=True)
    sch.split("i", [None, 2])
    sch.parallel("i_0")


SHIFT = """
@prim_func
def shift(A: i32[4], I: i32[4], C: i32[4]):
    for i in range(4):
        with block("C"):
            vi = spatial(4, i)
            C[vi] = A[vi] << I[vi] * i32(20)
"""
