"""Bounds of sums hold for any order and any numbers, and tell a wrong sum from a right one."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tensorir import interpret, ops, parse, reference, te
from tensorir.reference import reference_with_tolerance

COUNT = 19968
TYPES = {"float32": COUNT, "float64": COUNT, "float16": 700}
"""How many terms; those of float16 are added in float32, and the sum is rounded."""


def shrinking(n):
    return 1.0 / np.arange(1, n + 1)


TERMS = {
    "shrinking": shrinking,
    "shrinking slowly": lambda n: 0.9995 ** np.arange(n),
    "one huge, then small": lambda n: np.r_[3e3, np.full(n - 1, 2e-4)],
    "small, one huge, small": lambda n: np.r_[np.full(n // 2, 1e-3), 3e3, np.full(n // 2, 1e-3)],
    "alternating": lambda n: shrinking(n) * (-1.0) ** np.arange(n),
    "cancelling": lambda n: np.r_[2e3, np.full(n - 2, 0.1), -2e3],
    "uniform": lambda n: np.random.default_rng(n).random(n),
    "normal": lambda n: np.random.default_rng(n).normal(size=n),
    "sparse": lambda n: np.where(np.arange(n) % 997 == 5, 0.7, 0.0),
    "whole numbers": lambda n: np.arange(n) % 7 - 2.0,
    "not finite": lambda n: np.r_[np.ones(n - 1), np.inf],
}


def running(x):
    return np.add.accumulate(x, dtype=x.dtype)[-1]


def pairwise(x):
    while len(x) > 1:
        x = np.append(x, np.zeros(len(x) % 2, x.dtype))
        x = x[::2] + x[1::2]
    return x[0]


def lanes(x, width=16):
    rows = np.append(x, np.zeros(-len(x) % width, x.dtype)).reshape(-1, width)
    return running(np.add.accumulate(rows, axis=0, dtype=x.dtype)[-1])


ORDERS = {
    "sequential": running,
    "reversed": lambda x: running(x[::-1]),
    "pairwise": pairwise,
    "lanes": lanes,
    "small ones first": lambda x: running(x[np.argsort(np.abs(x))]),
    "large ones first": lambda x: running(x[np.argsort(-np.abs(x))]),
    "huge one in the middle": lambda x: running(np.roll(x, len(x) // 2)),
}


def row_sum(n, dtype):
    a = te.placeholder((1, n), dtype, name="A")
    k = te.reduce_axis(n, name="k")
    return te.create_prim_func([a, te.compute((1,), lambda i: te.sum(a[i, k], axis=k), name="S")])


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("dtype", TYPES)
def test_no_order_leaves_the_bound(dtype, terms):
    x = TERMS[terms](TYPES[dtype]).astype(dtype)
    (value,), (bound,) = reference_with_tolerance(row_sum(len(x), dtype), x[None])
    for order, add in ORDERS.items():
        with np.errstate(over="ignore", invalid="ignore"):
            found = float(add(x.astype("float32") if dtype == "float16" else x).astype(dtype))
        if np.isfinite(value[0]):
            assert abs(found - value[0]) <= bound[0], order
        else:
            assert found == value[0]
    if terms == "whole numbers":
        assert bound[0] == 0


def test_a_long_logsumexp_of_shrinking_terms():
    """Each addition rounds to the same side: the error is not that of a random walk."""
    x = np.r_[0.0, np.linspace(-16.7, -17.5, COUNT - 1)].astype(np.float32)
    a = te.placeholder((1, COUNT), name="A")
    func = te.create_prim_func([a, ops.logsumexp(a, axis=1)])
    (value,), (bound,) = reference_with_tolerance(func, x[None])
    errors = {}
    for order, add in ORDERS.items():
        errors[order] = abs(float(np.log(add(np.exp(x)))) - float(value.ravel()[0]))
        assert errors[order] <= bound.ravel()[0], order
    assert errors["sequential"] > 6 * COUNT**0.5 * 2.0**-24


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e15])
def test_products_in_any_order(scale):
    rng = np.random.default_rng(0)
    a = (rng.normal(size=(3, 500)) * scale).astype(np.float32)
    b = rng.normal(size=(500, 2)).astype(np.float32)
    x, y = te.placeholder((3, 500), name="A"), te.placeholder((500, 2), name="B")
    (value,), (bound,) = reference_with_tolerance(
        te.create_prim_func([x, y, ops.matmul(x, y)]), a, b
    )
    for i in range(3):
        for j in range(2):
            for add in ORDERS.values():
                assert abs(float(add(a[i] * b[:, j])) - value[i, j]) <= bound[i, j]


def test_sums_of_multiples_are_exact_as_long_as_there_is_room():
    few, many = (np.full((1, n), 0.625, np.float32) for n in (1 << 16, 1 << 24))
    assert reference_with_tolerance(row_sum(1 << 16, "float32"), few)[1][0][0] == 0
    assert reference_with_tolerance(row_sum(1 << 24, "float32"), many)[1][0][0] > 0
    odd = few.copy()
    odd[0, 40000] = 0.1
    assert reference_with_tolerance(row_sum(1 << 16, "float32"), odd)[1][0][0] > 0


def test_sums_in_parts_have_the_bounds_of_the_whole(monkeypatch):
    func = row_sum(1000, "float32")
    wholes = (np.arange(1000) % 5 / 8).astype(np.float32)[None]
    others = np.random.default_rng(0).random((1, 1000), np.float32)
    expected = [reference_with_tolerance(func, x) for x in (wholes, others)]
    monkeypatch.setattr(sys.modules["tensorir.reference.run"], "GRID_LIMIT", 64)
    (exact,), (none,) = reference_with_tolerance(func, wholes)
    assert none[0] == 0 and exact == expected[0][0][0]
    (_,), (bound,) = reference_with_tolerance(func, others)
    assert bound[0] >= 0.9 * expected[1][1][0][0]
    assert (
        max(abs(float(add(others[0])) - expected[1][0][0][0]) for add in ORDERS.values()) <= bound
    )


def test_what_a_sum_is_added_to_counts():
    func = parse(
        "@prim_func\ndef f(A: f32[1, 100], C: f32[1]):\n    for i, k in grid(1, 100):\n"
        '        with block("C"):\n            vi = spatial(1, i)\n'
        "            vk = reduce(100, k)\n"
        "            C[vi] = C[vi] + A[vi, vk]\n"
    )
    a, c = np.full((1, 100), 1e-4, np.float32), np.full(1, 3e3, np.float32)
    (value,), (bound,) = reference_with_tolerance(func, a, c)
    found = running(np.append(c, a[0]))
    assert 0 < abs(float(found) - value[0]) <= bound[0]


@pytest.mark.parametrize("n", [7, 64, 1000, 65536])
def test_wrong_sums_are_told_from_right_ones(n):
    """On inputs as the tuner draws them: no missing term, tail or wrong element is let through."""
    rng = np.random.default_rng(n)
    x = (rng.integers(-8, 9, (4, n)) / 8).astype(np.float32)
    x[:, [0, -1]] = 0.125
    func = te.create_prim_func([a := te.placeholder((4, n), name="A"), ops.sum(a, axis=1)])
    (value,), (bound,) = reference_with_tolerance(func, x)
    for wrong in (x[:, 1:], x[:, :-1], np.c_[x, x[:, -1:]], x[:, : n - n % 16 - 1]):
        assert (abs(wrong.sum(axis=1, dtype=float) - value.ravel()) > bound.ravel()).any()


@pytest.mark.parametrize("n", [7, 64, 1000])
def test_wrong_softmax_is_told_from_right(n):
    rng = np.random.default_rng(n)
    x = rng.uniform(-1, 1, (4, n)).astype(np.float32)
    func = te.create_prim_func([a := te.placeholder((4, n), name="A"), ops.softmax(a, axis=1)])
    (value,), (bound,) = reference_with_tolerance(func, x)
    e = np.exp(x.astype(float))
    for part in (e[:, 1:], e[:, :-1], e[:, : n - n % 16 - 1]):
        assert (abs(e / part.sum(axis=1, keepdims=True) - value) > bound).any()
    np.testing.assert_allclose(value, reference(func, x)[0])


COMBINED = {
    "sums": (lambda x, y: x + y, 0.0),
    "sums, the new term first": (lambda x, y: y + x, 0.0),
    "products": (lambda x, y: x * y, 1.0),
    "largest": (te.maximum, -1e30),
    "smallest": (te.minimum, 1e30),
}


def of_rows(chosen, n, where):
    """A reduction of rows that has one result for each of the chosen; sums are of squares too."""
    a, k = te.placeholder((2, n), "float32", "a"), te.reduce_axis((0, n), "k")
    combine, starts = zip(*(COMBINED[name] for name in chosen))
    parts = te.comm_reducer(
        lambda *xy: tuple(f(x, y) for f, x, y in zip(combine, *xy)),
        lambda *dtypes: tuple(te.const(s, t) for s, t in zip(starts, dtypes)),
    )

    def row(i):
        terms = tuple(a[i, k] + j for j in range(len(chosen)))
        return parts(terms, axis=k, where=a[i, k] < 0.9 if where else None)

    made = te.compute((2,), row, name="out")
    return te.create_prim_func([a, *made])


@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize("chosen", [("sums", "largest"), tuple(COMBINED), ("sums",) * 3])
def test_results_that_are_found_together_are_found_like_each_alone(chosen, where, monkeypatch):
    """With the same bounds, and not term by term: ten thousands of these took minutes."""
    run, steps = sys.modules["tensorir.reference.run"].Runner, []
    execute = run.execute
    monkeypatch.setattr(run, "execute", lambda *a: steps.append(a) or execute(*a))
    x = np.random.default_rng(0).random((2, 300), np.float32)
    together = reference_with_tolerance(of_rows(chosen, 300, where), x)
    assert len(steps) < 20
    for at, name in enumerate(chosen):
        other = ("sums",) * at + (name, "smallest")  # of its terms, beside another one
        alone = reference_with_tolerance(of_rows(other, 300, where), x)
        assert np.array_equal(together[0][at], alone[0][at])
        assert np.array_equal(together[1][at], alone[1][at])
    plain = te.create_prim_func([a := te.placeholder((2, 300), "float32", "a"), ops.sum(a, 1)])
    if chosen[0] == "sums" and not where:
        (value,), (bound,) = reference_with_tolerance(plain, x)
        assert np.array_equal(together[0][0], value) and np.array_equal(together[1][0], bound)


RUNNING = {
    "what another one holds so far": "S[vi] = S[vi] + A[vi, vk]\n T[vi] = T[vi] + S[vi]",
    "itself again": "S[vi] = S[vi] + A[vi, vk]\n T[vi] = T[vi] + T[vi] * A[vi, vk]",
    "itself, twice": "S[vi] = S[vi] + A[vi, vk]\n S[vi] = S[vi] * A[vi, vk]\n T[vi] = T[vi] + 1.0",
}


@pytest.mark.parametrize("body", RUNNING.values(), ids=RUNNING)
def test_a_reduction_that_asks_for_what_is_there_so_far_is_run_in_order(body):
    indent = "            "
    func = parse(
        "@prim_func\ndef f(A: f32[1, 5], S: f32[1], T: f32[1]):\n    for i, k in grid(1, 5):\n"
        '        with block("C"):\n            vi = spatial(1, i)\n'
        f"            vk = reduce(5, k)\n{indent}" + body.replace("\n ", f"\n{indent}") + "\n"
    )
    a = np.arange(1, 6, dtype=np.float32)[None] / 4
    held = np.full(1, 2, np.float32), np.full(1, 3, np.float32)
    assert np.allclose(reference(func, a, *held), interpret(func, a, *held), rtol=1e-5)


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_what_is_rounded_may_be_as_much_larger_as_it_is_off(kind):
    """A sum that rounds up to 1 has another floor; what is computed of that is rounded as it is,
    not as the smaller exact value would be."""
    unit = {"float16": 2.0**-11, "float32": 2.0**-24}[kind]
    a, b, c = (te.placeholder((1,), kind, name=name) for name in "abc")
    total = te.compute((1,), lambda i: a[i] + b[i], name="total")
    floor = te.compute((1,), lambda i: te.floor(total[i]), name="floor")
    out = te.compute((1,), lambda i: floor[i] + c[i], name="out")
    func = te.create_prim_func([a, b, c, out])
    a, b = (np.array([x], kind) for x in (1 - unit, unit / 2))
    for part in np.linspace(0.1, 0.3, 41):
        c = np.array([part]).astype(a.dtype)
        (value,), (bound,) = reference_with_tolerance(func, a, b, c)
        (found,) = interpret(func, a, b, c)
        assert float(found[0]) > 1
        assert abs(float(found[0]) - float(value[0])) <= bound[0] < 1.1
