"""C text of extern functions as code of a device, where it is plain enough."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backends.errors import BuildError

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DEFINITION = re.compile(
    r"^(?:static )?(?:inline )?(?!typedef\b)(?=(?:const )?[A-Za-z_][\w *]*([(=;\[]))", re.MULTILINE
)
_GENERIC = re.compile(r"_Generic\(\((\w+)\)0, (\w+): (\w+), default: (\w+)\)")
_HOST = re.compile(
    r"^[ \t]*#|\b(?:__attribute__|__asm__|asm|malloc|calloc|realloc|free|alloca|qsort|bsearch|"
    r"printf|fprintf|abort|exit|assert|va_list|setjmp|longjmp|_Thread_local|__thread|extern|"
    r"__builtin_(?!memcpy\b|memset\b|rint|sqrt|fabs|floor|ceil|trunc|copysign|fma|inf|nan|isinf|"
    r"isfinite|exp|log|pow|sin|cos|tan|fmod)\w+)\b",
    re.MULTILINE,
)
"""What a device does not have: the preprocessor, memory from a heap, files, code of processors."""


_WORD = re.compile(r"defined\s*\(\s*\w+\s*\)|[A-Za-z_]\w*")
_CONDITION = re.compile(r"(?:\d+|and|or|not|[()<>=!\s])*")


@dataclass(frozen=True)
class Marks:
    """What stands before functions and tables of a device."""

    function: str = "static __device__ "
    table: str = "static __device__ "


CUDA = Marks()


def device_text(name: str, text: str, kind: str, marks: Marks = CUDA) -> str:
    """The C text of extern function `name`, its functions and tables marked as of the device.

    Of what the preprocessor chooses by macros there is what stands for compilers that have none of
    them. Raises BuildError, naming the function, for C that a device does not have.
    """
    text = _chosen(text)
    found = _HOST.search(without_comments(text))
    if found is not None:
        raise BuildError(
            f"target {kind!r} cannot run the extern function {name!r}: its C uses "
            f"{found[0].strip()!r}, which a GPU does not have; use plain C, or write the function "
            "as a program (te.prim_func)"
        )
    text = _GENERIC.sub(lambda g: g[3] if g[1] == g[2] else g[4], text)
    return _DEFINITION.sub(lambda d: marks.function if d[1] == "(" else marks.table, text)


def without_comments(text: str) -> str:
    """C without its comments."""
    return _COMMENT.sub(" ", text)


def _chosen(text: str) -> str:
    """`text` with the branches of #if that hold where no macro is defined; what cannot be decided
    stays."""
    lines: list[str] = []
    open_branches: list[tuple[bool, bool]] = []  # whether this one is taken, and whether any was
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "#if" and (holds := _holds(rest)) is not None:
            open_branches.append((holds, holds))
        elif word in ("#ifdef", "#ifndef"):
            open_branches.append((word == "#ifndef", word == "#ifndef"))
        elif word == "#elif" and open_branches and (holds := _holds(rest)) is not None:
            taken = holds and not open_branches[-1][1]
            open_branches[-1] = (taken, taken or open_branches[-1][1])
        elif word == "#else" and open_branches:
            open_branches[-1] = (not open_branches[-1][1], True)
        elif word == "#endif" and open_branches:
            open_branches.pop()
        elif all(taken for taken, _ in open_branches):
            lines.append(line)
    return "\n".join(lines)


def _holds(condition: str) -> bool | None:
    """Whether a condition of the preprocessor holds where every word is 0; None if it is of another
    form."""
    condition = _WORD.sub("0", condition).replace("&&", " and ").replace("||", " or ")
    condition = re.sub(r"!(?!=)", " not ", condition).strip()
    if not _CONDITION.fullmatch(condition):
        return None
    try:
        return bool(eval(condition, {"__builtins__": {}}))  # numbers, comparisons and no names
    except SyntaxError:
        return None
