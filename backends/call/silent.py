"""Kernels that are not called: for other machines, or with the names of their constants alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backends.call.allocate import empty
from backends.call.constants import Binding
from backends.call.signature import Signature
from tensorir import TensorIRError


class SilentExecutable:
    """A kernel that can be read and exported, and answers every call with `message`."""

    entry: Callable[..., int] | None = None

    def __init__(self, message: str) -> None:
        self._message = message

    def run(self, arrays: Sequence[Any], sizes: Sequence[int]) -> bool:
        raise TensorIRError(self._message)

    def time(self, arrays: Sequence[Any], sizes: Sequence[int], calls: int) -> float:
        raise TensorIRError(self._message)

    def empty(self, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
        return empty(shape, dtype)


def unbound(signature: Signature, binding: Binding) -> str:
    """What a kernel answers to calls of whose constants only the names were given."""
    names = ", ".join(map(repr, binding.names))
    return (
        f"{signature.name} was built with the names of its constants alone ({names}), to be "
        "read; build with constants={name: array} to run it"
    )
