"""barriers: as many waits as are needed, of a warp where that is enough, and none more."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from gpu_programs import BLOCK, X, Y, check_passes, program, run, tiled_matmul

from tensorir import (
    Buffer,
    For,
    Seq,
    Store,
    Sync,
    Target,
    VerifyError,
    lower,
    map_children,
    parse,
    seq,
    walk,
)
from tensorir.arith import Analyzer
from tensorir.arith.linear import to_expr
from tensorir.expr import Var, binary, const
from tensorir.passes.facts.periods import period
from tensorir.passes.gpu import touches
from tensorir.passes.gpu.barriers import _Kernel, barriers
from tensorir.passes.gpu.touches import Touch, Touched
from tensorir.passes.rewriting import with_body
from tensorir.vector_expr import Broadcast, Ramp


def syncs(func):
    return [s.scope for s in walk(func.body) if isinstance(s, Sync)]


def without(stmt, sync, scope=None):
    if stmt is sync:
        return Seq(()) if scope is None else Sync(scope)
    made = map_children(stmt, lambda child: without(child, sync, scope))
    return seq(*made.stmts) if isinstance(made, Seq) else made


def assert_all_needed(func, *arrays):
    """Without any one of them there is a race; and where only lanes of a warp wait, instead of
    all threads, too."""
    for sync in [s for s in walk(func.body) if isinstance(s, Sync)]:
        weaker = [None] if sync.scope == "warp" else [None, "warp"]
        for scope in weaker:
            with pytest.raises(VerifyError, match="race|never written"):
                run(with_body(func, without(func.body, sync, scope)), *arrays)


def arrays_of(func):
    return [np.zeros(p.const_shape, p.dtype) for p in func.inputs]


@pytest.mark.parametrize("shape", [(32, 48, 8), (30, 33, 7)])
def test_two_for_each_step_of_a_matmul(shape):
    low = check_passes(tiled_matmul(*shape, tile=32, step=4))
    assert syncs(low) == ["block", "block"]
    assert_all_needed(low, *arrays_of(low))


def kernel(body, threads=64, buffer="f32[64]", rows=4):
    """`body` in a loop over `threads` threads, lowered."""
    func = program(body, f"A: f32[{rows}, 64], D: f32[{rows}, 64]", [("S", buffer, "shared")])
    low = check_passes(func)
    assert_all_needed(low, *arrays_of(low))
    return syncs(low)


COPY = """
for b in {block}4):
    for k in range(2):
        for i in {x}64):
            {first}
        for j in {x}64):
            {second}
"""


def two(first, second, **kwargs):
    return kernel(COPY.format(block=BLOCK, x=X, first=first, second=second), **kwargs)


def test_own_elements_need_none():
    assert two("S[i] = A[b, i]", "D[b, j] = S[j]") == []
    assert two("S[i // 8 * 8 + i % 8] = A[b, i]", "D[b, j] = S[j]") == []


def test_conditions_on_loops_that_do_not_cancel():
    """Iterations are told apart by the parity of k only; the first ones do nothing."""
    found = kernel(
        f"""
for b in {BLOCK}2):
    for k in range(8, annotations={{"pipeline": [1, 0]}}):
        for j in {X}64):
            if 4 <= k:
                D[b, j] = S[63 - (j ^ k % 2)]
        for i in {X}64):
            if 3 <= k:
                S[i ^ k % 2] = A[b, i]
""",
        rows=2,
    )
    assert set(found) == {"block"}


def test_lanes_of_one_warp():
    assert two("S[i] = A[b, i]", "D[b, j] = S[j // 32 * 32 + 31 - j % 32]") == ["warp", "warp"]
    assert two("S[i] = A[b, i]", "D[b, j] = S[63 - j]") == ["block", "block"]


VERSIONS = """
@prim_func
def f(A: f32[320], D: f32[64]):
    for t in thread("threadIdx.x", 64):
        with alloc(S, f32[64 * COUNT], scope="shared"):
            for k in range(5):
                S[k % COUNT * 64 + t] = A[k * 64 + t]
                sync("block")
                D[t] = S[k % COUNT * 64 + 63 - t]
                sync("block")
"""


@pytest.mark.parametrize(("count", "found"), [(1, 2), (2, 1), (3, 1), (4, 1)])
def test_versions_taken_in_turn(count, found):
    """An iteration writes another version than the last one reads; when it comes to that one, all
    have waited once more."""
    low = barriers(
        parse(VERSIONS.replace("64 * COUNT", str(64 * count)).replace("COUNT", str(count)))
    )
    assert syncs(low) == ["block"] * found
    assert_all_needed(low, *arrays_of(low))


FOLDED = """
@prim_func
def f(A: f32[1920], D: f32[64]):
    for t in thread("threadIdx.x", 64):
        with alloc(S, f32[384], scope="shared"):
            for k in range(10):
                for n in range(3):
                    S[(k * 8 + ROW) % 16 * 24 + COLUMN] = A[k * 192 + n * 64 + t]
                    sync("block")
                sync("block")
                D[t] = S[k % 2 * 192 + 191 - t]
                sync("block")
