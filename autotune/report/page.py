"""A report as one HTML file that needs nothing else: no network, no scripts, pictures inside."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from autotune.database.ranking import outcome
from autotune.report import facts
from autotune.report.figures import as_svg, figures
from autotune.report.style import PAGE
from autotune.report.summary import Report
from autotune.tuning.failures import headline

ALT = {
    "search": "time of each trial in the order they were made, with the best so far",
    "roofline": "trials under the peaks of arithmetic and memory",
    "predictions": "predicted against measured times",
    "importance": "how much of the spread of times each choice explains",
    "worth": "best time of each sketch and algorithm",
    "noise": "how far the blocks of each trial are from its median",
}
"""What the figures show, for who cannot see them."""


@dataclass(frozen=True)
class Winner:
    """The best schedule as texts by their title, such as its program and its C; `missing` says why
    there are none of some."""

    texts: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""


def page(report: Report, winner: Winner, details: Sequence[tuple[str, str]]) -> str:
    """The page of a workload.

    report   its trials, one successful at least
    winner   the best schedule
    details  what was measured and how, as names and values

    Raises TensorIRError if Matplotlib is missing, or no trial succeeded.
    """
    drawn = {name: as_svg(figure) for name, figure in figures(report).items()}
    first = report.trials[0]
    return PAGE.format(
        title=escape(f"{first.workload.name}: tuning report"),
        said=escape(_said(report)),
        cards="".join(f"<div><b>{escape(v)}</b><span>{escape(k)}</span></div>"
                      for k, v in _cards(report)),
        details=_pairs(details),
        figures="".join(f'<figure><img alt="{escape(ALT[n])}" src="{_data(svg)}"></figure>'
                        for n, svg in drawn.items()),
        choices=_choices(report),
        worth=_worth("sketch", facts.sketches(report)) + _algorithms(report),
        winner=_texts(winner),
        trials=_trials(report),
        failures=_failures(report),
    )  # fmt: skip


def _said(report: Report) -> str:
    """The verdict of the race, and how it differs from the lowest time of a trial."""
    race = None if report.best is None else report.race_of(report.best)
    found = None if race is None else outcome(race)
    if found is None:
        return "There was no race yet: the best is the lowest of the trials, which is partly luck."
    return f"The race at the end: {found}. Times of one race are compared, those of trials are not."


def _cards(report: Report) -> Iterable[tuple[str, str]]:
    """The figures that one wants to know first, as names and values."""
    best, default = report.best, report.default()
    if best is None:
        return
    seconds = report.seconds(best) or 0.0
    yield "best", f"{1e3 * seconds:.4g} ms"
    if default is not None and default.status == "ok":
        yield "default schedule", f"{1e3 * (report.seconds(default) or 0):.4g} ms"
    roof = facts.roof(report)
    if roof is not None:
        yield "rate", f"{roof.rate(seconds):.1f} GFLOP/s"
        if roof.limit is not None:
            yield "of the roofline", f"{roof.rate(seconds) / roof.limit:.0%}"
    yield "trials", str(len(report.trials))
    if report.quality.samples > 1:
        yield "rank correlation of predictions", f"{report.quality.spearman:.2f}"
    if report.ceiling.noise.samples > 1:
        yield "rank correlation of a second visit", f"{report.ceiling.noise.spearman:.2f}"


def _trials(report: Report) -> str:
    """All trials; times are there in full, in seconds, for who reads the page by program."""
    best, default = report.best, report.default()
    rows = []
    for number, record in enumerate(report.trials, 1):
        race = report.race_of(record)
        marks = [n for n, one in (("best", best), ("default", default)) if one is record]
        text = json.dumps(record.decisions) if record.status == "ok" else headline(record.error)
        rows.append(
            f'<tr id="{record.id}"><td>{number}</td><td>{" ".join(marks)}</td>'
            f"<td>{record.status}</td>{_time(None if race is None else race.median)}"
            f"{_time(record.median)}{_time(record.predicted)}"
            f"<td>{escape(record.sketch)}</td><td>{escape(text)}</td></tr>"
        )
    heads = ("trial", "", "status", "race ms", "ms", "predicted ms", "sketch", "decisions or error")
    return _table(heads, rows)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "<td></td>"
    return f'<td data-seconds="{seconds!r}">{1e3 * seconds:.4g}</td>'


def _choices(report: Report) -> str:
    rows = [
        f"<tr><td>{escape(d.sketch)}</td><td>{escape(d.name)}</td><td>{100 * d.share:.0f} %</td>"
        f"<td>{escape(d.best)}</td><td>{d.values}</td><td>{d.trials}</td></tr>"
        for d in facts.decisions(report)
    ]
    if not rows:
        return f"<p>No sketch has {facts.ENOUGH} trials that succeeded: too few to judge.</p>"
    heads = ("sketch", "choice", "explains", "value of the fastest", "values tried", "trials")
    return _table(heads, rows)


def _worth(what: str, found: Sequence[facts.Worth]) -> str:
    best = min((w.seconds for w in found if w.seconds is not None), default=None)
    rows = []
    for each in found:
        ratio = f"{each.seconds / best:.2f} x" if each.seconds and best else ""
        rows.append(
            f"<tr><td>{escape(each.name)}</td>{_time(each.seconds)}<td>{ratio}</td>"
            f"<td>{each.ok}</td><td>{each.trials}</td></tr>"
        )
    return _table((what, "best ms", "of the best", "ok", "trials"), rows)


def _algorithms(report: Report) -> str:
    """What algorithms were worth, where there are several."""
    found = facts.algorithms(report)
    return _worth("algorithm", found) if len(found) > 1 else ""


def _failures(report: Report) -> str:
    rows = [
        f"<tr><td>{number}</td><td>{escape(status)}</td><td>{escape(text)}</td></tr>"
        for (status, text), number in report.failures
    ]
    pruned = report.statuses.get("pruned", 0)
    if pruned:
        rows.append(f"<tr><td>{pruned}</td><td>pruned</td><td>far slower than the best</td></tr>")
    return _table(("trials", "ended as", "why"), rows) if rows else "<p>No trial failed.</p>"


def _texts(winner: Winner) -> str:
    shown = "".join(
        f"<details{' open' if at == 0 else ''}><summary>{escape(title)}</summary>"
        f"<pre>{escape(text)}</pre></details>"
        for at, (title, text) in enumerate(winner.texts.items())
    )
    return shown + (f"<p>{escape(winner.missing)}</p>" if winner.missing else "")


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<dt>{escape(k)}</dt><dd>{escape(str(v))}</dd>" for k, v in pairs if v)


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    kinds = (' class="number"' if head.endswith("ms") else "" for head in heads)
    names = "".join(f"<th{kind}>{escape(head)}</th>" for kind, head in zip(kinds, heads))
    return f'<div class="wide"><table><tr>{names}</tr>{"".join(rows)}</table></div>'


def _data(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
