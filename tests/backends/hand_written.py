"""CUDA kernels that were written by hand (cuda/kernels), with arguments and what they compute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends.cuda.emulator import Launch
from backends.cuda.prelude import prelude

FOLDER = Path(__file__).parent / "cuda" / "kernels"


@dataclass
class Case:
    """A launch of a kernel, the array it writes, and what that has to hold afterwards."""

    source: str
    launch: Launch
    output: np.ndarray
    expected: np.ndarray

    def check(self) -> None:
        np.testing.assert_allclose(self.output, self.expected, rtol=1e-5, atol=1e-5)


def source(name: str) -> str:
    text = (FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    return prelude(text) + text


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def _products(name: str, tile: int, threads: int, shared: int, m: int, n: int, k: int) -> Case:
    a, b = numbers(m, k), numbers(k, n, seed=1)
    c = np.full((m, n), np.nan, "float32")
    grid = (n // tile, m // tile)
    return Case(source(name), Launch(name, grid, threads, (a, b, c, n, k), shared), c, a @ b)


def tiled(m: int = 64, n: int = 32, k: int = 24) -> Case:
    return _products("tiled", 32, 64, 2048, m, n, k)


def matmul(m: int = 128, n: int = 256, k: int = 24) -> Case:
    return _products("matmul", 128, 256, 16384, m, n, k)


def _softmax(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a = numbers(rows, columns)
    expected = np.exp(a - a.max(axis=1, keepdims=True))
    return a, np.full_like(a, np.nan), expected / expected.sum(axis=1, keepdims=True)


def softmax_warp(rows: int = 5, columns: int = 70) -> Case:
    a, b, expected = _softmax(rows, columns)
    grid = (rows + 1) // 2
    launch = Launch("softmax_warp", grid, 64, (a, b, rows, columns))
    return Case(source("softmax"), launch, b, expected)


def softmax_block(rows: int = 3, columns: int = 331) -> Case:
    a, b, expected = _softmax(rows, columns)
    launch = Launch("softmax_block", rows, 128, (a, b, columns), 32)
    return Case(source("softmax"), launch, b, expected)


def transpose(rows: int = 37, columns: int = 70) -> Case:
    a = numbers(rows, columns)
    b = np.full((columns, rows), np.nan, "float32")
    grid = (-(-columns // 32), -(-rows // 32))
    launch = Launch("transpose", grid, (32, 8), (a, b, rows, columns), 4224)
    return Case(source("transpose"), launch, b, a.T)


def reduce(rows: int = 3, columns: int = 331) -> Case:
    a = numbers(rows, columns).astype("float16")
    b = np.full(rows, np.nan, "float32")
    launch = Launch("reduce", rows, 128, (a.view("uint16"), b, columns), 512)
    return Case(source("reduce"), launch, b, a.astype("float32").sum(axis=1))


def staged(chunks: int = 3) -> Case:
    a = numbers(chunks * 128)
    b = np.full_like(a, np.nan)
    launch = Launch("staged", 1, 32, (a, b, chunks), 1024)
    return Case(source("staged"), launch, b, a + np.concatenate([[np.float32(0)], a[:-1]]))


CASES: dict[str, Any] = {
    case.__name__: case
    for case in (tiled, matmul, softmax_warp, softmax_block, transpose, reduce, staged)
}
