"""Programs that are not one nest for each result: loop by loop, the inner ones at once if they can.

Nothing is assumed but what the statements say, so this is the truth for programs written as such.
Inside of loops that run one by one, a nest around a block is evaluated on its whole domain, if its
instances do not read each other's results. Where a reduction is added to step by step, the bounds
are those of any order of its terms.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorir.arrays import size_of
from tensorir.errors import TensorIRError
from tensorir.expr import TRUE, Expr, Var
from tensorir.reference.unscheduled import chain, is_trivial, reads_others
from tensorir.stmt import Block, Extern, For, If, IterKind, IterVar, Let, Seq, Stmt, Store, replace
from tensorir.visit import variables, walk

if TYPE_CHECKING:
    from tensorir.reference.run import Runner


def run_statements(runner: Runner, stmt: Stmt) -> None:
    """Run a statement, the variables around it being in `runner.sizes`."""
    if isinstance(stmt, Seq):
        for part in stmt.stmts:
            run_statements(runner, part)
        return
    loops, inner = chain(stmt)
    known = dict(runner.sizes)
    if isinstance(inner, Block) and _run_block(runner, stmt, loops, inner):
        pass
    elif isinstance(stmt, For):
        for value in range(size_of(stmt.extent, runner.sizes)):
            runner.sizes = {**known, stmt.var: value}
            run_statements(runner, stmt.body)
    elif isinstance(stmt, If):
        _branch(runner, stmt.cond, stmt.then, stmt.orelse)
    elif isinstance(stmt, (Store, Let)):
        runner.execute(stmt, {}, {})
    else:
        raise TensorIRError(
            f"the reference cannot run {type(stmt).__name__} in function {runner.func.name!r}; "
            "use interpret"
        )
    runner.sizes = known


def _run_block(runner: Runner, nest: Stmt, loops: list[For], block: Block) -> bool:
    """Run the nest of a block in known loops around it; False if it takes a loop of them first."""
    known = runner.sizes.keys()
    free = tuple(it for it in block.iters if loops and not _is_known(it.binding, known))
    fixed = [it for it in block.iters if it not in free]
    if loops and any(it.binding.has_loads for it in fixed):
        return False
    here = dict(runner.sizes)
    here.update({it.var: runner.number(it.binding) for it in fixed})
    reduced = [it for it in fixed if it.kind is IterKind.REDUCE]
    many = any(size_of(it.extent, here) != 1 for it in reduced)
    inner = replace(block, iters=free)
    if _is_known(block.predicate, known) or not loops:
        inner = replace(inner, predicate=TRUE)
    elif not free or free[0].kind is not IterKind.SPATIAL:
        return False
    stored = {s.buffer for s in walk(block) if isinstance(s, Store)}
    if not is_trivial(inner, loops, stored) or (block.init is not None and many):
        if loops:
            return False
        _run_nested(runner, block, here, many)
        return True

    def run() -> None:
        runner.sizes = here
        _check_point(runner, block, fixed)
        if any(it.kind is IterKind.OPAQUE for it in free) or reads_others(inner):
            runner.run_points(inner, nest)
        else:
            runner.run_block(inner)
        for it in reduced:
            runner.count_in(inner, size_of(it.extent, here))

    if inner.predicate is block.predicate:
        run()
    else:
        _where(runner, block.predicate, block, run)
    return True


def _check_point(runner: Runner, block: Block, iters: Sequence[IterVar]) -> None:
    for it in iters:
        if not 0 <= runner.sizes[it.var] < size_of(it.extent, runner.sizes):
            raise TensorIRError(
                f"block {block.name!r} of function {runner.func.name!r} runs at {it.var.name} = "
                f"{runner.sizes[it.var]}, beyond its extent {it.extent!r}"
            )


def _is_known(e: Expr, known: KeysView[Var]) -> bool:
    return not e.has_loads and variables(e) <= known


def _run_nested(runner: Runner, block: Block, here: Mapping[Var, Any], many: bool) -> None:
    """Run one instance of a block with blocks or loops inside."""
    if block.init is not None or isinstance(block.body, Extern):
        raise TensorIRError(
            f"block {block.name!r} of function {runner.func.name!r} is scheduled; reference "
            "evaluates functions as te.create_prim_func makes them, or as they are written with "
            "each reduction in loops of its own; interpret evaluates any"
        )

    def run() -> None:
        runner.sizes = dict(here)
        _check_point(runner, block, block.iters)
        run_statements(runner, block.body)

    _where(runner, block.predicate, block, run)


def _where(runner: Runner, cond: Expr, stmt: Stmt, run: Callable[[], None]) -> None:
    """Run where a condition holds; what `stmt` writes is unknown if rounding may turn that over."""
    value, sure = runner.truth(cond)
    if value:
        run()
    if not sure:
        _forget(runner, stmt)


def _branch(runner: Runner, cond: Expr, then: Stmt, orelse: Stmt | None) -> None:
    value, sure = runner.truth(cond)
    taken = then if value else orelse
    if taken is not None:
        run_statements(runner, taken)
    if not sure:
        for side in (then, orelse):
            if side is not None:
                _forget(runner, side)


def _forget(runner: Runner, stmt: Stmt) -> None:
    for store in walk(stmt):
        if isinstance(store, Store):
            runner.algebra.forget(runner.memory[store.buffer])
