"""Random choices that a workload is made by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tensorir import te

EXTENTS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13]


@dataclass
class Draw:
    """Random choices, and the values of the symbolic sizes that were drawn on the way."""

    pick: Callable[[list[Any]], Any]
    sizes: dict[str, Any] = field(default_factory=dict)

    def extent(self, name: str, least: int = 1, symbolic: bool = True) -> Any:
        """A number, now and then 0 or 1 (if `least` allows), or a size variable of that value."""
        value: int = self.pick([*EXTENTS, *EXTENTS, least, max(least, 1)])
        if symbolic and self.pick([False, False, False, True]):
            self.sizes[name] = value
            return te.var(name)
        return value

    def number(self, name: str, values: list[Any], dtype: str = "int64") -> Any:
        """A number among the arguments, with one of some values."""
        self.sizes[name] = self.pick(values)
        return te.var(name, dtype)

    def flag(self) -> bool:
        return bool(self.pick([False, True]))
