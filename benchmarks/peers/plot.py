"""The picture: for every row, each library's time relative to the best peer's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.catalog import OURS
from benchmarks.peers.figures import Figures, forms_of, peers_of

MARKS = "ovsD^P*X<>"
NEAREST, FURTHEST = 0.2, 5.0
"""Times outside of so many times the best peer's are drawn at the edge."""


def draw(found: Sequence[Figures], path: Path, title: str) -> None:
    """Write the picture to `path`; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = [row for row in found if row.best_peer is not None]
    figure, axes = plt.subplots(figsize=(10, 1.2 + 0.27 * len(rows)), layout="constrained")
    _bars(axes, rows)
    _limits(axes, rows)
    for number, name in enumerate(peers_of(rows)):
        places, ratios = _relative(rows, name)
        axes.scatter(ratios, places, marker=MARKS[number % len(MARKS)], s=26, label=name, zorder=3)
    axes.axvline(1, color="0.3", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(NEAREST * 0.95, FURTHEST * 1.05)
    ticks = [0.2, 0.25, 0.33, 0.5, 0.75, 1, 1.5, 2, 3, 5]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [row.row.name for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("time relative to the best peer (less is faster)")
    axes.set_title(title, fontsize=10)
    figure.legend(fontsize=8, loc="outside right upper")
    axes.grid(axis="x", color="0.9")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _bars(axes: Any, rows: Sequence[Figures]) -> None:
    """Our forms, the fastest one in front."""
    forms = forms_of(rows)
    for number, form in enumerate(forms):
        places, ratios = [], []
        for place, row in enumerate(rows):
            timing = row.form(form)
            if timing is not None:
                places.append(place)
                ratios.append(_edge(timing.median / _best(row)))
        shade = 0.35 + 0.5 * (number + 1) / len(forms)
        axes.barh(
            places, ratios, height=0.75 - 0.25 * number, color="tab:blue", alpha=shade,
            label=f"{OURS}, {form}", zorder=2,
        )  # fmt: skip


def _limits(axes: Any, rows: Sequence[Figures]) -> None:
    known = [(p, row.limit[0] / _best(row)) for p, row in enumerate(rows) if row.limit is not None]
    places = [place for place, _ in known]
    ratios = [max(_edge(ratio), NEAREST) for _, ratio in known]
    axes.scatter(ratios, places, marker="|", s=120, color="black", label="limit", zorder=4)


def _relative(rows: Sequence[Figures], library: str) -> tuple[list[int], list[float]]:
    places, ratios = [], []
    for place, row in enumerate(rows):
        subject = row.best_of(library)
        if subject is not None:
            places.append(place)
            ratios.append(_edge(row.times[subject].median / _best(row)))
    return places, ratios


def _best(row: Figures) -> float:
    assert row.best_peer is not None
    return row.times[row.best_peer].median


def _edge(ratio: float) -> float:
    return min(ratio, FURTHEST)
