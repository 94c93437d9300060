"""A section of the tuner's report: a table, which is printed, kept as JSON, put in the README."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.cli.numbers import positive
from benchmarks.table import show_table, write_readme

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "tuner"


@dataclass(frozen=True)
class Section:
    """What one command has found.

    mark    of its place in the README: between `<!-- mark -->` and `<!-- /mark -->`; "" for none
    file    its figures as JSON, below benchmarks/results/tuner if nothing else is asked for
    title   what the table says
    lines   its cells, as `header`
    data    all figures
    notes   sentences below the table
    failed  what does not hold that must; then the exit status is 1
    """

    mark: str
    file: str
    title: str
    header: Sequence[str]
    lines: Sequence[Sequence[str]]
    data: Mapping[str, Any]
    notes: Sequence[str] = ()
    failed: Sequence[str] = field(default=())

    def markdown(self) -> str:
        """The table for the README, with the sentences below it."""
        rows = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *self.lines]
        text = "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
        return text + "".join(f"\n{note}\n" for note in self.notes)


def publish(section: Section, options: argparse.Namespace) -> int:
    """Show it, write what was asked for; 0, 1 where something does not hold, 2 without a place."""
    show_table(section.header, section.lines, section.title)
    print(*section.notes, sep="\n", end="\n" * bool(section.notes))
    path = options.json or (None if options.quick else RESULTS / section.file)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(section.data) + "\n", encoding="utf-8")
        print(f"written: {path}")
    if options.write_readme and section.mark and not write_readme(
        ROOT / "README.md", section.mark, section.markdown()
    ):
        mark = section.mark
        print(f"README.md has no marks <!-- {mark} --> and <!-- /{mark} -->", file=sys.stderr)
        return 2
    for text in section.failed:
        print(text, file=sys.stderr)
    return 1 if section.failed else 0


def parser_of(
    module: str, doc: str | None, seeds: int, trials: int, trials_of: str = "of each search"
) -> argparse.ArgumentParser:
    """The options that all sections take, with these defaults."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add: Callable[..., Any] = parser.add_argument
    add("--seeds", type=positive, default=seeds, help=f"searches of each ({seeds})")
    add("--trials", type=positive, default=trials, help=f"{trials_of} ({trials})")
    add("--only", action="append", metavar="NAME", help="these rows alone; may be repeated")
    add("--quick", action="store_true", help="shows that it works, and nothing else")
    add("--json", type=Path, metavar="FILE", help="(below benchmarks/results/tuner)")
    add("--write-readme", action="store_true", help="renew the table there")
    return parser


def chosen(known: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """The names that are asked for, all if none are; exits with status 2 for an unknown one."""
    unknown = [name for name in only or () if name not in known]
    if unknown:
        print(f"unknown {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        raise SystemExit(2)
    return [name for name in known if not only or name in only]
