"""Names that are not taken yet."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Hands out unique names: `name` if it is free, else `name_1`, `name_2`, ..."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)

    def unique(self, name: str) -> str:
        candidate, count = name, 0
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"
        self.taken.add(candidate)
        return candidate
