"""Signature: what a kernel's arguments have to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backends.errors import BuildError
from tensorir import Expr, PrimFunc, Var, const, int_value, substitute, walk_exprs
from tensorir import dtype as dt


@dataclass(frozen=True, eq=False)
class Param:
    """One argument; `shape` holds constants and expressions of the symbolic sizes.

    is_output  the kernel writes it
    is_given   a call has to give it: the kernel needs what is in it
    """

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    is_output: bool
    is_given: bool

    def __str__(self) -> str:
        return f"{dt.SHORT[self.dtype]}[{', '.join(map(repr, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Signature:
    """The arguments of a kernel in call order, and its symbolic sizes in the order it takes them.

    `sizes` is never given by the caller: the sizes are read off the arrays.
    """

    name: str
    params: tuple[Param, ...]
    sizes: tuple[Var, ...]

    @classmethod
    def of(cls, func: PrimFunc, sizes: Sequence[Var] | None = None) -> Signature:
        """The signature of `func`; `sizes` overrides the order of the symbolic sizes.

        Raises BuildError where a size stands in no shape on its own, since no array tells it then.
        """
        outputs, given = func.outputs, func.given
        params = tuple(
            Param(p.name, p.dtype, p.shape, p in outputs, p in given) for p in func.params
        )
        order = tuple(func.size_vars if sizes is None else sizes)
        alone = {dim for p in params for dim in p.shape if isinstance(dim, Var)}
        for var in (*func.size_vars, *order):
            if var not in alone:
                where = _first_shape_with(params, var)
                raise BuildError(
                    f"{func.name}: size {var.name!r} occurs in {where} but is no dimension of any "
                    f"argument by itself; add an argument that has a dimension {var.name}"
                )
        return cls(func.name, params, order)

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
        raise BuildError(f"dimension {dim!r} has no value for sizes {dict(sizes)!r}")
    return value


def _first_shape_with(params: tuple[Param, ...], var: Var) -> str:
    for param in params:
        if any(node is var for dim in param.shape for node in walk_exprs(dim)):
            return f"the shape of argument {param.name!r}"
    return "the program"
