"""Which products an intrinsic computes, and what part each loop of them plays."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from schedule.analysis.uses import plain_store
from schedule.errors import Illegal, require
from schedule.library.tensorized_tile import FEW_ROWS, block_tiles, dot_tile
from schedule.schedule import Schedule
from tensorir import (
    INTRINS,
    BinOp,
    Block,
    Cast,
    Const,
    Expr,
    Load,
    Store,
    TensorIntrin,
    Var,
    checked,
    find_intrin,
    int_value,
    variables,
)

TILE_SIDE = 16
"""Rows and columns of sums that one multiplication of tiles adds to."""


class Shape(NamedTuple):
    """What an intrinsic computes at once: `rows` and `columns` of sums, of `steps` times `group`
    terms each. A dot product has one row, and one step."""

    rows: int
    columns: int
    steps: int
    group: int

    @property
    def terms(self) -> int:
        """Of each sum."""
        return self.steps * self.group


class Roles(NamedTuple):
    """The loops of a product C[b, r, i, j] = sum of A[b, r, i, w, k] * B[b, w, k, j] by role.

    batch    loops that index both operands and the result
    outer    loops over rows, but for the last one, `row`
    windows  loops of the sum but for `depth`, such as those over the taps of a convolution
    order    all loops in the order of the block's variables
    weight_order  those of the dimensions of B
    rows     the extent of `row`, None where it is symbolic; likewise columns
    at_once  what the intrinsic computes
    by_rows  whether `depth` comes before `column` in B
    plain    whether all operands are read at variables, so that they can be padded
    shared   whether A is the same for some loops of the batch: more columns, in another place
    """

    batch: tuple[str, ...]
    outer: tuple[str, ...]
    row: str
    column: str
    windows: tuple[str, ...]
    depth: str
    order: tuple[str, ...]
    rows: int | None
    columns: int | None
    terms: int | None
    weight: Load
    weight_order: tuple[str, ...]
    at_once: Shape
    by_rows: bool
    plain: bool
    shared: bool

    @property
    def lanes(self) -> int:
        """Columns that the intrinsic computes at once."""
        return self.at_once.columns

    @property
    def group(self) -> int:
        """Terms of a column that lie side by side in the packed operand."""
        return self.at_once.group

    @property
    def by_tiles(self) -> bool:
        """Whether the intrinsic computes several rows at once."""
        return self.at_once.rows > 1

    def tile(
        self, columns: int | None = None, rows: int | None = None, epilogue: bool = False
    ) -> tuple[int, int]:
        """Rows and columns of a register tile, as far as they are not given."""
        if self.by_tiles:
            own = self.at_once
            return own.rows if rows is None else rows, own.columns if columns is None else columns
        exact = not self.plain
        return dot_tile(self.lanes, self.columns, rows, columns, self.rows, exact, epilogue)

    def block(self, high: int) -> int:
        """Register tiles of `high` rows in a block of rows."""
        return block_tiles(self.rows, high)


def known_intrinsic(where: str, name: str) -> TensorIntrin:
    """The intrinsic of that name, which has to be one of products; refuses others."""
    intrin = find_intrin(name)
    if intrin is not None and product_shape(intrin) is not None:
        return intrin
    every = ", ".join(n for n, each in INTRINS.items() if product_shape(each) is not None)
    reason = "not known" if intrin is None else "none of products"
    raise Illegal(where, f"intrinsic {name!r} is {reason}; those of products are {every}")


def product_shape(intrin: TensorIntrin) -> Shape | None:
    """What an intrinsic computes that means C[j] += sum of A[k] * B[j, k], a dot product, or
    C[i, j] += sum of A[i, k, g] * B[k, j, g], a product of tiles; None for others."""
    sizes = tuple(loop.const_extent or 0 for loop in intrin.nest.loops)
    shapes = [param.const_shape for param in intrin.func.params]
    if len(sizes) == 2 and shapes == [sizes[1:], sizes, sizes[:1]]:
        return Shape(1, sizes[0], 1, sizes[1])
    if len(sizes) != 4:
        return None
    i, j, k, g = sizes
    return Shape(i, j, k, g) if shapes == [(i, k, g), (k, j, g), (i, j)] else None


def has_tiles(features: Collection[str]) -> bool:
    """Whether a target with `features` has any product of tiles."""
    shapes = (product_shape(each) for each in INTRINS.values() if each.runs_on(features))
    return any(shape is not None and shape.rows > 1 for shape in shapes)


@checked
def find_products(
    sch: Schedule, block: str, features: Collection[str], tiles: bool
) -> list[tuple[TensorIntrin, Roles]]:
    """The products, of `tiles` or dot products, that a target with `features` has for a block, and
    its roles in each, for `tensorized_matmul`.

    None where the block does not multiply and add elements of the types that an intrinsic takes, in
    an order of axes that can be scheduled.
    """
    factors, found = factors_of(sch.state.block(block)), list[tuple[TensorIntrin, Roles]]()
    types = sorted(load.buffer.dtype for load in factors or ())
    for intrin in INTRINS.values():
        if not factors or not intrin.runs_on(features):  # what is not asked for is not parsed
            continue
        shape, taken = product_shape(intrin), sorted(p.dtype for p in intrin.func.params[:2])
        if taken == types and shape is not None and (shape.rows > 1) == tiles:
            with suppress(Illegal):
                found.append((intrin, roles_of(sch, block, intrin)))
    return found


def roles_of(sch: Schedule, block: str, intrin: TensorIntrin) -> Roles:
    """The parts that the loops of a block play; refuses a block that is no product of its kind."""
    node = sch.state.block(block)
    factors, store = factors_of(node), plain_store(node)
    none = f"block {block!r} is no product of two matrices"
    require(factors is not None, block, none)
    assert factors is not None and store is not None
    column = store.indices[-1]
    weights = [load for load in factors if column in load.indices]
    data = [load for load in factors if column not in load.variables]
    require(len(weights) == len(data) == 1, block, none)
    a, b = data[0], weights[0]
    require(
        a.buffer is not b.buffer,
        block,
        f"block {block!r} multiplies {a.buffer.name!r} with itself",
        "compute a copy of it for one of the two",
    )
    mine = [access.buffer.dtype for access in (a, b, store)]
    wanted = [param.dtype for param in intrin.func.params]
    require(
        mine == wanted,
        block,
        f"intrinsic {intrin.name!r} multiplies {wanted[0]} and {wanted[1]} into {wanted[2]}, and "
        f"block {block!r} {mine[0]} and {mine[1]} into {mine[2]}",
    )
    depth = a.indices[-1]
    reduced = {it.var for it in node.reduced}
    once = sum(depth in variables(i) for i in a.indices) == 1
    plain_b = all(isinstance(i, Var) for i in b.indices) and len(set(b.indices)) == len(b.indices)
    require(depth in reduced and once and plain_b and depth in b.indices, block, none)
    return _by_role(node, intrin, a, b, store.indices)


def _by_role(node: Block, intrin: TensorIntrin, a: Load, b: Load, own: tuple[Expr, ...]) -> Roles:
    where, column, depth = node.name, own[-1], a.indices[-1]
    used = a.variables
    batch = [v for v in own if v in b.indices and v is not column]
    rows = [v for v in own if v not in b.indices]
    sizes: dict[Expr, int | None] = {it.var: int_value(it.extent) for it in node.iters}
    # Those of extent 1 index neither operand; a tile wants the last axis, unless it is short.
    rows.sort(key=lambda v: (v in used, min(FEW_ROWS + 1, sizes[v] or FEW_ROWS + 1)))
    none = f"block {where!r} is no product of two matrices"
    require(bool(rows) and rows[-1] in used, where, none)
    names: dict[Expr, str] = {
        it.var: it.binding.name for it in node.iters if isinstance(it.binding, Var)
    }
    changed = f"the loops of block {where!r} were changed before"
    require(len(names) == len(node.iters), where, changed, "schedule products before other steps")
    empty = next((names[var] for var in names if sizes[var] == 0), None)
    idle = f"loop {empty!r} has no iterations"
    require(empty is None, where, idle, "leave the loops as they are")
    shape = product_shape(intrin)
    assert shape is not None
    return Roles(
        batch=tuple(names[v] for v in batch),
        outer=tuple(names[v] for v in rows[:-1]),
        row=names[rows[-1]],
        column=names[column],
        windows=tuple(names[it.var] for it in node.reduced if it.var is not depth),
        depth=names[depth],
        order=tuple(names[it.var] for it in node.iters),
        rows=sizes[rows[-1]],
        columns=sizes[column],
        terms=sizes[depth],
        weight=b,
        weight_order=tuple(names[v] for v in b.indices),
        at_once=shape,
        by_rows=b.indices.index(depth) < b.indices.index(column),
        plain=all(isinstance(i, Var) for i in a.indices),
        shared=any(v not in used for v in batch),
    )


def factors_of(node: Block) -> tuple[Load, Load] | None:
    """The two elements that a block multiplies and adds up from 0 on; None for other blocks."""
    store, init = plain_store(node), node.init
    if store is None or not isinstance(init, Store) or not isinstance(store.value, BinOp):
        return None
    spatial = {it.var for it in node.spatial}
    zero = isinstance(init.value, Const) and init.value.value == 0
    if store.value.op != "+" or not zero or not store.indices or spatial != set(store.indices):
        return None
    own = Load(store.buffer, store.indices)
    terms = [part for part in (store.value.a, store.value.b) if part is not own]
    if len(terms) != 1 or not isinstance(terms[0], BinOp) or terms[0].op != "*":
        return None
    sides = [side.a if isinstance(side, Cast) else side for side in (terms[0].a, terms[0].b)]
    a, b = sides
    if not isinstance(a, Load) or not isinstance(b, Load):
        return None
    return (a, b) if a.indices and b.indices else None  # a single number has no axes
