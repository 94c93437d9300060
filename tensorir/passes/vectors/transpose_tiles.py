"""transpose_tiles: tiles that are read along one axis and written along the other, in registers.

All that moves lanes, here and in strided_loads.py and lane_patterns.py, are Shuffles, which C has
as `__builtin_shufflevector`: gcc from 12 on, and clang.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from tensorir import dtype as dt
from tensorir.arith.slope import slope
from tensorir.buffer import Buffer
from tensorir.expr import Cast, Const, Expr, Load, Select
from tensorir.func import PrimFunc
from tensorir.names import Names
from tensorir.passes.facts.ranges import function_analyzer
from tensorir.passes.rewriting import replace_exprs, with_body
from tensorir.passes.vectors.pad_rows import ROWS
from tensorir.passes.vectors.strided_loads import FREE_BITS, shuffles
from tensorir.passes.vectors.strides import MOST_STRIDE
from tensorir.passes.vectors.transpose_network import Row, network
from tensorir.stmt import Alloc, For, ForKind, Seq, Stmt, Store, replace, seq
from tensorir.vector_expr import Ramp, Shuffle
from tensorir.visit import children, loads, map_children, substitute, variables, walk

LEAST = 4
"""Tiles with fewer rows or columns are left to strided access."""

BLOCK_BITS = 128
"""Vectors of x86 are made of blocks in which, and of which, shuffles need no table of lanes."""


def transpose_tiles(
    func: PrimFunc, vector_bits: int = 128, masked_bits: Collection[int] = ()
) -> PrimFunc:
    """Read tiles in vectors along one axis, transpose them by shuffles, and write along the other.

    rewrite:  (128 bits, float32)
        for i in unrolled(4):                 for j in unrolled(4):
            for j in vectorized(4):               for i in vectorized(4):
                B[i * 8 + j] = A[j * 8 + i]           T[j * 4 + i] = A[j * 8 + i]
                                         ->   T_1[ramp(0, 1, 4)] = shuffle(T[...], T[...], 0, 4, ..)
                                              ...
                                              for i in unrolled(4):
                                                  for j in vectorized(4):
                                                      B[i * 8 + j] = T_2[i * 4 + j]

    A nest of an unrolled and a vectorized loop, in either order, is such a tile where the store is
    contiguous along one of them and a load along the other only, whose conditions, if it has any,
    are the same along the other, as those of rows that fill up a panel, and which has elements of
    the result's size or is converted to such. Sides are cut into powers of two of at most
    `vector_bits`; fewer than LEAST rows or columns that are left are part of a last tile, which
    stores some elements twice. What fills more than half of a last vector is read as one, with
    zeros of which nothing is stored, where elements have `masked_bits` bits (masked_tails). Rows
    of A that follow each other in memory are read several at a time where vectors have FREE_BITS.
    Requires that flatten_buffers ran.
    """
    if not any(isinstance(s, For) and s.kind is ForKind.VECTORIZED for s in walk(func.body)):
        return func
    run = _Transpose(func, vector_bits, masked_bits)
    result = with_body(func, run.stmt(func.body))
    if not run.rows:
        return result
    rows = {**func.attrs.get(ROWS, {}), **run.rows}
    return replace_fields(result, attrs={**func.attrs, ROWS: rows})


@dataclass(frozen=True)
class _Tile:
    """The store is contiguous along `across`, and what is loaded along `down`."""

    store: Store
    down: For
    across: For


class _Transpose:
    def __init__(self, func: PrimFunc, vector_bits: int, masked_bits: Collection[int]) -> None:
        self.analyzer = function_analyzer(func)
        self.vector_bits, self.masked_bits = vector_bits, masked_bits
        self.rows: dict[str, list[int]] = {}
        taken = [s.buffer.name for s in walk(func.body) if isinstance(s, Alloc)]
        self.names = Names({*taken, *(b.name for b in func.params)})

    def stmt(self, stmt: Stmt) -> Stmt:
        tile = self.tile(stmt)
        if tile is not None:
            return self.cut(tile)
        result = map_children(stmt, self.stmt)
        return seq(*result.stmts) if isinstance(result, Seq) and result is not stmt else result

    def tile(self, stmt: Stmt) -> _Tile | None:
        inner = stmt.body if isinstance(stmt, For) else None
        if not isinstance(stmt, For) or not isinstance(inner, For):
            return None
        kinds = {stmt.kind, inner.kind}
        store = inner.body
        if kinds != {ForKind.UNROLLED, ForKind.VECTORIZED} or not isinstance(store, Store):
            return None
        if any(f.const_extent is None or f.const_extent < LEAST for f in (stmt, inner)):
            return None
        for down, across in ((stmt, inner), (inner, stmt)):
            if self.is_tile(store, down, across):
                return _Tile(store, down, across)
        return None

    def is_tile(self, store: Store, down: For, across: For) -> bool:
        target = store.buffer
        if dt.is_bool(target.dtype) or dt.lanes(target.dtype) > 1:
            return False
        if slope(store.indices[0], across.var, self.analyzer) != 1:
            return False
        if any(load.buffer is target for load in loads(store.value)):
            return False
        rows = slope(store.indices[0], down.var, self.analyzer)
        if down.kind is ForKind.VECTORIZED and rows == across.const_extent:
            narrow = dt.bits(target.dtype) < 32
            if self.is_near(rows) and (narrow or (rows or 0) & (rows or 0) - 1):
                return False  # rows that follow each other, which strided_loads interleaves
        sizes = {dt.itemsize(e.dtype) for e in self.sources(store, down, across)}
        return sizes == {dt.itemsize(target.dtype)}

    def sources(self, store: Store, down: For, across: For) -> list[Expr]:
        """The parts of what is stored that are read along `down` and change along `across`; what is
        converted to the size of the result is turned afterwards."""
        size = dt.itemsize(store.buffer.dtype)
        found: dict[Expr, None] = {}
        seen: set[Expr] = set()

        def visit(e: Expr) -> None:
            if e in seen:
                return
            seen.add(e)
            load = e
            if isinstance(e, Cast) and dt.itemsize(e.dtype) == size != dt.itemsize(e.a.dtype):
                load = e.a
            if isinstance(load, Select) and isinstance(load.a, Load) and isinstance(load.b, Const):
                load = load if down.var in variables(load.cond) else load.a
            if isinstance(load, Load) and self.crosses(load, down, across):
                found[e] = None
            elif isinstance(e, Select):
                visit(e.cond)  # what is read on one side only may lie outside of the buffer
            else:
                for child in children(e):
                    visit(child)

        visit(store.value)
        return list(found)

    def crosses(self, load: Load, down: For, across: For) -> bool:
        index = load.indices[0]
        if not {down.var, across.var} <= variables(index) or dt.is_bool(load.dtype):
            return False
        along, over = (slope(index, loop.var, self.analyzer) for loop in (down, across))
        return along == 1 and over != 1 and not self.is_left(over, dt.bits(load.dtype))

    def is_near(self, step: int | None) -> bool:
        """Whether strided_loads knows elements so far apart."""
        return step is not None and 2 <= step <= MOST_STRIDE and self.vector_bits >= FREE_BITS

    def is_left(self, over: int | None, bits: int) -> bool:
        """Whether rows so far apart are left to strided_loads, which takes as few shuffles as here,
        where sides are powers of two; of bytes and pairs they are half the work (merges)."""
        if over is None or not self.is_near(over) or not over & (over - 1):
            return False
        rounds = (over - 1).bit_length()
        return shuffles(over, range(over)) <= (rounds << rounds) * (1 if bits >= 32 else 2)

    def cut(self, tile: _Tile) -> Stmt:
        """The tile in pieces whose sides are powers of two."""
        bits = 8 * dt.itemsize(tile.store.buffer.dtype)
        lanes = max(2, self.vector_bits // bits)
        pieces: list[Stmt] = []
        for top, height in _pieces(tile.down, lanes, bits in self.masked_bits):
            for left, width in _pieces(tile.across, lanes):
                down, across = tile.down.var, tile.across.var
                corner: dict[Expr, Expr] = {down: down + top, across: across + left}
                count = min(height, (tile.down.const_extent or 0) - top)
                pieces.append(self.piece(tile, corner, count, width))
        return seq(*pieces)

    def piece(self, tile: _Tile, corner: dict[Expr, Expr], height: int, width: int) -> Stmt:
        """`height` iterations of `tile.down` and `width` of `tile.across`, from `corner` on."""
        store = replace_exprs(tile.store, corner)
        assert isinstance(store, Store)
        down = replace(tile.down, extent=_const(height), kind=ForKind.UNROLLED)
        across = replace(tile.across, extent=_const(width), kind=ForKind.VECTORIZED)
        if min(height, width) < LEAST:
            return replace(down, body=replace(across, body=store))
        before: list[Stmt] = []
        buffers: list[Buffer] = []
        changes: dict[Expr, Expr] = {}
        for source in self.sources(store, down, across):
            rounds, made = self.transposed(source, down, across)
            changes[source] = Load(made[-1], (down.var * width + across.var,))
            before += rounds
            buffers += made
        body: Stmt = replace(down, body=replace(across, body=replace_exprs(store, changes)))
        body = seq(*before, body)
        for buffer in reversed(buffers):
            body = Alloc(buffer, body)
        return body

    def transposed(self, source: Expr, down: For, across: For) -> tuple[list[Stmt], list[Buffer]]:
        """The statements that read a tile and transpose it, and the buffers of each round. Lanes of
        the last vectors that are none of `down` are 0."""
        count, width = down.const_extent or 0, across.const_extent or 0
        height = 1 << (count - 1).bit_length()
        tile = self.buffer(source, height * width)
        beside = width // height if self.is_run(source, down, across) else 1
        rows = replace(across, kind=ForKind.UNROLLED, extent=_const(width // beside))
        columns = replace(down, kind=ForKind.VECTORIZED, extent=_const(count * beside))
        read = substitute(source, {across.var: across.var * beside})
        store = Store(tile, (across.var * (height * beside) + down.var,), read)
        statements: list[Stmt] = [replace(rows, body=replace(columns, body=store))]
        if count < height:
            self.rows[tile.name] = [count, height]
            nothing = replace(store, value=Const(0, tile.dtype))
            whole = replace(columns, extent=_const(height), body=nothing)
            statements.insert(0, replace(rows, body=whole))
        buffers = [tile]
        block = max(1, BLOCK_BITS // (8 * dt.itemsize(source.dtype)))
        for step in network(width, height, block, beside):
            made = self.buffer(source, height * width)
            statements += [_shuffle(buffers[-1], made, row) for row in step]
            buffers.append(made)
        return statements, buffers

    def is_run(self, source: Expr, down: For, across: For) -> bool:
        """Whether a tile of more rows than columns is read from one piece of memory, whose vectors
        have several rows each: only the place that is loaded may change within it."""
        height, width = down.const_extent or 0, across.const_extent or 0
        load = source.a if isinstance(source, Cast) else source
        if self.vector_bits < FREE_BITS or width <= height or not isinstance(load, Load):
            return False
        return slope(load.indices[0], across.var, self.analyzer) == height

    def buffer(self, source: Expr, size: int) -> Buffer:
        name = self.names.unique(f"{next(loads(source)).buffer.name}_tile")
        return Buffer(name, (_const(size),), source.dtype, "local")


def _pieces(loop: For, lanes: int, masked: bool = False) -> list[tuple[int, int]]:
    """Start and length of powers of two, at most `lanes`, that make up the iterations of `loop`.
    The last piece begins earlier than where another one ends, rather than be too short; where it
    may be `masked`, it ends later rather than be two."""
    extent, start, found = loop.const_extent or 0, 0, []
    least, rest = min(LEAST, lanes), extent % lanes
    if masked and rest > lanes // 2 and rest & (rest - 1):
        return [(start, lanes) for start in range(0, extent, lanes)]
    while start < extent:
        start = min(start, max(0, extent - least))
        while lanes > extent - start:
            lanes //= 2
        found.append((start, lanes))
        start += lanes
    return found


def _shuffle(old: Buffer, new: Buffer, row: Row) -> Stmt:
    """One vector of a round."""
    first, second, lanes, to, chosen = row
    a, b = (Load(old, (_vector(n, lanes),)) for n in (first, second))
    return Store(new, (_vector(to, len(chosen)),), Shuffle(a, b, chosen))


def _vector(row: int, lanes: int) -> Ramp:
    return Ramp(_const(row * lanes), _const(1), lanes)


def _const(value: int) -> Const:
    return Const(value, dt.INDEX)