"""


def test_pieces_of_a_version_are_waited_for_together():
    """Versions that rows tell by what is left of them: steps and pieces one by one would be too
    many to try, all pieces of a step at once are not."""
    row, column = "(n * 64 + t) // 24", "(n * 64 + t) % 24"
    low = barriers(parse(FOLDED.replace("ROW", row).replace("COLUMN", column)))
    (pieces,) = [s for s in walk(low.body) if isinstance(s, For) and s.name == "n"]
    assert syncs(low) == ["block"] and not syncs(with_body(low, pieces))
    assert_all_needed(low, *arrays_of(low))


OFTEN = """
                for p in range(64):
                    for q in range(32):
                        {to} = {to} + S[{of}]
"""
READS = {
    "elements": ("D[t]", "k % 2 * 192 + (p * 32 + q + t) % 192"),
    "vectors": ("D[ramp(t * 4, 1, 4)]", "ramp(k % 2 * 192 + (p * 32 + q + t) % 48 * 4, 1, 4)"),
    "parts in turns": ("D[t]", "p % 3 * 128 + k % 2 * 64 + (q + t) % 64"),
    "beyond": ("D[t]", "(k % 2 * 192 + (p * 32 + q + t) % 193) % 384"),
}


@pytest.mark.parametrize("read", READS)
def test_versions_that_are_read_too_often_to_be_tried(read):
    """All elements that they may be are known: those of the version that is written meanwhile are
    others, but for what is read beyond, however versions lie beside each other."""
    to, of = READS[read]
    text = FOLDED.replace("ROW", "(n * 64 + t) // 24").replace("COLUMN", "(n * 64 + t) % 24")
    if read == "parts in turns":
        place = "(k * 8 + (n * 64 + t) // 24) % 16 * 24 + (n * 64 + t) % 24"
        at = f"({place}) % 192 // 64 * 128 + ({place}) // 192 * 64 + ({place}) % 64"
        text = text.replace(f"S[{place}]", f"S[{at}]")
        assert at in text
    plain = "                D[t] = S[k % 2 * 192 + 191 - t]\n"
    assert plain in text
    func = parse(
        text.replace(plain, OFTEN.format(to=to, of=of)[1:]).replace("D: f32[64", "D: f32[256")
    )
    assert len(syncs(barriers(func))) == (2 if read == "beyond" else 1)


def test_parts_that_never_meet():
    """Half of the threads write one half and the others read the other one: nobody waits."""
    text = COPY.format(
        block=BLOCK,
        x=X,
        first="if i < 32:\n                S[i] = A[b, i]",
        second="if j < 32:\n                D[b, j] = S[j]\n"
        "            if 32 <= j:\n                D[b, j] = A[b, j]",
    )
    assert kernel(text) == []


def test_a_loop_inside_waits_outside():
    """Four pieces are copied; the wait is after the loop, not in it."""
    text = f"""
for b in {BLOCK}4):
    for n in range(4):
        for i in {X}64):
            S[n * 64 + i] = A[n, i]
    for j in {X}64):
        D[b, j] = S[255 - j]
"""
    func = program(text, "A: f32[4, 64], D: f32[4, 64]", [("S", "f32[256]", "shared")])
    low = check_passes(func)
    assert syncs(low) == ["block"]
    inside = [s for s in walk(low.body) if isinstance(s, For) and s.name == "n"]
    assert not syncs(with_body(func, inside[0]))


def test_each_piece_is_used_in_the_loop():
    text = f"""
for b in {BLOCK}4):
    for n in range(4):
        for i in {X}64):
            S[i] = A[n, i]
        for j in {X}64):
            S[64 + j] = S[63 - j]
        for j_1 in {X}64):
            D[b, j_1] = S[127 - j_1]
"""
    assert kernel(text, buffer="f32[128]") == ["block", "block"]


def test_global_memory_counts_where_it_is_written():
    text = f"""
for b in {BLOCK}4):
    for i in {X}64):
        D[b, i] = A[b, i]
    for j in {X}64):
        E[b, j] = D[b, 63 - j] + A[b, 63 - j]
