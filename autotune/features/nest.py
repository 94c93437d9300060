"""The loop nest of each block of a scheduled program, as numbers: what features are made of.

Index expressions become forms, sums of one term per loop. A term (coef, steps) says that the loop
moves the index `steps` times by `coef`; quotients, remainders and the like are approximated.
Symbolic extents count as SYMBOLIC iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from tensorir import (
    BinOp,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Extern,
    For,
    ForKind,
    IterKind,
    Let,
    Load,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Var,
    child_stmts,
    children,
    dtype,
    find_intrin,
    int_value,
    part_axes,
    stmt_exprs,
    touched,
    variables,
)

SYMBOLIC = 128
"""Iterations of a loop, and elements of a dimension, whose extent is not known."""

CALL_OPS = 10
"""Operations that a math function such as exp counts for."""

DIVIDE_OPS = 4
"""Operations that a division counts for."""

EXPRESSIONS = 4096
"""Expressions of which the work is kept: schedules leave what blocks compute as it is."""

Terms = dict[int, tuple[int, int]]


@dataclass(slots=True)
class Form:
    """An index: constant plus, for each loop by its depth, `steps` moves of `coef`.

    `unknown` marks an index that depends on data, so that it may be anything.
    """

    terms: Terms = field(default_factory=dict)
    const: int = 0
    unknown: bool = False

    def span(self) -> int:
        """The largest value less the smallest."""
        return sum(abs(coef) * steps for coef, steps in self.terms.values())


@dataclass(slots=True)
class Access:
    """A load or store by a block: an index form for each dimension."""

    buffer: Buffer
    forms: tuple[Form, ...]
    store: bool


@dataclass(slots=True)
class Loop:
    """A loop around a block; `extent` is at least 1."""

    name: str
    extent: int
    kind: ForKind
    thread: str | None


@dataclass(slots=True)
class BlockNest:
    """A block with the loops around it, outermost first; depths count from 0.

    useful   instances that the block's own variables span, were each computed once
    ops      arithmetic operations of one instance
    reduce   depths of the loops that drive reduction variables
    guard    depths of the loops that the predicate depends on
    """

    name: str
    loops: tuple[Loop, ...]
    useful: int
    reduce: frozenset[int]
    guard: frozenset[int]
    accesses: list[Access] = field(default_factory=list)
    ops: int = 0
    selects: bool = False

    @property
    def instances(self) -> int:
        """How often the body of the innermost loop is reached."""
        return prod([loop.extent for loop in self.loops])

    @property
    def flops(self) -> int:
        """Operations of the useful instances; a copy counts as one."""
        return self.useful * max(self.ops, 1)


def nests(func: PrimFunc) -> list[BlockNest]:
    """The blocks of `func` in program order, each with its loops, accesses and operations.

    A store outside of any block counts as a block without a name.
    """
    found: list[BlockNest] = []
    _visit(func.body, (), {}, None, found)
    return found


def _visit(
    stmt: Stmt,
    loops: tuple[Loop, ...],
    env: dict[Var, Form],
    block: BlockNest | None,
    found: list[BlockNest],
) -> None:
    if isinstance(stmt, For):
        extent = int_value(stmt.extent)
        extent = SYMBOLIC if extent is None else max(extent, 1)
        env = {**env, stmt.var: Form({len(loops): (1, extent - 1)} if extent > 1 else {})}
        loops = (*loops, Loop(stmt.name, extent, _kind(stmt), stmt.thread))
        if block is not None and not block.accesses:
            block.loops = loops
    elif isinstance(stmt, Block):
        block, env = _open_block(stmt, loops, env)
        found.append(block)
        _visit(stmt.body, loops, env, block, found)
        return
    elif isinstance(stmt, Let) and dtype.is_int(stmt.var.dtype):
        env = {**env, stmt.var: form_of(stmt.value, env)}
    if not isinstance(stmt, For):
        if block is None and isinstance(stmt, Store):
            block = BlockNest("", loops, prod([x.extent for x in loops]), frozenset(), frozenset())
            found.append(block)
        if block is not None and isinstance(stmt, Extern):
            _record_call(stmt, loops, env, block)
        elif block is not None:
            _record(stmt, env, block)
    for child in child_stmts(stmt):
        _visit(child, loops, env, block, found)


def _kind(loop: For) -> ForKind:
    """How a loop runs: one that a tensor intrinsic takes the place of is written out, and its
    longest loop is the one of the lanes."""
    notes = loop.annotations
    name = notes.get("tensorize", notes.get("tensorized_by"))
    intrin = None if name is None else find_intrin(str(name))
    if intrin is None:
        return loop.kind
    lanes = max(inner.const_extent or 0 for inner in intrin.nest.loops)
    return ForKind.VECTORIZED if loop.const_extent == lanes else ForKind.UNROLLED


def _open_block(
    stmt: Block, loops: tuple[Loop, ...], env: dict[Var, Form]
) -> tuple[BlockNest, dict[Var, Form]]:
    inner = dict(env)
    useful = 1
    reduce: set[int] = set()
    spatial: set[int] = set()
    for it in stmt.iters:
        form = form_of(it.binding, env)
        inner[it.var] = form
        (reduce if it.kind is IterKind.REDUCE else spatial).update(form.terms)
        extent = int_value(it.extent)
        useful *= SYMBOLIC if extent is None else max(extent, 1)
    depths = {loop.name: depth for depth, loop in enumerate(loops)}
    guard = {depths[v.name] for v in variables(stmt.predicate) if v.name in depths}
    nest = BlockNest(stmt.name, loops, useful, frozenset(reduce - spatial), frozenset(guard))
    return nest, inner


def _record(stmt: Stmt, env: dict[Var, Form], block: BlockNest) -> None:
    """Add the accesses and operations that stand directly in `stmt`."""
    for expr in stmt_exprs(stmt):
        found, ops, selects = _work_of(expr)
        block.accesses += [_access(load.buffer, load.indices, False, env) for load in found]
        block.ops += ops
        block.selects |= selects
    if isinstance(stmt, Store):
        block.accesses.append(_access(stmt.buffer, stmt.indices, True, env))


@lru_cache(maxsize=EXPRESSIONS)
def _work_of(expr: Expr) -> tuple[tuple[Load, ...], int, bool]:
    """The different loads of an expression, without those inside indices, its operations, and
    whether it chooses."""
    loads, ops, selects = list[Load](), 0, False
    for node in _arithmetic(expr):
        if isinstance(node, Load):
            loads.append(node)
        elif isinstance(node, Select):
            selects = True
            ops += 1
        else:
            ops += _cost(node)
    return tuple(loads), ops, selects


def _record_call(
    stmt: Extern, loops: tuple[Loop, ...], env: dict[Var, Form], block: BlockNest
) -> None:
    """An extern function goes over the largest of its parts, element by element."""
    inner, sizes = dict(env), dict[int, int]()
    for part in stmt.parts:
        for depth, (var, size) in enumerate(part_axes(part).items(), len(loops)):
            known = int_value(size)
            extent = SYMBOLIC if known is None else max(known, 1)
            inner[var] = Form({depth: (1, extent - 1)} if extent > 1 else {})
            sizes[depth] = max(sizes.get(depth, 1), extent)
    own = [Loop(f"{stmt.name}.{d}", n, ForKind.SERIAL, None) for d, n in sorted(sizes.items())]
    block.loops = (*loops, *own)
    block.useful *= prod(sizes.values())
    block.ops += CALL_OPS
    for buffer, indices, is_write in touched(stmt):
        block.accesses.append(_access(buffer, indices, is_write, inner))


def _arithmetic(expr: Expr) -> Iterator[Expr]:
    """The distinct nodes of `expr`, without those inside indices."""
    seen = {expr}
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        for child in () if isinstance(node, Load) else children(node):
            if child not in seen:
                seen.add(child)
                stack.append(child)


def _cost(node: Expr) -> int:
    if node.dtype == dtype.INDEX or dtype.is_bool(node.dtype):
        return 0
    if isinstance(node, Call):
        return CALL_OPS
    if isinstance(node, BinOp):
        return DIVIDE_OPS if node.op in ("/", "//", "%") else 1
    return 0


def _access(buffer: Buffer, indices: tuple[Expr, ...], store: bool, env: dict[Var, Form]) -> Access:
    return Access(buffer, tuple([form_of(i, env) for i in indices]), store)


def form_of(e: Expr, env: dict[Var, Form]) -> Form:
    """The form of an index; variables not in `env`, such as sizes, count as 0."""
    if isinstance(e, Const):
        return Form({}, int(e.value))
    if isinstance(e, Var):
        return env.get(e) or Form()
    if isinstance(e, BinOp):
        a, b = form_of(e.a, env), form_of(e.b, env)
        return _COMBINE.get(e.op, _unknown)(a, b)
    if isinstance(e, Cast):
        return form_of(e.a, env)
    if isinstance(e, Select):
        return _wider(form_of(e.a, env), form_of(e.b, env))
    return Form(unknown=True)


def _plus(a: Form, b: Form, sign: int = 1) -> Form:
    if not b.terms:
        return Form(a.terms, a.const + sign * b.const, a.unknown or b.unknown)
    terms = dict(a.terms)
    for depth, (coef, steps) in b.terms.items():
        old = terms.pop(depth, (0, 0))
        total = old[0] + sign * coef
        if total:
            terms[depth] = (total, max(old[1], steps))
    return Form(terms, a.const + sign * b.const, a.unknown or b.unknown)


def _times(a: Form, b: Form) -> Form:
    if b.terms and not a.terms:
        a, b = b, a
    if not b.terms:
        scaled = {d: (c * b.const, n) for d, (c, n) in a.terms.items()} if b.const else {}
        return Form(scaled, a.const * b.const, a.unknown or b.unknown)
    reach = {d: (c * max(b.span(), 1), n) for d, (c, n) in a.terms.items()}
    return Form({**b.terms, **reach}, 0, a.unknown or b.unknown)


def _over(a: Form, b: Form) -> Form:
    divisor = b.const
    if b.terms or divisor <= 0:
        return Form(a.terms, a.const, a.unknown)
    terms: Terms = {}
    for depth, (coef, steps) in a.terms.items():
        if coef % divisor == 0:
            terms[depth] = (coef // divisor, steps)
        elif abs(coef) * steps >= divisor:
            terms[depth] = (1, abs(coef) * steps // divisor)
    return Form(terms, a.const // divisor, a.unknown)


def _modulo(a: Form, b: Form) -> Form:
    modulus = b.const
    if b.terms or modulus <= 0 or (a.span() < modulus and 0 <= a.const < modulus - a.span()):
        return Form(a.terms, a.const, a.unknown)
    terms: Terms = {}
    for depth, (coef, steps) in a.terms.items():
        if coef % modulus:
            terms[depth] = (coef, max(min(steps, (modulus - 1) // abs(coef)), 1))
    return Form(terms, 0, a.unknown)


def _wider(a: Form, b: Form) -> Form:
    return a if a.span() >= b.span() else b


def _unknown(a: Form, b: Form) -> Form:
    return Form(unknown=True)


_COMBINE = {
    "+": _plus,
    "-": lambda a, b: _plus(a, b, -1),
    "*": _times,
    "//": _over,
    "%": _modulo,
    "min": _wider,
    "max": _wider,
}
