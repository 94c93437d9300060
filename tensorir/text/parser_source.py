"""Reading the source of a Python function as a program: names around it, and lines of its file."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from tensorir.errors import TensorIRError
from tensorir.expr import Var
from tensorir.func import PrimFunc
from tensorir.text.parser import Parser


def read_function(function: Callable[..., Any]) -> PrimFunc:
    """The program that the source of `function` spells. See tensorir.text.script.prim_func."""
    if not inspect.isfunction(function):
        raise TensorIRError(f"@prim_func reads a function, not {function!r}")
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or "?"
    except (OSError, TypeError) as error:
        raise TensorIRError(
            f"the source of {function.__qualname__!r} is not to be found ({error}): write it in a "
            "file, or give the text to tensorir.parse"
        ) from None
    text = textwrap.dedent("".join(lines))
    parser = Parser(text.split("\n"), file, first)
    tree = ast.parse(text).body[0]
    if not isinstance(tree, ast.FunctionDef):
        parser.fail(1, "a function: '@prim_func' and 'def name(A: f32[16], ...):'")
    if ast.get_docstring(tree) is not None:
        tree.body = tree.body[1:] or [ast.copy_location(ast.Pass(), tree.body[0])]
    known = _Known(parser, _around(function), _own_names(tree))
    return parser.syntax(lambda: parser.function(known.visit(tree)))  # type: ignore[no-any-return]


def _around(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The values of the names that `function` can see, inner ones first."""
    cells = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return {**function.__globals__, **cells}


def _own_names(tree: ast.FunctionDef) -> set[str]:
    """The names that the function itself defines."""
    found = {arg.arg for arg in tree.args.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("let", "alloc"):
            found.update(arg.id for arg in node.args[:1] if isinstance(arg, ast.Name))
    return found


class _Known(ast.NodeTransformer):
    """Puts the numbers and sizes around the function in place of their names."""

    def __init__(self, parser: Parser, around: Mapping[str, Any], own: set[str]) -> None:
        self.parser, self.around, self.own = parser, around, own

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list, node.returns = [], None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node.args = [self.visit(arg) for arg in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node  # what is called is a word of the language

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.own or node.id not in self.around:
            return node
        value = self.around[node.id]
        if isinstance(value, Var):
            return ast.copy_location(ast.Name(value.name, node.ctx), node)
        if isinstance(value, (bool, Integral, Real)):
            number: Any = value.item() if hasattr(value, "item") else value
            return _at(node, ast.parse(_spelled(number), mode="eval").body)
        return node


def _at(place: ast.AST, tree: ast.expr) -> ast.expr:
    """`tree`, whose parts all stand at the line of `place`."""
    for part in ast.walk(tree):
        ast.copy_location(part, place)
    return tree


def _spelled(value: bool | int | float) -> str:
    """`value` as programs spell it."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    return repr(value)
