"""From nothing to the first result: how long a new process takes, phase by phase.

    python benchmarks/cold_start.py [--only NAME] [--runs N] [--no-bytecode] [--warm]

Each run is a new process that imports the packages, defines an operator, takes its default
schedule, builds it with an empty cache of compiled objects, and calls it once. Milliseconds are
medians over the runs, which take turns: of wall time, and in parentheses of processor time with
that of the compiler (NumPy's BLAS threads wait busily after its import and count there).
NumPy's row is its import and its first call of the same operator.

--no-bytecode  Python compiles every module of ours, as where it cannot keep what it compiled
--warm         the compiled objects are found in the cache
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PHASES = ("python", "numpy", "import", "te", "resolve", "schedule", "build", "run")
Phases = dict[str, tuple[float, float]]


def cpu() -> float:
    """Seconds of processor time of this process and of those that it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in both)


@contextmanager
def phase(name: str, into: Phases) -> Iterator[None]:
    start, used = time.perf_counter(), cpu()
    yield
    into[name] = (time.perf_counter() - start, cpu() - used)


def matmul() -> Any:
    from tensorir import te

    a, b = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B")
    k = te.reduce_axis(512, name="k")
    c = te.compute((512, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c], name="matmul")


def conv2d() -> Any:
    from tensorir import ops, te

    x, w = te.placeholder((1, 64, 28, 28), name="X"), te.placeholder((64, 64, 3, 3), name="W")
    return te.create_prim_func([x, w, ops.conv2d(x, w, padding=1)], name="conv2d")


def softmax() -> Any:
    from tensorir import ops, te

    x = te.placeholder((512, 1024), name="X")
    return te.create_prim_func([x, ops.softmax(x)], name="softmax")


def layer_norm() -> Any:
    from tensorir import ops, te

    x = te.placeholder((512, 1024), name="X")
    gamma, beta = te.placeholder((1024,), name="G"), te.placeholder((1024,), name="B")
    return te.create_prim_func([x, gamma, beta, ops.layer_norm(x, gamma, beta)], name="norm")


OPERATORS: dict[str, Callable[[], Any]] = {
    "matmul": matmul,
    "conv2d": conv2d,
    "softmax": softmax,
    "layer_norm": layer_norm,
}
NUMPY = "numpy's matmul"


def first_call(name: str, started: float) -> Phases:
    """What a process begun at `started` does until it has the first result.

    Seconds of wall and processor time by phase.
    """
    found: Phases = {"python": (time.perf_counter() - started, cpu())}
    with phase("numpy", found):
        import numpy as np
    if name == NUMPY:
        with phase("run", found):
            a = np.ones((512, 512), np.float32)
            a @ a
        return found
    with phase("import", found):
        from autotune import default_schedule
        from backends import build, resolve
        from tensorir import te  # noqa: F401
    with phase("te", found):
        func = OPERATORS[name]()
    with phase("resolve", found):
        target = resolve("c")
    with phase("schedule", found):
        schedule = default_schedule(func, target)
    with phase("build", found):
        kernel = build(schedule, target)
    inputs = [np.ones(p.const_shape, np.float32) for p in func.inputs]
    with phase("run", found):
        result = kernel(*inputs)
    assert np.isfinite(result).all()
    return found


def new_process(name: str, environment: dict[str, str], cache: str) -> Phases:
    """The phases of one new process."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", name, "--started"]
    environment = {**environment, "TENSORIR_CACHE": cache}
    # The clock is that of the system: processes agree on it.
    command.append(repr(time.perf_counter()))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr}")
    found: Phases = json.loads(done.stdout)
    return found


def measure(names: list[str], runs: int, bytecode: bool, warm: bool) -> dict[str, list[Phases]]:
    """The phases of `runs` processes for each name, in turns, after one that is not counted."""
    results: dict[str, list[Phases]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if bytecode:
            environment["PYTHONPYCACHEPREFIX"] = str(Path(folder, "bytecode"))
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
        else:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        for number in range(runs + 1):
            for name in names:
                cache = "warm" if warm else f"{name}-{number}"
                found = new_process(name, environment, str(Path(folder, cache)))
                if number:
                    results[name].append(found)
    return results


def row(name: str, results: list[Phases]) -> str:
    """A line of the table."""
    cells = []
    for part in PHASES:
        times = [found[part][0] for found in results if part in found]
        cells.append(f"{statistics.median(times) * 1e3:9.0f}" if times else f"{'-':>9}")
    totals = [[sum(part[n] for part in found.values()) for found in results] for n in (0, 1)]
    wall, own = (statistics.median(total) * 1e3 for total in totals)
    return f"{name:<15}{''.join(cells)}{wall:8.0f}{f'({own:.0f})':>8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=[*OPERATORS, NUMPY], default=[])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--no-bytecode", action="store_true")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--started", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        sys.path.insert(0, str(ROOT))
        print(json.dumps(first_call(options.child, options.started)))
        return
    if options.runs < 1:
        parser.error("--runs must be 1 or more")
    names = options.only or [*OPERATORS, NUMPY]
    results = measure(names, options.runs, not options.no_bytecode, options.warm)
    head = "".join(f"{part:>9}" for part in PHASES)
    print(f"{'ms':<15}{head}{'all':>8}{'(cpu)':>8}")
    for name, found in results.items():
        print(row(name, found))


if __name__ == "__main__":
    main()
