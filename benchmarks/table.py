"""Tables: drawn on a terminal, aligned text everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from autotune.calibration.roofline import Share
from backends import Comparison, Timing


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table; the first column is text, the others are numbers."""
    if sys.stdout.isatty():
        _show_rich(header, rows, title)
    else:
        print(plain_table(header, rows, title))


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> str:
    """The table as text, columns aligned."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    text = [title] if title else []
    for line in lines:
        cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:]))]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text)


def _show_rich(header: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def write_readme(readme: Path, name: str, table: str) -> bool:
    """Put a table between the marks `<!-- name -->` and `<!-- /name -->` of `readme`; False where
    it has none."""
    whole = readme.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(f"<!-- {name} -->")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if begin and end:
        readme.write_text(f"{before}{begin}\n{table}{end}{after}", encoding="utf-8")
    return bool(begin and end)


def ms(timing: Timing) -> str:
    """Milliseconds of the median, three digits."""
    return _digits(timing.median * 1e3)


def times(comparison: Comparison) -> str:
    """A ratio with its interval: "1.52x [1.48, 1.55]"."""
    low, high = comparison.low, comparison.high
    return f"{_digits(comparison.ratio)}x [{_digits(low)}, {_digits(high)}]"


def share(found: Share | None) -> str:
    """The share of what the machine can do; empty where there is no such figure."""
    return "" if found is None else f"{found.share:.0%}"


def _digits(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:#.3g}"
