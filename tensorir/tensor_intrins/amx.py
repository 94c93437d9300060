"""Tensor intrinsics of AMX: products of tiles of bytes and of bfloat16.

A tile register has 16 rows of 64 bytes. One multiplication adds to 16 x 16 sums what 64 bytes of 16
rows and of 16 columns give; an intrinsic has several tiles of sums side by side, so that rows and
columns that are loaded serve several of them. The sums may stay in registers from one call to the
next (`TensorIntrin.tiles`); gcc has no type for these, so texts name them by number. Its own macros
do not say which memory they access (gcc 12), which those of `backends/c/tiles.py` do.
"""

from __future__ import annotations

from functools import cache

from tensorir import dtype
from tensorir.tensor_intrins.meanings import tile, zeros
from tensorir.tensorize.tensor_intrin import TensorIntrin

SIDE = 16
"""Rows of a tile, columns of sums, and groups of four bytes in a row."""
REGISTERS = 8
SHAPES = ((2, 2), (1, 4), (1, 2), (1, 1))
"""Tiles of sums below and beside each other. Two by two load the least for a product, a single row
of four has fewer rows to fill up."""

BYTES = {
    ("i8", "i8"): "tdpbssd",
    ("i8", "u8"): "tdpbsud",
    ("u8", "i8"): "tdpbusd",
    ("u8", "u8"): "tdpbuud",
}

_SUMS = """\
static inline void ${{NAME}}_in(const {c} *c, i64 c_step) {{
{loads}
}}
static inline void ${{NAME}}_out({c} *c, i64 c_step) {{
{stores}
}}
"""

_PRODUCT = """\
static inline void ${{NAME}}_on(
    const {a} *a, const {b} *b, i64 a_step, i64 a_group, i64 b_step, i64 b_group
) {{
    (void)a_group;
    (void)b_group;
{steps}
}}
static inline void $NAME(
    const {a} *a, const {b} *b, {c} *c, i64 a_step, i64 a_group, i64 b_step, i64 b_group, i64 c_step
) {{
    ${{NAME}}_in(c, c_step);
    ${{NAME}}_on(a, b, a_step, a_group, b_step, b_group);
    ${{NAME}}_out(c, c_step);
}}"""

_ZEROS = """\
static inline void ${{NAME}}_on(void) {{
{steps}
}}
static inline void $NAME({c} *c, i64 c_step) {{
    ${{NAME}}_on();
    ${{NAME}}_out(c, c_step);
}}"""

_C_TYPES = {"i32": "i32", "f32": "float", "i8": "i8", "u8": "u8", "bf16": "bf16"}


def _place(name: str, tiles: int, beside: int) -> str:
    """Where a tile of an operand begins that has so many `tiles` of rows above it."""
    below = f" + {SIDE * tiles} * {name}_step" if tiles else ""
    return f"{name}{below}{f' + {beside}' if beside else ''}"


@cache
def _sums(c: str, rows: int, columns: int) -> str:
    loads = stores = ""
    for n in range(rows * columns):
        at, beside = divmod(n, columns)
        place = _place("c", at, SIDE * beside)
        loads += f"    TILE_LOAD({n}, {place}, 4 * c_step);\n"
        stores += f"    TILE_STORE({n}, {place}, 4 * c_step);\n"
    return _SUMS.format(c=_C_TYPES[c], loads=loads.rstrip(), stores=stores.rstrip())


@cache
def _steps(rows: int, columns: int, group: int, size: int) -> str:
    """One product for each tile of sums; rows stay in registers, columns take turns in the rest.
    The instruction is called CODE."""
    first = rows * columns
    turns = REGISTERS - first - rows
    lines: list[str] = []
    for beside in range(columns):
        other = first + rows + beside % turns
        for at in range(rows):
            if not beside:
                place = _place("a", at, 0)
                lines.append(f"TILE_LOAD({first + at}, {place}, {size} * a_step);")
            if not at:
                place = _place("b", 0, SIDE * group * beside)
                lines.append(f"TILE_LOAD({other}, {place}, {size} * b_step);")
            lines.append(f"TILE_PRODUCT(CODE, {at * columns + beside}, {first + at}, {other});")
    return "\n".join(f"    {line}" for line in lines)


def _product(a: str, b: str, c: str, code: str, rows: int, columns: int) -> TensorIntrin:
    """Of bytes exact: sums wrap, as int32 does.

    Of bfloat16 (Intel SDM, TDPBF16PS) the first and the second element of each pair are added up
    apart, in the order of the terms and from zero on, by fused multiply-adds to nearest; the two
    are added, and then to what was there. Subnormal inputs and results count as zero: "mixed".
    """
    size = dtype.itemsize(dtype.LONG[a])
    group = 4 // size
    steps = _steps(rows, columns, group, size).replace("CODE", code)
    types = {"a": _C_TYPES[a], "b": _C_TYPES[b], "c": _C_TYPES[c]}
    high, wide, terms = SIDE * rows, SIDE * columns, SIDE * group
    return TensorIntrin(
        f"{a if a == 'bf16' else a + b}.tile_{high}x{wide}x{terms}",
        tile(a, b, c, high, wide, SIDE, group),
        _sums(c, rows, columns) + _PRODUCT.format(**types, steps=steps),
        "amx_bf16" if a == "bf16" else "amx_int8",
        {"A": (None, group), "B": (None, group)},
        numerics="mixed" if a == "bf16" else "reassociated",
        tiles=f"{c} {rows}x{columns}",
    )


def _zeros(c: str, rows: int, columns: int) -> TensorIntrin:
    steps = "\n".join(f"    TILE_ZERO({n});" for n in range(rows * columns))
    high, wide = SIDE * rows, SIDE * columns
    return TensorIntrin(
        f"{c}.tile_zeros_{high}x{wide}",
        zeros(c, high, wide),
        _sums(c, rows, columns) + _ZEROS.format(c=_C_TYPES[c], steps=steps),
        "amx_tile",
        tiles=f"{c} {rows}x{columns}",
    )


INTRINSICS = (
    *(_product(*kinds, "i32", code, *at) for kinds, code in BYTES.items() for at in SHAPES),
    *(_product("bf16", "bf16", "f32", "tdpbf16ps", *at) for at in SHAPES),
    *(_zeros(c, *at) for c in ("i32", "f32") for at in SHAPES),
)
