"""unswitch: tiles at the edge of a symbolic size without conditions in their loops."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import default_schedule
from backends import build
from tensorir import PrimFunc, interpret, ops, parse, te
from tensorir.passes.conditions.unswitch import unswitch
from tensorir.stmt import For, If
from tensorir.visit import walk


def func_of(body: str) -> PrimFunc:
    head = "@prim_func\ndef f(A: f32[n], B: i64[100], C: f32[100]):\n"
    return parse(head + "\n".join("    " + line for line in body.strip("\n").splitlines()))


def check(body: str, expected: str) -> None:
    text = str(unswitch(func_of(body)))
    assert "\n".join(line[4:] for line in text.splitlines()[2:]) == expected.strip("\n")


def test_a_tile_is_written_out_for_each_number_of_rows() -> None:
    check(
        """
for i in range(4):
    if i * 2 + 1 < n:
        C[i * 2 + 1] = 0.0
    if i * 2 < n:
        C[i * 2] = 0.0
    for k in range(8):
        if i * 2 + 1 < n:
            C[i * 2 + 1] = C[i * 2 + 1] + A[k]
        if i * 2 < n:
            C[i * 2] = C[i * 2] + A[k]
""",
        """
for i in range(4):
    if i * 2 + 1 < n:
        C[i * 2 + 1] = 0.0
        C[i * 2] = 0.0
        for k in range(8):
            C[i * 2 + 1] = C[i * 2 + 1] + A[k]
            C[i * 2] = C[i * 2] + A[k]
    elif i * 2 < n:
        C[i * 2] = 0.0
        for k in range(8):
            C[i * 2] = C[i * 2] + A[k]
""",
    )


def test_rows_are_told_apart_by_either_side_of_their_conditions() -> None:
    """Where the last of several tasks begins is known, and then it is the limits that differ."""
    check(
        """
for i in range(11):
    for k in range(8):
        if i < 6:
            C[i * 6] = C[i * 6] + A[k]
        if i < 5:
            C[i * 6 + 4] = C[i * 6 + 4] + A[k]
        if i + 2 < 6:
            C[i * 6 + 5] = C[i * 6 + 5] + A[k]
""",
        """
for i in range(11):
    if i + 2 < 6:
        for k in range(8):
            C[i * 6] = C[i * 6] + A[k]
            C[i * 6 + 4] = C[i * 6 + 4] + A[k]
            C[i * 6 + 5] = C[i * 6 + 5] + A[k]
    elif i < 5:
        for k in range(8):
            C[i * 6] = C[i * 6] + A[k]
            C[i * 6 + 4] = C[i * 6 + 4] + A[k]
    elif i < 6:
        for k in range(8):
            C[i * 6] = C[i * 6] + A[k]
""",
    )


@pytest.mark.parametrize("kind", ["u8", "i8", "i16", "u32", "f32"])
def test_numbers_that_wrap_or_round_are_in_no_order(kind: str) -> None:
    """253 + 3 is less than 5 as u8, and 253 + 1 is not; nor are indices compared with such."""
    head = f"@prim_func\ndef f(s: {kind}, n: i64, A: f32[8], C: f32[100]):\n"
    lines = ["for k in range(8):", "    if 3 < n:", "        C[0] = A[k]"]
    for n in (1, 3):
        lines += [f"    if s + {n} < 5:", f"        C[{n}] = C[{n}] + A[k]"]
    func = parse(head + "\n".join("    " + line for line in lines))
    assert unswitch(func) is func


def test_what_has_no_condition_is_in_every_copy() -> None:
    check(
        """
for k in range(8):
    if 3 < n:
        C[3] = C[3] + A[k]
    C[k] = 1.0
""",
        """
if 3 < n:
    for k in range(8):
        C[3] = C[3] + A[k]
        C[k] = 1.0
else:
    for k in range(8):
        C[k] = 1.0
