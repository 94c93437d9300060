"""Packages whose public names are imported when they are first asked for.

A program that builds one kernel needs a third of the modules; the interpreter, the reference, the
parser and most of the tuner are for others. A package says once where its names are, in its
`__init__.py`, by ordinary imports under TYPE_CHECKING: type checkers follow these, and at run time
`lazy_names` reads them. See PEP 562 and https://scientific-python.org/specs/spec-0001.
"""

from __future__ import annotations

import sys
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


def lazy_names(package: str) -> list[str]:
    """Let `package`, which is being imported, find the names that its source imports under
    TYPE_CHECKING when they are first asked for; what it imports from itself are its modules.

    Returns all names, for `__all__`.
    """
    found = sys.modules[package]
    with open(str(found.__file__), encoding="utf-8") as file:
        imports = file.read().partition("if TYPE_CHECKING:\n")[2].partition("\n\n")[0]
    for mark in "(),":
        imports = imports.replace(mark, " ")
    each = map(str.split, imports.split("    from ")[1:])  # module, "import", names
    homes = {name: home for home, _, *names in each for name in names}
    found.__dict__["_homes"] = homes
    found.__class__ = LazyPackage
    return list(homes)
