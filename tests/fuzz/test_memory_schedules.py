"""Random schedules that start with memory primitives, which random requests seldom reach.

What they leave to lowering (circular buffers, versions, prefetches) is run by the interpreter too.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from schedule import Schedule, ScheduleError
from tensorir import Seq, Target, child_stmts, interpret, lower, reference, te, verify

sys.path.insert(0, str(Path(__file__).parent))
from random_schedules import Stress, elementwise, matmul_bias, padded_conv  # noqa: E402


def stencil_chain(n, m, r):
    """C sums rows of B, and D reads both."""
    taps = min(r, 4)
    a = te.placeholder((n + taps, m), name="A")
    b = te.compute((n + taps, m), lambda i, j: a[i, j] + 1.0, name="B")
    k = te.reduce_axis(taps, name="k")
    c = te.compute((n, m), lambda i, j: te.sum(b[i + k, j], axis=k), name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] * 2.0 - b[i, j], name="D")
    return te.create_prim_func([a, d], name="stencil_chain")


def attempt(sch, name, *args):
    try:
        getattr(sch, name)(*args)
    except ScheduleError:
        return 0
    return 1


def pipelines(sch, pick):
    """Pipeline what can be; inits are taken out of the loops first."""
    done = 0
    for loop in sch.state.loop_names():
        if not isinstance(sch.state.loop(loop).body, Seq):
            continue
        for block in sch.get_child_blocks(loop):
            attempt(sch, "decompose_reduction", block, loop)
        stages = [0]
        for _ in child_stmts(sch.state.loop(loop).body)[1:]:
            stages.append(stages[-1] + pick([0, 1, 1, 2]))
        done += attempt(sch, "pipeline", loop, stages)
    return done


def prepared(pick):
    """A schedule that had producers moved and then memory primitives; how many were accepted."""
    make = pick([elementwise, matmul_bias, padded_conv, stencil_chain, stencil_chain])
    sch = Schedule(make(pick([3, 5, 8, 13]), pick([2, 5, 8]), pick([1, 2, 3, 5, 8])))
    for _ in range(pick([0, 1, 2])):
        attempt(sch, "split", pick(sch.state.loop_names()), [None, pick([2, 3, 4])])
    if pick([True, False]):
        attempt(sch, "cache_read", pick(sch.get_blocks()), 0, pick(["local", "global"]))
    for block in sch.get_blocks():
        users = sch.get_consumers(block)
        loops = sch.get_loops(pick(users)) if users else []
        if loops:
            attempt(sch, "compute_at", block, pick(loops[:3]))
    done = 0
    for name in [pick(["rolling_buffer", "double_buffer", "pipeline", "prefetch"]) for _ in "123"]:
        if name == "pipeline":
            done += pipelines(sch, pick)
            continue
        for block in sch.get_blocks():
            loops = sch.get_loops(block)
            if name == "prefetch":
                done += attempt(sch, name, block, 0, pick(loops), pick([1, 2])) if loops else 0
            else:
                done += attempt(sch, name, block)
    return sch, done


def compare(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.reshape(b.shape), b, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(40))
def test_memory_primitives_keep_the_meaning(seed):
    rng = random.Random(seed)
    sch, _ = prepared(rng.choice)
    Stress(rng.choice).run(sch, rng.randrange(8))
    func = sch.definition
    verify(sch.func)
    values = np.random.default_rng(seed)
    inputs = [values.integers(-3, 4, p.const_shape).astype(p.dtype) for p in func.inputs]
    expected = reference(func, *inputs)
    compare(interpret(sch.func, *inputs), expected)
    flat = lower(sch.func, Target(vector_bits=512))
    compare(interpret(flat, *[x.ravel() for x in inputs]), expected)


def test_they_are_accepted():
    assert sum(prepared(random.Random(seed).choice)[1] for seed in range(40)) >= 20


def test_stages_of_a_pipeline_in_a_merged_loop():
    """The memory between stages was allocated in each iteration once both were in one loop."""
    sch = Schedule(elementwise(3, 5, 1))
    sch.compute_at("B", "i_C")
    sch.pipeline("i_C", [0, 1])
    sch.merge(*(sch.get_loops(block)[1] for block in ("B", "C")))
    a = np.arange(15, dtype="float32").reshape(3, 5)
    (found,) = interpret(lower(sch.func, Target(vector_bits=128)), a.ravel())
    np.testing.assert_array_equal(found.reshape(3, 5), 3 * a)


def test_split_reduction_waits_for_its_init():
    """The init of a reduction over a pipelined loop never ran: its first iteration is idle."""
    sch = Schedule(matmul_bias(2, 3, 8))
    copy = sch.cache_read("C", "B", "local")
    outer, inner = sch.split("k", [None, 4])
    sch.reorder(outer, inner, "j")
    sch.compute_at(copy, outer)
    with pytest.raises(ScheduleError, match="decompose_reduction first"):
        sch.pipeline(outer, [0, 1])
