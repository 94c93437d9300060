"""Signature: what a kernel's arguments have to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from backends.errors import BuildError
from tensorir import (
    Expr,
    PrimFunc,
    Scalar,
    TensorIRError,
    Var,
    const,
    int_value,
    substitute,
    walk_exprs,
)
from tensorir import dtype as dt


@dataclass(frozen=True, eq=False)
class Param:
    """One argument; `shape` holds constants and expressions of the symbolic sizes.

    is_output  the kernel writes it
    is_given   a call has to give it: the kernel needs what is in it
    is_scalar  it is a number: a symbolic size of its name, or a value of another type
    least      the least value of a size; None where any will do
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    is_output: bool
    is_given: bool
    is_scalar: bool = False
    least: int | None = None

    @classmethod
    def of_scalar(cls, scalar: Scalar, least: int | None) -> Param:
        """The argument that a call gives for `scalar`."""
        return cls(scalar.name, scalar.var.dtype, (), False, True, True, least)

    @property
    def is_size(self) -> bool:
        """Whether it is a number on which shapes, loops and indices may depend."""
        return self.is_scalar and self.dtype == dt.INDEX

    def __str__(self) -> str:
        if self.is_scalar:
            kind = dt.SHORT[self.dtype]
            return kind if self.least is None else f"{kind} >= {self.least}"
        return f"{dt.SHORT[self.dtype]}[{', '.join(map(repr, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Signature:
    """The arguments of a kernel in call order, and its symbolic sizes in the order it takes them.

    Sizes are read off the arrays, or are numbers among the arguments. `least` has the least value
    of each, or None. After the sizes a kernel takes the numbers that are none, in call order.
    """

    name: str
    params: tuple[Param, ...]
    sizes: tuple[Var, ...]
    least: Mapping[Var, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, func: PrimFunc, sizes: Sequence[Var] | None = None) -> Signature:
        """The signature of `func`; `sizes` overrides the order of the symbolic sizes.

        Raises BuildError where a size stands in no shape on its own, since no array tells it then.
        """
        outputs, given = func.outputs, func.given
        least = dict(func.size_ranges)
        params = tuple(
            Param.of_scalar(p, least.get(p.var))
            if isinstance(p, Scalar)
            else Param(p.name, p.dtype, p.shape, p in outputs, p in given)
            for p in func.arguments
        )
        order = tuple(func.size_vars if sizes is None else sizes)
        alone = {dim for p in params for dim in p.shape if isinstance(dim, Var)}
        alone.update(scalar.var for scalar in func.scalars)
        for var in (*func.size_vars, *order):
            if var not in alone:
                where = _first_shape_with(params, var)
                raise BuildError(
                    f"{func.name}: size {var.name!r} occurs in {where} but is no dimension of any "
                    f"argument by itself; add an argument that has a dimension {var.name}, "
                    f"or the number {var.name} itself"
                )
        return cls(func.name, params, order, least)

    @property
    def arrays(self) -> tuple[int, ...]:
        """Positions of the arguments that are arrays."""
        return tuple(i for i, p in enumerate(self.params) if not p.is_scalar)

    @property
    def values(self) -> tuple[int, ...]:
        """Positions of the arguments that are numbers and no sizes."""
        return tuple(i for i, p in enumerate(self.params) if p.is_scalar and not p.is_size)

    @property
    def array_params(self) -> tuple[Param, ...]:
        """The arguments that are arrays."""
        return tuple(p for p in self.params if not p.is_scalar)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Positions of the arguments that the kernel writes."""
        return tuple(i for i, p in enumerate(self.params) if p.is_output)

    @property
    def given(self) -> tuple[int, ...]:
        """Positions of the arguments that a call has to give: inputs, and in-out arguments."""
        return tuple(i for i, p in enumerate(self.params) if p.is_given)

    @property
    def made(self) -> tuple[int, ...]:
        """Positions of the arguments that a call may leave out: outputs that it only writes."""
        return tuple(i for i, p in enumerate(self.params) if not p.is_given)

    def shape(self, param: Param, sizes: Mapping[Var, int]) -> tuple[int, ...]:
        """The shape of `param` in numbers, given every size it mentions."""
        return tuple(dimension(dim, sizes) for dim in param.shape)

    def __str__(self) -> str:
        params = ", ".join(f"{p.name}: {p}" for p in self.params)
        return f"{self.name}({params})"


def dimension(dim: Expr, sizes: Mapping[Var, int]) -> int:
    """The value of one dimension; `sizes` has every variable in it."""
    value = int_value(dim)
    if value is None and isinstance(dim, Var):
        return sizes[dim]
    if value is None:
        value = int_value(substitute(dim, {var: const(n, var.dtype) for var, n in sizes.items()}))
    if value is None:
        known = ", ".join(f"{v.name} = {sizes[v]}" for v in sorted(dim.variables, key=str))
        raise TensorIRError(f"dimension {dim!r} has no value for {known}")
    return value


def _first_shape_with(params: tuple[Param, ...], var: Var) -> str:
    for param in params:
        if any(node is var for dim in param.shape for node in walk_exprs(dim)):
            return f"the shape of argument {param.name!r}"
    return "the program"
