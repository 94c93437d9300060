"""Kernels in forked children, which have one thread of their parent's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import te

PROGRAM = """
import multiprocessing, os, signal, sys, threading
from concurrent.futures import ProcessPoolExecutor
import numpy as np
from backends import build
from schedule import Schedule
from tensorir import te

def kernel(rows, number):
    # two parallel loops in one region, and memory from the workspace
    a = te.placeholder((rows, 2048), name="A")
    b = te.compute((rows, 2048), lambda i, j: a[i, j] + float(number), name="B")
    c = te.compute((rows, 2048), lambda i, j: b[rows - 1 - i, j] * 2.0, name="C")
    sch = Schedule(te.create_prim_func([a, c]))
    for name in ("B", "C"):
        sch.parallel(sch.get_loops(name)[0])
    return build(sch, "c -threads=3")

ones = np.ones((16, 2048), np.float32)
first, loaded = kernel(16, 1), kernel(16, 2)

def works(used, number):
    assert (used(ones) == 2 * (1 + number)).all()

def child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    return pid

def ended(pid):
    assert os.waitpid(pid, 0)[1] == 0

def threads():
    return len(os.listdir("/proc/self/task"))

def in_child():
    works(first, 1)
    assert threads() == 3, "a child has threads of its own"
    works(loaded, 2)  # of the same pool, never called before the fork
    works(kernel(16, 3), 3)
    ended(child(lambda: works(first, 1)))

def in_worker(number):
    works(first, 1)
    return int(loaded(ones)[0, 0]) + number

def from_thread(work):
    raised = []
    def run():
        try:
            work()
        except BaseException as error:
            raised.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not raised, raised

before = threads()
ended(child(in_child))            # nothing ran before
works(first, 1)
assert threads() == before + 2
ended(child(in_child))
works(first, 1)
assert threads() == before + 2, "the parent has its threads again"
ended(child(lambda: from_thread(lambda: works(first, 1))))
from_thread(lambda: (works(first, 1), ended(child(lambda: works(first, 1)))))

with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map_async(in_worker, range(4)).get(20) == [6, 7, 8, 9]
with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
    assert list(pool.map(in_worker, range(4), timeout=20)) == [6, 7, 8, 9]

stop = threading.Event()
def busy():
    while not stop.is_set():
        works(first, 1)
others = [threading.Thread(target=busy) for _ in range(2)]
for thread in others:
    thread.start()
for pid in [child(lambda: [works(first, 1) for _ in range(3)]) for _ in range(12)]:
    ended(pid)
stop.set()
for thread in others:
    thread.join()
print("done")
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_kernels_work_in_forked_children(compiler, cache):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    env = {"CC": compiler, "TENSORIR_CACHE": str(cache.directory), "OMP_WAIT_POLICY": "passive"}
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **env}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr


MAIN = """
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "plus1.h"
#include "plus2.h"
static float in[64], out[64];
static int wrong(float expected) {
  for (int i = 0; i < 64; i++) if (out[i] != expected) return 1;
  return 0;
}
int main(void) {
  plus1(in, out);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    plus1(in, out);
    int failed = wrong(1);
    plus2(in, out);
    _exit(failed || wrong(2));
  }
  int status;
  waitpid(child, &status, 0);
  plus2(in, out);
  printf("%d %d\\n", status, wrong(2));
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_exported_kernels_in_a_forked_child(compiler, cache, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    sources = []
    for number in (1, 2):
        a = te.placeholder((64,), name="A")
        b = te.compute((64,), lambda i: a[i] + float(number), name="B")  # noqa: B023
        sch = Schedule(te.create_prim_func([a, b], name=f"plus{number}"))
        sch.parallel(sch.get_loops("B")[0])
        kernel = build(sch, "c -threads=3", cache=cache)
        assert (kernel(np.zeros(64, np.float32)) == number).all()
        sources.append(kernel.export(tmp_path)[0])
    (tmp_path / "main.c").write_text(MAIN)
    command = [compiler, "-O2", "-fopenmp", "-Wall", "-Werror", "main.c", *sources, "-o", "main"]
    subprocess.run([*command, "-lm"], check=True, cwd=tmp_path)
    done = subprocess.run(
        [tmp_path / "main"], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "0 0\n"
