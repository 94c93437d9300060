"""The binary operators, and the types that each is defined for."""

from __future__ import annotations

from functools import cache

from tensorir import dtype as dt
from tensorir.errors import TensorIRError

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "min", "max")
BITWISE = ("&", "|", "^", "<<", ">>")
COMPARISONS = ("<", "<=", "==", "!=")
LOGICAL = ("and", "or")
BINARY_OPS = ARITHMETIC + BITWISE + COMPARISONS + LOGICAL

OF_FLOATS = {"//": "floordiv", "%": "floormod"}
"""Functions that floats have in place of operators of integers."""


@cache
def is_defined(op: str, dtype: str) -> bool:
    """Whether `op` of two operands of that type is an operation of their type."""
    try:
        check_operator(op, dtype)
    except TensorIRError:
        return False
    return dt.element(dtype) not in dt.STORAGE_ONLY


@cache
def check_operator(op: str, dtype: str) -> None:
    """Raise TensorIRError unless `op` is defined for operands of that type."""
    kind = dt.element(dtype)
    if kind in dt.STORAGE_ONLY and op not in ("==", "!="):
        raise TensorIRError(
            f"{kind} is a storage type; compute in float32: .astype('float32') before {op!r}"
        )
    if op in LOGICAL and kind != "bool":
        raise TensorIRError(f"{op!r} needs bool operands, not {kind}; compare with 0 first")
    if kind == "bool" and op not in (*LOGICAL, "==", "!="):
        raise TensorIRError(f"{op!r} is not defined for bool; convert with .astype('int32')")
    if op in ("//", "%", *BITWISE) and not dt.is_int(kind):
        hint = f"; {OF_FLOATS[op]}(a, b) is for floats" if op in OF_FLOATS else ""
        raise TensorIRError(f"{op!r} needs integers, not {kind}{hint}")
    if op == "/" and not dt.is_float(kind):
        raise TensorIRError(f"'/' needs floats, not {kind}; use '//' or .astype('float32')")
    if op not in BINARY_OPS:
        raise TensorIRError(f"{op!r} is no operator of {kind}")
