"""What is known of the tuner, section by section; each is a command of its own too.

    python -m benchmarks.tuner [--section NAME ...] [--live] [--seeds N] [--write-readme] [--quick]

searches     all strategies on recorded times, and the policy without each ingredient
transfer     trials that the records of another size save, on recorded times
formulas     how formulas order candidates that nothing was built for, on recorded times
kills        searches that are ended by kill -9 at random moments, on recorded times
neighbours   trials that the records of another size save, of searches made here and now
seconds      what 64 and 256 trials take, and where the seconds go
load         whether a second load on the machine loses the default to a slower schedule
memory       of a process over a thousand builds
metaschedule beside the tuner of TVM: kernels and seconds; it takes long, and is run by name alone

The first four run if nothing is asked for, with --live the next four, which want a quiet machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module

from benchmarks.tuner.section import positive

SIMULATED = {
    "searches": "benchmarks.tuner.searches",
    "transfer": "benchmarks.tuner.transfer",
    "formulas": "benchmarks.tuner.formulas",
    "kills": "benchmarks.tuner.kills",
}
LIVE = {
    "neighbours": "benchmarks.tuner.neighbours",
    "seconds": "benchmarks.tuner.seconds",
    "load": "benchmarks.wrong_winners",
    "memory": "benchmarks.tuner.memory",
}
SECTIONS = {**SIMULATED, **LIVE, "metaschedule": "benchmarks.tuner.metaschedule"}
"""Sections by name; each is a module with `main(words)`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 is success, 1 where something does not hold, 2 a wrong request."""
    options = _parser().parse_args(argv)
    names = options.section or list({**SIMULATED, **LIVE} if options.live else SIMULATED)
    words = [] if options.seeds is None else ["--seeds", str(options.seeds)]
    words += [f"--{name}" for name in ("quick", "write-readme") if _asked(options, name)]
    worst, begun = 0, time.perf_counter()
    for name in names:
        print(f"\n## {name}", flush=True)
        worst = max(worst, import_module(SECTIONS[name]).main(words))
    print(f"\n{len(names)} sections in {time.perf_counter() - begun:.0f} s")
    return worst


def _asked(options: argparse.Namespace, name: str) -> bool:
    return bool(getattr(options, name.replace("-", "_")))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuner",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--section", action="append", choices=tuple(SECTIONS), help="this one; may be repeated"
    )
    parser.add_argument("--live", action="store_true", help="those too that compile and time")
    parser.add_argument("--seeds", type=positive, help="searches of each (as each section says)")
    parser.add_argument("--quick", action="store_true", help="shows that it works, nothing else")
    parser.add_argument("--write-readme", action="store_true", help="renew the tables there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
