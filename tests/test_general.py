"""Programs rewritten: every form means what the plain program means, and the benchmark runs."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from autotune import default_schedule
from autotune.rules import choose
from autotune.rules.moved import AHEAD
from backends import Comparison, Timing, build, source_text
from benchmarks import rank
from benchmarks.general import report
from benchmarks.general.__main__ import main
from benchmarks.general.code import machine_code, nameless
from benchmarks.general.form import Form, expected, given, numbers, restored, work
from benchmarks.general.laws import beside, instructions, law
from benchmarks.general.measure import Figure, Found
from benchmarks.general.rewritings import REWRITINGS, forms_of
from benchmarks.general.workloads import rows, workload
from tensorir import (
    Target,
    TensorIRError,
    device_of,
    ops,
    parse,
    reference,
    structural_equal,
    te,
    verify,
)

TARGET = Target(
    vector_bits=512, threads=2, features=("avx512bf16", "avx512bw", "avx512f", "avx512vnni", "fma")
)
TINY = rows(tiny=True)
DIFFERENT = [
    row for row in TINY
    if not row.name.startswith(("matmul 24", "conv 3->8 7x7", "depthwise 8 3x3 7", "int8 matmul 1"))
]  # fmt: skip
"""Tiny rows without those that another one is like, which take long enough."""
NARROW = {"float16": 1e-2, "bfloat16": 5e-2}


def assert_means_the_same(form: Form, plain, arrays) -> None:
    """Both untouched programs on the same numbers, evaluated by NumPy."""
    verify(form.func)
    found = restored(form, plain, reference(form.func, *given(form, plain, arrays)))
    wanted = expected(form, plain, arrays)
    assert len(found) == len(wanted) == len(plain.outputs)
    for out, got, want in zip(form.func.outputs, found, wanted):
        assert got.shape == want.shape, form.name
        off = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0)
        allowed = NARROW.get(out.dtype, 1e-6) * max(1.0, float(np.abs(want).max(initial=0)))
        assert off <= allowed, form.name


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", DIFFERENT, ids=lambda row: row.name)
def test_forms_mean_what_the_plain_program_means(row):
    plain = workload(row).func
    arrays = numbers(plain)
    forms = list(forms_of(plain))
    assert len({form.name for form in forms}) == len(forms)
    for form in forms:
        assert structural_equal(form.func, plain) == (form.kind == "renamed"), form.name
        if form.kind != "renamed":
            assert_means_the_same(form, plain, arrays)


NAME = re.compile(r"(?!_mm|__)[A-Za-z_]\w*")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", range(len(DIFFERENT)), ids=lambda n: DIFFERENT[n].name)
def test_renamed_forms_become_the_same_text(number):
    """Word for word but for names; what gcc makes of it is compared, of all rows, by the
    benchmark."""
    plain = workload(DIFFERENT[number])
    renamed = list(forms_of(plain.func, ["renamed"]))[number % 4].func

    def words(func) -> list[str]:
        constants = [func.inputs[n].name for n in plain.constants]
        text = source_text(default_schedule(func, TARGET, constants).func, TARGET)
        return re.findall(r"\w+|[^\w\s]", re.sub(r"//.*|/\*.*?\*/", "", text))

    before, after = words(plain.func), words(renamed)
    assert len(before) == len(after)
    changed = [pair for pair in zip(before, after) if pair[0] != pair[1]]
    assert changed and not [pair for pair in changed if not all(map(NAME.fullmatch, pair))]


def test_codes_are_compared_without_names():
    def code(func):
        return machine_code(build(default_schedule(func)))

    def line(factor, name):
        a = te.placeholder((40,), name=name)
        return te.create_prim_func([a, te.compute((40,), lambda i: a[i] * factor + a[i] / 3.0)])

    made = code(line(5.5, "a"))
    assert made is not None and made == code(line(5.5, "quite_another_name"))
    assert made != code(line(5.25, "a"))  # the same instructions with another constant
    assert nameless(b"no ELF file") is None


STRUCTURAL = ("reordered", "split", "fused", "unit", "scaled", "embedded", "symbolic")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(len(DIFFERENT)), ids=lambda n: DIFFERENT[n].name)
def test_forms_have_default_schedules(number):
    """A quarter of the rewritings of each program; the benchmark schedules all of all."""
    plain = workload(DIFFERENT[number])
    for form in forms_of(plain.func, STRUCTURAL[number % 4 :: 4]):
        default_schedule(form.func, TARGET, [form.func.inputs[n].name for n in plain.constants])


PRODUCTS = ("matmul 1000", "depthwise 384 3x3 14", "int8 matmul 1024", "bf16 matmul 1024",
            "batch matmul 12x384x384x64", "distances 1024x1024x64",
            "min-plus 512", "capsule conv 16->16 3x3 14")  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_forms_of_products_have_the_rule_of_the_plain_program(name):
    """One that falls to a rule for anything is an order of magnitude slower. Operands with factors
    may be made ahead of the same nest."""
    plain = workload(next(row for row in rows() if row.name == name))

    def rules(func) -> list[str]:
        constants = [func.inputs[n].name for n in plain.constants]
        found = choose(func, device_of(TARGET), None, constants)
        return [plan.name for plan in found.sketch.plans]

    wanted = rules(plain.func)
    kinds = ("reordered", "permuted", "split", "fused", "unit", "staged", "spelled", "scaled",
             "symbolic")  # fmt: skip
    for form in forms_of(plain.func, kinds):
        found = rules(form.func)
        assert found == wanted or form.kind == "scaled" and set(found) <= set(AHEAD), form.name


SPELLED = ("attention 1x12x384x64", "cosine 8192x256", "softmax 4096x1024", "row sum 4096x4096",
           "heat 3d 160", "separable blur 5+5 2048")  # fmt: skip


@pytest.mark.parametrize("name", SPELLED)
def test_rows_take_as_long_however_they_are_spelled(name):
    """One after the other in an array of one dimension, or turned twice, by the same rule."""
    plain = workload(next(row for row in rows() if row.name == name)).func

    def planned(func) -> list[tuple[str, float | None]]:
        found = choose(func, device_of(TARGET), None, ()).sketch.plans
        return [(plan.name, plan.estimate()) for plan in found]

    wanted = planned(plain)
    for form in forms_of(plain, ("staged", "spelled")):
        if form.name != "inlined":
            assert planned(form.func) == wanted, form.name


def test_sums_of_one_term_keep_it_where_units_are_dropped():
    """Without any the sum would begin again at each element."""
    x = te.placeholder((3, 1, 5, 1), name="x")
    plain = te.create_prim_func([x, ops.sum(x, axis=(1, 3))])
    (form,) = [form for form in forms_of(plain, ["unit"]) if form.name == "units dropped"]
    assert_means_the_same(form, plain, numbers(plain))


def test_every_kind_of_rewriting_finds_something_in_many_programs():
    counts = dict.fromkeys(REWRITINGS, 0)
    for row in TINY:
        for kind in {form.kind for form in forms_of(workload(row).func)}:
            counts[kind] += 1
    assert min(counts.values()) >= len(TINY) // 4, counts


def test_rows_are_those_of_the_peers_and_invented_ones():
    names = [row.name for row in rows()]
    assert len(names) == len(set(names)) == 48
    invented = [row for row in rows() if row.kind == "invented"]
    products = [row for row in invented if workload(row).dense]
    assert len(invented) == 20 and len(products) <= 10
    assert {row.kind for row in TINY} == {row.kind for row in rows()}


def test_forms_are_printed_and_parsed():
    for form in forms_of(workload(TINY[0]).func):
        assert structural_equal(parse(repr(form.func)), form.func)


def matmul(m: int = 4, n: int = 6, k: int = 8):
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    r = te.reduce_axis(k, "k")
    out = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="out")
    return te.create_prim_func([a, b, out])


def form(name: str, func=None) -> Form:
    return next(form for form in forms_of(func or matmul()) if form.name == name)


def test_factors_scale_what_they_say():
    a, b = numbers(matmul())
    for name, size in (("scaled by k", 8), ("scaled by row", 4), ("scaled by column", 6)):
        s = np.arange(size, dtype=np.float32)
        (found,) = reference(form(name).func, a, b, s)
        by = {"k": (a * s) @ b if size == 8 else None, "row": s[:4, None], "column": s[:6]}
        wanted = by["k"] if size == 8 else (a @ b) * by[name.rpartition(" ")[2]]
        np.testing.assert_array_equal(found, wanted)


def test_a_split_shows_in_the_shapes():
    assert [p.const_shape for p in form("split first").func.params] == [(4, 8), (8, 6), (2, 2, 6)]
    both = form("split reduce, inputs too").func
    assert [p.const_shape for p in both.params] == [(4, 2, 4), (2, 4, 6), (4, 6)]


def test_a_wrong_form_is_noticed():
    plain = matmul()
    wrong = Form("permuted", "wrong", plain, ((0, 1),))
    arrays = numbers(plain)
    assert_means_the_same(wrong, plain, arrays)
    other = matmul()
    changed = parse(repr(other).replace("out[vi, vj] + ", "out[vi, vj] - "))
    with pytest.raises(AssertionError):
        assert_means_the_same(Form("split", "wrong", changed), plain, arrays)


def test_programs_that_are_no_nests_are_only_renamed_and_embedded():
    found = {form.kind for form in forms_of(ops.prim_func("sort", 0))}
    assert "renamed" in found and found <= {"renamed", "embedded"}


def test_other_types_are_compared_by_what_bounds_the_program():
    plain = matmul()
    double, half = form("float64"), form("float16")
    assert work(double, plain, dense=True) == work(double, plain, dense=False) == 2
    assert work(half, plain, dense=True) == 1 and work(half, plain, dense=False) == 0.5
    assert work(form("split first"), plain, dense=False) == 1


def test_instructions_are_counted():
    """Of 4 x 6 sums of 8 products, of 32 and 48 elements that are read and 24 written."""
    sums, moved = 4 * 6 * 8, 4 * 8 + 8 * 6 + 4 * 6
    for name, count in {
        "split first": sums + moved,
        "float64": 2 * (sums + moved),
        "float16": sums + 2 * moved,
        "bfloat16": sums + 2 * moved + 4 * 8 + 8 * 6,
        "int32": 2 * sums + moved,
        "int8": 2 * sums + moved + 4 * 8 + 8 * 6,
    }.items():
        assert instructions(form(name).func) == count, name
    a = te.placeholder((9,), name="a")
    out = te.compute((9,), lambda i: te.if_then_else(i < 8, a[i + 1], 0.0) + 1.0, name="out")
    assert instructions(te.create_prim_func([a, out])) == 9 + 2 * 9  # no condition of lanes


def test_forms_may_take_what_they_have_to():
    plain = matmul()
    times = {plain: 4.0}

    def most(name: str, share: float = 1.0) -> float:
        for n, program in enumerate(beside(form(name), plain, share), 1):
            times[program] = 3.0 / n
        return law(form(name), plain, share, times.__getitem__)

    assert most("split first") == most("renamed letters") == most("scaled by k") == 1
    assert most("permuted reversed") == 1 + 3 / 4  # and the same once more, turned
    assert most("int32") == instructions(form("int32").func) / instructions(plain)
    assert most("float64", 2.0) == 1 and most("float64", 1.5) == 2 / 1.5
    (turning,) = beside(form("permuted reversed"), plain, 1.0)
    (c,) = (np.arange(24, dtype=np.float32).reshape(4, 6),)
    np.testing.assert_array_equal(*reference(turning, c), c.T)
    sizes = [4 * 2 * p.params[0].const_shape[0] for p in beside(form("float64"), plain, 2.0)]
    assert sizes == [8 * 104, 4 * 104]


def figure(kind: str, ratio: float, law: float = 1.0) -> Figure:
    timing, found = Timing((1e-3 * ratio,), 1), Comparison(ratio, ratio, ratio)
    return Figure(kind, f"{kind} x", "default", timing, 1.0, found, law=law)


def test_bounds_are_of_what_a_form_has_to_take():
    figures = [figure("type", 1.3, 1.2), figure("type", 1.3), figure("type", 1.5, 1.2)]
    row = Found(workload(TINY[0]), {"default": Timing((1e-3,), 1)}, figures, {}, 0.0)
    lines = report.notes([row], "default")
    assert lines[1].startswith("2 of 3 forms take more") and lines[2].startswith("1 take more")
    assert lines[3].endswith(", and has to take 1.20x") and lines[4].endswith("1.30]")


def test_slow_forms_are_listed_slowest_first():
    figures = [figure("renamed", 1.02), figure("renamed", 1.04), figure("split", 1.2),
               figure("split", 0.8), figure("permuted", 1.1)]  # fmt: skip
    row = Found(workload(TINY[0]), {"default": Timing((1e-3,), 1)}, figures, {}, 0.0)
    lines = report.notes([row], "default")
    assert lines[1].startswith("2 of 5 forms take more than they may")
    assert [line.split(": ")[1] for line in lines[3:]] == ["split x", "renamed x"]
    assert report.cells(row, [row], "default")[2:] == ["1.04", "1.10", "1.20"]
    assert report.means([row], "default")[2:] == ["1.03", "1.10", "0.98"]
    lines = report.summary({"machine": "none"}, [row], ["default"]).splitlines()
    assert lines[2].startswith("| renamed | 2 | 0 | 1.030 | 1 | 1 | matmul 24, renamed x: 1.04x")
    assert lines[-1] == "* machine: none"


def test_a_run(tmp_path, capsys):
    file = tmp_path / "found" / "out.json"
    assert main(["--dry-run", "--rows", "row sum", "--threads", "1", "--json", str(file)]) == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert row["name"] == "row sum 16x33" and not row["failures"]
    kinds = {form["kind"] for form in row["forms"]}
    assert kinds == set(REWRITINGS) - {"reordered", "permuted", "fused"}
    for found in row["forms"]:
        ratio, low, high = found["ratio"]
        assert found["median"] > 0 and low <= ratio <= high and len(found["blocks"]) == 3
        assert found["ratio"] == [1, 1, 1] or not found["same"]
    assert all(form["same"] for form in row["forms"] if form["kind"] == "renamed")
    assert not any(form["same"] for form in row["forms"] if form["kind"] in ("type", "embedded"))
    said = capsys.readouterr().out
    assert "geometric mean of all" in said and "forms take more than they may" in said
    assert "| row sum 16x33 |" in file.with_suffix(".md").read_text()
    assert file.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_a_tuned_run(tmp_path, few_builds):
    file = tmp_path / "out.json"
    options = ["--dry-run", "--rows", "row sum", "--forms", "symbolic", "--tuned", "1"]
    options += ["--database", str(tmp_path / "t.db"), "--json", str(file)]
    assert main(options) == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert [form["schedule"] for form in row["forms"]] == ["default", "tuned"]


def test_a_form_that_fails_is_reported(monkeypatch, capsys):
    from benchmarks.general import measure

    def refuse(func, *rest):
        if len(func.params[0].shape) == 3:
            raise TensorIRError("three axes are too many")
        return default(func, *rest)

    default = measure.default_schedule
    monkeypatch.setattr(measure, "default_schedule", refuse)
    assert main(["--dry-run", "--rows", "heat 2d", "--forms", "unit"]) == 1
    assert "no time of heat 2d 14: unit first, default: three axes" in capsys.readouterr().out


def test_wrong_requests_are_refused(capsys):
    assert main(["--dry-run", "--forms", "upside down"]) == 2
    assert "unknown forms upside down; there are renamed, reordered" in capsys.readouterr().err
    assert main(["--dry-run", "--rows", "nothing like it"]) == 2
    assert "rows are:\n  matmul 24" in capsys.readouterr().err


def ranked(cycles: list[float], seconds: list[float]) -> rank.Ranked:
    return rank.Ranked("x", list(range(len(cycles))), cycles, seconds, {}, 0.0)


def test_ranks_are_compared():
    assert ranked([1, 2, 3, 4], [1e-3, 2e-3, 5e-3, 9e-3]).correlation == pytest.approx(1)
    assert ranked([1, 2, 3], [3, 2, 1]).correlation == pytest.approx(-1)
    assert ranked([3, 1, 2], [2, 4, 1]).regret == 4
    assert ranked([3, 1, 2], [2, 4, 1]).pairs == pytest.approx(1 / 3)
    assert np.isnan(ranked([], []).regret) and np.isnan(ranked([1], [1]).correlation)
    assert {row.name for row in rows()} >= set(rank.TEN)


def test_a_ranking_run(tmp_path, capsys, monkeypatch):
    seen = []

    def longest(point: rank.Point) -> float:
        assert point.space.contains(point.candidate) and point.constants == ("b",)
        seen.append(point.candidate)
        return 1.0 + len(point.schedule.trace)  # one of them is the program as it is

    monkeypatch.setitem(rank.ESTIMATES, "steps", longest)
    for name in ("draft", "steps"):
        file = tmp_path / name / "out.json"
        options = ["--dry-run", "--rows", "matmul 17", "--count", "4", "--estimate", name]
        assert rank.main([*options, "--threads", "1", "--json", str(file)]) == 0
        data = json.loads(file.read_text())
        (row,) = data["rows"]
        assert data["estimate"] == name and row["name"] == "matmul 17x23x31"
        assert len(row["plans"]) == len(row["cycles"]) == len(row["seconds"]) > 1
        assert len(row["plans"]) + sum(row["refused"].values()) == 4
        assert 0 <= row["pairs"] <= 1 and row["wrong"] == []
        assert min(row["cycles"]) > 0 and min(row["seconds"]) > 0 and row["regret"] >= 1
        assert "Spearman" in capsys.readouterr().out
    assert len(set(seen)) == 4


def test_no_time_of_a_wrong_kernel_is_ranked(capsys, monkeypatch):
    real = rank.reference
    monkeypatch.setattr(rank, "reference", lambda *given: [a + 1.0 for a in real(*given)])
    options = ["--quick", "--rows", "matmul 17", "--count", "2", "--threads", "1"]
    assert rank.main(options) == 1
    assert "gives other results" in capsys.readouterr().err


def test_a_ranking_of_nothing_is_refused(capsys):
    assert rank.main(["--dry-run", "--estimate", "tea leaves"]) == 2
    assert rank.main(["--rows", "nothing like it"]) == 2
    assert "estimates are draft, formula; rows are:\n  matmul 256" in capsys.readouterr().err
