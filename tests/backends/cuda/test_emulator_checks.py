"""Faults put into kernels that are right, each found by the check that it is for."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hand_written import CASES, Case, matmul, reduce, softmax_block, softmax_warp, staged, tiled
from hand_written import transpose as transposed

from backends import ObjectCache
from backends.cuda.emulator import Emulator, Findings, Launch
from backends.cuda.prelude import prelude
from tensorir import CHECKS, TensorIRError


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_wrong_with_the_kernels(name: str, cache: ObjectCache):
    for seed in (0, 3):
        case: Case = CASES[name]()
        kernels = Emulator(case.source, cache=cache)
        findings = kernels.check(case.launch, CHECKS, outputs=[case.output], seed=seed)
        assert not findings.reports and str(findings).startswith("nothing is wrong\n")
        case.check()


def test_objects_that_a_cache_made_room_of_are_made_again(cache: ObjectCache):
    """Checked runs load them anew each time, and told that they cannot run them."""
    case: Case = transposed()
    kernels = Emulator(f"{case.source}\n// of its own\n", cache=cache)
    kernels.check(case.launch, outputs=[case.output])
    *_, path = kernels._checked_objects()
    path.unlink()
    assert not kernels.check(case.launch, outputs=[case.output]).reports and path.exists()
    case.check()


@dataclass(frozen=True)
class Fault:
    """A text of a kernel that is replaced, and the report that has to come of it."""

    case: Callable[[], Case]
    before: str
    after: str
    kind: str
    message: str
    buffer: str = ""
    at: tuple[str, ...] = ()
    """Words of the lines that the report names."""


FAULTS = {
    "no barrier before a tile is written again": Fault(
        tiled, "ti_sync(); // before the tiles are written again", "", "race",
        r"writes A_shared\[0\] in .* and thread \(1, 0, 0\) .* reads it in .*: no barrier lies",
        "A_shared", ("A_shared[t + i * 64] = A", "C_local[i * 4 + j] +="),
    ),
    "no barrier before a tile is read": Fault(
        tiled, "ti_sync(); // before the tiles are read", "", "race",
        r"thread \(0, 0, 0\) reads A_shared\[1\] .* and thread \(1, 0, 0\) .* writes it",
        "A_shared", ("A_shared[t + i * 64] = A", "C_local[i * 4 + j] +="),
    ),
    "no barrier around a tile": Fault(
        tiled, "ti_sync();", "", "race", "A_shared", "A_shared",
    ),
    "no barrier between two versions of a tile": Fault(
        matmul, "ti_sync(); // the next version is written, and this one is read", "", "race",
        "A_shared", "A_shared",
    ),
    "too little of a pipeline is awaited by others": Fault(
        staged, "        ti_sync();\n        for", "        for", "race",
        r"writes stages\[.* in line \d+ and thread .* reads it", "stages",
    ),
    "a barrier under a condition of threads": Fault(
        reduce, "        }\n        ti_sync();", "        ti_sync();\n        }", "divergence",
        r"not all threads of the block .*: threads 0 to 63 in ti_sync .* threads 64 to 127 ended",
    ),
    "a reduction reads too early": Fault(
        softmax_block, "ti_sync(); // before the maxima are read", "", "race",
        r"reads mosts\[0\] .* and thread \(0, 0, 0\) .* writes it", "mosts",
    ),
    "a warp reads too early": Fault(
        reduce, "ti_sync_warp(); // before it is read", "", "race",
        r"partial\[\d+\]", "partial", ("partial[threadIdx.x] += other;",),
    ),
    "a warp writes too early": Fault(
        reduce, "ti_sync_warp(); // before a sum is replaced", "", "race", "partial", "partial",
    ),
    "a misaligned vector in global memory": Fault(
        matmul, "blockIdx.x * 128 + t % 32 * 4)", "blockIdx.x * 128 + t % 31 * 4 + 1)", "alignment",
        r"thread \(0, 0, 0\) of block \(0, 0, 0\) accesses 16 bytes of B at an address that is",
        "B", ("ti_load4(B, (k0",),
    ),
    "a misaligned vector in shared memory": Fault(
        matmul, "ti_load4(A_shared, of + kk * 128 + ty * 8)",
        "ti_load4(A_shared, of + kk + ty * 8)", "alignment",
        r"16 bytes of A_shared at an address that is 4 beyond", "A_shared",
    ),
    "a misaligned vector of registers": Fault(
        matmul, "ti_store4(A_local, 4,", "ti_store4(A_local, 3,", "alignment",
        r"accesses 4 elements of A_local from 3 on", "A_local",
    ),
    "an index past the end of a tile, inside of the arena": Fault(
        tiled, "A_shared[t + i * 64] =", "A_shared[t + i * 64 + 1] =", "bounds",
        r"thread \(63, 0, 0\) .* writes A_shared\[256\], and A_shared has 256 elements", "A_shared",
    ),
    "an index before the beginning of a tile": Fault(
        tiled, "B_shared[kk * 32 + tx + j * 8]", "B_shared[kk * 32 + tx + j * 8 - 1]", "bounds",
        r"reads B_shared\[-1\]", "B_shared",
    ),
    "an index past the end of an array": Fault(
        transposed, "if (row < rows && column < columns) {\n            B", "{\n            B",
        "bounds", r"writes B\[2\d\d\d\], and B has 2590 elements", "B",
    ),
    "an index past the registers": Fault(
        tiled, "i < 16; i++", "i < 17; i++", "bounds", r"writes C_local\[16\]", "C_local",
    ),
    "a vector past the end": Fault(
        matmul, "ti_store4(B_shared, to + t * 4,", "ti_store4(B_shared, to + t * 4 + 1024,",
        "bounds", r"writes B_shared\[2048 to 2051\], and B_shared has 2048 elements", "B_shared",
    ),
    "registers are read before they are written": Fault(
        tiled, "C_local[i] = 0.0f;", "", "uninitialised",
        r"reads C_local\[0\], which nobody has written", "C_local", ("C_local[i * 4 + j] +=",),
    ),
    "a tile is read before it is written": Fault(
        tiled, "for (int i = 0; i < 4; i++) {\n            A_shared",
        "for (int i = 0; i < 3; i++) {\n            A_shared", "uninitialised",
        r"reads B_shared\[192\], which nobody has written", "B_shared",
    ),
    "an output is read": Fault(
        transposed, "B[column * rows + row] =", "B[column * rows + row] +=", "uninitialised",
        r"reads B\[0\]", "B",
    ),
    "an asynchronous copy is not waited for": Fault(
        staged, "ti_copy_async_wait<1>", "ti_copy_async_wait<2>", "wait",
        r"reads stages\[0\] before the asynchronous copy of line \d+ to it was waited for",
        "stages", ("stages[c % 2 * 128 + at] +", "ti_copy_async<4>"),
    ),
    "a lane is missing": Fault(
        softmax_warp, "most = fmaxf(most, ti_shuffle_xor(most, far));",
        "if (lane) most = fmaxf(most, ti_shuffle_xor(most, far));", "lanes",
        r"comes to ti_shuffle_xor of line \d+ while other lanes of its warp wait in",
    ),
    "blocks write one element": Fault(
        reduce, "B[blockIdx.x] =", "B[0] =", "race",
        r"of block \(0, 0, 0\) writes B\[0\] .* and thread \(0, 0, 0\) of block \(1, 0, 0\) "
        r"writes it too .*: blocks do not wait", "B",
    ),
}  # fmt: skip


def with_fault(fault: Fault, cache: ObjectCache) -> tuple[Findings, list[str]]:
    case = fault.case()
    head, kernel = case.source.rsplit("#endif\n", 1)
    assert fault.before in kernel
    text = f"{head}#endif\n{kernel.replace(fault.before, fault.after)}"
    kernels = Emulator(text, cache=cache)
    return kernels.check(case.launch, outputs=[case.output]), text.splitlines()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str, cache: ObjectCache):
    fault = FAULTS[name]
    findings, lines = with_fault(fault, cache)
    first = next(report for report in findings.reports if report.kind == fault.kind)
    assert re.search(fault.message, first.message), first.message
    assert first.buffer == fault.buffer and first.lines
    for words in fault.at:
        assert any(words in lines[line - 1] for line in first.lines), str(first)
    assert all(place in str(first) for place in first.places)


def one(text: str, cache: ObjectCache, launch: Launch, checks: object = CHECKS, **options: object):
    return Emulator(prelude(text) + text, cache=cache).check(launch, checks, **options)  # type: ignore[arg-type]


def test_shuffles_order_no_memory(cache: ObjectCache):
    text = """
