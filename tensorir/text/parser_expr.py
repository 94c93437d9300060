"""Reading expressions: Python syntax trees to expressions, without folding or simplifying."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.errors import ParseError
from tensorir.expr import BinOp, Call, Cast, Const, Expr, Load, Not, Select, Var
from tensorir.numbers.intrin import MATH, REINTERPRET, no_such_function
from tensorir.text.printer_expr import call_dtype
from tensorir.vector_expr import Broadcast, Ramp, Shuffle

Env = Mapping[str, "Var | Buffer"]

_BINARY: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARE: dict[type, tuple[str, bool]] = {
    ast.Lt: ("<", False),
    ast.LtE: ("<=", False),
    ast.Gt: ("<", True),
    ast.GtE: ("<=", True),
    ast.Eq: ("==", False),
    ast.NotEq: ("!=", False),
}


def long_dtype(name: str) -> str | None:
    """The type of a printed name: "float32x16" for "f32x16"; None if it names no type."""
    if name in dt.LONG:
        return dt.LONG[name]
    head, _, tail = name.rpartition("x")
    if head in dt.LONG and tail.isdigit() and int(tail) > 1:
        return f"{dt.LONG[head]}x{int(tail)}"
    return None


@dataclass
class ExprParser:
    """Reads expressions of one text; the fields are only for the messages.

    `file` and the number of the `first` line say where the lines are from, if that is a file.
    """

    lines: list[str]
    file: str | None = None
    first: int = 1

    def fail(self, node: ast.AST | int, expected: str) -> NoReturn:
        number = node if isinstance(node, int) else getattr(node, "lineno", 1)
        line = self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""
        place = f"line {number}" if self.file is None else f"{self.file}:{self.first + number - 1}"
        raise ParseError(f"{place}: expected {expected}\n    {line}")

    def expr(self, node: ast.expr, env: Env) -> Expr:
        rule = _RULES.get(type(node))
        if rule is None:
            self.fail(node, f"an expression, not {ast.unparse(node)!r}")
        return rule(self, node, env)

    def exprs(self, nodes: list[ast.expr], env: Env) -> tuple[Expr, ...]:
        return tuple([self.expr(node, env) for node in nodes])

    def buffer(self, node: ast.expr, env: Env) -> Buffer:
        found = env.get(node.id) if isinstance(node, ast.Name) else None
        if not isinstance(found, Buffer):
            self.fail(node, f"a buffer, not {ast.unparse(node)!r}; {_listing(env, Buffer)}")
        return found

    def indices(self, node: ast.Subscript, env: Env) -> tuple[Expr, ...]:
        """The index or shape of `name[...]`; `name[()]` has none."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return self.exprs(parts, env)

    def dtype(self, node: ast.expr) -> str:
        found = long_dtype(node.id) if isinstance(node, ast.Name) else None
        if found is None:
            self.fail(node, f"a type such as f32 or i64, not {ast.unparse(node)!r}")
        return found

    def integer(self, node: ast.expr) -> int:
        if not isinstance(node, ast.Constant) or type(node.value) is not int:
            self.fail(node, f"an integer, not {ast.unparse(node)!r}")
        return node.value

    def text(self, node: ast.expr) -> str:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            self.fail(node, f"a string, not {ast.unparse(node)!r}")
        return node.value

    def arity(self, node: ast.Call, count: int, usage: str) -> list[ast.expr]:
        """The positional arguments of a call that must have `count` of them and no others."""
        if len(node.args) != count or node.keywords:
            self.fail(node, f"{usage}, not {ast.unparse(node)!r}")
        return node.args

    def number(self, node: ast.expr) -> int | float | bool | None:
        """The value of a literal, negative or not finite ones included; None for anything else."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.number(node.operand)
            return None if value is None or isinstance(value, bool) else -value
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "float":
            args = self.arity(node, 1, 'float("inf"), float("-inf") or float("nan")')
            text = self.text(args[0])
            if text not in ("inf", "-inf", "nan"):
                self.fail(node, f'"inf", "-inf" or "nan", not {text!r}')
            return float(text)
        return None

    def constant(self, node: ast.expr, value: int | float | bool, dtype: str) -> Const:
        integral = not isinstance(value, float)
        if dt.is_bool(dtype) != isinstance(value, bool) or dt.is_int(dtype) > integral:
            self.fail(node, f"a value of {dtype}, not {value!r}")
        low, high = (value, value) if dt.is_float(dtype) else dt.int_limits(dtype)
        if not integral or dt.is_float(dtype) or low <= value <= high:
            return Const(value, dtype)
        self.fail(node, f"a value between {low} and {high} for {dtype}, not {value}")


def _literal(p: ExprParser, node: ast.expr, env: Env) -> Expr:
    value = p.number(node)
    if value is None:
        p.fail(node, f"a number, True or False, not {ast.unparse(node)!r}")
    if isinstance(value, bool):
        return Const(value, "bool")
    return p.constant(node, value, "float32" if isinstance(value, float) else dt.INDEX)


def _name(p: ExprParser, node: ast.Name, env: Env) -> Expr:
    found = env.get(node.id)
    if isinstance(found, Buffer):
        p.fail(node, f"an index after the buffer {node.id!r}, as in {node.id}[i]")
    if found is None:
        p.fail(node, f"a known name, not {node.id!r}; {_listing(env, Var)}")
    return found


def _unary(p: ExprParser, node: ast.UnaryOp, env: Env) -> Expr:
    if isinstance(node.op, ast.Not):
        return Not(p.expr(node.operand, env))
    if isinstance(node.op, ast.USub) and p.number(node) is not None:
        return _literal(p, node, env)
    p.fail(node, f"0 - x or x ^ -1 in place of {ast.unparse(node)!r}")


def _binary(p: ExprParser, node: ast.BinOp, env: Env) -> Expr:
    op = _BINARY.get(type(node.op))
    if op is None:
        p.fail(node, f"one of {' '.join(_BINARY.values())} in {ast.unparse(node)!r}")
    return BinOp(op, p.expr(node.left, env), p.expr(node.right, env))


def _compare(p: ExprParser, node: ast.Compare, env: Env) -> Expr:
    if len(node.ops) != 1:
        p.fail(node, f"one comparison at a time, joined by 'and', not {ast.unparse(node)!r}")
    op, swapped = _COMPARE.get(type(node.ops[0]), (None, False))
    if op is None:
        p.fail(node, f"one of < <= > >= == != in {ast.unparse(node)!r}")
    a, b = p.expr(node.left, env), p.expr(node.comparators[0], env)
    return BinOp(op, b, a) if swapped else BinOp(op, a, b)


def _logical(p: ExprParser, node: ast.BoolOp, env: Env) -> Expr:
    op = "and" if isinstance(node.op, ast.And) else "or"
    result, *rest = p.exprs(node.values, env)
    for part in rest:
        result = BinOp(op, result, part)
    return result


def _subscript(p: ExprParser, node: ast.Subscript, env: Env) -> Expr:
    return Load(p.buffer(node.value, env), p.indices(node, env))


def _call(p: ExprParser, node: ast.Call, env: Env) -> Expr:
    if not isinstance(node.func, ast.Name):
        p.fail(node, f"the name of a function, not {ast.unparse(node.func)!r}")
    name = node.func.id
    special = _CALLS.get(name)
    if special is not None:
        return special(p, node, env)
    dtype = long_dtype(name)
    if dtype is not None:
        return _typed(p, node, dtype, env)
    if name not in MATH and name != REINTERPRET:
        p.fail(node, f"a known function, not {name!r}: {no_such_function(name)}")
    args = p.exprs(node.args, env)
    if not node.keywords:
        result = call_dtype(name, args)
        if result is None:
            p.fail(node, f"the arguments of {name}, not {ast.unparse(node)!r}")
        return Call(name, args, result)
    if len(node.keywords) != 1 or node.keywords[0].arg != "dtype":
        p.fail(node, f'{name}(..., dtype="...") and no other keyword')
    dtype = p.text(node.keywords[0].value)
    if dt.element(dtype) not in dt.SCALARS:
        p.fail(node, f"a type such as float32 or int64x8, not {dtype!r}")
    return Call(name, args, dtype)


def _typed(p: ExprParser, node: ast.Call, dtype: str, env: Env) -> Expr:
    """`i32(3)` is a constant of type i32, `i32(x)` the conversion of x."""
    (arg,) = p.arity(node, 1, f"one value in {ast.unparse(node.func)}(...)")
    value = p.number(arg)
    return Cast(dtype, p.expr(arg, env)) if value is None else p.constant(arg, value, dtype)


def _extremum(p: ExprParser, node: ast.Call, env: Env) -> Expr:
    name = node.func.id  # type: ignore[attr-defined]
    a, b = p.exprs(p.arity(node, 2, f"{name}(a, b)"), env)
    return BinOp(name, a, b)


def _select(p: ExprParser, node: ast.Call, env: Env) -> Expr:
    return Select(*p.exprs(p.arity(node, 3, "select(condition, a, b)"), env))


def _ramp(p: ExprParser, node: ast.Call, env: Env) -> Expr:
    base, stride, lanes = p.arity(node, 3, "ramp(base, stride, lanes)")
    return Ramp(p.expr(base, env), p.expr(stride, env), p.integer(lanes))


def _broadcast(p: ExprParser, node: ast.Call, env: Env) -> Expr:
    value, lanes = p.arity(node, 2, "broadcast(value, lanes)")
    return Broadcast(p.expr(value, env), p.integer(lanes))


def _shuffle(p: ExprParser, node: ast.Call, env: Env) -> Expr:
    if len(node.args) < 3 or node.keywords:
        p.fail(node, f"shuffle(a, b, lane, ...), not {ast.unparse(node)!r}")
    a, b = p.exprs(node.args[:2], env)
    return Shuffle(a, b, tuple(p.integer(lane) for lane in node.args[2:]))


_CALLS: dict[str, Callable[[ExprParser, ast.Call, Env], Expr]] = {
    "min": _extremum,
    "max": _extremum,
    "select": _select,
    "ramp": _ramp,
    "broadcast": _broadcast,
    "shuffle": _shuffle,
    "float": _literal,
}

_RULES: dict[type, Callable[[ExprParser, Any, Env], Expr]] = {
    ast.Constant: _literal,
    ast.Name: _name,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.BoolOp: _logical,
    ast.Subscript: _subscript,
    ast.Call: _call,
}


def _listing(env: Env, kind: type) -> str:
    known = ", ".join(sorted(name for name, value in env.items() if isinstance(value, kind)))
    return f"known here: {known or 'none'}"
