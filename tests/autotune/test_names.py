"""What a program calls things decides nothing: a search of a renamed one goes on."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import Database, tune
from benchmarks.general.renamed import NAMINGS, renamed
from tensorir import te
from tests.brief import BRIEF

pytestmark = pytest.mark.usefixtures("all_pretended")


def product(size="n", left="A", right="B"):
    """Of a symbolic number of rows, by a parameter that may be constant, with a second stage."""
    n = te.var(size)
    a, b = te.placeholder((n, 8), name=left), te.placeholder((8, 24), name=right)
    k = te.reduce_axis(8, name="k")
    c = te.compute((n, 24), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, 24), lambda i, j: te.max(c[i, j], 0.0), name="D")
    return te.create_prim_func([a, b, d], name="product")


def found(func, db, trials, size="n", right="B"):
    return tune(
        func, trials=trials, database=db, settings=BRIEF, sizes={size: 16}, constants=(right,),
        strategy="random", cost_model="random", progress=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def tuned():
    with Database(":memory:") as db:
        found(product(), db, 4)
        yield db


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scheme", NAMINGS)
def test_a_renamed_program_is_not_measured_again(tuned, scheme):
    func = renamed(product("rows", "X", "W"), NAMINGS[scheme])
    (size,), names = func.size_vars, [p.name for p in func.params]
    result = found(func, tuned, 4, size.name, names[1])
    assert (result.measured, result.trials, result.notice) == (0, 4, "")
    assert result.func is func and result.schedule.definition is func
    a, b = np.ones((16, 8), np.float32), np.full((8, 24), 0.5, np.float32)
    kernel = result.build(constants={names[1]: b})
    np.testing.assert_array_equal(kernel(a), a @ b)


def test_a_search_of_a_renamed_program_goes_on(tmp_path):
    """As it would have by the old names: the same candidates, all of one program."""
    plans = []
    for other in (product(), renamed(product(), NAMINGS["topi"])):
        with Database(tmp_path / f"{len(plans)}.db") as db:
            found(product(), db, 2)
            again = found(other, db, 3, other.size_vars[0].name, other.params[1].name)
            assert (again.measured, again.trials) == (1, 3)
            records = [r for r in db.records() if not r.is_final]
            texts = [r.workload.text.partition("(")[2] for r in records]  # without its own name
            plans.append([(r.sketch, str(r.decisions), t) for r, t in zip(records, texts)])
    assert plans[0] == plans[1] and len({text for *_, text in plans[0]}) == 1