"""
    func = program(text, "A: f32[4, 64], D: f32[4, 64], E: f32[4, 64]")
    assert syncs(check_passes(func)) == ["block"]
    alone = program(
        text.replace("D[b, 63 - j]", "D[b, j]"), "A: f32[4, 64], D: f32[4, 64], E: f32[4, 64]"
    )
    assert syncs(check_passes(alone)) == []


def test_symbolic_rows():
    text = f"""
for b in {BLOCK}n):
    for k in range(n):
        for i in {X}64):
            D[b, i] = A[k, i]
        for j in {X}64):
            E[b, j] = D[b, 63 - j]
"""
    func = program(text, "A: f32[n, 64], D: f32[n, 64], E: f32[n, 64]")
    low = check_passes(func, arrays=[np.ones((3, 64), "float32")], n=3)
    assert syncs(low) == ["block", "block"] * 2  # of the kernel for places of 32 bits, and of 64


def test_under_uniform_conditions():
    text = f"""
for b in {BLOCK}4):
    for k in range(3):
        if k < 1:
            for i in {X}64):
                S[i] = A[b, i]
        else:
            for u in {X}64):
                D[b, u] = S[(u + k) % 64]
"""
    again = text.replace("if k < 1", "if k % 2 < 1").replace("range(3)", "range(4)")
    assert kernel(again) == ["block", "block"]


def test_two_axes_make_one_number_of_a_thread():
    """Rows of 32 threads are warps; rows of 16 are half of one."""
    for width, found in ((32, "warp"), (16, "warp"), (64, "block")):
        text = f"""
for b in {BLOCK}1):
    for y in {Y}2):
        for x in {X}{width}):
            S[y * {width} + x] = A[y, x]
    for v in {Y}2):
        for u in {X}{width}):
            D[v, u] = S[v * {width} + {width - 1} - u]
"""
        func = program(text, "A: f32[2, 64], D: f32[2, 64]", [("S", "f32[128]", "shared")])
        low = barriers_of(func)
        assert low == [found]


def barriers_of(func):
    return syncs(lower(func, Target.parse("cuda")))


def test_what_cannot_be_tried_is_waited_for():
    """Places that are read from memory may be anywhere."""
    text = """
@prim_func
def f(A: f32[64], J: i64[64], D: f32[64]):
    for t in thread("threadIdx.x", 64):
        with alloc(S, f32[64], scope="shared"):
            S[t] = A[t]
            sync("block")
            D[t] = S[J[t]]
"""
    assert syncs(barriers(parse(text))) == ["block"]


def test_a_wait_in_a_loop_that_may_not_run():
    text = f"""
for b in {BLOCK}1):
    for i in {X}64):
        S[i] = A[0, i]
    for k in range(n):
        for j in {X}64):
            D[k, j] = A[k, j]
    for u in {X}64):
        D[0, u] = S[63 - u]
"""
    func = program(text, "A: f32[n, 64], D: f32[n, 64]", [("S", "f32[64]", "shared")])
    low = check_passes(func, arrays=[np.ones((2, 64), "float32")], n=2)
    assert syncs(low) == ["block"] * 2


def test_a_loop_that_runs_once_has_no_next_iteration():
    text = f"""
for b in {BLOCK}2):
    for k in range(1):
        for i in {X}64):
            S[i] = A[b, i]
        for u in {X}64):
            D[b, u] = S[63 - u]
"""
    func = program(text, "A: f32[2, 64], D: f32[2, 64]", [("S", "f32[64]", "shared")])
    assert syncs(check_passes(func)) == ["block"]


def test_places_that_repeat_are_seen_in_vectors():
    """As of a swizzled tile with versions, whose elements one thread stores apart."""
    k, t = Var("k", "int64"), Var("t", "int64")
    rows = Ramp(k % 2 * 128 + t % 4 * 32, const(8), 4)
    place = binary("*", binary("^", rows, Broadcast(t % 4, 4)), Broadcast(const(8), 4))
    place = to_expr(Analyzer().linear(place))  # as pairs of places are compared
    assert period(k, place) == 2
    assert period(k, to_expr(Analyzer().linear(k + t))) is None


@pytest.mark.parametrize("place", ["b // 3 % 8 // 7", "b % 24 // 3 // 7", "b // 3 * 3 % 8 // 7"])
def test_what_later_blocks_alone_touch_is_waited_for(place):
    """Quotients of a block repeat as late as the block does: of three remainders by eight none has
    threads meet."""
    text = f"""
for b in {BLOCK}24):
    for t in {X}64):
        S[t] = A[b, t]
        S[t + 64] = A[b, t]
    for u in {X}64):
        D[b, u] = S[u + {place}]
