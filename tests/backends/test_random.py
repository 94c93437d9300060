"""Random numbers by counter: the same in the interpreter, on every target, in every schedule."""

from __future__ import annotations

import math

import numpy as np
import pytest

from backends import build
from schedule import Schedule
from tensorir import Call, interpret, ops, te, verify
from tensorir.errors import TensorIRError

SEED = 0xFEDCBA9876543210
COUNT = 331
EXACT = {
    "bits": lambda s, i: te.random.random_bits(s, i, "uint64"),
    "single": te.random.uniform,
    "double": lambda s, i: te.random.uniform(s, i, "float64"),
    "whole": lambda s, i: te.random.integers(s, i, 1000003),
    "far": lambda s, i: te.random.random_bits(s, i + 2**40 + 7, stream=2**33 + 5),
    "numpy": lambda s, i: te.random.numpy_uniform(s, i),
    "numpy_single": lambda s, i: te.random.numpy_uniform(s, i, "float32"),
}
NORMAL = {
    "normal": te.random.normal,
    "normal_double": lambda s, i: te.random.normal(s, i, "float64"),
}
LARGE = 1 << 16


def program(functions=None, count=COUNT):
    S = te.placeholder((1,), "uint64", name="S")
    functions = functions or {**EXACT, **NORMAL}
    outs = [
        te.compute((count,), lambda i, f=f: f(S[0], i), name=name) for name, f in functions.items()
    ]
    return te.create_prim_func([S, *outs])


def in_order(func):
    return Schedule(func)


def in_vectors(func):
    sch = Schedule(func)
    for name in blocks_of(func):
        outer, inner = sch.split(sch.get_loops(name)[0], [None, 8])
        sch.vectorize(inner)
        sch.parallel(outer)
    return sch


def unevenly(func):
    sch = Schedule(func)
    for name in blocks_of(func):
        outer, middle, inner = sch.split(sch.get_loops(name)[0], [None, 7, 5])
        sch.reorder(middle, outer, inner)
        sch.unroll(inner)
        sch.parallel(middle)
    return sch


def blocks_of(func):
    return [out.name for out in func.outputs]


def seeded(kernel, seed=SEED):
    return dict(zip([*EXACT, *NORMAL], kernel(np.array([seed], "uint64"))))


@pytest.fixture(scope="module")
def interpreted():
    func = program()
    verify(func)
    return dict(zip([*EXACT, *NORMAL], interpret(func, np.array([SEED], "uint64"))))


