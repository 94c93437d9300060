"""Measuring survives whatever a candidate does, and blames the right one."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_compilers import alive, failing, hanging, started, wait_dead

from autotune.errors import MeasureError
from autotune.measure import (
    Measurer,
    MeasureResult,
    Reference,
    draw_inputs,
    make_reference,
    memory,
    worker,
)
from autotune.measure.batch import Batch
from autotune.measure.blocks import more_calls, slow_calls
from autotune.measure.guard import GuardedArray
from autotune.measure.job import Job
from autotune.noise.visits import Visit, Visits
from autotune.phases import Phases
from backends import ScratchFolder
from tensorir import parse
from tests.brief import BRIEF

HERE = Path(__file__).parent
BUILDER = "fake_kernels:build"
SETTINGS = replace(BRIEF, timeout_s=60.0, build_timeout_s=60.0, repeats=3, memory_gib=0.75)
"""A busy machine may take seconds for what takes milliseconds."""

IMPATIENT = replace(SETTINGS, timeout_s=1.0, build_timeout_s=1.0)
"""For programs that hang."""


def reference() -> Reference:
    a = np.arange(10, dtype=np.float32)
    types = {"A": "float32", "B": "float32"}
    zero = np.full((), 1e-6)
    return Reference(("A", "B"), types, {"A": a}, {"B": a + 1}, {"B": zero})


@pytest.fixture
def measurer(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(HERE))

    def make(settings=SETTINGS, builder=BUILDER, **more):
        made.append(
            Measurer(
                None, "c", settings, reference=reference(), builder=builder,
                lock=tmp_path / "lock", **more,
            )
        )  # fmt: skip
        return made[-1]

    made: list[Measurer] = []
    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One for those that leave its worker as it was."""
    path = tmp_path_factory.mktemp("shared") / "lock"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        given = {"reference": reference(), "builder": BUILDER, "lock": path}
        with Measurer(None, "c", SETTINGS, **given) as made:
            yield made


def test_good_candidate_is_checked_and_timed(shared):
    seen = []
    result = shared.measure(["ok 0.05"], on_result=lambda i, r: seen.append((i, r)))[0]
    assert result.ok
    assert result.median == pytest.approx(0.05)
    assert 1 <= len(result.times) <= 3 <= len(result.visits) <= 4  # on a busy machine one again
    assert result.verdict.checked and result.verdict.max_error == 0.0
    assert result.build_seconds is not None and len(result.source_hash) == 32
    assert seen == [(0, result)]


FAULTS = [
    ("compile_error", "build_error", "syntax error near line 3"),
    ("compile_bug", "error", "an emitter bug"),
    ("segfault", "crash", "SIGSEGV"),
    ("crash_in_time", "crash", "in phase 'time'"),
    ("exit", "crash", "exit status 3"),
    ("wrong", "wrong_result", "output 'B' differs at [0]"),
    ("forgets_last", "wrong_result", "output 'B' differs at [9]: found nan"),
    ("past_end", "wrong_result", "4 bytes past the end of 'B'"),
    ("before_start", "wrong_result", "8 bytes before the start of 'B'"),
    ("writes_input", "wrong_result", "wrote to its input 'A'"),
    ("raises", "error", "a runtime check"),
    ("eats_bit_by_bit", "out_of_memory", "may have 0.75 GiB (MeasureSettings(memory_gib=...))"),
    ("no_workspace", "out_of_memory", "no memory for the workspace of the kernel"),
    ("compile_eats", "out_of_memory", "out of memory; a process of a candidate may have"),
]


DEADLY = [fault for fault in FAULTS if fault[1] == "crash" or "eats" in fault[0]]


@pytest.mark.parametrize(("fault", "status", "text"), [f for f in FAULTS if f not in DEADLY])
def test_every_fault_gets_its_status(monkeypatch, fault, status, text):
    monkeypatch.syspath_prepend(str(HERE))
    message = {"op": "measure", "text": fault, "source": None, "check": True, "prune_above": None}
    job = Job(BUILDER, "c", "", reference())
    answer = worker._answer(job, {**message, "min_ms": 0.1}, lambda phase: None)
    assert answer["status"] == status and text in answer["error"] and "visits" not in answer


