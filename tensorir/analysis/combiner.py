"""Combiners: how two partial results of a reduction are merged, found in the step of a block.

A step merges what a reduction has so far with one term. Written as `old op term` the operation is
known. Otherwise the terms are what the new values consist of besides the old ones: put variables
in their place, and the step is a function of two results. It is believed where it is associative
and commutative at random points, which tells rational functions from each other (Schwartz-Zippel)
and comparisons as far as points fall on both sides.

So the IR need not say it, and `rfactor` takes tuples: argmax, and combiners of one's own. Parts
that a step has folded, as Welford's, are compared with the reducers that make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

from tensorir import dtype as dt
from tensorir.expr import BinOp, Const, Expr, Load, Select, Var, binary
from tensorir.stmt import Block, Let, Seq, Stmt, Store
from tensorir.visit import loads, rebuild, substitute, variables, walk_exprs

Parts = tuple[Expr, ...]

ASSOCIATIVE = ("+", "*", "min", "max", "and", "or")
"""The operations that are known to be associative and commutative."""

IDEMPOTENT = ("min", "max", "and", "or")
"""Those that may start from any value in each part."""

Merge = Callable[[Parts, Parts], Parts]

BLOCKS = 1024
"""Blocks of which the answer is kept: each algorithm and each rule asks."""

MOST = 4
"""Values of a tuple of which it is tried which term belongs to which."""

POINTS = 64
CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class Combiner:
    """The update of a reduction: what it stores, the values so far as it names them, the values it
    starts from, and what two partial results are together; `ops` where operations make it."""

    stores: tuple[Store, ...]
    old: Parts
    start: Parts
    merge: Merge
    ops: tuple[str, ...] = ()

    @property
    def restarts(self) -> bool:
        """Whether each part of the reduction may start from those values again."""
        known = zip(self.ops, self.start)
        if self.ops and all([op in IDEMPOTENT or e is neutral(op, e.dtype) for op, e in known]):
            return True
        if not all([isinstance(e, Const) for e in self.start]):
            return False
        return _agree(_values(self.merge(self.start, self.start), {}), _values(self.start, {}))


def neutral(op: str, kind: str) -> Const | None:
    """The value that a load of type `kind` is to have, so that the term changes nothing.

    A sum of products takes 0, a product of products 1. None where there is no such value.
    """
    if op in ("and", "or"):
        return Const(op == "and", kind) if dt.is_bool(kind) else None
    if op in ("+", "*"):
        value = 0 if op == "+" else 1
        if dt.is_bool(kind):
            return Const(bool(value), kind)
        return Const(float(value) if dt.is_float(kind) else value, kind)
    if dt.is_float(kind):
        return Const(float("inf") if op == "min" else float("-inf"), kind)
    if dt.is_bool(kind):
        return None
    low, high = dt.int_limits(kind)
    return Const(high if op == "min" else low, kind)


@dataclass(frozen=True, eq=False)
class _Step:
    stores: tuple[Store, ...]
    old: Parts
    new: Parts


@lru_cache(maxsize=BLOCKS)
def combiner_of(block: Block) -> Combiner | None:
    """The combiner of a reduction with its init; None where none is found that is associative."""
    step, init = _step_of(block.body), _starts(block.init)
    if step is None or any(store.buffer not in init for store in step.stores):
        return None
    start = tuple([init[store.buffer] for store in step.stores])
    ops = _operations(step)
    merge = _known(step) or _derived(step, start) if ops is None else _by_operations(ops)
    return None if merge is None else Combiner(step.stores, step.old, start, merge, ops or ())


def _starts(init: Stmt | None) -> Mapping[Any, Expr]:
    stmts = init.stmts if isinstance(init, Seq) else (init,)
    return {s.buffer: s.value for s in stmts if isinstance(s, Store)}


def _step_of(body: Stmt) -> _Step | None:
    """What is stored at one place in each of one or several buffers, without a condition that all
    of it stands under, and the values there before."""
    lets: dict[Expr, Var] = {}
    stmt = body
    while isinstance(stmt, Let):
        lets[stmt.value] = stmt.var
        stmt = stmt.body
    parts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    stores = tuple([s for s in parts if isinstance(s, Store)])
    if len(stores) != len(parts) or (lets and len(lets) != len(stores)):
        return None
    if len({s.buffer for s in stores}) < len(stores) or not (lets or len(stores) == 1):
        return None
    places = [Load(s.buffer, s.indices) for s in stores]
    if any([not _same(p.indices, places[0].indices) for p in places]):
        return None
    if lets and any([p not in lets for p in places]):
        return None
    old: Parts = tuple([lets[p] for p in places]) if lets else tuple(places)
    made, known = {s.buffer for s in stores}, set(old)
    for store in stores:
        if any([n.buffer in made and n not in known for n in loads(store.value)]):
            return None
    return _Step(stores, old, _unconditional([s.value for s in stores], old))


def _unconditional(values: Sequence[Expr], old: Parts) -> Parts:
    """The new values, where they are new: a condition keeps all of the old ones elsewhere."""
    found = tuple(values)
    while all([isinstance(e, Select) and e.b is o for e, o in zip(found, old)]):
        first = found[0]
        assert isinstance(first, Select)
        if any([e.cond is not first.cond for e in found if isinstance(e, Select)]):
            break
        if _speaks_of(first.cond, old):
            break
        found = tuple([e.a for e in found if isinstance(e, Select)])
    return found


def _speaks_of(e: Expr, old: Parts) -> bool:
    known = set(old)
    return any([node in known for node in walk_exprs(e)])


def _same(a: Parts, b: Parts) -> bool:
    return len(a) == len(b) and all([x is y for x, y in zip(a, b)])


def _operations(step: _Step) -> tuple[str, ...] | None:
    """The operations of a step that updates each value by itself."""
    ops: list[str] = []
    for old, value in zip(step.old, step.new):
        if not isinstance(value, BinOp) or value.op not in ASSOCIATIVE:
            return None
        terms = [e for e in (value.a, value.b) if not _speaks_of(e, step.old)]
        if len(terms) != 1 or (value.a is not old and value.b is not old):
            return None
        ops.append(value.op)
    return tuple(ops)


def _by_operations(ops: Sequence[str]) -> Merge:
    return lambda a, b: tuple([binary(op, x, y) for op, x, y in zip(ops, a, b)])


def _known(step: _Step) -> Merge | None:
    """Reducers that are fed with parts made of one value each, which the step has folded."""
    from tensorir.ops.moments import one_part, welford
    from tensorir.ops.softmax import online_normalizer, part

    for known, parts_of in ((welford, one_part), (online_normalizer, part)):
        reducer = known.reducer  # type: ignore[attr-defined]
        for x in _candidates(step):
            parts = parts_of(x)
            fits = len(parts) == len(step.old)
            if fits and _same(reducer.combine(step.old, parts), step.new):
                return reducer.combine  # type: ignore[no-any-return]
    return None


def _candidates(step: _Step) -> Iterator[Expr]:
    """The largest parts of the new values that are of their type and speak of no old one."""
    kinds = {e.dtype for e in step.old}
    seen: dict[Expr, None] = {}
    stack = list(step.new) if len(kinds) == 1 and dt.is_float(*kinds) else []
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen[node] = None
        if node.dtype in kinds and not isinstance(node, Const) and not _speaks_of(node, step.old):
            yield node
        else:
            stack.extend(node.operands)


def _derived(step: _Step, start: Parts) -> Merge | None:
    """The step as a function of two results, if that is what it is."""
    found = [_terms(value, step.old) for value in step.new]
    if all([len(terms) == 1 for terms in found]):
        merge = _with_terms(step, [terms[0] for terms in found])
        return merge if merge is not None and _is_sound(merge, step.old) else None
    every = list(dict.fromkeys(e for terms in found for e in terms))
    if len(every) != len(step.old) or len(every) > MOST:
        return None
    for terms in permutations(every):  # which is which: from the start on it is what comes out
        merge = _with_terms(step, terms)
        if merge is not None and _is_sound(merge, step.old, start):
            return merge
    return None


def _with_terms(step: _Step, terms: Sequence[Expr]) -> Merge | None:
    """The step with a variable in the place of each term; None if that does not tell all of it."""
    if any([t.dtype != o.dtype for t, o in zip(terms, step.old)]):
        return None
    a = tuple([Var(f"a{n}", e.dtype) for n, e in enumerate(step.old)])
    b = tuple([Var(f"b{n}", e.dtype) for n, e in enumerate(step.old)])
    known: dict[Expr, Expr] = {t: y for t, y in zip(terms, b) if not isinstance(t, Const)}
    known.update(zip(step.old, a))
    merged = [_put(e, {**known, own: y}) for e, own, y in zip(step.new, terms, b)]
    if any([variables(e) - {*a, *b} or e.has_loads for e in merged]):
        return None

    def merge(x: Parts, y: Parts) -> Parts:
        values = dict(zip((*a, *b), (*x, *y)))
        return tuple([substitute(e, values) for e in merged])

    return merge


def _terms(value: Expr, old: Parts) -> list[Expr]:
    """What a new value is made of besides old ones; conditions only choose, and constants count
    where there is nothing else."""
    found: dict[Expr, None] = {}
    known, stack = set(old), [value]
    while stack:
        node = stack.pop()
        if not _speaks_of(node, old):
            found[node] = None
        elif node not in known:
            stack.extend((node.a, node.b) if isinstance(node, Select) else node.operands)
    return [e for e in found if not isinstance(e, Const)] or list(found)


def _put(e: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """`e` with its largest parts that have values replaced."""
    if e in values:
        return values[e]
    parts = tuple([_put(child, values) for child in e.operands])
    return rebuild(e, parts) if any([p is not c for p, c in zip(parts, e.operands)]) else e


def _is_sound(merge: Merge, like: Parts, start: Parts | None = None) -> bool:
    """Whether the order in which results are merged makes no difference, at random points, and
    `start`, if it is given, neither."""
    import numpy as np

    rng = np.random.default_rng(0)
    triple = [tuple([Var(f"{name}{n}", e.dtype) for n, e in enumerate(like)]) for name in "xyz"]
    points: dict[Expr, Any] = {}
    for variables_ in zip(*triple):
        points.update(zip(variables_, _draw(rng, variables_[0].dtype)))
    x, y, z = triple

    def same(one: Parts, other: Parts) -> bool:
        return _agree(_values(one, points), _values(other, points))

    if start is not None and not same(merge(start, x), x):
        return False
    return same(merge(x, y), merge(y, x)) and same(merge(merge(x, y), z), merge(x, merge(y, z)))


def _draw(rng: Any, dtype: str) -> Any:
    """Three rows of points; no two values are equal, unless there are only two."""
    if dt.is_bool(dtype):
        return rng.integers(0, 2, (3, POINTS)).astype(bool)
    if dt.is_float(dtype):
        return rng.standard_normal((3, POINTS))
    low = -100 if dt.int_limits(dtype)[0] < 0 else 0
    return (rng.permutation(3 * POINTS).reshape(3, POINTS) % 225 + low).astype(dtype)


def _values(parts: Parts, points: Mapping[Expr, Any]) -> list[Any]:
    import numpy as np

    from tensorir.reference.exact import Exact
    from tensorir.reference.grid import Grid

    grid = Grid(Exact(), {}, 1, {}, points)  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        return [np.broadcast_to(grid.evaluate(e), (POINTS,)) for e in parts]


def _agree(a: Sequence[Any], b: Sequence[Any]) -> bool:
    import numpy as np

    return all([np.allclose(x, y, CLOSE, CLOSE, equal_nan=True) for x, y in zip(a, b)])
