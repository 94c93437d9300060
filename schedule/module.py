"""Module: the scheduled program in the form in which TVM's schedules give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorir import PrimFunc, TensorIRError, format_func

MAIN = "main"
"""What TVM calls the only function of a module."""


@dataclass(frozen=True)
class Module:
    """One program, as `sch.mod` has it: `mod["main"]`, `mod.script()`, `mod.show()`, `build(mod)`.

    A program here is one function, so that there is never a second one.
    """

    func: PrimFunc

    @property
    def functions(self) -> Mapping[str, PrimFunc]:
        """The function by its name."""
        return {self.func.name: self.func}

    def __getitem__(self, name: str) -> PrimFunc:
        """The function, by its own name or as "main"."""
        if name not in (MAIN, self.func.name):
            raise TensorIRError(
                f"the module has no function {name!r}; it has one, {self.func.name!r}, which is "
                f"also called {MAIN!r}"
            )
        return self.func

    def script(self) -> str:
        """The text of the program, which `parse` reads."""
        return format_func(self.func)

    def show(self) -> None:
        """Print the program."""
        print(self.script())

    def __str__(self) -> str:
        return self.script()
