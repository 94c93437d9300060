"""Memory mappings: kernels that are no longer used let go of theirs, and a full table is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="counts mappings in /proc"
)

PROGRAM = """
import gc, mmap, os, shutil, signal, sys, tempfile, threading
from pathlib import Path
import numpy as np
from backends import BuildError, build
from backends.c.binding import CExecutable
from schedule import Schedule
from tensorir import te

def mappings():
    with open("/proc/self/maps") as lines:
        return sum(1 for _ in lines)

def program(name):
    # two parallel loops in one region, and memory from the workspace
    a = te.placeholder((8, 8192), name="A")
    b = te.compute((8, 8192), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8192), lambda i, j: b[7 - i, j] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, c], name=name))
    for block in ("B", "C"):
        sch.parallel(sch.get_loops(block)[0])
    return sch

first = build(program("twice"), "c -threads=3")
path, folder = Path(first._executable.path), Path(tempfile.mkdtemp())
runtime = next(iter(sys.modules["backends.build"].backend_of("c")._runtimes.values()))
ones = np.ones((8, 8192), np.float32)

def load(number):
    "The same object under another name, as another kernel has it."
    copy = folder / f"{number}.so"
    if not copy.exists():
        shutil.copy(path, copy)
    return CExecutable(copy, "twice", first.signature, runtime)

def works(executable):
    out = np.zeros_like(ones)
    assert executable.entry(ones, out) == 0 and (out == 4).all()

works(load(0))
gc.collect()
before = mappings()
held = [load(number) for number in range(40)]
each = (mappings() - before) / 40
assert each >= 3, each
for executable in held:
    works(executable)
held.clear()
del executable
gc.collect()
assert mappings() - before < 40, (mappings(), before)

for number in range(60):  # in turns with threads, forks and calls of a kernel that stays
    used = load(number % 40)
    works(used)
    again = load(number % 40)  # the same object: the first one to go must not take it along
    del used
    works(again)
    if number % 20 == 0:
        thread = threading.Thread(target=works, args=(again,))
        thread.start()
        del again
        thread.join()
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            works(load(1))
            assert (first(ones) == 4).all()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert (first(ones) == 4).all()
again = None
gc.collect()
assert mappings() - before < 40, (mappings(), before)

del first
gc.collect()  # no kernel is left, and the threads of OpenMP wait in its library
assert (build(program("twice"), "c -threads=3")(ones) == 4).all()
print("let go")

most = int(Path("/proc/sys/vm/max_map_count").read_text())
if most > 200000:
    print("no limit to reach")
    sys.exit()
other = program("other")
build(other, "c -threads=3")
gc.collect()
filler = []
try:
    while True:  # neighbours of different protection are not merged
        writable = mmap.PROT_WRITE * (len(filler) % 2)
        filler.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ | writable))
except OSError:
    pass
del filler[:3]
try:
    build(other, "c -threads=3")
    print("built")
except BuildError as error:
    message = str(error)
del filler[:1000]
print(message)
assert (build(other, "c -threads=3")(ones) == 4).all()
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_kernels_let_go_of_their_mappings(compiler, cache):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    env = {"CC": compiler, "TENSORIR_CACHE": str(cache.directory), "OMP_WAIT_POLICY": "passive"}
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "let go"
    if lines[1] != "no limit to reach":
        assert "other: no room for the compiled object" in lines[1]
        assert "let go of kernels that are no longer used" in lines[1]
