"""merge_shared: one array for a block, in which what never lives together shares bytes."""

from __future__ import annotations

import pytest
from gpu_programs import BLOCK, X, check_passes, program, run, tiled_matmul
from test_barriers import arrays_of, assert_all_needed, syncs

from tensorir import Sync, TensorIRError, VerifyError, parse, replace, walk
from tensorir.passes.gpu.merge_shared import BYTES, OFFSETS, merge_shared
from tensorir.passes.rewriting import with_body


def notes(func):
    return func.body.annotations


def test_tiles_of_a_matmul_lie_side_by_side():
    low = check_passes(tiled_matmul(32, 16, 16))
    assert notes(low) == {BYTES: 1024, OFFSETS: {"A_shared": 0, "B_shared": 512}}


TWO = f"""
for b in {BLOCK}4):
    for i in {X}64):
        S[i] = A[b, i]
    for j in {X}64):
        R[j] = S[63 - j]
    for u in {X}64):
        T[u] = R[u] * 2.0
    for v in {X}64):
        D[b, v] = T[63 - v]
"""
BUFFERS = [("S", "f32[64]", "shared"), ("T", "f32[80]", "shared"), ("R", "f32[64]", "local")]


def two(text=TWO):
    return program(text, "A: f32[4, 64], D: f32[4, 64]", BUFFERS)


def test_one_after_the_other_in_the_same_bytes(golden):
    low = check_passes(two())
    assert notes(low) == {BYTES: 256, OFFSETS: {"S": 0, "T": 0}}
    assert syncs(low) == ["block"] * 3
    assert_all_needed(low, *arrays_of(low))
    golden(str(low), "two")


def test_what_is_small_has_bytes_of_its_own():
    """Nobody waits for the sake of a few bytes, as the parts of one reduction after another."""
    text = TWO.replace("64", "32").replace("63 - ", "31 - ")
    small = [(name, kind.replace("64", "32"), scope) for name, kind, scope in BUFFERS]
    low = check_passes(program(text, "A: f32[4, 32], D: f32[4, 32]", small))
    assert notes(low)[OFFSETS] == {"S": 0, "T": 128}


def test_a_part_put_over_another_one_is_found():
    """What lives at the same time must not share: values and races both tell."""
    text = TWO.replace("T[63 - v]", "T[63 - v] + S[v]")
    low = check_passes(two(text))
    assert notes(low) == {BYTES: 512, OFFSETS: {"S": 0, "T": 256}}
    over = {BYTES: 512, OFFSETS: {"S": 0, "T": 128}}
    wrong = with_body(low, replace(low.body, annotations=over))
    for races in (False, True):
        with pytest.raises(VerifyError, match="never written|race"):
            run(wrong, *arrays_of(low), races=races)


def test_in_a_loop_the_first_follows_the_last():
    text = "\n".join(
        ["for b in " + BLOCK + "4):", "    for k in range(3):"]
        + ["    " + line for line in TWO.strip().splitlines()[1:]]
    )
    low = check_passes(two(text))
    assert notes(low)[OFFSETS] == {"S": 0, "T": 0}
    assert syncs(low) == ["block"] * 4
    assert_all_needed(low, *arrays_of(low))


def test_where_only_some_threads_come_nothing_is_shared():
    func = parse("""
@prim_func
def f(A: f32[64], D: f32[64]):
    for t in thread("threadIdx.x", 64):
        if t < 32:
            with alloc(S, f32[64], scope="shared"):
                S[t] = A[t]
                D[t] = S[t]
        with alloc(T, f32[64], scope="shared"):
            T[t] = A[t]
            sync("block")
            if 32 <= t:
                D[t] = T[63 - t]
""")
    made = merge_shared(func)
    assert notes(made) == {BYTES: 512, OFFSETS: {"S": 0, "T": 256}}
    assert len([s for s in walk(made.body) if isinstance(s, Sync)]) == 1


def test_elements_of_all_sizes():
    text = TWO.replace("T[u] = R[u] * 2.0", "T[u] = f64(R[u] * 2.0)").replace(
        "T[63 - v]", "f32(T[63 - v])"
    )
    buffers = [("S", "f32[64]", "shared"), ("T", "f64[64]", "shared"), ("R", "f32[64]", "local")]
    func = program(text, "A: f32[4, 64], D: f32[4, 64]", buffers)
    assert notes(check_passes(func))[BYTES] == 512


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_a_size_must_be_known(scope):
    func = parse(f"""
@prim_func
def f(A: f32[n], D: f32[n]):
    for t in thread("threadIdx.x", 64):
        with alloc(S, f32[n], scope="{scope}"):
            S[t] = A[t]
            D[t] = S[t]
""")
    with pytest.raises(TensorIRError, match=f"'S' is in {scope} memory and has n elements"):
        merge_shared(func)
