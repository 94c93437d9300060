"""The stages of Winograd's algorithm for any sum over windows, in the order of its own tensors.

A window is a dimension of the image that is read at `at + tap`, one variable of the result and one
that is summed over. Along windows, tiles of the image, the weights and the sums are transformed;
all other dimensions of the three stay what they are, in number and order. So channels may come
first or last, be in groups, and there may be several dimensions of samples or none.

Stages, for w windows of which the i-th has tiles of m[i] sums and n[i] points:

    strips    the image where it is, cut into what each tile of the first window reads
    pad       with zeros around
    input     B^T d along one window after the other: [n.., other dimensions.., tiles..]
    weights   G g, likewise: [n.., other dimensions..]
    products  sums over what is no window: [n.., other dimensions of the result.., tiles..]
    rows      A^T m along all windows but the last, and then the result
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorir import te
from tensorir.expr import TRUE, Expr, Var, const, int_value
from tensorir.ops.winograd_form import Windowed, plain, rounded, stage, where
from tensorir.ops.winograd_transforms import Filtering, pick
from tensorir.ops.winograd_weights import rounded_weights, weight_dims, weight_stages
from tensorir.te.tensor import Tensor
from tensorir.visit import substitute


def winograd_stages(
    form: Windowed,
    x: Tensor,
    weight: Tensor,
    outputs: Sequence[int],
    name: str,
    finish: Callable[[Expr, Sequence[Expr]], Expr] | None = None,
    ready: bool = False,
) -> Tensor:
    """The result by F(outputs[i], taps) along window i.

    `weight` may be `ready`: the weights' stage for these outputs already. `finish` makes an element
    of the result from a sum and its indices.
    """
    return _Stages(form, x, weight, tuple(outputs), name).result(finish, ready)


class _Stages:
    def __init__(
        self, form: Windowed, x: Tensor, weight: Tensor, outputs: tuple[int, ...], name: str
    ) -> None:
        self.form, self.x, self.weight, self.name = form, x, weight, name
        self.windows = form.windows
        self.kinds = [Filtering(m, window.taps) for m, window in zip(outputs, self.windows)]
        self.tiles = [-(-window.extent // k.outputs) for window, k in zip(self.windows, self.kinds)]
        self.points = [k.points for k in self.kinds]
        self.dims = form.others(form.image, [window.image for window in self.windows])

    def result(
        self, finish: Callable[[Expr, Sequence[Expr]], Expr] | None, ready: bool
    ) -> Tensor:
        form, window, kind = self.form, self.windows[-1], self.kinds[-1]
        made = self.products(self.input(self.padded()), self.weights(ready))
        for axis in range(len(self.windows) - 1):
            made = self.rows(made, axis)

        def element(*i: Expr) -> Expr:
            at = {var: index for var, index in zip(form.result, i) if var is not None}
            place = [at[var] for var in form.rest]
            for w, k in zip(self.windows[:-1], self.kinds):
                place += [at[w.at] // k.outputs, at[w.at] % k.outputs]
            last = at[window.at]
            lead, own = ([], place) if len(self.windows) == 1 else (place, [])
            row = [made[(*lead, const(n), *own, last // kind.outputs)] for n in range(kind.points)]
            value = pick(last % kind.outputs, kind.output(row))
            return value if finish is None else finish(value, i)

        shape = [const(1) if v is None else form.spatial[v] for v in form.result]
        names = ["u" if v is None else plain(v, "d") for v in form.result]
        return self.stage(shape, names, element, "")

    def stage(
        self, shape: Sequence[Any], names: Sequence[str], element: Callable[..., Expr], suffix: str
    ) -> Tensor:
        return stage(self.name + suffix, shape, names, element)

    # the image

    def padded(self) -> Tensor:
        """What the tiles of the first window read, zeros around, the other windows as they are:
        [other dimensions.., tiles[0], points[0], windows..]."""
        x, form, first, kind = self.x, self.form, self.windows[0], self.kinds[0]
        whole = len(self.windows) == 1  # the image is where it is, and cut afterwards
        sizes, names = self.other_sizes(), self.other_names()
        cut = [] if whole else [self.tiles[0], kind.points]
        raw = list(range(len(self.windows))) if whole else list(range(1, len(self.windows)))
        lengths = [x.shape[self.windows[w].image] for w in raw]

        def strip(*i: Expr) -> Expr:
            own, tile, rest = self.taken(i, len(sizes), len(cut))
            at: dict[int, Expr] = dict(zip(self.dims, own))
            at.update((self.windows[w].image, index) for w, index in zip(raw, rest))
            inside: Expr = TRUE
            if tile:
                at[first.image], inside = self.place(0, tile[0] * kind.outputs + tile[1])
            for dim in self.dims:
                if dim == form.channel and rounded(x.shape[dim]) is not x.shape[dim]:
                    inside = inside & (at[dim] < x.shape[dim])
            return where(inside, x[tuple(at[dim] for dim in range(len(at)))])

        cut_names = [] if whole else ["t0", "y0"]
        shape = [*sizes, *cut, *lengths]
        strips = self.stage(shape, [*names, *cut_names, *(f"x{w}" for w in raw)], strip, "_strips")

        def element(*i: Expr) -> Expr:
            own, tile, rest = self.taken(i, len(sizes), 2)
            places = [] if whole else list(tile)
            reach = [tile[0] * kind.outputs + tile[1]] if whole else list(rest)
            inside: Expr = TRUE
            for w, index in zip(raw, reach):
                place, there = self.place(w, index)
                places.append(place)
                inside = inside & there
            return where(inside, strips[(*own, *places)])

        widths = [self.tiles[w] * self.kinds[w].outputs + self.windows[w].taps - 1
                  for w in raw if not whole]  # fmt: skip
        shape = [*sizes, self.tiles[0], kind.points, *widths]
        rest = [f"x{w}" for w in raw if not whole]
        return self.stage(shape, [*names, "t0", "y0", *rest], element, "_pad")

    def taken(
        self, i: Sequence[Expr], own: int, cut: int
    ) -> tuple[Sequence[Expr], Sequence[Expr], Sequence[Expr]]:
        return i[:own], i[own : own + cut], i[own + cut :]

    def place(self, w: int, index: Expr) -> tuple[Expr, Expr]:
        """Where a window reads its image, and whether that is inside of it."""
        window, kind = self.windows[w], self.kinds[w]
        size = int_value(self.x.shape[window.image]) or 0
        most = self.tiles[w] * kind.outputs + window.taps - 2 + window.first
        inside: Expr = TRUE
        if window.first < 0:
            inside = inside & (index >= -window.first)
        if most >= size:
            inside = inside & (index < size - window.first)
        return index + window.first, inside

    def other_sizes(self) -> list[Expr]:
        """Of the dimensions of the image that are no windows; channels rounded up."""
        sizes = {dim: self.x.shape[dim] for dim in self.dims}
        if self.form.channel is not None:
            sizes[self.form.channel] = rounded(sizes[self.form.channel])
        return list(sizes.values())

    def other_names(self) -> list[str]:
        return [plain(self.form.image[dim], f"d{dim}") for dim in self.dims]

    def input(self, pad: Tensor) -> Tensor:
        """B^T d along each window."""
        made, own, count = pad, len(self.dims), len(self.windows)
        names = self.other_names()
        for axis in range(count - 1):
            made = self.input_part(made, axis)
        kind = self.kinds[-1]

        def element(*i: Expr) -> Expr:
            points, other, tiles = i[:count], i[count : count + own], i[count + own :]
            place: list[Expr] = list(other)
            for point, tile in zip(points[:-1], tiles[:-1]):
                place += [tile, point]
            if count == 1:
                reach = [made[(*place, tiles[0], const(n))] for n in range(kind.points)]
            else:
                start = tiles[-1] * kind.outputs
                reach = [made[(*place, start + n)] for n in range(kind.points)]
            return pick(points[-1], kind.input(reach))

        shape = [*self.points, *self.other_sizes(), *self.tiles]
        labels = [f"p{w}" for w in range(count)], [f"t{w}" for w in range(count)]
        return self.stage(shape, [*labels[0], *names, *labels[1]], element, "_input")

    def input_part(self, made: Tensor, axis: int) -> Tensor:
        """The same along one window that is not the last: the dimensions stay where they are, that
        of the window cut into tiles."""
        own, kind = len(self.dims), self.kinds[axis]
        at = own + 2 * axis

        def element(*i: Expr) -> Expr:
            before, tile, point, after = i[:at], i[at], i[at + 1], i[at + 2 :]
            if axis == 0:
                reach = [made[(*before, tile, const(n), *after)] for n in range(kind.points)]
            else:
                start = tile * kind.outputs
                reach = [made[(*before, start + n, *after)] for n in range(kind.points)]
            return pick(point, kind.input(reach))

        after = range(axis + 1, len(self.windows))
        shape: list[Any] = [*self.other_sizes()]
        names = self.other_names()
        for w in range(axis + 1):
            shape += [self.tiles[w], self.points[w]]
            names += [f"t{w}", f"p{w}"]
        shape += [self.tiles[w] * self.kinds[w].outputs + self.windows[w].taps - 1 for w in after]
        names += [f"x{w}" for w in after]
        return self.stage(shape, names, element, f"_columns{axis or ''}")

    # the sums

    def weights(self, ready: bool) -> Tensor:
        name = f"{self.name}_weights"
        if ready:
            return rounded_weights(self.form, self.weight, name)
        return weight_stages(self.form, self.weight, self.kinds, name, whole=True)

    def rest_sizes(self) -> list[Expr]:
        form = self.form
        return [rounded(form.spatial[v]) if v is form.filter else form.spatial[v]
                for v in form.rest]  # fmt: skip

    def products(self, image: Tensor, weight: Tensor) -> Tensor:
        form, count = self.form, len(self.windows)
        taps = {window.tap for window in self.windows}
        steps = [var for var in form.reduced if var not in taps]
        axes = {var: te.reduce_axis(form.reduced[var], name=plain(var, "k")) for var in steps}
        others = weight_dims(form)

        def element(*i: Expr) -> Expr:
            points, own, tiles = self.taken(i, count, len(form.rest))
            at: dict[Var, Expr] = {**dict(zip(form.rest, own)), **axes}
            a = [substitute(form.image[dim], at) for dim in self.dims]
            b = [substitute(form.weight[dim], at) for dim in others]
            term = image[(*points, *a, *tiles)] * weight[(*points, *b)]
            return te.sum(term, axis=tuple(axes.values()))

        labels = [f"p{w}" for w in range(count)], [f"t{w}" for w in range(count)]
        names = [*labels[0], *(plain(v, "d") for v in form.rest), *labels[1]]
        return self.stage(
            [*self.points, *self.rest_sizes(), *self.tiles], names, element, "_products"
        )

    def rows(self, made: Tensor, axis: int) -> Tensor:
        """A^T m along one window: [other dimensions.., (tiles, outputs).., points.., tiles..]."""
        form, count, kind = self.form, len(self.windows), self.kinds[axis]
        own = len(form.rest)
        after = range(axis + 1, count)

        def element(*i: Expr) -> Expr:
            other, done, more = self.taken(i, own, 2 * axis + 2)
            points, tiles = more[: len(after)], more[len(after) :]
            before, (tile, output) = done[:-2], done[-2:]
            if axis == 0:
                row = [made[(const(n), *points, *other, tile, *tiles)] for n in range(kind.points)]
            else:
                row = [made[(*other, *before, const(n), *points, tile, *tiles)]
                       for n in range(kind.points)]  # fmt: skip
            return pick(output, kind.output(row))

        shape: list[Any] = self.rest_sizes()
        names = [plain(v, "d") for v in form.rest]
        for w in range(axis + 1):
            shape += [self.tiles[w], self.kinds[w].outputs]
            names += [f"t{w}", f"y{w}"]
        shape += [*(self.points[w] for w in after), *(self.tiles[w] for w in after)]
        names += [*(f"p{w}" for w in after), *(f"t{w}" for w in after)]
        return self.stage(shape, names, element, f"_rows{axis or ''}")
