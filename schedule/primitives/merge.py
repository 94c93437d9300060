"""merge: neighbouring loops over the same range become one."""

from __future__ import annotations

from schedule.analysis.bodies import meeting
from schedule.analysis.uses import blocks_below
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.rebind import rebind
from schedule.state import LoopRef, State, chain_below
from tensorir import For, Seq, Stmt, Var, binary, replace, seq, substitute_stmt


@primitive
def merge(state: State, *loops: str) -> tuple[State, LoopRef]:
    """Run the bodies of neighbouring `loops`, given in program order, in one loop.

    rewrite:  merge("i", "i_C")
        for i in range(8):          for i_i_C in range(8):
            B[i] = f(A[i])     ->       B[i_i_C] = f(A[i_i_C])
        for i_C in range(8):            C[i_i_C] = g(B[i_i_C])
            C[i_C] = g(B[i_C])

    requires:
        - at least two loops are given, each directly after the one before it
        - the loops have the same extent and carry no annotation
        - they are all of one kind, and bound to the same threads
        - what two bodies share, one of them writing, they touch in the same iterations,
          or in ranges that have nothing in common
    """
    require(len(loops) > 1, (loops or ("",))[0], "fewer than two loops were given")
    nodes = [state.loop(name) for name in loops]
    path = state.loop_path(loops[0])
    for node in nodes:
        keys = ", ".join(node.annotations)
        require(not keys, node.name, f"loop {node.name!r} is annotated with {keys}")
        mine, first = _kind(node), _kind(nodes[0])
        require(
            mine == first, node.name, f"loop {node.name!r} is {mine}, {nodes[0].name!r} is {first}"
        )
    around = path[-2] if len(path) > 1 else None
    position = _position(around, nodes[0])
    _neighbours(around, position, nodes)
    analyzer = state.analyzer(state.loops_outside(loops[0]))
    for node in nodes[1:]:
        require(
            analyzer.prove(binary("==", node.extent, nodes[0].extent)),
            node.name,
            f"loop {node.name!r} has {node.extent!r} iterations and "
            f"{nodes[0].name!r} has {nodes[0].extent!r}",
        )
    name = state.loop_of(nodes)
    merged = _merged(state, name, nodes)
    _independent(state, merged, nodes)
    assert isinstance(around, Seq)
    rest = seq(*around.stmts[:position], merged, *around.stmts[position + len(nodes) :])
    return state.replace(path[:-1], rest), LoopRef(name)


def _kind(loop: For) -> str:
    """How its iterations run."""
    return f"{loop.kind}" if loop.thread is None else f"bound to {loop.thread}"


def _position(around: Stmt | None, first: For) -> int:
    if not isinstance(around, Seq):
        return 0
    return next(n for n, stmt in enumerate(around.stmts) if stmt is first)


def _neighbours(around: Stmt | None, position: int, nodes: list[For]) -> None:
    after = around.stmts[position:] if isinstance(around, Seq) else ()
    for number, node in enumerate(nodes[1:], 1):
        require(
            number < len(after) and after[number] is node,
            node.name,
            f"loop {node.name!r} does not stand directly after {nodes[number - 1].name!r}",
        )


def _merged(state: State, name: str, nodes: list[For]) -> For:
    """One loop over the bodies of `nodes`."""
    var = Var(name)
    whole = For(var, nodes[0].extent, Seq(()))
    outside = state.loops_outside(nodes[0].name)
    bodies = []
    for node in nodes:
        analyzer = state.analyzer([*outside, whole, *chain_below(node)])
        body = rebind(node.body, {node.var: var}, None, analyzer)
        bodies.append(substitute_stmt(body, {node.var: var}))
    return replace(nodes[0], var=var, body=seq(*bodies))


def _independent(state: State, merged: For, nodes: list[For]) -> None:
    """Refuse where an iteration of a later body may meet, in one element, one of an earlier."""
    moved = {block.name: block for block in blocks_below(merged)}
    bodies = [[moved[block.name] for block in blocks_below(node)] for node in nodes]
    found = meeting(state, state.loops_outside(nodes[0].name), merged, bodies)
    if found is None:
        return
    names = {b.name: node.name for node, body in zip(nodes, bodies) for b in body}
    a, b = found
    require(
        False,
        names[b.block.name],
        f"an iteration of loop {names[b.block.name]!r} may touch elements of {a.buffer.name!r} in "
        f"block {b.block.name!r} that a later iteration of loop {names[a.block.name]!r} touches in "
        f"block {a.block.name!r}",
    )
