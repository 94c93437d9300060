"""A photograph: one convolution with 32 filters, some of them old acquaintances."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autotune.examples import conv2d_bias_relu
from benchmarks import rivals
from benchmarks.case import NUMPY, SCIPY, Call, Case
from tensorir import TensorIRError

FILTERS = 32
CLASSIC = {
    "horizontal edges": ((-1, -2, -1), (0, 0, 0), (1, 2, 1)),
    "vertical edges": ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1)),
    "outline": ((0, -1, 0), (-1, 4, -1), (0, -1, 0)),
    "blur": ((1 / 16, 2 / 16, 1 / 16), (2 / 16, 4 / 16, 2 / 16), (1 / 16, 2 / 16, 1 / 16)),
    "sharpen": ((0, -1, 0), (-1, 5, -1), (0, -1, 0)),
    "emboss": ((-2, -1, 0), (-1, 1, 1), (0, 1, 2)),
}
"""Filters of image processing, applied to the mean of the three colours."""


def load(quick: bool = False) -> np.ndarray:
    """scikit-learn's sample picture of a temple: float32[1, 427, 640, 3] from 0 to 1."""
    from sklearn.datasets import load_sample_image

    picture = load_sample_image("china.jpg")
    if quick:
        picture = picture[200:216, 300:320]
    return np.ascontiguousarray(picture[np.newaxis] / 255, np.float32)


def filters(count: int = FILTERS) -> tuple[np.ndarray, np.ndarray]:
    """Weights float32[3, 3, 3, count] (row, column, colour, filter) and bias float32[count]."""
    rng = np.random.default_rng(0)
    weight = rng.normal(0, 0.2, (3, 3, 3, count)).astype(np.float32)
    bias = rng.normal(0, 0.05, count).astype(np.float32)
    for number, taps in enumerate(list(CLASSIC.values())[:count]):
        weight[..., number] = np.array(taps, np.float32)[:, :, np.newaxis] / 3
        bias[number] = 0
    return weight, bias


def case(picture: np.ndarray, quick: bool = False) -> Case:
    """The convolution with bias and ReLU; the right answer is SciPy's, in float64."""
    weight, bias = filters(4 if quick else FILTERS)
    _, h, w, c = picture.shape
    k = weight.shape[-1]
    exact = scipy_convolution(*(a.astype(np.float64) for a in (picture, weight, bias)))
    return Case(
        name=f"convolution 3x3, {c} -> {k}, ReLU",
        func=conv2d_bias_relu(1, h, w, c, k),
        inputs=(picture, weight, bias),
        expected=exact(),
        library={
            NUMPY: rivals.convolution(picture, weight, bias),
            SCIPY: scipy_convolution(picture, weight, bias),
        },
    )


def scipy_convolution(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> Call:
    """The same by scipy.ndimage.correlate, one colour and one filter at a time."""
    from scipy.ndimage import correlate

    _, h, w, c = x.shape
    k = weight.shape[-1]
    colours = [np.ascontiguousarray(x[0, :, :, ch]) for ch in range(c)]
    part = np.empty((h, w), x.dtype)
    total = np.empty((h, w), x.dtype)
    out = np.empty((1, h, w, k), x.dtype)

    def call() -> np.ndarray:
        for f in range(k):
            total[...] = bias[f]
            for ch, colour in enumerate(colours):
                correlate(colour, weight[:, :, ch, f], output=part, mode="constant")
                np.add(total, part, out=total)
            np.maximum(total, 0, out=out[0, :, :, f])
        return out

    return call


def save(output: np.ndarray, path: Path) -> None:
    """Write what the classic filters found, side by side, as a picture.

    Raises TensorIRError where the file cannot be written or its suffix is of no known format.
    """
    from PIL import Image

    panels = [output[0, :, :, f] for f in range(min(len(CLASSIC), output.shape[-1]))]
    scaled = [np.clip(p / (np.quantile(p, 0.99) or 1.0), 0, 1) for p in panels]
    columns = 3
    rows = [np.hstack(scaled[i : i + columns]) for i in range(0, len(scaled), columns)]
    rows = [np.pad(row, ((0, 0), (0, rows[0].shape[1] - row.shape[1]))) for row in rows]
    try:
        Image.fromarray((np.vstack(rows) * 255).astype(np.uint8)).save(path)
    except (OSError, ValueError) as error:
        raise TensorIRError(f"cannot write the picture {str(path)!r}: {error}") from error
