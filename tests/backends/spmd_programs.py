"""Lowered programs of every kind, as text, with arguments and what they compute by NumPy."""

# ruff: noqa: E501  programs as they are printed

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Program:
    """`arrays(rng)` makes all arguments; `expected(*arrays)` are the outputs, in order."""

    text: str
    arrays: Callable[[np.random.Generator], list[Array]]
    expected: Callable[..., list[Array]]


def floats(rng: np.random.Generator, *shape: int) -> Array:
    return rng.random(shape, np.float32) - np.float32(0.5)


SCALE = Program(
    """
@prim_func
def scale(A: f32[n], B: f32[n]):
    for b in thread("blockIdx.x", (n + 127) // 128):
        for t in thread("threadIdx.x", 128):
            if b * 128 + t < n:
                B[b * 128 + t] = A[b * 128 + t] * 2.0 + A[b * 128 + t]
""",
    lambda rng: [floats(rng, 301), np.zeros(301, "f4")],
    lambda a, _: [a * 2 + a],
)

MATMUL = Program(
    """
@prim_func
def matmul(A: f32[4096], B: f32[4096], C: f32[4096]):
    for by in thread("blockIdx.y", 2, annotations={"shared_bytes": 4096, "shared_offsets": {"As": 0, "Bs": 2048}}):
        for bx in thread("blockIdx.x", 2):
            for ty in thread("threadIdx.y", 8):
                for tx in thread("threadIdx.x", 8):
                    with alloc(As, f32[512], scope="shared"):
                        with alloc(Bs, f32[512], scope="shared"):
                            with alloc(acc, f32[16], scope="local"):
                                for z in unrolled(16):
                                    acc[z] = 0.0
                                for k in range(4):
                                    for c in unrolled(2):
                                        As[ramp(ty * 64 + c * 32 + tx * 4, 1, 4)] = A[ramp((by * 32 + ty * 4 + c * 2 + tx // 4) * 64 + k * 16 + tx % 4 * 4, 1, 4)]
                                        Bs[ramp(ty * 64 + c * 32 + tx * 4, 1, 4)] = B[ramp((k * 16 + ty * 2 + c) * 64 + bx * 32 + tx * 4, 1, 4)]
                                    sync("block")
                                    for kk in range(16):
                                        for i in unrolled(4):
                                            for j in unrolled(4):
                                                acc[i * 4 + j] = acc[i * 4 + j] + As[(ty * 4 + i) * 16 + kk] * Bs[kk * 32 + tx * 4 + j]
                                    sync("block")
                                for i in unrolled(4):
                                    C[ramp((by * 32 + ty * 4 + i) * 64 + bx * 32 + tx * 4, 1, 4)] = acc[ramp(i * 4, 1, 4)]
""",
    lambda rng: [floats(rng, 4096), floats(rng, 4096), np.zeros(4096, "f4")],
    lambda a, b, _: [(a.reshape(64, 64) @ b.reshape(64, 64)).ravel()],
)

SOFTMAX = Program(
    """
@prim_func
def softmax(X: f32[rows * 100], S: i64[rows], Y: f32[rows * 100]):
    for row in thread("blockIdx.x", rows, annotations={"shared_bytes": 16, "shared_offsets": {"R": 0}}):
        for t in thread("threadIdx.x", 64):
            with alloc(R, f32[2], scope="shared"):
                with alloc(m, f32[2], scope="local"):
                    m[0] = float("-inf")
                    for i in range(2):
                        if i * 64 + t < 100:
                            m[0] = max(m[0], X[row * 100 + i * 64 + t])
                    for e in unrolled(5):
                        m[1] = exchange(m[0], t % 32 ^ 1 << e)
                        m[0] = max(m[0], m[1])
                    if t % 32 == 0:
                        R[t // 32] = m[0]
                    sync("block")
                    m[0] = max(R[0], R[1])
                    sync("block")
                    m[1] = 0.0
                    for i in range(2):
                        if i * 64 + t < 100:
                            m[1] = m[1] + exp(X[row * 100 + i * 64 + t] - m[0])
                    with alloc(p, f32[1], scope="local"):
                        p[0] = exchange(m[1], t % 32 ^ 16)
                        m[1] = m[1] + p[0]
                        p[0] = exchange(m[1], t % 32 ^ 8)
                        m[1] = m[1] + p[0]
                        p[0] = exchange(m[1], t % 32 ^ 4)
                        m[1] = m[1] + p[0]
                        p[0] = exchange(m[1], select(t % 32 + 2 < 32, t % 32 + 2, t % 32))
                        m[1] = m[1] + p[0]
                        p[0] = exchange(m[1], select(t % 32 + 1 < 32, t % 32 + 1, t % 32))
                        m[1] = m[1] + p[0]
                        p[0] = exchange(m[1], 0)
                        if t % 32 == 0:
                            R[t // 32] = p[0]
                    sync("block")
                    for i in range(2):
                        if i * 64 + t < 100:
                            Y[row * 100 + i * 64 + t] = exp(X[row * 100 + i * 64 + t] - m[0]) / (R[0] + R[1])
""",
    lambda rng: [floats(rng, 300), np.zeros(3, "i8"), np.zeros(300, "f4")],
    lambda x, s, _: [softmax(x.reshape(3, 100)).ravel()],
)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


