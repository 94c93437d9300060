"""Programs as Python functions: what stands under `@prim_func` is read, never run.

The language is the one in which programs are printed, so that a printed program can be pasted:

    from tensorir.text.script import *

    @prim_func
    def prefix(A: f32[n], B: f32[n]):
        for i in range(n):
            with block("B"):
                vi = opaque(n, i)
                B[vi] = A[vi] + select(vi < 1, 0.0, B[vi - 1])

The names here are those that Python looks up while it defines the function, and those that an
editor wants to know. Under `from __future__ import annotations` sizes such as `n` need no
definition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tensorir.errors import TensorIRError
from tensorir.func import PrimFunc

__all__ = [
    "alloc", "annotate", "attrs", "bf16", "block", "buffer", "extern", "f16", "f32",
    "f64", "grid", "i8", "i16", "i32", "i64", "init", "let", "opaque", "parallel", "part",
    "prefetch", "prim_func", "reduce", "spatial", "thread", "u8", "u16", "u32", "u64", "unrolled",
    "vectorized", "where",
]  # fmt: skip


def prim_func(function: Callable[..., Any]) -> PrimFunc:
    """The program that the body of `function` spells, verified; parameters are its arguments.

    An array is annotated with a type and a shape, as in `A: f32[16, n]`, a number with its type and
    the least value that a call may give, if there is one: `k: i64 >= 1`. Names that the function
    does not define are numbers or sizes (te.var) of the code around it, taken as they are when the
    function is defined; a name in a shape that is neither is a size of its own. A docstring is
    skipped. Raises ParseError, with the file and the line, where the text is not of the language,
    VerifyError where the program is not well formed, and TensorIRError where the function has no
    source file: `tensorir.parse(text)` reads a text.
    """
    from tensorir.text.parser_source import read_function  # not needed to run a program
    from tensorir.verifier.program import verify

    func = read_function(function)
    verify(func)
    return func


class _Type:
    """The type of a buffer in an annotation, `f32[16, n]`, or of a number, `i64 >= 1`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __getitem__(self, shape: Any) -> _Type:
        return self

    def __ge__(self, least: int) -> _Type:
        return self

    def __call__(self, value: Any) -> Any:
        _only_inside(self.name)


f16, f32, f64, bf16 = _Type("f16"), _Type("f32"), _Type("f64"), _Type("bf16")
i8, i16, i32, i64 = _Type("i8"), _Type("i16"), _Type("i32"), _Type("i64")
u8, u16, u32, u64 = _Type("u8"), _Type("u16"), _Type("u32"), _Type("u64")


def buffer(kind: _Type, scope: str = "global") -> _Type:
    """A parameter that lies elsewhere than in memory: `T: buffer(f32[16], scope="shared")`."""
    return kind


def _only_inside(name: str) -> NoReturn:
    raise TensorIRError(f"{name!r} is a word of the programs under @prim_func, not a function")


def _word(name: str) -> Callable[..., Any]:
    def word(*args: Any, **keywords: Any) -> Any:
        _only_inside(name)

    word.__name__ = word.__qualname__ = name
    return word


grid = _word("grid")
parallel = _word("parallel")
vectorized = _word("vectorized")
unrolled = _word("unrolled")
thread = _word("thread")
block = _word("block")
spatial = _word("spatial")
reduce = _word("reduce")
opaque = _word("opaque")
init = _word("init")
where = _word("where")
annotate = _word("annotate")
attrs = _word("attrs")
let = _word("let")
alloc = _word("alloc")
prefetch = _word("prefetch")
extern = _word("extern")
part = _word("part")
