"""What this machine can do at best: arithmetic of each type, and reading at each level of memory.

Every rate is the best of many short blocks, since everything that disturbs a block makes it slower.
A row's limit is the longer of two times: its arithmetic at the peak, and its bytes at the bandwidth
of the level that all of its arrays fit into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotune.machine.machine import this_machine
from autotune.measure import machine_lock
from backends import build_source, resolve
from tensorir import PrimFunc, te

CHAINS, ROUNDS, LINE_FLOATS = 12, 100_000, 16
CORE_LEVELS = ("L1d", "L2")
"""Levels that every core has for itself; the others are shared."""

MEMORY = "memory"
MEMORY_BYTES = 128 << 20
READ_BYTES = 64 << 20
"""Bytes that a thread reads in one call of the kernel, over and over from a cache."""

INSTRUCTIONS = {
    "int8": ("avx512_vnni", "vpdpbusd %2, %1, %0", 128),
    "bfloat16": ("avx512_bf16", "vdpbf16ps %2, %1, %0", 64),
}
"""dtype: the processor flag, the instruction on 64 bytes, and its additions and multiplications."""

HEAD = """\
typedef float vec __attribute__((vector_size({width})));

int {name}(const float *restrict data, float *restrict out) {{
    #pragma omp parallel for num_threads({threads}) schedule(static, 1)
    for (int t = 0; t < {threads}; t++) {{
{body}
    }}
    return 0;
}}

