"""How loops are cut so that conditions disappear."""

from __future__ import annotations

import pytest

from tensorir import For, ForKind, PrimFunc, Var
from tensorir.passes import partition_loops
from tensorir.passes.facts.conditions import comparisons, guards
from tensorir.passes.facts.inequality import solve
from tensorir.text.parser import parse, parse_expr
from tensorir.visit import variables, walk


def lines(body: str) -> str:
    return "\n".join("    " + line for line in body.strip("\n").splitlines())


def func_of(body: str) -> PrimFunc:
    head = "@prim_func\ndef f(A: f32[n], B: f32[1000], C: f32[1000]):\n"
    return parse(head + lines(body))


def partition(body: str) -> str:
    text = str(partition_loops(func_of(body)))
    return "\n".join(line[4:] for line in text.splitlines()[2:])


def check(body: str, expected: str) -> None:
    assert partition(body) == expected.strip("\n")


def test_tail_of_one_iteration() -> None:
    check(
        """
for i in range(4):
    for j in unrolled(3):
        if i * 3 + j < 10:
            C[i * 3 + j] = 0.0
""",
        """
for i in range(3):
    for j in unrolled(3):
        C[i * 3 + j] = 0.0
C[9] = 0.0
""",
    )


def test_tail_of_three_levels_is_cut_again() -> None:
    check(
        """
for i in range(3):
    for j in range(8):
        for k in range(6):
            if i * 48 + j * 6 + k < 100:
                C[i * 48 + j * 6 + k] = 0.0
""",
        """
for i, j, k in grid(2, 8, 6):
    C[i * 48 + j * 6 + k] = 0.0
for k in range(4):
    C[96 + k] = 0.0
""",
    )


def test_parallel_loop_keeps_its_iterations() -> None:
    check(
        """
for i in parallel(3):
    for j in vectorized(4):
        if i * 4 + j < 10:
            C[i * 4 + j] = 0.0
""",
        """
for i in parallel(3):
    if i < 2:
        for j in vectorized(4):
            C[i * 4 + j] = 0.0
    else:
        for j in vectorized(2):
            C[8 + j] = 0.0
""",
    )


def test_both_dimensions_of_a_fused_parallel_loop() -> None:
    text = partition(
        """
for f in parallel(6):
    for i in range(5):
        for j in vectorized(12):
            if f // 2 * 5 + i < 14 and f % 2 * 12 + j < 20:
                C[f // 2 * 100 + i * 20 + f % 2 * 12 + j] = 0.0
"""
    )
    assert text.count("if") == 3 and "and" not in text
    assert "if f // 2 < 2:" in text and "if f % 2 < 1:" in text
    assert "for j in vectorized(8):" in text and "grid(4, 8)" not in text


def test_what_stands_beside_a_condition_is_not_copied() -> None:
    check(
        """
for f in parallel(4):
    with alloc(P, f32[8]):
        for i in range(8):
            if f * 8 + i < 30:
                P[i] = A[f * 8 + i]
        for i in range(8):
            C[f * 8 + i] = P[7 - i]
""",
        """
for f in parallel(4):
    with alloc(P, f32[8]):
        if f < 3:
            for i in range(8):
                P[i] = A[f * 8 + i]
        else:
            for i in range(6):
                P[i] = A[24 + i]
        for i in range(8):
            C[f * 8 + i] = P[7 - i]
""",
    )


def test_register_tiles_stay_with_their_statements() -> None:
    text = partition(
        """
for f in parallel(4):
    with alloc(T, f32[8], scope="local"):
        for i in range(8):
            T[i] = 0.0
        for i in range(8):
            if f * 8 + i < 30:
                C[f * 8 + i] = T[i]
"""
    )
    assert text.count("T[i] = 0.0") == 2


def test_padding_is_cut_at_both_ends() -> None:
    check(
        """
for i in range(10):
    for r in range(3):
        C[i] = C[i] + select(1 <= i + r and i + r < 11, B[i + r - 1], 0.0)
""",
        """
C[0] = C[0] + 0.0
for r in range(2):
    C[0] = C[0] + B[r + 1 - 1]
for i, r in grid(8, 3):
    C[i + 1] = C[i + 1] + B[i + 1 + r - 1]
for r in range(2):
    C[9] = C[9] + B[9 + r - 1]
C[9] = C[9] + 0.0
""",
    )