def test_after_a_deadly_fault_the_next_candidate_measures(measurer):
    spoils = next(fault for fault in FAULTS if fault[0] == "writes_input")
    faults = [*DEADLY, spoils]
    programs = [p for fault, _, _ in faults for p in (fault, f"ok 0.25 after {fault}")]
    results = measurer().measure(programs)
    for (fault, status, text), result in zip(faults, results[::2], strict=True):
        assert (fault, result.status) == (fault, status)
        assert text in result.error, fault
        assert result.median is None
    assert all(r.ok for r in results[1::2])


def test_what_hangs_is_killed(measurer):
    start = time.monotonic()
    programs = ["sleep", "ok 0.5", "sleep_with_lock", "compile_hang", "ok 0.5"]
    results = measurer(IMPATIENT).measure(programs)
    late = ["run_timeout", "build_timeout"]
    assert [r.status for r in results] == [late[0], "ok", *late, "ok"]
    assert all("no answer for 1 s in phase 'check'" in results[at].error for at in (0, 2))
    assert time.monotonic() - start < 20


def test_parallel_builds_keep_order_and_blame(measurer):
    settings = replace(IMPATIENT, build_jobs=2, repeats=1)
    programs = ["ok 0.1", "compile_crash", "compile_error", "ok 0.2", "compile_hang", "ok 0.3"]
    results = measurer(settings).measure(programs)
    assert [r.status for r in results] == [
        "ok", "crash", "build_error", "ok", "build_timeout", "ok",
    ]  # fmt: skip
    assert [r.median for r in results if r.ok] == [0.1, 0.2, 0.3]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("jobs", "phase"), [(1, "compile"), (1, "check"), (1, "time"), (2, "compile"), (2, "time")]
)
def test_a_worker_that_is_killed_once_is_nobodys_fault(measurer, tmp_path, phase, jobs):
    """Whoever killed it, and whatever it did then: fresh or not, while it built, ran or raced."""
    m = measurer(replace(SETTINGS, build_jobs=jobs))
    programs = [f"dies_once 1 {phase} {tmp_path / name}" for name in ("first", "second")]
    results = m.measure(programs)
    assert [r.status for r in results] == ["ok", "ok"]
    assert (tmp_path / "second").exists()
    (tmp_path / "first").unlink()  # it was made as the worker was killed
    assert [len(times) for times in m.race(programs, rounds=2, min_ms=0).times] == [2, 2]
    assert (tmp_path / "first").exists() == (phase != "compile")


def test_it_is_told_that_a_worker_was_killed(measurer):
    (result,) = measurer().measure(["killed"])
    assert result.status == "crash" and "died of SIGKILL, as when the system runs" in result.error
    assert "Traceback" not in result.error


def test_far_slower_than_the_incumbent_is_pruned():
    """What a worker makes of the limit is in `test_disturbed.py`, where nothing disturbs it."""
    requests = [{"op": "measure", "text": text} for text in ("ok 0.5", "ok 2")]
    visits = Visits(2, 5, random.Random(0), incumbent=1.0)
    batch = Batch([MeasureResult("ok")] * 2, requests, visits, None)
    assert batch.begin_round(Phases()) and batch.order == [0, 1]
    assert batch.request(0, 3.0)["prune_above"] == 3.0
    batch.take(0, MeasureResult("ok", visits=(Visit(0.5),), calls=1))
    assert batch.request(1, 3.0)["prune_above"] == 1.5  # the best of a batch is the incumbent
    assert Batch([MeasureResult("ok")], requests, Visits(1, 5, random.Random(0)), None).request(
        0, 3.0
    )["prune_above"] is None


def test_slow_first_calls_do_not_condemn():
    cold = iter([8e-3, 7e-3, 1e-3])
    assert slow_calls([9e-3], lambda calls: next(cold), limit=2e-3, seconds=1.0)[-1] == 1e-3
    assert slow_calls([9e-3], lambda calls: 9e-3, limit=2e-3, seconds=20e-3) == [9e-3] * 3
    assert slow_calls([9e-3], lambda calls: 9e-3, limit=2e-3, seconds=0.0) == [9e-3] * 2
    assert slow_calls([9e-3, 8e-3], lambda calls: 0.0, 2e-3, seconds=10e-3) == [9e-3, 8e-3]
    assert slow_calls([1e-3], lambda calls: 9e-3, limit=2e-3, seconds=1.0) == [1e-3]


