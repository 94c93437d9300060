"""Arguments of operators are what the annotations of their parameters say, or are refused by name.

Tensors and operands are left to the operators, which say more of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import numpy as np

from tensorir.annotations import admitted
from tensorir.errors import TensorIRError

Maker = TypeVar("Maker", bound=Callable[..., Any])


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral)


def _is_number(value: Any) -> bool:
    plain = value.item() if isinstance(value, np.ndarray) and value.shape == () else value
    return isinstance(plain, Real)


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


KINDS = {
    "str": (lambda value: isinstance(value, str), "a name"),
    "bool": (lambda value: isinstance(value, (Integral, np.bool_)), "True or False"),
    "int": (_is_integer, "an integer"),
    "float": (_is_number, "a number"),
    "None": (lambda value: value is None, "None"),
    "Sequence[int]": (
        lambda value: _is_list(value) and all(map(_is_integer, value)), "a list of integers",
    ),
    "Sequence[int | None]": (
        lambda value: _is_list(value) and all(v is None or _is_integer(v) for v in value),
        "a list of integers, None for the end of a dimension,",
    ),
}  # fmt: skip
"""What a part of an annotation admits, as a question and in words; anything for all others."""


def with_checks(name: str, make: Maker) -> Maker:
    """The function of an operator, which refuses arguments that its annotations do not admit."""
    signature = inspect.signature(make)
    admits = {key: admitted(p.annotation, KINDS) for key, p in signature.parameters.items()}

    @functools.wraps(make)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            takes = ", ".join(signature.parameters)
            raise TensorIRError(f"{name}: {error}; it takes ({takes})") from None
        for key, value in given.items():
            fits, words = admits[key]
            if not fits(value):
                raise TensorIRError(f"{name}: {key} is {value!r}, where {words} belongs")
        return make(*args, **kwargs)

    return cast(Maker, checked)
