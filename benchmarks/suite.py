"""Side by side with NumPy: unscheduled, default and tuned kernels, checked, then timed in turns.

python benchmarks/suite.py [--quick] [--trials N] [--only TEXT] [--json FILE] [--database PATH]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from operators import make_cases  # noqa: E402
from results import as_json, as_markdown, environment, show, write  # noqa: E402

from autotune import Database, MeasureSettings  # noqa: E402
from autotune.tuning.options import DEFAULT_DATABASE  # noqa: E402
from backends import BuildError, compiler_info  # noqa: E402
from benchmarks.case import Case, Figures, figures, kernels_of  # noqa: E402
from benchmarks.searched import searched  # noqa: E402
from tensorir import TensorIRError  # noqa: E402

FOLDER = Path(__file__).parent
DEFAULT_JSON = FOLDER / "results" / "suite.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suite; 0 is success, 1 a failure, 2 a missing compiler or no such row."""
    options = _parser().parse_args(argv)
    makers = make_cases(options.quick)
    chosen = {n: make for n, make in makers.items() if all(t in n for t in options.only)}
    if not chosen:
        print(f"no row has {options.only!r} in its name; rows are:", *makers, sep="\n  ")
        return 2
    try:
        compiler_info("c")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    facts = environment(options.trials, options.seed)
    print("\n".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
    found, failures = [], []
    with Database(options.database) as database:
        for name, make in chosen.items():
            try:
                found.append(_row(make(), database, options))
            except TensorIRError as error:
                failures.append(f"{name}: {error}")
                print(failures[-1], file=sys.stderr, flush=True)
    if found:
        show(found)
    path = options.json or (None if options.quick or options.only else DEFAULT_JSON)
    if path is not None:
        write(path, as_json(facts, found, failures), as_markdown(facts, found))
        print(f"written: {path} and {path.with_suffix('.md')}")
    return 1 if failures else 0


def _row(case: Case, database: Database, options: argparse.Namespace) -> Figures:
    start = time.perf_counter()
    rounds, min_ms = (3, 0.5) if options.quick else (options.rounds, 10.0)
    quickly = MeasureSettings(min_ms=min_ms, repeats=rounds, build_jobs=1)
    settings = quickly if options.quick else None
    result = searched(case.func, "c", options.trials, options.seed, database, settings=settings)
    source = f"{result.measured} new trials" if result.measured else "from the database"
    kernels = kernels_of(case.func, result.build())
    row = figures(case, kernels, rounds, min_ms)
    print(f"{case.name}: {source}, {time.perf_counter() - start:.0f} s", flush=True)
    return row


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--trials", type=int, default=64, help="per row (default: 64)")
    parser.add_argument("--rounds", type=int, default=20, help="blocks per version (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default: 0)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="rows with TEXT in their name"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE",
        help="where to write the results, with a Markdown table beside them (default: "
        "benchmarks/results/suite.json; nowhere with --quick or --only)",
    )  # fmt: skip
    parser.add_argument(
        "--database", type=Path, default=Path(DEFAULT_DATABASE), help="(default: %(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
