"""The picture: how far winners are from the best known time, over the number of trials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.tuner.compare import Row

MARKS = "ovsD^P*X<>"


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Write the picture to `path`; needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (means, shares) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for number, row in enumerate(rows):
        style = {"marker": MARKS[number % len(MARKS)], "markersize": 3, "linewidth": 1}
        means.plot(row.marks, [row.mean(n) for n in row.marks], label=row.name, **style)
        shares.plot(row.marks, [100 * row.found(n) for n in row.marks], **style)
    means.set_ylabel("time of the winner / best known")
    shares.set_ylabel("searches within 5 % of the best known, %")
    means.set_yscale("log")
    ticks = [1, 2, 4, 8, 16, 24, 32, 64]
    for axes in (means, shares):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xlabel("trials")
        axes.grid(color="0.9")
    figure.suptitle(title, fontsize=10)
    figure.legend(fontsize=8, loc="outside right upper")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
