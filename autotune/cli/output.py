"""Tables and figures as text: by rich on a terminal, aligned plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

Row = Sequence[object]


def show_table(columns: Sequence[str], rows: Sequence[Row], title: str = "") -> None:
    """Print a table; a column whose head begins with ">" is set to the right."""
    heads = [column.lstrip(">") for column in columns]
    right = [column.startswith(">") for column in columns]
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty() and find_spec("rich"):
        _rich_table(heads, right, texts, title)
    else:
        print(plain_table(heads, right, texts, title))


def plain_table(
    heads: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]], title: str = ""
) -> str:
    """The table as lines of equal columns, separated by two blanks."""
    lines = [list(heads), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(line, widths, right)
        ).rstrip()
        for line in lines
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([*([title] if title else []), texts[0], rule, *texts[1:]])


def _rich_table(
    heads: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]], title: str
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for number, (head, flush) in enumerate(zip(heads, right), 1):
        table.add_column(
            head,
            justify="right" if flush else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=None if number == len(heads) else widths[number - 1],
        )
    for row in rows:
        table.add_row(*[Text(cell) for cell in row])
    Console().print(table)


def show_pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Print names with their values, one a line; those without a value are left out."""
    kept = [(name, value) for name, value in pairs if value not in (None, "")]
    width = max((len(name) for name, _ in kept), default=0)
    for name, value in kept:
        print(f"{name.ljust(width)}  {value}")


def milliseconds(seconds: float | None) -> str:
    """ "0.1234 ms"; "-" for None."""
    return "-" if seconds is None else f"{seconds * 1e3:.4g} ms"


def short_target(text: str) -> str:
    """A target without its list of instruction set extensions, which march decides."""
    return " ".join(word for word in text.split() if not word.startswith("-features="))


def count(number: int, noun: str) -> str:
    """ "1 trial", "2 trials"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
