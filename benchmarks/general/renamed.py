"""Other names for all that a program names: nothing may depend on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks.general.form import Form
from tensorir import (
    DECLARED,
    Block,
    Buffer,
    Expr,
    For,
    IterKind,
    Let,
    PrimFunc,
    Stmt,
    Var,
    map_children,
    replace_buffers,
    substitute,
    walk,
)
from tensorir import replace as replace_fields
from tensorir.names import Names
from tensorir.visit import map_own_exprs


@dataclass(frozen=True)
class Naming:
    """Names to hand out in turns, in each nest from the first on.

    spatial, reduce   of loops, by what the block does with them
    variable          of the block's variable for a loop, with {} for the loop's name
    blocks, buffers   of blocks, and of parameters and intermediates
    """

    spatial: str
    reduce: str
    variable: str
    blocks: str
    buffers: str


NAMINGS: Mapping[str, Naming] = {
    "letters": Naming("a b d e f g", "p q u x y z", "{}{}", "one two three", "r s t"),
    "topi": Naming(
        "nn ff yy xx zz", "rc ry rx rz", "v_{}", "compute T_relu T_add", "data kernel pad_temp"
    ),
    "of others": Naming("w o n c h k", "j i b s r h", "v{}", "out conv pad", "y bias q v out_1"),
    "numbers": Naming("ax0 ax1 ax2 ax3 ax4", "k0 k1 k2 k3", "i{}", "block", "T"),
}
"""Among them those of te programs written with TVM's names, and names that other operators give to
loops with another meaning: `w` for the first one, `o` for the second."""


def renamings(func: PrimFunc) -> Iterator[Form]:
    for name, naming in NAMINGS.items():
        yield Form("renamed", f"renamed {name}", renamed(func, naming))


def renamed(func: PrimFunc, naming: Naming) -> PrimFunc:
    """`func` with other names for its loops, blocks, their variables, parameters, intermediates
    and itself. Sizes keep theirs: callers give them by name."""
    sizes = {var.name for var in func.size_vars} | {scalar.name for scalar in func.scalars}
    taken = Names(sizes)
    stock = naming.buffers.split()
    buffers = {
        b: Buffer(taken.unique(stock[n % len(stock)]), b.shape, b.dtype, b.scope)
        for n, b in enumerate((*func.params, *func.buffers))
    }
    body = _Renaming(naming, taken, _kinds(func.body)).stmt(replace_buffers(func.body, buffers), {})
    attrs = dict(func.attrs)
    if DECLARED in attrs:
        by_name = {old.name: new.name for old, new in buffers.items()}
        attrs[DECLARED] = [by_name[name] for name in attrs[DECLARED]]
    params, inner = (tuple(buffers[b] for b in group) for group in (func.params, func.buffers))
    return replace(func, name="main", params=params, buffers=inner, body=body, attrs=attrs)


def _kinds(body: Stmt) -> dict[str, IterKind]:
    """What blocks do with each loop, by the loop's name."""
    found: dict[str, IterKind] = {}
    for block in walk(body):
        for it in block.iters if isinstance(block, Block) else ():
            for var in it.binding.variables:
                found.setdefault(var.name, it.kind)
    return found


class _Renaming:
    """One pass over a program; names of loops and blocks are unique in it, of variables in one
    block."""

    def __init__(self, naming: Naming, taken: Names, kinds: Mapping[str, IterKind]) -> None:
        self.naming, self.taken, self.kinds = naming, taken, kinds
        self.blocks = Names()
        self.named = 0
        self.chosen: dict[Expr, str] = {}
        """By loop the name that was wanted for it; it has that name with a number."""

    def stmt(self, stmt: Stmt, values: Mapping[Var, Expr], depth: tuple[int, int] = (0, 0)) -> Stmt:
        """`stmt` with `values` for variables; `depth` counts spatial and reduce loops around."""
        new = map_own_exprs(stmt, lambda e: substitute(e, values))
        if isinstance(new, For):
            reduces = self.kinds.get(new.var.name) is IterKind.REDUCE
            stock = (self.naming.reduce if reduces else self.naming.spatial).split()
            wanted = stock[depth[reduces] % len(stock)]
            depth = (depth[0] + (not reduces), depth[1] + reduces)
            var = Var(self.taken.unique(wanted), new.var.dtype)
            self.chosen[var] = wanted
            values, new = {**values, new.var: var}, replace_fields(new, var=var)
        elif isinstance(new, Block):
            values, new = self.block(new, values)
        elif isinstance(new, Let):
            values = {**values, new.var: Var(self.taken.unique("value"), new.var.dtype)}
            new = replace_fields(new, var=values[new.var])
        return map_children(new, lambda child: self.stmt(child, values, depth))

    def block(self, block: Block, values: Mapping[Var, Expr]) -> tuple[Mapping[Var, Expr], Block]:
        """The block with other names, and the variables for what stands in it."""
        names, own = Names(self.taken.taken), {}
        for it in block.iters:
            loop = next((self.chosen[v] for v in it.binding.variables), it.var.name)
            own[it.var] = Var(names.unique(self.naming.variable.replace("{}", loop)), it.var.dtype)
        stock = self.naming.blocks.split()
        name = self.blocks.unique(stock[self.named % len(stock)])
        self.named += 1
        iters = tuple(replace_fields(it, var=own[it.var]) for it in block.iters)
        return {**values, **own}, replace_fields(block, name=name, iters=iters)
