"""The weights' stages of Winograd's algorithm; see `winograd_stages`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.expr import TRUE, Expr, Var, const
from tensorir.ops.winograd_form import Window, Windowed, plain, rounded, stage, where
from tensorir.ops.winograd_transforms import Filtering, pick
from tensorir.te.tensor import Tensor
from tensorir.visit import substitute, variables


def weight_dims(form: Windowed) -> list[int]:
    """The dimensions that are no windows: of the result first, then those that are summed over."""
    others = form.others(form.weight, [window.weight for window in form.windows])
    return sorted(others, key=lambda d: not set(variables(form.weight[d])) & set(form.spatial))


def weight_stages(
    form: Windowed, weight: Tensor, kinds: Sequence[Filtering], name: str, whole: bool = False
) -> Tensor:
    """G g along each window: [points.., other dimensions..]; filters rounded up if `whole`."""
    made = weight
    of = _Weights(form, weight, kinds, name)
    for axis in range(len(kinds) - 1):
        made = of.part(made, axis)
    return of.last(made, whole)


def rounded_weights(form: Windowed, made: Tensor, name: str) -> Tensor:
    """What `weight_stages` made without `whole`, with filters rounded up."""
    count = len(form.windows)
    at = _filters(form)
    if at is None or rounded(made.shape[count + at]) is made.shape[count + at]:
        return made
    size = made.shape[count + at]
    shape = [rounded(s) if n == count + at else s for n, s in enumerate(made.shape)]
    names = [f"p{w}" for w in range(count)] + [f"d{n}" for n in range(len(shape) - count)]
    return stage(name, shape, names, lambda *i: where(i[count + at] < size, made[i]))


def _filters(form: Windowed) -> int | None:
    """Where among `weight_dims` the dimension of the filters is."""
    found = [n for n, d in enumerate(weight_dims(form)) if form.weight[d] is form.filter]
    return found[0] if found else None


class _Weights:
    def __init__(
        self, form: Windowed, weight: Tensor, kinds: Sequence[Filtering], name: str
    ) -> None:
        self.form, self.weight, self.kinds, self.name = form, weight, kinds, name
        self.windows, self.others = form.windows, weight_dims(form)
        self.names = [plain(form.weight[d], f"d{d}") for d in self.others]
        self.shape = [self.size(d) for d in self.others]

    def size(self, dim: int) -> Expr:
        """How much of a dimension the sums read."""
        index = self.form.weight[dim]
        extents = {**self.form.spatial, **self.form.reduced}
        return extents[index] if isinstance(index, Var) else self.weight.shape[dim]

    def part(self, made: Tensor, axis: int) -> Tensor:
        """Along a window that is not the last: [other dimensions.., points.., taps..]."""
        count, kind, own = len(self.windows), self.kinds[axis], len(self.others)

        def element(*i: Expr) -> Expr:
            other, points, taps = i[:own], i[own : own + axis + 1], i[own + axis + 1 :]
            if axis == 0:
                row = self.coefficients(other, dict(zip(range(1, count), taps)))
            else:
                order = _order(self.windows[axis])
                row = [made[(*other, *points[:-1], const(n), *taps)] for n in order]
            return pick(points[axis], kind.weight(row))

        points = [k.points for k in self.kinds[: axis + 1]]
        shape = [*self.shape, *points, *(w.taps for w in self.windows[axis + 1 :])]
        labels = [f"p{w}" for w in range(axis + 1)] + [f"x{w}" for w in range(axis + 1, count)]
        return stage(f"{self.name}_columns{axis or ''}", shape, [*self.names, *labels], element)

    def last(self, made: Tensor, whole: bool) -> Tensor:
        """Along the last window: [points.., other dimensions..]."""
        count, kind, filters = len(self.windows), self.kinds[-1], _filters(self.form)
        sizes = [rounded(s) if whole and n == filters else s for n, s in enumerate(self.shape)]

        def element(*i: Expr) -> Expr:
            points, own = i[:count], i[count:]
            if count == 1:
                row = self.coefficients(own, {})
            else:
                row = [made[(*own, *points[:-1], const(n))] for n in _order(self.windows[-1])]
            inside: Expr = TRUE
            for index, size, larger in zip(own, self.shape, sizes):
                inside = inside if size is larger else inside & (index < size)
            return where(inside, pick(points[-1], kind.weight(row)))

        labels = [f"p{w}" for w in range(count)]
        shape = [*(k.points for k in self.kinds), *sizes]
        return stage(self.name, shape, [*labels, *self.names], element)

    def coefficients(self, own: Sequence[Expr], taps: Mapping[int, Expr]) -> list[Expr]:
        """The weights along the first window."""
        row: list[Expr] = []
        for n in _order(self.windows[0]):
            at: dict[int, Expr] = dict(zip(self.others, own))
            for w, window in enumerate(self.windows):
                index = self.form.weight[window.weight]
                at[window.weight] = substitute(index, {window.tap: taps.get(w, const(n))})
            row.append(self.weight[tuple(at[dim] for dim in range(len(at)))])
        return row


def _order(window: Window) -> list[int]:
    """The taps, in the order of what they read."""
    taps = list(range(window.taps))
    return taps[::-1] if window.flipped else taps
