"""PrimFunc: one kernel, a function over buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeGuard

from tensorir import dtype as dt
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import Expr, Var
from tensorir.parts import written_in
from tensorir.scalars import Scalar, SizeRanges, divisors, in_call_order
from tensorir.stmt import Stmt
from tensorir.visit import walk_exprs

DECLARED = "inout"
"""The attribute of a function that names its in-out parameters: attrs({"inout": ["C"]})."""


def require_func(func: object, what: str) -> None:
    """Raise TensorIRError for what is no PrimFunc, and say how to get one."""
    if isinstance(func, PrimFunc):
        return
    remedy = "make one with te.create_prim_func([inputs..., outputs...])"
    if isinstance(getattr(func, "func", None), PrimFunc):
        remedy = "pass its .func"
    raise TensorIRError(f"{what} needs a PrimFunc, not {type(func).__name__}; {remedy}")


@dataclass(slots=True, eq=False, repr=False)
class PrimFunc:
    """Arguments in call order (outputs last), intermediate buffers, and the program.

    `params` are the arguments that are arrays, `scalars` those that are numbers: sizes, of the
    index type, and values, of any other. `buffers` are the intermediates; their memory is placed by
    the lowering pass that finds the innermost loop around all of their uses.
    """

    name: str
    params: tuple[Buffer, ...]
    buffers: tuple[Buffer, ...]
    body: Stmt
    attrs: Mapping[str, Any] = field(default_factory=dict)
    scalars: tuple[Scalar, ...] = ()

    def __repr__(self) -> str:
        from tensorir.text.printer import format_func

        return format_func(self)

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for te tensors in the place of the inputs, as a stage of a te graph; a tuple
        where there are several. See te.extern, which takes the shapes of the outputs too.

        Raises TensorIRError where the tensors do not fit, or this is no function of its inputs:
        where it is in place.
        """
        from tensorir.te.statements import call

        return call(self, inputs)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The parameters that the program writes, in call order."""
        written = written_in(self.body)
        return tuple(p for p in self.params if p in written)

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The parameters that the program only reads, in call order."""
        outputs = self.outputs
        return tuple(p for p in self.params if p not in outputs)

    @property
    def in_outs(self) -> tuple[Buffer, ...]:
        """The parameters that the program writes and needs as they are given, in call order.

        It reads elements of them before it has written these, or leaves some as they are.
        """
        from tensorir.verifier.inout import in_outs

        return in_outs(self)

    @property
    def given(self) -> tuple[Buffer, ...]:
        """The parameters that a caller has to give, in call order: inputs and in-outs."""
        made = set(self.outputs) - set(self.in_outs)
        return tuple(p for p in self.params if p not in made)

    @property
    def arguments(self) -> tuple[Buffer | Scalar, ...]:
        """The parameters and the scalars, in call order."""
        return in_call_order(self.params, self.scalars)

    @property
    def size_vars(self) -> tuple[Var, ...]:
        """The symbolic sizes: those in the shapes of the parameters, in order of appearance, then
        the scalars of the index type that are in none."""
        return tuple([var for var, _ in self.size_ranges])

    @property
    def value_vars(self) -> tuple[Var, ...]:
        """The scalars that are no sizes, in call order: data, on which no loop depends."""
        found = [scalar for scalar in self.scalars if not scalar.is_size]
        return tuple([scalar.var for scalar in sorted(found, key=lambda s: s.position)])

    @property
    def free_vars(self) -> tuple[Var, ...]:
        """The variables that a call binds: symbolic sizes, then the scalars that are none."""
        return (*self.size_vars, *self.value_vars)

    @property
    def size_ranges(self) -> SizeRanges:
        """The symbolic sizes, each with the least value that a call may give it.

        That is 0 for a size in the shape of a parameter, 1 where it divides there, and for scalars
        no less than they say.
        """
        return _size_ranges(self.params, self.scalars)

    def buffer(self, name: str) -> Buffer:
        """The parameter or intermediate of this name; KeyError if there is none."""
        for buffer in (*self.params, *self.buffers):
            if buffer.name == name:
                return buffer
        raise KeyError(name)


@lru_cache(maxsize=256)
def _size_ranges(params: tuple[Buffer, ...], scalars: tuple[Scalar, ...]) -> SizeRanges:
    sizes = [size for param in params for size in param.shape if size.variables]
    order = dict.fromkeys(n for size in sizes for n in walk_exprs(size) if _is_size(n))
    numbers = [scalar for scalar in scalars if scalar.is_size]
    order.update(dict.fromkeys(scalar.var for scalar in numbers))
    positive = {var for size in sizes for var in divisors(size)}
    least = {scalar.var: scalar.least for scalar in numbers}
    for var in (var for size in sizes for var in size.variables if _is_size(var)):
        least[var] = max(least.get(var) or 0, int(var in positive))
    return tuple([(var, least[var]) for var in order])


def _is_size(e: Expr) -> TypeGuard[Var]:
    """The verifier refuses other variables in shapes."""
    return isinstance(e, Var) and e.dtype == dt.INDEX