def test_symbolic_size() -> None:
    check(
        """
for i in range((n + 3) // 4):
    for j in vectorized(4):
        if i * 4 + j < n:
            C[i * 4 + j] = 0.0
""",
        """
for i in range(n // 4):
    for j in vectorized(4):
        C[i * 4 + j] = 0.0
for i in range((n + 3) // 4 - n // 4):
    for j in vectorized(n % 4 - i * 4, annotations={"most": 4}):
        C[(i + n // 4) * 4 + j] = 0.0
""",
    )


def test_extent_follows_an_outer_variable() -> None:
    check(
        """
for i in range(8):
    for j in range(8):
        if j <= i:
            C[i * 8 + j] = 0.0
""",
        """
for i in range(8):
    for j in range(i + 1):
        C[i * 8 + j] = 0.0
""",
    )


def test_lower_limit_shifts_the_loop() -> None:
    check(
        """
for j in range(8):
    if 3 <= j:
        C[j] = 0.0
""",
        """
for j in range(5):
    C[j + 3] = 0.0
""",
    )


def test_condition_that_never_holds() -> None:
    check("for j in range(8):\n    if 9 < j:\n        C[j] = 0.0\n", "pass")
    check(
        """
for i in range(2):
    C[i] = 0.0
    for j in range(8):
        if i * 8 + j < 0:
            C[j] = 0.0
""",
        "for i in range(2):\n    C[i] = 0.0",
    )


def test_other_side_of_a_condition() -> None:
    check(
        """
for j in range(8):
    if j < 6:
        C[j] = 0.0
    else:
        C[j] = 1.0
""",
        """
for j in range(6):
    C[j] = 0.0
for j in range(2):
    C[j + 6] = 1.0
""",
    )


def test_seldom_condition_stays() -> None:
    body = """
for k in range(8):
    if k < 1:
        B[k] = 0.0
    C[k] = 0.0
"""
    func = func_of(body)
    assert partition_loops(func) is func


def test_condition_on_memory_stays() -> None:
    func = func_of("for j in range(8):\n    if i64(B[0]) + j < 6:\n        C[j] = 0.0\n")
    assert partition_loops(func) is func


def test_thread_loops_keep_their_extent() -> None:
    func = func_of('for t in thread("threadIdx.x", 8):\n    if t < 6:\n        C[t] = 0.0\n')
    assert partition_loops(func) is func


def test_copies_are_bounded() -> None:
    names = "abcdefgh"
    body = ""
    for depth, v in enumerate(names):
        body += "    " * depth + f"for {v} in range(5):\n"
    for depth, v in enumerate(names):
        body += "    " * (8 + depth) + f"for {v}_1 in range(2):\n"
    condition = " and ".join(f"{v} * 2 + {v}_1 < 9" for v in names)
    body += "    " * 16 + f"if {condition}:\n" + "    " * 17 + "C[0] = 1.0\n"
    assert 4 <= partition(body).count("C[0] = 1.0") <= 24


VI, VJ = Var("i"), Var("j")


@pytest.mark.parametrize(
    "text, sure, possible",
    [
        ("i * 4 + j < 10", (None, 2), (None, 3)),
        ("i * 4 + j <= 11", (None, 3), (None, 3)),
        ("1 <= i + j", (1, None), (-2, None)),
        ("not i + j < 1", (1, None), (-2, None)),
        ("3 - i < j", (4, None), (1, None)),
        ("not 5 <= 0 - i - j", (-4, None), (-7, None)),
        ("(i * 4 + j) // 2 + 1 <= 9", (None, 4), (None, 5)),
        ("3 <= (i * 4 + j) // 2", (2, None), (1, None)),
        ("0 - (i * 4 - j + 9) // 2 // 5 < 2", (-4, None), (-4, None)),
    ],
)
def test_solve(text: str, sure: object, possible: object) -> None:
    condition = parse_expr(text, {"i": VI, "j": VJ})
    found = solve(condition, VI, {VJ: None}, lambda e: (0, 3))
    assert found is not None
    assert [(r.low, r.high) for r in found] == [sure, possible]
    for i in range(-10, 12):
        holds = [eval(text, {"i": i, "j": j}) for j in range(4)]
        assert found[0].covers(i, i + 1) == all(holds)
        assert found[1].misses(i, i + 1) == (not any(holds))


@pytest.mark.parametrize(
    "text", ["i == 3", "i * j < 3", "i // 2 + i < 3", "j < 3", "i < 3 or j < 2"]
)
def test_solve_gives_up(text: str) -> None:
    condition = parse_expr(text, {"i": VI, "j": VJ})
    assert solve(condition, VI, {VJ: None}, lambda e: (0, 3)) is None


