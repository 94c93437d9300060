"""Which loops are the rows that stages share, and how intermediates are laid out row by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf, prod
from typing import NoReturn

from autotune.rules.chain_rows import (
    InRows,
    RowOrder,
    Stage,
    cut_loops,
    laid_out,
    put_in_rows,
    stored_apart,
)
from autotune.rules.followers import Follower, followers, stored_at
from autotune.rules.group import flat_place, instances, size
from schedule import Schedule, ScheduleError
from tensorir import (
    Analyzer,
    Buffer,
    Expr,
    IterKind,
    Var,
    body_loads,
    int_value,
    slope,
    substitute,
    variables,
    written,
)

MORE = 1.1
"""How many times as many elements fewer rows have to keep in cache, to be preferred to more."""


def find_rows(
    sch: Schedule, last: str, among: Collection[str] | None = None, kept: bool = False,
    one: bool = False, refused: dict[str, str] | None = None, aside: Collection[str] = (),
    results: bool = False,
) -> InRows | None:  # fmt: skip
    """The program in rows of `last`, with all stages, `among` some if given, that go along with
    them; None where no reduction does, none makes a number of each row, or they cannot be put in
    order. With `kept` the result stays in rows, and another stage takes it to its place; with `one`
    all of it is one row. `refused` learns why not. Others `aside` may need them; `results` too."""
    if among is None and not may_have_rows(sch, last):
        return None
    try:
        found = _Found(sch, last, "", among, one, aside, results)
        if _fewest(found.sch, found.members[:-1]) == inf:
            return None
        text, base = "", sch
        if kept:
            base = sch.copy()
            stored_apart(base, last)
            text = _Found(base, last, "", among, one, aside, results).layout(last)[0] or ""
            found = _Found(laid_out(base, last, text), last, "", among, one, aside, results)
        if found.node.is_reduction and found.columns:
            found = _Found(base, last, "local", among, one, aside, results)
            if not found.is_tiled:
                found = _Found(base, last, "global", among, one, aside, results)
        if _fewest(found.sch, found.members) >= 2 * _count(found.sch, found.end, found.rows):
            return None  # which costs much less to know than to put them in order
        order, made = replace(found.order(), kept=text), sch.copy()
        loops = put_in_rows(made, order)
    except ScheduleError as error:
        if refused is not None:
            refused[f"rows of {last!r}"] = error.reason
        return None
    sizes = tuple(size(made.state.loop(loop).extent) for loop in loops)
    stages = found.stages(made, prod(sizes))
    return InRows(order, made, stages, sizes) if stages else None


def may_have_rows(sch: Schedule, last: str) -> bool:
    """Whether stages that the last one needs have a reduction, and one is to so few numbers that
    rows of the last one's loops could have one each. To find those rows takes much longer."""
    end, fewest = sch.state.block(last), _fewest_needed(sch)[last]
    data = {v for it in end.spatial for v in variables(it.binding)}
    return fewest < (inf if end.is_reduction else 2 * _count(sch, last, data))


def _fewest_needed(sch: Schedule) -> Mapping[str, float]:
    """The fewest elements that a reduction makes which a block needs, directly or not, of each."""
    known: dict[str, float] = sch.state.concluded.setdefault(_fewest_needed, {})
    for name in map(str, () if known else sch.get_blocks()):
        makers = sch.get_producers(name)
        known[name] = min([_fewest(sch, makers), *(known.get(m, inf) for m in makers)])
    return known


def _refuse(stage: str, reason: str) -> NoReturn:
    """Of a stage that no rows can have; `find_rows` finds none then."""
    raise ScheduleError("find_rows", stage, reason, None, None, None)


