"""Random schedules on the emulator of GPUs, many compiled together, their threads watched.

    python tests/fuzz/emulated.py --seed 0 --count 5000

An even seed is a schedule for GPUs (gpu_traces.py); an odd one is a schedule for processors, whose
loops lowering gives to threads (checks.py). Each has to compute what its definition does, by
threads that meet in no race, stay in bounds, and read nothing that was not written. `--gpu` takes
the even seeds alone.

A schedule for GPUs takes about 0.1 s of a processor: two fifths the compiler's, a third for drawing
and its proofs, a sixth for lowering, a twentieth for the run.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import checks  # noqa: E402
import gpu_checks  # noqa: E402
import gpu_traces  # noqa: E402

from backends import BuildError, CompiledKernel, ObjectCache  # noqa: E402
from backends.build import backend_of  # noqa: E402
from backends.call.signature import Signature  # noqa: E402
from backends.cuda.emulated import Emulated  # noqa: E402
from backends.cuda.emulator import Emulator  # noqa: E402
from backends.cuda.text import cuda_text  # noqa: E402
from backends.gpu.limits import OneThread  # noqa: E402
from tensorir import CHECKS, PrimFunc, Scalar, Target, TensorIRError, lower, reference  # noqa: E402

TOGETHER = 40
"""Programs in one text: it takes the compiler as long as two or three texts of one each."""

PLAIN = Target("cuda-emulator", arch="sm_80")
WATCHED = dataclasses.replace(PLAIN, check=tuple(c for c in CHECKS if c != "counts"))


@dataclass
class Program:
    """A schedule of a seed, what it is run on and what it has to make of that."""

    seed: int
    func: PrimFunc
    inputs: Sequence[Any]
    expected: Sequence[Any]


def program(seed: int) -> Program:
    """The schedule of a seed, with the arrays and numbers that a call has to give, in order."""
    if seed % 2:
        case = checks.make_case(seed)
        checks.apply_requests(case)
        func, work = case.sch.func, case.work
        func = dataclasses.replace(func, name=f"seed_{seed}_")
        inputs = checks.inputs_of(work, seed)
        return Program(seed, func, in_order(func, inputs, work.sizes), work.expected(inputs))
    trace = gpu_traces.Trace(seed)
    func = dataclasses.replace(trace.sch.func, name=f"seed_{seed}_")
    sizes = {v.name: gpu_checks.ROWS for v in func.size_vars}
    inputs, numbers = gpu_checks.inputs_of(func, sizes, seed), gpu_checks.numbers_of(func)
    expected = reference(trace.sch.definition, *inputs, sizes=numbers)
    return Program(seed, func, in_order(func, inputs, numbers), expected)


def in_order(func: PrimFunc, inputs: Sequence[Any], numbers: Mapping[str, Any]) -> list[Any]:
    """The arguments that a call has to give."""
    arrays, outputs = iter(inputs), func.outputs
    return [
        numbers[a.name] if isinstance(a, Scalar) else next(arrays)
        for a in func.arguments
        if a not in outputs
    ]


def findings(
    seeds: Iterable[int],
    target: Target = WATCHED,
    refused: Counter[str] | None = None,
    cache: ObjectCache | None = None,
) -> Iterator[tuple[int, str | None]]:
    """For each seed that gives a program, what is wrong with it; None where nothing is.

    What no GPU can have, as shared memory of a size that only a call tells, lowering refuses, and
    `refused` counts the reasons. What is compiled is looked for in `cache`, if there is one.
    """
    batch: list[tuple[Program, PrimFunc]] = []
    for seed in seeds:
        try:
            drawn = program(seed)
            lowered = _lowered(drawn, target, refused)
        except Exception as error:
            yield seed, f"{type(error).__name__}: {error}"
            continue
        if lowered is None:
            continue
        batch.append((drawn, lowered))
        if len(batch) == TOGETHER:
            yield from _run(batch, target, cache)
            batch = []
    if batch:
        yield from _run(batch, target, cache)


def _lowered(drawn: Program, target: Target, refused: Counter[str] | None) -> PrimFunc | None:
    try:
        return lower(drawn.func, target)
    except TensorIRError as error:
        if refused is not None:
            refused[re.sub(r"'.*?'|\d+", "...", str(error))] += 1
        return None


def _run(
    batch: Sequence[tuple[Program, PrimFunc]], target: Target, cache: ObjectCache | None = None
) -> Iterator[tuple[int, str | None]]:
    lowered = [ir for _, ir in batch]
    try:
        emulator = Emulator(cuda_text(lowered[-1], target, *lowered[:-1]).source, cache=cache)
        emulator.compile(checked=bool(target.check))
    except BuildError as error:
        for each in batch if len(batch) > 1 else ():
            yield from _run([each], target, cache)
        if len(batch) == 1:
            yield batch[0][0].seed, str(error)
        return
    backend = backend_of(target.kind)
    for drawn, ir in batch:
        signature = Signature.of(drawn.func, ir.size_vars)
        made = Emulated(ir, signature, target, emulator)
        kernel = CompiledKernel(
            drawn.func, ir, emulator.source, target, signature, backend, made, backend.load(made)
        )
        yield drawn.seed, _wrong(kernel, drawn)


def _wrong(kernel: CompiledKernel, drawn: Program) -> str | None:
    try:
        found = kernel(*drawn.inputs)
    except TensorIRError as error:
        return str(error)
    results = found if isinstance(found, tuple) else (found,)
    for result, wanted in zip(results, drawn.expected, strict=True):
        if not np.allclose(result, wanted, 1e-4, 1e-4, equal_nan=True):
            return f"{kernel.name} computes other values than its definition"
    return None


def main(words: list[str] | None = None) -> int:
    """Print progress and findings; 1 if there is any."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, help="how many seeds (default: as time allows)")
    parser.add_argument("--seconds", type=float, default=180, help="when to stop; 0: never")
    parser.add_argument("--gpu", action="store_true", help="schedules for GPUs alone")
    parser.add_argument("--unwatched", action="store_true", help="values only, at full speed")
    args = parser.parse_args(words)
    warnings.simplefilter("ignore", OneThread)
    start, shown, done = time.monotonic(), time.monotonic(), Counter[bool]()
    refused, seed = Counter[str](), args.seed
    seeds: Iterable[int] = itertools.count(args.seed)
    if args.gpu:
        seeds = itertools.count(args.seed + args.seed % 2, 2)
    if args.count is not None:
        seeds = itertools.islice(seeds, args.count)
    for seed, wrong in findings(seeds, PLAIN if args.unwatched else WATCHED, refused):
        done[wrong is not None] += 1
        if wrong is not None:
            print(f"\nFINDING seed {seed}: {wrong}", flush=True)
        if time.monotonic() - shown > 15:
            shown = time.monotonic()
            print(f"  {done.total()} programs, {done[True]} findings; seed {seed}", flush=True)
        if args.seconds and time.monotonic() - start > args.seconds:
            break
    for reason, count in refused.most_common():
        print(f"lowering refused {count}: {reason}")
    taken = time.monotonic() - start
    print(
        f"{done.total()} programs on the emulator in {taken:.0f} s, {refused.total()} refused by "
        f"lowering, {done[True]} findings; the last seed is {seed}"
    )
    return 1 if done[True] else 0


if __name__ == "__main__":
    raise SystemExit(main())
