"""tensorir tune: search for the fastest schedule of a program."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from autotune.calibration.roofline import Share, share_of_peak
from autotune.cli.failure import OK, STOPPED, WrongUse
from autotune.cli.numbers import positive, seconds, seed
from autotune.cli.output import count, milliseconds, show_pairs
from autotune.cli.program import (
    Program,
    add_database,
    add_program,
    chosen,
    has_several,
    schedule_function,
)
from autotune.cli.searching import add_searching, searching
from autotune.cli.tune_file import run_file
from autotune.database.database import Database
from autotune.database.records import Record
from autotune.knobs.space import ScheduleFunction
from autotune.phases import in_words
from autotune.report import default_time, status_text
from autotune.tuning.options import Options, OptionsGiven
from autotune.tuning.result import TuneResult
from autotune.tuning.session import start_session
from autotune.tuning.tuner import tune
from tensorir import DEFAULT_NUMERICS

HELP = "search for the fastest schedule of a program, and remember every trial"
EXAMPLES = """\
examples:
  tensorir tune matmul --shape m=512 n=512 k=512
  tensorir tune kernels.py:attention --shape heads=8 --trials 128
  tensorir tune kernels.py --seconds 300  all functions of a file at once
  tensorir tune softmax --target 'c -threads=1' --seconds 60
  tensorir tune matmul --more 64          continue with 64 further trials
  tensorir tune matmul --constants B      B is known ahead: packing it is not timed
  tensorir tune kernels.py:attention --knobs tiled  schedules of a function of your own
  tensorir tune matmul --cache cold       each call finds nothing in the caches
  tensorir tune kernels.py --dask tcp://here:8786  on the workers of a Dask cluster

A second run with the same program takes its result from the database and measures nothing.
Stop it at any time: all finished trials are stored, and the same command continues.
"""
MORE = 32
"""Further trials in the command that is suggested."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument(
        "--trials", type=positive, metavar="N",
        help="trials, stored ones counted (default 64; no limit with --seconds or --until)",
    )  # fmt: skip
    parser.add_argument("--more", type=positive, metavar="N", help="N trials more than are stored")
    parser.add_argument("--seed", type=seed, default=0, help="of the search (default 0)")
    add_database(parser)
    add_searching(parser)
    parser.add_argument(
        "--seconds", type=seconds, metavar="S", help="begin no trials after so many"
    )
    parser.add_argument(
        "--until", metavar="WHAT", help="'converged', or a share such as '95%% of roofline'"
    )
    parser.add_argument(
        "--knobs", metavar="FUNCTION",
        help="search the schedules of a function `FUNCTION(sch, knobs)`, in the program's file or,"
        " as FILE.py:FUNCTION, in another one, in place of those of the rules",
    )  # fmt: skip
    parser.add_argument(
        "--here", action="store_true",
        help="search on this machine even where a record ships with the project",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Tune, and print what was found."""
    if has_several(args):
        return run_file(args)
    program, space = chosen(args), schedule_function(args)
    missing = [v.name for v in program.func.size_vars if v.name not in program.sizes]
    if missing:
        example = " ".join(f"{name}=128" for name in missing)
        raise WrongUse(f"give the symbolic sizes that trials are timed with: --shape {example}")
    with searching(args, program.target) as how, Database(args.database) as db:
        try:
            result = tune(
                program.func,
                program.target,
                counted(program, db, args, how, space) + args.more if args.more else args.trials,
                args.seed,
                db,
                sizes=program.sizes or None,
                constants=program.constants,
                seconds=args.seconds,
                until=args.until,
                shipped=not (args.more or args.here),
                space=space,
                **how,
            )
        except KeyboardInterrupt:
            finished = count(len(program.trials(db)), "finished trial")
            text = f"stopped; {finished} are stored in {args.database}"
            print(text.replace("trial are", "trial is"), file=sys.stderr)
            print(f"continue with: {program.command('tune')}", file=sys.stderr)
            return STOPPED
        show_result(args, program, result, db)
    return OK


def counted(
    program: Program,
    db: Database,
    args: argparse.Namespace,
    how: OptionsGiven,
    space: ScheduleFunction | None,
) -> int:
    """The stored trials that count in this search: not those of other rules or numerics."""
    session = start_session(
        program.func, program.target, db, args.seed, Options.of(how), program.sizes,
        program.constants, space,
    )  # fmt: skip
    return session.trials


def show_result(
    args: argparse.Namespace, program: Program, result: TuneResult, db: Database
) -> None:
    """Print a summary of the search and what can be done next."""
    if result.notice:
        print(f"note: {result.notice}", file=sys.stderr)
    share = share_of_peak(program.func, result.best_seconds, result.target)
    here = program.records(db)
    stored = result.trials - result.measured  # other tuners may have added some since the start
    if result.source:
        made = f"none measured now: the result ships with the project, in {result.source}"
    elif result.from_database:
        made = "none measured now: the result is from the database"
    else:
        made = f"{result.measured} measured now in {result.seconds:.1f} s"
        made += f", {stored} found stored" if stored else ""
    statuses = status_text(result.statuses)
    options = ["--numerics", args.numerics] if args.numerics != DEFAULT_NUMERICS else []
    given = {"--costs": args.costs, "--knobs": args.knobs}
    same = [*options, *(word for pair in given.items() if pair[1] for word in pair)]
    show_pairs(
        [
            ("program", signature(program)),
            ("best", best_text(result.record, share, result.gflops)),
            ("expected", "" if result.expectation is None else str(result.expectation)),
            ("hints", result.hints),
            ("default", default_text(program, result.record, here)),
            ("found", "" if result.outcome is None else str(result.outcome)),
            ("trials", f"{result.trials}{f' ({statuses})' if statuses else ''}; {made}"),
            ("noise", str(result.ceiling or "")),
            ("spent in", in_words(result.phases, result.seconds)),
            ("ended", "" if result.from_database else result.ended),
            ("refused", result.refused),
            ("database", args.database),
            ("continue", program.command("tune", "--more", str(MORE), *same)),
            ("look", program.command("best", "--show", "schedule", *options)),
        ]
    )


def signature(program: Program) -> str:
    params = ", ".join(
        f"{name}: {'const ' if name in program.constants else ''}"
        f"{dtype}[{', '.join(map(str, shape))}]"
        for name, shape, dtype in program.workload.shapes
    )
    return f"{program.func.name}({params})"


def best_text(record: Record, share: Share | None, gflops: float | None) -> str:
    text = milliseconds(record.median)
    if share is not None:
        return f"{text}  {share}"
    return text if gflops is None else f"{text}  {gflops:.1f} GFLOP/s"


def default_text(program: Program, best: Record, records: Sequence[Record]) -> str:
    """The time of the schedule that needs no tuning, beside the best one."""
    default = default_time(program.func, program.target, records, program.constants)
    if default is None or default.median is None or best.median is None:
        return ""
    text = f"{milliseconds(default.median)}  {default.median / best.median:.2f} x the best time"
    together = default.is_final and best.is_final and default.session == best.session
    return text if together or default.id == best.id else f"{text} (not timed together)"
