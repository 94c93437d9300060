"""argmax and argmin in two passes: the extreme value first, and then where it is first found.

A pair of index and value is a chain of comparisons that takes one element at a time. The extreme
alone, and the smallest index of an equal element, are two plain reductions, which lanes share.
Both compute the elements, which have to come out the same.

It is bitwise and faster, so that all schedules use it (`always`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir import dtype as dt
from tensorir.algorithms.algorithm import Algorithm, Alternative
from tensorir.algorithms.recognise import is_used, require
from tensorir.algorithms.tuples import RowTerms, TupleUpdate, tuple_update
from tensorir.arith import Analyzer
from tensorir.expr import BinOp, Call, Expr, Select, Var, any_of, cast, int_value
from tensorir.func import PrimFunc
from tensorir.stmt import Block
from tensorir.te.reducer import ARGMAX, ARGMIN, Reducer
from tensorir.te.tensor import Tensor
from tensorir.visit import variables

NARROW = 1 << 31
"""Indices below are found as int32, of which a vector holds as many as of float32."""


def _algorithm(reducer: Reducer, extreme: str) -> Algorithm:
    def recognise(func: PrimFunc, block: Block) -> Alternative:
        from tensorir.analysis.repeatable import is_repeatable

        update = _selection(block, reducer)
        place, value = (store.buffer for store in update.stores)
        used = is_used(func, value, block)
        require(not used, f"the values that block {block.name!r} selects are used")
        position, source = (s.value.b for s in update.stores if isinstance(s.value, Select))
        what = f"what block {block.name!r} selects may be rounded in another way in each pass"
        require(is_repeatable(source), what)
        terms = update.row.over(position, source)

        def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
            return [_two_passes(terms, given, place.dtype, extreme, names[0])]

        return Alternative((place,), terms.inputs, compute)

    return Algorithm(
        name=f"two_pass_{reducer.name}",
        about=f"the {extreme} of a row, and then the first place of an equal value",
        recognise=recognise,
        examples=lambda: _examples(reducer.name),
        numerics="bitwise",
        preferred=True,
        always=True,
    )


def _selection(block: Block, reducer: Reducer) -> TupleUpdate:
    """The update of a block that is `reducer`; Mismatch if it does something else."""
    what = f"block {block.name!r} is no {reducer.name} over all of its elements"
    update = tuple_update(block, reducer, 2, what)
    chosen = [store.value for store in update.stores]
    new = [e.b for e in chosen if isinstance(e, Select)]
    require(len(chosen) == len(new) == 2 and update.is_of(reducer, new), what)
    return update


def _two_passes(
    terms: RowTerms, given: Sequence[Tensor], wanted: str, extreme: str, name: str
) -> Tensor:
    """The stages: the extreme of each row, the smallest position that has it, and its type."""
    from tensorir import te

    shape = terms.row.shape

    def best(*i: Expr) -> Expr:
        (_, value), axes = terms.at(i, given)
        return te.max(value, axis=axes) if extreme == "maximum" else te.min(value, axis=axes)

    top = te.compute(shape, best, f"{name}_{extreme}")
    kind = "int32" if _is_narrow(terms.terms[0], terms.row.reduced) else wanted

    def first(*i: Expr) -> Expr:
        (position, value), axes = terms.at(i, given, "r")
        same: Expr = BinOp("==", value, top[i])
        if dt.is_float(value.dtype):
            # The extreme of a row with a NaN is NaN, and equal to nothing.
            same = any_of(same, Call("isnan", (value,), "bool"))
        nowhere = te.const(dt.int_limits(kind)[1], kind)
        return te.min(te.select(same, cast(kind, position), nowhere), axis=axes)

    place: Tensor = te.compute(shape, first, name if kind == wanted else f"{name}_place")
    if kind == wanted:
        return place
    return te.compute(shape, lambda *i: cast(wanted, place[i]), name)  # type: ignore[no-any-return]


def _is_narrow(position: Expr, axes: Mapping[Var, Expr]) -> bool:
    """Whether all positions are small, and there is one."""
    if not all(int_value(size) for size in axes.values()) or not variables(position) <= set(axes):
        return False
    low, high = Analyzer(axes).bounds(position)
    return low is not None and high is not None and 0 <= low and high < NARROW


def _examples(name: str) -> list[tuple[PrimFunc, str]]:
    from tensorir import te

    found = []
    for shape, kind in (((3, 7), "float64"), ((2, 1), "float32"), ((1, 9), "int32")):
        a = te.placeholder(shape, kind, name="a")
        k = te.reduce_axis(shape[1], name="k")
        b = te.compute(shape[:1], lambda i, a=a, k=k: getattr(te, name)(a[i, k] * 2, axis=k), "b")
        found.append((te.create_prim_func([a, b]), "b"))
    return found


EXTREMES = (_algorithm(ARGMAX, "maximum"), _algorithm(ARGMIN, "minimum"))
