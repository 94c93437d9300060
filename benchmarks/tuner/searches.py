"""How good searches are: all strategies on recorded times, and the policy without each ingredient.

    python -m benchmarks.tuner.searches [--seeds N] [--trials N] [--only NAME ...] [--write-readme]

Nothing is compiled and nothing is timed: `python -m benchmarks.tuner.record` makes the recordings.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from backends import host_threads
from benchmarks.table import show_table
from benchmarks.tuner.compare import Compared, Row, ceiling, compared
from benchmarks.tuner.plot import draw
from benchmarks.tuner.record import RECORDED
from benchmarks.tuner.section import RESULTS, ROOT, Section, chosen, parser_of, publish

EARLY = 24
HEADER = (
    "strategy", "mean, 24", "mean", "found, 24", "found", "without noise, 24", "without noise",
)  # fmt: skip
FILE = "searches.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 2 a wrong request."""
    options = _parser().parse_args(argv)
    paths = recordings(options)
    if not paths:
        print(
            f"no recording in {options.recorded}: python -m benchmarks.tuner.record makes them",
            file=sys.stderr,
        )
        return 2
    if options.quick:
        paths, options.seeds, options.trials = paths[:1], 1, min(options.trials, 16)
        options.no_ablations = True
    begun = time.perf_counter()
    found = compared(paths, options.trials, options.seeds, options.jobs, not options.no_ablations)
    rows, _, without = found
    seconds = time.perf_counter() - begun
    rows.sort(key=lambda row: row.mean(options.trials))
    searches = sum(map(len, found)) * len(paths) * options.seeds
    about = f"{len(paths)} recordings, {options.seeds} seeds, {options.trials} trials"
    print(f"{about}: {searches} searches in {seconds:.0f} s")
    status = publish(_section(found, paths, options.trials), options)
    print(f"of candidates as fast as the best known, {ceiling(paths):.0%} would count as found")
    policy = next(row for row in rows if row.name == "policy")
    ablations = [_ablation(row, policy, options.trials) for row in without]
    if ablations:
        show_table(
            ("policy without", f"slower, {EARLY}", "slower"), ablations,
            "winners' times / those of the policy, 95 % intervals",
        )  # fmt: skip
    if not options.quick:
        draw(rows, (options.json or RESULTS / FILE).with_suffix(".png"), about)
    if options.write_readme:
        draw(rows, ROOT / "docs" / "images" / "tuner.png", about)
    return status


def recordings(options: argparse.Namespace) -> list[Path]:
    """The recordings that are asked for, by their names."""
    known = {p.name.removesuffix(".jsonl.gz"): p for p in options.recorded.glob("*.jsonl.gz")}
    return [known[name] for name in chosen(sorted(known), options.only)]


def _section(found: Compared, paths: Sequence[Path], trials: int) -> Section:
    def table(rows: Sequence[Row]) -> dict[str, object]:
        return {row.name: row.regrets.round(4).tolist() for row in rows}

    rows, quiet, without = found
    names = [p.name.removesuffix(".jsonl.gz") for p in paths]
    kinds = {"strategies": table(rows), "quiet": table(quiet), "without": table(without)}
    data = {"recordings": names, "trials": rows[0].marks, **kinds}
    title = "searches: time of the winner / best known; share within 5 % of it"
    still = {row.name: row for row in quiet}
    lines = [_cells(row, still[row.name], trials) for row in rows]
    return Section("tuner", FILE, title, HEADER, lines, data)


def _cells(row: Row, quiet: Row, trials: int) -> tuple[str, ...]:
    marks = min(EARLY, trials), trials
    means = [f"{row.mean(n):.3f}" for n in marks]
    return row.name, *means, *[f"{each.found(n):.0%}" for each in (row, quiet) for n in marks]


def _ablation(row: Row, policy: Row, trials: int) -> tuple[str, ...]:
    found = [row.against(policy, n) for n in (min(EARLY, trials), trials)]
    return row.name, *[f"{m:.3f} [{low:.3f}, {high:.3f}]" for m, low, high in found]


def _parser() -> argparse.ArgumentParser:
    parser = parser_of("benchmarks.tuner.searches", __doc__, seeds=10, trials=64)
    parser.add_argument("--jobs", type=int, default=host_threads(), help="processes")
    parser.add_argument("--no-ablations", action="store_true", help="the strategies alone")
    parser.add_argument("--recorded", type=Path, default=RECORDED, help=f"({RECORDED})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
