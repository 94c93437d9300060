"""Tensor intrinsics: what an instruction means, as a program, and how C and CUDA say it.

An intrinsic is declared once: its meaning is a printed PrimFunc, a nest of loops around one store;
its implementation is the text of a function, in C, in CUDA C++ or in both. The schedule primitive
`tensorize` marks a nest of loops that matches the meaning, and a backend whose language the
intrinsic has then calls the function in place of the loops. Everything else, the interpreter first
of all, keeps running the loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod
from typing import Any

from tensorir.errors import TensorIRError
from tensorir.expr import TRUE, Expr, Load, Var, conjuncts, int_value
from tensorir.func import PrimFunc
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
              float. It may read and write what the meaning does, and nothing else. "" for none
    needs     the features of the target without which the loops are kept, such as "avx512vnni", or
              the oldest CUDA architecture, "sm_80"; several are separated by spaces, and
              alternatives by "|"
    strides   by parameter: the strides that the implementation insists on, None for any
    numerics  what it does to a floating-point sum: "reassociated" where it adds the terms in
              another order, "mixed" where it also rounds otherwise than the meaning
    cuda      CUDA C++ text that defines the device function $NAME in the same way, for one thread;
              "" for none. The emulator compiles it too, with TENSORIR_EMULATOR defined: what only
              a GPU has needs a second half there. Operands of several dimensions have to be dense,
              by `strides`
    tiles     for texts that work on the tile registers of AMX: what these hold of the output, such
              as "i32 2x2"; "" for others. Whoever calls $NAME has every tile configured as 16 rows
              of 64 bytes, and `source`, which can use the macros of backends/c/tiles.py, defines
              three functions more: ${NAME}_in loads the output into tiles, ${NAME}_on does the same
              as $NAME with an output that is there, and ${NAME}_out stores it. So intrinsics that
              hold the same can follow each other without memory between them
    aligned   by parameter: the bytes, up to 16, at multiples of which the operands of `cuda` have
              to begin
    """

    name: str
    meaning: str
    source: str = ""
    needs: str = ""
    strides: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    numerics: str = "reassociated"
    cuda: str = ""
    aligned: Mapping[str, int] = field(default_factory=dict)
    tiles: str = ""

    def text_for(self, kind: str) -> str:
        """The implementation for targets of a kind; "" where there is none."""
        return {"c": self.source, "cuda": self.cuda, "cuda-emulator": self.cuda}.get(kind, "")

    def runs_on(self, features: Iterable[str], kind: str = "c") -> bool:
        """Whether there is a text for this kind of target, and one with these features has the
        instruction."""
        known = set(features)
        there = any(known.issuperset(each.split()) for each in self.needs.split("|"))
        return there and bool(self.text_for(kind))

    @cached_property
    def func(self) -> PrimFunc:
        """The meaning as a program; TensorIRError where it is more than one nest and a store."""
        from tensorir.text.parser import parse

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
        self._check_texts(func)
        return func

    def _check_texts(self, func: PrimFunc) -> None:
        self.require(bool(self.source or self.cuda), "it has no text, neither source nor cuda")
        for name, size in self.aligned.items():
            known = name in [param.name for param in func.params]
            self.require(known, f"'aligned' names {name!r}, which is no parameter")
            self.require(size in (1, 2, 4, 8, 16), f"{name!r} cannot be aligned to {size} bytes")
        for param in func.params if self.cuda else ():
            shape = param.const_shape or ()
            dense = tuple(prod(shape[axis:]) for axis in range(1, param.ndim))
            self.require(
                tuple(self.strides.get(param.name, ())) == dense,
                f"its text for CUDA takes dense operands only: give {param.name!r} the strides "
                f"{dense}",
            )

    @property
    def nest(self) -> Nest:
        """The loops of the meaning, and its store in terms of them."""
        return self.nest_of(self.func)

    def nest_of(self, func: PrimFunc) -> Nest:
        found = loop_nest(func.body)
        if isinstance(found, str):
            raise self.refusal(found)
        return found

    def require(self, condition: bool, reason: str) -> None:
        if not condition:
            raise self.refusal(reason)

    def refusal(self, reason: str) -> TensorIRError:
        return TensorIRError(f"tensor intrinsic {self.name!r}: {reason}")


NESTS = 256
"""Statements of which the nest is kept: rules ask each intrinsic what it computes."""


@dataclass(frozen=True)
class Nest:
    """Loops, outermost first, around one store in terms of them, and the conditions it is under."""

    loops: tuple[For, ...]
    store: Store
    guards: tuple[Expr, ...]


@lru_cache(maxsize=NESTS)
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
"""All intrinsics by name. What is not built in gets here by `register_checked`."""


def known_intrins() -> dict[str, TensorIntrin]:
    """INTRINS with those that come along, which are imported when first asked for."""
    from tensorir import tensor_intrins

    assert tensor_intrins.BUILT_IN
    return INTRINS


def find_intrin(name: str) -> TensorIntrin | None:
    """The intrinsic of that name, if there is one."""
    return known_intrins().get(name) if isinstance(name, str) else None
