"""`make fuzz`: random schedules of random workloads against their unscheduled meaning.

Each seed is one workload and one random trace. Printing, parsing, replay and the interpreter are
checked for every seed, races for every fourth, compiled C for every N-th, and there also that
schedules that claim "bitwise" give equal bits. `--sanitize` compiles with gcc's address and
undefined behaviour sanitizers, with `--orders` threads of a kernel take turns in any order. With
`--networks` a seed is a random network of operators, and what is checked are the schedules that
rules, the library and the search make of it: all of them compiled, for several targets, against the
oracle of the tuner. With `--invented` it is a program of random tensor expressions, checked in the
same way. With `--small` it is either, for a machine of small caches and any costs: small programs
are scheduled as large ones are. With `--databases` it is a tuning database that is damaged at
random: what is whole is read, and no error is a raw one. With `--kills` it is a search that is
ended at random moments and begun again, compared with the one that never was. With `--te` it is a
list of requests to a te schedule: they come to one program, or one error, in whatever order they
are made. With `--gpu` it is a schedule for a GPU, whose threads meet no races, find what they are
to find, and do so after lowering too. With `--odd` requests have any arguments: names that are not
there, numbers that are too large, index maps of all kinds. Seeds run in worker processes: one that
crashes or hangs is a finding, and the others go on. The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

BATCH = 250
"""Seeds per worker process; compiled objects stay mapped until it ends."""

RACES_EVERY = 4
"""Seeds between runs of the race sanitizer, which is slower than the interpreter."""

HANG_SECONDS = 180


@dataclass
class Totals:
    """What all workers have reported."""

    seeds: int = 0
    schedules: int = 0
    compiled: int = 0
    bitwise: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    workloads: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)
    broken: bool = False
    """Whether the fuzzer itself failed."""

    def add(self, row: dict[str, Any]) -> None:
        self.seeds += 1
        self.workloads[row["workload"]] += 1
        self.schedules += sum(row["accepted"].values()) > 0
        self.compiled += row["compiled"]
        self.bitwise += row["bitwise"]
        self.asked.update(row["asked"])
        self.accepted.update(row["accepted"])
        if row["finding"]:
            self.findings.append(row["finding"])

    def table(self) -> str:
        lines = [f"{'primitive':24}{'asked':>9}{'accepted':>10}{'share':>8}"]
        for name in sorted(self.asked):
            asked, accepted = self.asked[name], self.accepted[name]
            lines.append(f"{name:24}{asked:9}{accepted:10}{accepted / asked:8.1%}")
        return "\n".join(lines)

    def line(self) -> str:
        return (
            f"{self.seeds} seeds, {self.schedules} schedules accepted, {self.compiled} compiled, "
            f"{self.bitwise} compared bit by bit, {len(self.findings)} findings"
        )


OTHERS = {
    "networks": "network_checks",
    "databases": "database_checks",
    "kills": "killed_searches",
    "te": "te_checks",
    "gpu": "gpu_checks",
    "invented": "invented_checks",
    "small": "small_checks",
}
"""Options that say what a seed is, if it is no workload with a trace, and the modules for them."""


def other_checks(options: argparse.Namespace) -> str | None:
    """The module that checks a seed, if the options ask for one."""
    return next((OTHERS[name] for name in OTHERS if getattr(options, name)), None)


def check_seed(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Everything about one seed, as a row for the parent."""
    module = other_checks(options)
    if module is not None:
        return import_module(module).check_seed(seed)  # type: ignore[no-any-return]
    import checks

    case = checks.make_case(seed, options.odd)
    row: dict[str, Any] = {"seed": seed, "compiled": 0, "bitwise": 0, "finding": None}
    row["workload"] = case.work.func.name
    stages: list[tuple[str, Any]] = [
        ("text", checks.check_text),
        ("interpreter", partial(checks.check_interpreted, seed=seed)),
    ]
    if seed % RACES_EVERY == 0:
        stages.append(("races", partial(checks.check_races, seed=seed)))
    if options.compile_every and seed % options.compile_every == 0:
        stages.append(("compiled", partial(checks.check_compiled, seed=seed)))
        if not options.sanitize:
            stages.append(("bitwise", partial(checks.check_bits, seed=seed)))
    stage, check = "primitive", lambda sch, work: None
    try:
        checks.apply_requests(case)
        for stage, check in stages:
            result = check(case.sch, case.work)
            if stage in ("compiled", "bitwise"):
                row[stage] = int(result is not False)
    except Exception as error:
        row["finding"] = describe(case, stage, check, error)
    row["asked"], row["accepted"] = dict(case.stress.asked), dict(case.stress.accepted)
    return row


