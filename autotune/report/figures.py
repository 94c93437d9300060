"""Figures of a search, by Matplotlib: in notebooks, in files, and in the page of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.report import facts
from autotune.report.summary import Report
from tensorir import TensorIRError, whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = {
    "svg.fonttype": "none", "svg.hashsalt": "tensorir", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e4e4e4", "legend.frameon": False,
    "axes.axisbelow": True, "axes.titlesize": 10, "axes.titlelocation": "left",
}  # fmt: skip
SIZE = (6.2, 3.6)
"""Inches."""

TRIAL, BEST, DEFAULT, FAILED, RACED = "#7a9cc6", "#1d4e89", "#c8553d", "#8a8a8a", "#2a9d5c"
LONGEST = 40
"""Characters of a name beside a bar."""

MOST_BARS = 14


def figures(report: Report) -> dict[str, Figure]:
    """All figures that the trials have something for, by name.

    Raises TensorIRError if Matplotlib is missing, or no trial succeeded.
    """
    drawn = {name: draw(report) for name, draw in FIGURES.items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def search_curve(report: Report, title: str = "") -> Figure:
    """Each trial, the best so far, failures, the default's trial, and the times of the race.

    Raises TensorIRError if Matplotlib is missing, or no trial succeeded.
    """
    if not report.statuses.get("ok"):
        raise TensorIRError("there is nothing to plot: no trial succeeded")
    with _axes() as (figure, axes):
        numbers = range(1, len(report.trials) + 1)
        good = [(n, 1e3 * (r.median or 0)) for n, r in zip(numbers, report.trials) if _ok(r)]
        axes.scatter(*zip(*good), s=16, color=TRIAL, label="trial")
        best = [(n, 1e3 * t) for n, t in zip(numbers, report.curve) if math.isfinite(t)]
        axes.step(*zip(*best), where="post", color=BEST, label="best so far")
        failed = [n for n, r in zip(numbers, report.trials) if r.status not in ("ok", "pruned")]
        if failed:
            top = axes.get_xaxis_transform()
            axes.scatter(
                failed, [0.97] * len(failed), marker="x", s=18, color=FAILED, transform=top,
                label="failed",
            )  # fmt: skip
        raced = [(n, 1e3 * (race.median or 0)) for n, race in _races(report)]
        if raced:
            axes.scatter(*zip(*raced), s=34, marker="D", facecolors="none", edgecolors=RACED,
                         label="in the race")  # fmt: skip
        default = report.default()
        if default is not None and default.status == "ok":
            axes.axhline(
                1e3 * (report.seconds(default) or 0), color=DEFAULT, ls="--", lw=1.2,
                label="default schedule",
            )  # fmt: skip
        axes.set(xlabel="trial", ylabel="ms", yscale="log", title=title or "the search")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.legend(fontsize=8)
    return figure


def predictions(report: Report) -> Figure | None:
    """Predicted against measured; None without predictions."""
    pairs = [(r.predicted, r.median) for r in report.trials if _ok(r) and r.predicted]
    pairs = [pair for pair in pairs if math.isfinite(pair[0] or math.inf)]
    if len(pairs) < 2:
        return None
    predicted, measured = (1e3 * np.array(side, float) for side in zip(*pairs))
    with _axes() as (figure, axes):
        axes.scatter(measured, predicted, s=16, color=TRIAL)
        low, high = min(measured.min(), predicted.min()), max(measured.max(), predicted.max())
        axes.plot((low, high), (low, high), color=FAILED, lw=0.8, ls=":")
        correlation = report.quality.spearman
        title = f"predicted before it was measured (rank correlation {correlation:.2f})"
        axes.set(xlabel="measured ms", ylabel="predicted ms", xscale="log", yscale="log",
                 title=title)  # fmt: skip
    return figure


def noise(report: Report) -> Figure | None:
    """The blocks of each trial over their median; None where each has one."""
    points = [
        (n, 100 * (t / r.median - 1))
        for n, r in enumerate(report.trials, 1)
        if _ok(r) and r.median and len(r.times) > 1
        for t in r.times
    ]
    if not points:
        return None
    with _axes() as (figure, axes):
        axes.scatter(*zip(*points), s=6, color=TRIAL)
        axes.axhline(0, color=BEST, lw=0.8)
        axes.set(xlabel="trial", ylabel="% off the trial's median", yscale="symlog",
                 title="noise: each block of each trial")  # fmt: skip
        axes.xaxis.get_major_locator().set_params(integer=True)
    return figure


def importance(report: Report) -> Figure | None:
    """How much of the spread of times each choice explains; None with too few trials."""
    found = [d for d in facts.decisions(report) if d.share > 0][:MOST_BARS]
    if not found:
        return None
    several = len({decision.sketch for decision in found}) > 1
    names = [f"{d.name} ({d.sketch})" if several else d.name for d in found]
    shares = [100 * decision.share for decision in found]
    return _bars(names, shares, "% of the variance of log time", "which choices mattered")


def worth(report: Report) -> Figure | None:
    """The best time of each sketch and algorithm; None where none succeeded."""
    rows = [("sketch", w) for w in facts.sketches(report)]
    algorithms = facts.algorithms(report)
    rows += [("algorithm", w) for w in algorithms] if len(algorithms) > 1 else []
    found = [(f"{kind} {w.name}", w.seconds) for kind, w in rows if w.seconds is not None]
    best = min((seconds for _, seconds in found), default=0.0)
    speeds = [100 * best / seconds for _, seconds in found[:MOST_BARS]]
    names = [name for name, _ in found[:MOST_BARS]]
    return _bars(names, speeds, "% of the best speed", "what sketches and algorithms were worth")


def roofline(report: Report) -> Figure | None:
    """Trials under what the machine can do; None where operations or peaks are not known."""
    place = facts.roof(report)
    if place is None or place.gflops is None or place.gbps is None:
        return None
    peak, bandwidth, here = place.gflops, place.gbps, place.intensity
    with _axes() as (figure, axes):
        x = np.geomspace(min(here, peak / bandwidth) / 8, max(here, peak / bandwidth) * 8, 200)
        axes.plot(x, np.minimum(peak, bandwidth * x), color=FAILED, label="this machine, measured")
        rates = [place.rate(r.median or math.inf) for r in report.trials if _ok(r)]
        axes.scatter([here] * len(rates), rates, s=14, color=TRIAL, label="trial")
        marked = ((report.default(), DEFAULT, "default", 90), (report.best, BEST, "best", 36))
        for record, color, name, size in marked:
            if record is not None and record.status == "ok":
                rate = place.rate(report.seconds(record) or math.inf)
                axes.scatter([here], [rate], s=size, color=color, label=name, zorder=3)
        axes.set(xlabel="operations per byte of the arguments", ylabel="GFLOP/s", xscale="log",
                 yscale="log", title="roofline")  # fmt: skip
        axes.legend(fontsize=8, loc="lower right")
    return figure


FIGURES: dict[str, Callable[[Report], "Figure | None"]] = {
    "search": search_curve, "roofline": roofline, "predictions": predictions,
    "importance": importance, "worth": worth, "noise": noise,
}  # fmt: skip
"""Name -> what draws it, in the order of the page."""


def plot(report: Report, path: str | Path, title: str = "") -> None:
    """Draw all trials and the best so far into a picture file.

    Raises TensorIRError if Matplotlib is missing, nothing succeeded, or the file cannot be
    written.
    """
    figure = search_curve(report, title)
    try:
        with whole_file(path) as draft:
            figure.savefig(draft, dpi=144, format=Path(path).suffix[1:] or "png")
    except (OSError, ValueError) as error:
        raise TensorIRError(f"cannot write the plot {str(path)!r}: {error}") from error


def as_svg(figure: Figure) -> str:
    """The figure as SVG that is the same each time, and names nobody."""
    from matplotlib import rc_context

    out = StringIO()
    with rc_context(STYLE):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", metadata=nothing)
    return out.getvalue()


@contextmanager
def _axes() -> Iterator[tuple[Figure, Any]]:
    if find_spec("matplotlib") is None:
        raise TensorIRError("a figure needs a package that is missing: pip install matplotlib")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        yield figure, figure.subplots()


def _bars(names: Sequence[str], values: Sequence[float], unit: str, title: str) -> Figure | None:
    if not names:
        return None
    with _axes() as (figure, axes):
        places = range(len(names), 0, -1)
        axes.barh(places, values, color=TRIAL, height=0.7)
        axes.set_yticks(places, [_short(name) for name in names], fontsize=7.5)
        for place, value in zip(places, values):
            axes.text(value, place, f" {value:.3g}", va="center", fontsize=7.5)
        axes.margins(x=0.12)
        axes.grid(axis="y", visible=False)
        axes.set(xlabel=unit, title=title)
    return figure


def _races(report: Report) -> Iterator[tuple[int, Any]]:
    for number, record in enumerate(report.trials, 1):
        race = report.race_of(record)
        if race is not None:
            yield number, race


def _ok(record: Any) -> bool:
    return bool(record.status == "ok")


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}...{name[-LONGEST // 2 + 3 :]}"
