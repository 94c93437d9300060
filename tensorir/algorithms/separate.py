"""Reductions over windows of several axes, one axis after the other.

A window of 5 by 5 has 25 terms for each result. Along one axis first there are 5 for each place of
the other one, and then 5 of these: windows that overlap share them, and what those that do not read
side by side is added up in whole vectors before neighbours are. So have 64 terms along one axis two
steps of 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, isqrt

from tensorir import dtype as dt
from tensorir.algorithms.algorithm import Alternative
from tensorir.algorithms.recognise import (
    Reduction,
    inputs_of,
    of_reductions,
    reduce_by,
    reduction_of,
    require,
)
from tensorir.arith import Analyzer
from tensorir.expr import Const, Expr, Load, Var, int_value
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.stmt import Block
from tensorir.te.tensor import Tensor
from tensorir.visit import loads, map_loads, substitute

SPLIT = 12
"""Terms along one axis from which on they are reduced in two steps: each moves all there is."""

ZERO = Const(0, dt.INDEX)


@dataclass(frozen=True)
class _Window:
    """Variables, an axis of the result first, whose steps add up to the place of a term: terms of
    other values with the same place are the same. Each of the first `places` is one of a term."""

    steps: Mapping[Var, int]
    places: int

    @property
    def axis(self) -> Var:
        return next(iter(self.steps))

    def place(self, values: Mapping[Var, Expr]) -> Expr:
        place: Expr = values[self.axis] * self.steps[self.axis]
        for var, step in self.steps.items():
            place = place if var is self.axis else place + values[var] * step
        return place

    def at(self, place: Expr) -> dict[Var, Expr]:
        """Values of the variables that have a place."""
        one = next(var for var, step in self.steps.items() if step == 1)
        return {var: place if var is one else ZERO for var in self.steps}


@dataclass(frozen=True)
class _Windows:
    """What a block reduces, the `whole`: `term`, over the variables of each of `stages` in turn.
    What is left after each of them are windows, by the axis."""

    whole: Reduction
    term: Expr
    extents: Mapping[Var, Expr]
    stages: tuple[tuple[Var, ...], ...]
    left: tuple[Mapping[Var, _Window], ...]


def _windows(block: Block, rounds: bool) -> _Windows:
    """Those of what `reduction_of` takes; Mismatch where there are none."""
    whole = reduction_of(block, rounds)
    term, own, reduced = whole.term, whole.own, whole.reduced
    extents = {**whole.spatial, **reduced}
    steps: dict[Var, dict[Var, int]] = {}
    for var in (var for var, extent in reduced.items() if int_value(extent) != 1):
        for axis, pair in _steps_beside(term, var, own).items():
            if _depends_on_place(term, _Window(pair, 0)):
                steps.setdefault(axis, {axis: pair[axis]})[var] = pair[var]
                break
    stages, alone = list[tuple[Var, ...]](), set(reduced)
    for axis in (axis for axis in own if axis in steps):
        window = _window(steps[axis], extents)
        if window is None or not _depends_on_place(term, window):
            del steps[axis]
            continue
        over = tuple(steps[axis])[1:]
        alone -= set(over)
        two = _split(whole.op, steps[axis], extents)
        if two is not None:
            values, steps[axis], sizes, both = two
            term, extents = substitute(term, values), {**extents, **sizes}
        stages += both if two is not None else [over]
    require(len(stages) > 1, f"terms of block {block.name!r} are of no windows that share any")
    stages[0] += tuple(var for var in reduced if var in alone)
    left = tuple(_left(steps, stages[n + 1 :], extents) for n in range(len(stages)))
    return _Windows(whole, term, extents, tuple(stages), left)


def _steps_beside(term: Expr, var: Var, own: Sequence[Var]) -> dict[Var, dict[Var, int]]:
    """The axes of the result with which a variable moves what is read, and the steps of both."""
    analyzer, found = Analyzer(), dict[Var, dict[Var, int]]()
    for index in (index for load in loads(term) for index in load.indices):
        form = analyzer.linear(index).terms
        for axis in own if var in form else ():
            if axis in form:
                by = gcd(form[axis], form[var])
                found.setdefault(axis, {axis: form[axis] // by, var: form[var] // by})
    return found


def _window(steps: Mapping[Var, int], extents: Mapping[Var, Expr]) -> _Window | None:
    """The window of these steps; None where it has gaps: what is there may not be for reading."""
    by, places = gcd(*steps.values()), 1
    steps = {var: step // by for var, step in steps.items()}
    for var, step in sorted(steps.items(), key=lambda item: item[1]):
        extent = int_value(extents[var]) or 0
        if not 0 < step <= places or extent < 1:
            return None
        places += step * (extent - 1)
    return _Window(steps, places)


def _left(
    steps: Mapping[Var, Mapping[Var, int]],
    stages: Sequence[Sequence[Var]],
    extents: Mapping[Var, Expr],
) -> dict[Var, _Window]:
    """The windows of those axes that some stages are for."""
    later, found = {var for stage in stages for var in stage}, dict[Var, _Window]()
    for axis, own in steps.items():
        kept = {var: step for var, step in own.items() if var is axis or var in later}
        if len(kept) > 1:
            window = _window(kept, extents)
            require(window is not None, f"windows along {axis.name!r} have gaps after some stages")
            assert window is not None
            found[axis] = window
    return found


_Split = tuple[dict[Var, Expr], dict[Var, int], dict[Var, Expr], list[tuple[Var, ...]]]
"""Values of variables, and the steps, extents and stages of those in their place."""


def _split(op: str, steps: Mapping[Var, int], extents: Mapping[Var, Expr]) -> _Split | None:
    """The window in two stages, if it is long and shares terms with the next one, as rows that lie
    one after the other do not: of sums the second one has parts side by side; what extremes see
    twice is the same."""
    axis, var, *others = steps
    count = int_value(extents[var]) or 0
    if others or count < SPLIT or steps[axis] >= steps[var] * count:
        return None
    names = Names(each.name for each in extents)
    near, far = (Var(names.unique(f"{var.name}_{n}"), var.dtype) for n in range(2))
    for _, few, parts, apart in sorted(_ways(op, count)):
        found = {axis: steps[axis], far: steps[var] * apart, near: steps[var]}
        sizes: dict[Var, Expr] = {far: Const(parts, dt.INDEX), near: Const(few, dt.INDEX)}
        if _window({axis: found[axis], far: found[far]}, {**extents, **sizes}) is not None:
            return {var: far * apart + near}, found, sizes, [(near,), (far,)]
    return None


def _ways(op: str, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Terms of both steps together and of each, and how far apart those of the second one are."""
    for few in range(2, 2 * isqrt(count)):
        rest = count - few
        apart = few if op == "+" else next(n for n in range(few, 0, -1) if rest % n == 0)
        if rest % apart == 0:
            parts = rest // apart + 1
            yield few + parts, few, parts, apart


