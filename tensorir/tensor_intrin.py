"""Tensor intrinsics: what an instruction means, as a program, and how C says it.

An intrinsic is declared once: its meaning is a printed PrimFunc, a nest of loops around one store;
its implementation is the text of a C function. The schedule primitive `tensorize` marks a nest of
loops that matches the meaning, and the C backend then calls the function in place of the loops.
Everything else, the interpreter first of all, keeps running the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tensorir import dtype as dt
from tensorir.errors import TensorIRError
from tensorir.expr import TRUE, Expr, Load, Var, conjuncts, int_value
from tensorir.func import PrimFunc
from tensorir.interpret import interpret
from tensorir.parser import parse
from tensorir.stmt import Block, For, ForKind, If, Stmt, Store, replace
from tensorir.visit import loads, substitute_stmt, variables

TENSORIZE = "tensorize"
"""The annotation of the outermost loop of a tensorized nest: the name of the intrinsic."""
TENSORIZED = "tensorized_by"
"""The annotation of the loops inside of it."""


@dataclass(frozen=True)
class TensorIntrin:
    """An instruction on small tensors.

    meaning   a printed PrimFunc: loops of constant extent around one block without init, which
              indexes each parameter by loops, each once, or by 0; outputs are the last parameters
    source    C text that defines the function $NAME: pointers to the first element of each
              parameter, in order, and then, as i64, the strides of all dimensions but the last of
              each, in elements; the stride of a last dimension is 1. Types are written i32, u8,
              float. It may read and write what the meaning does, and nothing else.
    needs     the feature of the target without which the loops are kept, such as "avx512vnni"
    strides   by parameter: the strides that the implementation insists on
    """

    name: str
    meaning: str
    source: str
    needs: str = ""
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def func(self) -> PrimFunc:
        """The meaning as a program; TensorIRError where it is more than one nest and a store."""
        func = parse(self.meaning)
        nest = self.nest_of(func)
        store, own = nest.store, {loop.var for loop in nest.loops}
        self.require(not nest.guards, "its store has a condition")
        for loop in nest.loops:
            size = loop.const_extent
            self.require(size is not None and size > 1, f"loop {loop.name!r} has no extent above 1")
        for access in (Load(store.buffer, store.indices), *loads(store.value)):
            used = [i for i in access.indices if isinstance(i, Var)]
            plain = all(
                i in own if isinstance(i, Var) else int_value(i) == 0 for i in access.indices
            )
            self.require(plain and len(used) == len(set(used)), f"{access!r} is no plain access")
        for param in func.params:
            self.require(param.const_shape is not None, f"{param!r} has no constant shape")
        self.require(func.outputs == func.params[-1:], "the output is not the last parameter")
        return func

    @property
    def nest(self) -> Nest:
        """The loops of the meaning, and its store in terms of them."""
        return self.nest_of(self.func)

    def nest_of(self, func: PrimFunc) -> Nest:
        found = loop_nest(func.body)
        self.require(not isinstance(found, str), f"{found}")
        assert not isinstance(found, str)
        return found

    def require(self, condition: bool, reason: str) -> None:
        if not condition:
            raise TensorIRError(f"tensor intrinsic {self.name!r}: {reason}")


@dataclass(frozen=True)
class Nest:
    """Loops, outermost first, around one store in terms of them, and the conditions it is under."""

    loops: tuple[For, ...]
    store: Store
    guards: tuple[Expr, ...]


def loop_nest(stmt: Stmt) -> Nest | str:
    """A chain of serial loops around one store, which may lie in a block; or what is in the way."""
    loops: list[For] = []
    guards: list[Expr] = []
    while isinstance(stmt, (For, If)):
        if isinstance(stmt, For):
            if stmt.kind is not ForKind.SERIAL:
                return f"loop {stmt.name!r} is {stmt.kind}"
            loops.append(stmt)
            stmt = stmt.body
            continue
        if stmt.orelse is not None:
            return f"it does different things where {stmt.cond!r}"
        guards.append(stmt.cond)
        stmt = stmt.then
    if isinstance(stmt, Block):
        if stmt.init is not None:
            return f"block {stmt.name!r} has an init; decompose_reduction puts it outside"
        if stmt.predicate is not TRUE:
            guards.append(stmt.predicate)
        values = {it.var: it.binding for it in stmt.iters}
        stmt = substitute_stmt(stmt.body, values)
    if not isinstance(stmt, Store):
        return f"below loop {loops[-1].name!r} is more than one store" if loops else "no loop"
    inside = {loop.var for loop in loops}
    for guard in (part for each in guards for part in conjuncts(each)):
        if variables(guard) & inside or next(loads(guard), None) is not None:
            return f"it runs only where {guard!r}"
    return Nest(tuple(loops), stmt, tuple(guards))


def tensorized(stmt: Stmt, name: str) -> Stmt:
    """A nest with the annotations of a tensorized one."""
    notes: dict[str, Any] = {TENSORIZE: name}

    def visit(node: Stmt) -> Stmt:
        nonlocal notes
        if not isinstance(node, For):
            return node
        mine, notes = notes, {TENSORIZED: name}
        return replace(node, annotations=mine, body=visit(node.body))

    return visit(stmt)


# The registry

INTRINS: dict[str, TensorIntrin] = {}
"""All intrinsics by name. What is not built in gets here by `register`, which checks it."""

Runner = Callable[[PrimFunc, TensorIntrin], Callable[..., Any]]
"""Compiles a program that calls an intrinsic. The result takes arrays and writes into the last."""

KINDS = ("small", "small", "wide", "wide", *["extreme"] * 60)


def register(intrin: TensorIntrin, compiled: Runner) -> None:
    """Add an intrinsic; TensorIRError if its implementation does not do what its meaning says."""
    if intrin.name in INTRINS:
        raise TensorIRError(f"there is a tensor intrinsic {intrin.name!r} already")
    check(intrin, compiled)
    INTRINS[intrin.name] = intrin


def check(intrin: TensorIntrin, compiled: Runner) -> None:
    """Compare implementation and meaning, on dense operands and on parts of larger arrays."""
    flat = intrin.strides or all(param.ndim < 2 for param in intrin.func.params)
    for padding in (0,) if flat else (0, 3):
        func = _program(intrin, padding)
        run = compiled(func, intrin)
        for seed, kind in enumerate(KINDS):
            rng = np.random.default_rng(seed)
            arrays = [_values(p.const_shape or (), p.dtype, kind, rng) for p in func.params]
            with np.errstate(all="ignore"):
                wanted = interpret(func, *arrays)[0]
            run(*arrays)
            _compare(intrin, wanted, arrays[-1], kind)


def _program(intrin: TensorIntrin, padding: int) -> PrimFunc:
    """The tensorized meaning, on arrays whose rows are longer, each parameter's by its own."""
    func = intrin.func
    text = intrin.meaning
    for number, param in enumerate(func.params if padding else ()):
        shape = param.const_shape or ()
        if len(shape) > 1:
            kind = dt.SHORT[param.dtype]
            old = f"{param.name}: {kind}[{', '.join(map(str, shape))}]"
            new = ", ".join(map(str, (*shape[:-1], shape[-1] + padding + number)))
            intrin.require(old in text, f"its meaning does not say {old!r}")
            text = text.replace(old, f"{param.name}: {kind}[{new}]")
    made = parse(text)
    return PrimFunc(made.name, made.params, (), tensorized(made.body, intrin.name))


