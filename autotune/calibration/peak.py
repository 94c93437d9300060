"""What this machine can do at best: arithmetic and memory rates, measured once and remembered.

Both rates are the best of many short blocks, since everything that disturbs a block makes it
slower. A kernel above its peak means that the machine was busy while it was calibrated: calibrate
again (`tensorir doctor --calibrate`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from autotune.database.records import utc_now
from autotune.machine.machine import this_machine
from autotune.machine.measured_file import MeasuredFile, entry_key
from autotune.measure import machine_lock
from backends import CompiledKernel, build_source, resolve
from tensorir import PrimFunc, Target, TensorIRError, te

FILE = MeasuredFile("peaks.json")
C_TYPES = {"float32": ("float", 4), "float64": ("double", 8)}
"""Types that processors multiply and add, with their C names and bytes."""

CHAINS = 12
"""Independent operations in flight: at least latency times units, at most the registers."""

ROUNDS = 200_000
BLOCKS, BLOCK_MS, LIMIT_SECONDS = 250, 2.0, 1.5
"""Short blocks, so that some are undisturbed even where other programs run."""

READ_BYTES = (64 << 20, 256 << 20)
"""Least and most memory that is read; between them, four times the largest cache."""

FLOPS_SOURCE = """\
/* {threads} threads, each with {chains} independent chains of multiply-adds. */
typedef {ctype} vec __attribute__((vector_size({width})));

int peak_flops(const {ctype} *restrict factors, {ctype} *restrict out) {{
    #pragma omp parallel for num_threads({threads}) schedule(static)
    for (int t = 0; t < {threads}; t++) {{
        const vec x = (vec){{0}} + factors[0], y = (vec){{0}} + factors[1];
        vec {declare};
        for (int r = 0; r < {rounds}; r++) {{
{steps}
        }}
        const vec sum = {total};
        for (int lane = 0; lane < {lanes}; lane++) out[t * {lanes} + lane] = sum[lane];
    }}
    return 0;
}}

void peak_flops_release(void) {{}}
"""

READ_SOURCE = """\
/* {threads} threads, each of which adds up its part of the array. */
typedef {ctype} vec __attribute__((vector_size({width})));

int peak_read(const {ctype} *restrict data, {ctype} *restrict out) {{
    #pragma omp parallel for num_threads({threads}) schedule(static)
    for (int t = 0; t < {threads}; t++) {{
        const {ctype} *part = data + t * {rounds}LL;
        vec {declare}, v;
        for (long long i = 0; i < {rounds}LL; i += {step}) {{
{steps}
        }}
        const vec sum = {total};
        for (int lane = 0; lane < {lanes}; lane++) out[t * {lanes} + lane] = sum[lane];
    }}
    return 0;
}}

