"""The table of operators: each has a function on tensors, a NumPy reference and examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from tensorir import dtype as dt
from tensorir.annotations import Function, checked
from tensorir.arrays import decode, encode
from tensorir.errors import TensorIRError
from tensorir.func import PrimFunc
from tensorir.te.create import create_prim_func
from tensorir.te.tensor import Tensor, placeholder, var

Array = np.ndarray[Any, Any]
Fill = Callable[["np.random.Generator", tuple[int, ...]], Any]
Dims = tuple[Union[int, str], ...]


def uniform(low: float, high: float) -> Fill:
    """Data of an example: numbers between `low` and `high`."""
    return lambda rng, shape: rng.uniform(low, high, shape)


def integers(low: int, high: int) -> Fill:
    """Data of an example: integers from `low` up to, not including, `high`."""
    return lambda rng, shape: rng.integers(low, high, shape)


def values(*cycle: float) -> Fill:
    """Data of an example: the given numbers, over and over in row-major order."""
    return lambda rng, shape: np.resize(np.array(cycle), shape)


SPECIAL = values(1.5, np.nan, -np.inf, 0.0, -2.0, np.inf, -0.0)
"""Data of an example: numbers with NaN and infinities among them."""


@dataclass(frozen=True)
class Example:
    """Inputs and attributes to try an operator on.

    `shapes` has one entry for each input; a dimension that is a string is a symbolic size, and
    `sizes` gives the value that it is tried with. An entry None leaves an optional input out.
    `dtypes` is one type for all inputs or one for each; `data` says how inputs are filled, one for
    all or one for each, where the default, None, is numbers in [-2, 2) that the type can hold.
    """

    shapes: Sequence[Dims | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtypes: str | Sequence[str] = "float32"
    data: Fill | Sequence[Fill | None] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def dtype(self, n: int) -> str:
        """The type of input `n`."""
        return self.dtypes if isinstance(self.dtypes, str) else self.dtypes[n]

    def placeholders(self) -> list[Tensor | None]:
        """A placeholder `x0`, `x1`, ... for each input; None for those that are left out."""
        made: list[Tensor | None] = []
        for n, dims in enumerate(self.shapes):
            if dims is None:
                made.append(None)
                continue
            shape = [var(d) if isinstance(d, str) else d for d in dims]
            made.append(placeholder(shape, self.dtype(n), name=f"x{n}"))
        return made

    def arrays(self, seed: int = 0) -> list[Array]:
        """Arrays for the inputs that there are, bfloat16 as uint16 bits; a function of `seed`."""
        rng = np.random.default_rng(seed)
        made = []
        for n, dims in enumerate(self.shapes):
            if dims is None:
                continue
            fill = self.data[n] if isinstance(self.data, Sequence) else self.data
            shape = tuple(self.sizes[d] if isinstance(d, str) else d for d in dims)
            numbers = (fill or _default_fill(self.dtype(n)))(rng, shape)
            made.append(encode(numbers, self.dtype(n)))
        return made


def _default_fill(dtype: str) -> Fill:
    if dt.is_float(dtype):
        return uniform(-2, 2)
    low, high = dt.int_limits(dtype)
    return integers(max(low, -100), min(high, 100) + 1)


@dataclass(frozen=True)
class Operator:
    """`make` is the function on tensors; `reference` does the same to arrays, written apart.

    The reference gets float64 arrays where an input is of any float type, and arrays of the type
    of the input elsewhere. An operator that is `variadic` takes a sequence of tensors first.
    """

    name: str
    family: str
    make: Callable[..., Any]
    reference: Callable[..., Any]
    examples: tuple[Example, ...]
    variadic: bool = False

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, in one line."""
        paragraph = (inspect.getdoc(self.make) or "").partition("\n\n")[0]
        return " ".join(paragraph.split())

    def outputs(self, example: Example, inputs: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        """The tensors that the operator makes of `inputs`."""
        return _tuple(self._call(self.make, example, inputs))

    def expected(self, example: Example, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """What the reference makes of `arrays`, which are as Example.arrays returns them.

        Floats come as float64, not rounded to the type of the output.
        """
        left = iter(arrays)
        given = [
            None if dims is None else decode(next(left), example.dtype(n))
            for n, dims in enumerate(example.shapes)
        ]
        with np.errstate(all="ignore"):
            results = _tuple(self._call(self.reference, example, given))
        return tuple(map(_float64, results))

    def _call(self, function: Callable[..., Any], example: Example, given: Sequence[Any]) -> Any:
        if self.variadic:
            return function(list(given), **example.attrs)
        return function(*given, **example.attrs)


def _float64(result: Any) -> Array:
    array = np.asarray(result)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


OPERATORS: dict[str, Operator] = {}
"""All operators by name, in the order of their definitions."""


def known_operators() -> dict[str, Operator]:
    """OPERATORS with those that come along, which are imported when first asked for."""
    from tensorir.ops import built_in

    assert built_in.FAMILIES
    return OPERATORS


def operator(
    reference: Callable[..., Any], examples: Iterable[Example], variadic: bool = False
) -> Callable[[Function], Function]:
    """Decorator that enters a function on tensors into OPERATORS under its own name.

    Its module is its family. What its annotations do not admit is refused (`checked`). Tests
    run it on all examples and compare with `reference`. Raises
    TensorIRError where the name is taken, the docstring is missing or there is no example.
    """

    def enter(make: Function) -> Function:
        name = make.__name__
        of_ours = make.__module__.startswith("tensorir.ops.")
        if name in (OPERATORS if of_ours else known_operators()):
            raise TensorIRError(f"there is an operator {name!r} already; choose another name")
        if not inspect.getdoc(make):
            raise TensorIRError(f"operator {name!r} has no docstring; say what it computes")
        listed = tuple(examples)
        if not listed:
            raise TensorIRError(f"operator {name!r} has no example, so nothing would test it")
        family = make.__module__.rpartition(".")[2]
        made = checked(make)
        OPERATORS[name] = Operator(name, family, made, reference, listed, variadic)
        return made

    return enter


@checked
def find_operator(name: str) -> Operator:
    """The operator called `name`; TensorIRError, with the names there are, for an unknown one."""
    found = OPERATORS.get(name) or known_operators().get(name)
    if found is None:
        raise TensorIRError(f"there is no operator {name!r}; known are {', '.join(OPERATORS)}")
    return found


@checked
def prim_func(name: str, example: Example | int = 0) -> PrimFunc:
    """The program of operator `name` on `example`, or on the example of that number."""
    found = find_operator(name)
    if not isinstance(example, Example):
        if not 0 <= example < len(found.examples):
            raise TensorIRError(
                f"operator {name!r} has the examples 0 to {len(found.examples) - 1}, not {example}"
            )
        example = found.examples[example]
    inputs = example.placeholders()
    outputs = found.outputs(example, inputs)
    return create_prim_func([*(t for t in inputs if t is not None), *outputs], name=name)
