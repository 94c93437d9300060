"""Tables of what forms take over plain programs, the JSON file, and the picture."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.general.measure import Figure, Found
from benchmarks.general.rewritings import REWRITINGS
from benchmarks.table import ms, times

BOUNDS = {"renamed": 1.03, "reordered": 1.03, "embedded": 1.05}
OTHERS = 1 / 0.9
"""The most that forms may take over the plain program, and over what they have to take (`laws.py`);
OTHERS of kinds that are not in BOUNDS."""


def header(found: Sequence[Found], schedule: str) -> list[str]:
    return ["operator", f"{schedule} ms", *_kinds(found)]


def cells(row: Found, found: Sequence[Found], schedule: str) -> list[str]:
    """The slowest form of each kind, over the plain program; empty where there is none."""
    slowest = [max((f.ratio.ratio for f in _of(row, kind, schedule)), default=None)
               for kind in _kinds(found)]  # fmt: skip
    return [
        row.workload.name, ms(row.plain[schedule]),
        *("" if ratio is None else f"{ratio:.2f}" for ratio in slowest),
    ]  # fmt: skip


def means(found: Sequence[Found], schedule: str) -> list[str]:
    """The last line of the table: the geometric mean of all forms of each kind."""
    line = []
    for kind in _kinds(found):
        logs = [math.log(f.ratio.ratio) for row in found for f in _of(row, kind, schedule)]
        line.append(f"{math.exp(sum(logs) / len(logs)):.2f}" if logs else "")
    return ["geometric mean of all", "", *line]


def notes(found: Sequence[Found], schedule: str) -> list[str]:
    """How many forms are slower than they should be, and which, the slowest first."""
    figures = [(row, f) for row in found for f in row.figures if f.schedule == schedule]
    slow = [(row, f) for row, f in figures if f.ratio.ratio > bound(f)]
    slow.sort(key=lambda pair: -pair[1].ratio.ratio)
    same, sure = sum(f.same for _, f in figures), sum(f.ratio.low > bound(f) for _, f in slow)
    lawful = sum(OTHERS < f.ratio.ratio <= bound(f) for _, f in figures if f.law > 1)
    failed = [(row.workload.name, name, why) for row in found for name, why in row.failures.items()]
    busiest = max((row.others for row in found if row.others is not None), default=0.0)
    lines = [
        "a form's time over the plain program's, the slowest of each kind; of other types per "
        "byte, or per operation where arithmetic bounds the program",
        f"{len(slow)} of {len(figures)} forms take more than they may: {BOUNDS['renamed']} "
        f"renamed or reordered, {BOUNDS['embedded']} between two others, {OTHERS:.2f} else, of "
        f"what they have to take; of {sure} the whole interval is above; {same} are the plain "
        "program's machine code",
        f"{lawful} take more than that of the plain program's time, and not of what they have to: "
        "instructions of another type, bytes that no cache holds, and turning a result",
        *(f"  {row.workload.name}: {f.name}: {times(f.ratio)}{_lawful(f)}" for row, f in slow),
        *(f"  no time of {row}: {name}: {why}" for row, name, why in failed),
    ]
    if busiest > 0.05:
        lines.append(f"note: other programs used up to {busiest:.0%} of the processors meanwhile")
    return lines


def bound(figure: Figure) -> float:
    """The most that a form may take."""
    return BOUNDS.get(figure.kind, OTHERS) * figure.law


def _lawful(figure: Figure) -> str:
    """What a form has to take, where that is more than the plain program's time."""
    return f", and has to take {figure.law:.2f}x" if figure.law > 1 else ""


def as_json(facts: Mapping[str, str], found: Sequence[Found]) -> dict[str, Any]:
    """All figures as JSON data; times in seconds per call."""
    return {"environment": dict(facts), "rows": [_row(row) for row in found]}


def _row(row: Found) -> dict[str, Any]:
    figures = [
        {
            "kind": f.kind, "name": f.name, "schedule": f.schedule, "work": f.work, "same": f.same,
            "ratio": [f.ratio.ratio, f.ratio.low, f.ratio.high], "law": f.law,
            "median": f.timing.median, "calls": f.timing.calls, "blocks": list(f.timing.times),
        }
        for f in row.figures
    ]  # fmt: skip
    plain = {name: {"median": t.median, "blocks": list(t.times)} for name, t in row.plain.items()}
    return {
        "name": row.workload.name, "dense": row.workload.dense, "plain": plain, "forms": figures,
        "failures": dict(row.failures), "others": row.others,
    }  # fmt: skip