def _depends_on_place(term: Expr, window: _Window) -> bool:
    """Whether the variables of a window say by its place alone what a term is."""
    read = {index for load in loads(term) for index in load.indices}
    if 1 not in window.steps.values() or not read.isdisjoint(window.steps):
        return False  # what is read at one of them alone, as weights are, has other places too
    moved = substitute(term, window.at(window.place({var: var for var in window.steps})))
    return _ordered(moved) is _ordered(term)


def _ordered(e: Expr) -> Expr:
    """`e` with the parts of each index in one order."""
    analyzer = Analyzer()

    def ordered(load: Load) -> Expr:
        found = []
        for index in load.indices:
            form = analyzer.linear(index)
            parts = sorted(form.terms.items(), key=lambda item: repr(item[0]))
            total: Expr = Const(form.const, dt.INDEX)
            for atom, step in parts:
                total = total + atom * step
            found.append(total)
        return Load(load.buffer, tuple(found))

    return map_loads(e, ordered, {})


def _stages(found: _Windows, given: Sequence[Tensor], name: str) -> Tensor:
    """A stage for each step; all but the last are named after it and what they reduce over."""
    from tensorir import te

    whole, reduce = found.whole, reduce_by(found.whole.op)
    tensors = dict(zip(inputs_of(found.term), given))
    made: Tensor | None = None

    def element(number: int, i: Sequence[Expr]) -> Expr:
        over = found.stages[number]
        axes = {var: te.reduce_axis(found.extents[var], var.name) for var in over}
        values: dict[Var, Expr] = {**dict(zip(whole.own, i)), **axes}
        for axis, window in found.left[number].items():
            values.update(window.at(values[axis]))
        if made is not None:
            before = found.left[number - 1]
            at = (before[v].place(values) if v in before else values[v] for v in whole.own)
            return reduce(made[tuple(at)], axis=[*axes.values()])
        term = substitute(found.term, values)
        term = map_loads(term, lambda n: tensors[n.buffer][n.indices], {})
        return reduce(term, axis=[*axes.values()])

    for number, left in enumerate(found.left):
        shape = [
            left[axis].places if axis in left else size
            for axis, size in zip(whole.own, whole.store.buffer.shape)
        ]
        full = name if not left else f"{name}_{found.stages[number][0].name}"
        made = te.compute(shape, lambda *i, number=number: element(number, i), full)
    assert made is not None
    return made


def _recognise(func: PrimFunc, block: Block, rounds: bool) -> Alternative:
    found = _windows(block, rounds)

    def compute(given: Sequence[Tensor], names: Sequence[str]) -> Sequence[Tensor]:
        return [_stages(found, given, names[0])]

    return Alternative((found.whole.store.buffer,), inputs_of(found.term), compute)


def _examples(name: str) -> list[tuple[PrimFunc, str]]:
    from tensorir import te

    x = te.placeholder((3, 9, 8), "float64", name="x")
    reduce: Callable[..., Expr] = getattr(te, name)
    found = []
    row = te.placeholder((2, 40), "float64", name="row")
    for count in (12, 14):
        k = te.reduce_axis(count, "k")
        y = te.compute((2, 9), lambda i, j, k=k: reduce(row[i, j * 2 + k], axis=k), "y")
        found.append((te.create_prim_func([row, y]), "y"))
    for step, apart, size in ((1, 1, 3), (2, 1, 3), (1, 2, 2), (2, 2, 2)):
        a, b = te.reduce_axis(3, "a"), te.reduce_axis(2, "b")
        c = te.reduce_axis(3, "c")

        def one(i: Expr, j: Expr, a=a, b=b, s=step, d=apart) -> Expr:  # type: ignore[no-untyped-def]
            return reduce(x[0, i * s + a * d, j * s + d * b], axis=[a, b])

        def squares(i: Expr, j: Expr, a=a, b=b, c=c, s=step, d=apart) -> Expr:  # type: ignore[no-untyped-def]
            e = x[c, i * s + a * d, b * d + j * s] - 1
            return reduce(e * e, axis=[b, c, a])

        for element in (one, squares):
            y = te.compute((size, size + 1), element, "y")
            found.append((te.create_prim_func([x, y]), "y"))
    return found


MAXIMA = "maxima or whole sums over windows, axis by axis"
SUMS = "sums of floats over windows, axis by axis"
SEPARATE = (
    of_reductions("separate", MAXIMA, False, _recognise, _examples, ("cpu",)),
    of_reductions("separate_sums", SUMS, True, _recognise, _examples, ("cpu",)),
)
