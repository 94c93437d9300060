"""Default schedules for GPUs, an operator of each family: what they ask for, and what they take.

    python benchmarks/gpu.py               on a GPU: times, beside cuBLAS, torch and torch.compile
    python benchmarks/gpu.py --dry-run     on any machine, in four minutes: counts against limits
    python benchmarks/gpu.py --dry-run --drawn 200 --seed 1     of shapes that nobody chose

A dry run schedules and compiles every row at full size and counts what its kernels ask for
(`autotune.explain`), and runs it in a small size on the emulator, where results are compared with
the definition and counts with those of the estimate. On a GPU results are compared with torch's
before they are timed, in turns, by events of the device.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np  # noqa: E402

from backends import ObjectCache, build, have_compiler, source_text, why_not_here  # noqa: E402
from benchmarks.gpus.counts import (  # noqa: E402
    HEADER,
    Counted,
    as_markdown,
    cells,
    count,
    held,
    slow,
)
from benchmarks.gpus.drawn import drawn  # noqa: E402
from benchmarks.gpus.rows import ROWS, Row  # noqa: E402
from benchmarks.table import plain_table, show_table, write_readme  # noqa: E402
from schedule import Schedule  # noqa: E402
from schedule.library import gpu  # noqa: E402
from tensorir import TensorIRError, ops, te  # noqa: E402

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gpu_counts.md"
"""The table of the dry run is here."""


def tools(n: int) -> dict[str, float]:
    """Seconds of what happens on any machine, for the fp32 matmul of n x n x n by hand: from
    nothing kept, but the emulator's own runtime."""
    a, b = (np.ones((n, n), "float32") for _ in range(2))
    found: dict[str, float] = {}

    def took(name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        found[name] = time.perf_counter() - start
        return result

    for target in ("cuda-emulator", "cuda-emulator -check=races"):  # loads the runtimes
        build(_matmul(8), target)(*(np.ones((8, 8), "float32"),) * 2)
    sch = _matmul(n)
    with tempfile.TemporaryDirectory() as folder:
        cache = ObjectCache(folder)
        source = took("lower and emit", lambda: source_text(sch.func, "cuda"))
        kernel = took("build for the emulator", lambda: build(sch, "cuda-emulator", cache=cache))
        kernel(a, b)
        took("run on the emulator", lambda: kernel(a, b))
        races = build(sch, "cuda-emulator -check=races", cache=cache)
        took("run under the race check", lambda: races(a, b))
        if have_compiler("cuda"):
            from backends.cuda.nvrtc import compile_cubin

            took("NVRTC for sm_90a", lambda: compile_cubin(source, "sm_90a"))
    return found


def _matmul(n: int) -> Schedule:
    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    sch = Schedule(te.create_prim_func([a, b, ops.matmul(a, b, name="C")], name="matmul"))
    gpu.matmul(sch, "C")
    return sch


def dry_run(rows: Sequence[Row], options: argparse.Namespace) -> int:
    """Counts of all rows. 1 where a row has no kernel or a wrong result, else 0: figures that do
    not hold are said."""
    found, failed = list[Counted](), dict[str, str]()
    for row in rows:
        try:
            found.append(count(row))
        except TensorIRError as error:
            failed[row.name] = str(error)
    print(plain_table(HEADER, [cells(each) for each in found]))
    print(held(found, failed), *slow(found), sep="\n")
    wrong = {c.name: m for c in found for m in c.misses if m.startswith("wrong")}
    for name, why in {**failed, **wrong}.items():
        print(f"{name}: {why}", file=sys.stderr)
    seconds = {} if options.only or options.drawn else tools(64)
    for name, value in seconds.items():
        print(f"{name:36} {1e3 * value:10.1f} ms")
    if options.write_readme and not write_readme(PAGE, "gpu", as_markdown(found, failed)):
        print(f"{PAGE} has no marks <!-- gpu -->", file=sys.stderr)
        return 1
    made = {"rows": [asdict(each) for each in found], "failed": failed, "tools_s": seconds}
    _write(options.json, made)
    return 1 if failed or wrong else 0


def run(rows: Sequence[Row], options: argparse.Namespace) -> int:
    """Times of all rows on the GPU that is current."""
    from benchmarks.gpus.timed import Device, by_hand, call_overhead, copy_rate, figure

    device = Device()
    copied = copy_rate(device, options.rounds)
    figures = [figure(row, device, copied, options.rounds) for row in rows]
    hand = by_hand(device, 4096, options.rounds)
    overhead = call_overhead(device, options.rounds)
    sides = list(dict.fromkeys(side for f in figures for side in f.ms))
    table = [
        (f.name, *(f"{f.ms[s]:.4f}" if s in f.ms else "-" for s in sides), f"{f.spread:.1%}",
         f"{f.share:.0%} of {f.of}")
        for f in figures
    ]  # fmt: skip
    show_table(("row", *(f"{side}, ms" for side in sides), "+-", "share"), table)
    print(f"a copy moves {1e-9 * copied:.0f} GB/s; a call takes {1e6 * overhead:.1f} us")
    print(f"matmul 4096 by hand takes {hand:.4f} ms")
    made = {"rows": [asdict(f) for f in figures], "copy_gbps": 1e-9 * copied, "call_s": overhead}
    _write(options.json, {**made, "by_hand_ms": hand, "tools_s": tools(256)})
    return 0


def _write(path: Path | None, made: dict[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="counts, on any machine")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="only rows with this text in their name; may be repeated")  # fmt: skip
    parser.add_argument("--drawn", type=int, default=0, metavar="N",
                        help="instead N rows of shapes that nobody chose")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the rows that are drawn")
    parser.add_argument("--rounds", type=int, default=20, help="blocks of calls of each")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--write-readme", action="store_true",
                        help="renew the table of the dry run in docs/gpu_counts.md")  # fmt: skip
    options = parser.parse_args()
    every = drawn(options.seed, options.drawn) if options.drawn else ROWS.values()
    rows = [r for r in every if not options.only or any(t in r.name for t in options.only)]
    if not rows:
        print(f"no row has {options.only!r} in its name; rows are:", *ROWS, sep="\n  ")
        return 2
    if options.drawn and not options.dry_run:
        print("--drawn counts, and times nothing: give --dry-run too", file=sys.stderr)
        return 2
    why = None if options.dry_run else why_not_here("cuda")
    if why is not None:
        print(f"{why}; --dry-run needs no GPU", file=sys.stderr)
        return 1
    try:
        return dry_run(rows, options) if options.dry_run else run(rows, options)
    except (AssertionError, ImportError, TensorIRError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
