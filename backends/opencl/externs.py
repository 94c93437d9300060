"""Extern functions as OpenCL C: pointers say which memory they are to; nothing calls itself.

There is one function for each combination of memories that the arguments of calls are in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from backends.errors import BuildError
from backends.gpu.device_text import Marks, device_text, without_comments

MARKS = Marks(function="static ", table="__constant ")

_POINTER = re.compile(r"(\$(?:T(\d+)|\{T(\d+)\}))(?=\s*\*)")
_OWN = re.compile(r"\$(?:NAME|\{NAME\})\s*\(")
_FUNCTION = re.compile(r"^\w[\w *]*?\b(\w+)\s*\([^;{}]*\)\s*\{", re.MULTILINE)
_SPACE = re.compile(r"__(?:global|local|private)\b")


def qualified(text: str, spaces: Sequence[str]) -> str:
    """The C text of an extern function whose arguments are in `spaces`, such as "__global".

    What points to `$T0` points to the memory of argument 0, and parameters of `$NAME` do by their
    places; other pointers are to a thread's own memory.
    """

    def pointer(found: re.Match[str]) -> str:
        number = int(found[2] or found[3])
        return f"{spaces[number]} {found[1]}" if number < len(spaces) else found[1]

    text = _POINTER.sub(pointer, text)
    for found in reversed([*_OWN.finditer(text)]):
        end = text.find(")", found.end())
        if end < 0 or not text[end + 1 :].lstrip().startswith("{"):
            continue
        params = text[found.end() : end].split(",")
        for number, (param, space) in enumerate(zip(params, spaces)):
            if "*" in param and not _SPACE.search(param):
                params[number] = f"{space} {param.strip()}"
        text = f"{text[: found.end()]}{', '.join(p.strip() for p in params)}{text[end:]}"
    return text


def opencl_extern(name: str, text: str) -> str:
    """The C text of extern function `name` as OpenCL C.

    Raises BuildError, naming the function, for what a device does not have, and where a function
    calls itself.
    """
    text = device_text(name, text, "opencl", MARKS)
    calls = _calls(without_comments(text))
    for function in calls:
        if function in _reached(calls, function):
            raise BuildError(
                f"target 'opencl' cannot run the extern function {name!r}: its C has a function "
                f"that calls itself ({function}), which OpenCL C does not allow; use loops, write "
                "the function as a program (te.prim_func), or build for another target"
            )
    return text


def _calls(text: str) -> dict[str, set[str]]:
    """The functions of a text, and which of them each calls."""
    begins = [*_FUNCTION.finditer(text)]
    ends = [*[found.start() for found in begins[1:]], len(text)]
    names = {found[1] for found in begins}
    return {
        found[1]: names & set(re.findall(r"\w+", text[found.end() : end]))
        for found, end in zip(begins, ends)
    }


def _reached(calls: dict[str, set[str]], function: str) -> set[str]:
    """The functions that `function` calls, or what these call."""
    reached, pending = set[str](), [function]
    while pending:
        for called in calls[pending.pop()] - reached:
            reached.add(called)
            pending.append(called)
    return reached