@pytest.mark.parametrize("seconds", [1e-6, 3e-5, 4e-4, 3e-3, 9.5e-3, 0.2])
def test_finding_out_how_many_calls_make_a_block_takes_less_than_one(seconds):
    """The last of the blocks that find it out is the one that counts."""
    calls, made = 1, [1]
    while (more := more_calls(calls, calls * seconds, 10.0)) > calls:
        calls = more
        made.append(calls)
    assert calls * seconds >= 9e-3 and sum(made[:-1]) <= calls
    assert len(made) <= 3


def test_long_kernels_get_fewer_repeats(measurer):
    # Visits may take half of the timeout together; one more is not begun. Sleep may last longer.
    visits = measurer(IMPATIENT).measure(["ok 0.2 really"], repeats=50)[0].visits
    assert len(visits) <= 3 and sum(visit.lasted for visit in visits[:-1]) < 0.5


def test_unchecked_when_asked(shared):
    result = shared.measure(["wrong"], check=False)[0]
    assert result.ok and not result.verdict.checked


def test_what_a_kernel_prints_is_no_answer(shared):
    result = shared.measure(["prints"])[0]
    assert result.ok and result.verdict.checked


def test_race_times_everyone_each_round(shared):
    times = shared.race(["ok 0.1", "ok 0.2"], rounds=4, min_ms=0)
    assert times.times == ((0.1,) * 4, (0.2,) * 4) and len(times.busy) == 4


def test_a_race_goes_on_with_those_that_are_left(shared):
    m = shared
    first = m.race(["ok 1e-5", "ok 2e-5", "ok 3e-5"], rounds=2)
    assert [len(times) for times in first.times] == [2, 2, 2]
    calls = dict(m._calls)
    second = m.race(["ok 1e-5", "ok 3e-5"], rounds=3, before=2)
    assert second.times == (pytest.approx([1e-5] * 3), pytest.approx([3e-5] * 3))
    assert m._calls.items() <= calls.items()  # nobody finds out again how many calls a block has


def test_a_finalist_that_was_held_up_is_raced_again(measurer, tmp_path):
    """Its worker was stopped from outside: the race was in time before, and is when asked again."""
    m = measurer(replace(SETTINGS, timeout_s=5.0))
    held = f"stops_once 0.2 time {tmp_path / 'stopped'}"
    assert m.race(["ok 0.1", held], rounds=2, min_ms=0).times == ((0.1, 0.1), (0.2, 0.2))
    assert (tmp_path / "stopped").exists()


def test_race_of_a_broken_finalist(measurer):
    with pytest.raises(MeasureError, match="a finalist failed in the race"):
        measurer().race(["ok 0.1", "crash_in_time"], rounds=2)


def test_the_worker_is_renewed(measurer):
    settings = replace(BRIEF, restart_every=2)
    with measurer(settings) as m:
        pids = []
        for program in ("ok 1", "ok 1 b", "ok 1 c"):
            m.measure([program], on_result=lambda i, r: pids.append(m._runner.pid))
    assert pids[0] == pids[1] != pids[2]


def test_a_worker_that_cannot_start_is_our_error(measurer):
    with pytest.raises(MeasureError, match="does not start(?s:.*)no_such_module"):
        measurer(builder="no_such_module:build").measure(["ok 1"])


def test_closing_ends_the_workers(measurer):
    m = measurer(replace(BRIEF, build_jobs=2))
    m.measure(["ok 1", "ok 2"])
    pids = [m._runner.pid, *(w.pid for w in m._builders._workers)]
    m.close()
    assert all(wait_dead(pid) for pid in pids if pid is not None)


def test_a_closed_measurer(measurer):
    m = measurer()
    m.close()
    with pytest.raises(MeasureError, match="the measurer is closed: make a new one"):
        m.measure(["ok 1"])


