"""Constants: arguments that are known when a kernel is built."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backends.call.arguments import adopt_some
from backends.call.signature import Signature
from backends.call.spaces import Array
from tensorir import PrimFunc, check_constants, specialize

Constants = Mapping[str, Any] | Collection[str]
"""Arrays by the names of their parameters; or names alone, for a kernel that is only read."""


@dataclass(frozen=True, eq=False)
class Binding:
    """What a kernel is given when it is made.

    names    the constants
    arrays   their arrays; None where only names were given, for a kernel that is not called
    prepare  the function that makes the packed arrays out of them; None if there are none
    ahead    its arguments; None likewise
    """

    names: tuple[str, ...]
    arrays: Mapping[str, Array] | None
    prepare: PrimFunc | None
    ahead: Signature | None

    @property
    def function(self) -> tuple[PrimFunc, Signature] | None:
        """`prepare` and its arguments."""
        return None if self.prepare is None or self.ahead is None else (self.prepare, self.ahead)

    def hidden(self, signature: Signature) -> frozenset[str]:
        """The arguments of the compiled kernel that a call does not give."""
        made = () if self.ahead is None else [self.ahead.params[i].name for i in self.ahead.outputs]
        return frozenset((*self.names, *made)) & {p.name for p in signature.params}

    def visible(self, signature: Signature) -> Signature:
        """The arguments of a call, given those of the compiled kernel."""
        hidden = self.hidden(signature)
        return replace(signature, params=tuple(p for p in signature.params if p.name not in hidden))


def given_constants(
    func: PrimFunc, constants: Constants
) -> tuple[PrimFunc, tuple[str, ...], dict[str, Array] | None]:
    """`func` with the sizes that the constants tell, the names of the constants and their arrays.

    The arrays are dense and aligned, and share memory with those given where they are so too.
    Raises TensorIRError for an unknown name, an output, a wrong type and a wrong shape.
    """
    names = tuple(p.name for p in check_constants(func, constants))
    if not isinstance(constants, Mapping):
        return func, names, None
    signature = Signature.of(func)
    given = {i: constants[p.name] for i, p in enumerate(signature.params) if p.name in names}
    arrays, sizes = adopt_some(signature, given)
    held = {
        signature.params[i].name: np.require(array, requirements=("C", "A"))
        for i, array in arrays.items()
    }
    return specialize(func, {var.name: n for var, n in sizes.items()}), names, held
