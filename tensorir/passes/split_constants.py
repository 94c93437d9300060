"""split_constants: what depends on constants alone becomes a function of its own, run ahead.

The nests at the root that depend on constants alone (a packing copy, the weight transform of a
convolution) are parted from the scheduled program before it is lowered: what it computes at a loop
of the rest stays there. A nest also stays if it writes an output, if another nest that stays writes
its buffer, or if it needs a symbolic size that no constant has. The first function runs once, in
`build`; a call runs the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from functools import lru_cache

from tensorir.analysis.block_accesses import touches
from tensorir.buffer import Buffer
from tensorir.errors import TensorIRError
from tensorir.expr import Var
from tensorir.func import DECLARED, PrimFunc, require_func
from tensorir.parts import replace_buffers, touched
from tensorir.passes.facts.intervals import HELD, Interval, Intervals
from tensorir.scalars import split_order
from tensorir.stmt import Alloc, Block, Seq, Stmt, seq
from tensorir.visit import child_stmts, loads, stmt_exprs, variables, walk

NESTS = 512
"""Nests of which is kept what they touch: schedules of a program have many in common."""


@dataclass(frozen=True)
class SplitFunc:
    """A program in two parts.

    prepare  from the constants to the packed buffers; None where nothing can be done ahead
    main     the rest; its parameters are those of the program without the constants that only
             `prepare` reads, and the packed buffers before the first output
    packed   the buffers that `prepare` writes and `main` reads, in the order of both
    """

    main: PrimFunc
    prepare: PrimFunc | None
    packed: tuple[Buffer, ...]


@dataclass(frozen=True)
class _Nest:
    """A statement at the root: what it reads and writes, and which numbers of a call it needs."""

    stmt: Stmt
    reads: frozenset[Buffer]
    writes: frozenset[Buffer]
    numbers: frozenset[Var]


def split_constants(func: PrimFunc, names: Collection[str]) -> SplitFunc:
    """`func` in the part that needs only its parameters `names`, and the rest.

    rewrite:
        def f(A, W, C):                        def f_prepare(W, P):
            P = alloc(...)                         for ...: P[...] = W[...]
            for ...: P[...] = W[...]      ->   def f(A, P, C):
            for ...: C[...] += A * P               for ...: C[...] += A * P

    A nest at the root of the program moves if all it reads are constants and results of nests that
    move, and if it writes intermediates that no nest that stays writes. A part of a nest never
    moves: what a schedule computes at a loop of the rest stays there. Symbolic sizes may occur
    where a constant has them as a dimension of its own. Requires a program before lowering.

    Raises TensorIRError for a name that is no parameter or the name of an output.
    """
    constants = check_constants(func, names)
    known = {dim for c in constants for dim in c.shape if isinstance(dim, Var)}
    nests = [_nest(s, func) for s in _flat(func.body)]
    moved = _moved(nests, constants, frozenset(func.params), frozenset(known))
    stay = [n for n in range(len(nests)) if n not in moved]
    used = frozenset[Buffer]().union(*[nests[n].reads for n in stay])
    written = frozenset[Buffer]().union(*[nests[n].writes for n in moved])
    packed = tuple(b for b in func.buffers if b in written & used)
    if not packed:
        return SplitFunc(_main(func, nests, constants, ()), None, ())
    # A buffer that crosses from one function to the other is memory that both can see.
    shared = {b: b.with_scope("global") for b in packed}
    inside = tuple(b for b in func.buffers if b in written and b not in shared)
    ahead = replace_buffers(seq(*[nests[n].stmt for n in sorted(moved)]), shared)
    rest = seq(*[nests[n].stmt for n in stay])
    crossing = tuple(shared.values())
    read = frozenset[Buffer]().union(*[nests[n].reads for n in moved])
    prepare = replace_fields(
        func,
        name=prepare_name(func.name),
        params=(*(p for p in func.params if p in read), *crossing),
        buffers=inside,
        body=ahead,
        attrs={key: value for key, value in func.attrs.items() if key != DECLARED},
        scalars=(),
    )
    main = replace_fields(
        _main(func, [nests[n] for n in stay], constants, crossing),
        buffers=tuple(b for b in func.buffers if b not in written),
        body=replace_buffers(rest, shared),
        attrs={**func.attrs, **_held(ahead, crossing)},
    )
    return SplitFunc(main, prepare, crossing)


def _held(ahead: Stmt, crossing: Sequence[Buffer]) -> dict[str, dict[str, Interval]]:
    """As an attribute, what packed buffers of integers hold, where that is known."""
    intervals = Intervals(ahead, crossing)
    found = {buffer.name: intervals.held(buffer) for buffer in crossing}
    known = {name: interval for name, interval in found.items() if interval is not None}
    return {HELD: known} if known else {}


def prepare_name(name: str) -> str:
    """The name of the function that does the work ahead for a function called `name`."""
    return f"{name}_prepare"


def check_constants(func: PrimFunc, names: Collection[str]) -> tuple[Buffer, ...]:
    """The parameters called `names`, in call order; raises TensorIRError where one cannot be."""
    require_func(func, "looking for constants")
    if isinstance(names, str):
        raise TensorIRError(f"constants={names!r} is one text; write constants=({names!r},)")
    if not isinstance(names, Collection) or hasattr(names, "dtype"):
        raise TensorIRError(
            f"constants is {type(names).__name__}; give arrays by the names of parameters, a dict"
        )
    params = {p.name: p for p in func.params}
    inputs = ", ".join(repr(p.name) for p in func.inputs) or "none"
    for name in names:
        if not isinstance(name, str) or name not in params:
            raise TensorIRError(
                f"{func.name}: constant {name!r} is not a parameter; those that can be constants "
                f"are {inputs}"
            )
        if params[name] in func.outputs:
            raise TensorIRError(
                f"{func.name}: {name!r} is written, so it cannot be a constant; those that can "
                f"be are {inputs}"
            )
    return tuple(p for p in func.params if p.name in names)


def _main(
    func: PrimFunc,
    nests: Sequence[_Nest],
    constants: Sequence[Buffer],
    packed: tuple[Buffer, ...],
) -> PrimFunc:
    """`func` with the parameters that these nests need, and `packed` ones."""
    read = frozenset[Buffer]().union(*[nest.reads for nest in nests])
    kept = [a for a in func.arguments if a not in constants or a in read]
    outputs = func.outputs
    at = next((n for n, a in enumerate(kept) if a in outputs), len(kept))
    kept[at:at] = packed
    params = tuple([a for a in kept if isinstance(a, Buffer)])
    if params == func.params:
        return func
    return replace_fields(func, params=params, scalars=split_order(kept))


def _nest(stmt: Stmt, func: PrimFunc) -> _Nest:
    reads, writes = _touched_in(stmt)
    numbers = frozenset[Var]()
    if func.free_vars:
        names = {v for s in walk(stmt) for e in stmt_exprs(s) for v in variables(e)}
        names |= {v for b in writes for dim in b.shape for v in variables(dim)}
        numbers = frozenset(func.free_vars) & names
    return _Nest(stmt, reads, writes, numbers)


@lru_cache(maxsize=NESTS)
def _touched_in(stmt: Stmt) -> tuple[frozenset[Buffer], frozenset[Buffer]]:
    """The buffers that are read in a nest, and those that are written."""
    reads, writes = set[Buffer](), set[Buffer]()
    stack = [stmt]
    while stack:
        node = stack.pop()
        reads.update([load.buffer for e in stmt_exprs(node) if e.has_loads for load in loads(e)])
        if isinstance(node, Block):  # schedules share what is inside
            found = touches(node.init, node.body)
        else:
            found = touched(node)
            stack.extend(child_stmts(node))
        for buffer, _, is_write in found:
            (writes if is_write else reads).add(buffer)
    return frozenset(reads), frozenset(writes)


def _moved(
    nests: Sequence[_Nest],
    constants: Sequence[Buffer],
    params: frozenset[Buffer],
    known: frozenset[Var],
) -> set[int]:
    """The positions of the nests that can run ahead: all, less those that something keeps."""
    fixed = [n for n, nest in enumerate(nests) if nest.numbers <= known]
    moved = {n for n in fixed if not nests[n].writes & params}
    while True:
        stay = [n for n in range(len(nests)) if n not in moved]
        changing = (params - frozenset(constants)).union(*[nests[n].writes for n in stay])
        kept = {
            n
            for n in moved
            if (nests[n].reads | nests[n].writes) & changing
            # Something before it reads what was there until then.
            or any(k < n and nests[k].reads & nests[n].writes for k in stay)
        }
        if not kept:
            return moved
        moved -= kept


def _flat(body: Stmt) -> list[Stmt]:
    """The statements at the root; those of a sequence in a sequence too."""
    if isinstance(body, Seq):
        return [s for part in body.stmts for s in _flat(part)]
    if isinstance(body, Alloc):
        raise TensorIRError("split_constants runs before lowering, on a program without Alloc")
    return [body]