extern "C" __global__ void neighbours(TI_GLOBAL(float) A, int barrier) {
    TI_ARENA(128);
    TI_SHARED(float, S, 0, 32);
    S[threadIdx.x] = threadIdx.x;
    float x = ti_shuffle_xor(1.0f, 1);
    if (barrier) {
        ti_sync_warp();
    }
    A[threadIdx.x] = x + S[threadIdx.x ^ 1];
}
"""
    a = np.zeros(32, "float32")
    without = one(text, cache, Launch("neighbours", 1, 32, (a, 0), 128))
    assert [report.kind for report in without.reports] == ["race"]
    assert without.reports[0].count == 32
    assert not one(text, cache, Launch("neighbours", 1, 32, (a, 1), 128)).reports


def test_every_access_that_is_wrong_is_counted(cache: ObjectCache):
    """Those of a thread that does the same again, too."""
    text = """
extern "C" __global__ void again(TI_GLOBAL(float) A, TI_GLOBAL(float) W) {
    if (threadIdx.x == 0) {
        A[0] = 1.0f;
    }
    for (int i = 0; i < 7; i++) {
        A[threadIdx.x] = A[0] + W[0];
    }
}
"""
    a, w = np.zeros((2, 32), "float32")
    found = one(text, cache, Launch("again", 1, 32, (a, w)), outputs=[w]).reports
    counts = {(r.kind, r.buffer): r.count for r in found if len(r.lines) == 1 or r.buffer == "A"}
    assert counts["uninitialised", "W"] == 7 * 32
    assert max(count for (kind, _), count in counts.items() if kind == "race") >= 7 * 31


def test_a_lane_that_does_not_exist(cache: ObjectCache):
    text = """
