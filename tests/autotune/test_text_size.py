"""How long the text of a default kernel is: that of wide rows is no longer than it has to be."""

from __future__ import annotations

import pytest

from autotune import default_schedule
from backends import resolve
from backends.c.emit.codegen import emit
from benchmarks.general.rewritings import forms_of
from benchmarks.general.workloads import rows, workload
from tensorir import lower, ops, te

TARGETS = ["c -march=haswell -threads=2", "c -march=skylake-avx512 -threads=2"]


def text_of(func, target):
    resolved = resolve(target)
    return emit(lower(default_schedule(func, resolved).func, resolved), resolved)


def cubic(t):
    """Weights of four neighbours."""
    return [
        ((2 - t) * t - 1) * t, (3 * t - 5) * t * t + 2, ((4 - 3 * t) * t + 1) * t, (t - 1) * t * t
    ]  # fmt: skip


def bicubic(columns, floats):
    """A picture of half as many columns in twice as many, by 16 reads for each element. Where they
    lie is computed in floats, or in integers."""
    rows, half = 16, columns // 2
    A = te.placeholder((rows, half), name="A")

    def along(y, size):
        if not floats:
            low = te.max(y * 2 - 1, 0) // 4
            weight = te.cast(te.max(y * 2 - 1, 0) % 4, "float32") * 0.25
        else:
            place = (y.astype("float32") + 0.5) * 0.5 - 0.5
            low = te.floor(place).astype("int64")
            weight = place - te.floor(place)
        return [te.clip(low + (n - 1), 0, size - 1) for n in range(4)], cubic(weight)

    def rule(i, j):
        (ys, wy), (xs, wx) = along(i, rows), along(j, half)
        total = te.const(0.0, "float32")
        for y, down in zip(ys, wy):
            for x, right in zip(xs, wx):
                total = total + A[y, x] * (down * right)
        return total

    B = te.compute((2 * rows, columns), rule, name="B")
    return te.create_prim_func([A, B])


@pytest.mark.parametrize("target", TARGETS)
def test_places_computed_in_floats_are_not_written_out(target):
    """Nothing is known of them in one vector that is not known in all."""
    short, long = [len(text_of(bicubic(columns, True), target)) for columns in (128, 1024)]
    assert long < 1.2 * short and long < 40_000


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [256, 512, 1024])
def test_many_reads_of_a_wide_row_are_not_written_out(target, columns):
    assert len(text_of(bicubic(columns, False), target)) < 200_000


@pytest.mark.parametrize("target", TARGETS)
def test_few_reads_of_a_wide_row_are_written_out(target):
    X = te.placeholder((1, 2, 32, 512), name="X")
    func = te.create_prim_func([X, ops.resize2d(X, (64, 1024), method="nearest")])
    assert "gather" not in text_of(func, target)


@pytest.mark.parametrize("name", ["attention 1x12x384x64", "nine taps 2048"])
def test_no_form_has_a_long_text(name):
    """A compiler has to read what the default writes out, of whatever form of a program."""
    func = next(workload(row).func for row in rows() if row.name == name)
    forms = {form.name: form.func for form in forms_of(func, ("permuted", "fused"))}
    sizes = {form: len(text_of(each, TARGETS[1])) for form, each in forms.items()}
    assert len(sizes) > 1 and max(sizes.values()) < 150_000, sizes
