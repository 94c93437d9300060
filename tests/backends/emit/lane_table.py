"""Elementwise kernels of all operations and types, and how many instructions gcc makes of them.

What falls apart into single lanes takes ten to a hundred times the instructions, so a bound on the
instructions for one register of elements finds it without a clock.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from backends import ObjectCache, resolve
from backends.c.emit.codegen import CEmitter
from schedule import Schedule
from tensorir import Buffer, Expr, PrimFunc, lower, te
from tensorir import dtype as dt
from tensorir.arrays import decode, encode
from tests.backends.by_gcc import made_by_gcc

FLAGS = (
    "-std=gnu11 -fwrapv -fno-math-errno -fno-trapping-math -fPIC -Wno-psabi -Wall -Werror "
    "-fno-ipa-icf"
).split()

VECTORS = 4
"""Registers of the widest type in one iteration, as in default schedules."""

LONGEST = 512
"""Bits of the longest registers."""

TURNS = 40
"""Iterations of the loop whose instructions are counted: too many for gcc to write out."""


@dataclass(frozen=True)
class Case:
    """An operation on the elements of arrays of some types."""

    name: str
    function: Callable[..., Expr]
    types: tuple[str, ...]
    natural: bool = False
    """Whether the elements are small numbers of at least 0, which all types hold."""
    bits: int = 0
    """Of the lanes that it takes, where these are wider than the elements."""

    @lru_cache(maxsize=512)  # noqa: B019
    def definition(self, name: str) -> PrimFunc:
        """The program for `TURNS` times `VECTORS` of the longest registers, of half of them twice
        the turns."""
        n = TURNS * VECTORS * self.lanes(LONGEST)
        inputs = [te.placeholder((n,), d, name=f"p{k}") for k, d in enumerate(self.types)]
        out = te.compute((n,), lambda i: self.function(*(p[i] for p in inputs)), name="out")
        return te.create_prim_func([*inputs, out], name=name)

    def lanes(self, bits: int) -> int:
        """Elements in a register of `bits` bits."""
        inner = self.function(*(te.placeholder((1,), d)[0] for d in self.types))
        return bits // max(self.bits, *map(_computed_bits, (*self.types, inner.dtype)))


def _computed_bits(dtype: str) -> int:
    """Bits of an element in a register: storage types are computed with as float32."""
    return 32 if dtype in dt.STORAGE_ONLY else dt.bits(dtype)


def text_of(
    cases: Sequence[Case], march: str, vectors: bool = True, lanes: int | None = None
) -> str:
    """One C text with a kernel k0, k1, ... for each case, by vectors of so many lanes if given."""
    target = resolve(f"c -march={march} -threads=1")
    emitter, kernels = None, []
    for number, case in enumerate(cases):
        sch = Schedule(case.definition(f"k{number}"))
        (loop,) = sch.get_loops("out")
        if vectors:
            assert target.vector_bits is not None
            factor = lanes or VECTORS * case.lanes(target.vector_bits)
            sch.vectorize(sch.split(loop, [None, factor])[1])
        following = CEmitter(lower(sch.func, target), target)
        if emitter is not None:
            following.follow(emitter)
        emitter = following
        kernels += [emitter.kernel(), *emitter.functions]
    assert emitter is not None
    return "\n\n".join([emitter.prelude(), *kernels])


def assembled(
    text: str, march: str, store: ObjectCache, level: str = "-O2", flags: Sequence[str] = ()
) -> tuple[str, Path]:
    """The assembly that gcc makes of a text, and the object of it."""
    made = made_by_gcc(store, text, *FLAGS, *flags, level, f"-march={march}", "-S").read_text()
    return made, made_by_gcc(store, made, "-shared", language="assembler")


def instructions(assembly: str, vectors: int = VECTORS) -> dict[str, float]:
    """By kernel, the instructions in its loop for one register of elements, of so many in a turn.

    Infinity for a kernel whose loop has loops in it or calls: those are loops over the lanes.
    """
    found: dict[str, float] = {}
    for part in re.split(r"^(?=k\d+:)", assembly, flags=re.M)[1:]:
        name, lines = part.partition(":")[0], part.partition("\t.size")[0].splitlines()
        labels = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
        jumps = [(labels.get(line.split()[-1], at), at) for at, line in enumerate(lines)]
        loops = [(to, at) for to, at in jumps if to < at and lines[at].startswith("\tj")]
        body = [line for line in lines if line.startswith("\t") and line[1] != "."]
        calls = any(line.startswith("\tcall") for line in body)
        if len(loops) != 1 or calls:
            found[name] = float("inf")
            continue
        start, end = loops[0]
        inside = [s for s in lines[start:end] if s.startswith("\t") and s[1] != "."]
        found[name] = len(inside) / vectors
    return found


def run(library: Path, cases: Sequence[Case]) -> list[np.ndarray]:
    """What each kernel computes of elements with all that is special about their types."""
    kernels = ctypes.CDLL(str(library))
    results = []
    for number, case in enumerate(cases):
        func = case.definition(f"k{number}")
        rng = np.random.default_rng(number)
        inputs = [_array(rng, p.dtype, _length(p), case.natural) for p in func.inputs]
        (out,) = func.outputs
        result = np.zeros(_length(out), dt.numpy_dtype(out.dtype))
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*inputs, result)]
        assert kernels[f"k{number}"](*pointers) == 0
        results.append(decode(result, out.dtype) if dt.is_float(out.dtype) else result)
    return results


def _length(buffer: Buffer) -> int:
    assert buffer.const_shape is not None
    return buffer.const_shape[0]


def _array(rng: np.random.Generator, dtype: str, n: int, natural: bool) -> np.ndarray:
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dt.is_int(dtype):
        low, high = dt.int_limits(dtype)
        some = np.array([low, high, 0, 1, high - 1], dtype)
        small = rng.integers(0 if natural or not low else -9, 10, n).astype(dtype)
    else:
        some = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0])
        small = np.round(rng.standard_normal(n) * 4, 1)
        small = abs(small) if natural else small
    mixed = small if natural else np.where(rng.random(n) < 0.7, small, rng.choice(some, n))
    return encode(mixed, dtype) if dt.is_float(dtype) else mixed.astype(dtype)
