"""Random schedules in two parts: what constants allow ahead and the rest do what the whole does."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends import build
from tensorir import Buffer, PrimFunc, interpret, specialize, split_constants, verify

sys.path.insert(0, str(Path(__file__).parent))
from checks import apply_requests, inputs_of, make_case  # noqa: E402
from loop_requests import on_cpu  # noqa: E402

SEEDS = range(5_000, 5_030)


def drawn_constants(func: PrimFunc, seed: int) -> tuple[str, ...]:
    """Some of the inputs, one at least where there is one."""
    names = [p.name for p in func.inputs]
    rng = random.Random(seed)
    return tuple(rng.sample(names, rng.randint(1, len(names)))) if names else ()


def unwritten(buffer: Buffer) -> Any:
    """An array for what is computed ahead: elements that nothing reads may be left as they are."""
    return np.full(buffer.const_shape, 77, "uint16" if buffer.dtype == "bfloat16" else buffer.dtype)


def in_two_parts(func: PrimFunc, names: Sequence[str], given: dict[str, Any]) -> list[Any]:
    """The outputs, from one interpreter run of each part."""
    parts = split_constants(func, names)
    verify(parts.main)
    known = dict(given)
    if parts.prepare is not None:
        verify(parts.prepare)
        arrays = [known.get(p.name, unwritten(p)) for p in parts.prepare.params]
        made = interpret(parts.prepare, *arrays)
        known.update(zip([p.name for p in parts.prepare.outputs], made, strict=True))
    return list(interpret(parts.main, *[known[p.name] for p in parts.main.inputs]))


def scheduled(seed: int) -> tuple[PrimFunc, dict[str, Any], tuple[str, ...]]:
    """A random schedule without symbolic sizes, its inputs, and the constants among them."""
    case = make_case(seed)
    apply_requests(case)
    inputs = inputs_of(case.work, seed)
    given = dict(zip([p.name for p in case.work.func.inputs], inputs, strict=True))
    return (
        specialize(on_cpu(case.sch.func), case.work.sizes),
        given,
        drawn_constants(case.sch.func, seed),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_parts_do_what_the_whole_does(seed):
    func, given, names = scheduled(seed)
    whole = interpret(func, *[given[p.name] for p in func.inputs])
    for a, b in zip(in_two_parts(func, names, given), whole, strict=True):
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_kernels_with_constants_do_too(seed):
    func, given, names = scheduled(seed)
    rest = [given[p.name] for p in func.inputs if p.name not in names]
    whole = build(func, "c -threads=2")(*[given[p.name] for p in func.inputs])
    parts = build(func, "c -threads=2", constants={n: given[n] for n in names})(*rest)
    whole, parts = (r if isinstance(r, tuple) else (r,) for r in (whole, parts))
    for a, b in zip(parts, whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
