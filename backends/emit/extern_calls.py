"""Calls of extern functions: the text of each comes along once for every combination of types."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import Protocol

from backends.emit.names import Names
from backends.errors import BuildError
from tensorir import Buffer, Expr, Extern, ExternFunc, Part, PrimFunc, TensorIRError, find_extern
from tensorir import dtype as dt

Known = dict[tuple[str, tuple[str, ...]], str]
"""The names of the functions that a text has already, by function, types and memories."""


class Caller(Protocol):
    """What an emitter does for calls of extern functions.

    `extern_trial` is one that is being checked, and not yet known.
    """

    func: PrimFunc
    names: Names
    declarations: dict[str, str]
    inline: str
    externs: Known
    extern_trial: ExternFunc | None

    def line(self, text: str) -> None: ...

    def expr(self, e: Expr, level: int = 0) -> str: ...

    def type_name(self, dtype: str) -> str: ...

    def stored_type(self, dtype: str) -> str: ...

    def helper(self, name: str, dtype: str) -> str: ...

    def part_address(self, part: Part, written: bool) -> str:
        """A pointer to the first element of a part."""
        ...

    def memory_space(self, buffer: Buffer) -> str:
        """The word for the memory of a buffer, where a pointer has to say it; else ""."""
        ...

    def extern_source(self, text: str, spaces: Sequence[str]) -> str:
        """The C text of a function, as it was declared, for arguments in these memories."""
        ...

    def extern_text(self, name: str, text: str) -> str:
        """The C text of function `name` in this language. Raises BuildError where it is not."""
        ...


def extern_call(emitter: Caller, s: Extern) -> None:
    """Print the call: pointers to the first elements of the parts, and the sizes."""
    trial = emitter.extern_trial
    try:
        func = trial if trial is not None and trial.name == s.name else find_extern(s.name)
    except TensorIRError as error:
        raise BuildError(f"{emitter.func.name}: {error}") from None
    pointers = [emitter.part_address(part, part in s.outputs) for part in s.parts]
    sizes = {
        name: emitter.expr(size)
        for dims, part in zip(func.dims, s.parts)
        for name, size in zip(dims, part.shape)
    }
    spaces = [emitter.memory_space(part.buffer) for part in s.parts]
    name = _function(emitter, func, tuple(part.buffer.dtype for part in s.parts), spaces)
    arguments = [*pointers, *(sizes[size] for size in func.sizes)]
    emitter.line(f"{name}({', '.join(arguments)});")


def _function(
    emitter: Caller, func: ExternFunc, dtypes: tuple[str, ...], spaces: Sequence[str]
) -> str:
    """The name of the function for these types and memories; its text comes along."""
    key = func.name, (*dtypes, *spaces)
    known = emitter.externs.get(key)
    if known is not None:
        return known
    emitter.type_name(dt.INDEX)
    plain = "".join(c if c.isalnum() else "_" for c in func.name)
    kinds = "_".join(dict.fromkeys(dt.SHORT[dtype] for dtype in dtypes))
    name = emitter.names.fresh(f"extern_{kinds}_{plain}")
    emitter.externs[key] = name
    words = {"NAME": name}
    for number, dtype in enumerate(dtypes):
        words |= _words(emitter, number, dtype, func.c)
    try:
        source = emitter.extern_source(func.c.strip(), spaces)
        text = Template(source).substitute(words)
    except (KeyError, ValueError) as error:
        raise BuildError(
            f"the C of extern function {func.name!r} has an unknown word: {error}; "
            "a dollar sign itself is written $$"
        ) from None
    emitter.declarations[name] = f"/* {func.name} */\n{emitter.extern_text(func.name, text)}"
    return name


def _words(emitter: Caller, number: int, dtype: str, text: str) -> dict[str, str]:
    """What stands for the words of argument `number`; helpers come along if they are used."""
    stored = dtype in dt.STORAGE_ONLY
    value = "float32" if stored else dtype
    words = {f"T{number}": emitter.stored_type(dtype), f"V{number}": emitter.type_name(value)}
    makers = {
        f"GET{number}": lambda: emitter.helper("to_f32", dtype) if stored else "",
        f"PUT{number}": lambda: emitter.helper("from_f32", dtype) if stored else "",
        f"BEFORE{number}": lambda: _before(emitter, value),
    }
    for word, make in makers.items():
        if f"${word}" in text or f"${{{word}}}" in text:
            words[word] = make()
    return words


def _before(emitter: Caller, dtype: str) -> str:
    """The function that compares values of a type in the order of np.sort."""
    name, kind = f"before_{dt.SHORT[dtype]}", emitter.type_name(dtype)
    last = " | ((b != b) & (a == a))" if dt.is_float(dtype) else ""
    emitter.declarations.setdefault(
        name, f"{emitter.inline} int {name}({kind} a, {kind} b) {{ return (a < b){last}; }}"
    )
    return name
