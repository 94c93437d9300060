"""Functions that texts of kernels share, compiled once: kernels are linked with the object.

A text is whole without it, for who exports it or compiles it alone. But most of the candidates of a
search have the same functions for memory and threads, and gcc spent a quarter of its time for a
matrix product on them. So what is compiled for a call has their declarations in place of them,
where they stand as they were printed; a text in which somebody changed them keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template

_HIDDEN = '__attribute__((visibility("hidden"))) '
"""Each kernel has its own copy, which no other object of the process sees."""


@dataclass(frozen=True)
class Support:
    """Functions of one purpose.

    types         that their declarations need
    declarations  of those that kernels call, with `$static` before each
    functions     their text; `$static` is "static " in the text of a kernel
    where         the condition of the preprocessor under which they are there, if there is one
    """

    name: str
    types: str
    declarations: Template
    functions: Template
    where: str = ""

    @property
    def text(self) -> str:
        """The functions in the text of a kernel."""
        return self.functions.substitute(static="static ")

    @property
    def declared(self) -> str:
        """What stands there where the object is linked."""
        return self.declarations.substitute(static=_HIDDEN)

    @property
    def source(self) -> str:
        """The text of the object."""
        functions = self.types + self.functions.substitute(static=_HIDDEN)
        return f"#if {self.where}\n{functions}#endif\n" if self.where else functions


def split_support(text: str, every: Sequence[Support]) -> tuple[str, tuple[Support, ...]]:
    """The text of a kernel without those functions that it has, and these."""
    found = tuple(support for support in every if support.text in text)
    for support in found:
        text = text.replace(support.text, support.declared)
    return text, found