class _Found:
    """The rows that the stages before one share with it, in a schedule of which nothing but that
    stage is changed: its loops are cut, and what it computes may be copied from another scope."""

    def __init__(
        self, sch: Schedule, last: str, apart: str, among: Collection[str] | None, one: bool,
        aside: Collection[str], results: bool,
    ) -> None:  # fmt: skip
        self.last, self.apart = last, apart
        self.sch = sch = sch.copy()
        self.end = end = str(sch.cache_write(last, 0, apart)) if apart else last
        self.cuts = cut_loops(sch, end, last)
        self.found = followers(sch, end, among, one, aside, results)
        self.rows = frozenset() if one else shared_loops(sch, self.found)
        self.members = tuple(n for n in reversed(self.found) if self.rows <= self.found[n].loops)
        self.node, around = sch.state.block(end), sch.state.loops_around(end)
        self.place = {loop.var: n for n, loop in enumerate(around)}
        self.data = {f.var: f.const_extent for f in around if f.var in self.found[end].loops}
        self.columns = [v for v, n in self.data.items() if v not in self.rows and n != 1]
        self.analyzer = sch.state.analyzer(around)
        self.moving = {name for name, f in self.found.items() if f.moving & self.rows}

    @cached_property
    def turned(self) -> bool:
        """Whether neighbours in the result are of different rows."""
        result, rows = self.steps(self.end)[0], [v for v in self.rows if self.data[v] != 1]
        return bool(self.columns) and any(result(var) == 1 for var in rows)

    @cached_property
    def joined(self) -> frozenset[Var]:
        """The last columns of the last stage, several, that are as one in all that it accesses."""
        steps, axes = self.steps(self.end), [(var, self.data[var]) for var in self.columns]
        ends = (axes[n:] for n in range(len(axes) - 1))
        found = next((end for end in ends if all(_follow(s, end) for s in steps)), ())
        return frozenset(var for var, _ in found)

    @property
    def is_tiled(self) -> bool:
        """Whether the columns of the last stage are one loop, of neighbours in the result."""
        return not self.turned and len(self.columns) == max(1, len(self.joined))

    @cached_property
    def ordered(self) -> list[Var]:
        """The rows as they lie in what is read, outermost first; those that share no operand
        of some product are ahead of those of register tiles, and what is turned comes last."""
        result, read, node = self.steps(self.end)[0], self.main_read(), self.sch.state.block
        most = 2 * _count(self.sch, self.end, self.rows)
        wide = [n for n in self.members if instances(node(n), IterKind.SPATIAL) >= most]
        products = [self.steps(name)[1:] for name in wide if node(name).is_reduction]

        def rank(var: Var) -> tuple[int, ...]:
            if self.data[var] == 1:
                return ()
            if self.turned and result(var) == 1:
                return (2,)
            step = read(var) if read is not None else 0
            alone = any(all(each(var) != 0 for each in reads) for reads in products)
            return 1, not alone, bool(step), -abs(step or 0)

        return sorted((var for var in self.data if var in self.rows), key=rank)

    @cached_property
    def layouts(self) -> dict[str, tuple[str | None, tuple[int, ...]]]:
        return {name: self.layout(name) for name in self.members[:-1]}

    def order(self) -> RowOrder:
        """What has to be done."""
        others = [var for var in self.data if var not in self.rows]
        apart = next((n for n, var in enumerate(others) if var in self.joined), len(others))
        for name in (name for name, (text, _) in self.layouts.items() if text):
            if written(self.sch.state.block(name))[0] in self.sch.func.params:
                _refuse(name, "callers know the layout of its result")
        return RowOrder(
            self.last, self.members, self.apart, tuple(self.cuts),
            tuple(self.place[var] for var in self.ordered),
            tuple(self.place[var] for var in others), len(others) - apart, self.turned,
            tuple((name, text) for name, (text, _) in self.layouts.items() if text),
        )  # fmt: skip

    def stages(self, made: Schedule, rows: int) -> tuple[Stage, ...]:
        """The stages, once they are in rows; none where one stores at two places of a row."""
        found = []
        for name in self.members:
            node = made.state.block(name)
            width = instances(node, IterKind.SPATIAL) // max(1, rows)
            if name == self.end:
                found.append(Stage(name, width, (), self.is_tiled, self.turned))
                continue
            stored = stored_at(node)
            if stored is None:
                return ()
            mine = tuple(i for at in self.layouts[name][1] if isinstance(i := stored[at], Var))
            tiled = len(mine) == 1 and name not in self.moving
            found.append(Stage(name, width, mine, tiled))
        return tuple(found)

    def steps(self, name: str) -> list[Step]:
        """How far the store of a stage and its loads move in memory with the loops of rows."""
        node, places = self.sch.state.block(name), self.found[name].places
        stored = stored_at(node)
        if stored is None:
            _refuse(name, "it stores at no one place of variables of its own")
        accesses = [(written(node)[0], stored), *((x.buffer, x.indices) for x in body_loads(node))]
        return [step_of(buffer, at, places, self.analyzer) for buffer, at in accesses]

    def main_read(self) -> Step | None:
        """The largest access to what the chain is given, of those that tell most of its rows."""
        nodes = {name: self.sch.state.block(name) for name in self.members}
        made = {written(node)[0] for node in nodes.values()}
        best: Step | None = None
        most = -1, -1
        for name, node in nodes.items():
            for load, step in zip(body_loads(node), self.steps(name)[1:]):
                told = sum(step(var) != 0 for var in self.rows), instances(node)
                if load.buffer not in made and told > most:
                    best, most = step, told
        return best

    def layout(self, name: str) -> tuple[str | None, tuple[int, ...]]:
        """The index map that puts rows first and makes one axis of the columns, None where that is
        how it is, and where the columns are then."""
        node, places = self.sch.state.block(name), self.found[name].places
        shape, stored = written(node)[0].shape, stored_at(node)
        assert stored is not None
        rows: list[tuple[int, int, str]] = []
        columns: list[tuple[Var, int | None, int, str]] = []
        for d, index in enumerate(stored):
            at = places[index] if isinstance(index, Var) else index
            used = variables(at)
            mine = [n for n, row in enumerate(self.ordered) if row in used]
            extent = int_value(shape[d])
            if extent == 1 or not used or used <= self.rows:
                rows.append((-1 if extent == 1 else min(mine, default=-1), d, f"d{d}"))
                continue
            if not isinstance(index, Var):
                _refuse(name, f"it stores elements of a row at {index!r}, no variable of it")
            text = f"d{d}"
            if mine:  # one dimension for rows and columns
                steps = [slope(at, self.ordered[n], self.analyzer) or 1 for n in mine]
                whole, extent = extent, min(map(abs, steps))
                if extent * prod(self.data[self.ordered[n]] or 1 for n in mine) != whole:
                    self.moving.add(name)
                rows.append((mine[0], d, f"d{d} // {extent}"))
                text = f"d{d} % {extent}"
            columns.append((index, extent, d, text))
        wide = [d for n, d, _ in sorted(rows) if n >= 0] + [d for *_, d, _ in columns]
        last = columns[-1][2] if columns else len(stored) - 1
        own = {var: var for var, *_ in columns}
        follow = len(columns) > 1 and all(
            _follow(step_of(load.buffer, load.indices, own, self.analyzer),
                    [(var, extent) for var, extent, *_ in columns])
            for load in body_loads(node)
        )  # fmt: skip
        if wide == sorted(set(wide)) and last == len(stored) - 1 and not follow:
            return None, tuple(d for *_, d, _ in columns)
        texts = [text for *_, text in columns]
        if follow:
            value = texts[0]
            for _, extent, _, text in columns[1:]:
                value = f"({value}) * {extent} + {text}"
            texts = [value]
        dims = [text for *_, text in sorted(rows)] + texts
        names = ", ".join(f"d{n}" for n in range(len(stored)))
        return f"{names}: {', '.join(dims)}", tuple(range(len(dims) - len(texts), len(dims)))


