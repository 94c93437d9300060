"""Nothing unproved is scheduled, tuned or lowered, whatever the way in."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from autotune import default_schedule, tune
from backends import build
from schedule import Schedule, Trace
from tensorir import Buffer, For, PrimFunc, Store, Var, VerifyError, const, parse, prove

TEXT = """
@prim_func
def f(A: f32[8], B: f32[8]):
    {attrs}
    for i in {loop}:
        with block("B"):
            vi = spatial(8, i)
            {body}
"""

LOOSE = """
@prim_func
def f(A: f32[8], B: f32[8]):
    for i in {loop}:
        {body}
"""


def program(loop="range(8)", body="B[vi] = A[vi]", attrs=""):
    text = TEXT.format(loop=loop, body=body, attrs=attrs)
    return parse(text.replace("    \n", "", 1) if not attrs else text)


def loose(loop="range(8)", body="B[i] = A[i]"):
    return parse(LOOSE.format(loop=loop, body=body))


TWICE = "B[vi] = A[vi]\n            B[7 - vi] = A[vi]"

NESTED = """
@prim_func
def f(A: f32[8, 8], B: f32[8, 8]):
    for i in {outer}(8):
        for j in {inner}(8):
            with block("B"):
                vi = spatial(8, i)
                vj = spatial(8, j)
                B[vi, vj] = A[vi, vj]
"""

CARRIED = """
@prim_func
def f(A: f32[8], B: f32[8]):
    T = alloc(f32[8])
    for h in range(8):
        with block("first"):
            vh = spatial(8, h)
            T[vh] = A[vh]
    for i in {kind}(8):
        with block("T"):
            vi = spatial(8, i)
            T[vi] = A[vi] + 1.0
        with block("B"):
            vi = spatial(8, i)
            B[vi] = T[7 - vi]
"""

ASKS = """
@prim_func
def f(A: f32[8], B: f32[8]):
    T = alloc(f32[9])
    for h in range(9):
        with block("first"):
            vh = spatial(9, h)
            T[vh] = 0.0
    for i in parallel(8):
        with block("T"):
            vi = spatial(8, i)
            T[vi] = A[vi] + 1.0
        with block("B"):
            vi = spatial(8, i)
            where({condition})
            B[vi] = A[vi]
"""

SAME = "write the same elements of 'B'|all write B"

UNPROVED = [
    (program(body="B[vi + 4] = A[vi]"), r"writes B\[vi \+ 4\] where index 0 can be 11"),
    (program(body="B[vi] = A[vi - 1]"), r"reads A\[vi - 1\] where index 0 can be -1"),
    (loose(body="B[i + 4] = A[i]"), r"writes B\[i \+ 4\] where index 0 can be 11"),
    (loose(body="if A[i] < 1.0:\n            B[i + 4] = A[i]"), "where index 0 can be 11"),
    (program("parallel(8)", "B[vi // 2] = A[vi]"), SAME),
    (program("vectorized(8)", "B[vi // 2] = A[vi]"), SAME),
    (program("parallel(8)", "B[0] = A[vi]"), SAME),
    (program("parallel(8)", TWICE), "may touch elements of 'B' that another one writes"),
    (loose("parallel(8)", "B[i // 2] = A[i]"), SAME),
    (loose("vectorized(8)", "if i < 7:\n            B[i] = B[i + 1]"), "may touch elements of 'B'"),
    (parse(CARRIED.format(kind="parallel")), "may touch elements of 'T'"),
    (parse(CARRIED.format(kind="vectorized")), "may touch elements of 'T'"),
    (parse(ASKS.format(condition="0.0 < T[i + 1]")), "may touch elements of 'T'"),
    (program('thread("threadIdx.x", 8)', "B[vi // 2] = A[vi]"), SAME),
    (program('thread("threadIdx.q", 8)'), "'threadIdx.q' of loop 'i' is no thread axis"),
    (parse(NESTED.format(outer="vectorized", inner="parallel")), "inside the vectorized loop 'i'"),
    (parse(NESTED.format(outer="vectorized", inner="vectorized")), "inside the vectorized loop"),
    (program('range(8, annotations={"prefetch": 3})'), "it takes a list such as"),
    (program('range(8, annotations={"spread_prefetch": [["B"]]})'), "it takes a list such as"),
    (program('unrolled(8, annotations={"unroll_limit": "x"})'), "an integer from 0 on"),
    (program('range(8, annotations={"tensorize": 1})'), "the name of an intrinsic"),
    (program('vectorized(8, annotations={"most": 4})'), "which lowering makes"),
    (program(attrs='attrs({"align": {"B": [0, 16, 0]}})'), "'B' is a parameter"),
    (program(attrs='attrs({"whole": ["B"]})'), "is made by lowering"),
    (program(attrs='attrs({"stream": "B"})'), "not a list of buffers"),
]


def assembled():
    """A program that no text ever was."""
    a, b, i = Buffer("A", (8,), "float32"), Buffer("B", (8,), "float32"), Var("i")
    return PrimFunc("f", (a, b), (), For(i, const(8), Store(b, (i + 1,), a[i])))


UNPROVED.append((assembled(), r"where index 0 can be 8"))

DOORS = {
    "schedule": Schedule,
    "default": default_schedule,
    "tune": lambda func: tune(func, trials=1),
    "replay": lambda func: Schedule(func).apply(Trace()),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("func", "message"), UNPROVED, ids=lambda v: v if type(v) is str else "")
def test_what_is_not_proved_is_refused_at_every_door(func, message, door):
    for _ in range(2):  # what was found once is found again
        with pytest.raises(VerifyError, match=message):
            DOORS[door](func)


ON_A_CPU = [row for row in UNPROVED if "thread(" not in str(row[0])]


@pytest.mark.parametrize(("func", "message"), ON_A_CPU, ids=lambda v: v if type(v) is str else "")
def test_what_is_not_proved_is_not_built(func, message):
    for constants in ((), ("A",)):
        with pytest.raises(VerifyError, match=message):
            build(func, constants=constants)


def test_what_only_looks_like_a_schedule_is_proved_in_range():
    with pytest.raises(VerifyError, match="can be 11"):
        build(types.SimpleNamespace(func=UNPROVED[0][0]))


def test_a_scheduled_program_can_be_printed_parsed_and_built():
    func = parse(NESTED.format(outer="range", inner="range"))
    sch = Schedule(func)
    sch.parallel("i")
    _, inner = sch.split("j", [None, 4])
    sch.vectorize(inner)
    again = parse(str(sch.func))
    prove(again)
    a = np.arange(64, dtype="float32").reshape(8, 8)
    np.testing.assert_array_equal(build(again)(a), a)
    np.testing.assert_array_equal(build(Schedule(again))(a), a)


def test_threads_with_memory_of_their_own_are_accepted():
    text = CARRIED.format(kind="parallel").replace("T[7 - vi]", "T[vi]")
    prove(parse(text))
    prove(loose("parallel(8)", "B[7 - i] = A[i]"))
    prove(loose("vectorized(8)", "if A[i] < 1.0:\n            B[i] = A[i]"))
    prove(parse(ASKS.format(condition="0.0 < T[i]")))


def test_a_proof_is_made_once(monkeypatch):
    calls, module = [], sys.modules["tensorir.verifier.program"]
    real = module.verify
    monkeypatch.setattr(module, "verify", lambda func: calls.append(func) or real(func))
    func = program()
    for _ in range(3):
        Schedule(func)
    assert calls == [func]
