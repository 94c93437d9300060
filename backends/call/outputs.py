"""Where the shapes of allocated outputs come from, worked out once per kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backends.call.arguments import Empty, complete
from backends.call.signature import Signature
from backends.call.spaces import Array
from tensorir import Var, int_value

Source = int | tuple[int, int]
"""A dimension: its extent, or (which input, which axis) to read it from."""


@dataclass(frozen=True)
class OutputPlan:
    """How to make the outputs of a call from what it gives; see `plan`."""

    signature: Signature
    outputs: tuple[tuple[int, str, tuple[Source, ...]], ...] | None
    fixed: bool = False
    """Whether all dimensions are numbers."""

    def fill(self, inputs: Sequence[Any], empty: Empty) -> tuple[Any, ...]:
        """All arguments of a call: `inputs` with new outputs in their places.

        Raises TensorIRError where the inputs do not tell a shape.
        """
        if self.outputs is None:
            return tuple(complete(self.signature, inputs, empty))
        if self.fixed:
            every = list(inputs)
            for position, dtype, extents in self.outputs:
                every.insert(position, empty(extents, dtype))  # type: ignore[arg-type]
            return tuple(every)
        made: list[tuple[int, Array]] = []
        try:
            for position, dtype, dims in self.outputs:
                shape = [d if isinstance(d, int) else inputs[d[0]].shape[d[1]] for d in dims]
                made.append((position, empty(tuple(shape), dtype)))
        except (AttributeError, IndexError, TypeError):  # no array: let the checks say so
            return tuple(complete(self.signature, inputs, empty))
        full = list(inputs)
        for position, array in made:
            full.insert(position, array)
        return tuple(full)


def plan(signature: Signature) -> OutputPlan:
    """The plan for `signature`. Where a dimension is an expression every call works it out anew."""
    sources: dict[Var, tuple[int, int]] = {}
    for number, position in enumerate(signature.given):
        for axis, dim in enumerate(signature.params[position].shape):
            if isinstance(dim, Var):
                sources.setdefault(dim, (number, axis))
    outputs: list[tuple[int, str, tuple[Source, ...]]] = []
    for position in signature.made:
        dims: list[Source] = []
        for dim in signature.params[position].shape:
            extent = int_value(dim)
            if extent is None and (not isinstance(dim, Var) or dim not in sources):
                return OutputPlan(signature, None)
            dims.append(sources[dim] if extent is None else extent)  # type: ignore[index]
        outputs.append((position, signature.params[position].dtype, tuple(dims)))
    fixed = all(isinstance(d, int) for _, _, dims in outputs for d in dims)
    return OutputPlan(signature, tuple(outputs), fixed)
