"""The prelude of CUDA texts: the parts of prelude.cuh that a text needs."""

from __future__ import annotations

import functools
import re
from pathlib import Path

PATH = Path(__file__).with_name("prelude.cuh")
PART = re.compile(r"^// part: (.+)\n", re.MULTILINE)
DEFINED = re.compile(
    r"#define (TI_\w+|ti_\w+) ?\(|struct .*\b(ti_\w+) \{|\b(ti_[\w#]+)\([^()]*\) \{"
)
VECTORS = ("ti_load", "ti_store")
"""Families of functions, whose names end with a number of elements."""


def prelude(text: str) -> str:
    """What has to stand before `text`: the parts that define names of it, and what those need."""
    head, parts, tail = _parts()
    needed: dict[str, None] = {}
    pending = [text]
    while pending:
        words = _words(pending.pop())
        for name, (body, defined) in parts.items():
            if name not in needed and words & defined:
                needed[name] = None
                pending.append(body)
    return "".join((head, *(parts[name][0] for name in parts if name in needed), tail))


@functools.cache
def _parts() -> tuple[str, dict[str, tuple[str, frozenset[str]]], str]:
    """What stands before the parts, each part with the names it defines, and what stands after."""
    head, *rest = PART.split(PATH.read_text(encoding="utf-8"))
    body, end, tail = rest[-1].rpartition("#endif")
    rest[-1] = body
    parts = {name: (text, _defined(text)) for name, text in zip(rest[::2], rest[1::2])}
    return head, parts, end + tail


def _defined(text: str) -> frozenset[str]:
    return frozenset(_family(name) for match in DEFINED.findall(text) for name in match if name)


def _words(text: str) -> set[str]:
    return {_family(word) for word in re.findall(r"\b(?:ti|TI)_\w+", text)}


def _family(name: str) -> str:
    return next((v for v in VECTORS if re.fullmatch(v + r"(\d*|##N)", name)), name)
