"""Values that pass from one iteration to the next: their memory lives outside of the loop.

Each program is run as written and lowered, and compiled; the loop that passes something on is
never parallel.
"""

from __future__ import annotations

import numpy as np
import pytest

from backends import build
from schedule import Schedule, ScheduleError
from tensorir import Alloc, For, Target, child_stmts, interpret, lower, parse, verify
from tensorir.passes import lower_blocks, lower_init, place_buffers
from tensorir.passes.facts.made import Finds

HEAD = """
@prim_func
def f(A: f32[8, 8], C: f32[8, 8]):
    T = alloc(f32[8, 8])
    for i in range(8):
"""

WRITE = """
        for {loop} in range(8):
            with block("{name}"):
                vi = spatial(8, i)
                vp = spatial(8, {loop})
                {where}
                T[{row}, {column}] = {value}
"""

READ = """
        for q in range(8):
            with block("C"):
                vi = spatial(8, i)
                vq = spatial(8, q)
                C[vi, vq] = {value}
"""


def write(where="", row="vi", column="vp", name="T", loop="p", value="A[vi, vp]"):
    return WRITE.format(
        where=where, row=row, column=column, name=name, loop=loop, value=value
    )  # fmt: skip


def again(where="", **changes):
    return write(where, name="U", loop="u", **changes)


def program(*writes, value):
    text = HEAD + "".join(writes) + READ.format(value=value)
    return parse("\n".join(line for line in text.splitlines() if line.strip()))


def depth_of(func, name="T"):
    """How many loops are around the allocation."""

    def search(stmt, loops):
        if isinstance(stmt, Alloc) and stmt.buffer.name == name:
            return loops
        inside = loops + isinstance(stmt, For)
        found = [search(child, inside) for child in child_stmts(stmt)]
        return next((n for n in found if n is not None), None)

    return search(place_buffers(lower_blocks(lower_init(func))).body, 0)


CARRIED = {
    "read of an earlier row under a condition": program(
        write(), value="select(vi >= 1, T[vi - 1, vq], 0.0)"
    ),
    "condition that reads memory": program(
        write(), value="select(A[0, 0] > 0.0, T[max(vi - 1, 0), vq], 1.0)"
    ),
    "other side of a condition": program(
        write(), value="select(vi < 1, 0.0, T[vi - 1, vq] + T[vi, vq])"
    ),
    "written in some iterations": program(
        write("where(i % 2 == 0)", row="0"), value="T[0, vq]"
    ),
    "partly written in later iterations": program(
        write("where(i <= p)", row="0"), value="T[0, vq]"
    ),
    "written once, and a part of it again": program(
        write("where(p < 2)", row="0"), again("where(i < 1)", row="0"), value="T[0, vq]"
    ),
    "gaps that the next iteration leaves": program(
        write("where(i < 1)", row="0"),
        again("where(1 <= i)", row="0", column="vp // 4 * 4 + 1"),
        value="T[0, vq]",
    ),
    "a column, and then a diagonal through it": program(
        write("where(i < 1)", row="vp", column="0"), again(row="vp"), value="T[vq, 0]"
    ),
}  # fmt: skip

KEPT = {
    "own row": program(write(), value="T[vi, vq]"),
    "own row under a condition": program(write(), value="select(vi >= 1, T[vi, vq], 0.0)"),
    "shifted within the row": program(
        write(), value="select(vq >= 1, T[vi, vq - 1], 0.0) + select(vq < 7, T[vi, vq + 1], 0.0)"
    ),
    "both under the same condition": program(
        write("where(i % 2 == 0)"), value="select(vi % 2 == 0, T[vi, vq], 0.0)"
    ),
    "written as far as it is read": program(
        write("where(p <= i)"), value="select(vq <= vi, T[vi, vq], 0.0)"
    ),
    "zeros, and values in some of their places": program(
        write(value="0.0"), again("where(i < u)"), value="T[vi, vq]"
    ),
}  # fmt: skip


