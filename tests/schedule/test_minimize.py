"""minimize finds the shortest schedule of the smallest program that shows an injected bug."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from schedule import REGISTRY, Schedule, Trace, minimize
from schedule.debug.minimize import as_script, replay
from schedule.instruction import Instruction
from schedule.primitive import primitive, run
from schedule.state import LoopRef, State
from tensorir import TensorIRError, VerifyError, const, interpret, replace


def off_by_one(state: State, loop: LoopRef) -> tuple[State, None]:
    """Breaks its promise: the loop loses its last iteration where it has four or more."""
    node = state.loop(loop)
    size = node.const_extent
    if size is None or size < 4:
        return state, None
    return state.replace(state.loop_path(loop), replace(node, extent=const(size - 1))), None


@pytest.fixture
def buggy():
    primitive(off_by_one)
    yield "off_by_one"
    del REGISTRY["off_by_one"]


def apply(sch, name, **args):
    state, outputs = run(sch.state, name, args)
    sch.commit(state, Instruction(name, args, outputs))


def wrong(sch):
    """Whether the schedule computes something else than its definition."""
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, p.const_shape).astype(p.dtype) for p in sch.definition.inputs]
    expected = interpret(sch.definition, *inputs)
    try:
        return any(
            (a != b).any() for a, b in zip(interpret(sch.func, *inputs), expected, strict=True)
        )
    except VerifyError:
        return True


def long_schedule(func):
    sch = Schedule(func)
    sch.split("i", [None, 8])
    sch.split("j", [None, 2, 4])
    sch.reorder("i_0", "j_0", "k", "j_1", "i_1", "j_2")
    sch.cache_write("C", 0, "local")
    sch.unroll("j_1")
    sch.parallel("i_0")
    apply(sch, "off_by_one", loop="i_1")
    sch.vectorize("j_2")
    return sch


def test_a_long_trace_becomes_one_step(buggy, matmul):
    sch = long_schedule(matmul(20, 16, 5))
    assert wrong(sch)
    found = minimize(sch, wrong)
    assert wrong(found.schedule)
    assert [step.name for step in found.trace.instructions] == ["off_by_one"]
    assert max(s for p in found.definition.params for s in p.const_shape) == 4
    assert found.tried < 300


def test_sizes_of_a_maker_shrink(buggy, matmul):
    sch = long_schedule(matmul(20, 16, 5))
    found = minimize(sch.trace, wrong, make=matmul, sizes={"m": 20, "n": 16, "k": 5})
    assert found.sizes == {"m": 4, "n": 1, "k": 1}
    assert str(found.definition) == str(matmul(4, 1, 1))


def test_steps_that_the_failure_needs_stay(matmul):
    """The failure here: a loop of three is vectorized below a parallel one."""

    def fails(sch):
        text = str(sch.func)
        return "vectorized(3)" in text and "in parallel(" in text

    sch = Schedule(matmul(9, 12, 5))
    sch.split("k", [None, 2])
    sch.split("j", [None, 6])
    sch.split("j_1", [None, 3])
    sch.vectorize("j_1_1")
    sch.unroll("k_1")
    sch.parallel("i")
    found = minimize(sch, fails)
    assert [s.name for s in found.trace.instructions] == ["split", "vectorize", "parallel"]
    assert fails(Schedule(found.definition).apply(found.trace))


def test_arguments_shrink(matmul):
    def fails(sch):
        return any(s.name == "split" and s.args["factors"][-1] > 3 for s in sch.trace.instructions)

    sch = Schedule(matmul(64, 64, 5))
    sch.split("i", [None, 4, 16])
    found = minimize(sch, fails)
    assert found.trace.as_python().startswith("sch.split('i', factors=[4])")


def test_the_script_runs_on_its_own(matmul, tmp_path):
    sch = Schedule(matmul(4, 3, 2))
    sch.split("i", [None, 3])
    sch.reorder("j", "i_0")
    path = tmp_path / "found.py"
    path.write_text(as_script(sch))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(sch.func).strip()


def test_replay_follows_names(matmul):
    sch = Schedule(matmul())
    sch.split("i", [2, 3])
    sch.split("i_1", [None, 2])
    sch.unroll("i_1_1")
    again = replay(matmul(), sch.trace.instructions, frozenset({0, 1}))
    assert again.trace.as_python() == "sch.unroll('i')"


def test_replay_gives_what_was_recorded(conv):
    sch = Schedule(conv())
    outer, _ = sch.split("i_conv", [None, 4])
    sch.compute_at("pad", outer)
    again = replay(conv(), sch.trace.instructions)
    assert again.trace == sch.trace and str(again.func) == str(sch.func)


def test_what_does_not_fail_is_refused(matmul):
    with pytest.raises(TensorIRError, match="does not fail the predicate"):
        minimize(Schedule(matmul()), lambda sch: False)
    with pytest.raises(TensorIRError, match="needs func="):
        minimize(Trace(), lambda sch: True)
