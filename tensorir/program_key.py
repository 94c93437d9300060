"""The identity of a scheduled program: what it is lowered to, as far as this can be told before.

Two ways to the same loops are one program, whatever their names are and wherever loops of one
iteration stand. Annotations count, since passes read them; the loops, blocks and buffers that they
name are told apart by their places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tensorir.annotations import checked
from tensorir.arith import Analyzer
from tensorir.expr import Const, Expr, Var
from tensorir.func import PrimFunc
from tensorir.stmt import Block, For, ForKind, Stmt
from tensorir.structural import Writer, digest
from tensorir.visit import substitute, walk


@checked
def program_key(func: PrimFunc) -> str:
    """32 hexadecimal digits, equal for scheduled programs that are the same one."""
    noted = {name for node in walk(func.body) for name in _texts(_notes(node))}
    writer = _Scheduled(noted=frozenset(noted), places=_places(func, noted))
    writer.func(func)
    return digest(writer.rows)


@dataclass
class _Scheduled(Writer):
    """Rows without loops of one iteration, and annotations without names.

    noted   texts in annotations: a loop that one of them names stays
    places  what stands for such names
    zeros   what the variables of loops that are left out are
    """

    noted: frozenset[str] = frozenset()
    places: Mapping[str, str] = field(default_factory=dict)
    zeros: dict[Var, Expr] = field(default_factory=dict)
    analyzer: Analyzer = field(default_factory=Analyzer)

    def expr(self, e: Expr) -> int:
        if self.zeros and not e.variables.isdisjoint(self.zeros):
            e = self.analyzer.simplify(substitute(e, self.zeros))
        return super().expr(e)

    def literal(self, values: Mapping[str, Any]) -> str:
        return super().literal(_placed(values, self.places) if values else values)

    def stmt_for(self, s: For) -> None:
        if not _is_idle(s, self.noted):
            super().stmt_for(s)
            return
        self.zeros[s.var] = Const(0, s.var.dtype)
        self.stmts(s.body)
        del self.zeros[s.var]


def _is_idle(node: Stmt, noted: Collection[str]) -> bool:
    """Whether it is a loop of one iteration that nothing speaks of."""
    if not isinstance(node, For) or node.const_extent != 1 or node.kind is ForKind.THREAD:
        return False
    return not node.annotations and node.name not in noted


def _notes(node: Stmt) -> Mapping[str, Any]:
    return node.annotations if isinstance(node, (For, Block)) else {}


def _texts(value: Any) -> Iterator[str]:
    """The texts in an annotation."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def _places(func: PrimFunc, noted: set[str]) -> dict[str, str]:
    """A text for each loop, block and buffer that is named, which says where it stands."""
    nodes = [node for node in walk(func.body) if not _is_idle(node, noted)] if noted else []
    kinds = {
        "loop": [node.name for node in nodes if isinstance(node, For)],
        "block": [node.name for node in nodes if isinstance(node, Block)],
        "buffer": [buffer.name for buffer in (*func.params, *func.buffers)],
    }
    found: dict[str, str] = {}
    for kind, names in kinds.items():
        for at, name in enumerate(names):
            if name in noted:  # a block and a buffer may have one name
                found[name] = f"{found.get(name, '')}{kind} {at};"
    return found


def _placed(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return places.get(value, value)
    if isinstance(value, Mapping):
        return {_placed(key, places): _placed(each, places) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_placed(each, places) for each in value]
    return value
