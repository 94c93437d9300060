"""Tables of the figures, for the terminal and as Markdown, and the JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.catalog import OURS
from benchmarks.peers.figures import Figures, forms_of, peers_of
from benchmarks.table import ms, plain_table, times

BELIEVED = 1.02
"""A share above this is no error of measurement."""


def header(found: Sequence[Figures]) -> list[str]:
    forms = [f"{form} ms" for form in forms_of(found)]
    peers = [f"{name} ms" for name in peers_of(found)]
    return ["operator", *forms, "+-", "rate", "of limit", "limit", *peers, "best peer", "ratio"]


def cells(row: Figures, found: Sequence[Figures]) -> list[str]:
    """The cells of a row; empty where there is no figure."""
    ours, best, gain, share = row.ours, row.best_peer, row.gain, row.share(row.ours)
    peers = [row.best_of(name) for name in peers_of(found)]
    forms = [row.form(form) for form in forms_of(found)]
    return [
        row.row.name,
        *("" if timing is None else ms(timing) for timing in forms),
        "" if ours is None else f"{row.times[ours].spread:.1%}",
        row.rate(ours),
        "" if share is None else f"{share:.0%}",
        "" if row.limit is None else row.limit[1],
        *("" if peer is None else ms(row.times[peer]) for peer in peers),
        "" if best is None else best.library,
        "" if gain is None else times(gain),
    ]


def text(found: Sequence[Figures]) -> str:
    """The table for a terminal, with notes below it."""
    table = plain_table(header(found), [cells(row, found) for row in found])
    return "\n".join([table, *notes(found)])


def notes(found: Sequence[Figures]) -> list[str]:
    """The geometric mean and how often we are ahead, in words."""
    gains = [row.gain for row in found if row.gain is not None]
    if not gains:
        return []
    mean = math.exp(sum(math.log(gain.ratio) for gain in gains) / len(gains))
    ahead = sum(gain.low > 1 for gain in gains)
    behind = sum(gain.high < 1 for gain in gains)
    lines = [
        f"ratio: the best peer's time over ours, 95 % interval; geometric mean {mean:.2f}x; "
        f"ahead in {ahead} rows, behind in {behind}, a tie in {len(gains) - ahead - behind}"
    ]
    beyond = [row.row.name for row in found if (row.share(row.ours) or 0) > BELIEVED]
    if beyond:
        lines.append(
            "above the limit of the usual algorithm: "
            + ", ".join(beyond)
            + "; a faster algorithm, "
            "or limits measured while the machine was busy"
        )
    busiest = max((row.others for row in found if row.others is not None), default=0.0)
    if busiest > 0.05:
        lines.append(
            f"note: other programs used up to {busiest:.0%} of the processors meanwhile; run this "
            "again on a quiet machine"
        )
    return lines


def markdown(facts: Mapping[str, str], found: Sequence[Figures]) -> str:
    """The table for a README, with what it depends on below it."""
    head = header(found)
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *(cells(row, found) for row in found)]
    table = ["| " + " | ".join(line) + " |" for line in lines]
    rest = [*notes(found), "", *(f"* {name}: {value}" for name, value in facts.items())]
    return "\n".join([*table, "", *rest]) + "\n"


def as_json(
    facts: Mapping[str, str], limits: Mapping[str, Any], found: Sequence[Figures]
) -> dict[str, Any]:
    return {"environment": dict(facts), "limits": limits, "rows": [row.to_json() for row in found]}


def write(path: Path, data: Mapping[str, Any], table: str) -> None:
    """Write the JSON to `path` and the Markdown beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(table, encoding="utf-8")


def failures(found: Sequence[Figures]) -> list[str]:
    """What ought to have worked: our own rows without a time."""
    return [
        f"{row.row.name}: {name}: {reason}"
        for row in found
        for name, reason in row.missing.items()
        if name.split()[0] == OURS
    ]