def word(counter, key, number):
    """Philox4x32-10 in Python's integers."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = q >> 32 ^ b ^ k, q % 2**32, p >> 32 ^ d ^ m, p % 2**32
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return (a, b, c, d)[number]


def test_numbers_are_those_of_the_counter(interpreted):
    key = (SEED % 2**32, SEED >> 32)
    pairs = [[word((i, 0, 0, 0), key, n) for n in (0, 1)] for i in range(COUNT)]
    bits = [low | high << 32 for low, high in pairs]
    assert interpreted["bits"].tolist() == bits
    assert interpreted["single"].tolist() == [(low >> 8) / 2**24 for low, _ in pairs]
    assert interpreted["double"].tolist() == [(b >> 11) / 2**53 for b in bits]
    assert interpreted["whole"].tolist() == [b * 1000003 >> 64 for b in bits]
    far = [word(((i + 7), 2**8, 5, 2), key, 0) for i in range(COUNT)]
    assert interpreted["far"].tolist() == far


def test_numbers_are_those_of_numpy(interpreted):
    for name, dtype in (("numpy", "float64"), ("numpy_single", "float32")):
        numbers = np.random.Generator(np.random.Philox(key=SEED)).random(COUNT, dtype=dtype)
        np.testing.assert_array_equal(interpreted[name], numbers)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["c", "c -march=haswell", "c -march=x86-64"])
def test_schedules_and_targets_have_the_same_bits(target, interpreted, cache):
    plain = seeded(build(program(), target, cache=cache))
    kernels = [build(in_vectors(program()), target, cache=cache)]
    if target == "c":
        kernels += [build(unevenly(program()), f"c -threads={n}", cache=cache) for n in (3,)]
    for kernel in kernels:
        results = seeded(kernel)
        for name in EXACT:
            np.testing.assert_array_equal(results[name], interpreted[name], err_msg=name)
        for name in NORMAL:
            np.testing.assert_array_equal(results[name], plain[name], err_msg=name)
    for name, error in (("normal", 4e-6), ("normal_double", 1e-14)):
        np.testing.assert_allclose(plain[name], interpreted[name], rtol=0, atol=error)


def test_numbers_are_random(cache):
    functions = {
        "u": te.random.uniform,
        "d": lambda s, i: te.random.uniform(s, i, "float64"),
        "z": te.random.normal,
        "other": lambda s, i: te.random.normal(s, i, stream=1),
        "wide": lambda s, i: te.random.normal(s, i, "float64"),
        "die": lambda s, i: te.random.integers(s, i, 6),
    }
    kernel = build(in_vectors(program(functions, LARGE)), cache=cache)
    (u, d, z, other, wide, die), (next_u, *_) = (
        [r.astype(float) for r in kernel(np.array([seed], "uint64"))] for seed in (3, 4)
    )
    noise = 5 / math.sqrt(LARGE)  # five standard deviations of a mean of unit variance
    wanted = [(u, 0.5, 12**-0.5), (d, 0.5, 12**-0.5), (z, 0, 1), (wide, 0, 1)]
    for numbers, mean, deviation in [*wanted, (die, 2.5, (35 / 12) ** 0.5)]:
        scaled = (numbers - mean) / deviation
        assert abs(scaled.mean()) < noise
        assert abs(scaled.var() - 1) < 1.5 * noise
        for distance in (1, 2, 16):
            assert abs((scaled[distance:] * scaled[:-distance]).mean()) < noise
    assert abs((z**3).mean()) < 4 * noise and abs((z**4).mean() - 3) < 10 * noise
    assert u.min() >= 0 and u.max() < 1 and die.min() == 0 and die.max() == 5
    assert np.abs(z).max() > 4
    for a, b in ((u, next_u), (z, other), (z, wide)):
        assert abs(np.corrcoef(a, b)[0, 1]) < noise


def test_what_seeds_and_places_may_be():
    n, s = te.placeholder((), "int32", name="n"), te.placeholder((2,), "uint8", name="s")
    B = te.compute((2,), lambda i: te.random.random_bits(s[i], n[()]), name="B")
    C = te.compute((2,), lambda i: te.random.random_bits(-1, 9), name="C")
    results = interpret(te.create_prim_func([n, s, B, C]), np.int32(9), np.array([0, 255], "uint8"))
    assert results[0].tolist() == [word((9, 0, 0, 0), (k, 0), 0) for k in (0, 255)]
    assert results[1].tolist() == [word((9, 0, 0, 0), (2**32 - 1,) * 2, 0)] * 2


REFUSED = {
    "bits": (lambda i: te.philox((0,) * 4, (0, 0), bits=16), "32 or 64 bits, not bits=16"),
    "counter": (lambda i: te.philox((0, 0), (0, 0)), "takes 4 words as its counter"),
    "key": (lambda i: te.philox((0,) * 4, 7), "takes 2 words as its key"),
    "float": (lambda i: te.philox((0.5, 0, 0, 0), (0, 0)), "takes integers"),
    "half": (lambda i: te.random.uniform(0, i, "float16"), r"use \.astype\('float16'\)"),
    "normal": (lambda i: te.random.normal(0, i, "int32"), "float32 or float64, not int32"),
    "narrow": (lambda i: te.random.random_bits(0, i, "uint8"), "uint32 or uint64, not uint8"),
    "seed": (lambda i: te.random.uniform(1.5, i), "takes integers"),
    "count": (lambda i: te.random.integers(0, i, 0), r"from 1 to 2\*\*32, not 0"),
    "many": (lambda i: te.random.integers(0, i, 2**32 + 1), r"from 1 to 2\*\*32"),
    "none": (lambda i: te.random.integers(0, i, np.int64(0)), r"from 1 to 2\*\*32, not 0"),
    "minus": (lambda i: te.random.integers(0, i, -5), r"from 1 to 2\*\*32, not -5"),
    "type": (lambda i: te.random.normal(0, i, "half"), "unknown dtype 'half'"),
    "width": (lambda i: te.random.random_bits(0, i, "u32"), "unknown dtype 'u32'"),
    "truth": (lambda i: te.random.uniform(True, i), "takes integers, and True is bool"),
    "numpy": (lambda i: te.random.numpy_uniform(0, i, "float16"), "float32 or float64"),
    "raw": (lambda i: te.call("philox", *[te.const(1, "int32")] * 7), r"use \.astype\('uint32'\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_made_is_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(TensorIRError, match=message):
        te.compute((3,), make, name="B")


def test_programs_are_checked():
    word = te.const(1, "int32")
    func = te.create_prim_func(
        [te.compute((3,), lambda i: Call("philox", (word,) * 7, "int32"), name="B")]
    )
    with pytest.raises(TensorIRError, match="convert it to uint32 or uint64"):
        verify(func)


def dropped(x, seed, **attrs):
    X, S = te.placeholder(x.shape, name="X"), te.placeholder((), "uint64", name="S")
    return te.create_prim_func([X, S, ops.dropout(X, S, name="Y", **attrs)])


@pytest.mark.parametrize("schedule", [in_order, in_vectors, unevenly])
def test_operators_have_the_same_bits(schedule, cache):
    x = np.random.default_rng(1).normal(size=(19, 53)).astype("float32")
    seed, func = np.uint64(SEED), dropped(x, SEED, p=0.3, stream=2, offset=11)
    (want,) = interpret(func, x, seed)
    kernel = build(schedule(func), cache=cache)
    np.testing.assert_array_equal(kernel(x, seed), want)
    u = ops.random_uniform(SEED, x.shape, stream=2, offset=11, name="U")
    kernel = build(schedule(te.create_prim_func([u])), cache=cache)
    np.testing.assert_array_equal(kernel() < np.float32(0.3), want == 0)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_dropout_keeps_the_mean(p, cache):
    x = np.full((256, 257), 3, "float32")
    y = build(dropped(x, SEED, p=p), cache=cache)(x, np.uint64(5))
    noise = 5 / math.sqrt(x.size)
    assert abs((y == 0).mean() - p) <= noise * math.sqrt(p * (1 - p))
    assert set(np.unique(y)) <= {np.float32(0), np.float32(3) * np.float32(1 / (1 - min(p, 0.99)))}
    if p < 1:
        assert abs(y.mean() / 3 - 1) <= noise * math.sqrt(p / (1 - p)) + 1e-6


def test_a_part_of_a_larger_array_has_its_own_numbers():
    whole = ops.random_uniform(SEED, (6, 8), name="W")
    part = ops.random_uniform(SEED, (2, 8), offset=32, name="P")
    results = interpret(te.create_prim_func([whole, part]))
    np.testing.assert_array_equal(results[0][4:], results[1])


def test_symbolic_shapes_have_the_numbers_of_their_sizes():
    X, S = te.placeholder((te.var("n"), te.var("m")), name="X"), te.placeholder((1,), "uint64")
    x, seed = np.ones((5, 7), "float32"), np.array([SEED], "uint64")
    func = te.create_prim_func([X, S, ops.dropout(X, S)])
    np.testing.assert_array_equal(
        interpret(func, x, seed)[0], interpret(dropped(x, SEED), x, seed[0])[0]
    )