def _values(
    shape: tuple[int, ...], dtype: str, kind: str, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    if dt.is_float(dtype):
        if kind == "small":
            return rng.integers(-9, 10, shape).astype(dtype)
        if kind == "wide":
            return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
        return rng.choice([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan], shape).astype(dtype)
    if dt.is_bool(dtype):
        return rng.integers(0, 2, shape).astype(dtype)
    low, high = dt.int_limits(dtype)
    if kind == "small":
        return rng.integers(max(low, -9), 10, shape).astype(dtype)
    if kind == "wide":
        return rng.integers(low, high, shape, endpoint=True, dtype=dtype)
    return rng.choice(np.array([low, high, 0, 1, high - 1], dtype), shape)


def _compare(intrin: TensorIntrin, wanted: Any, found: Any, kind: str) -> None:
    """Equal values, apart from the rounding of floats that are no small integers."""
    same = np.equal(wanted, found)
    if dt.is_float(intrin.func.params[-1].dtype):
        same |= np.isnan(wanted) & np.isnan(found)
        if kind == "wide":  # fused multiply-adds, and sums in another order
            size = float(np.max(np.abs(wanted), initial=1.0))
            same |= np.abs(wanted - found) <= 1e-5 * size
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        output = intrin.func.params[-1].name
        raise TensorIRError(
            f"tensor intrinsic {intrin.name!r} does not do what it says: it makes "
            f"{output}{list(at)} {found[at]!r}, and its meaning {wanted[at]!r}"
        )


def find_intrin(name: str) -> TensorIntrin | None:
    """The intrinsic of that name, if there is one."""
    return INTRINS.get(name)