extern "C" __global__ void partner(TI_GLOBAL(float) A) {
    A[threadIdx.x] = ti_shuffle_xor(1.0f, 16);
}
"""
    a = np.zeros(48, "float32")
    (report,) = one(text, cache, Launch("partner", 1, 48, (a,))).reports
    assert report.kind == "lanes" and report.threads[0][0] >= 32 and report.count == 16
    assert "in ti_shuffle_xor, and its warp has no such lane" in report.message
    assert not one(text, cache, Launch("partner", 1, 48, (a,)), "races").reports
    assert np.isnan(a[32:]).all() and (a[:32] == 1).all()


def test_a_later_launch_sees_what_an_earlier_one_wrote(cache: ObjectCache):
    text = """
extern "C" __global__ void fill(TI_GLOBAL(float) W, int n) {
    if (threadIdx.x < n) {
        W[threadIdx.x] = 2.0f;
    }
}
extern "C" __global__ void turn(TI_GLOBAL(const float) V, TI_GLOBAL(float) out) {
    out[threadIdx.x] = V[31 - threadIdx.x];
}
"""
    kernels = Emulator(prelude(text) + text, cache=cache)
    work, out = np.zeros((2, 32), "float32")
    for n, wanted in ((32, []), (31, ["uninitialised"])):
        launches = [Launch("fill", 1, 32, (work, n)), Launch("turn", 1, 32, (work, out))]
        found = kernels.check(launches, outputs=[work, out])
        assert [report.kind for report in found.reports] == wanted
        assert [(report.kernel, report.buffer) for report in found.reports] == [("turn", "V")][
            : len(wanted)
        ]
        assert (out[1:] == 2).all()


SCRIPT = """
extern "C" __global__ void script(TI_GLOBAL(const int) ops, TI_GLOBAL(int) G, int steps) {
    TI_ARENA(16);
    TI_SHARED(int, S, 0, 4);
    const int of = (blockIdx.x * 64 + threadIdx.x) * steps;
    for (int i = 0; i < steps; i++) {
        const int op = ops[of + i], what = op / 4, e = op % 4;
        if (what == 1) {
            S[e] + 0;
        } else if (what == 2) {
            S[e] = i;
        } else if (what == 3) {
            G[e] + 0;
        } else if (what == 4) {
            G[e] = i;
        } else if (what == 5) {
            ti_sync_warp();
        } else if (what == 6) {
            ti_sync();
        }
    }
}
"""


def scripts(rng: np.random.Generator, steps: int) -> np.ndarray:
    """Operations by block, thread and step: a few accesses, and barriers in the same steps."""
    ops = np.zeros((2, 64, steps), "int32")
    active = rng.integers(0, 64, 3)
    for block, thread, step in itertools.product(range(2), active, range(steps)):
        if rng.random() < 0.6:
            what = rng.choice([1, 1, 1, 2, 3] if rng.random() < 0.97 else [4])
            ops[block, thread, step] = what * 4 + rng.integers(0, 4)
    for step in range(steps):
        if rng.random() < 0.5:
            ops[:, :, step] = rng.choice([20, 24])
    return ops


def races(ops: np.ndarray) -> set[str]:
    """The buffers with two accesses that nothing orders, found by looking at all pairs."""
    accesses = []
    for block, thread in itertools.product(range(2), range(64)):
        all_, warp = 0, 0
        for op in ops[block, thread]:
            what = op // 4
            all_, warp = all_ + (what == 6), warp + (what == 5)
            if 1 <= what <= 4:
                space = "S" if what < 3 else "G"
                accesses.append((space, op % 4, what % 2 == 0, block, thread, all_, warp))
    found = set()
    for a, b in itertools.combinations(accesses, 2):
        if a[:2] != b[:2] or not (a[2] or b[2]) or (a[3] != b[3] and a[0] == "S"):
            continue
        same_warp = a[4] // 32 == b[4] // 32
        ordered = a[4] == b[4] or a[5] != b[5] or (same_warp and a[6] != b[6])
        if a[3] != b[3] or not ordered:
            found.add(a[0])
    return found


def test_races_are_found_exactly_where_two_accesses_have_no_order(cache: ObjectCache):
    rng = np.random.default_rng(0)
    programs = [scripts(rng, int(rng.integers(2, 14))) for _ in range(250)]
    wanted = [races(ops) for ops in programs]
    assert 60 < sum("S" in found for found in wanted) < 190
    assert 20 < sum("G" in found for found in wanted) < 230
    kernels = Emulator(prelude(SCRIPT) + SCRIPT, cache=cache)
    g = np.zeros(4, "int32")
    for seed in (0, 5):
        for part in range(0, 250, 50):
            launches = [
                Launch("script", 2, 64, (ops, g, ops.shape[2]), 16)
                for ops in programs[part : part + 50]
            ]
            reports = kernels.check(launches, "races", seed=seed).reports
            for i, (ops, want) in enumerate(zip(programs[part : part + 50], wanted[part:])):
                assert {r.buffer for r in reports if r.launch == i} == want, ops


def test_a_crash_is_a_report(cache: ObjectCache):
    text = """
