"""Numba: the invented operators as parallel loops, for those that no BLAS has a part of."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from benchmarks.peers.invented import BINOMIAL, INVENTED, TAPS
from benchmarks.peers.task import Call, Task, Unsupported

W9 = np.array(TAPS, np.float32)
W5 = np.array(BINOMIAL, np.float32)


@njit(parallel=True, fastmath=True)
def min_plus(a, b, out):
    for i in prange(a.shape[0]):
        out[i] = np.inf
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] = min(out[i, j], a[i, k] + b[k, j])


@njit(parallel=True, fastmath=True)
def distances(a, b, out):
    for i in prange(a.shape[0]):
        for j in range(b.shape[0]):
            total = np.float32(0)
            for k in range(a.shape[1]):
                total += (a[i, k] - b[j, k]) ** 2
            out[i, j] = total


@njit(parallel=True, fastmath=True)
def mttkrp(a, b, c, out):
    for i in prange(a.shape[0]):
        out[i] = 0
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                for r in range(b.shape[1]):
                    out[i, r] += a[i, j, k] * b[j, r] * c[k, r]


@njit(parallel=True, fastmath=True)
def bilinear(x, w, y, out):
    for n in prange(x.shape[0]):
        for o in range(w.shape[0]):
            total = np.float32(0)
            for i in range(w.shape[1]):
                part = np.float32(0)
                for j in range(w.shape[2]):
                    part += w[o, i, j] * y[n, j]
                total += x[n, i] * part
            out[n, o] = total


@njit(parallel=True, fastmath=True)
def chwn(x, w, out):
    for k in prange(out.shape[0]):
        out[k] = 0
        for h in range(out.shape[1]):
            for c in range(w.shape[1]):
                for dy in range(w.shape[2]):
                    for dx in range(w.shape[3]):
                        for v in range(out.shape[2]):
                            for n in range(out.shape[3]):
                                out[k, h, v, n] += x[c, h + dy, v + dx, n] * w[k, c, dy, dx]


@njit(parallel=True, fastmath=True)
def local(x, w, out):
    for k in prange(out.shape[0]):
        out[k] = 0
        for c in range(w.shape[1]):
            for dy in range(w.shape[2]):
                for dx in range(w.shape[3]):
                    for h in range(out.shape[1]):
                        for v in range(out.shape[2]):
                            out[k, h, v] += x[c, h + dy, v + dx] * w[k, c, dy, dx, h, v]


@njit(parallel=True, fastmath=True)
def viterbi(score, step, emit, out):
    for n in prange(score.shape[0]):
        out[n] = -np.inf
        for s in range(score.shape[1]):
            for t in range(step.shape[1]):
                out[n, t] = max(out[n, t], score[n, s] + step[s, t])
        for t in range(step.shape[1]):
            out[n, t] += emit[n, t]


@njit(parallel=True, fastmath=True)
def heat2d(u, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            here = u[i + 1, j + 1]
            near = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]
            out[i, j] = here + np.float32(0.125) * (near - np.float32(4) * here)


@njit(parallel=True, fastmath=True)
def heat3d(u, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            for k in range(out.shape[2]):
                here = u[i + 1, j + 1, k + 1]
                near = u[i, j + 1, k + 1] + u[i + 2, j + 1, k + 1] + u[i + 1, j, k + 1]
                near += u[i + 1, j + 2, k + 1] + u[i + 1, j + 1, k] + u[i + 1, j + 1, k + 2]
                out[i, j, k] = here + np.float32(0.125) * (near - np.float32(6) * here)


@njit(parallel=True, fastmath=True)
def nine_taps(u, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            total = np.float32(0)
            for dy in range(3):
                for dx in range(3):
                    total += W9[dy, dx] * u[i + dy, j + dx]
            out[i, j] = total


@njit(parallel=True, fastmath=True)
def blur(u, out):
    for i in prange(out.shape[0]):
        column = np.empty(u.shape[1], np.float32)
        for j in range(u.shape[1]):
            total = np.float32(0)
            for d in range(5):
                total += W5[d] * u[i + d, j]
            column[j] = total
        for j in range(out.shape[1]):
            total = np.float32(0)
            for d in range(5):
                total += W5[d] * column[j + d]
            out[i, j] = total


@njit(parallel=True, fastmath=True)
def edit(last, older, a, b, out):
    for p in prange(out.shape[0]):
        for i in range(out.shape[1]):
            gap = min(last[p, i], last[p, i + 1]) + np.int32(1)
            change = np.int32(0) if a[p, i] == b[p, i] else np.int32(1)
            out[p, i] = min(gap, older[p, i] + change)


@njit(parallel=True, fastmath=True)
def lifting(x, smooth, detail):
    half, quarter = np.float32(0.5), np.float32(0.25)
    for r in prange(x.shape[0]):
        for i in range(detail.shape[1]):
            detail[r, i] = x[r, 2 * i + 1] - half * (x[r, 2 * i] + x[r, 2 * i + 2])
        for i in range(smooth.shape[1]):
            smooth[r, i] = x[r, 2 * i + 2] + quarter * (detail[r, i] + detail[r, i + 1])


@njit(parallel=True, fastmath=True)
def short_rows(a, b, out):
    for g in prange(a.shape[0]):
        most = np.float32(-np.inf)
        for r in range(a.shape[1]):
            total = np.float32(0)
            for k in range(a.shape[2]):
                total += a[g, r, k] * b[g, r, k]
            most = max(most, total)
        out[g] = most


@njit(parallel=True, fastmath=True)
def pool_arg(x, out, place):
    for c in prange(out.shape[0]):
        for h in range(out.shape[1]):
            for v in range(out.shape[2]):
                best, at = x[c, 2 * h, 2 * v], 2 * h * x.shape[2] + 2 * v
                for dy in range(2):
                    for dx in range(2):
                        if x[c, 2 * h + dy, 2 * v + dx] > best:
                            best = x[c, 2 * h + dy, 2 * v + dx]
                            at = (2 * h + dy) * x.shape[2] + 2 * v + dx
                out[c, h, v], place[c, h, v] = best, at


@njit(parallel=True, fastmath=True)
def life(cells, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            around = np.uint8(0)
            for dy in range(3):
                for dx in range(3):
                    around += cells[i + dy, j + dx]
            out[i, j] = (around == 3) | ((cells[i + 1, j + 1] == 1) & (around == 4))


@njit(parallel=True, fastmath=True)
def bilateral(u, out):
    r = u.shape[0] - out.shape[0] + 1
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            here, total, weights = u[i + r // 2, j + r // 2], np.float32(0), np.float32(0)
            for dy in range(r):
                for dx in range(r):
                    apart = u[i + dy, j + dx] - here
                    weight = np.exp(-apart * apart)
                    total += weight * u[i + dy, j + dx]
                    weights += weight
            out[i, j] = total / weights


@njit(parallel=True, fastmath=True)
def cosine(a, b, out):
    for i in prange(a.shape[0]):
        both = first = second = np.float32(0)
        for k in range(a.shape[1]):
            both += a[i, k] * b[i, k]
            first += a[i, k] * a[i, k]
            second += b[i, k] * b[i, k]
        out[i] = both / np.sqrt(first * second + np.float32(1e-6))


LOOPS = {
    f.__name__: f for f in (
        min_plus, distances, mttkrp, bilinear, chwn, local, viterbi, heat2d, heat3d, nine_taps,
        blur, edit, lifting, short_rows, pool_arg, life, bilateral, cosine,
    )
}  # fmt: skip


def prepare(task: Task) -> dict[str, Call]:
    """The loops of a row, into outputs made once."""
    op = task.sizes["op"]
    if op not in LOOPS:
        raise Unsupported(f"no loops of {op} are written for it")
    outputs = [task.out(INVENTED[op].dtype)]
    if op == "lifting":
        outputs.append(np.empty((task.out_shape[0], task.out_shape[1] + 1), np.float32))
    if op == "pool_arg":
        outputs.append(task.out(np.int32))
    arguments: tuple[Any, ...] = (*task.arrays, *outputs)

    def call() -> Any:
        LOOPS[op](*arguments)
        return outputs[0]

    return {"loops": call}