""",
    )


OTHERS = {
    "no loop repeats it": "if 3 < n:\n    C[3] = 1.0\nif 4 < n:\n    C[4] = 1.0",
    "depends on the loop": "for k in range(8):\n    if k < n:\n        C[k] = 1.0",
    "reads memory": "for k in range(8):\n    if B[3] < n:\n        C[k] = 1.0",
    "of another kind": "for k in range(8):\n    if n == 3:\n        C[k] = 1.0",
    "two sides": (
        "for k in range(8):\n    if 3 < n:\n        C[k] = 1.0\n    else:\n        C[k] = 2.0"
    ),
    "not ordered": (
        "for k in range(8):\n    if 3 < n:\n        C[k] = 1.0\n"
        "    if 3 < n * n:\n        C[k] = 2.0"
    ),
    "threads": (
        "for i in parallel(4):\n    for k in range(8):\n        if 3 < n:\n"
        "            C[i * 8 + k] = 1.0"
    ),
    "too long": "for k in range(8):\n"
    + "\n".join(f"    if {c} < n:\n        C[{c}] = A[k]" for c in range(40)),
}


@pytest.mark.parametrize("why", [w for w in OTHERS if w != "threads"])
def test_other_loops_stay_as_they_are(why: str) -> None:
    func = func_of(OTHERS[why])
    assert unswitch(func) is func


def beside_a_whole_tile(rows: int) -> str:
    """Rows that each have a condition, in a loop that has all of them without one elsewhere."""
    columns = range(0, 48, 16)
    whole = [f"C[{c + r}] = C[{c + r}] + 2.0" for r in range(rows) for c in columns]
    edge = [
        f"if {r} < n:\n            C[{c + r}] = C[{c + r}] + 2.0"
        for r in range(rows) for c in columns
    ]  # fmt: skip
    lines = ["for k in range(8):", "    if 0 < n // 16:", *(f"        {line}" for line in whole)]
    return "\n".join([*lines, "    if n // 16 <= 0:", *(f"        {line}" for line in edge)])


def test_a_whole_tile_is_decided_on_ahead_of_the_rows_of_another_one() -> None:
    """With all of its statements in each, there would be too much for a copy of each number."""
    func = func_of(beside_a_whole_tile(12))
    made = unswitch(func)
    loops = [s for s in walk(made.body) if isinstance(s, For)]
    assert len(loops) == 1 + 12
    assert not any(isinstance(s, If) for loop in loops for s in walk(loop))
    for n in (1, 5, 12, 15, 16, 20):
        given = np.zeros(n, np.float32), np.zeros(100, np.int64), np.zeros(100, np.float32)
        (found,), (wanted,) = interpret(made, *given), interpret(func, *given)
        np.testing.assert_array_equal(found, wanted)
        assert np.count_nonzero(wanted) == 3 * min(n, 12)


def test_conditions_and_their_opposites_about_different_places_are_left() -> None:
    text = beside_a_whole_tile(12).replace("n // 16 <= 0", "n // 17 <= 0")
    func = func_of(text)
    assert unswitch(func) is func


def test_there_is_one_copy_of_a_parallel_loop() -> None:
    text = str(unswitch(func_of(OTHERS["threads"])))
    assert text.count("in parallel(4)") == 1
    assert text.index("in parallel(4)") < text.index("if 3 < n") < text.index("for k")


def product(m: object, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    return te.create_prim_func([a, b, ops.matmul(a, b, name="c")], name="product")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 6, 7, 11, 12, 257, 258, 263])
def test_every_number_of_rows_has_its_loop(rows: int) -> None:
    func = product(te.var("m"), 70, 33)
    kernel = build(default_schedule(func, "c -threads=2"), "c -threads=2")
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((rows, 33)).astype(np.float32)
    b = rng.standard_normal((33, 70)).astype(np.float32)
    out = np.full((rows, 70), np.nan, np.float32)
    kernel(a, b, out)
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 7, 31, 32, 33, 47])
def test_tasks_of_several_tiles_have_a_loop_for_every_number_of_rows(rows: int) -> None:
    x, w = te.placeholder((te.var("m"), 96), name="x"), te.placeholder((200, 96), name="w")
    func = te.create_prim_func([x, w, ops.linear(x, w)], name="product")
    kernel = build(default_schedule(func, "c -threads=2", ("w",)), "c -threads=2")
    rng = np.random.default_rng(rows)
    a, b = (rng.integers(-4, 5, (size, 96)).astype(np.float32) for size in (rows, 200))
    out = np.full((rows, 200), np.nan, np.float32)
    kernel(a, b, out)
    np.testing.assert_array_equal(out, a @ b.T)


def test_nan_beside_the_last_row_stays_there() -> None:
    kernel = build(default_schedule(product(te.var("m"), 64, 16), "c"), "c")
    a, b = np.ones((7, 16), np.float32), np.ones((16, 64), np.float32)
    a[6] = np.nan
    out = np.zeros((7, 64), np.float32)
    kernel(a, b, out)
    assert np.isnan(out[6]).all() and (out[:6] == 16).all()
