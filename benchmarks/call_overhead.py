"""What a call of a built kernel costs beyond the kernel, in nanoseconds.

    python benchmarks/call_overhead.py [--rounds N] [--calls N]

The kernels are small and run on one thread, so that most of a call is the way to it: taking the
arrays, checking types, shapes, order and overlap. Columns:

kernel    the compiled function, called in a loop of compiled code
bare      the same function, exported and called through ctypes with addresses made ahead: what
          Python takes for a call that checks nothing
into      kernel(a, b, c), into an array of the caller
new       kernel(a, b), which makes the result
over      into - kernel: the cost of a call, with its checks
numpy     the ufunc or the product that does the same, into an array made ahead

Times are processor times of the thread, medians over rounds in which all take turns; the cost of an
empty loop is taken off.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from backends import CompiledKernel, build, compiler_info  # noqa: E402
from tensorir import PrimFunc, te  # noqa: E402

TARGET = "c -threads=1"
COLUMNS = ("kernel", "bare", "into", "new", "over", "numpy")
PerCall = Callable[[int], float]
"""From a number of calls to the seconds that they took."""


@dataclass(frozen=True)
class Case:
    """A kernel without constants and, where there are some, with them; what NumPy does."""

    name: str
    func: PrimFunc
    shapes: Sequence[tuple[int, ...]]
    constants: Sequence[str]
    library: Callable[..., object]


def chain(shape: tuple[int, ...], inputs: int) -> PrimFunc:
    """The sum of `inputs` arrays."""
    given = [te.placeholder(shape, name=f"x{n}") for n in range(inputs)]

    def element(*at: object) -> object:
        total = given[0][at]
        for each in given[1:]:
            total = total + each[at]
        return total

    return te.create_prim_func([*given, te.compute(shape, element, name="y")], name="chain")


def product() -> PrimFunc:
    """A 16 x 16 matrix times a vector."""
    w, x = te.placeholder((16, 16), name="W"), te.placeholder((16,), name="x")
    k = te.reduce_axis(16, name="k")
    y = te.compute((16,), lambda i: te.sum(w[i, k] * x[k], axis=k), name="y")
    return te.create_prim_func([w, x, y], name="product")


CASES = (
    Case("copy of 16", chain((16,), 1), [(16,)] * 2, (), lambda a, out: np.copyto(out, a)),
    Case("sum of 2, 16", chain((16,), 2), [(16,)] * 3, (), np.add),
    Case("sum of 2, 2x2x2x2", chain((2, 2, 2, 2), 2), [(2, 2, 2, 2)] * 3, (), np.add),
    Case("sum of 7, 16", chain((16,), 7), [(16,)] * 8, (), lambda *a: sum(a[:-1])),
    Case("16x16 by 16", product(), [(16, 16), (16,), (16,)], (), np.dot),
    Case("the same, constant", product(), [(16, 16), (16,), (16,)], ("W",), np.dot),
)


def bare_function(kernel: CompiledKernel, folder: Path) -> Callable[..., int]:
    """The exported C function, compiled as the kernel was, through ctypes."""
    source, _ = kernel.export(folder)
    known = compiler_info(TARGET)
    flags = [f for f in known["flags"] if f != "-fopenmp"]
    library = folder / "bare.so"
    command = [*known["command"], *flags, "-shared", "-o", str(library), str(source), "-lm"]
    subprocess.run(command, check=True)
    function = getattr(ctypes.CDLL(str(library)), source.stem)
    function.argtypes = [ctypes.c_void_p] * len(kernel.signature.params)
    return function


def repeated(call: Callable[..., object] | None, args: Sequence[object]) -> PerCall:
    """Calls in a loop of Python; without a function, the loop alone."""
    names = [f"a{n}" for n in range(len(args))]
    statement = f"call({', '.join(names)})" if call is not None else "pass"
    scope = {"call": call, **dict(zip(names, args))}
    return timeit.Timer(statement, timer=time.thread_time, globals=scope).timeit


def inside(kernel: CompiledKernel, args: Sequence[np.ndarray]) -> PerCall:
    """Calls in a loop of compiled code."""
    run = kernel.timer(*args)

    def seconds(calls: int) -> float:
        start = time.thread_time()
        run(calls)
        return time.thread_time() - start

    return seconds


def forms(case: Case, folder: Path) -> dict[str, PerCall]:
    """Everything that is timed for a case. All results are compared first."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in case.shapes]
    held = dict(zip((p.name for p in case.func.params), arrays))
    held = {name: held[name] for name in case.constants}
    kernel = build(case.func, TARGET, constants=held)
    args = [a for p, a in zip(case.func.params, arrays) if p.name not in held]
    wanted = kernel(*args[:-1]).copy()
    kernel(*args)
    np.testing.assert_array_equal(args[-1], wanted)
    found = {
        "loop": repeated(None, ()),
        "kernel": inside(kernel, args),
        "into": repeated(kernel, args),
        "new": repeated(kernel, args[:-1]),
        "numpy": repeated(case.library, arrays),
    }
    if not held:  # with constants the C function takes the memory of what was prepared
        function = bare_function(kernel, folder)
        args[-1][...] = 0
        function(*(a.ctypes.data for a in args))
        np.testing.assert_array_equal(args[-1], wanted)
        found["bare"] = repeated(function, [a.ctypes.data for a in args])
    return found


def measure(timed: dict[str, PerCall], rounds: int, calls: int) -> dict[str, float]:
    """Nanoseconds of a call by form."""
    blocks: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, seconds in timed.items():
            blocks[name].append(seconds(calls) / calls * 1e9)
    found = {name: statistics.median(times) for name, times in blocks.items()}
    for name in found.keys() - {"loop", "kernel"}:
        found[name] -= found["loop"]
    return {**found, "over": found["into"] - found["kernel"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=20_000)
    options = parser.parse_args()
    print(f"{'ns':<20}{''.join(f'{name:>8}' for name in COLUMNS)}")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(forms(case, Path(folder)), options.rounds, options.calls)
        cells = (f"{found[name]:8.0f}" if name in found else f"{'-':>8}" for name in COLUMNS)
        print(f"{case.name:<20}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
