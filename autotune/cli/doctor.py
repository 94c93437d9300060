"""tensorir doctor: whether everything that tuning needs is here."""

from __future__ import annotations

import argparse
import json

from autotune.cli.failure import NOTHING, OK
from autotune.cli.program import add_database
from autotune.doctor import examine, lines

HELP = "check compiler, packages, processor, caches and database, with remedies"
EXAMPLES = """\
examples:
  tensorir doctor
  tensorir doctor --calibrate      also measure the rates and costs of this machine anew
  tensorir doctor --json           for programs

The status is 1 if something essential is missing.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    parser.add_argument(
        "--calibrate", action="store_true",
        help="measure peak rates and the costs of steps anew (do it when nothing else runs)",
    )  # fmt: skip
    add_database(parser)


def run(args: argparse.Namespace) -> int:
    """Print all checks."""
    checks = list(examine(args.database, args.calibrate))
    if args.json:
        print(json.dumps([check.to_json() for check in checks], indent=1))
    else:
        print("\n".join(lines(checks)))
    return NOTHING if any(check.level == "fail" for check in checks) else OK
