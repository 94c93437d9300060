"""The meanings that several tensor intrinsics share, as printed programs."""

from __future__ import annotations

_AXPY = """
@prim_func
def axpy_{lanes}(A: {kind}[1], B: {kind}[{lanes}], C: {kind}[{lanes}]):
    for j in range({lanes}):
        with block("C"):
            vj = spatial({lanes}, j)
            C[vj] = C[vj] + A[0] * B[vj]
"""

_OUTER = """
@prim_func
def outer_{rows}x{lanes}(A: {kind}[{a}], B: {kind}[{lanes}], C: {kind}[{rows}, {lanes}]):
    for i, j in grid({rows}, {lanes}):
        with block("C"):
            vi = spatial({rows}, i)
            vj = spatial({lanes}, j)
            C[vi, vj] = C[vi, vj] + A[{at}] * B[vj]
"""

_DOT = """
@prim_func
def dot_{lanes}x{group}(A: {a}[{group}], B: {b}[{lanes}, {group}], C: {c}[{lanes}]):
    for j, k in grid({lanes}, {group}):
        with block("C"):
            vj = spatial({lanes}, j)
            vk = reduce({group}, k)
            C[vj] = C[vj] + {c}(A[vk]) * {c}(B[vj, vk])
"""

_TILE = """
@prim_func
def tile_{rows}x{columns}(
    A: {a}[{rows}, {steps}, {group}], B: {b}[{steps}, {columns}, {group}], C: {c}[{rows}, {columns}]
):
    for i, j, k, g in grid({rows}, {columns}, {steps}, {group}):
        with block("C"):
            vi = spatial({rows}, i)
            vj = spatial({columns}, j)
            vk = reduce({steps}, k)
            vg = reduce({group}, g)
            C[vi, vj] = C[vi, vj] + {c}(A[vi, vk, vg]) * {c}(B[vk, vj, vg])
"""

_ZEROS = """
@prim_func
def zeros_{rows}x{columns}(C: {kind}[{rows}, {columns}]):
    for i, j in grid({rows}, {columns}):
        with block("C"):
            vi = spatial({rows}, i)
            vj = spatial({columns}, j)
            C[vi, vj] = {kind}(0)
"""

_PACK = """
@prim_func
def pack_{group}x{lanes}(A: {kind}[{group}, {lanes}], C: {kind}[{lanes}, {group}]):
    for j, k in grid({lanes}, {group}):
        with block("C"):
            vj = spatial({lanes}, j)
            vk = spatial({group}, k)
            C[vj, vk] = A[vk, vj]
"""

_COPY = """
@prim_func
def copy_{rows}x{columns}(A: {kind}[{rows}, {columns}], C: {kind}[{rows}, {columns}]):
    for j, k in grid({rows}, {columns}):
        with block("C"):
            vj = spatial({rows}, j)
            vk = spatial({columns}, k)
            C[vj, vk] = A[vj, vk]
"""

_TRANSPOSE = """
@prim_func
def transpose_{rows}x{columns}x{group}(
    A: {kind}[{rows}, {columns}, {group}], C: {kind}[{columns}, {rows}, {group}]
):
    for j, k, g in grid({rows}, {columns}, {group}):
        with block("C"):
            vj = spatial({rows}, j)
            vk = spatial({columns}, k)
            vg = spatial({group}, g)
            C[vk, vj, vg] = A[vj, vk, vg]
"""


def axpy(kind: str, lanes: int) -> str:
    """C[j] += A * B[j]."""
    return _AXPY.format(kind=kind, lanes=lanes)


def outer(kind: str, rows: int, lanes: int, dense: bool) -> str:
    """C[i, j] += A[i] * B[j]; without `dense`, A is a column of a larger array."""
    a, at = (f"{rows}", "vi") if dense else (f"{rows}, 1", "vi, 0")
    return _OUTER.format(kind=kind, rows=rows, lanes=lanes, a=a, at=at)


def dot(a: str, b: str, c: str, lanes: int, group: int) -> str:
    """C[j] += sum over k of A[k] * B[j, k], in the type of C."""
    return _DOT.format(a=a, b=b, c=c, lanes=lanes, group=group)


def tile(a: str, b: str, c: str, rows: int, columns: int, steps: int, group: int) -> str:
    """C[i, j] += sum over k and g of A[i, k, g] * B[k, j, g], in the type of C."""
    return _TILE.format(a=a, b=b, c=c, rows=rows, columns=columns, steps=steps, group=group)


def zeros(kind: str, rows: int, columns: int) -> str:
    """C[i, j] = 0: what sums begin with."""
    return _ZEROS.format(kind=kind, rows=rows, columns=columns)


def pack(kind: str, group: int, lanes: int) -> str:
    """C[j, k] = A[k, j]: what `dot` wants of the rows of a matrix."""
    return _PACK.format(kind=kind, group=group, lanes=lanes)


def copy(kind: str, rows: int, columns: int) -> str:
    """C[j, k] = A[j, k]: what `dot` wants of the columns of a matrix."""
    return _COPY.format(kind=kind, rows=rows, columns=columns)


def transpose(kind: str, rows: int, columns: int, group: int) -> str:
    """C[k, j, g] = A[j, k, g]: many groups of what `copy` copies one of."""
    return _TRANSPOSE.format(kind=kind, rows=rows, columns=columns, group=group)
