"""What an iteration certainly has written: values that look as if they were of the present one.

In the programs of PASSED_ON an iteration of `t` reads what an earlier one wrote, which hulls of
what is written do not show. In those of KEPT it reads only what it wrote before.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from backends import build
from schedule import Schedule, ScheduleError
from tensorir import Alloc, For, Target, child_stmts, interpret, lower, parse
from tensorir.passes import lower_blocks, lower_init, place_buffers

SIZE = 24


def stage(loops, store, where=None, outer="t"):
    """A block in `loops`, as "a:4, b:8", below the loops `outer`; its variables are v and the name
    of the loop in `store`, and the loops themselves in `where` and in extents."""
    stage.count += 1
    pairs = [part.split(":") for part in loops.split(",")]
    names = [name.strip() for name, _ in pairs]
    own = {name: f"{name}{stage.count}" for name in names}
    lines = []
    for depth, (name, extent) in enumerate(pairs):
        extent = _named(extent, own)
        lines.append("    " * depth + f"for {own[name.strip()]} in range({extent}):")
    inside = "    " * len(pairs)
    lines.append(inside + f'with block("S{stage.count}"):')
    for name in [*outer.split(), *names]:
        lines.append(f"{inside}    v{name} = spatial({SIZE}, {own.get(name, name)})")
    if where:
        lines.append(f"{inside}    where({_named(where, own)})")
    lines.append(f"{inside}    {store}")
    return "\n".join(lines)


stage.count = 0


def _named(text, own):
    return re.sub(r"[a-z]+", lambda word: own.get(word.group(), word.group()), text)


def inside_u(*stages):
    """The stages in one loop `u`."""
    body = "\n".join(stages).splitlines()
    return "\n".join(["for u in range(8):", *("    " + line for line in body)])


def program(*stages, shape="24", count=8, outside=""):
    """The stages, one after the other in each iteration of `t`."""
    pad = "    " * (2 + bool(outside))
    body = "\n".join(pad + line for text in stages for line in text.splitlines())
    text = (
        "@prim_func\ndef f(A: f32[24, 24], C: f32[24, 24]):\n    attrs({'inout': ['C']})\n"
        f"    B = alloc(f32[{shape}])\n    M = alloc(f32[24])\n    P = alloc(i64[1])\n"
        + (f"    {outside}\n" if outside else "")
        + pad[4:]
        + f"for t in range({count}):\n{body}\n"
    )
    for name in "MP":
        if f"{name}[" not in body:
            text = re.sub(rf"    {name} = alloc.*\n", "", text)
    return parse(text)


def all_before(store="B[va] = A[va, 1]", loops="a:24"):
    """Everything, in the first iteration only."""
    return stage(loops, store, "t < 1")


READ = stage("q:24", "C[vt, vq] = B[vq]")


def rows_in_turn(last):
    """Three rows of 5 in each iteration of u, by loops of 16 that are told apart by sums; those of
    the iteration of u before are read."""
    return program(
        all_before("B[va, vb] = A[va, vb]", "a:24, b:5"),
        inside_u(
            stage(
                "a:4, b:4", "B[vu * 3 + (va * 4 + vb) // 5, (va * 4 + vb) % 5] = A[vt, vu] + 1.0",
                f"a * 4 + b < {last}", outer="t u",
            ),
            stage("k:3", "C[vt, vu * 3 - 3 + vk] = B[vu * 3 - 3 + vk, 4]", "u >= 1", outer="t u"),
        ),
        shape="24, 5",
    )  # fmt: skip


def rows_that_begin_apart(loops, where="0 <= b", read="a:3, q:5"):
    """Rows of five, each written from another iteration on: the first, the sixth and the third."""
    inside = "0 <= b - a * 5 % 8 and b - a * 5 % 8 < 5"
    return program(
        all_before("B[va, vb] = A[va, vb]", "a:3, b:5"),
        stage(loops, "B[va, vb - va * 5 % 8] = A[vt, va] + 1.0", f"{inside} and {where}"),
        stage(read, "C[vt, va * 5 + vq] = B[va, vq]"),
        shape="3, 5",
    )


def in_turns(last: int):
    """Elements by quotient and remainder, whose last row is written in part."""
    place, read = "B[7 - vt + (v{0} * 8 + v{1}) // 5, (v{0} * 8 + v{1}) % 5]", "vq * 8 + vr"
    return program(
        stage("a:3, b:8", place.format("a", "b") + " = A[vt, va * 8 + vb]", "a * 8 + b < 17"),
        stage(
            "q:3, r:8",
            f"C[vt, {read}] = select(vt >= 1 or {read} < 17, {place.format('q', 'r')}, 0.0)",
            f"q * 8 + r < {last}",
        ),
        shape="24, 24",
    )


PASSED_ON = {
    "places of the same form, beyond the condition": in_turns(19),
    "rows that begin apart, and end behind their loop": rows_that_begin_apart("a:3, b:9"),
    "rows that begin apart, with a hole": rows_that_begin_apart("a:3, b:12", "b != 4"),
    "rows that begin apart, with one left out": rows_that_begin_apart("a:2, b:12"),
    "the last digit of a sum": rows_in_turn(14),
    "rows of the first iteration, by two blocks": program(
        stage("a:3, b:4", "B[vt * 3 + va, vb] = 0.0", "t < 1"),
        stage("d:3, e:4", "B[vt * 3 + vd, ve] = B[vt * 3 + vd, ve] + A[vt, ve]", "t < 1"),
        stage("p:3, q:4", "C[vt, vq] = B[vp, vq]"),
        shape="3, 4",
    ),
    "a hole in boxes that overlap": program(
        stage("a:6", "B[vt * 2 + va] = A[vt, va]", "a != 3"),
        stage("u:1", "C[vt, vu] = select(vt >= 1, B[vt * 2 + 3], 0.0)"),
    ),
    "a hole at every other place": program(
        stage("a:6", "B[vt + va] = A[vt, va]", "a % 2 == 0"),
        stage("u:1", "C[vt, vu] = select(vt >= 1, B[vt + 3], 0.0)"),
    ),
    "a hole in the first of two rows": program(
        stage("a:2, b:4", "B[vt + va, vb] = A[vt, vb]", "b < 2 or 1 <= a"),
        stage("q:4", "C[vt, vq] = select(vq < 2 or vt >= 1, B[vt, vq], 0.0)"),
        shape="24, 24",
    ),
    "a hole that a later block fills": program(
        stage("a:6", "B[va] = A[vt, va]", "a != 3"),
        stage("q:6", "C[vt, vq] = select(vt >= 1, B[vq], 0.0)"),
        stage("u:1", "B[3] = A[vt, vu]"),
    ),
    "the end of the box, in an iteration of a loop outside": program(
        stage("a:2, b:4", "B[vt * 2 + va * 4 + vb] = A[vs, vb]", "a * 4 + b < 6", outer="s t"),
        stage("u:1", "C[vs, vt] = select(vs >= 1 and vt < 7, B[vt * 2 + 7], 0.0)", outer="s t"),
        outside="for s in range(3):",
    ),
    "what a loop inside writes later": program(
        inside_u(
            stage("x:1", "B[vu] = A[vt, vu]", outer="t u"),
            stage("x:1", "C[vt, vu] = select(vt >= 1, B[7 - vu], 0.0)", outer="t u"),
        )
    ),
    "what a loop inside writes after the read": program(
        stage("a:1", "B[0] = A[0, va]", "t < 1"),
        inside_u(
            stage("x:1", "C[vt, vu] = B[0]", outer="t u"),
            stage("x:1", "B[0] = A[vt, vu]", outer="t u"),
        ),
    ),
    "between two writes": program(
        all_before(), stage("a:2", "B[va] = A[vt, va]"), stage("a:2", "B[va + 22] = 1.0"), READ
    ),
    "in the corner of two boxes": program(
        all_before("B[va, vb] = A[va, vb]", "a:8, b:8"),
        stage("a:4, b:8", "B[va, vb] = A[vt, va]"),
        stage("a:8, b:4", "B[va, vb] = A[vt, vb]"),
        stage("a:8, b:8", "C[vt, va * 3 + vb // 3] = B[va, vb]"),
        shape="8, 8",
    ),
    "a hole where memory says so, which changes": program(
        stage("a:24", "M[va] = select(vt < 1, 1.0, A[vt, va])"),
        stage("a:24", "B[va] = A[vt, va]", "M[a] < 5.0"),
        READ,
    ),
    "in rows that a part of one begins and ends in": program(
        all_before("B[va, vb] = A[va, vb]", "a:6, b:4"),
        stage("a:2", "B[(vt * 3 + va) // 4, (vt * 3 + va) % 4] = A[vt, va]"),
        stage("q:4", "C[vt, vq] = B[vt * 3 // 4, vq]"),
        shape="6, 4",
    ),
    "at a place that is loaded, and changes": program(
        stage("x:1", "P[0] = vt"),
        stage("x:1", "B[min(max(P[0], 0), 23)] = A[vt, vx]"),
        stage("x:1", "P[0] = max(vt - 1, 0)"),
        stage("x:1", "C[vt, vx] = B[min(max(P[0], 0), 23)]"),
    ),
    "above a triangle": program(
        all_before("B[va, vb] = A[va, vb]", "a:8, b:8"),
        stage("a:8, b:a + 1", "B[va, vb] = A[vt, va]"),
        stage("a:8, b:8", "C[vt, va * 3 + vb // 3] = B[va, vb]"),
        shape="8, 8",
    ),
    "behind a row that grows": program(all_before(), stage("a:t + 1", "B[va] = 2.0"), READ),
    "in a loop that does not run each time": program(
        all_before(), stage("k:t // 2, a:24", "B[va] = A[vt, va] + 2.0"), READ
    ),
    "beside a diagonal with steps": program(
        all_before("B[va * 2, vb * 2] = A[va, vb]", "a:4, b:4"),
        stage("a:4", "B[va * 2, va * 2] = A[vt, va]"),
        stage("a:4, b:4", "C[vt, va * 4 + vb] = B[va * 2, vb * 2]"),
        shape="8, 8",
    ),
    "in the other half of what steps apart": program(
        all_before("B[va * 2] = A[vt, va]", "a:8"),
        stage("a:t + 1", "B[va * 2] = A[vt, va]"),
        stage("a:8", "C[vt, va] = B[va * 2]"),
    ),
}  # fmt: skip

KEPT = {
    "rows that begin apart": rows_that_begin_apart("a:3, b:12"),
    "a part of rows that begin apart": rows_that_begin_apart("a:3, b:12", read="a:2, q:3"),
    "digits of a sum, as far as its condition": rows_in_turn(15),
    "a hole, each element in one iteration": program(
        stage("a:3", "B[vt * 3 + va] = A[vt, va]", "a != 1"),
        stage("q:3", "C[vt, vq] = select(vq != 1, B[vt * 3 + vq], 0.0)"),
    ),
    "a hole that each iteration leaves": program(
        stage("a:6", "B[va] = A[vt, va]", "a != 3"),
        stage("q:6", "C[vt, vq] = select(vq != 3, B[vq], 0.0)"),
    ),
    "beside the hole": program(
        stage("a:6", "B[vt * 2 + va] = A[vt, va]", "a != 3"),
        stage("q:3", "C[vt, vq] = B[vt * 2 + vq]"),
    ),
    "digits of a sum of which one has one value": program(
        stage(
            "a:3, b:8", "B[vt * 2 + (va * 8 + vb) // 3, (va * 8 + vb) % 3] = A[vt, vb]",
            "a * 8 + b < 6",
        ),
        stage("q:2, r:3", "C[vt, vq * 3 + vr] = B[vt * 2 + vq, vr]"),
        shape="24, 24",
    ),
    "the first of digits": program(
        stage("a:2, b:4", "B[vt * 2 + va * 4 + vb] = A[vt, vb]", "a * 4 + b < 6"),
        stage("q:6", "C[vt, vq] = B[vt * 2 + vq]"),
    ),
    "whole digits": program(
        stage("a:3, b:4", "B[vt * 2 + va * 4 + vb] = A[vt, vb]", "a < 2"),
        stage("q:8", "C[vt, vq] = B[vt * 2 + vq]"),
    ),
    "what a loop inside wrote before": program(
        stage("a:2", "B[va] = A[vt, va]"),
        inside_u(
            stage("x:1", "B[vu + 2] = A[vt, vu]", outer="t u"),
            stage("k:3", "C[vt, vu * 3 + vk] = B[vu + vk]", outer="t u"),
        ),
    ),
    "two boxes side by side": program(
        stage("a:4, b:8", "B[va, vb] = A[vt, va]"),
        stage("a:4, b:8", "B[va + 4, vb] = A[vt, vb]"),
        stage("a:8, b:8", "C[vt, va * 3 + vb // 3] = B[va, vb]"),
        shape="8, 8",
    ),
    "a triangle": program(
        stage("a:8, b:a + 1", "B[va, vb] = A[vt, va]"),
        stage("a:8, b:a + 1", "C[vt, va * 3 + vb // 3] = B[va, vb]"),
        shape="8, 8",
    ),
    "a part of a triangle": program(
        stage("a:8, b:a + 1", "B[va, vb] = A[vt, va]"),
        stage("a:4, b:5", "C[vt, va * 5 + vb] = B[va + 4, vb]"),
        shape="8, 8",
    ),
    "with steps": program(
        stage("a:4, b:4", "B[va * 2, vb * 2] = A[vt, va]"),
        stage("a:4, b:4", "C[vt, va * 4 + vb] = B[va * 2, vb * 2]"),
        shape="8, 8",
    ),
}  # fmt: skip


def same_everywhere(func):
    """Lowered and compiled, the program has the values that it has as written."""
    a = np.random.default_rng(0).integers(1, 9, (SIZE, SIZE)).astype("float32")
    zeros = np.zeros((SIZE, SIZE), "float32")
    (wanted,) = interpret(func, a, zeros)
    (flat,) = interpret(lower(func, Target(vector_bits=128)), a.ravel(), zeros.ravel())
    np.testing.assert_array_equal(flat.reshape(wanted.shape), wanted)
    return a, zeros, wanted


def loops_around(func, name):
    """The names of the loops around the allocation of a buffer, after lowering."""

    def search(stmt, loops):
        if isinstance(stmt, Alloc) and stmt.buffer.name == name:
            return loops
        inside = [*loops, stmt.name] if isinstance(stmt, For) else loops
        found = [search(child, inside) for child in child_stmts(stmt)]
        return next((names for names in found if names is not None), None)

    return search(place_buffers(lower_blocks(lower_init(func))).body, [])


@pytest.mark.parametrize("name", PASSED_ON)
def test_what_another_iteration_wrote(name):
    func = PASSED_ON[name]
    same_everywhere(func)
    assert "t" not in loops_around(func, "B")
    with pytest.raises(ScheduleError, match="loop 't'"):
        Schedule(func).parallel("t")


@pytest.mark.parametrize("name", KEPT)
def test_what_the_iteration_wrote(name):
    func = KEPT[name]
    same_everywhere(func)
    assert "t" in loops_around(func, "B")
    sch = Schedule(func)
    sch.parallel("t")
    same_everywhere(sch.func)


def test_places_of_the_same_form_are_kept():
    """As far as the same condition, though what is written is no box."""
    func = in_turns(17)
    same_everywhere(func)
    assert "t" in loops_around(func, "B")


def test_compiled():
    """What is read of memory that has no value is seldom the same."""
    func = PASSED_ON["a hole in boxes that overlap"]
    a, zeros, wanted = same_everywhere(func)
    np.testing.assert_array_equal(build(func)(a, zeros.copy()), wanted)