"""
    func = program(text, "A: f32[24, 64], D: f32[24, 64]", [("S", "f32[128]", "shared")])
    assert syncs(check_passes(func)) == ["block"]


def assert_waits_once_outside_of_loops(low):
    assert syncs(low) == ["block"]
    loops = [s for s in walk(low.body) if isinstance(s, For) and s.thread is None]
    assert not any(isinstance(s, Sync) for loop in loops for s in walk(loop.body))


@pytest.mark.parametrize(
    "begin", ["b * 5 + r * 3", "b // 3 * 70 + r * 5", "b // 9 * 7 + b % 9 * 3 + r"]
)
def test_rows_that_are_copied_from_where_sectors_begin_are_waited_for_once(begin):
    """No thread writes what another one writes, wherever rows begin: conditions say so that ask for
    what all threads share."""
    shift = f"({begin}) % 8"
    text = f"""
for b in {BLOCK}40):
    for r in range(4):
        for t in {X}40):
            if {shift} <= t and t < {shift} + 32:
                S[r * 32 + t - {shift}] = A[b, r * 32 + t - {shift}]
    for r in range(4):
        for t in {X}40):
            D[b, r * 40 + t] = S[(r * 40 + t) % 128]
"""
    func = program(text, "A: f32[40, 128], D: f32[40, 160]", [("S", "f32[128]", "shared")])
    assert_waits_once_outside_of_loops(check_passes(func))


def test_rows_that_are_copied_in_pieces_are_waited_for_once():
    """Pieces end where the next row begins: conditions on the loop over them say so, whose variable
    both places have in common."""
    column = "p * 8 + t % 8"
    text = f"""
for b in {BLOCK}4):
    for r in range(2):
        for p in range(2):
            for t in {X}64):
                if 0 <= {column} and {column} < 10:
                    S[r * 80 + t // 8 * 10 + {column}] = A[b, r * 80 + t // 8 * 10 + {column}]
    for r in range(2):
        for t in {X}64):
            D[b, r * 64 + t] = S[159 - r * 64 - t]
"""
    func = program(text, "A: f32[4, 160], D: f32[4, 128]", [("S", "f32[160]", "shared")])
    assert_waits_once_outside_of_loops(check_passes(func))


@pytest.mark.parametrize("stages", [6, 12])
def test_walks_begin_where_something_changed(stages, monkeypatch):
    """One more wait is kept by each walk, and what stands before it is as it was: a stage is walked
    through as often as there are steps around it, however many come after it."""
    lines = [f"for b in {BLOCK}4):", f"    for i in {X}64):", "        S[i] = A[b, i]"]
    for n in range(stages):
        turned = f"S[{n + 1} * 64 + t{n}] = S[{n} * 64 + 63 - t{n}]"
        lines += [f"    for t{n} in {X}64):", f"        {turned}"]
    lines += [f"    for j in {X}64):", f"        D[b, j] = S[{stages} * 64 + 63 - j]"]
    shared = [("S", f"f32[{64 * (stages + 1)}]", "shared")]
    func = program("\n".join(lines), "A: f32[4, 64], D: f32[4, 64]", shared)
    walked, inside = [], _Kernel.run_inside
    monkeypatch.setattr(
        _Kernel, "run_inside", lambda *args: walked.append(args[1]) or inside(*args)
    )
    low = lower(func, Target.parse("cuda"), until="barriers")
    assert syncs(low) == ["block"] * (stages + 1)
    stores = [stmt for stmt in walked if isinstance(stmt, Store)]
    assert len(stores) <= 4 * (stages + 2)


@pytest.mark.parametrize("most", [120, 300, 1 << 16])
def test_turns_are_tried_together_as_one_by_one(most, monkeypatch):
    """However many there is room for, elements and who touches them are those of each alone."""
    a, b, t, n = (Var(name) for name in "abtn")
    threads, loops = {t: (8, 1)}, {a: const(5), b: const(3)}
    turns = [{n: value} for value in range(4)]
    for index, conditions in (
        ((a * 8 + t + n) % 11, (t < n + 3, b + n < 4)), (b * n + t // 2, ()), (n * 2, (t <= n,)),
    ):  # fmt: skip
        touch = Touch(Buffer("S", (const(64),), "float32"), index, True, loops, conditions)
        alone = [Touched(touch, {a, b, t}, [turn], threads).met(0) for turn in turns]
        assert all(alone)
        monkeypatch.setattr(touches, "POINTS", most)
        together = Touched(touch, {a, b, t}, turns, threads)
        for at, one in enumerate(alone):
            found = together.met(at)
            for mine, theirs in zip(astuple(found), astuple(one), strict=True):
                np.testing.assert_array_equal(mine, theirs)
