"""What a program with the stages of Winograd's algorithm is made of, found by what they access."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedule.analysis.uses import writers
from schedule.errors import Refusal
from schedule.library.contraction.places import store_of
from schedule.library.winograd.stages import Winograd
from schedule.schedule import Schedule
from tensorir import (
    BinOp,
    Block,
    Buffer,
    Const,
    Expr,
    Load,
    Store,
    Var,
    body_loads,
    int_value,
    variables,
    walk_exprs,
)


def find_winograd(sch: Schedule, block: str) -> Winograd:
    """The stages around `block`, which sums the products.

    Raises Refusal for a block that is no such sum, or where a stage is missing or differs.
    """
    return _Finder(sch, block).found()


class _Finder:
    def __init__(self, sch: Schedule, block: str) -> None:
        self.sch, self.block = sch, block
        self.node = sch.state.block(block)
        self.store = store_of(sch, block)

    def lacks(self, what: str) -> Refusal:
        return Refusal(
            f"block {self.block!r} is not between the transforms of Winograd's algorithm: {what}; "
            "make them by use_algorithm or ops.conv2d_winograd, and schedule them before all else"
        )

    def need(self, condition: bool, what: str) -> None:
        if not condition:
            raise self.lacks(what)

    def found(self) -> Winograd:
        self.need(self.node.is_reduction, "it is no reduction")
        loads = body_loads(self.node)
        self.need(len(loads) == 2, f"it reads {len(loads)} operands, not two")
        for image, weight in (loads, loads[::-1]):
            inputs = self.transforms_before(image.buffer)
            count = len(inputs)
            at = self.store.indices
            tiles = image.indices[image.buffer.ndim - count :]
            if inputs and tiles == at[len(at) - count :] and not self.shared(tiles, weight):
                return self.with_operands(image, weight, inputs)
        raise self.lacks("neither operand is made of tiles of an image")

    def shared(self, indices: Sequence[Expr], load: Load) -> bool:
        return any(not load.variables.isdisjoint(variables(index)) for index in indices)

    def with_operands(self, image: Load, weight: Load, inputs: list[str]) -> Winograd:
        sch, count = self.sch, len(inputs)
        lead = self.store.indices[:count]
        same = image.indices[:count] == lead == weight.indices[:count]
        self.need(same, "its operands have no points of tiles in front")
        pad = self.copier(inputs[0])
        strips = self.copier(pad)
        weights = self.transforms_before(weight.buffer) or self.rounded(weight.buffer)
        self.need(len(weights) in (0, 1, count), "the weights are transformed along other windows")
        results = self.transforms_after(count)
        tiles = self.sizes(self.store.buffer.shape[self.store.buffer.ndim - count :])
        points = self.sizes(self.store.buffer.shape[:count])
        self.need({*points} <= {4, 6}, "tiles have 4 or 6 points; of others some are left out")
        rest = self.store.indices[count : len(self.store.indices) - count]
        filter_at, period = self.filter_of(rest, image, weight)
        channel = self.channel_of(image.indices[count : image.buffer.ndim - count])
        stages = [pad, *inputs, *results[:-1]]
        plain = all(self.is_plain(stage) for stage in (*stages, strips, *weights))
        self.need(plain, "a stage stores elsewhere than at its own variables")
        names = [f"s{n}" for n in range(len(rest))]
        names[filter_at] = "f"
        outputs, result = self.result_of(results, names, count)
        stored = store_of(sch, results[-1]).buffer
        extents = {it.var: int_value(it.extent) for it in self.node.iters}
        others = [extents.get(v) if isinstance(v, Var) else 1 for v in rest]
        del others[filter_at]
        filters = next(it.extent for it in self.node.iters if it.var is rest[filter_at])
        sizes = self.sizes((image.buffer.shape[count + channel], filters))
        terms = prod(int_value(it.extent) or 0 for it in self.node.reduced)
        some = bool(prod(tiles) and all(sizes)) and terms > 0 and 0 not in others
        self.need(some, "it is empty; there is nothing to schedule")
        read = body_loads(sch.state.block(weights[0])) if weights else [weight]
        return Winograd(
            strips, pad, tuple(inputs), tuple(weights), self.block, tuple(results), outputs, points,
            tiles, result, self.has_channels_last(strips, channel), channel, sizes[0], filter_at,
            sizes[1], period or sizes[1], int_value(stored.shape[result.index("f")]) or 0,
            None if None in others else prod(n or 0 for n in others), terms,
            self.store.buffer.dtype, weight.buffer.name, read[0].buffer.name,
            self.filter_dim(rest[filter_at], weight),
        )  # fmt: skip

    def filter_dim(self, var: Expr, weight: Load) -> int:
        found = [n for n, index in enumerate(weight.indices) if index is var]
        self.need(len(found) == 1, "the weights have no dimension that is the filters alone")
        return found[0]

    def sizes(self, shape: Sequence[Expr]) -> tuple[int, ...]:
        found = [int_value(size) for size in shape]
        self.need(None not in found, "sizes of windows and channels must be numbers")
        return tuple(size or 0 for size in found)

    # stages

    def transforms_before(self, buffer: Buffer) -> list[str]:
        """The stages that make a buffer, each out of several elements of the one before."""
        found: list[str] = []
        maker = self.maker(buffer)
        while maker is not None and (source := self.combined(maker)) is not None:
            found.insert(0, maker)
            maker = self.maker(source)
        return found

    def maker(self, buffer: Buffer) -> str | None:
        makers = writers(self.sch.state, buffer)
        return makers[0] if len(makers) == 1 else None

    def combined(self, stage: str) -> Buffer | None:
        """What a transform reads: the one buffer that it loads from at several places of one
        dimension."""
        node = self.sch.state.block(stage)
        if node.is_reduction or not isinstance(node.body, Store):
            return None
        loads = body_loads(node)
        for buffer in dict.fromkeys(load.buffer for load in loads):
            mine = [load.indices for load in loads if load.buffer is buffer]
            moved = [len(set(places)) > 1 for places in zip(*mine)]
            if len(mine) >= 3 and sum(moved) == 1:
                return buffer
        return None

    def copier(self, user: str) -> str:
        """The stage that copies, for `user` alone, what that reads."""
        loads = body_loads(self.sch.state.block(user))
        maker = self.maker(loads[0].buffer) if loads else None
        good = maker is not None and len(body_loads(self.sch.state.block(maker))) == 1
        self.need(good, f"nothing pads what stage {user!r} reads")
        assert maker is not None
        alone = [str(name) for name in self.sch.get_consumers(maker)] == [user]
        self.need(alone, f"others than {user!r} read what stage {maker!r} makes")
        return maker

    def rounded(self, buffer: Buffer) -> list[str]:
        """The stage that copies transformed weights with zeros for filters that round up."""
        maker = self.maker(buffer)
        if maker is None or len(body_loads(self.sch.state.block(maker))) != 1:
            return []
        return [maker] if [*map(str, self.sch.get_consumers(maker))] == [self.block] else []

    def transforms_after(self, count: int) -> list[str]:
        found: list[str] = []
        stage = self.block
        for _ in range(count):
            users = [str(name) for name in self.sch.get_consumers(stage)]
            made = store_of(self.sch, stage).buffer
            good = len(users) == 1 and self.combined(users[0]) is made
            self.need(good, f"no stage alone transforms what {stage!r} makes")
            stage = users[0]
            found.append(stage)
        return found

    def is_plain(self, stage: str) -> bool:
        node = self.sch.state.block(stage)
        return store_of(self.sch, stage).indices == tuple(it.var for it in node.iters)

    # dimensions

    def filter_of(self, rest: Sequence[Expr], image: Load, weight: Load) -> tuple[int, int | None]:
        """Which of the other dimensions of the sums the filters are, and how many of them have the
        same channels."""
        extents = {it.var: int_value(it.extent) or 0 for it in self.node.iters}
        used, own = image.variables, weight.variables
        options = []
        for n, var in enumerate(rest):
            if isinstance(var, Var) and var in own:
                period = None if var not in used else _divisor(image.indices, var)
                if var not in used or period:
                    options.append((var not in used, extents[var], -n, period))
        self.need(bool(options), "the result has no axis that only the weights have")
        _, _, n, period = max(options, key=lambda o: o[:3])
        return -n, period

    def channel_of(self, indices: Sequence[Expr]) -> int:
        """Which of the other dimensions of the image the longest sum runs over."""
        sums = {it.var: int_value(it.extent) for it in self.node.reduced}
        options = [
            (max(sums.get(v) or 0 for v in variables(index)), -n)
            for n, index in enumerate(indices)
            if set(variables(index)) & set(sums)
        ]
        self.need(bool(options), "it sums over no dimension of the image")
        self.need(None not in sums.values(), "the extents of its sums must be numbers")
        return -max(options)[1]

    def has_channels_last(self, strips: str, channel: int) -> bool:
        """Whether channels are neighbours in the image that the strips read."""
        node = self.sch.state.block(strips)
        (load,) = body_loads(node)
        return load.indices[-1] is node.iters[channel].var

    def result_of(
        self, results: Sequence[str], names: Sequence[str], count: int
    ) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The sums of a tile along each window, and what each dimension of the result is."""
        node = self.sch.state.block(results[-1])
        source = store_of(self.sch, results[-2] if count > 1 else self.block)
        load = next(n for n in body_loads(node) if n.buffer is source.buffer)
        at = list(load.indices[1:] if count == 1 else load.indices)
        roles: dict[Var, str] = {}
        for name in names:
            index = at.pop(0)
            if isinstance(index, Var):
                roles[index] = name
        outputs = []
        for w in range(count - 1):
            for index in (at.pop(0), at.pop(0)):
                roles.update((v, f"h{w}") for v in variables(index))
            stage = store_of(self.sch, results[w]).buffer
            outputs.append(int_value(stage.shape[len(names) + 2 * w + 1]) or 0)
        last = at[-1]
        own = [v for v in store_of(self.sch, results[-1]).indices if isinstance(v, Var)]
        left = [v for v in own if v not in roles and _extent(node, v) != 1]
        left += [v for v in own if v not in roles and v not in left][: 0 if left else 1]
        self.need(len(left) <= 1, "the result has a dimension that is no window's")
        roles.update((v, f"h{count - 1}") for v in left)
        outputs.append(_divisor([last]) or (_extent(node, left[0]) if left else 1) or 1)
        found: list[str] = []
        for index in store_of(self.sch, results[-1]).indices:
            self.need(not variables(index) or isinstance(index, Var), "the result is permuted")
            unit = f"u{len(found)}"
            found.append(roles.get(index, unit) if isinstance(index, Var) else unit)
        units = [n for n, name in enumerate(found) if name[0] == "u"]
        if "f" not in found and units:
            found[units[-1]] = "f"
        self.need("f" in found, "the result has no dimension for the filters")
        return tuple(outputs), tuple(found)


def _extent(node: Block, var: Var) -> int | None:
    return next(int_value(it.extent) for it in node.iters if it.var is var)


def _divisor(indices: Sequence[Expr], var: Var | None = None) -> int | None:
    """What indices divide a variable, or one of any, by: so many of its values they do not tell
    apart. None where that is no one number."""
    found = {
        int(part.b.value)
        for index in indices
        for part in walk_exprs(index)
        if isinstance(part, BinOp) and part.op == "//" and (var is None or part.a is var)
        if isinstance(part.b, Const)
    }
    return found.pop() if len(found) == 1 else None