TWO_KERNELS = Program(
    """
@prim_func
def two_kernels(A: f32[n], B: f32[n], M: f32[1]):
    with alloc(T, f32[n]):
        for b in thread("blockIdx.x", (n + 31) // 32):
            for t in thread("threadIdx.x", 32):
                if b * 32 + t < n:
                    T[b * 32 + t] = A[b * 32 + t] + 1.0
        if n < 100:
            for t in thread("threadIdx.x", n):
                B[t] = T[n - 1 - t]
        else:
            for b in thread("blockIdx.x", n):
                B[b] = T[n - 1 - b]
    for t in thread("threadIdx.x", 1):
        M[0] = B[0]
""",
    lambda rng: [floats(rng, 77), np.zeros(77, "f4"), np.zeros(1, "f4")],
    lambda a, b, m: [(a + np.float32(1))[::-1], (a + np.float32(1))[-1:]],
)

STORAGE = Program(
    """
@prim_func
def storage(A: f16[64], B: bf16[64], C: bool[64], D: i8[64], E: f16[64], F: bf16[64], G: bool[64], H: u8[64]):
    for t in thread("threadIdx.x", 32):
        with alloc(S, bool[2], scope="local"):
            E[ramp(t * 2, 1, 2)] = f16x2(f32x2(A[ramp(t * 2, 1, 2)]) * broadcast(2.0, 2))
            F[t * 2] = bf16(f32(B[t * 2]) + f32(A[t]))
            F[t * 2 + 1] = bf16(f64(f32(B[t * 2 + 1])))
            S[0] = C[t]
            S[1] = not C[t + 32]
            G[ramp(t * 2, 1, 2)] = C[ramp(t * 2, 1, 2)]
            H[ramp(t * 2, 1, 2)] = u8x2(D[ramp(t * 2, 1, 2)] * D[ramp(t * 2, 1, 2)])
            sync("block")
            if S[0] and S[1]:
                G[t] = D[t] < i8(3)
""",
    lambda rng: [
        rng.random(64).astype("f2"),
        (rng.random(64).astype("f4").view("u4") >> 16).astype("u2"),
        np.arange(64) % 3 == 0,
        np.arange(-32, 32).astype("i1"),
        np.zeros(64, "f2"),
        np.zeros(64, "u2"),
        np.zeros(64, "?"),
        np.zeros(64, "u1"),
    ],
    lambda a, b, c, d, *_: expected_storage(a, b, c, d),
)


def bfloat(bits: Array) -> Array:
    return (bits.astype("u4") << 16).view("f4")


def expected_storage(a: Array, b: Array, c: Array, d: Array) -> list[Array]:
    f = b.copy()
    total = bfloat(b[::2]) + a[:32].astype("f4")
    bits = total.view("u4")
    f[::2] = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    g = c.copy()
    chosen = c[:32] & ~c[32:]
    g[:32] = np.where(chosen, d[:32] < 3, g[:32])
    return [(a.astype("f4") * 2).astype("f2"), f, g, (d * d).view("u1")]


VECTORS = Program(
    """
@prim_func
def vectors(A: f32[256], I: i32[64], B: f32[256], C: i32[64], R: f32[64]):
    for t in thread("threadIdx.x", 16):
        with let(x, A[ramp(t * 4, 1, 4)] + broadcast(1.0, 4)):
            B[ramp(t * 4, 1, 4)] = x * x
            B[ramp(64 + t * 4, 1, 4)] = select(x < broadcast(1.0, 4), x, max(x, A[ramp(t * 4 + 64, 1, 4)]))
            B[ramp(128 + t, 16, 4)] = A[ramp(128 + t, 16, 4)]
            B[ramp(192 + t * 4, 1, 4)] = A[ramp(192 + t * 4 + 3, -1, 4)]
            C[ramp(t * 4, 1, 4)] = I[ramp(t * 4, 1, 4)] // broadcast(3, 4) + I[ramp(t * 4, 1, 4)]
            R[ramp(t * 4, 1, 4)] = shuffle(A[ramp(t * 4, 1, 4)], A[ramp(t * 4, 1, 4)], 3, 2, 5, 0)
            with let(k, t % 2):
                if k == 0:
                    R[ramp(t * 4, 1, 4)] = A[ramp(t * 4, 1, 4)]
""",
    lambda rng: [
        floats(rng, 256), rng.integers(-99, 99, 64).astype("i4"),
        np.zeros(256, "f4"), np.zeros(64, "i4"), np.zeros(64, "f4"),
    ],
    lambda a, i, *_: expected_vectors(a, i),
)


