"""Names of loops for functions that take any number of indices."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


def name_axes(names: Sequence[str], element: Callable[..., Any]) -> Callable[..., Any]:
    """`element`, which takes as many indices as there are `names`, for te.compute: its loops get
    these names."""

    def named(*i: Any) -> Any:
        return element(*i)

    named.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, KIND) for name in names]
    )
    return named
