"""From nothing to the first result: how long a new process takes, phase by phase.

    python benchmarks/cold_start.py [--only NAME] [--all] [--runs N] [--no-bytecode] [--warm]

Each run is a new process that imports the packages, defines an operator, takes its default
schedule, builds it with an empty cache of compiled objects, and calls it once. Milliseconds are
medians over the runs, which take turns: of wall time, and in parentheses of processor time with
that of the compiler (NumPy's BLAS threads wait busily after its import and count there).
NumPy's row is its import and its first call of the same operator. Columns after `schedule`:
lowering with the printing of C, the C compiler, loading, and the first call.

--only NAME    a row of cold_rows.py, such as softmax.2, or softmax:0 for the operator's own
               example of that number
--all          every row of cold_rows.py, slowest first, with those over the limit counted
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
import threading
import time
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PHASES = (
    "python", "numpy", "import", "te", "resolve", "schedule", "lower", "compile", "load", "run",
)  # fmt: skip
LIMIT_MS = 400
"""What every operator shall stay below."""
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


USUAL = ("matmul", "conv2d", "softmax", "layer_norm")
NUMPY = "numpy's matmul"


def first_call(name: str, row: str, started: float) -> Phases:
    """What a process begun at `started` does until it has the first result.

    Seconds of wall and processor time by phase; `row` is what row_text() made.
    """
    found: Phases = {"python": (time.perf_counter() - started, cpu())}
    with phase("numpy", found):
        import numpy as np
    if name == NUMPY:
        with phase("run", found):
            a = np.ones((512, 512), np.float32)
            a @ a
        return found
    operator, *given, sizes = literal_eval(row)
    with phase("import", found):
        from autotune import default_schedule
        from backends import resolve
        from tensorir import te  # noqa: F401
    with phase("te", found):
        func = define(operator, given, sizes)
    with phase("resolve", found):
        target = resolve("c")
    with phase("schedule", found):
        schedule = default_schedule(func, target)
    kernel = build_in_phases(schedule, target, found)
    inputs = ones(func, sizes)
    with phase("run", found):
        results = kernel(*inputs)
    for result in results if isinstance(results, tuple) else (results,):
        assert np.isfinite(result).all()
    return found


def define(operator: str, given: list[Any], sizes: dict[str, int]) -> Any:
    """The program of an operator; nothing of the other operators is imported."""
    from tensorir import ops

    make = getattr(ops, operator)
    registry = sys.modules["tensorir.ops.registry"]
    assert make.__name__ == operator
    return registry.prim_func(operator, registry.Example(*given, sizes=sizes))


def build_in_phases(schedule: Any, target: Any, found: Phases) -> Any:
    """build(), with the times before, in and after the C compiler."""
    from backends import build
    from backends.c import compiler as cc

    compile_shared, marks = cc.compile_shared, [(time.perf_counter(), cpu())]

    def marked(*args: Any, **more: Any) -> None:
        # What calls of kernels need is compiled besides, on a thread of its own.
        own = threading.current_thread() is threading.main_thread()
        if own:
            marks.append((time.perf_counter(), cpu()))
        compile_shared(*args, **more)
        if own:
            marks.append((time.perf_counter(), cpu()))

    cc.compile_shared = marked
    kernel = build(schedule, target)
    marks.append((time.perf_counter(), cpu()))
    names = ("lower", "compile", "load") if len(marks) == 4 else ("lower",)
    for name, a, b in zip(names, marks, marks[1:]):
        found[name] = (b[0] - a[0], b[1] - a[1])
    return kernel


def ones(func: Any, sizes: dict[str, int]) -> list[Any]:
    """An array of ones for each input."""
    import numpy as np

    from tensorir import dtype

    shapes = [[sizes.get(getattr(d, "name", ""), d) for d in p.shape] for p in func.inputs]
    return [
        np.ones([int(getattr(d, "value", d)) for d in shape], dtype.numpy_dtype(p.dtype))
        for shape, p in zip(shapes, func.inputs)
    ]


def row_text(name: str) -> str:
    """The operator and the example of a row, as a Python literal for another process."""
    operator, example = row_of(name)
    shapes = [None if s is None else tuple(s) for s in example.shapes]
    return repr((operator, shapes, dict(example.attrs), example.dtypes, None, dict(example.sizes)))


def row_of(name: str) -> tuple[str, Any]:
    """The row of that name: of cold_rows.py, or OPERATOR:NUMBER for an example of its own.

    Raises KeyError, with what there is.
    """
    from benchmarks.cold_rows import cold_rows

    operator, _, number = name.partition(":")
    if number.isdigit():
        from tensorir.ops.registry import find_operator

        return operator, find_operator(operator).examples[int(number)]
    rows = cold_rows()
    if name not in rows:
        operator = name.partition(".")[0]
        close = ", ".join(n for n in rows if n.partition(".")[0] == operator)
        raise KeyError(f"there is no row {name!r}; {close or ', '.join(rows)}")
    return rows[name]


def new_process(name: str, row: str, environment: dict[str, str], cache: str) -> Phases:
    """The phases of one new process."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", name, "--row", row]
    environment = {**environment, "TENSORIR_CACHE": cache}
    # The clock is that of the system: processes agree on it.
    command += ["--started", repr(time.perf_counter())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stderr}")
    found: Phases = json.loads(done.stdout)
    return found


