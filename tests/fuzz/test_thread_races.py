"""No accepted schedule with threads has a race, or reads memory that other threads made."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from schedule import Schedule, ScheduleError
from tensorir import ForKind, parse

sys.path.insert(0, str(Path(__file__).parent))
import loop_requests  # noqa: E402
from random_schedules import Stress, elementwise, matmul_bias, padded_conv, row_max  # noqa: E402
from thread_races import race, unseen  # noqa: E402

STEPS = [
    ("split", Stress.split),
    ("compute_at", Stress.compute_at),
    ("reverse_compute_at", Stress.reverse_compute_at),
    ("cache_read", lambda stress, sch: (stress.block(sch), 0, stress.pick(["shared", "local"]))),
    ("cache_write", lambda stress, sch: (stress.block(sch), 0, stress.pick(["shared", "local"]))),
    ("reorder", Stress.reorder),
    ("merge", loop_requests.merge),
    ("partition", loop_requests.partition),
    ("decompose_reduction", Stress.block_and_loop),
    ("set_scope", loop_requests.set_scope),
    *[("bind", loop_requests.bind)] * 6,
]


def random_threads(seed):
    stress = Stress(random.Random(seed).choice)
    make = stress.pick([elementwise, matmul_bias, padded_conv, row_max])
    sch = Schedule(make(*(stress.pick([2, 3, 4, 5]) for _ in range(3))))
    for _ in range(14):
        name, request = stress.pick(STEPS)
        arguments = request(stress, sch)
        if arguments is not None:
            try:
                getattr(sch, name)(*arguments)
            except ScheduleError:
                continue
    return sch


@pytest.mark.parametrize("seed", range(60))
def test_no_races(seed):
    sch = random_threads(seed)
    assert race(sch.func) is None, sch.trace.as_python()
    assert unseen(sch.func) is None, sch.trace.as_python()


def test_threads_are_drawn():
    kinds = [
        sch.state.loop(name).kind
        for sch in map(random_threads, range(30))
        for name in sch.state.loop_names()
    ]
    assert kinds.count(ForKind.THREAD) > 30


def two_stages(first, second, index, scope, around=""):
    """A program in which a stage reads what another one writes, with loops as given."""
    return parse(f"""
@prim_func
def two(A: f32[2, 4], D: f32[2, 4]):
    S = alloc(f32[2, 4], scope="{scope}")
    for b in {around}2):
        for i in {first}4):
            with block("S"):
                vb = spatial(2, b)
                vi = spatial(4, i)
                S[vb, vi] = A[vb, vi]
        for j in {second}4):
            with block("D"):
                vb = spatial(2, b)
                vj = spatial(4, j)
                D[vb, vj] = S[{index}]
""")


X, BLOCK = 'thread("threadIdx.x", ', 'thread("blockIdx.x", '


def test_the_checker_sees_races_and_lost_values():
    fine = two_stages(X, X, "vb, 3 - vj", "shared", BLOCK)
    assert race(fine) is None and unseen(fine) is None
    assert race(two_stages(X, X, "1 - vb, vj", "global", BLOCK))
    assert race(two_stages(BLOCK, BLOCK, "vb, 3 - vj", "global", "range("))
    assert unseen(two_stages(X, X, "1 - vb, vj", "shared", BLOCK))
    assert unseen(two_stages(X, X, "vb, 3 - vj", "local", BLOCK))
    text = str(two_stages(X, X, "0, vj", "shared", X.replace(".x", ".y")))
    assert race(parse(text.replace("S[vb, vi]", "S[0, vi]")))