def describe(case: Any, stage: str, check: Any, error: Exception) -> dict[str, Any]:
    import checks

    text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    sch, last = case.sch, ""
    if stage == "primitive":
        last = f"{case.stress.last}\n"
    else:
        sch = checks.shortest(case, check)
    program = checks.as_program(sch.definition, sch.trace, case.work.sizes) + last
    return {"seed": case.seed, "stage": stage, "error": text, "program": program}


def work(options: argparse.Namespace) -> None:
    """A worker: one line of JSON when a seed begins and one when it is done."""
    for seed in range(options.seed, options.seed + options.count):
        print(json.dumps({"begin": seed}), flush=True)
        print(json.dumps(check_seed(seed, options)), flush=True)


def run_worker(
    first: int, count: int, options: argparse.Namespace, folder: Path, stop: threading.Event
) -> Iterator[dict[str, Any]]:
    """Rows of the seeds first, first + 1, ...; a process that dies becomes a finding."""
    done = 0
    while done < count and not stop.is_set():
        command = [sys.executable, str(Path(__file__)), "--worker"]
        command += ["--seed", str(first + done), "--count", str(count - done)]
        command += ["--compile-every", str(options.compile_every)]
        command += ["--sanitize"] if options.sanitize else []
        command += ["--odd"] if options.odd else []
        command += ["--orders"] if options.orders else []
        command += [f"--{name}" for name in OTHERS if getattr(options, name)]
        environment = {**os.environ, "TENSORIR_CACHE": str(folder / "cache")}
        if options.sanitize:
            import checks

            environment.update(checks.sanitizer_environment())
        if options.orders:
            import thread_orders

            environment.update(thread_orders.environment(folder))
        with open(folder / f"{first}.err", "w+", encoding="utf-8") as errors:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=ROOT
            )
            seed, rows = yield from _listen(process, stop)
            done += rows
            if stop.is_set() or seed is None:
                return
            errors.seek(0)
            yield _died(seed, process.returncode, errors.read(), options)
            done += 1


def _listen(
    process: subprocess.Popen[str], stop: threading.Event
) -> Generator[dict[str, Any], None, tuple[int | None, int]]:
    """Rows as they come; returns the seed during which the process died, and the rows it gave."""
    seed, rows = None, 0
    assert process.stdout is not None
    timer: threading.Timer | None = None
    try:
        for line in process.stdout:
            if timer is not None:
                timer.cancel()
            timer = threading.Timer(HANG_SECONDS, process.kill)
            timer.daemon = True
            timer.start()
            row = json.loads(line)
            if "begin" in row:
                seed = row["begin"]
                continue
            seed, rows = None, rows + 1
            yield row
            if stop.is_set():
                break
    finally:
        if timer is not None:
            timer.cancel()
        if stop.is_set():
            process.kill()
        process.wait()
    return seed, rows


