"""Target: what a program is compiled for, written like `c -march=haswell -threads=2`."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

from tensorir.errors import TensorIRError

OPTIONS: dict[str, tuple[str, ...]] = {
    "c": ("march", "threads", "vector_bits", "features", "cc"),
    "cuda": ("arch", "vector_bits", "features"),
}
"""The kinds of target and the options each understands, in the order they are printed."""

VECTOR_BITS = (128, 256, 512)


@dataclass(frozen=True)
class Target:
    """What a program is compiled for. Equal targets have equal text, and `parse` reads it back.

    march        the processor as the C compiler names it; "native" is the one at hand, and one of
                 another kind, such as "armv8.2-a+dotprod", chooses a cross compiler
    threads      worker threads of parallel loops; None means all that the machine offers
    vector_bits  width of vector registers; None until `backends.resolve` asked the compiler
    arch         CUDA architecture such as "sm_90"; None means the device at hand
    features     instruction set extensions, sorted; empty until resolved
    cc           the compiler's command; None means the one that is found (CC, gcc, clang)
    """

    kind: str = "c"
    march: str = "native"
    threads: int | None = None
    vector_bits: int | None = None
    arch: str | None = None
    features: tuple[str, ...] = ()
    cc: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in OPTIONS:
            raise TensorIRError(f"unknown target kind {self.kind!r}; known are {_names(OPTIONS)}")
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default and name not in OPTIONS[self.kind]:
                raise TensorIRError(_unknown_option(self.kind, name))
            _check_value(name, value)
        object.__setattr__(self, "features", tuple(sorted(set(self.features))))

    @classmethod
    def parse(cls, text: TargetLike) -> Target:
        """The target written as `kind -option=value ...`; a Target is returned as it is.

        Raises TensorIRError for an unknown kind or option (naming the known ones), an option
        given twice, and a value that the option cannot take.
        """
        if isinstance(text, Target):
            return text
        if not isinstance(text, str) or not text.strip():
            raise TensorIRError(
                f"{text!r} is not a target; write for example 'c' or 'c -threads=2'"
            )
        kind, *words = text.split()
        if kind not in OPTIONS:
            raise TensorIRError(f"unknown target kind {kind!r}; known are {_names(OPTIONS)}")
        given: dict[str, Any] = {}
        for word in words:
            name, value = _parse_option(kind, word)
            if name in given:
                raise TensorIRError(f"target option -{name} is given twice in {text!r}")
            given[name] = value
        return cls(kind, **given)

    def __str__(self) -> str:
        words = [self.kind]
        for name in OPTIONS[self.kind]:
            value = getattr(self, name)
            if value != _DEFAULTS[name]:
                words.append(f"-{name}={','.join(value) if name == 'features' else value}")
        return " ".join(words)


TargetLike = Target | str

_DEFAULTS: dict[str, Any] = {f.name: f.default for f in fields(Target) if f.name != "kind"}
_INTEGERS = ("threads", "vector_bits")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+\-]*")


def _names(known: Any) -> str:
    return ", ".join(map(repr, known))


def _unknown_option(kind: str, name: str) -> str:
    known = ", ".join(f"-{option}" for option in OPTIONS[kind])
    return f"target {kind!r} has no option -{name}; it has {known}"


def _parse_option(kind: str, word: str) -> tuple[str, Any]:
    name, equals, text = word.lstrip("-").partition("=")
    if not word.startswith("-") or not equals:
        raise TensorIRError(f"target option {word!r} is not of the form -option=value")
    if name not in OPTIONS[kind]:
        raise TensorIRError(_unknown_option(kind, name))
    if name == "features":
        return name, tuple(filter(None, text.split(",")))
    if name not in _INTEGERS:
        return name, text
    try:
        return name, int(text)
    except ValueError:
        raise TensorIRError(f"target option -{name}={text!r} is not an integer") from None


def _check_value(name: str, value: Any) -> None:
    if name == "vector_bits" and value not in (None, *VECTOR_BITS):
        known = ", ".join(map(str, VECTOR_BITS))
        raise TensorIRError(f"target option -vector_bits={value!r} is not one of {known}")
    if name == "threads" and value is not None and (type(value) is not int or value < 1):
        raise TensorIRError(f"target option -threads={value!r} is not a positive integer")
    # These words reach a compiler's command line and are split at spaces and commas when read back.
    words = value if name == "features" else (value,) if name in ("march", "arch", "cc") else ()
    for word in words:
        if word is not None and not (isinstance(word, str) and _WORD.fullmatch(word)):
            raise TensorIRError(f"target option -{name}={word!r} is not a plain word")