extern "C" __global__ void divide(TI_GLOBAL(int) A, int by) {
    A[threadIdx.x] = 1;
    A[threadIdx.x] = (by + 7) / by;
}
extern "C" __global__ void deep(TI_GLOBAL(int) A, int by) {
    TI_LOCAL(int, far, 400000);
    far[by] = 1;
    A[threadIdx.x] = far[by];
}
"""
    a = np.zeros(4, "int32")
    kernels = Emulator(prelude(text) + text, cache=cache)
    (report,) = kernels.check(Launch("divide", 1, 4, (a, 0))).reports
    assert (
        report.kind == "crash"
        and "died of SIGFPE (thread (0, 0, 0) of block (0, 0, 0)" in report.message
    )
    assert report.lines and (a == 0).all()
    (report,) = kernels.check(Launch("deep", 1, 1, (a, 3))).reports
    assert report.kind == "crash" and "died of SIGSEGV" in report.message


def test_what_was_found_before_the_end_is_not_lost(cache: ObjectCache):
    text = """
extern "C" __global__ void late(TI_GLOBAL(int) A, int times) {
    A[4] = 1;
    for (long long i = 0; i < 4000000000000; i++) {
        A[i & times] = 0;
    }
}
"""
    kernels = Emulator(prelude(text) + text, cache=cache)
    launch = Launch("late", 1, 1, (np.zeros(4, "int32"), 3))
    found = kernels.check(launch, timeout=0.5)
    assert [report.kind for report in found.reports] == ["bounds", "timeout"]
    assert "did not end within 0.5 s" in found.reports[1].message
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        kernels.check(launch)


def test_no_launches_and_no_elements(cache: ObjectCache):
    text = """