def test_guards_of_a_sequence_are_those_of_all_parts() -> None:
    func = func_of(
        """
for i in range(4):
    if i < 2 and 0 < i:
        B[i] = 0.0
    if i < 2:
        for j in range(3):
            C[j] = 0.0
"""
    )
    assert [repr(c) for c in guards(func.body)] == ["i < 2"]
    assert {repr(c) for c in comparisons(func.body)} == {"i < 2", "0 < i"}


def test_iterations_at_the_end_that_do_nothing_are_gone() -> None:
    # Each statement has a condition of its own; none holds for the last iterations of t.
    check(
        """
for i in range(2):
    for t in range(8):
        for j in unrolled(4):
            if i * 32 + t * 4 + j < 50:
                B[i * 32 + t * 4 + j] = 0.0
        for k in unrolled(4):
            if i * 32 + t * 4 + k < 50:
                C[i * 32 + t * 4 + k] = 0.0
""",
        """
for t in range(8):
    for j in unrolled(4):
        B[t * 4 + j] = 0.0
    for k in unrolled(4):
        C[t * 4 + k] = 0.0
for t in range(4):
    for j in unrolled(4):
        B[32 + t * 4 + j] = 0.0
    for k in unrolled(4):
        C[32 + t * 4 + k] = 0.0
for j in unrolled(2):
    B[48 + j] = 0.0
for k in unrolled(2):
    C[48 + k] = 0.0
""",
    )


def test_iterations_that_do_something_else_stay() -> None:
    text = partition(
        """
for t in range(8):
    if t < 3:
        B[t] = 0.0
    if t < 5:
        C[t] = 0.0
    A[t] = 1.0
"""
    )
    assert "A[t + 5] = 1.0" in text or "A[5 + t] = 1.0" in text


def test_what_the_other_side_of_a_condition_does_counts() -> None:
    text = partition(
        """
for t in range(8):
    for j in range(3):
        if t * 2 + j < 5:
            B[t] = 0.0
        else:
            if t * 3 + j < 14:
                C[t] = 0.0
"""
    )
    assert text.endswith("for j in range(2):\n    C[4] = 0.0")


LOOPS = {
    "rows around lanes": "for h in range(4):\n    for w in range(4):\n",
    "lanes around rows": "for w in range(4):\n    for h in range(4):\n",
    "tasks of rows": "for h in parallel(4):\n    for w in range(4):\n",
    "tasks of both": "for f in parallel(8):\n    for w_1 in range(2):\n",
    "tasks of ends of rows": "for f in parallel(16):\n    for w_1 in range(1):\n",
}


@pytest.mark.parametrize("around", LOOPS)
@pytest.mark.parametrize("statements", [3, 126, 1000])
def test_no_lane_looks_for_itself(around: str, statements: int) -> None:
    """Padding of a tile of several rows: copies are for lanes first, whatever loops are around,
    and for rows as far as there are some left."""
    loops = LOOPS[around]
    h, w = ("h", "w") if "f in" not in loops else ("(f // 2)", "(f % 2 * 2 + w_1)")
    if "16" in loops:
        h, w = "(f // 4)", "(f % 4)"
    row, lane = f"{h} * 10 + i", f"{w} * 60 + j + s"
    read = f"select(1 <= {row} and {row} < 40 and 1 <= {lane} and {lane} < 241, A[{lane}], 0.0)"
    body = f"""
        for i in unrolled({statements // 3}):
            for s in unrolled(3):
                for j in vectorized(60):
                    B[{row}] = B[{row}] + {read}
"""
    text = "@prim_func\ndef f(A: f32[n], B: f32[1000], C: f32[1000]):\n" + lines(loops + body[1:])
    made = partition_loops(parse(text))
    lanes = {s.var for s in walk(made.body) if isinstance(s, For) and s.kind is ForKind.VECTORIZED}
    left = [variables(c) for c in comparisons(made.body)]
    assert not [used for used in left if not lanes.isdisjoint(used) and used - lanes]  # no mask
    if statements == 3 and "parallel" not in loops:
        assert not [used for used in left if used - lanes]  # nine copies are as many as it takes


def test_copies_of_other_lengths_are_cut_by_the_longest() -> None:
    """Loops around a main part and a tail of lanes: what holds in the tail is not known of both."""
    text = partition(
        """
for i in range(64):
    for j_0 in range(2):
        for j_1 in vectorized(64):
            if j_0 * 64 + j_1 < 92:
                C[i * 92 + j_0 * 64 + j_1] = select(i + j_1 < 70, A[i], 1.0)
"""
    )
    whole, *tails = [part for part in text.split("for j_1 in ") if part.startswith("vectorized(")]
    assert whole.startswith("vectorized(64)") and tails
    assert "select(i + j_1 < 70, " in whole
