"""The kernels of a CUDA text, and what they take."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from backends.errors import BuildError

DTYPES = {
    "bool": "bool",
    "_Bool": "bool",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long long": "int64",
    "unsigned long long": "uint64",
    "float": "float32",
    "double": "float64",
}
"""NumPy's names for the types of CUDA, in which the text may rename them by typedef."""

KERNEL = re.compile(r"\b__global__\s+void\s+(?:__launch_bounds__\([^()]*\)\s*)?(\w+)\s*\(")
TYPEDEF = re.compile(r"^\s*typedef\s+([\w ]+?)\s+(\w+)\s*;", re.MULTILINE)
GLOBAL = re.compile(r"TI_GLOBAL\(([\w ]+)\)\s*(\w+)$")
SCALAR = re.compile(r"([\w ]+?)\s+(\w+)$")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: an array (in global memory) of `dtype`, or one number."""

    name: str
    dtype: np.dtype
    is_array: bool
    is_constant: bool = False


Kernels = dict[str, tuple[Parameter, ...]]


def kernels_of(source: str) -> Kernels:
    """The parameters of each kernel of a text.

    Raises BuildError where there is no kernel, and for a parameter that is neither
    `TI_GLOBAL(type) name` nor a number.
    """
    types = dict(DTYPES)
    for old, new in TYPEDEF.findall(source):
        if old in types:
            types[new] = types[old]
    found = {
        match[1]: tuple(
            _parameter(text.strip(), match[1], types)
            for text in _inside(source, match.end()).split(",")
            if text.strip()
        )
        for match in KERNEL.finditer(source)
    }
    if not found:
        raise BuildError("there is no kernel in the text: no __global__ function", source=source)
    return found


def _inside(source: str, start: int) -> str:
    """The text from `start` to the parenthesis that closes."""
    depth, end = 1, start
    while depth and end < len(source):
        depth += {"(": 1, ")": -1}.get(source[end], 0)
        end += 1
    return source[start : end - 1]


def _parameter(text: str, kernel: str, types: dict[str, str]) -> Parameter:
    match = GLOBAL.match(text)
    is_array = match is not None
    match = match or SCALAR.match(text)
    words = match[1].split() if match else []
    name = " ".join(word for word in words if word != "const")
    if match is None or name not in types:
        raise BuildError(
            f"kernel {kernel}: the emulator does not know the parameter {text!r}; give a number "
            "or an array, as in TI_GLOBAL(const float) A"
        )
    return Parameter(match[2], np.dtype(types[name]), is_array, "const" in words)