PARENT = """
import sys
sys.path.insert(0, {here!r})
import numpy as np
from pathlib import Path
from autotune.measure import Measurer, Reference
from tests.brief import BRIEF
a = np.zeros(4, np.float32)
ref = Reference(("A", "B"), {{"A": "float32", "B": "float32"}}, {{"A": a}}, {{"B": a + 1}},
                {{"B": np.zeros(())}})
with Measurer(None, "c", BRIEF, reference=ref, builder="fake_kernels:build",
              lock=Path({lock!r})) as m:
    m.measure(["ok 1"])
    print(m._runner.pid, m._folder.path, flush=True)
    sys.stdin.readline()
    m.measure([{fault!r}])
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fault", ["sleep", "sleep_with_lock", "family", "compile_family"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_and_nothing_of_it_outlives_its_parent(tmp_path, monkeypatch, fault, how):
    pids = tmp_path / "pids"
    (own := tmp_path / "tmp").mkdir()  # other tests would remove what is abandoned beside theirs
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    program = f"{fault} {pids}"
    code = PARENT.format(here=str(HERE), lock=str(tmp_path / "lock"), fault=program)
    path = os.pathsep.join(filter(None, sys.path))
    env = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(own)}
    pipe = subprocess.PIPE
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, env=env
    )
    guardian, folder = parent.stdout.readline().split()
    family = [int(guardian), *below(int(guardian))]
    assert len(family) == 2 and own in Path(os.fsdecode(folder)).parents
    parent.stdin.write(b"\n")
    parent.stdin.flush()
    if "family" in fault:
        family += started(pids, 3)
    else:
        time.sleep(0.3)
    assert all(map(alive, family))
    parent.send_signal(how)
    assert all(map(wait_dead, family))
    _, errors = parent.communicate(timeout=10)
    assert (b"KeyboardInterrupt" in errors) == (how is signal.SIGINT)
    assert Path(os.fsdecode(folder)).exists() == (how is signal.SIGKILL)
    ScratchFolder().close()  # as the next measurer makes one
    assert not Path(os.fsdecode(folder)).exists()


def below(pid: int) -> list[int]:
    """The children of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


@pytest.mark.parametrize("program", ["family", "compile_family"])
def test_what_a_late_candidate_started_is_gone_before_the_next_is_timed(
    measurer, tmp_path, program
):
    pids, seen = tmp_path / "pids", []

    def look(index, result):
        seen.append([alive(pid) for pid in started(pids, 3)])

    results = measurer(IMPATIENT).measure([f"{program} {pids}"], on_result=look)
    assert results[0].status.endswith("_timeout") and seen == [[False] * 3]


def test_a_hanging_compiler_ends_with_its_builder(measurer, tmp_path, monkeypatch):
    """Its family is ended by the builder's guardian, and again nothing of it is left."""
    command, pids = hanging(tmp_path / "cc", "*-O2*")
    monkeypatch.setenv("CC", command)
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path / "cache"))
    settings = replace(BRIEF, build_timeout_s=2.0, build_jobs=2, timeout_s=5.0)
    with Measurer(parse(MATMUL), "c", settings, lock=tmp_path / "lock") as m:
        results = m.measure([parse(MATMUL), parse(MATMUL.replace("M", "m"))])
        family = started(pids, 8)
        assert not any(map(alive, family))
    assert [r.status for r in results] == ["build_timeout"] * 2


def test_a_compiler_that_eats_memory_ends_alone(tmp_path, monkeypatch):
    eat = f"exec {sys.executable} -c 'bytearray(3 << 30)'"
    monkeypatch.setenv("CC", failing(tmp_path / "cc", "*-march=native*-O2*|*-O2*-march=*", eat))
    monkeypatch.setenv("TENSORIR_CACHE", str(tmp_path / "cache"))
    settings = replace(BRIEF, memory_gib=1.0)
    with Measurer(parse(MATMUL), "c", settings, lock=tmp_path / "lock") as m:
        result = m.measure([parse(MATMUL)])[0]
    assert result.status == "out_of_memory", result.error
    assert "may have 1 GiB" in result.error and "cc ran out of memory" in result.error


