"""The run of the demo: tune, check the answers, time everything in turns, show a table."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from autotune.calibration.peak import peak_gflops
from autotune.calibration.roofline import Share
from autotune.cli.failure import STOPPED
from autotune.cli.numbers import positive, seconds, seed
from autotune.database.database import Database
from autotune.database.records import Workload
from autotune.machine.machine import this_machine
from autotune.machine.work import flops
from autotune.measure import MeasureSettings
from autotune.measure.busy import disturbance
from autotune.tuning.options import DEFAULT_DATABASE
from autotune.tuning.tuner import tune
from backends import BuildError, CompiledKernel, Timing, compiler_info, resolve
from benchmarks.case import NUMPY, OURS, TUNED, Case, Figures, figures, kernels_of, timed
from benchmarks.table import ms, share, show_table, times
from demo import digits, photo
from tensorir import PrimFunc, TensorIRError

LAYER_TRIALS, PHOTO_TRIALS, QUICK_TRIALS = 32, 48, 4
SEARCH_SECONDS = 110.0
"""For all searches together, so that the demo ends within three minutes on slow machines too."""

ROUNDS, MIN_MS = 15, 10.0
PACKAGES = {"sklearn": "scikit-learn", "scipy": "scipy", "PIL": "pillow"}
"""What the demo needs beyond NumPy: modules, and what pip calls them."""

HEADER = (
    "operator", "unscheduled ms", "default ms", "tuned ms", "library ms", "speed-up over library",
    "of peak",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo with command line options; returns the exit status.

    0 is success, 1 a failure, 2 something that has to be installed, 130 an interrupt.
    """
    options = _parser().parse_args(argv)
    missing = missing_packages()
    if missing:
        print(
            f"the demo needs {', '.join(missing)}: {sys.executable} -m pip install "
            f"{' '.join(missing)}",
            file=sys.stderr,
        )
        return 2
    try:
        compiler_info("c")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        with Database(options.database) as database:
            demo = Demo(database, options.trials, options.seed, options.time_limit, options.quick)
            demo.run(options.picture)
    except KeyboardInterrupt:
        print(
            f"\nstopped; all finished trials are stored in {options.database}, and the same "
            "command goes on from there",
            file=sys.stderr,
        )
        return STOPPED
    except TensorIRError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def missing_packages() -> list[str]:
    """The names, for pip, of packages that the demo needs and that are not installed."""
    return [package for module, package in PACKAGES.items() if find_spec(module) is None]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tensorir demo",
        description="Tune a digit classifier and a convolution, and compare with NumPy and SciPy.",
    )
    parser.add_argument(
        "--trials", type=positive, metavar="N",
        help=f"trials per operator (default: {LAYER_TRIALS}, {PHOTO_TRIALS} for the convolution)",
    )  # fmt: skip
    parser.add_argument(
        "--time-limit", type=seconds, default=SEARCH_SECONDS, metavar="SECONDS",
        help="for all searches together; the next run goes on (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument("--seed", type=seed, default=0, help="of the search (default: 0)")
    parser.add_argument(
        "--database", type=Path, default=Path(DEFAULT_DATABASE), metavar="PATH",
        help="where trials are stored (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--picture", type=Path, metavar="PNG", help="write what the convolution sees"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    return parser


class Demo:
    """One run. Trials go into `database`; those that are there already are not repeated."""

    def __init__(
        self, database: Database, trials: int | None, seed: int, seconds: float, quick: bool
    ) -> None:
        self.database = database
        self.seed = seed
        self.seconds = seconds
        self.quick = quick
        self.layer_trials = trials or (QUICK_TRIALS if quick else LAYER_TRIALS)
        self.photo_trials = trials or (QUICK_TRIALS if quick else PHOTO_TRIALS)
        layers = digits.layer_count(quick)
        self.planned = layers * self.layer_trials + self.photo_trials
        self.rounds, self.min_ms = (3, 1.0) if quick else (ROUNDS, MIN_MS)
        quickly = MeasureSettings(min_ms=self.min_ms, repeats=3, build_jobs=1)
        self.settings = quickly if quick else None
        self.target = resolve("c")
        self.measured = 0
        self.notices: set[str] = set()

    def run(self, picture: Path | None = None) -> None:
        """Both parts, then the table. Raises TensorIRError where a result is wrong."""
        machine = this_machine()
        print(f"{machine.cpu}, {machine.cores} threads; trials are stored in {self.database.path}")
        start = time.perf_counter()
        rows = [*self.run_digits(), self.run_photo(picture)]
        self.show(rows)
        seconds = time.perf_counter() - start
        done = (
            f"{self.measured} new trials"
            if self.measured
            else "all schedules were known, and nothing was measured to find one"
        )
        print(f"\n{seconds:.0f} s; {done}")
        self.what_next()

    def run_digits(self) -> list[Figures]:
        """The classifier: its layers, and all of them in a row."""
        data = digits.train(self.quick)
        layers = digits.cases(data)
        sizes = " -> ".join(str(w.shape[0]) for w, _ in data.layers)
        print(
            f"\nDigits: scikit-learn trained a network {sizes} -> {len(data.classes)}; it is right "
            f"on {data.held_out:.1%} of the images held out"
        )
        versions = [kernels_of(c.func, self.tuned(c, self.layer_trials)) for c in layers]
        found = [figures(c, v, self.rounds, self.min_ms) for c, v in zip(layers, versions)]
        whole, others = self.whole_network(data, layers, versions)
        work = sum(flops(layer.func) or 0 for layer in layers)
        rate = work / whole[TUNED].median / 1e9
        peak = Share(rate, peak_gflops(target=self.target), "GFLOP/s")
        row = Figures("the whole network", whole, {}, peak, others)
        print(
            f"  {len(data.images)} images take {ms(whole[TUNED])} ms, with NumPy "
            f"{ms(whole[NUMPY])} ms: {times(row.gain)} as fast"
        )
        return [*found, row]

    def whole_network(
        self,
        data: digits.Digits,
        layers: Sequence[Case],
        versions: Sequence[Mapping[str, CompiledKernel]],
    ) -> tuple[dict[str, Timing], float | None]:
        calls = {
            name: digits.network(data, [kernels[name] for kernels in versions]) for name in OURS
        }
        equal = int(np.sum(digits.answers(data, calls[TUNED]()) == data.predicted))
        total = len(data.images)
        if equal < total:
            raise TensorIRError(
                f"{total - equal} of {total} predictions differ from scikit-learn's: the "
                "tuned kernels are wrong; please report this with the database"
            )
        print(f"  {equal} of {total} predictions equal scikit-learn's")
        calls[NUMPY] = digits.numpy_network(layers)
        return timed(calls, self.rounds, self.min_ms, [NUMPY])

    def run_photo(self, picture: Path | None) -> Figures:
        """The convolution."""
        case = photo.case(photo.load(self.quick), self.quick)
        _, h, w, _ = case.inputs[0].shape
        k = case.expected.shape[-1]
        print(f"\nPhoto: {k} filters of 3x3 on {w}x{h} pixels in three colours, bias and ReLU")
        kernel = self.tuned(case, self.photo_trials)
        found = figures(case, kernels_of(case.func, kernel), self.rounds, self.min_ms)
        forms = ", ".join(f"{n} {ms(found.times[n])} ms" for n in case.library)
        print(
            f"  {case.expected.size} values agree with SciPy's in float64 to "
            f"{found.errors[TUNED]:.1e} of the largest; {forms}"
        )
        if picture is not None:
            photo.save(kernel(*case.inputs), picture)
            print(f"  what the classic filters see: {picture}")
        return found

    def tuned(self, case: Case, trials: int) -> CompiledKernel:
        """The fastest kernel found, from the database as far as that goes."""
        stored = self.stored_trials(case.func)
        work = "nothing to measure" if stored >= trials else f"measuring {trials - stored} more"
        print(f"  {case.name}: {stored} of {trials} trials found stored, {work}", flush=True)
        limit = self.seconds * trials / max(self.planned, trials)
        result = tune(
            case.func, self.target, trials, self.seed, self.database,
            settings=self.settings, seconds=limit, shipped=False,
        )  # fmt: skip
        self.planned -= trials
        self.seconds -= result.seconds
        self.measured += result.measured
        if result.notice and result.notice not in self.notices:
            self.notices.add(result.notice)
            print(f"  note: {result.notice}")
        if result.measured:
            print(f"    best {result.best_seconds * 1e3:.3g} ms, found in {result.seconds:.0f} s")
        if result.trials < trials:
            why = "the time was up" if result.seconds > limit else "nothing else was left to try"
            print(f"    {why} after {result.trials} trials")
        return result.build()

    def stored_trials(self, func: PrimFunc) -> int:
        """Trials of `func` that an earlier run has finished on this machine."""
        found = self.database.records(Workload.of(func), self.target, this_machine())
        return sum(not record.is_final for record in found)

    def show(self, found: Sequence[Figures]) -> None:
        rows = [
            (
                f.name, *(ms(f.times[name]) for name in OURS),
                f"{f.library} {ms(f.times[f.library])}", times(f.gain), share(f.share),
            )
            for f in found
        ]  # fmt: skip
        print()
        show_table(HEADER, rows)
        peak = peak_gflops(target=self.target)
        print(
            "the times of a row were taken in turns; intervals are 95 %; the peak of this machine, "
            f"measured, is {peak:.0f} GFLOP/s"
        )
        disturbed = disturbance(f.others for f in found)
        if disturbed:
            print(f"note: {disturbed}")

    def what_next(self) -> None:
        path = self.database.path
        name = "conv2d_bias_relu --shape n=1 h=427 w=640 c=3 k=32"
        print(f"the trials are in {path}; to see the best schedule, or to search on:")
        program = command_name()
        print(f"  {program} best {name} --database {path}")
        print(f"  {program} tune {name} --database {path} --trials {4 * self.photo_trials}")


def command_name() -> str:
    """How this user can type the command: `make demo` activates no environment."""
    if shutil.which("tensorir"):
        return "tensorir"
    script = Path(sys.executable).parent / "tensorir"
    return os.path.relpath(script) if script.exists() else f"{sys.executable} -m autotune"
