"""What Python's operators mean for expressions and for tensors: `operate` of an operator's name.

An expression gives an expression, a whole tensor another tensor, a tensor of which only some
indices are given (`A[i]` of a matrix) an error that says what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tensorir import dtype as dt
from tensorir.errors import TensorIRError

Result = TypeVar("Result")

REFLECTED = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "power": "__rpow__",
    "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__", "right_shift": "__rrshift__", "less": "__gt__",
    "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__", "equal": "__eq__",
    "not_equal": "__ne__",
}  # fmt: skip
"""What an operand of ours is asked where NumPy's is the left one, by the function it calls."""


class Operators(Generic[Result]):
    """Python's operators in terms of `operate(op, left, right)`; `dtype` is that of self."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Numbers and arrays of NumPy leave operators to us; its functions compute nothing."""
        name = REFLECTED.get(ufunc.__name__)
        if name is None or len(inputs) != 2 or inputs[1] is not self or method != "__call__":
            raise TensorIRError(_of_numpy(ufunc.__name__, self))
        result = getattr(self, name)(inputs[0])
        return name == "__ne__" if result is NotImplemented else result  # as of other objects

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """NumPy's functions take us for one element: the dot of two matrices was their product."""
        raise TensorIRError(_of_numpy(function.__name__, self))

    if TYPE_CHECKING:
        dtype: str

        @staticmethod
        def operate(op: str, left: Any, right: Any) -> Result: ...

    def __add__(self, other: Any) -> Result:
        return self.operate("+", self, other)

    def __radd__(self, other: Any) -> Result:
        return self.operate("+", other, self)

    def __sub__(self, other: Any) -> Result:
        return self.operate("-", self, other)

    def __rsub__(self, other: Any) -> Result:
        return self.operate("-", other, self)

    def __mul__(self, other: Any) -> Result:
        return self.operate("*", self, other)

    def __rmul__(self, other: Any) -> Result:
        return self.operate("*", other, self)

    def __truediv__(self, other: Any) -> Result:
        return self.operate("/", self, other)

    def __rtruediv__(self, other: Any) -> Result:
        return self.operate("/", other, self)

    def __floordiv__(self, other: Any) -> Result:
        return self.operate("//", self, other)

    def __rfloordiv__(self, other: Any) -> Result:
        return self.operate("//", other, self)

    def __mod__(self, other: Any) -> Result:
        return self.operate("%", self, other)

    def __rmod__(self, other: Any) -> Result:
        return self.operate("%", other, self)

    def __pow__(self, other: Any) -> Result:
        return self.operate("**", self, other)

    def __rpow__(self, other: Any) -> Result:
        return self.operate("**", other, self)

    def __and__(self, other: Any) -> Result:
        return self.operate("&", self, other)

    def __rand__(self, other: Any) -> Result:
        return self.operate("&", other, self)

    def __or__(self, other: Any) -> Result:
        return self.operate("|", self, other)

    def __ror__(self, other: Any) -> Result:
        return self.operate("|", other, self)

    def __xor__(self, other: Any) -> Result:
        return self.operate("^", self, other)

    def __rxor__(self, other: Any) -> Result:
        return self.operate("^", other, self)

    def __lshift__(self, other: Any) -> Result:
        return self.operate("<<", self, other)

    def __rlshift__(self, other: Any) -> Result:
        return self.operate("<<", other, self)

    def __rshift__(self, other: Any) -> Result:
        return self.operate(">>", self, other)

    def __rrshift__(self, other: Any) -> Result:
        return self.operate(">>", other, self)

    def __lt__(self, other: Any) -> Result:
        return self.operate("<", self, other)

    def __le__(self, other: Any) -> Result:
        return self.operate("<=", self, other)

    def __gt__(self, other: Any) -> Result:
        return self.operate("<", other, self)

    def __ge__(self, other: Any) -> Result:
        return self.operate("<=", other, self)

    def __invert__(self) -> Result:
        """All bits the other way, or not: x ^ -1, x ^ 255 or x != True."""
        ones: int = True
        if not dt.is_bool(self.dtype):
            ones = dt.int_limits(self.dtype)[1] if dt.is_unsigned(self.dtype) else -1
        return self.operate("^", self, ones)

    def __neg__(self) -> Result:
        if dt.is_bool(self.dtype):
            raise TensorIRError("'-' is not defined for bool; use ~ for not")
        if dt.is_float(self.dtype):
            return self.operate("*", self, -1.0)
        return self.operate("-", 0, self)

    def __abs__(self) -> Result:
        from tensorir.te.math import abs

        return abs(self)  # type: ignore[arg-type, return-value]

    def __round__(self, digits: Any = None) -> Any:
        raise TensorIRError(
            f"round computes numbers, and {self!r} is computed by a kernel; use te.rint, by which "
            "halves become even as in Python, or te.round, by which they go away from zero"
        )

    def __trunc__(self) -> Any:
        raise TensorIRError(
            f"math.trunc computes numbers, and {self!r} is computed by a kernel; use te.trunc"
        )


def _of_numpy(name: str, operand: object) -> str:
    from tensorir.te.math import FUNCTIONS

    ours = f"te.{name}" if name in FUNCTIONS else "operators, functions of te or of tensorir.ops"
    return f"np.{name} computes numbers, and {operand!r} is computed by a kernel; use {ours}"