void peak_read_release(void) {{}}
"""


def peak_gflops(
    threads: int | None = None,
    dtype: str = "float32",
    *,
    target: Target | str = "c",
    calibrate: bool = False,
) -> float:
    """Billions of multiplications and additions per second of `threads` threads (None: all).

    Measured where it is not known yet for this machine, compiler and target, or if `calibrate`.
    Raises BuildError without a compiler, TensorIRError for a dtype that C does not compute in.
    """
    if dtype not in C_TYPES:
        raise TensorIRError(f"no peak for dtype {dtype!r}; there is one for {', '.join(C_TYPES)}")
    resolved, count = _place(target, threads)
    return _remembered(
        ("gflops", dtype, str(count)), resolved, calibrate, lambda: _flops(count, dtype, resolved)
    )


def memory_gbps(
    threads: int | None = None, *, target: Target | str = "c", calibrate: bool = False
) -> float:
    """Billions of bytes per second that `threads` threads (None: all) read from main memory.

    The array lies where one thread put it, so that machines with memory on several sockets can do
    better. Remembered, and raising, as peak_gflops.
    """
    resolved, count = _place(target, threads)
    return _remembered(("gbps", str(count)), resolved, calibrate, lambda: _gbps(count, resolved))


def known_peaks() -> list[tuple[str, float]]:
    """What was measured on this machine so far, such as ("gflops float32 2", 233.1)."""
    here = [e for e in FILE.entries().values() if e.get("machine") == this_machine().key]
    return sorted((" ".join(entry["what"]), float(entry["rate"])) for entry in here)


def _place(target: Target | str, threads: int | None) -> tuple[Target, int]:
    resolved = resolve(target)
    if resolved.kind != "c":
        raise TensorIRError(f"no peak for target kind {resolved.kind!r}; there is one for 'c'")
    count = this_machine().cores if threads is None else threads
    count = count if threads or resolved.threads is None else resolved.threads
    if count < 1:
        raise TensorIRError(f"threads must be at least 1, not {threads}")
    return resolved, count


def _flops(threads: int, dtype: str, target: Target) -> float:
    lanes = _lanes(target, dtype)
    steps = [f"a{c} = a{c} * x + y;" for c in range(CHAINS)]
    source = _source(FLOPS_SOURCE, threads, dtype, lanes, steps, ROUNDS)
    kernel = build_source(_signature("peak_flops", 2, threads * lanes, dtype), source, target)
    seconds = _best_seconds(kernel, np.array([0.999, 1e-3], dtype))
    return 2e-9 * threads * ROUNDS * CHAINS * lanes / seconds


def _gbps(threads: int, target: Target) -> float:
    lanes = _lanes(target, "float32")
    least, most = READ_BYTES
    wanted = min(max(4 * max(this_machine().caches.values(), default=0), least), most)
    step = CHAINS * lanes
    part = wanted // 4 // threads // step * step
    steps = [
        f"__builtin_memcpy(&v, part + i + {c * lanes}, sizeof v); a{c} += v;" for c in range(CHAINS)
    ]
    source = _source(READ_SOURCE, threads, "float32", lanes, steps, part)
    function = _signature("peak_read", part * threads, threads * lanes, "float32")
    seconds = _best_seconds(
        build_source(function, source, target), np.ones(part * threads, "float32")
    )
    return 4e-9 * part * threads / seconds


def _lanes(target: Target, dtype: str) -> int:
    return (target.vector_bits or 128) // 8 // C_TYPES[dtype][1]


def _source(
    template: str, threads: int, dtype: str, lanes: int, steps: list[str], rounds: int
) -> str:
    ctype, size = C_TYPES[dtype]
    names = [f"a{c}" for c in range(CHAINS)]
    return template.format(
        threads=threads, chains=CHAINS, ctype=ctype, width=lanes * size, lanes=lanes,
        declare=", ".join(f"{name} = {{{c}}}" for c, name in enumerate(names)),
        steps="\n".join(f"            {step}" for step in steps),
        total=" + ".join(names), rounds=rounds, step=CHAINS * lanes,
    )  # fmt: skip


def _signature(name: str, read: int, written: int, dtype: str) -> PrimFunc:
    """A program with the arguments of the C text; nothing else of it matters."""
    source = te.placeholder((read,), dtype, name="data")
    out = te.compute((written,), lambda i: source[0], name="out")
    return te.create_prim_func([source, out], name=name)


def _best_seconds(kernel: CompiledKernel, data: np.ndarray) -> float:
    with machine_lock():
        timing = kernel.time(data, repeats=BLOCKS, min_ms=BLOCK_MS, limit_s=LIMIT_SECONDS)
    return min(timing.times)


def _remembered(
    what: tuple[str, ...], target: Target, calibrate: bool, measure: Callable[[], float]
) -> float:
    """The stored rate of `what`, or what `measure` finds, which is stored."""
    key = entry_key(what, target)
    known = None if calibrate else FILE.entries().get(key)
    if isinstance(known, Mapping) and isinstance(known.get("rate"), float):
        return known["rate"]
    rate = measure()
    entry = {"what": list(what), "rate": rate, "machine": this_machine().key, "time": utc_now()}
    FILE.put(key, entry)
    return rate
