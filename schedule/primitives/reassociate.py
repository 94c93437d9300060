"""reassociate: add the parts of a term of a sum one by one."""

from __future__ import annotations

from schedule.analysis.combiner import one_by_one
from schedule.errors import require
from schedule.primitive import primitive
from schedule.primitives.regroup import with_value
from schedule.state import State
from tensorir import Store


@primitive
def reassociate(state: State, block: str) -> tuple[State, None]:
    """Add what a reduction adds in each step, a sum or a difference, to what it has so far part by
    part, in the order of the text.

    A product that is added or subtracted is one instruction with that, so that a step of a complex
    product takes two of them and not three, which wait for each other. Floating-point sums round
    otherwise, and overflow otherwise on their way.

    rewrite:  reassociate("C")
        C[i] = C[i] + (A[i, k] * x[k]        ->  C[i] = C[i] + A[i, k] * x[k]
                       - B[i, k] * y[k])                     - B[i, k] * y[k]

    requires:
        - the block stores one value
        - that is what the block has so far, plus or minus a sum or a difference that reads nothing
          of it, and of no int64, which must not overflow on the way
    """
    store = state.block(block).body
    require(isinstance(store, Store), block, f"block {block!r} stores more than one value")
    assert isinstance(store, Store)
    made = one_by_one(store)
    require(
        made is not None,
        block,
        f"the value {store.value!r} of block {block!r} is no sum of what it has so far and of "
        "parts that could be added one by one",
    )
    assert made is not None
    return with_value(state, block, made, made.dtype), None
