"""Handwritten digits: a small network that scikit-learn trains, and its layers as operators."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.examples import linear_relu
from backends import CompiledKernel
from benchmarks import rivals
from benchmarks.case import NUMPY, Call, Case
from tensorir import PrimFunc, te

HIDDEN, QUICK_HIDDEN = (128, 64), (16,)
EPOCHS = 30


@dataclass(frozen=True, eq=False)
class Digits:
    """The trained network and all images.

    images   float32[n, 64], from 0 to 1; predicted holds scikit-learn's answers for them
    layers   (weights[k, n], bias[n]) of each layer, float32
    held_out share of right answers on images that were not trained on
    """

    images: np.ndarray
    predicted: np.ndarray
    classes: np.ndarray
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    held_out: float


def train(quick: bool = False) -> Digits:
    """Train scikit-learn's MLPClassifier on three quarters of its 1797 digits; always the same."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    images, labels = load_digits(return_X_y=True)
    images = np.ascontiguousarray(images / 16, np.float32)
    if quick:
        images, labels = images[:96], labels[:96]
    seen, unseen, seen_labels, unseen_labels = train_test_split(
        images, labels, test_size=0.25, random_state=0
    )
    hidden, epochs = (QUICK_HIDDEN, 10 * EPOCHS) if quick else (HIDDEN, EPOCHS)
    network = MLPClassifier(hidden, max_iter=epochs, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not have converged
        network.fit(seen, seen_labels)
    return Digits(
        images=images,
        predicted=network.predict(images),
        classes=network.classes_,
        layers=tuple(zip(_float32(network.coefs_), _float32(network.intercepts_))),
        held_out=float(network.score(unseen, unseen_labels)),
    )


def layer_count(quick: bool = False) -> int:
    """The number of layers of the network that `train` makes."""
    return len(QUICK_HIDDEN if quick else HIDDEN) + 1


def cases(digits: Digits) -> list[Case]:
    """One case for each layer, all images at once; each layer's input is what NumPy gives it."""
    found = []
    x = digits.images
    for number, (w, bias) in enumerate(digits.layers, 1):
        last = number == len(digits.layers)
        (m, k), n = x.shape, w.shape[1]
        exact = x.astype(np.float64) @ w + bias
        call = rivals.linear(x, w, bias, relu=not last)
        found.append(
            Case(
                name=f"layer {number}: {k} -> {n}" + ("" if last else ", ReLU"),
                func=linear(m, n, k) if last else linear_relu(m, n, k),
                inputs=(x, w, bias),
                expected=exact if last else np.maximum(exact, 0),
                library={NUMPY: call},
            )
        )
        x = call()
    return found


def linear(m: int, n: int, k: int) -> PrimFunc:
    """out[m, n] = x[m, k] @ w[k, n] + bias[n], float32."""
    x = te.placeholder((m, k), "float32", name="x")
    w = te.placeholder((k, n), "float32", name="w")
    bias = te.placeholder((n,), "float32", name="bias")
    r = te.reduce_axis(k, name="k")
    product = te.compute((m, n), lambda i, j: te.sum(x[i, r] * w[r, j], axis=r), name="product")
    out = te.compute((m, n), lambda i, j: product[i, j] + bias[j], name="out")
    return te.create_prim_func([x, w, bias, out], name="linear")


def network(digits: Digits, kernels: Sequence[CompiledKernel]) -> Call:
    """All layers, one kernel each, with activations that are made once; returns the scores."""
    steps: list[tuple[CompiledKernel, tuple[Any, ...]]] = []
    x = digits.images
    for kernel, (w, bias) in zip(kernels, digits.layers):
        out = kernel(x, w, bias)
        steps.append((kernel, (x, w, bias, out)))
        x = out

    def call() -> np.ndarray:
        for kernel, arguments in steps:
            kernel(*arguments)
        return x

    return call


def numpy_network(layers: Sequence[Case]) -> Call:
    """The same by NumPy: each layer's call reads what the one before has written."""
    *first, last = [case.library[NUMPY] for case in layers]

    def call() -> np.ndarray:
        for layer in first:
            layer()
        return last()

    return call


def answers(digits: Digits, scores: np.ndarray) -> np.ndarray:
    """The digit of the highest score in each row."""
    return digits.classes[np.argmax(scores, axis=1)]


def _float32(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.ascontiguousarray(a, np.float32) for a in arrays]