extern "C" __global__ void fill(TI_GLOBAL(int) A, TI_GLOBAL(int) B, int n) {
    if (threadIdx.x < n) {
        A[threadIdx.x] = 1;
    }
}
"""
    kernels = Emulator(prelude(text) + text, cache=cache)
    assert kernels.check([], CHECKS) == Findings((), ())
    nothing, some = np.zeros(0, "int32"), np.zeros(3, "int32")
    for a, b in ((nothing, some), (some, nothing), (nothing, nothing.copy())):
        findings = kernels.check(Launch("fill", 1, 4, (a, b, a.size)), "races", outputs=[a, b])
        assert not findings.reports and (a == 1).all()


def test_arrays_and_names_that_cannot_be_checked(cache: ObjectCache):
    case = transposed()
    kernels = Emulator(case.source, cache=cache)
    with pytest.raises(TensorIRError, match="no check 'rases'; there are alignment"):
        kernels.check(case.launch, "bounds,rases")
    whole = np.zeros(100, "float32")
    overlapping = replace(case.launch, args=(whole[:60], whole[50:], 5, 5))
    with pytest.raises(TensorIRError, match="overlap"):
        kernels.check(overlapping)
    with pytest.raises(TensorIRError, match="takes 4 arguments, not 0"):
        kernels.check(replace(case.launch, args=()))


def test_counts(cache: ObjectCache):
    case = transposed(64, 64)
    straight = case.source.replace("* 33 +", "* 32 +")
    for text, wavefronts in ((case.source, 1), (straight, 32)):
        counts = Emulator(text, cache=cache).check(case.launch, "counts").counts
        found = {(c.what, c.buffer): (c.instructions, c.transactions, c.least) for c in counts}
        place = "line 36: B[column * rows + row] = tile"
        load = next(c for c in counts if c.what == "load" and c.buffer == "tile")
        assert load.conflicts == 128 * (wavefronts - 1) and load.place.startswith(place)
        assert f"{128 * wavefronts} transactions (128 at least)" in str(load)
        assert found == {
            ("load", "A"): (128, 512, 512),
            ("store", "B"): (128, 512, 512),
            ("store", "tile"): (128, 128, 128),
            ("load", "tile"): (128, 128 * wavefronts, 128),
            ("ti_sync", ""): (4, 0, 0),
        }


def test_lanes_that_leave_out_a_step_are_not_behind(cache: ObjectCache):
    """Steps of 32 elements that begin with a sector, in rows that begin behind one."""
    text = """
extern "C" __global__ void some(TI_GLOBAL(float) A, int begin) {
    for (int row = 0; row < 3; row++) {
        for (int i = 0; i < 4; i++) {
            if (begin <= i * 32 + threadIdx.x) {
                A[row * 128 + i * 32 + threadIdx.x] = 1.0f;
            }
        }
    }
}
"""
    kernels = Emulator(prelude(text) + text, cache=cache)
    for begin, sectors in ((0, 48), (3, 48), (9, 45), (33, 36)):
        given = np.zeros(384, "float32"), begin
        (count,) = kernels.check(Launch("some", 1, 32, given), "counts").counts
        assert (count.instructions, count.transactions) == (3 * (4 - begin // 32), sectors)


def test_counts_of_accesses_under_conditions_and_of_vectors(cache: ObjectCache):
    text = """
extern "C" __global__ void some(TI_GLOBAL(float) A, int stride) {
    TI_ARENA(2048);
    TI_SHARED(float, S, 0, 512);
    ti_store4(S, threadIdx.x * 4, ti_splat<4>(1.0f));
    ti_sync();
    for (int i = 0; i < 40000; i++) {
        if (threadIdx.x < 8) {
            A[threadIdx.x * stride] = S[threadIdx.x * stride];
        }
    }
    ti_store2(S, threadIdx.x * 2, ti_load2(S, 0));
}
"""
    kernels = Emulator(prelude(text) + text, cache=cache)
    a = np.zeros(512, "float32")
    for stride, sectors, wavefronts in ((1, 1, 1), (8, 8, 2), (32, 8, 8)):
        counts = kernels.check(Launch("some", 1, 64, (a, stride), 2048), "counts").counts
        found = {(c.what, c.buffer, c.bytes): (c.instructions, c.transactions) for c in counts}
        assert found["store", "A", 4] == (40000, 40000 * sectors)
        assert found["load", "S", 4] == (40000, 40000 * wavefronts)
        assert found["store", "S", 16] == (2, 8) and found["store", "S", 8] == (2, 4)
        assert found["load", "S", 8] == (2, 4), "one address for all lanes, in two halves"