def _died(seed: int, status: int, errors: str, options: argparse.Namespace) -> dict[str, Any]:
    """The row of a seed whose process ended before it was done."""
    lines = errors.strip().splitlines()
    told = [line for line in lines if "ERROR" in line or "runtime error" in line] or lines[-3:]
    error = f"the process ended with status {status}: {' / '.join(told)}"
    finding = {"seed": seed, "stage": "process", "error": error}
    module = other_checks(options)
    if module is not None:
        name = module.removesuffix("_checks")
        finding["program"] = f"tests/fuzz/{module}.py: check_seed({seed})\n"
    elif status == -signal.SIGKILL:  # it hung, and would do so here as well
        words = f"--seed {seed} --count 1{' --odd' * options.odd}"
        name, finding["program"] = "", f"tests/fuzz/fuzz.py {words}\n"
    else:
        name, finding["program"] = _requested(seed, options.odd)
    return {
        "seed": seed, "workload": name, "compiled": 1, "bitwise": 0,
        "asked": {}, "accepted": {}, "finding": finding,
    }  # fmt: skip


def _requested(seed: int, odd: bool) -> tuple[str, str]:
    """The workload of a seed, and the program that its requests make."""
    import checks

    case = checks.make_case(seed, odd)
    checks.apply_requests(case)
    work = case.work
    return work.func.name, checks.as_program(work.func, case.sch.trace, work.sizes)


def fuzz(options: argparse.Namespace) -> Totals:
    """Run the seeds in `options.jobs` processes and collect what they report."""
    totals, rows, stop = Totals(), queue.Queue[Any](), threading.Event()
    starts = iter(range(options.seed, options.seed + options.count, BATCH))
    lock = threading.Lock()
    end = time.monotonic() + options.seconds if options.seconds else None

    def loop(folder: Path) -> None:
        try:
            while not stop.is_set():
                with lock:
                    first = next(starts, None)
                if first is None:
                    break
                count = min(BATCH, options.seed + options.count - first)
                for row in run_worker(first, count, options, folder, stop):
                    rows.put(row)
        except Exception:
            traceback.print_exc()
            totals.broken = True
        finally:
            rows.put(None)

    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        threads = [threading.Thread(target=loop, args=(Path(name),)) for _ in range(options.jobs)]
        for thread in threads:
            thread.start()
        running, shown = len(threads), time.monotonic()
        while running:
            row = rows.get()
            if row is None:
                running -= 1
                continue
            totals.add(row)
            if row["finding"]:
                print(show_finding(row["finding"]), flush=True)
            if time.monotonic() > shown + options.report:
                shown = time.monotonic()
                print(f"  {totals.line()}; last seed {row['seed']}", flush=True)
            if end is not None and time.monotonic() > end:
                stop.set()
    return totals


def show_finding(finding: dict[str, Any]) -> str:
    head = f"seed {finding['seed']}, {finding['stage']}: {finding['error']}"
    return f"\nFINDING {head}\n{finding['program']}"


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1_000_000, help="how many seeds at most")
    parser.add_argument("--seconds", type=float, default=0, help="stop after that time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--compile-every", type=int, default=20, metavar="N", help="0: never")
    loaded = parser.add_mutually_exclusive_group()
    loaded.add_argument("--sanitize", action="store_true", help="gcc's address and UB sanitizers")
    loaded.add_argument("--orders", action="store_true", help="threads of kernels take turns")
    parser.add_argument("--networks", action="store_true", help="rules on random networks")
    parser.add_argument("--databases", action="store_true", help="damaged tuning databases")
    parser.add_argument("--kills", action="store_true", help="searches that are killed")
    parser.add_argument("--te", action="store_true", help="requests to te schedules in any order")
    parser.add_argument("--gpu", action="store_true", help="schedules for GPUs")
    parser.add_argument("--odd", action="store_true", help="requests with any arguments")
    parser.add_argument("--invented", action="store_true", help="rules on random expressions")
    parser.add_argument("--small", action="store_true", help="rules for very small machines")
    parser.add_argument("--report", type=float, default=15, help="seconds between progress lines")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    options = parse_arguments(words)
    if options.worker:
        work(options)
        return 0
    print(f"fuzz from seed {options.seed}, {options.jobs} processes", flush=True)
    totals = fuzz(options)
    print(totals.table())
    print(totals.line())
    return 1 if totals.findings or totals.broken or not totals.schedules else 0


if __name__ == "__main__":
    sys.exit(main())
