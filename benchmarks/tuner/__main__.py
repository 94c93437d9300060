"""How good searches are: all strategies on recorded times, and the policy without each ingredient.

    python -m benchmarks.tuner [--seeds N] [--trials N] [--only NAME ...] [--write-readme]

Nothing is compiled and nothing is timed: `python -m benchmarks.tuner.record` makes the recordings.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from backends import host_threads
from benchmarks.table import show_table, write_readme
from benchmarks.tuner.compare import Row, compared
from benchmarks.tuner.plot import draw
from benchmarks.tuner.record import RECORDED, WORK

ROOT = Path(__file__).resolve().parents[2]
EARLY = 24
HEADER = ("strategy", "mean, 24", "mean", "found, 24", "found")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 2 a wrong request."""
    options = _parser().parse_args(argv)
    paths = [
        path
        for path in sorted(options.recorded.glob("*.jsonl.gz"))
        if not options.only or path.name.removesuffix(".jsonl.gz") in options.only
    ]
    if not paths:
        print(
            f"no recording in {options.recorded}: python -m benchmarks.tuner.record makes them",
            file=sys.stderr,
        )
        return 2
    begun = time.perf_counter()
    rows, without = compared(
        paths, options.trials, options.seeds, options.jobs, not options.no_ablations
    )
    seconds = time.perf_counter() - begun
    rows.sort(key=lambda row: row.mean(options.trials))
    searches = (len(rows) + len(without)) * len(paths) * options.seeds
    about = f"{len(paths)} recordings, {options.seeds} seeds, {options.trials} trials"
    print(f"{about}: {searches} searches in {seconds:.0f} s")
    lines = [_cells(row, options.trials) for row in rows]
    show_table(HEADER, lines, "time of the winner / best known; share within 5 % of it")
    policy = next(row for row in rows if row.name == "policy")
    ablations = [_ablation(row, policy, options.trials) for row in without]
    if ablations:
        show_table(
            ("policy without", f"slower, {EARLY}", "slower"), ablations,
            "winners' times / those of the policy, 95 % intervals",
        )  # fmt: skip
    if options.json:
        _write(options.json, rows, without, paths)
        draw(rows, options.json.with_suffix(".png"), about)
    if options.write_readme:
        if not write_readme(ROOT / "README.md", "tuner", _markdown(HEADER, lines)):
            print("README.md has no marks <!-- tuner --> and <!-- /tuner -->", file=sys.stderr)
            return 2
        draw(rows, ROOT / "docs" / "images" / "tuner.png", about)
    return 0


def _cells(row: Row, trials: int) -> tuple[str, ...]:
    early = min(EARLY, trials)
    means = [f"{row.mean(n):.3f}" for n in (early, trials)]
    return row.name, *means, *[f"{row.found(n):.0%}" for n in (early, trials)]


def _ablation(row: Row, policy: Row, trials: int) -> tuple[str, ...]:
    found = [row.against(policy, n) for n in (min(EARLY, trials), trials)]
    return row.name, *[f"{m:.3f} [{low:.3f}, {high:.3f}]" for m, low, high in found]


def _markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---", *["---:"] * (len(header) - 1)], *lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _write(path: Path, rows: Sequence[Row], without: Sequence[Row], paths: Sequence[Path]) -> None:
    def table(found: Sequence[Row]) -> dict[str, object]:
        return {row.name: row.regrets.round(4).tolist() for row in found}

    path.parent.mkdir(parents=True, exist_ok=True)
    names = [p.name.removesuffix(".jsonl.gz") for p in paths]
    found = {"strategies": table(rows), "without": table(without)}
    data = {"recordings": names, "trials": rows[0].marks, **found}
    path.write_text(json.dumps(data) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuner",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=20, help="searches of each (20)")
    parser.add_argument("--trials", type=int, default=64, help="of each search (64)")
    parser.add_argument("--only", action="append", metavar="NAME", help="these recordings alone")
    parser.add_argument("--jobs", type=int, default=host_threads(), help="processes")
    parser.add_argument("--no-ablations", action="store_true", help="the strategies alone")
    parser.add_argument("--recorded", type=Path, default=RECORDED, help=f"({RECORDED})")
    parser.add_argument("--json", type=Path, default=WORK / "searches.json", help="and a plot")
    parser.add_argument("--write-readme", action="store_true", help="renew table and plot there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
