"""Random numbers by counter: each is an expression of a seed and a place, and of nothing else.

So a value depends neither on the schedule nor on threads nor on the target, and needs no state.
The words come from Philox (tensorir.numbers.philox). Philox4x32-10 makes most numbers here: it has
the published known answers of Random123, is what cuRAND and others have, and takes the fewest
instructions. Philox4x64-10 is what `np.random.Philox` has, and NumPy has no other; numpy_bits and
numpy_uniform are for the numbers of NumPy itself.

A place is an integer from 0 on, the flat index of an element as a rule. Numbers of one seed, place
and stream are made of the same bits: give each use in a program a stream of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorir import dtype as dt
from tensorir.annotations import checked
from tensorir.errors import TensorIRError
from tensorir.expr import Call, Const, Expr, ExprLike, cast, const, convert
from tensorir.te.promotion import call


@checked
def philox(
    counter: Sequence[ExprLike], key: Sequence[ExprLike], word: ExprLike = 0, bits: int = 32
) -> Expr:
    """Word number `word`, modulo 4, of what Philox4x32-10 makes of a counter and a key.

    `counter` has four words and `key` two, the lowest first; integers of any type are converted,
    and wrap. The result is uint32, or uint64 and of Philox4x64-10 for bits=64. Raises
    TensorIRError for another number of words or bits, and for what is no integer.
    """
    if bits not in (32, 64):
        raise TensorIRError(f"philox has words of 32 or 64 bits, not bits={bits!r}")
    for what, words, count in (("counter", counter, 4), ("key", key, 2)):
        if not isinstance(words, (tuple, list)) or len(words) != count:
            raise TensorIRError(f"philox takes {count} words as its {what}, not {words!r}")
    kind = f"uint{bits}"
    operands = (*counter, *key, word)
    return Call("philox", tuple(_word("philox", e, kind) for e in operands), kind)


@checked
def random_bits(
    seed: ExprLike, place: ExprLike, dtype: str = "uint32", stream: ExprLike = 0
) -> Expr:
    """Random bits as uint32 or uint64, each as likely as any other.

    They are the first word, or the first two with the low one first, of Philox4x32-10 with the
    counter (place, stream) and the key `seed`, each a number of 64 bits, the low word first.
    """
    counter = (*_halves(place), *_halves(stream))
    low = philox(counter, _halves(seed))
    if dtype == "uint32":
        return low
    if dtype == "uint64":
        high = philox(counter, _halves(seed), 1)
        return cast(dtype, high) << 32 | cast(dtype, low)
    dt.check_dtype(dtype)
    raise TensorIRError(f"random bits are uint32 or uint64, not {dtype}; use .astype({dtype!r})")


@checked
def uniform(seed: ExprLike, place: ExprLike, dtype: str = "float32", stream: ExprLike = 0) -> Expr:
    """A number in [0, 1): a multiple of 2**-24 for float32, of 2**-53 for float64.

    Made of the upper bits of random_bits, and exact: the same number everywhere. Raises
    TensorIRError for other types: convert the result.
    """
    if dtype == "float32":
        return cast(dtype, random_bits(seed, place, "uint32", stream) >> 8) * 2.0**-24
    if dtype == "float64":
        return cast(dtype, random_bits(seed, place, "uint64", stream) >> 11) * 2.0**-53
    raise _no_float("uniform", dtype)


@checked
def normal(seed: ExprLike, place: ExprLike, dtype: str = "float32", stream: ExprLike = 0) -> Expr:
    """A number of the standard normal distribution, by the transform of Box and Muller:
    sqrt(-2 log(u)) cos(2 pi v) of uniform u in (0, 1] and v in [0, 1).

    u is of 31 bits and v of 24, which two words of the place give; no result is farther from 0 than
    6.7. For float64 they are of 53 bits and of four words, and it is 8.6. u and v are the same
    everywhere; log and cos are off by what docs/accuracy.md says, in the same way in all schedules
    of one target. Raises TensorIRError for other types.
    """
    counter, key = (*_halves(place), *_halves(stream)), _halves(seed)
    words = [philox(counter, key, n) for n in range(4)]
    if dtype == "float32":
        u = cast(dtype, words[0] | 1) * 2.0**-32
        v = cast(dtype, words[1] >> 8) * 2.0**-24
    elif dtype == "float64":
        wide = [cast("uint64", w) for w in words]
        u = cast(dtype, ((wide[1] << 32 | wide[0]) >> 11) + 1) * 2.0**-53
        v = cast(dtype, (wide[3] << 32 | wide[2]) >> 11) * 2.0**-53
    else:
        raise _no_float("normal", dtype)
    return call("sqrt", call("log", u) * -2.0) * call("cos", v * const(2 * math.pi, dtype))


@checked
def integers(seed: ExprLike, place: ExprLike, count: ExprLike, stream: ExprLike = 0) -> Expr:
    """An integer from 0 up to, not including, `count`, as int64; 0 where `count` is 0.

    `count` is at most 2**32, and may be an expression, which is taken modulo 2**64 and must not be
    above that. The upper half of a product of 64 random bits with it: the probabilities of two
    integers differ by less than 2**-64.
    """
    n = _word("integers", count, "uint64")
    if isinstance(n, Const) and not 0 < n.value <= 1 << 32:
        raise TensorIRError(f"integers needs a count from 1 to 2**32, not {count}")
    bits = random_bits(seed, place, "uint64", stream)
    return cast("int64", ((bits >> 32) * n + ((bits & 0xFFFFFFFF) * n >> 32)) >> 32)


@checked
def numpy_bits(seed: ExprLike, place: ExprLike) -> Expr:
    """Number `place` of `np.random.Philox(key=seed).random_raw()`, uint64."""
    number = _word("numpy_bits", place, "uint64")
    key = (_word("numpy_bits", seed, "uint64"), 0)
    return philox(((number >> 2) + 1, 0, 0, 0), key, number, bits=64)


@checked
def numpy_uniform(seed: ExprLike, place: ExprLike, dtype: str = "float64") -> Expr:
    """Number `place` of `np.random.Generator(np.random.Philox(key=seed)).random(dtype=dtype)`,
    bit for bit; float32 or float64."""
    if dtype == "float64":
        return cast(dtype, numpy_bits(seed, place) >> 11) * 2.0**-53
    if dtype == "float32":  # two of each word, the low half first
        number = _word("numpy_uniform", place, "uint64")
        half = cast("uint32", numpy_bits(seed, number >> 1) >> ((number & 1) << 5))
        return cast(dtype, half >> 8) * 2.0**-24
    raise _no_float("numpy_uniform", dtype)


def _no_float(what: str, dtype: str) -> TensorIRError:
    dt.check_dtype(dtype)
    return TensorIRError(f"{what} makes float32 or float64, not {dtype}; use .astype({dtype!r})")


def _word(what: str, value: ExprLike, kind: str) -> Expr:
    if isinstance(value, int) and not isinstance(value, bool):
        return Const(value % (dt.int_limits(kind)[1] + 1), kind)
    word = convert(value)
    if not dt.is_int(word.dtype):
        raise TensorIRError(f"{what} takes integers, and {word!r} is {word.dtype}; convert it")
    return cast(kind, word)


def _halves(value: ExprLike) -> tuple[Expr, Expr]:
    """The low and the high 32 bits of a number of 64."""
    if isinstance(value, Expr) and value.dtype in ("uint8", "uint16", "uint32"):
        return cast("uint32", value), Const(0, "uint32")
    word = _word("a random number", value, "uint64")
    if isinstance(word, Const):
        number = int(word.value)
        return Const(number & 0xFFFFFFFF, "uint32"), Const(number >> 32, "uint32")
    return cast("uint32", word), cast("uint32", word >> 32)
