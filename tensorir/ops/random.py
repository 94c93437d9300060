"""Random numbers by counter: uniform, normal, integers, dropout.

The number of an element depends on the seed, the stream and the flat index of the element plus
`offset`, and on nothing else (`te.random`): it is the same in any schedule, with any number of
threads. `seed` is a tensor of one uint64, or a number. Give each use in a program a `stream` of its
own, a number below 2**64, as two with the same seed and stream use the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Union

from tensorir import dtype as dt
from tensorir import te
from tensorir.expr import Expr, const, int_value
from tensorir.ops import random_reference
from tensorir.ops.arguments import check_choice, check_float, check_tensor, require, wide
from tensorir.ops.rearrange import flat_index
from tensorir.ops.registry import Example, operator, values
from tensorir.te.tensor import Tensor, make_shape

Seed = Union[Tensor, int]
SEEDS = values(0x123456789)


@operator(
    reference=random_reference.uniform,
    examples=[
        Example([(1,)], {"shape": (5, 67)}, "uint64", SEEDS),
        Example([()], {"shape": (33,), "dtype": "float64", "stream": 3}, "uint64", SEEDS),
        Example([(1,)], {"shape": (7,), "offset": 2**32 - 3}, "uint64", SEEDS),
        Example([], {"seed": 7, "shape": (2, 3, 4)}),
    ],
)
def random_uniform(
    seed: Seed,
    shape: Sequence[Any],
    dtype: str = "float32",
    stream: int = 0,
    offset: int = 0,
    name: str = "random_uniform",
) -> Tensor:
    """Numbers in [0, 1): multiples of 2**-24 for float32, of 2**-53 for float64; exact."""
    op = "random_uniform"
    check_choice(op, "dtype", dtype, ("float32", "float64"))
    return _filled(
        op, seed, shape, stream, offset, name, lambda s, i: te.random.uniform(s, i, dtype, stream)
    )


@operator(
    reference=random_reference.normal,
    examples=[
        Example([(1,)], {"shape": (5, 67)}, "uint64", SEEDS),
        Example([(1,)], {"shape": (33,), "dtype": "float64"}, "uint64", SEEDS),
        Example([], {"seed": 7, "shape": (3, 4), "stream": 2**40, "offset": 100}),
    ],
)
def random_normal(
    seed: Seed,
    shape: Sequence[Any],
    dtype: str = "float32",
    stream: int = 0,
    offset: int = 0,
    name: str = "random_normal",
) -> Tensor:
    """Numbers of the standard normal distribution, float32 or float64, by Box and Muller.

    They are off by rounding, below 4e-6 or 1e-14, and by nothing else; schedules do not change it.
    """
    op = "random_normal"
    check_choice(op, "dtype", dtype, ("float32", "float64"))
    return _filled(
        op, seed, shape, stream, offset, name, lambda s, i: te.random.normal(s, i, dtype, stream)
    )


@operator(
    reference=random_reference.integers,
    examples=[
        Example([(1,)], {"shape": (5, 67), "low": -10, "high": 1000}, "uint64", SEEDS),
        Example([(1,)], {"shape": (9,), "low": 0, "high": 6, "dtype": "int8"}, "uint64", SEEDS),
        Example([], {"seed": 7, "shape": (3, 4), "low": -(2**31), "high": 2**31, "dtype": "int32"}),
    ],
)
def random_integers(
    seed: Seed,
    shape: Sequence[Any],
    low: int,
    high: int,
    dtype: str = "int64",
    stream: int = 0,
    offset: int = 0,
    name: str = "random_integers",
) -> Tensor:
    """Integers from `low` up to, not including, `high`, at most 2**32 of them; exact.

    Their probabilities differ by less than 2**-64.
    """
    op = "random_integers"
    require(dt.is_int(dt.check_dtype(dtype)), op, f"dtype={dtype!r} is no type of integers")
    first, last = dt.int_limits(dtype)
    low, high = int(low), int(high)  # differences of NumPy's integers run over
    require(0 < high - low <= 2**32, op, f"there are 1 to 2**32 integers, not {high - low}")
    require(first <= low and high - 1 <= last, op, f"{low} to {high - 1} do not fit into {dtype}")

    def element(s: Any, i: Expr) -> Expr:
        return te.cast(te.random.integers(s, i, high - low, stream) + low, dtype)

    return _filled(op, seed, shape, stream, offset, name, element)


@operator(
    reference=random_reference.dropout,
    examples=[
        Example([(5, 67), (1,)], {"p": 0.25}, ("float32", "uint64"), (None, SEEDS)),
        Example([(3, 4, 5), ()], {"stream": 5}, ("float64", "uint64"), (None, SEEDS)),
        Example([("n", 7), (1,)], {"p": 0.5}, ("float16", "uint64"), (None, SEEDS), {"n": 6}),
        Example([(11,), (1,)], {"p": 1.0}, ("float32", "uint64"), (None, SEEDS)),
        Example([(0, 3), (1,)], {"p": 0.0}, ("bfloat16", "uint64"), (None, SEEDS)),
    ],
)
def dropout(
    x: Tensor, seed: Seed, p: float = 0.5, stream: int = 0, offset: int = 0, name: str = "dropout"
) -> Tensor:
    """0 with probability p, else x / (1 - p): dropped is where random_uniform, of float32 and the
    same seed, stream and offset, is below p.

    So the probability is p rounded up to 24 bits, and the same call on a gradient drops the same
    elements.
    """
    check_float("dropout", "x", check_tensor("dropout", "x", x))
    good = isinstance(p, (int, float)) and not isinstance(p, bool) and 0 <= p <= 1
    require(good, "dropout", f"p={p!r} is no probability, a number from 0 to 1")
    least = math.ceil(p * 2**24) * 2.0**-24
    scale = 0.0 if least == 1 else 1 / (1 - p)

    def element(s: Any, place: Expr, *i: Expr) -> Expr:
        e = wide(x[i])
        kept = te.random.uniform(s, place, stream=stream) >= const(least, "float32")
        scaled = e * const(scale, e.dtype)
        return te.cast(te.if_then_else(kept, scaled, const(0.0, e.dtype)), x.dtype)

    return _made("dropout", seed, x.shape, stream, offset, name, element)


def _filled(
    op: str,
    seed: Seed,
    shape: Sequence[Any],
    stream: int,
    offset: int,
    name: str,
    element: Callable[[Any, Expr], Expr],
) -> Tensor:
    """`element(seed, place)` everywhere."""
    sizes = make_shape(shape, name)
    return _made(op, seed, sizes, stream, offset, name, lambda s, place, *i: element(s, place))


def _made(
    op: str,
    seed: Seed,
    sizes: Sequence[Expr],
    stream: int,
    offset: int,
    name: str,
    element: Callable[..., Expr],
) -> Tensor:
    """`element(seed, place, *indices)` everywhere."""
    number = _seed(op, seed)
    for what, value, most in (("stream", stream, 2**64), ("offset", offset, 2**62)):
        good = _is_int(value) and 0 <= value < most
        require(
            good, op, f"{what}={value!r} is no integer from 0 to 2**{most.bit_length() - 1} - 1"
        )
    known = [int_value(size) for size in sizes]
    small = None not in known and offset + math.prod(n or 0 for n in known) <= 2**32

    def at(*i: Expr) -> Expr:
        place = flat_index(i, sizes) + offset
        return element(number, te.cast(place, "uint32") if small else place, *i)

    return te.compute(sizes, at, name)  # type: ignore[no-any-return]


def _seed(op: str, seed: Seed) -> Any:
    """The number or the element that a seed is."""
    if _is_int(seed):
        return seed
    t = check_tensor(op, "seed", seed)
    one = t.ndim <= 1 and all(int_value(size) == 1 for size in t.shape)
    require(
        one and t.dtype == "uint64",
        op,
        f"seed {t!r} must be one uint64, of shape () or (1,)",
    )
    return t[(0,) * t.ndim]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