def markdown(facts: Mapping[str, str], found: Sequence[Found], schedules: Sequence[str]) -> str:
    parts = []
    for schedule in schedules:
        head = header(found, schedule)
        lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
        lines += [cells(row, found, schedule) for row in found] + [means(found, schedule)]
        parts += ["| " + " | ".join(line) + " |" for line in lines]
        parts += ["", *(f"* {note.strip()}" for note in notes(found, schedule)), ""]
    return "\n".join([*parts, *(f"* {name}: {value}" for name, value in facts.items())]) + "\n"


def summary(facts: Mapping[str, str], found: Sequence[Found], schedules: Sequence[str]) -> str:
    """A table with a line for each kind of rewriting, for a README.

    `surely` counts forms whose whole interval is above what they may take, and `same code` those
    that are the plain program's machine code.
    """
    head = ["rewritten", "forms", "same code", "geometric mean", "more than they may", "surely",
            "slowest"]  # fmt: skip
    parts = []
    for schedule in schedules:
        lines = [[f"{schedule}: {head[0]}", *head[1:]], ["---"] + ["---:"] * 5 + ["---"]]
        for kind in _kinds(found):
            figures = [(row, f) for row in found for f in _of(row, kind, schedule)]
            ratios = [f.ratio.ratio for _, f in figures]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            over = sum(f.ratio.ratio > bound(f) for _, f in figures)
            sure = sum(f.ratio.low > bound(f) for _, f in figures)
            same = sum(f.same for _, f in figures)
            row, worst = max(figures, key=lambda pair: pair[1].ratio.ratio)
            slowest = f"{row.workload.name}, {worst.name}: {times(worst.ratio)}"
            counts = [str(len(ratios)), str(same), f"{mean:.3f}", str(over), str(sure)]
            lines.append([kind, *counts, slowest])
        parts += ["| " + " | ".join(line) + " |" for line in lines] + [""]
    return "\n".join([*parts, *(f"* {name}: {value}" for name, value in facts.items())]) + "\n"


def write(
    path: Path, facts: Mapping[str, str], found: Sequence[Found], schedules: Sequence[str]
) -> None:
    """Write the JSON to `path`, and a table and a picture beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_json(facts, found), indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(facts, found, schedules), encoding="utf-8")
    draw(found, path.with_suffix(".png"), schedules, facts.get("machine", ""))


def draw(found: Sequence[Found], path: Path, schedules: Sequence[str], title: str) -> None:
    """One panel for each kind of schedule: all forms of each row, over its plain program."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(
        1, len(schedules), figsize=(9 * len(schedules), 1.5 + 0.25 * len(found)), squeeze=False,
        layout="constrained", sharey=True,
    )  # fmt: skip
    kinds = _kinds(found)
    for axes, schedule in zip(panels[0], schedules):
        for kind, mark in zip(kinds, "ovsD^P*X<>hd"):
            points = [(f.ratio.ratio, at) for at, row in enumerate(found)
                      for f in _of(row, kind, schedule)]  # fmt: skip
            axes.scatter(*zip(*points), marker=mark, s=16, label=kind) if points else None
        axes.axvline(1, color="0.3", linewidth=0.8)
        axes.axvline(OTHERS, color="0.7", linewidth=0.8, linestyle="--")
        axes.set_xscale("log")
        axes.set_xlabel("time over the plain program's")
        axes.set_title(schedule, fontsize=10)
    panels[0][0].set_yticks(range(len(found)), [row.workload.name for row in found], fontsize=8)
    panels[0][0].invert_yaxis()
    figure.legend(*panels[0][0].get_legend_handles_labels(), fontsize=8, loc="outside right upper")
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _kinds(found: Sequence[Found]) -> list[str]:
    """The kinds of rewritings that there are figures of, in their order."""
    seen = {f.kind for row in found for f in row.figures}
    return [kind for kind in REWRITINGS if kind in seen]


def _of(row: Found, kind: str, schedule: str) -> Iterator[Figure]:
    return (f for f in row.figures if f.kind == kind and f.schedule == schedule)
