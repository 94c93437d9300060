"""The arguments of primitives: what people type becomes literals, and what cannot be is refused.

A primitive's annotations say what it takes, so no primitive looks whether a list is a list.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from schedule.errors import Illegal
from schedule.rewrite.index_map import index_map_text
from schedule.state import BlockRef, LoopRef
from schedule.tvm_names import in_our_names
from tensorir import Const, Fits, admitted, annotation_text


def literal(value: Any) -> Any:
    """`value` as JSON-able data: names of loops, blocks, tensors and buffers; numbers of NumPy and
    of te.const; a function becomes the text of an index map. TypeError for anything else."""
    if value is None or type(value) in (LoopRef, str, int, BlockRef, bool, float):
        return value
    for kind in (int, float):  # those of NumPy print otherwise than they are read
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (list, tuple)):
        return [literal(v) for v in value]
    if isinstance(value, dict):
        return {str(k): literal(v) for k, v in value.items()}
    if isinstance(value, Const):
        return value.value
    if hasattr(value, "tolist") and type(made := value.tolist()) is not type(value):
        return literal(made)  # arrays and numbers of NumPy
    if inspect.isfunction(value):
        return index_map_text(value)
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    raise TypeError(f"{value!r} is neither a name nor a literal")


def bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Any) -> dict[str, Any]:
    """Literals by parameter name, defaults left out. A parameter for any number of names takes one
    list of them as well. Raises Illegal where they do not fit."""
    try:
        named = in_our_names(signature.parameters, kwargs)
        given = signature.bind(*args, **named).arguments
    except TypeError as error:
        takes = ", ".join(str(p).partition(":")[0] for p in signature.parameters.values())
        raise Illegal("", str(error), f"it takes ({takes})") from None
    plain: dict[str, Any] = {}
    for key, value in given.items():
        if signature.parameters[key].kind is inspect.Parameter.VAR_POSITIONAL:
            value = value[0] if len(value) == 1 and isinstance(value[0], (list, tuple)) else value
            if not value:
                continue  # no names, as a trace reads them back
        try:
            plain[key] = literal(value)
        except TypeError as error:
            raise Illegal("", f"{key}: {error}") from None
    return plain


class Parameters:
    """What a primitive takes: of each parameter what fits, in words too, and whether it is any
    number of these; and which are needed."""

    def __init__(self, signature: inspect.Signature) -> None:
        self.needed: list[str] = []
        self.admitted: dict[str, tuple[Fits, str, bool]] = {}
        for key, parameter in signature.parameters.items():
            several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
            self.admitted[key] = (*kinds(annotation_text(parameter.annotation)), several)
            if parameter.default is parameter.empty and not several:
                self.needed.append(key)

    def require_fitting(self, args: Mapping[str, Any]) -> None:
        """Refuse arguments that are not what the annotations of their parameters say."""
        for key, value in args.items():
            if key not in self.admitted:
                takes = ", ".join(self.admitted)
                raise Illegal("", f"it has no parameter {key!r}", f"it takes ({takes})")
            fits, words, several = self.admitted[key]
            if several and not isinstance(value, (list, tuple)):
                raise Illegal("", f"{key} is {value!r}, which is no list of names")
            for each in value if several else (value,):
                if not fits(each):
                    raise Illegal("", f"{key} is {each!r}, where {words} belongs")
                if not isinstance(each, str) and _is_beyond(each):
                    raise Illegal("", f"{key} is {each!r}, which int64 does not hold", "give less")
        for key in self.needed:
            if key not in args:
                raise Illegal("", f"{key} is missing")


def _is_beyond(value: Any) -> bool:
    """Whether there is an integer that no index can be; programs have none of these."""
    if _is_list(value):
        return any(map(_is_beyond, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_ints(value: Any) -> bool:
    return _is_list(value) and all(map(_is_int, value))


def _is_lists(value: Any) -> bool:
    return _is_list(value) and all(map(_is_ints, value))


def _is_names(value: Any) -> bool:
    return _is_list(value) and all([isinstance(each, str) for each in value])


def _is_option(value: Any) -> bool:
    return isinstance(value, (int, float, str))


KINDS: dict[str, tuple[Fits, str]] = {
    "str": (_is_name, "a name"),
    "LoopRef": (_is_name, "the name of a loop"),
    "BlockRef": (_is_name, "the name of a block"),
    "int": (_is_int, "an integer"),
    "float": (_is_number, "a number"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "None": (lambda value: value is None, "None"),
    "Option": (_is_option, "a number or a string"),
    "Any": (lambda value: True, "anything"),
    "Callable[..., Any]": (_is_name, "a function of indices"),
    "Sequence[int | None]": (_is_list, "a list of integers, None for one to find, as [None, 8],"),
    "Sequence[int]": (_is_ints, "a list of integers, such as [8, 4],"),
    "Sequence[Sequence[int]]": (_is_lists, "a list of lists of integers, such as [[0], [1, 2]],"),
    "Sequence[float]": (_is_list, "a list of numbers, such as [1.0, 2.0],"),
    "Sequence[str]": (_is_names, "a list of names, such as ['A', 'B'],"),
    "Sequence[str | Sequence[str]]": (
        lambda value: _is_list(value) and all([_is_name(x) or _is_names(x) for x in value]),
        "a list of names, or of lists of these, such as ['A', ['B', 'C']],",
    ),
    "Sequence[Option]": (_is_list, "a list of numbers or strings, such as [8, 16],"),
}
"""What a part of an annotation admits, as a question to a literal and in words."""


@functools.cache
def kinds(annotation: str) -> tuple[Fits, str]:
    """What the text of an annotation admits: anything, where it is none of ours."""
    return admitted(annotation, KINDS)