def test_memory_follows_the_machine_and_the_arrays(monkeypatch):
    gib = 1 << 30
    small, large = reference(), reference()
    large.inputs["A"] = np.broadcast_to(np.float32(0), (3 * gib // 4,))  # 3 GiB, held by nobody
    monkeypatch.setattr(memory, "machine_memory", lambda: 16 * gib)
    assert memory.run_limit(None, small) == 8 * gib
    assert memory.run_limit(None, large) == 16 * gib * 9 // 10
    assert memory.run_limit(2.5, large) == 2.5 * gib
    assert memory.build_limit(None, 4) == 2 * gib and memory.build_limit(None, 64) == gib
    monkeypatch.setattr(memory, "machine_memory", lambda: None)
    assert memory.run_limit(None, small) is memory.build_limit(None, 4) is None


def test_a_container_may_have_less_than_the_machine(monkeypatch, tmp_path):
    unlimited, limited = tmp_path / "a", tmp_path / "b"
    unlimited.write_text("max\n")
    limited.write_text("1048576\n")
    monkeypatch.setattr(memory, "CGROUPS", (unlimited, tmp_path / "no"))
    assert memory.machine_memory() > 1 << 28
    monkeypatch.setattr(memory, "CGROUPS", (unlimited, limited))
    assert memory.machine_memory() == 1048576


def test_a_worker_warns_where_somebody_reads_it(measurer, tmp_path, monkeypatch):
    script = tmp_path / "warns.py"
    script.write_text(
        "import warnings\nfrom fake_kernels import build as build_fake\n"
        "def build(text, target):\n    warnings.warn('the disk is full')\n"
        "    return build_fake(text, target)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(UserWarning, match="the disk is full"):
        assert measurer(builder="warns:build").measure(["ok 1"])[0].ok


def test_a_temporary_folder_that_cannot_be_written(monkeypatch, measurer):
    def refuse(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    m = measurer()
    monkeypatch.setattr(Reference, "save", refuse)
    with pytest.raises(
        MeasureError, match=r"cannot write to .* \(No space left.*; make room"
    ):
        m.measure(["ok 1"])
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(MeasureError, match=r"cannot write to .* \(No space left.* one in TMPDIR"):
        measurer()


def test_a_worker_that_cannot_be_started_is_our_error(measurer, monkeypatch):
    def refuse(*args, **options):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    m = measurer()
    monkeypatch.setattr("autotune.measure.process.subprocess.Popen", refuse)
    with pytest.raises(MeasureError, match="cannot be started: Cannot allocate memory; make room"):
        m.measure(["ok 1"])


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "bool", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5)])
def test_guards(dtype, shape):
    guarded = GuardedArray(shape, np.dtype(dtype))
    assert guarded.array.shape == shape
    assert guarded.array.size == 0 or guarded.array.ctypes.data % 64 == 16
    assert guarded.damage() is None
    guarded.array[...] = 1
    assert guarded.damage() is None
    if dtype.startswith("float") and guarded.array.size:
        guarded.poison()
        assert np.isnan(guarded.array).all()


MATMUL = """
@prim_func
def matmul(A: f32[M, 8], B: f32[8, 24], C: f32[M, 24]):
    for i, j, k in grid(M, 24, 8):
        with block("C"):
            vi = spatial(M, i)
            vj = spatial(24, j)
            vk = reduce(8, k)
            with init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""".replace("M", "16")


@pytest.mark.skipif(not (shutil.which("gcc") or shutil.which("clang")), reason="no C compiler")
def test_real_kernels(tmp_path):
    func = parse(MATMUL)
    inputs = draw_inputs(func)
    expected = make_reference(func, inputs, {"C": inputs["A"] @ inputs["B"]})
    swapped = MATMUL.replace("i, j, k in grid(16, 24, 8)", "k, j, i in grid(8, 24, 16)")
    wrong = MATMUL.replace("A[vi, vk] *", "A[vi, 0] *")
    with Measurer(func, "c", BRIEF, reference=expected, lock=tmp_path / "lock") as m:
        good, other, bad = m.measure([func, parse(swapped), wrong])
        assert (good.status, other.status, bad.status) == ("ok", "ok", "wrong_result"), good.error
        assert good.source_hash != other.source_hash
        assert good.verdict.checked and good.verdict.max_error == 0.0
        assert "expected" in bad.error
        first, second = m.race([func, swapped], rounds=3, min_ms=0.1).times
        assert len(first) == len(second) == 3
