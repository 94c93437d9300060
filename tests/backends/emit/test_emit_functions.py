"""Functions that have one right value: bit for bit NumPy's, in scalars and in vectors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from emulator import ARM, emulated, needs_emulator

from backends import build_source, resolve
from backends.c.emit.codegen import emit
from tensorir import (
    BinOp,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    Load,
    PrimFunc,
    Ramp,
    Store,
    Var,
    const,
    interpret,
    parse,
    reference,
    seq,
    verify,
)
from tensorir import dtype as dt
from tensorir.arrays import decode, encode
from tensorir.expr import cast, combine
from tensorir.numbers.intrin import MATH, REINTERPRET
from tensorir.stmt import Block, IterKind, IterVar
from tensorir.text.printer import format_func

INF, NAN = float("inf"), float("nan")
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 0.3, -7.25, 1e-40, 1e30, -3e38, INF, -INF, NAN]
TIES = [0.49999997, 0.5, -0.5, 1.5, 2.5, -2.5, 3.4, 8388607.5, 8388609.0, -4503599627370495.5]
COUNT = 256
WIDTHS = {8: [], 16: [], 32: [], 64: []}
for _kind in dt.SCALARS[1:]:
    WIDTHS[dt.bits(_kind)].append(_kind)

KNOWN_WORDS = {
    "uint32": [
        ([0] * 6, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([2**32 - 1] * 6, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
    "uint64": [
        (
            [0] * 6,
            [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B],
        ),
        (
            [2**64 - 1] * 6,
            [0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0],
        ),
        (
            [
                0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89,
                0x452821E638D01377, 0xBE5466CF34E90C6C,
            ],
            [0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6],
        ),
    ],
}  # fmt: skip
"""Of Philox4x32-10 and Philox4x64-10: counter and key, and the four words (Random123)."""

Make = Callable[..., Expr]
Case = tuple[str, str, tuple[np.ndarray, ...], Make, np.ndarray]
"""Name, type of the operands, the operands, the expression of them, and the right values."""


def padded(values, dtype) -> np.ndarray:
    return np.resize(encode(np.asarray(values), dtype), COUNT)


def float_cases() -> Iterator[Case]:
    rng = np.random.default_rng(2)
    for dtype in ("float32", "float64"):
        pairs = np.array(list(itertools.product(FLOATS, FLOATS)), dtype).T
        more = (rng.normal(size=(2, COUNT)) * 10.0 ** rng.integers(-5, 6, (2, COUNT))).astype(dtype)
        operands = tuple(np.resize(np.r_[p, m], 2 * COUNT) for p, m in zip(pairs, more))
        for half in (slice(0, COUNT), slice(COUNT, 2 * COUNT)):
            a, b = (o[half] for o in operands)
            for name, function in (("floordiv", np.floor_divide), ("floormod", np.remainder)):
                wanted = function(a, b)
                yield name, dtype, (a, b), lambda x, y, n=name: Call(n, (x, y), x.dtype), wanted
        a = np.resize(np.array([*FLOATS, *TIES], dtype), COUNT)
        for name in ("round", "rint"):
            wanted = MATH[name].numpy(a)
            yield name, dtype, (a,), lambda x, n=name: Call(n, (x,), x.dtype), wanted


def integer_cases() -> Iterator[Case]:
    for dtype in dt.SIGNED + dt.UNSIGNED:
        low, high = dt.int_limits(dtype)
        values = [v for v in (0, 1, 2, 3, 5, 100, -1, -2, -100, low, high) if low <= v <= high]
        width = dt.bits(dtype)
        amounts = [0, 1, width - 1, width, width + 1, 2 * width, 100, -1, low, high]
        amounts = [v for v in amounts if low <= v <= high]
        powers = [v for v in (0, 1, 2, 3, 7, 31, 64, 101, -1, -2, low, high) if low <= v <= high]
        a, b = (padded(v, dtype) for v in zip(*itertools.product(values, amounts)))
        for op, function in (("<<", np.left_shift), (">>", np.right_shift)):
            yield op, dtype, (a, b), lambda x, y, op=op: BinOp(op, x, y), function(a, b)
        a, b = (padded(v, dtype) for v in zip(*itertools.product(values, powers)))
        wanted = [exact_power(int(x), int(y), dtype) for x, y in zip(a, b)]
        wanted = np.array(wanted, dtype)
        yield "pow", dtype, (a, b), lambda x, y: Call("pow", (x, y), x.dtype), wanted
        wanted = np.array([bin(int(x) % 2**width).count("1") for x in a], dtype)
        yield "popcount", dtype, (a,), lambda x: Call("popcount", (x,), x.dtype), wanted


def exact_power(x: int, y: int, dtype: str) -> int:
    if y < 0:
        return x ** (y % 2) if abs(x) == 1 else 0
    value = pow(x, y, 2 ** dt.bits(dtype))
    return value - 2 ** dt.bits(dtype) if value > dt.int_limits(dtype)[1] else value


def bit_cases() -> Iterator[Case]:
    rng = np.random.default_rng(4)
    for width, kinds in WIDTHS.items():
        for source, goal in itertools.permutations(kinds, 2):
            bits = rng.integers(0, 2 ** min(width, 63), COUNT).astype(f"u{width // 8}")
            finite = [np.isfinite(decode(bits.view(dt.numpy_dtype(d)), d)) for d in (source, goal)]
            bits[~(finite[0] & finite[1])] = 3  # the bits of NaN are nobody's promise
            own, wanted = (bits.view(dt.numpy_dtype(d)) for d in (source, goal))

            def make(x: Expr, goal: str = goal) -> Expr:
                return Call(REINTERPRET, (x,), dt.with_lanes(goal, dt.lanes(x.dtype)))

            yield f"bits_{goal}", source, (own,), make, wanted


def random_cases() -> Iterator[Case]:
    """Counters, keys and numbers of words; the last rows are the known answers of Random123."""
    rng = np.random.default_rng(5)
    for dtype, known in KNOWN_WORDS.items():
        most = dt.int_limits(dtype)[1]
        rows = rng.integers(0, most, (COUNT, 7), dtype, endpoint=True).tolist()
        rows[:4] = [[0] * 6 + [n] for n in range(4)]
        answers = [(given, n, word) for given, words in known for n, word in enumerate(words)]
        rows[-len(answers) :] = [[*given, n] for given, n, _ in answers]
        wanted = [philox_word(row, dt.bits(dtype)) for row in rows]
        assert wanted[-len(answers) :] == [word for _, _, word in answers]
        operands = tuple(np.array(column, dtype) for column in zip(*rows))
        yield (
            "philox", dtype, operands, lambda *x: Call("philox", x, x[0].dtype),
            np.array(wanted, dtype),
        )  # fmt: skip


def philox_word(operands: list[int], bits: int) -> int:
    """Philox as its paper has it, in integers of any size."""
    *counter, k0, k1, word = operands
    multipliers = {
        32: (0xD2511F53, 0xCD9E8D57),
        64: (0xD2E7470EE14C6C93, 0xCA5A826395121157),
    }[bits]
    weyl = {32: (0x9E3779B9, 0xBB67AE85), 64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)}[bits]
    for n in range(10):
        high0, low0 = divmod(counter[0] * multipliers[0], 2**bits)
        high1, low1 = divmod(counter[2] * multipliers[1], 2**bits)
        keys = [(k + n * step) % 2**bits for k, step in zip((k0, k1), weyl)]
        counter = [high1 ^ counter[1] ^ keys[0], low1, high0 ^ counter[3] ^ keys[1], low0]
    return counter[word % 4]


def all_cases() -> list[Case]:
    with np.errstate(all="ignore"):
        return [*float_cases(), *integer_cases(), *bit_cases(), *random_cases()]


CASES = all_cases()


def program(lanes: int) -> tuple[PrimFunc, list[np.ndarray]]:
    """All cases, each a store in one loop."""
    i = Var("i")
    at = i if lanes == 1 else Ramp(i * lanes, const(1), lanes)
    ins, outs, stores, arrays = [], [], [], []
    for n, (_, dtype, operands, make, wanted) in enumerate(CASES):
        own = [Buffer(f"x{n}_{m}", (COUNT,), dtype) for m in range(len(operands))]
        value = make(*(Load(b, (at,)) for b in own))
        outs.append(Buffer(f"out{n}", (COUNT,), dt.element(value.dtype)))
        assert dt.numpy_dtype(outs[-1].dtype) == wanted.dtype
        stores.append(Store(outs[-1], (at,), value))
        ins, arrays = [*ins, *own], [*arrays, *operands]
    body = For(i, const(COUNT // lanes), seq(*stores))
    return PrimFunc("functions", (*ins, *outs), (), body), arrays


def check(results) -> None:
    for (name, dtype, operands, _, wanted), found in zip(CASES, results, strict=True):
        message = f"{name} of {dtype}"
        np.testing.assert_array_equal(found, wanted, err_msg=message)
        if wanted.dtype.kind == "f":
            known = ~np.isnan(wanted)
            same = np.signbit(found) == np.signbit(wanted)
            assert same[known].all(), (message, [o[known & ~same] for o in operands])


@pytest.mark.parametrize(("lanes", "march"), [(1, "native"), (16, "native"), (4, "x86-64")])
def test_kernels(run, lanes, march):
    func, arrays = program(lanes)
    verify(func)
    results = [np.zeros(COUNT, dt.numpy_dtype(p.dtype)) for p in func.params[len(arrays) :]]
    run(func, *arrays, *results, flags=(f"-march={march}",))
    check(results)


@needs_emulator
@pytest.mark.parametrize("lanes", [1, 4])
def test_kernels_for_arm(lanes, tmp_path):
    func, arrays = program(lanes)
    kernel = build_source(func, emit(func, resolve(ARM)), ARM)
    results = [np.zeros(COUNT, dt.numpy_dtype(p.dtype)) for p in func.params[len(arrays) :]]
    with emulated(kernel, tmp_path) as call:
        call(*arrays, *results)
    check(results)


def test_interpreter_and_text():
    func, arrays = program(1)
    text = format_func(func)
    assert format_func(parse(text)) == text
    for (name, dtype, _, _, wanted), found in zip(CASES, interpret(func, *arrays), strict=True):
        if name.startswith("floor") and dtype == "float32":  # computed in float64
            np.testing.assert_allclose(found, wanted, rtol=2.0**-23, err_msg=name)
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=f"{name} of {dtype}")


def test_reference():
    for name, dtype, operands, make, wanted in CASES:
        i, v = Var("i"), Var("v")
        ins = [Buffer(f"x{m}", (COUNT,), dtype) for m in range(len(operands))]
        value = make(*(Load(b, (v,)) for b in ins))
        out = Buffer("out", (COUNT,), value.dtype)
        iters = (IterVar(v, const(COUNT), IterKind.SPATIAL, i),)
        block = Block("out", iters, Store(out, (v,), value))
        func = PrimFunc("one", (*ins, out), (), For(i, const(COUNT), block))
        (found,) = reference(func, *operands)
        exact = decode(wanted, value.dtype)
        if name.startswith("floor") and dtype == "float32":
            np.testing.assert_allclose(encode(found, dtype), exact, rtol=2.0**-23)
        else:
            np.testing.assert_array_equal(found, exact, err_msg=f"{name} of {dtype}")


def test_constant_shifts_fold_to_what_kernels_compute():
    for name, dtype, (a, b), _, wanted in (c for c in CASES if c[0] in ("<<", ">>")):
        for x, y, value in zip(a.tolist(), b.tolist(), wanted.tolist()):
            folded = combine(name, Const(x, dtype), Const(y, dtype))
            assert isinstance(folded, Const) and folded.value == value, (name, dtype, x, y)


FOLDED = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.remainder,
    "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor, "<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("dtype", dt.SIGNED + dt.UNSIGNED)
def test_constants_fold_to_what_kernels_compute(dtype):
    low, high = dt.int_limits(dtype)
    values = [v for v in (0, 1, 2, -1, 7, -7, 100, low, high, high - 1) if low <= v <= high]
    for op, function in FOLDED.items():
        for x, y in itertools.product(values, values):
            folded = combine(op, Const(x, dtype), Const(y, dtype))
            if op in ("//", "%") and y == 0:
                assert not isinstance(folded, Const)  # the interpreter reports it
                continue
            with np.errstate(over="ignore"):
                wanted = function(np.array(x, dtype), np.array(y, dtype))
            assert isinstance(folded, Const) and folded.value == wanted, (op, x, y)


def test_casts_of_constants_fold_to_what_kernels_compute():
    numbers = [0.0, -0.0, 1.5, -2.75, 0.1, 127.0, 2047.0, 2049.0, 65504.0, 65520.0, 3e38, INF, NAN]
    for source, goal in itertools.product(dt.SCALARS, dt.SCALARS):
        low, high = (-INF, INF) if dt.is_float(source) else dt.int_limits(source)
        given = [v for v in numbers if low <= v <= high or v != v and dt.is_float(source)]
        given = given if dt.is_float(source) else [int(v) for v in given]
        for value in given:
            held = Const(value, source)
            folded = cast(goal, held)
            if not isinstance(folded, Const):
                continue
            with np.errstate(all="ignore"):
                exact = decode(encode([held.value], source), source)
                wanted = exact != 0 if goal == "bool" else decode(encode(exact, goal), goal)
            np.testing.assert_array_equal([folded.value], wanted, err_msg=f"{held!r} to {goal}")
            if dt.is_float(goal):
                assert np.signbit(folded.value) == np.signbit(wanted[0])