def expected_vectors(a: Array, i: Array) -> list[Array]:
    x = a[:64] + np.float32(1)
    turned = a[192:].reshape(16, 4)[:, ::-1].ravel()
    mixed = a[:64].reshape(16, 4)[:, [3, 2, 1, 0]]
    mixed[::2] = a[:64].reshape(16, 4)[::2]
    chosen = np.where(x < 1, x, np.maximum(x, a[64:128]))
    return [np.concatenate([x * x, chosen, a[128:192], turned]), i // 3 + i, mixed.ravel()]


TRANSPOSE = Program(
    """
@prim_func
def transpose(A: f32[1036], B: f32[1036]):
    for b in thread("blockIdx.x", 2, annotations={"shared_bytes": 4224, "shared_offsets": {"T": 0}}):
        for ty in thread("threadIdx.y", 8):
            for tx in thread("threadIdx.x", 32):
                with alloc(T, f32[1056], scope="shared"):
                    for r in unrolled(4):
                        if r * 8 + ty < 28 and b * 32 + tx < 37:
                            T[(r * 8 + ty) * 33 + tx] = A[(r * 8 + ty) * 37 + b * 32 + tx]
                    sync("block")
                    for r in unrolled(4):
                        if b * 32 + r * 8 + ty < 37 and tx < 28:
                            B[(b * 32 + r * 8 + ty) * 28 + tx] = T[tx * 33 + r * 8 + ty]
""",
    lambda rng: [floats(rng, 1036), np.zeros(1036, "f4")],
    lambda a, _: [a.reshape(28, 37).T.ravel()],
)

WARPS = Program(
    """
@prim_func
def warps(A: i32[64], B: i32[64], C: i64[64]):
    for t in thread("threadIdx.x", 64, annotations={"shared_bytes": 256, "shared_offsets": {"S": 0}}):
        with alloc(S, i32[64], scope="shared"):
            with alloc(x, i64[1], scope="local"):
                S[t] = A[t] * 2
                sync("warp")
                B[t] = S[t // 32 * 32 + (31 - t % 32)]
                x[0] = exchange(i64(A[t]) * i64(A[t]), (t + 1) % 32)
                C[t] = x[0]
""",
    lambda rng: [rng.integers(-(2**31), 2**31, 64).astype("i4"), np.zeros(64, "i4"), np.zeros(64, "i8")],
    lambda a, *_: [
        (a * np.int32(2)).reshape(2, 32)[:, ::-1].ravel(),
        np.roll((a.astype("i8") ** 2).reshape(2, 32), -1, axis=1).ravel(),
    ],
)

IN_PLACE = Program(
    """
@prim_func
def in_place(A: f64[3, n], C: f64[n]):
    attrs({"inout": ["C"]})
    for b in thread("blockIdx.z", 3):
        for t in thread("threadIdx.z", 2):
            pass
    for t in thread("blockIdx.x", n):
        for k in range(3):
            C[t] = C[t] + A[k * n + t]
        C[t] = select(t != 0, C[t], 1.5)
""",
    lambda rng: [rng.random((3, 9)), rng.random(9)],
    lambda a, c: [np.where(np.arange(9) != 0, c + a[0] + a[1] + a[2], 1.5)],
)

RANDOM = Program(
    """
@prim_func
def random(B: u32[96], C: f32[96]):
    for b in thread("blockIdx.y", 3):
        for t in thread("threadIdx.x", 32):
            B[b * 32 + t] = philox(u32(b * 32 + t), u32(0), u32(0), u32(0), u32(7), u32(0), u32(1))
            C[b * 32 + t] = f32(B[b * 32 + t] >> u32(8)) * 0.000000059604645
""",
    lambda rng: [np.zeros(96, "u4"), np.zeros(96, "f4")],
    lambda *_: expected_random(),
)


def expected_random() -> list[Array]:
    from tensorir.numbers.philox import philox

    zero = np.zeros(96, "u4")
    bits = philox(np.arange(96, dtype="u4"), zero, zero, zero, zero + 7, zero, zero + 1)
    return [bits, (bits >> 8).astype("f4") * np.float32(2**-24)]


PROGRAMS = {
    name.lower(): value for name, value in list(globals().items()) if isinstance(value, Program)
}
