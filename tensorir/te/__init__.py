"""Tensor expressions: what a user writes; `create_prim_func` makes a program of them."""

# mypy: implicit-reexport
# ruff: noqa: F401

from typing import TYPE_CHECKING

from tensorir.expr import const, maximum, minimum
from tensorir.externs.extern import ExternFunc
from tensorir.lazy import lazy_names
from tensorir.te.axis import Axis, reduce_axis
from tensorir.te.compute import compute
from tensorir.te.create import (
    create_named_blocks,
    create_named_tensors,
    create_prim_func,
    numbers_needed,
)
from tensorir.te.math import (
    FUNCTIONS,
    abs,
    cast,
    ceildiv,
    clip,
    floordiv,
    floormod,
    if_then_else,
    infinity,
    max_value,
    min_value,
    pow,
    reinterpret,
    truncdiv,
    truncmod,
)
from tensorir.te.promotion import call
from tensorir.te.reduce import (
    Reduce,
    all,
    any,
    argmax,
    argmin,
    comm_reducer,
    max,
    min,
    prod,
    sum,
)
from tensorir.te.reducer import Reducer
from tensorir.te.schedules import (
    ThreadAxis,
    create_schedule,
    lower,
    thread_axis,
)
from tensorir.te.tensor import (
    ComputeOp,
    ExternOp,
    PlaceholderOp,
    ScanOp,
    StatementsOp,
    Tensor,
    TensorSlice,
    placeholder,
    size_var,
    state,
    var,
)

if TYPE_CHECKING:
    from tensorir.te import random
    from tensorir.te.at import at
    from tensorir.te.extern import extern
    from tensorir.te.random import philox
    from tensorir.te.scan import scan
    from tensorir.text.script import prim_func

exp = FUNCTIONS["exp"]
exp2 = FUNCTIONS["exp2"]
expm1 = FUNCTIONS["expm1"]
log = FUNCTIONS["log"]
log2 = FUNCTIONS["log2"]
log10 = FUNCTIONS["log10"]
log1p = FUNCTIONS["log1p"]
sqrt = FUNCTIONS["sqrt"]
sin = FUNCTIONS["sin"]
cos = FUNCTIONS["cos"]
tan = FUNCTIONS["tan"]
sinh = FUNCTIONS["sinh"]
cosh = FUNCTIONS["cosh"]
tanh = FUNCTIONS["tanh"]
floor = FUNCTIONS["floor"]
ceil = FUNCTIONS["ceil"]
trunc = FUNCTIONS["trunc"]
asin = FUNCTIONS["asin"]
acos = FUNCTIONS["acos"]
atan = FUNCTIONS["atan"]
asinh = FUNCTIONS["asinh"]
acosh = FUNCTIONS["acosh"]
atanh = FUNCTIONS["atanh"]
rint = FUNCTIONS["rint"]
round = FUNCTIONS["round"]
popcount = FUNCTIONS["popcount"]
rsqrt = FUNCTIONS["rsqrt"]
sigmoid = FUNCTIONS["sigmoid"]
erf = FUNCTIONS["erf"]
atan2 = FUNCTIONS["atan2"]
fmod = FUNCTIONS["fmod"]
isnan = FUNCTIONS["isnan"]
isinf = FUNCTIONS["isinf"]
isfinite = FUNCTIONS["isfinite"]
power = pow
nearbyint = rint
select = if_then_else
fabs = abs

__all__ = [
    *lazy_names(__name__),
    "Axis", "ComputeOp", "ExternFunc", "ExternOp", "PlaceholderOp", "Reduce", "Reducer", "ScanOp",
    "StatementsOp", "Tensor", "TensorSlice", "ThreadAxis", "abs", "acos", "acosh", "all", "any",
    "argmax", "argmin", "asin", "asinh", "atan", "atan2", "atanh", "call", "cast", "ceil",
    "ceildiv", "clip",
    "comm_reducer", "compute", "const", "cos", "cosh", "create_named_blocks",
    "create_named_tensors", "create_prim_func", "create_schedule", "erf", "exp", "exp2", "expm1",
    "fabs", "floor", "floordiv", "floormod", "fmod", "if_then_else", "infinity",
    "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "lower", "max", "max_value",
    "maximum", "min", "min_value", "minimum", "nearbyint", "numbers_needed", "placeholder",
    "popcount", "pow", "power", "prod", "reduce_axis", "reinterpret", "rint", "round",
    "rsqrt", "select", "sigmoid", "sin", "sinh", "size_var", "sqrt", "state", "sum", "tan",
    "tanh", "thread_axis", "trunc", "truncdiv", "truncmod", "var",
]