void {name}_release(void) {{}}
"""

DOT = """\
        const vec x = (vec){{0}} + data[0], y = (vec){{0}} + data[1];
        vec {declare};
        for (int r = 0; r < {rounds}; r++) {{
            {steps}
        }}
        const vec sum = {total};
        out[t] = sum[0];"""

READ = """\
        const float *first = (const float *)(((unsigned long long)data + 63) & ~63ULL);
        const float *part = first + t * {floats}LL;
        vec {declare}, v;
        for (int r = 0; r < {repeats}; r++)
            for (long long i = 0; i < {floats}LL; i += {step}) {{
                {steps}
            }}
        const vec sum = {total};
        for (int lane = 0; lane < {lanes}; lane++) out[t * {lanes} + lane] = sum[lane];"""

COPY = """\
        const float *from = data + t * {floats}LL;
        float *to = (float *)(((unsigned long long)out + 63) & ~63ULL) + t * {floats}LL;
        for (long long i = 0; i < {floats}LL; i += {lanes}) {{
            vec v;
            __builtin_memcpy(&v, from + i, sizeof v);
            __asm__ volatile("vmovntps %1, %0" : "=m"(*(vec *)(to + i)) : "v"(v));
        }}
        __asm__ volatile("sfence" ::: "memory");"""


@dataclass(frozen=True)
class Limits:
    """Rates of `threads` threads.

    gops   by dtype, billions of additions and multiplications a second; a dtype can be missing
    gbps   by level (L1d, L2, ..., memory), billions of bytes a second
    bytes  by level, how much fits into it; memory is not in it
    """

    threads: int
    gops: Mapping[str, float]
    gbps: Mapping[str, float]
    bytes: Mapping[str, int]

    def __str__(self) -> str:
        rates = [f"{dtype} {rate:.0f} GFLOP/s" for dtype, rate in self.gops.items()]
        rates += [f"{level} {rate:.0f} GB/s" for level, rate in self.gbps.items()]
        return ", ".join(rates) + f" with {self.threads} threads, measured in this run"

    def better(self, other: Limits) -> Limits:
        """The higher of the rates of two measurements: what disturbs only makes them lower."""
        return replace(
            self,
            gops={name: max(rate, other.gops[name]) for name, rate in self.gops.items()},
            gbps={name: max(rate, other.gbps[name]) for name, rate in self.gbps.items()},
        )

    def level(self, moved: int) -> str:
        """The nearest level that `moved` bytes fit into."""
        return next((name for name, size in self.bytes.items() if moved <= size), MEMORY)

    def seconds(self, flops: int, moved: int, dtype: str = "float32") -> tuple[float, str] | None:
        """The least time, and what bounds it: "arithmetic" or a level.

        None where nothing is known about arithmetic of this dtype.
        """
        if flops and dtype not in self.gops:
            return None
        level = self.level(moved)
        arithmetic = flops / self.gops[dtype] / 1e9 if flops else 0.0
        memory = moved / self.gbps[level] / 1e9
        return max((arithmetic, "arithmetic"), (memory, level))


def measure_limits(threads: int, seconds: float = 1.0) -> Limits:
    """Measure this machine, each rate for `seconds`; raises BuildError without a compiler."""
    machine = this_machine()
    levels = {n: s * (threads if n in CORE_LEVELS else 1) for n, s in machine.caches.items()}
    with machine_lock():
        gops = {"float32": _multiply_add(threads, seconds)}
        gops |= {dtype: _dot(threads, dtype, seconds) for dtype in INSTRUCTIONS if _has(dtype)}
        gbps = {name: _read(threads, size // 2, seconds) for name, size in levels.items()}
        gbps[MEMORY] = max(_read(threads, MEMORY_BYTES, seconds), _copy(threads, seconds))
    return Limits(threads, gops, gbps, levels)


def _has(dtype: str) -> bool:
    return INSTRUCTIONS[dtype][0] in this_machine().isa


def _multiply_add(threads: int, budget: float) -> float:
    """GFLOP/s of float32, in independent chains."""
    steps = [f"a{c} = a{c} * x + y;" for c in range(CHAINS)]
    return _arithmetic("limit_fma", threads, steps, _lanes() * 4, 2 * _lanes(), budget)


def _dot(threads: int, dtype: str, budget: float) -> float:
    _, instruction, work = INSTRUCTIONS[dtype]
    steps = [
        f'__asm__ volatile("{instruction}" : "+v"(a{c}) : "v"(x), "v"(y));' for c in range(CHAINS)
    ]
    return _arithmetic("limit_dot", threads, steps, 64, work, budget)


def _arithmetic(
    name: str, threads: int, steps: list[str], width: int, work: int, budget: float
) -> float:
    body = DOT.format(rounds=ROUNDS, steps=" ".join(steps), **_chains())
    seconds = _seconds(name, threads, body, LINE_FLOATS, threads, width, budget)
    return threads * ROUNDS * CHAINS * work / seconds / 1e9


def _read(threads: int, total: int, budget: float) -> float:
    """GB/s of reading `total` bytes, spread over the threads, again and again."""
    lanes = _lanes()
    step = CHAINS * lanes
    floats = max(total // 4 // threads // step, 1) * step
    repeats = max(READ_BYTES // (4 * floats), 1)
    steps = (
        f"__builtin_memcpy(&v, part + i + {c * lanes}, sizeof v); a{c} += v;" for c in range(CHAINS)
    )
    body = READ.format(
        floats=floats, repeats=repeats, step=step, lanes=lanes, steps=" ".join(steps), **_chains()
    )
    size = floats * threads + LINE_FLOATS
    seconds = _seconds("limit_read", threads, body, size, threads * lanes, lanes * 4, budget)
    return 4 * floats * repeats * threads / seconds / 1e9


def _copy(threads: int, budget: float) -> float:
    """GB/s of reading and writing with stores past the caches; 0 without such an instruction."""
    if "avx" not in this_machine().isa:
        return 0.0
    lanes = _lanes()
    floats = MEMORY_BYTES // 4 // threads // lanes * lanes
    body = COPY.format(floats=floats, lanes=lanes)
    size = floats * threads
    written = size + LINE_FLOATS
    seconds = _seconds("limit_copy", threads, body, size, written, lanes * 4, budget)
    return 8 * size / seconds / 1e9


def _lanes() -> int:
    return (resolve("c").vector_bits or 128) // 32


def _chains() -> dict[str, str]:
    names = [f"a{c}" for c in range(CHAINS)]
    return {
        "declare": ", ".join(f"{name} = {{{c}}}" for c, name in enumerate(names)),
        "total": " + ".join(names),
    }


def _seconds(
    name: str, threads: int, body: str, read: int, written: int, width: int, budget: float
) -> float:
    source = HEAD.format(name=name, threads=threads, body=body, width=width)
    kernel = build_source(_signature(name, read, written), source)
    timing = kernel.time(
        np.ones(read, np.float32), np.zeros(written, np.float32), repeats=200,
        min_ms=min(2.0, budget * 10), limit_s=budget,
    )  # fmt: skip
    return timing.min


def _signature(name: str, read: int, written: int) -> PrimFunc:
    """A program with the arguments of the C text; nothing else of it matters."""
    data = te.placeholder((read,), name="data")
    out = te.compute((written,), lambda i: data[0], name="out")
    return te.create_prim_func([data, out], name=name)
