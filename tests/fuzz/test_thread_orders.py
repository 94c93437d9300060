"""Kernels whose threads take turns are right, and a kernel that does not wait is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from thread_orders import environment  # noqa: E402

ROOT = Path(__file__).parents[2]

PROGRAM = """
import numpy as np
from backends import build
from schedule import Schedule
from tensorir import te

n = te.var("n")
x = te.placeholder((n, 7), name="x")
twice = te.compute((n, 7), lambda i, j: x[i, j] * 2.0, name="twice")
turned = te.compute((n, 7), lambda i, j: twice[n - 1 - i, j] + 1.0, name="turned")
sch = Schedule(te.create_prim_func([x, turned]))
for name in ("twice", "turned"):
    sch.parallel(sch.get_loops(name)[0])
kernel = build(sch, "c -threads=5")
assert "#pragma omp barrier" in kernel.source
a = np.random.default_rng(0).random((501, 7), np.float32)
print(np.array_equal(kernel(a), a[::-1] * 2 + 1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="takes the place of libgomp by LD_PRELOAD")
@pytest.mark.parametrize(("how", "right"), [("all", "True"), ("lost", "False")])
def test_who_does_not_wait_is_found(how, right, tmp_path, cache):
    env = {**os.environ, **environment(tmp_path), "THREAD_ORDERS": how}
    env["TENSORIR_CACHE"] = str(cache.directory)
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == [right], done.stderr