Step = Callable[[Var], "int | None"]
"""How many elements an access moves with a variable; None where not always as many."""


def step_of(
    buffer: Buffer, indices: Sequence[Expr], places: Mapping[Var, Expr], analyzer: Analyzer
) -> Step:
    flat = flat_place(buffer, tuple([substitute(index, places) for index in indices]))
    plain = analyzer.simplify(flat)
    used = variables(plain)
    return lambda var: slope(plain, var, analyzer) if var in used else 0


def _follow(step: Step, axes: Sequence[tuple[Var, int | None]]) -> bool:
    """Whether axes, outermost first, are as one for an access."""
    for (outer, _), (inner, length) in zip(axes, axes[1:]):
        near, far = step(inner), step(outer)
        if near is None or length is None or far != near * length:
            return False
    return True


def shared_loops(sch: Schedule, found: Mapping[str, Follower]) -> frozenset[Var]:
    """The loops that are rows: those that most elements go along with, if there are any of those
    with a number for each row of several elements."""
    end, *stages = found.values()
    nodes = {name: sch.state.block(name) for name in found}
    made = {name: instances(node, IterKind.SPATIAL) for name, node in nodes.items()}

    def kept(rows: frozenset[Var]) -> tuple[bool, int]:
        mine = [s.block for s in stages if rows <= s.loops]
        fewest = min((made[name] for name in mine if nodes[name].is_reduction), default=inf)
        most = max(made[name] for name in (end.block, *mine))
        return fewest < 2 * _count(sch, end.block, rows) <= most, sum(made[name] for name in mine)

    best: frozenset[Var] = frozenset()
    options = {rows: kept(rows) for rows in dict.fromkeys(stage.loops for stage in stages)}
    told = any(each for each, _ in options.values())
    for rows, (each, elements) in sorted(options.items(), key=lambda item: -len(item[0])):
        if each is told and (not best or elements > MORE * options[best][1]):
            best = rows
    return best


def _count(sch: Schedule, end: str, rows: Collection[Var]) -> int:
    """How many rows there are, of some loops of a stage."""
    return prod(size(loop.extent) for loop in sch.state.loops_around(end) if loop.var in rows)


def _fewest(sch: Schedule, names: Iterable[str]) -> float:
    """The fewest elements that a reduction of some stages makes; infinite where none is one."""
    sums = [node for node in map(sch.state.block, names) if node.is_reduction]
    return min((instances(node, IterKind.SPATIAL) for node in sums), default=inf)
