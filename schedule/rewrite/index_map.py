"""Index maps: where the elements of a buffer go when its layout changes.

A map is kept as text, in the syntax of printed expressions: `i, j: j // 4, i, j % 4`. A Python
lambda is evaluated once, on variables named like its parameters, and becomes such a text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from schedule.errors import Illegal, require
from schedule.state import State
from tensorir import (
    Analyzer,
    Buffer,
    Expr,
    SizeRanges,
    TensorIRError,
    Var,
    analyzer_of,
    binary,
    const,
    convert,
    determines,
    format_expr,
    inverse_of,
    relax,
    substitute,
    variables,
)

LAYOUTS = 512
"""Layouts that are kept: the candidates of a search give the same ones to the same buffers."""


def index_map_text(fn: Callable[..., Any]) -> str:
    """The text of an index map that is given as a Python function of named indices."""
    kinds = [p.kind for p in inspect.signature(fn).parameters.values()]
    if any(kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds):
        raise TypeError("an index map has one named parameter per dimension, without defaults")
    names = list(inspect.signature(fn).parameters)
    result = fn(*[Var(name) for name in names])
    parts = result if isinstance(result, (tuple, list)) else (result,)
    components = [format_expr(convert(part, "int64")) for part in parts]
    return f"{', '.join(names)}: {', '.join(components)}"


@dataclass(frozen=True)
class Layout:
    """A one-to-one map from the box of a buffer's indices into a box of new ones."""

    old: tuple[Var, ...]
    sizes: tuple[Expr, ...]
    components: tuple[Expr, ...]
    written: tuple[Expr, ...]
    """The components as they were given: sums of which they have parts are together there."""
    shape: tuple[Expr, ...]
    exact: bool
    """Whether every new index is the image of an old one: there is no padding. Different elements
    have different places, so it is enough that there are as many of both."""
    axes: tuple[Var, ...]
    inverse: tuple[Expr, ...] | None
    """The old indices in terms of `axes`, where that was found out."""

    def image(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Where the element at `indices` goes; not simplified."""
        values = dict(zip(self.old, indices))
        return tuple(substitute(part, values) for part in self.written)

    def preimage(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """What comes to `indices`, where anything does; needs `inverse`."""
        assert self.inverse is not None
        values = dict(zip(self.axes, indices))
        return tuple(substitute(part, values) for part in self.inverse)


def layout_of(state: State, text: str, buffer: Buffer, where: str) -> Layout:
    """The layout that an index map gives a buffer; refuses a map that is not one to one on it."""
    func = state.func
    taken = tuple([var.name for var in func.free_vars])
    return _layout(text, buffer.name, buffer.shape, where, func.size_ranges, taken)


@lru_cache(maxsize=LAYOUTS)
def _layout(
    text: str,
    buffer: str,
    sizes: tuple[Expr, ...],
    where: str,
    ranges: SizeRanges,
    taken: Collection[str],
) -> Layout:
    """The same of a buffer by its name and shape; `ranges` are those of the sizes of the function,
    of whose variables the parameters of the map may have none of the names."""
    old, components, written = _read(text, buffer, len(sizes), where, ranges, taken)
    analyzer, extents = analyzer_of(ranges, {}), dict(zip(old, sizes))
    analyzer.bind_all(extents)
    shape: list[Expr] = []
    for part in components:
        span = relax(part, extents, analyzer)
        inside = span is not None and analyzer.prove(binary("<=", const(0), span.low))
        if not inside or span is None or set(old) & variables(span.low + span.extent):
            why = f"{part!r} of the index map is not known to be 0 or more and bounded"
            raise Illegal(where, why)
        size = analyzer.simplify(span.low + span.extent)
        low = analyzer_of(ranges, {}).bounds(size)[0]
        if low is None or low < 0:
            why = f"the map needs a dimension of size {size!r}, which can be negative"
            raise Illegal(where, why)
        shape.append(size)
    axes = tuple([Var(f"axis'{n}") for n in range(len(shape))])  # no name of a program
    inverse = inverse_of(old, written, axes, extents, analyzer)
    for var in old if inverse is None else ():
        require(
            determines(components, var, extents, analyzer),
            where,
            f"the index map {text!r} may send two elements of {buffer!r}, of different "
            f"{var.name!r}, to one place",
        )
    # A buffer without elements may get some: `analyzer` knows of one.
    count = analyzer_of(ranges, {}).simplify(_product(tuple(shape)) - _product(sizes))
    exact = count is const(0)
    return Layout(old, sizes, components, written, tuple(shape), exact, axes, inverse)


def _read(
    text: str, buffer: str, rank: int, where: str, ranges: SizeRanges, taken: Collection[str]
) -> tuple[tuple[Var, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """The parameters of a map, its results, and these as they are written."""
    require(
        isinstance(text, str) and ":" in text,
        where,
        f"{text!r} is no index map",
        'write a lambda, or its text such as "i, j: j // 4, i, j % 4"',
    )
    head, _, tail = text.partition(":")
    names = [name.strip() for name in head.split(",")]
    fine = all(n.isidentifier() and n not in taken for n in names) and len(set(names)) == len(names)
    require(fine, where, f"the parameters of the index map {text!r} are not distinct new names")
    require(
        len(names) == rank,
        where,
        f"the index map {text!r} has {len(names)} parameters; {buffer!r} has {rank} dimensions",
    )
    old = tuple([Var(name) for name in names])
    env = {**{var.name: var for var, _ in ranges}, **dict(zip(names, old))}
    analyzer = Analyzer()
    try:
        from tensorir import parse_exprs

        found = parse_exprs(tail, env)
    except TensorIRError as error:
        reason = str(error).splitlines()[0]
        raise Illegal(where, f"the index map {text!r} cannot be read: {reason}") from None
    for part in found:
        if part.dtype != "int64":
            raise Illegal(where, f"{part!r} of the index map is no index")
    return old, tuple(map(analyzer.simplify, found)), found


def _product(sizes: tuple[Expr, ...]) -> Expr:
    count: Expr = const(1)
    for size in sizes:
        count = count * size
    return count