def inputs():
    return np.random.default_rng(0).integers(1, 9, (8, 8)).astype("float32")


def same_everywhere(func):
    verify(func)
    a = inputs()
    (wanted,) = interpret(func, a)
    (flat,) = interpret(lower(func, Target(vector_bits=128)), a.ravel())
    np.testing.assert_array_equal(flat.reshape(8, 8), wanted)
    return wanted


@pytest.mark.parametrize("name", CARRIED)
def test_values_for_later_iterations(name):
    func = CARRIED[name]
    np.testing.assert_array_equal(build(func)(inputs()), same_everywhere(func))
    assert depth_of(func) == 0
    with pytest.raises(ScheduleError, match="loop 'i'"):
        Schedule(func).parallel("i")
    with pytest.raises(ScheduleError, match="loop 'i'"):
        Schedule(func).vectorize("i")


@pytest.mark.parametrize("name", KEPT)
def test_values_of_one_iteration(name):
    func = KEPT[name]
    same_everywhere(func)
    assert depth_of(func) == 1
    sch = Schedule(func)
    sch.parallel("i")
    same_everywhere(sch.func)


@pytest.mark.parametrize("name", CARRIED)
def test_a_loop_of_one_iteration_passes_nothing_on(name, monkeypatch):
    """What it reads need not be found: proofs of that were most of placing tiles of one step."""
    text = str(CARRIED[name])
    for old, new in (("range(8)", "range(1)"), ("(8, i)", "(1, i)"), ("C: f32[8", "C: f32[1")):
        assert old in text
        text = text.replace(old, new, 1 if old == "range(8)" else -1)
    func = parse(text)
    (wanted,), (flat,) = (
        interpret(f, *a)
        for f, *a in (
            (func, inputs()), (lower(func, Target(vector_bits=128)), inputs().ravel()),
        )
    )  # fmt: skip
    np.testing.assert_array_equal(flat, wanted[0])
    monkeypatch.setattr(Finds, "_finds", None)
    assert depth_of(func) >= 1


SUM = """
@prim_func
def sums(A: f32[8], C: f32[8]):
    T = alloc(f32[1])
    for i in range(8):
        with block("T_init"):
            vi = spatial(8, i)
            where(i < 1)
            T[0] = 0.0
        with block("T"):
            vi = spatial(8, i)
            T[0] = T[0] + A[vi]
        with block("C"):
            vi = spatial(8, i)
            C[vi] = T[0]
"""


def test_running_sum():
    """The update writes what it reads, but it does so afterwards."""
    func = parse(SUM)
    a = inputs()[0]
    np.testing.assert_array_equal(interpret(func, a)[0], np.cumsum(a))
    np.testing.assert_array_equal(build(func)(a), np.cumsum(a))
    with pytest.raises(ScheduleError, match="loop 'i'"):
        Schedule(func).parallel("i")


def test_what_stages_of_a_pipeline_pass_on_is_told_by_intervals(monkeypatch):
    """To find that no write stores what is read took most of placing a tile."""
    sch, found, finds = Schedule(program(write(), value="T[vi, vq] + 1.0")), [], Finds._finds
    sch.pipeline("i", [0, 1])

    def counted(self, place, depth):
        found.append(depth)
        return finds(self, place, depth)

    monkeypatch.setattr(Finds, "_finds", counted)
    assert depth_of(sch.func) == 0 and not any(found)
    same_everywhere(sch.func)


@pytest.mark.parametrize("name", [*CARRIED, *KEPT])
def test_what_intervals_tell_is_never_found(name, monkeypatch):
    asked = Finds.self_contained

    def both(self, depth):
        contained = asked(self, depth)
        assert not (contained and depth and self.passes_on(depth))
        return contained

    monkeypatch.setattr(Finds, "self_contained", both)
    assert depth_of((CARRIED | KEPT)[name]) in (0, 1)
