"""The files of the packages as trees, and who imports whom: what the tests of architecture read."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).parent.parent
PACKAGES = ("tensorir", "schedule", "backends", "autotune")
SOURCES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))

Edge = tuple[str, str]
"""The importing module, and the imported one."""


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), label(path))


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """`node`, if it is a statement, and all that are in it: a tenth of what `ast.walk` looks at."""
    pending = [node]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending.extend(getattr(node, name, ()))


def imports(node: ast.AST) -> Iterator[tuple[str, int]]:
    """(module, line) of every import below `node`."""
    for child in statements(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"relative import in line {child.lineno}"
            yield child.module or "", child.lineno


@functools.cache
def imports_of(path: Path) -> tuple[tuple[str, int], ...]:
    return tuple(imports(tree_of(path)))


def imports_at_import_time(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Imports outside of functions and of `if TYPE_CHECKING`."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if is_for_types(node):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from imports(node)
        else:
            pending.extend(ast.iter_child_nodes(node))


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in statements(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


@functools.cache
def homes_of(path: Path) -> dict[str, str]:
    """The module of each lazy name of a package, {} for a file that has none."""
    if "lazy_names(__name__)" not in path.read_text(encoding="utf-8"):
        return {}
    typed = [block for block in tree_of(path).body if is_for_types(block)]
    found = [i for block in typed for i in block.body if isinstance(i, ast.ImportFrom)]
    return {a.name: i.module or "" for i in found for a in i.names}


def home_of(module: str, name: str | None, files: frozenset[str]) -> str:
    """The module that gives `name` of `module`, which may be a package with lazy names."""
    path = ROOT.joinpath(*module.split("."), "__init__.py")
    if name is not None and path.exists():
        home = homes_of(path).get(name, f"{module}.{name}")
        if home != module:
            return home if home in files else module
        return f"{module}.{name}"
    return module


@functools.cache
def run_time_imports() -> tuple[set[Edge], set[Edge]]:
    """(importer, imported) of modules while they are imported, and of their functions later."""
    names = {
        ".".join(Path(label(p)).with_suffix("").parts).removesuffix(".__init__"): p for p in SOURCES
    }
    files, first, later = frozenset(names), set(), set()
    for module, path in names.items():
        if module in PACKAGES:
            continue  # lazy: whoever takes a name is taken to import its home
        tree = tree_of(path)
        at_once = set(imports_at_import_time(tree))
        for_types = [b for i in statements(tree) if is_for_types(i) for b in i.body]
        typed = {n for b in for_types for n in statements(b)}
        for node in statements(tree):
            if node in typed or not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            wanted = [(a.name, None) for a in node.names]
            if isinstance(node, ast.ImportFrom):
                wanted = [(node.module or "", a.name) for a in node.names]
            for source, name in wanted:
                home = home_of(source, name, files) if source in files else ""
                if home not in ("", module):
                    now = (source, node.lineno) in at_once
                    (first if now else later).add((module, home))
    return first, later - first


def is_for_types(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and _name(node.test) == "TYPE_CHECKING"


def _name(node: ast.expr) -> str:
    """Of a variable, or of what follows the last dot; "" for other expressions."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def circle(edges: set[Edge]) -> list[str]:
    """What lies in circles, or between them: modules left when those at the ends are taken off."""
    while edges:
        starts, ends = {a for a, _ in edges}, {b for _, b in edges}
        inner = {(a, b) for a, b in edges if a in ends and b in starts}
        if inner == edges:
            break
        edges = inner
    return sorted({a for a, _ in edges})
