"""Sums of integers of which some lanes add nothing: values, and how many instructions they take."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from backends import build, source_text
from schedule import Schedule
from tensorir import Expr, PrimFunc, te

ADDED = {
    "choice": lambda cond, value, kind: te.if_then_else(cond, te.const(1, kind), te.const(0, kind)),
    "conversion": lambda cond, value, kind: cond.astype(kind),
    "value": lambda cond, value, kind: te.if_then_else(cond, value, te.const(0, kind)),
    "otherwise": lambda cond, value, kind: te.if_then_else(cond, te.const(0, kind), value),
}


def counts(kind: str, compared: str, *forms: str) -> PrimFunc:
    a, b = (te.placeholder((9, 67), compared, name=name) for name in "ab")
    v = te.placeholder((9, 67), kind, name="v")

    def made(form: str) -> te.Tensor:
        k = te.reduce_axis(9, name="k")
        return te.compute(
            (67,), lambda i: te.sum(ADDED[form](a[k, i] < b[k, i], v[k, i], kind), axis=k),
            name=form,
        )  # fmt: skip

    return te.create_prim_func([a, b, v, *map(made, forms)], name="counts")


def in_lanes(func: PrimFunc, lanes: int) -> Schedule:
    sch = Schedule(func)
    for form in sch.get_blocks():
        copy = sch.cache_write(form, 0, "local")
        outer, inner = sch.split(sch.get_loops(copy)[0], [None, lanes])
        sch.compute_at(form, outer)
        sch.vectorize(inner)
        _, i, k = sch.get_loops(form)
        sch.reorder(k, i)
        sch.vectorize(i)
    return sch


@pytest.mark.parametrize("compared", ["uint8", "int16", "float16", "float32", "float64", "int64"])
@pytest.mark.parametrize(("kind", "lanes"), [("int8", 16), ("uint16", 8), ("int32", 16),
                                             ("uint32", 2), ("int64", 8)])  # fmt: skip
def test_counts_are_those(kind: str, lanes: int, compared: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 4, (9, 67)).astype(compared) for _ in "ab")
    v = rng.integers(0, 100, (9, 67)).astype(kind)
    less = a < b
    wanted = {"choice": less, "conversion": less, "value": less * v, "otherwise": ~less * v}
    got = [np.empty(67, kind) for _ in ADDED]
    build(in_lanes(counts(kind, compared, *ADDED), lanes), "c")(a, b, v, *got)
    for made, form in zip(got, ADDED):
        np.testing.assert_array_equal(made, wanted[form].sum(axis=0, dtype=kind), err_msg=form)


@pytest.mark.parametrize("form", ["choice", "conversion"])
def test_narrow_masks_are_subtracted(form: str) -> None:
    text = source_text(in_lanes(counts("uint32", "uint8", form), 16).func, "c -vector_bits=512")
    assert " - (u32x16)(" in text


def test_masks_as_wide_are_added_under_in_the_widest_vectors() -> None:
    func = counts("int32", "float32", "value")
    for bits, under in ((512, True), (256, False)):
        text = source_text(in_lanes(func, bits // 32).func, f"c -vector_bits={bits}")
        assert (f"value_local_0 + LOAD(i32x{bits // 32}," in text) == under


@pytest.mark.parametrize("kind", ["uint8", "int32", "uint32", "int64"])
@pytest.mark.parametrize("first", [0, 2**31 - 17, 2**31 - 5, 2**40])
def test_numbers_are_compared_with_indices(kind: str, first: int) -> None:
    """Whether they, and the indices, are as narrow as lanes or not."""
    limits = np.iinfo(kind)
    ends = (0, 3, limits.min, limits.max, first + 2, first - 1, 2**31 - 1, first + 31)
    x = np.array([n for n in ends if limits.min <= n <= limits.max], kind)
    a, b = te.placeholder(x.shape, kind, name="a"), te.placeholder((1,), "int64", name="b")
    outs = [
        te.compute(
            (len(x), 32), lambda n, i, f=f: f(a[n].astype("int64"), i + first).astype("int32"),
            name=f"c{at}",
        )
        for at, f in enumerate((lambda p, q: p == q, lambda p, q: p < q, lambda p, q: q <= p))
    ]  # fmt: skip
    sch = Schedule(te.create_prim_func([a, b, *outs]))
    for at in range(3):
        sch.vectorize(sch.split(sch.get_loops(f"c{at}")[1], [None, 16])[1])
    got = [np.empty((len(x), 32), "int32") for _ in outs]
    build(sch, "c")(x, np.zeros(1, "int64"), *got)
    wide, at = x.astype(object)[:, None], np.arange(32).astype(object) + first
    for made, wanted in zip(got, (wide == at, wide < at, at <= wide)):
        np.testing.assert_array_equal(made, wanted.astype("int32"))


def counted(kind: str, compared: str, terms: int) -> tuple[PrimFunc, list[np.ndarray], int]:
    """How many elements of two arrays are equal, twice in a loop and twice written out."""
    a, b = (te.placeholder((terms,), compared, name=name) for name in "ab")
    one, none = (te.const(n, compared) for n in (1, 0))

    def single(k: Expr) -> Expr:
        return te.if_then_else(a[k] == b[k], one, none).astype(kind)

    def looped(name: str) -> te.Tensor:
        k = te.reduce_axis(terms, name="k")
        return te.compute((1,), lambda i: te.sum(single(k), axis=k), name)

    first, *others = (single(te.const(k)) for k in range(terms))
    written = te.compute((1,), lambda i: (sum(others, first), 1 + sum(others, first)), "written")
    given = [np.arange(terms).astype(compared) % n for n in (2, 3)]
    func = te.create_prim_func([a, b, looped("x"), looped("y"), *written], name="counted")
    return func, given, int((given[0] == given[1]).sum())


KINDS = ["int8", "uint8", "int16", "uint16", "int32", "int64"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compared", ["bytes", "its own"])
@pytest.mark.parametrize("terms", [4, 16])
def test_single_conditions_are_counted(
    kind: str, compared: str, terms: int, tmp_path: Path
) -> None:
    """gcc 12 makes vectors of straight-line sums, and counted down where these are narrow."""
    func, given, wanted = counted(kind, "uint8" if compared == "bytes" else kind, terms)
    sch, results = Schedule(func), (wanted, wanted, wanted, wanted + 1)
    for name in "xy":
        sch.unroll(sch.get_loops(name)[1])
    made = build(sch, "c")
    assert made(*given) == results
    if kind in ("uint8", "int16"):  # as somebody else compiles it
        source, _ = made.export(tmp_path)
        library, out = tmp_path / "counted.so", [np.zeros(1, kind) for _ in results]
        command = ("gcc", "-O2", "-fwrapv", "-w", "-shared", "-fPIC", "-o", library, source)
        subprocess.run(command, check=True)
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (*given, *out)]
        ctypes.CDLL(str(library)).counted(*pointers)
        assert tuple(out) == results


@pytest.mark.parametrize("kind", KINDS)
def test_single_conditions_are_counted_by_the_emulator(kind: str) -> None:
    func, given, wanted = counted(kind, kind, 16)
    assert build(func, "cuda-emulator")(*given) == (wanted, wanted, wanted, wanted + 1)
