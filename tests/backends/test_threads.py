"""How many threads a kernel uses is the caller's choice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os
import time
import numpy as np
from backends import build
from schedule import Schedule
from tensorir import te

a = te.placeholder((64,), "float32", name="A")
sch = Schedule(te.create_prim_func([a, te.compute((64,), lambda i: a[i] + 1.0, name="B")]))
sch.parallel(sch.get_loops("B")[0])

def threads():
    return len(os.listdir("/proc/self/task"))

before = threads()
for target in TARGETS:
    kernel = build(sch, target)
    time.sleep(0.05)  # what compiled in the background is gone
    kernel(np.zeros(64, np.float32))
    print(1 + threads() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads in /proc")
@pytest.mark.parametrize("wanted", ["1", "3"])
def test_targets_and_the_environment_decide(wanted, cache):
    targets = ["c -threads=1", "c", "c -threads=4"]
    code = f"TARGETS = {targets}\n{CODE}"
    env = {"OMP_NUM_THREADS": wanted, "TENSORIR_CACHE": str(cache.directory)}
    env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", wanted, "4"]
