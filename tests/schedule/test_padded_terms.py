"""pad_einsum of terms that are no products: along the result, and where they are nothing."""

from __future__ import annotations

import pytest
from refusal import refused

from schedule import Schedule
from tensorir import te

TERMS = {
    "distances": (lambda a, b: (a - b) * (a - b), te.sum),
    "sizes of differences": (lambda a, b: te.abs(a - b), te.sum),
    "sums": (lambda a, b: a + b, te.sum, te.max, te.min),
    "larger ones": (lambda a, b: te.maximum(a, b) * 3, te.sum, te.max, te.min),
    "products, one of them odd": (lambda a, b: a * b - b * 2.5, te.sum),
    "functions": (lambda a, b: te.exp(a - b),),
    "either": (lambda a, b: te.if_then_else(a < b, a, b), te.sum, te.max, te.min),
    "quotients": (lambda a, b: a / b,),
    "nothing but for a number": (lambda a, b: a * b + 1e-30,),
}
"""Terms of two reads, and the reductions to which they are nothing where both are neutral."""


def apart(term, fold):
    """C[i, j] = fold over k of term(A[i, k], B[j, k])."""
    a, b = (te.placeholder((n, 5), name=name) for n, name in ((3, "A"), (7, "B")))
    k = te.reduce_axis(5, name="k")
    c = te.compute((3, 7), lambda i, j: fold(term(a[i, k], b[j, k]), axis=k), name="C")
    return te.create_prim_func([a, b, c], name="apart")


@pytest.mark.parametrize("fold", [te.sum, te.max, te.min])
@pytest.mark.parametrize("name", TERMS)
def test_any_term_along_variables_of_the_result(check, name, fold):
    """And along its own where it is known to be nothing there."""
    sch = Schedule(apart(TERMS[name][0], fold))
    sch.pad_einsum("C", [2, 4, 1])
    check(sch)
    sch = Schedule(apart(TERMS[name][0], fold))
    if fold in TERMS[name][1:]:
        sch.pad_einsum("C", [2, 4, 3])
        check(sch)
    else:
        refused(sch.pad_einsum, "C", [2, 4, 3], match="no padding of what it reads")
