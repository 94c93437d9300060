"""Which function it is: a hash of its source and of all that it takes from outside.

A function that was changed makes other schedules of equal knobs, so its trials are not those of the
earlier one. Comments, layout and docstrings make no difference.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from tensorir import TensorIRError

OURS = frozenset(("tensorir", "schedule", "backends", "autotune"))
"""Packages of this project, whose records tell their version."""


def identity_of(function: Any) -> str:
    """Equal for functions that make the same schedules, in every process.

    Raises TensorIRError for what is no function, and for what it uses from outside that cannot be
    told apart from what it was before: objects that are neither plain data nor functions.
    """
    parts = list(_facts(function, _name(function), {}))
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", None) or repr(function))


def _facts(value: Any, label: str, seen: dict[int, str]) -> Iterator[str]:
    """Lines that tell what `value` is."""
    if id(value) in seen:
        yield f"as {seen[id(value)]}"
        return
    if isinstance(value, functools.partial):
        yield f"partial of {label}"
        yield from _facts(value.func, label, seen)
        yield from _facts([list(value.args), dict(value.keywords)], f"arguments of {label}", seen)
    elif isinstance(value, FunctionType) and not _is_library(value.__module__ or "", value):
        seen[id(value)] = label
        yield from _facts_of_function(value, label, seen)
    elif isinstance(value, (FunctionType, BuiltinFunctionType, type)):
        yield f"{value.__module__}.{value.__qualname__}"
    elif isinstance(value, ModuleType):
        yield f"module {value.__name__}"
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, (list, tuple)):
        yield f"{type(value).__name__} of {len(value)}"
        for at, each in enumerate(value):
            yield from _facts(each, f"{label}[{at}]", seen)
    elif isinstance(value, Mapping):
        yield f"mapping of {len(value)}"
        for key, each in value.items():
            yield from _facts([key, each], f"{label}[{key!r}]", seen)
    elif isinstance(value, (set, frozenset)):
        yield f"set {sorted(map(repr, value))}"
    else:
        raise TensorIRError(
            f"the schedule function uses {label}, a {type(value).__name__}: a later run cannot tell"
            " whether it is the same; use numbers, strings, lists, dicts and functions, or make it"
            " inside of the function"
        )


def _facts_of_function(function: FunctionType, label: str, seen: dict[int, str]) -> Iterator[str]:
    yield f"function {_source(function)}"
    yield from _facts([function.__defaults__, function.__kwdefaults__], f"{label}()", seen)
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    outside = {name: cell.cell_contents for name, cell in cells}
    known = function.__globals__
    outside |= {name: known[name] for name in _names(function.__code__) if name in known}
    for name in sorted(outside):
        yield f"{name}:"
        yield from _facts(outside[name], f"{name!r}", seen)


def _names(code: CodeType) -> set[str]:
    """Names of globals that code may use, that of functions inside of it too."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _source(function: FunctionType) -> str:
    """Its text without comments, or its code where there is no text."""
    path = function.__code__.co_filename
    if path not in linecache.cache and not Path(path).is_file():
        return _code(function.__code__)  # inspect would take another file of the module's name
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or a part of an expression
        return _code(function.__code__)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def _code(code: CodeType) -> str:
    consts = [_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, consts))


def _is_library(module: str, function: FunctionType) -> bool:
    top = module.partition(".")[0]
    installed = "site-packages" in function.__code__.co_filename
    return top in OURS or top in sys.stdlib_module_names and top != "__main__" or installed
