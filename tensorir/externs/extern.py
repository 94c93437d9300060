"""Extern functions: operators that no expression says well, given by C text and by a meaning.

Sorting, selecting the largest, scattering. A function is declared once, by its name: programs
contain the name only (the statement Extern), so they stay text. The meaning is a Python function
on NumPy arrays, which the interpreter and the reference call; the C backend prints the C text.
`backends.register_extern` compares the two before anyone can use the function.

Analyses see a part as the elements that variables of its own run over (`tensorir/parts.py`), so
regions, dependences and races need no case for it. Loops over rows are ordinary loops; what would
rewrite the call, or scatter a row in memory, is refused in one place
(`schedule/checks/externs.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.errors import TensorIRError

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]

_ARRAY = r"\(\s*((?:[A-Za-z_]\w*\s*(?:,\s*[A-Za-z_]\w*\s*)*)?)\)"


@dataclass(frozen=True, eq=False)
class ExternFunc:
    """A function on arrays. Tensors of more dimensions are rows, and it runs on each row.

        reverse = ExternFunc(
            name="reverse",
            signature="(n)->(n)",
            dtypes=[("float32", "float32"), ("int8", "int8")],
            c="static void $NAME(const $T0 *x, $T1 *y, i64 n) {"
            " for (i64 i = 0; i < n; i++) y[i] = x[n - 1 - i]; }",
            numpy=lambda x: x[::-1],
        )
        backends.register_extern(reverse)

    name       by which programs and te.extern speak of it, as in "sort"
    signature  the dimensions of inputs and outputs, as NumPy writes them for its generalized
               functions: "(n)->(n)", "(n),(m)->()", "(n)->(k),(k)"
    dtypes     each combination of types it is for: one for every input, then every output
    c          C text that defines the function $NAME: pointers to the inputs, pointers to the
               outputs, then the sizes of the signature as i64, in order of appearance; all arrays
               are dense, rows first. It writes every element of the outputs, reads nothing but the
               inputs, and keeps nothing. `$T0`, `$T1`, ... are the C types of the arguments.
               16-bit floats are bits in C: `$GET0(x)` is the value of an element of argument 0, of
               type `$V0`, and `$PUT0(x)` the element for a value. `$BEFORE0(a, b)` says whether
               value a comes before b in the order that np.sort puts them, NaN last.
    numpy      the meaning: takes the inputs as arrays, and the sizes that no input has by name;
               returns the output, or a tuple of several. bfloat16 comes and goes as float32.
    where      what the sizes must satisfy besides, as text: "k <= n"
    rtol       by how much C and meaning may differ, as a part of the largest finite magnitude among
               the inputs and outputs of a row; 0 where the answer is exact, as that of a sort
    bounded    the outputs, by position, that move by no more than the inputs do: sorted values. An
               input that carries a rounding error makes all that is said of the others void.
    sample     makes inputs for the check, from a generator and the sizes, where any numbers do not
               do: indices must lie in range
    """

    name: str
    signature: str
    dtypes: Sequence[tuple[str, ...]]
    c: str
    numpy: Callable[..., Any]
    where: str = ""
    rtol: float = 0.0
    bounded: tuple[int, ...] = ()
    sample: Callable[[np.random.Generator, Sizes], Sequence[Array]] | None = None

    def __post_init__(self) -> None:
        """Raise TensorIRError for a declaration that does not hold together."""
        self.require(bool(self.name) and self.name.isprintable(), "a name is a word")
        self.require(self.signature.count("->") == 1, f"{self.signature!r} is no signature")
        rest = re.sub(_ARRAY, "", self.signature)
        self.require(not rest.replace("->", "").strip(", "), f"{self.signature!r} is no signature")
        self.require(bool(self.outputs), "its signature has no output")
        self.require(bool(self.dtypes), "it has no combination of dtypes")
        count = len(self.inputs) + len(self.outputs)
        for row in self.dtypes:
            self.require(
                len(row) == count, f"dtypes {row} are not one for each of {count} arguments"
            )
            for each in row:
                dt.check_dtype(each)
        self.require("$NAME" in self.c, "its C does not define $NAME")
        inside = all(0 <= place < len(self.outputs) for place in self.bounded)
        self.require(inside, f"bounded {self.bounded} are no outputs")

    @property
    def inputs(self) -> tuple[tuple[str, ...], ...]:
        """The names of the dimensions of each input."""
        return _arrays(self.signature.partition("->")[0])

    @property
    def outputs(self) -> tuple[tuple[str, ...], ...]:
        """The names of the dimensions of each output."""
        return _arrays(self.signature.partition("->")[2])

    @property
    def dims(self) -> tuple[tuple[str, ...], ...]:
        """Of all arguments, inputs first."""
        return (*self.inputs, *self.outputs)

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes that C is given, in order."""
        return tuple(dict.fromkeys(name for dims in self.dims for name in dims))

    @property
    def given(self) -> tuple[str, ...]:
        """The sizes that no input has, which the meaning is given by name."""
        known = {name for dims in self.inputs for name in dims}
        return tuple(name for name in self.sizes if name not in known)

    def require(self, condition: bool, reason: str) -> None:
        if not condition:
            raise TensorIRError(f"extern function {self.name!r}: {reason}")

    def output_dtypes(self, inputs: Sequence[str]) -> list[tuple[str, ...]]:
        """The types that the outputs may have for inputs of these types."""
        count = len(self.inputs)
        return [tuple(row[count:]) for row in self.dtypes if tuple(row[:count]) == tuple(inputs)]

    def meaning(
        self, arrays: Sequence[Array], sizes: Sizes, dtypes: Sequence[str]
    ) -> tuple[Array, ...]:
        """The outputs for one row of inputs, bfloat16 as float32.

        Raises TensorIRError where the meaning returns other shapes or numbers of arrays than the
        signature says.
        """
        found = self.numpy(*arrays, **{name: sizes[name] for name in self.given})
        several = isinstance(found, (tuple, list))
        made = tuple(np.asarray(each) for each in (found if several else (found,)))
        wanted = [tuple(sizes[name] for name in dims) for dims in self.outputs]
        shapes = [each.shape for each in made]
        self.require(
            shapes == wanted, f"its meaning returns shapes {shapes} where it says {wanted}"
        )
        return tuple(
            each.astype(held_dtype(dtype), copy=False)
            for each, dtype in zip(made, dtypes[len(self.inputs) :])
        )


