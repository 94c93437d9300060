"""Packages whose public names are imported when they are first asked for.

A program that builds one kernel needs a third of the modules; the interpreter, the reference, the
parser and most of the tuner are for others. A package says in its `__init__.py` where its names
are, for type checkers by ordinary imports under TYPE_CHECKING, and at run time by `lazy_names`;
a test compares the two. See PEP 562 and https://scientific-python.org/specs/spec-0001.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """A package that knows in which modules its public names are."""

    _homes: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        """Called for names that are not there yet; each is looked up once."""
        home = self._homes.get(name) if "_homes" in self.__dict__ else None
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if home == self.__name__:
            return import_module(f"{home}.{name}")
        value = getattr(import_module(home), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Python binds a module to its package when it has been imported. Where a function has the
        name of its module, as `verify`, the package has the function."""
        is_module = isinstance(value, ModuleType)
        if is_module and self._homes.get(name, self.__name__) != self.__name__:
            return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._homes})


def lazy_names(package: str, names: Mapping[str, str]) -> list[str]:
    """Let `package`, which is being imported, find its names when they are first asked for.

    names  by module, the names to be had from it, separated by spaces; names that the package
           itself gives are its modules

    Returns all names, for `__all__`.
    """
    homes = {name: module for module, words in names.items() for name in words.split()}
    found = sys.modules[package]
    found.__dict__["_homes"] = homes
    found.__class__ = LazyPackage
    return list(homes)
