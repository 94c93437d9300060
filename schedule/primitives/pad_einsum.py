"""pad_einsum: round the extents of a reduction up to multiples."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.einsum import Einsum, einsum_of, unused
from schedule.checks.ownership import require_sole_writer
from schedule.errors import require
from schedule.primitive import primitive
from schedule.rewrite.caching import (
    axis_variables,
    place_beside,
    require_filled_before,
    top_statement,
)
from schedule.rewrite.placement import fresh_loops
from schedule.rewrite.rebind import plain_loop
from schedule.state import BlockRef, State, add_buffers, nest
from tensorir import (
    TRUE,
    Block,
    Buffer,
    Expr,
    For,
    IterKind,
    IterVar,
    Load,
    Stmt,
    Store,
    Var,
    all_of,
    binary,
    const,
    map_exprs,
    neutral,
    replace,
    select,
    substitute,
    transform,
    variables,
)


@primitive
def pad_einsum(
    state: State, block: str, padding: Sequence[int]
) -> tuple[State, tuple[BlockRef, ...]]:
    """Round the extent of each variable of the block up to a multiple of its `padding`.

    What the block reads is copied into larger buffers, filled up with the value that leaves the
    reduction as it is; what it writes is cut to size afterwards. Returns the blocks that pad,
    then the one that cuts, as far as they are needed.

    rewrite:  pad_einsum("C", [8, 8, 8])
                                                 for i, k in grid(8, 8):
        for i, j, k in grid(7, 8, 5):                A_pad[vi, vk] = select(..., A[vi, vk], 0.0)
            with block("C"):                     for k, j in grid(8, 8):
                vi = spatial(7, i)                   B_pad[vk, vj] = select(..., B[vk, vj], 0.0)
                vj = spatial(8, j)          ->   for i, j, k in grid(8, 8, 8):
                vk = reduce(5, k)                    C_pad[vi, vj] += A_pad[vi, vk] * B_pad[vk, vj]
                C[vi, vj] += A[vi, vk]           for i, j in grid(7, 8):
                             * B[vk, vj]             C[vi, vj] = C_pad[vi, vj]

    requires:
        - `padding` has a positive integer for each variable of the block
        - the block reduces what it computes of reads by + * min max and or, from a constant on; no
          value of these is one that it cannot be computed of
        - where a reduction variable is padded, its terms are known to be neutral when their reads
          are padded, as products are for a sum
        - it reads at each padded variable itself, once, and at others in any way; it uses its own
          buffer only to update it
        - each read uses all padded reduction variables, since 0 times infinity is not 0
        - what it reads at other variables is computed as a whole before it
        - no other block writes the buffer
        - the rounded extents are known to be no smaller, which can fail for symbolic ones
        - the block is alone in its nest, one serial loop without annotation per variable; no padded
          one is in a condition of the block, which leaves the first term of each result
    """
    node = state.block(block)
    require(
        len(padding) == len(node.iters) and all(p > 0 for p in padding),
        block,
        f"padding {list(padding)} is not one positive integer for each of the variables "
        f"{', '.join(it.var.name for it in node.iters)}",
    )
    form = einsum_of(node)
    analyzer = state.analyzer()
    sizes = {
        it.var: analyzer.simplify((it.extent + (count - 1)) // count * count)
        for it, count in zip(node.iters, padding)
    }
    for it in node.iters:
        within = state.analyzer()
        within.bind(it.var, it.extent)
        known = within.prove(binary("<", it.var, sizes[it.var]))
        require(known, block, f"{sizes[it.var]!r} is not known to be at least {it.extent!r}")
    grown = [it for it in node.iters if sizes[it.var] is not analyzer.simplify(it.extent)]
    _reads_alone(form, [it.var for it in grown])
    _leaves_results(form, [it.var for it in grown if it.kind is IterKind.REDUCE])
    hint = "pad_einsum before decompose_reduction"
    require_sole_writer(state, form.store.buffer, block, hint=hint)
    _own_nest(state, node, {it.binding for it in grown})
    return _Padding(state, form, grown, sizes).run()


def _reads_alone(form: Einsum, grown: list[Var]) -> None:
    for load in form.loads:
        for var in grown:
            used = [index for index in load.indices if var in variables(index)]
            require(
                used in ([], [var]),
                form.block.name,
                f"block {form.block.name!r} reads {load!r}, not at {var!r} "
                "alone and once, which is padded",
                "reindex it first",
            )


def _leaves_results(form: Einsum, reduced: list[Var]) -> None:
    """Refuse terms that are added along some variables unless they change nothing."""
    require(
        not reduced or form.is_neutral,
        form.block.name,
        f"block {form.block.name!r} reduces {form.term!r} by {form.op}: no padding of what it "
        "reads is known to leave that unchanged",
        "products of reads can be summed, and reads alone reduced by anything; variables of the "
        "result can be padded whatever the term is",
    )
    for load in form.loads:
        missing = unused(load, reduced)
        require(
            missing is None,
            form.block.name,
            f"block {form.block.name!r} reads {load!r}, which does not depend on the padded "
            f"variable {missing!r}: padding cannot make its surplus terms neutral",
        )


def _own_nest(state: State, node: Block, grown: set[Expr]) -> None:
    """Refuse unless the block is alone in one plain loop for each of its variables; a condition, as
    of a last part that is shorter, has none that grow, and leaves each result its first term."""
    path = state.block_path(node.name)
    above = path[path.index(top_statement(state, node.name)) : -1]
    loops = {stmt.var: stmt for stmt in above if isinstance(stmt, For)}
    bound = [it.binding for it in node.iters]
    plain = (
        len(loops) == len(above) == len(node.iters) == len(set(bound))
        and all(b in loops for b in bound)
        and all(loops[it.binding].extent is it.extent for it in node.iters)  # type: ignore[index]
    )
    if plain and node.predicate is not TRUE:
        analyzer = state.analyzer()
        analyzer.bind_all({loop.var: loop.extent for loop in loops.values()})
        bindings = {it.binding for it in node.reduced}
        first = {var: const(0) for var in loops if var in bindings}
        begun = analyzer.prove(substitute(node.predicate, first))
        plain = begun and grown.isdisjoint(node.predicate.variables)
    require(
        plain,
        node.name,
        f"block {node.name!r} is not alone in one loop for each of its variables",
        "pad_einsum before the loops are changed",
    )
    for loop in loops.values():
        plain_loop(loop, "pad_einsum before annotating the loops")


class _Padding:
    """The three parts of the new program: padded inputs, the larger reduction, the cut."""

    def __init__(
        self, state: State, form: Einsum, grown: list[IterVar], sizes: dict[Var, Expr]
    ) -> None:
        self.state, self.form, self.sizes = state, form, sizes
        self.node = form.block
        self.grown = {it.var for it in grown}
        self.iters = {it.var: it for it in self.node.iters}

    def run(self) -> tuple[State, tuple[BlockRef, ...]]:
        if not self.grown:
            return self.state, ()
        made: list[BlockRef] = []
        moved: dict[Load, Load] = {}
        for load in self.form.loads:
            if self.grown.intersection(load.indices):
                moved[load] = self.padded(load, made)
        target = self.form.store.buffer
        result = target
        if self.grown.intersection(self.form.store.indices):
            result = self.buffer(target, self.form.store.indices)
        self.enlarge(moved, result)
        if result is not target:
            indices = self.form.store.indices
            body = Store(target, indices, result[indices])
            own = [self.iters[v] for v in indices if isinstance(v, Var)]
            made.append(self.place(f"{target.name}_cut", own, body, False))
        return self.state, tuple(made)

    def buffer(self, like: Buffer, indices: tuple[Expr, ...]) -> Buffer:
        """A new buffer with the padded extents of the variables that index it."""
        grown = [v if isinstance(v, Var) and v in self.grown else None for v in indices]
        shape = tuple(size if v is None else self.sizes[v] for v, size in zip(grown, like.shape))
        made = Buffer(self.state.fresh_buffer(f"{like.name}_pad"), shape, like.dtype)
        self.state = State(add_buffers(self.state.func, made), self.state)
        return made

    def padded(self, load: Load, made: list[BlockRef]) -> Load:
        """A padded copy of what the load reads, placed before the nest."""
        value = neutral(self.form.op, load.buffer.dtype)
        require(
            value is not None,
            self.node.name,
            f"{load.buffer.dtype} has no neutral value for {self.form.op}",
        )
        assert value is not None
        copy = self.buffer(load.buffer, load.indices)
        whole = axis_variables(self.state, copy.shape)
        iters, inside = [], []
        for index, size, other in zip(load.indices, copy.shape, whole):
            it = self.iters.get(index) if isinstance(index, Var) else None
            if it is not None and it.var in self.grown:
                inside.append(binary("<", it.var, it.extent))
            elif it is None or it.extent is not size or load.indices.count(it.var) > 1:
                require_filled_before(self.state, load.buffer, self.node.name)
                it = other
            iters.append(replace(it, extent=size))
        indices = tuple(it.var for it in iters)
        body = Store(copy, indices, select(all_of(*inside), load.buffer[indices], value))
        made.append(self.place(copy.name, iters, body, True))
        return Load(copy, load.indices)

    def place(self, name: str, iters: Sequence[IterVar], body: Store, before: bool) -> BlockRef:
        """A block over some variables beside the nest."""
        spatial = tuple(replace(it, kind=IterKind.SPATIAL) for it in iters)
        block = Block(self.state.fresh_block(name), spatial, body)
        loops, bound = fresh_loops(self.state, block, {}, (), self.state.analyzer())
        anchor = top_statement(self.state, self.node.name)
        self.state = place_beside(self.state, anchor, nest(loops, bound), before)
        return BlockRef(block.name)

    def enlarge(self, moved: dict[Load, Load], result: Buffer) -> None:
        """The block itself over the padded extents."""
        target = self.form.store.buffer

        def load(e: Expr) -> Expr | None:
            if not isinstance(e, Load):
                return None
            return Load(result, e.indices) if e.buffer is target else moved.get(e)

        def redirect(stmt: Stmt | None) -> Stmt | None:
            if not isinstance(stmt, Store):
                return stmt
            inner = map_exprs(stmt, lambda e: transform(e, load))
            assert isinstance(inner, Store)
            return Store(result, inner.indices, inner.value)

        iters = tuple(replace(it, extent=self.sizes[it.var]) for it in self.node.iters)
        new = replace(
            self.node,
            iters=iters,
            body=redirect(self.node.body),
            init=redirect(self.node.init),
        )
        extent = {it.binding: it.extent for it in iters}
        loops = [
            replace(loop, extent=extent[loop.var])
            for loop in self.state.loops_around(self.node.name)
        ]
        top = top_statement(self.state, self.node.name)
        body = self.state.func.body
        path = (top,) if top is body else (body, top)
        self.state = self.state.replace(path, nest(loops, new))