def held_dtype(dtype: str) -> np.dtype[Any]:
    """The type of arrays that a meaning sees."""
    return np.dtype("float32") if dtype == "bfloat16" else dt.numpy_dtype(dtype)


def _arrays(text: str) -> tuple[tuple[str, ...], ...]:
    found = re.findall(_ARRAY, text)
    return tuple(tuple(name.strip() for name in row.split(",") if name.strip()) for row in found)


EXTERNS: dict[str, ExternFunc] = {}
"""All extern functions by name. What is not built in gets here after a check."""


def known_externs() -> dict[str, ExternFunc]:
    """EXTERNS with those that come along, which are imported when first asked for."""
    from tensorir.externs import built_in as externs
    assert externs.BUILT_IN_EXTERNS
    return EXTERNS


def find_extern(name: str) -> ExternFunc:
    """The function of that name; TensorIRError, which lists those there are, for another."""
    found = known_externs().get(name)
    if found is None:
        known = ", ".join(EXTERNS)
        raise TensorIRError(
            f"there is no extern function {name!r}: known are {known}; declare it as an "
            "ExternFunc and pass that to backends.register_extern first"
        )
    return found


def require_new(func: ExternFunc) -> None:
    """TensorIRError where the name of `func` is taken."""
    if func.name in known_externs():
        raise TensorIRError(f"there is an extern function {func.name!r} already")


def add_extern(func: ExternFunc) -> None:
    """Make `func` known; TensorIRError where the name is taken."""
    require_new(func)
    EXTERNS[func.name] = func
