"""What annotations of parameters admit: so no function looks whether a list is a list."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from typing import Any

Fits = Callable[[Any], bool]

Kinds = Mapping[str, tuple[Fits, str]]
"""What a part of an annotation admits, as a question to a value and in words."""


def annotation_text(annotation: Any) -> str:
    """An annotation as it is written; a file that does not postpone annotations has objects."""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def admitted(annotation: Any, kinds: Kinds) -> tuple[Fits, str]:
    """What an annotation such as `str | int` admits: anything, where a part is none of `kinds`."""
    anything: tuple[Fits, str] = (lambda value: True, "anything")
    parts = [kinds.get(part, anything) for part in alternatives(annotation_text(annotation))]
    tests = [fits for fits, _ in parts]
    words = " or ".join(dict.fromkeys(words for _, words in parts))
    return lambda value: any([fits(value) for fits in tests]), words


def alternatives(annotation: str) -> list[str]:
    """The parts of a union, without the modules that their names are from."""
    return _parts(_Unqualified().visit(ast.parse(annotation, mode="eval")).body)


class _Unqualified(ast.NodeTransformer):
    """Names without the modules that they are from."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Name(node.attr, node.ctx)


def _parts(node: ast.expr) -> list[str]:
    if isinstance(node, ast.BinOp):
        return [*_parts(node.left), *_parts(node.right)]
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        if node.value.id in ("Union", "Optional"):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            none = ["None"] if node.value.id == "Optional" else []
            return [part for each in inner for part in _parts(each)] + none
    return [ast.unparse(node)]
