"""The builder that measuring uses by default: printed program -> kernel of its backend."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import backends
from tensorir import PrimFunc, parse


def build(text: str, target: str) -> Any:
    """Parse the program, lower and compile it, or load it from the cache of the backend."""
    return backends.build(parse(text), target=target)


def build_source(source: str, definition: str, target: str) -> Any:
    """The kernel of a source text that `build` made, in another process, from a schedule of the
    program `definition`. Nothing is lowered again, and the compiled object is in the cache."""
    return backends.build_source(_parse_once(definition), source, target=target)


@lru_cache(maxsize=4)
def _parse_once(text: str) -> PrimFunc:
    return parse(text)
