"""Expressions: immutable, interned nodes. Equal expressions are the same object.

    Expr := Const(value, dtype)            a number or a truth value
          | Var(name, dtype)               a loop, block or size variable
          | BinOp(op, a, b)                op in BINARY_OPS; both sides have one dtype
          | Not(a)
          | Cast(dtype, a)
          | Select(cond, a, b)             only the chosen side is evaluated
          | Load(buffer, indices)
          | Call(name, args, dtype)        a math function of tensorir.numbers.intrin
          | Ramp(base, stride, lanes)      a vector of integers (`vector_expr.py`)
          | Broadcast(a, lanes)            a vector of equal values
          | Shuffle(a, b, indices)         lanes of two vectors
          | Reduce(reducer, args, axes, cond, index)   only at the top of a te.compute
          | Rounded(dtype, a)              only while a te.compute is being written

Both operands of `and` and `or` are evaluated: only Select guards a read.
Integer `//` and `%` are floor division and its remainder, as in Python. Because nodes are
interned, `a is b` decides structural equality, hashing is free, and any dict can memoise on nodes.
`a == b` builds a comparison; used as a Python truth value it means `a is b`.

The operator is data (`BinOp.op`), so that printer, interpreter, emitter and rules are tables.
Indices are int64 and count as unbounded, as none wraps for a buffer that fits in memory; narrower
integers wrap, as in C. C's division, which truncates, appears in emitters only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Union

from tensorir import dtype as dt
from tensorir.errors import RangeError, TensorIRError
from tensorir.interning import entry_of, intern
from tensorir.numbers.folding import fold, fold_cast, rounded
from tensorir.numbers.operators import BINARY_OPS as BINARY_OPS
from tensorir.numbers.operators import COMPARISONS as COMPARISONS
from tensorir.numbers.operators import LOGICAL as LOGICAL
from tensorir.numbers.operators import is_defined
from tensorir.sugar import Operators

if TYPE_CHECKING:
    from tensorir.buffer import Buffer


class Expr(Operators["Expr"]):
    """Base of all expressions: arithmetic sugar, and a dtype."""

    __slots__ = ("__weakref__", "dtype")
    fields: tuple[str, ...] = ()
    dtype: str
    operands: tuple["Expr", ...] = ()
    """The direct subexpressions."""
    variables: frozenset["Var"] = frozenset()
    """All variables that occur in it."""
    has_loads: bool = False
    """Whether a load occurs in it."""
    depth: int = 0
    """Operations inside of each other in it."""
    written: int = 1
    """Nodes of its text, where what is used twice is written twice."""
    is_load: ClassVar[bool] = False
    is_variable: ClassVar[bool] = False

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in self.fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __repr__(self) -> str:
        from tensorir.text.printer import format_expr

        return format_expr(self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TensorIRError(
            f"the value of {self!r} is not known while the expression is being written; "
            "use te.if_then_else, te.all or te.any in place of if, and, or"
        )

    def __index__(self) -> int:
        raise TensorIRError(
            f"the value of {self!r} is not known while the expression is being written; "
            "use .astype in place of int and float, and an axis of te.compute in place of range"
        )

    def __float__(self) -> float:
        return float(self.__index__())

    def __getitem__(self, index: object) -> "Expr":
        raise TensorIRError(f"{self!r} is one number, which cannot be indexed with {index!r}")

    def __iter__(self) -> Iterator["Expr"]:
        raise TypeError(f"{type(self).__name__} is not iterable")

    def __eq__(self, other: object) -> Any:
        if other is None or isinstance(other, str):
            return False
        return binary("==", self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Any:
        if other is None or isinstance(other, str):
            return True
        return binary("!=", self, other)  # type: ignore[arg-type]

    def __invert__(self) -> "Expr":
        if not dt.is_bool(self.dtype):
            return super().__invert__()
        return Const(not self.value, self.dtype) if isinstance(self, Const) else Not(self)

    def astype(self, dtype: str) -> "Expr":
        """This value converted to `dtype`; floats to integers truncate towards zero, as in C."""
        return cast(dtype, self)


ExprLike = Union[Expr, int, float, bool]


_SMALL = 1024
_small: dict[int, "Const"] = {}
"""Index constants that are kept, once they were made: most are used again and again."""


class Const(Expr):
    """A number of a given type, rounded to it; the sign of zero is kept, and NaN."""

    __slots__ = ("value",)
    fields = ("value", "dtype")
    value: int | float | bool

    def __new__(cls, value: int | float | bool, dtype: str) -> "Const":
        key: Any
        if dtype == dt.INDEX:
            key = value = int(value)
            kept = _small.get(key)
            if kept is not None:
                return kept
        elif dt.is_float(dtype):
            value = rounded(float(value), dtype)
            key = value.hex()
        elif dt.is_bool(dtype):
            key = value = bool(value)
        else:
            key = value = int(value)
        found: Const = intern(cls, (cls, key, dtype), dtype, (value, dtype))
        if dtype == dt.INDEX and abs(key) <= _SMALL:
            _small[key] = found
        return found

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return super().__index__() if dt.is_float(self.dtype) else int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __neg__(self) -> Expr:
        return super().__neg__() if dt.is_bool(self.dtype) else const(-self.value, self.dtype)


class Var(Expr):
    """A variable; two variables of one name and type are the same variable."""

    __slots__ = ("name", "variables")
    fields = ("name", "dtype")
    is_variable = True
    is_axis: ClassVar[bool] = False
    name: str

    def __new__(cls, name: str, dtype: str = dt.INDEX) -> "Var":
        return intern(cls, (cls, name, dtype), dtype, (name, dtype))  # type: ignore[no-any-return]


class Compound(Expr):
    """Base of the expressions that have parts."""

    __slots__ = ("depth", "has_loads", "operands", "variables", "written")


class BinOp(Compound):
    """A binary operation; comparisons and logic give bool, the rest the type of the operands."""

    __slots__ = ("a", "b", "op")
    fields = ("op", "a", "b")
    op: str
    a: Expr
    b: Expr

    def __new__(cls, op: str, a: Expr, b: Expr) -> "BinOp":
        key = (cls, op, a, b)
        entry = entry_of(key)
        found = None if entry is None else entry()
        if found is not None:
            return found  # type: ignore[no-any-return]
        compares = op in COMPARISONS or op in LOGICAL
        dtype = dt.with_lanes("bool", dt.lanes(a.dtype)) if compares else a.dtype
        return intern(cls, key, dtype, (op, a, b), (a, b))  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        same = self.a is self.b
        if self.op not in ("==", "!=") or not same and any([v.is_axis for v in self.variables]):
            return super().__bool__()  # such as `if i == 0` in a te.compute
        return same == (self.op == "==")


class Not(Compound):
    __slots__ = ("a",)
    fields = ("a",)
    a: Expr

    def __new__(cls, a: Expr) -> "Not":
        return intern(cls, (cls, a), a.dtype, (a,), (a,))  # type: ignore[no-any-return]

    def __invert__(self) -> Expr:
        return self.a


class Cast(Compound):
    __slots__ = ("a",)
    fields = ("dtype", "a")
    a: Expr

    def __new__(cls, dtype: str, a: Expr) -> "Cast":
        return intern(cls, (cls, dtype, a), dtype, (dtype, a), (a,))  # type: ignore[no-any-return]


class Select(Compound):
    """`a` where `cond`, else `b`. The other side is not evaluated, so it may be out of range."""

    __slots__ = ("a", "b", "cond")
    fields = ("cond", "a", "b")
    cond: Expr
    a: Expr
    b: Expr

    def __new__(cls, cond: Expr, a: Expr, b: Expr) -> "Select":
        parts = (cond, a, b)
        return intern(cls, (cls, cond, a, b), a.dtype, parts, parts)  # type: ignore[no-any-return]


class Load(Compound):
    """One element of a buffer (or of a te.Tensor, before create_prim_func)."""

    __slots__ = ("buffer", "indices")
    fields = ("buffer", "indices")
    is_load = True
    buffer: "Buffer"
    indices: tuple[Expr, ...]

    def __new__(cls, buffer: "Buffer", indices: tuple[Expr, ...]) -> "Load":
        key = (cls, buffer, indices)
        entry = entry_of(key)
        found = None if entry is None else entry()
        if found is not None:
            return found  # type: ignore[no-any-return]
        width = max([dt.lanes(i.dtype) for i in indices], default=1)
        dtype = dt.with_lanes(buffer.dtype, width * dt.lanes(buffer.dtype))
        return intern(cls, key, dtype, (buffer, indices), indices)  # type: ignore[no-any-return]


class Call(Compound):
    """A pure function of tensorir.numbers.intrin, such as exp; dtype is that of the result."""

    __slots__ = ("args", "name")
    fields = ("name", "args", "dtype")
    name: str
    args: tuple[Expr, ...]

    def __new__(cls, name: str, args: tuple[Expr, ...], dtype: str) -> "Call":
        values = (name, args, dtype)
        return intern(cls, (cls, *values), dtype, values, args)  # type: ignore[no-any-return]


class Rounded(Compound):
    """A float32 that counts as a float16 or bfloat16 and is rounded to it when it is stored.

    Arithmetic on it goes on in float32, so an expression of narrow floats is rounded once.
    """

    __slots__ = ("a",)
    fields = ("dtype", "a")
    a: Expr

    def __new__(cls, dtype: str, a: Expr) -> "Rounded":
        return intern(cls, (cls, dtype, a), dtype, (dtype, a), (a,))  # type: ignore[no-any-return]

    def rebuild(self, parts: tuple[Expr, ...]) -> Expr:
        return Rounded(self.dtype, parts[0])

    def describe(self) -> str:
        return f"{dt.SHORT[self.dtype]}({self.a!r})"


TRUE = Const(True, "bool")
FALSE = Const(False, "bool")


def const(value: int | float | bool, dtype: str | None = None) -> Const:
    """A constant of `dtype`; raises TensorIRError where the type cannot hold the value.

    Where no type is given it is bool, int64 or float32, or that of a NumPy scalar.
    """
    if type(value) is int and (dtype is None or type(dtype) is str and dtype == dt.INDEX):
        kept = _small.get(value)
        if kept is not None:
            return kept
    if dtype is None:
        dtype = _own_dtype(value)
    elif not isinstance(dtype, str):
        dt.check_dtype(dtype)
    if dt.is_int(dtype):
        try:
            whole = int(value)
        except (OverflowError, ValueError, TypeError):  # inf and NaN, and what is no number
            whole = None
        if whole is None or isinstance(value, float) and value != whole:
            raise TensorIRError(f"{value!r} is not an integer, and {dtype} was asked for")
        low, high = dt.int_limits(dtype)
        if not low <= whole <= high:
            raise RangeError(f"{value} does not fit in {dtype}, which holds {low} to {high}")
    elif not hasattr(value, "__float__"):
        raise TensorIRError(f"{value!r} is no number, and {dtype} was asked for")
    return Const(value, dtype)


def _own_dtype(value: Any) -> str:
    plain = "bool" if isinstance(value, bool) else dt.INDEX
    named = str(getattr(value, "dtype", "float32" if isinstance(value, float) else plain))
    return named if named in dt.SCALARS else dt.INDEX


def convert(value: ExprLike, like: str | None = None) -> Expr:
    """`value` as an expression; a Python number takes the dtype `like`, or int64/float32/bool."""
    if isinstance(value, Expr):
        return value
    if type(value) is int and (like is None or like == dt.INDEX):  # nearly all of them
        return const(value, dt.INDEX)
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # NumPy scalars
        value = value.item()
    if isinstance(value, bool):
        return const(value, like if like and not dt.is_bool(like) else "bool")
    if isinstance(value, int):
        return const(value, dt.INDEX if like is None or dt.is_bool(like) else dt.element(like))
    if isinstance(value, float):
        return const(value, dt.element(like) if like and dt.is_float(like) else "float32")
    scalar = getattr(value, "as_scalar", None)  # a zero-rank te.Tensor
    if scalar is not None:
        return scalar()  # type: ignore[no-any-return]
    raise TensorIRError(f"{value!r} of type {type(value).__name__} is not an expression")


def binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    """Build `left op right`: converts Python numbers, folds integer constants.

    Operands of two types, and of types that `op` is not defined for, get the type and the meaning
    that docs/types.md says; TensorIRError where there is none. A whole tensor makes another one.
    """
    if isinstance(left, Expr):
        a = left
    elif isinstance(left, Operators):  # a tensor
        return left.operate(op, left, right)  # type: ignore[no-any-return]
    else:
        a = convert(left, right.dtype if isinstance(right, Expr) else None)
    if isinstance(right, Expr):
        b = right
    elif isinstance(right, Operators):
        return right.operate(op, left, right)  # type: ignore[no-any-return]
    else:
        b = convert(right, a.dtype)
    if a.dtype != b.dtype or not is_defined(op, a.dtype):
        from tensorir.te.promotion import binary_of_any

        return binary_of_any(op, a, b)
    return combine(op, a, b)


def combine(op: str, a: Expr, b: Expr) -> Expr:
    """`a op b` for operands of one type for which `op` is defined; folds integer constants."""
    left = a.value if isinstance(a, Const) else None
    right = b.value if isinstance(b, Const) else None
    if left is None and right is None and a is not b or dt.is_float(a.dtype):
        return BinOp(op, a, b)
    if left is not None and right is not None:
        folded = fold(op, left, right, a.dtype)
        if folded is not None:
            return Const(folded, "bool" if isinstance(folded, bool) else a.dtype)
    same = _identity(op, a, b, left, right)
    return BinOp(op, a, b) if same is None else same


def _identity(op: str, a: Expr, b: Expr, left: float | None, right: float | None) -> Expr | None:
    """`a op b` where it is one of its operands for every value of the other; else None. `left` and
    `right` are their values where they are constants.

    Integers and bools only: x + 0.0 is not x for x = -0.0, and x * 0.0 is not 0.0 for NaN.
    """
    if left is None and right is None:
        return a if op in ("min", "max", "and", "or") else None
    if op == "+" and right == 0 or op == "-" and right == 0 or op in ("*", "//") and right == 1:
        return a
    if op == "+" and left == 0 or op == "*" and left == 1:
        return b
    if op == "*" and (left == 0 or right == 0) or op == "%" and right == 1:
        return Const(0, a.dtype)
    if op in ("and", "or") and (left is not None or right is not None):
        known, other = (left, b) if left is not None else (right, a)
        absorbing = op == "or"
        return Const(absorbing, "bool") if known == absorbing else other
    if op in ("min", "max", "and", "or") and a is b:
        return a
    return None


def cast(dtype: str, value: ExprLike) -> Expr:
    """`value` converted to `dtype`."""
    dt.check_dtype(dt.element(dtype) if isinstance(dtype, str) else dtype)
    a = convert(value)
    if isinstance(a, Rounded):
        return Cast(dtype, a.a) if dtype == a.dtype else cast(dtype, a.a)
    if a.dtype == dtype:
        return a
    if isinstance(a, Cast) and a.a.dtype == dtype and dt.holds(a.dtype, dtype):
        return a.a
    if isinstance(a, Const):
        folded = fold_cast(a.value, a.dtype, dtype)
        if folded is not None:
            return Const(folded, dtype)
    return Cast(dtype, a)


def select(cond: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """`a` where `cond` holds, else `b`; folds a constant condition."""
    condition = convert(cond)
    if not dt.is_bool(condition.dtype):
        raise TensorIRError(f"the condition {condition!r} is {condition.dtype}, not bool")
    left = convert(a, b.dtype if isinstance(b, Expr) else None)
    right = convert(b, left.dtype)
    if left.dtype != right.dtype or isinstance(left, Rounded) or isinstance(right, Rounded):
        from tensorir.te.promotion import select_of_any

        return select_of_any(condition, left, right)
    if isinstance(condition, Const):
        return left if condition.value else right
    return left if left is right else Select(condition, left, right)


def all_of(*conditions: ExprLike) -> Expr:
    """The conjunction; true when there are none."""
    result: Expr = TRUE
    for condition in conditions:
        result = binary("and", result, condition)
    return result


def any_of(*conditions: ExprLike) -> Expr:
    """The disjunction; false when there are none."""
    result: Expr = FALSE
    for condition in conditions:
        result = binary("or", result, condition)
    return result


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of a conjunction, left to right; empty for true."""
    if condition is TRUE:
        return []
    if isinstance(condition, BinOp) and condition.op == "and":
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [condition]


def in_turn(condition: Expr) -> list[Expr]:
    """What a conjunction asks without reading memory, which says where that may be read, and what
    it asks then; at least one of them."""
    parts = conjuncts(condition) if condition.has_loads else []
    plain, reading = [[p for p in parts if p.has_loads is known] for known in (False, True)]
    return [all_of(*plain), all_of(*reading)] if plain and reading else [condition]


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    return binary("min", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    return binary("max", a, b)


def int_value(e: ExprLike) -> int | None:
    """The value of an integer constant; None for anything that is not one."""
    if isinstance(e, Const):
        return None if dt.is_float(e.dtype) else int(e.value)
    return int(e) if isinstance(e, int) else None


Expr.operate = staticmethod(binary)  # type: ignore[method-assign]