def measure(names: list[str], runs: int, bytecode: bool, warm: bool) -> dict[str, list[Phases]]:
    """The phases of `runs` processes for each name, in turns, after one that is not counted."""
    rows = {name: "" if name == NUMPY else row_text(name) for name in names}
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
                found = new_process(name, rows[name], environment, str(Path(folder, cache)))
                if number:
                    results[name].append(found)
    return results


def total(results: list[Phases], of: int = 0) -> float:
    """Median milliseconds of all phases: of wall time, or with 1 of processor time."""
    return statistics.median(sum(p[of] for p in found.values()) for found in results) * 1e3


def line(name: str, results: list[Phases]) -> str:
    """A line of the table."""
    cells = []
    for part in PHASES:
        times = [found[part][0] for found in results if part in found]
        cells.append(f"{statistics.median(times) * 1e3:9.0f}" if times else f"{'-':>9}")
    own = f"({total(results, 1):.0f})"
    return f"{name:<20}{''.join(cells)}{total(results):8.0f}{own:>8}"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--only", action="append", default=[])
    made.add_argument("--all", action="store_true")
    made.add_argument("--runs", type=int)
    made.add_argument("--no-bytecode", action="store_true")
    made.add_argument("--warm", action="store_true")
    for hidden in ("--child", "--row"):
        made.add_argument(hidden, help=argparse.SUPPRESS)
    made.add_argument("--started", type=float, help=argparse.SUPPRESS)
    return made


def main() -> None:
    sys.path.insert(0, str(ROOT))
    options = parser().parse_args()
    if options.child:
        print(json.dumps(first_call(options.child, options.row, options.started)))
        return
    runs = options.runs or (1 if options.all else 7)
    if runs < 1:
        parser().error("--runs must be 1 or more")
    names = options.only or [*USUAL, NUMPY]
    if options.all:
        from benchmarks.cold_rows import cold_rows

        names = list(cold_rows())
    try:
        results = measure(names, runs, not options.no_bytecode, options.warm)
    except (KeyError, IndexError) as error:
        parser().error(error.args[0])
    if options.all:
        results = dict(sorted(results.items(), key=lambda item: -total(item[1])))
    head = "".join(f"{part:>9}" for part in PHASES)
    print(f"{'ms':<20}{head}{'all':>8}{'(cpu)':>8}")
    for name, found in results.items():
        print(line(name, found))
    if options.all:
        over = sum(total(found) > LIMIT_MS for found in results.values())
        print(f"{over} of {len(results)} rows take over {LIMIT_MS} ms")


if __name__ == "__main__":
    main()
