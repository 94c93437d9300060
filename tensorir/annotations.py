"""What annotations of parameters admit: so no function looks whether a list is a list."""

from __future__ import annotations

import ast
import functools
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import numpy as np

from tensorir.errors import TensorIRError

Function = TypeVar("Function", bound=Callable[..., Any])

Fits = Callable[[Any], bool]

Kinds = Mapping[str, tuple[Fits, str]]
"""What a part of an annotation admits, as a question to a value and in words."""


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral)


def _is_number(value: Any) -> bool:
    plain = value.item() if isinstance(value, np.ndarray) and value.shape == () else value
    return isinstance(plain, Real)


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_integers(value: Any) -> bool:
    return _is_list(value) and all(map(_is_integer, value))


def _is_names(value: Any) -> bool:
    named = isinstance(value, Collection) and not isinstance(value, (str, bytes, np.ndarray))
    return named and all(isinstance(each, str) for each in value)


def _is_a(name: str) -> Fits:
    """Whether a value is of a class of that name, which need not be loaded to ask."""
    return lambda value: any(kind.__name__ == name for kind in type(value).__mro__)


KINDS: Kinds = {
    "PrimFunc": (_is_a("PrimFunc"), "a PrimFunc, as te.create_prim_func makes one,"),
    "Target": (_is_a("Target"), "a target, as backends.resolve('c') makes one,"),
    "Callable[[str, PrimFunc], object]": (callable, "a function of a name and a program"),
    "Schedule": (_is_a("Schedule"), "a Schedule"),
    "Trace": (_is_a("Trace"), "a Trace"),
    "LegalCall": (_is_a("LegalCall"), "a move, as legal_moves lists them,"),
    "Predicate": (callable, "a function of a schedule"),
    "Make": (callable, "a function of sizes"),
    "Seconds": (callable, "a function of a number of calls"),
    "Timing": (_is_a("Timing"), "a Timing, as measure returns one,"),
    "Costs": (_is_a("Costs"), "Costs"),
    "Example": (_is_a("Example"), "an Example"),
    "Numbers": (lambda value: isinstance(value, Mapping), "a mapping such as {'n': 128}"),
    "Mapping[str, int]": (
        lambda value: isinstance(value, Mapping) and all(map(_is_integer, value.values())),
        "a mapping of names to integers",
    ),
    "str": (lambda value: isinstance(value, str), "a name"),
    "Path": (lambda value: isinstance(value, os.PathLike), "a path"),
    "bool": (lambda value: isinstance(value, (Integral, np.bool_)), "True or False"),
    "int": (_is_integer, "an integer"),
    "float": (_is_number, "a number"),
    "None": (lambda value: value is None, "None"),
    "Sequence[int]": (_is_integers, "a list of integers"),
    "tuple[int, int]": (lambda value: _is_integers(value) and len(value) == 2, "two integers"),
    "Sequence[int | None]": (
        lambda value: _is_list(value) and all(v is None or _is_integer(v) for v in value),
        "a list of integers, None for the end of a dimension,",
    ),
    "Collection[str]": (_is_names, "a list of names"),
    "Sequence[str]": (_is_names, "a list of names"),
}
"""Of functions that are called with objects of Python; numbers of NumPy count as numbers."""


def checked(function: Function) -> Function:
    """Decorator: arguments that the annotations of a function do not admit are refused by name, in
    a TensorIRError, before anything is done. What `KINDS` does not have the function checks itself.
    """
    signature, name = inspect.signature(function), function.__name__
    admits = {key: admitted(p.annotation, KINDS) for key, p in signature.parameters.items()}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            takes = ", ".join(signature.parameters)
            raise TensorIRError(f"{name}: {error}; it takes ({takes})") from None
        for key, value in given.items():
            fits, words = admits[key]
            if not fits(value):
                raise TensorIRError(f"{name}: {key} is {value!r}, where {words} belongs")
        return function(*args, **kwargs)

    return cast(Function, call)


def annotation_text(annotation: Any) -> str:
    """An annotation as it is written; a file that does not postpone annotations has objects."""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def admitted(annotation: Any, kinds: Kinds) -> tuple[Fits, str]:
    """What an annotation such as `str | int` admits: anything, where a part is none of `kinds`."""
    anything: tuple[Fits, str] = (lambda value: True, "anything")
    parts = [kinds.get(part, anything) for part in alternatives(annotation_text(annotation))]
    tests = [fits for fits, _ in parts]
    words = " or ".join(dict.fromkeys(words for _, words in parts))
    if len(tests) == 1:
        return tests[0], words
    return lambda value: any([fits(value) for fits in tests]), words


@functools.cache
def alternatives(annotation: str) -> tuple[str, ...]:
    """The parts of a union, without the modules that their names are from."""
    return tuple(_parts(_Unqualified().visit(ast.parse(annotation, mode="eval")).body))


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
