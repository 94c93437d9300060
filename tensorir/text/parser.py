"""Reading the text that tensorir.text.printer writes back into the very same program.

The text is Python syntax, so `ast` does the reading; nothing of it is executed.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from tensorir import dtype as dt
from tensorir.buffer import SCOPES, Buffer
from tensorir.errors import ParseError, TensorIRError
from tensorir.expr import TRUE, Expr, Var, int_value
from tensorir.externs.extern import find_extern
from tensorir.func import PrimFunc
from tensorir.scalars import Scalar
from tensorir.stmt import (
    SYNC_SCOPES,
    Alloc,
    Block,
    Exchange,
    Extern,
    For,
    ForKind,
    If,
    IterKind,
    IterVar,
    Let,
    Part,
    Prefetch,
    Stmt,
    Store,
    Sync,
    seq,
)
from tensorir.text.parser_expr import Env, ExprParser
from tensorir.text.printer import LOOP_WORDS

_KINDS = {word: kind for kind, word in LOOP_WORDS.items()}
_ITERS = {kind.value: kind for kind in IterKind}
_WITHS = 'with block("name"):, with init():, with let(x, value): or with alloc(T):'


def parse(text: str) -> PrimFunc:
    """The function that `text` spells; constants are not folded and nothing is simplified.

    Raises ParseError with the line, and what was expected there.
    """
    if not isinstance(text, str):
        raise ParseError(f"parse reads the text of a program, not {type(text).__name__}")
    text = textwrap.dedent(text).strip("\n")
    parser = Parser(text.split("\n"))
    module = parser.syntax(lambda: ast.parse(text))
    if len(module.body) != 1 or not isinstance(module.body[0], ast.FunctionDef):
        parser.fail(1, "one function: '@prim_func' and 'def name(A: f32[16], ...):'")
    definition = module.body[0]
    return parser.syntax(lambda: parser.function(definition))  # type: ignore[no-any-return]


def parse_expr(text: str, env: Env) -> Expr:
    """The expression that `text` spells, where `env` gives the variables and buffers by name.

    Raises ParseError for anything that is not an expression, and for names not in `env`.
    """
    parser = Parser(text.split("\n"))
    tree = parser.syntax(lambda: ast.parse(text.strip(), mode="eval"))
    return parser.syntax(lambda: parser.expr(tree.body, env))  # type: ignore[no-any-return]


def parse_exprs(text: str, env: Env) -> tuple[Expr, ...]:
    """`parse_expr` of one or several expressions with commas in between."""
    parser = Parser(text.split("\n"))
    tree = parser.syntax(lambda: ast.parse(f"({text.strip()},)", mode="eval"))
    if not isinstance(tree.body, ast.Tuple):
        parser.fail(1, "expressions with commas in between")
    return parser.syntax(lambda: parser.exprs(tree.body.elts, env))  # type: ignore[no-any-return]


@dataclass
class Parser(ExprParser):
    def syntax(self, read: Callable[[], Any]) -> Any:
        """What `read` returns; ParseError where Python cannot read the text or walk through it."""
        try:
            return read()
        except SyntaxError as error:
            self.fail(error.lineno or 1, f"Python syntax ({error.msg})")
        except UnicodeEncodeError:
            self.fail(1, "text without halves of surrogate pairs")
        except (MemoryError, RecursionError):  # which Python says of texts that nest deep
            self.fail(1, "expressions with fewer operations inside of each other")

    def unexpected(self, node: ast.AST, expected: str) -> NoReturn:
        self.fail(node, f"{expected}, not {ast.unparse(node).splitlines()[0]!r}")

    def signature(self, args: ast.arguments) -> None:
        others = [*args.posonlyargs, *args.kwonlyargs, args.vararg, args.kwarg]
        extra = next((arg for arg in others if arg is not None), None)
        if extra is not None:
            self.fail(extra, f"plain parameters, not {extra.arg!r} beside a star or a slash")
        if args.defaults:
            self.fail(args.defaults[0], "parameters without default values")

    def function(self, node: ast.FunctionDef) -> PrimFunc:
        self.signature(node.args)
        env: dict[str, Any] = {}
        arguments = [self.argument(n, arg, env) for n, arg in enumerate(node.args.args)]
        params = tuple([p for p in arguments if isinstance(p, Buffer)])
        scalars = tuple([p for p in arguments if isinstance(p, Scalar)])
        body = list(node.body)
        attrs: dict[str, Any] = {}
        if _is(body[0], ast.Expr, "attrs"):
            attrs = self.literal_call(body.pop(0))
        buffers = []
        while body and _is(body[0], ast.Assign, "alloc"):
            buffers.append(self.declaration(body.pop(0), env))
        program = self.body(body, env)
        return PrimFunc(node.name, params, tuple(buffers), program, attrs, scalars)

    def argument(self, position: int, arg: ast.arg, env: dict[str, Any]) -> Buffer | Scalar:
        kind = arg.annotation
        if isinstance(kind, (ast.Name, ast.Compare)):
            return self.scalar(position, arg.arg, kind, env)
        return self.param(arg, env)

    def scalar(
        self, position: int, name: str, kind: ast.Name | ast.Compare, env: dict[str, Any]
    ) -> Scalar:
        usage = f"a type and shape for {name!r} such as f32[16, n], or a number: f32, or i64 >= 1"
        least = None
        if isinstance(kind, ast.Compare):
            if len(kind.ops) != 1 or not isinstance(kind.ops[0], ast.GtE):
                self.unexpected(kind, usage)
            value = self.expr(kind.comparators[0], {})
            least = int_value(value)
            if least is None or value.dtype != dt.INDEX:
                self.unexpected(kind, usage)
        plain = kind.left if isinstance(kind, ast.Compare) else kind
        if not isinstance(plain, ast.Name):
            self.unexpected(kind, usage)
        dtype = self.dtype(plain)
        if dt.lanes(dtype) > 1 or (plain is not kind and dtype != dt.INDEX):
            self.unexpected(kind, usage)
        if name in env and not isinstance(env[name], Var):
            self.fail(kind, f"a name that no other argument has, not {name!r}")
        if env.setdefault(name, Var(name, dtype)).dtype != dtype:
            self.fail(kind, f"i64 for {name!r}, which is a size in a shape")
        return Scalar(env[name], position, least)

    def param(self, arg: ast.arg, env: dict[str, Any]) -> Buffer:
        kind = arg.annotation
        if kind is None:
            self.fail(arg, f"a type and shape for {arg.arg!r}, as in {arg.arg}: f32[16, n]")
        scope = "global"
        if isinstance(kind, ast.Call):
            (kind,), scope = self.scoped(kind, 1, 'buffer(f32[16], scope="shared")')
        for name in ast.walk(kind.slice) if isinstance(kind, ast.Subscript) else ():
            if isinstance(name, ast.Name) and name.id not in env:
                env[name.id] = Var(name.id)
        return self.declare(arg.arg, kind, scope, env)

    def declare(self, name: str, kind: ast.expr, scope: str, env: dict[str, Any]) -> Buffer:
        if not isinstance(kind, ast.Subscript):
            self.unexpected(kind, f"a type and shape for {name!r} such as f32[16, n]")
        shape = self.indices(kind, env)
        env[name] = Buffer(name, shape, self.dtype(kind.value), scope)
        return env[name]  # type: ignore[no-any-return]

    def scoped(self, call: ast.Call, count: int, usage: str) -> tuple[list[ast.expr], str]:
        """The arguments of alloc(...) or buffer(...) and the scope."""
        if len(call.args) != count or any(k.arg != "scope" for k in call.keywords):
            self.unexpected(call, usage)
        scope = self.text(call.keywords[0].value) if call.keywords else "global"
        if scope not in SCOPES:
            self.fail(call, f"one of the scopes {', '.join(SCOPES)}, not {scope!r}")
        return call.args, scope

    def declaration(self, node: ast.stmt, env: dict[str, Any]) -> Buffer:
        usage = 'T = alloc(f32[16, 16], scope="local")'
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            self.unexpected(node, usage)
        (kind,), scope = self.scoped(node.value, 1, usage)
        return self.declare(self.target(node.targets), kind, scope, env)

    def target(self, nodes: list[ast.expr]) -> str:
        if len(nodes) != 1 or not isinstance(nodes[0], ast.Name):
            self.unexpected(nodes[0], "one name on the left")
        return nodes[0].id

    def literal(self, node: ast.expr) -> dict[str, Any]:
        try:
            value = ast.literal_eval(node)
        except ValueError:
            value = None
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            self.unexpected(node, 'a dictionary of plain values such as {"key": 1}')
        return value

    def literal_call(self, node: ast.stmt) -> dict[str, Any]:
        call = node.value  # type: ignore[attr-defined]
        return self.literal(self.arity(call, 1, 'one dictionary, as in ({"key": 1})')[0])

    def body(self, nodes: list[ast.stmt], env: Env) -> Stmt:
        return seq(*[self.stmt(node, env) for node in nodes])

    def stmt(self, node: ast.stmt, env: Env) -> Stmt | None:
        if isinstance(node, ast.For):
            return self.loops(node, env)
        if isinstance(node, ast.With):
            return self.scope(node, env)
        if isinstance(node, ast.If):
            orelse = self.body(node.orelse, env) if node.orelse else None
            return If(self.expr(node.test, env), self.body(node.body, env), orelse)
        if isinstance(node, ast.Assign):
            return self.store(node, env)
        if isinstance(node, ast.Expr) and _called(node) == "prefetch":
            return self.prefetch(node.value, env)  # type: ignore[arg-type]
        if isinstance(node, ast.Expr) and _called(node) == "sync":
            return self.sync(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Expr) and _called(node) == "extern":
            return self.extern(node.value, env)  # type: ignore[arg-type]
        if isinstance(node, ast.Pass):
            return None
        usage = "a loop, a block, an assignment to a buffer element, 'extern', 'if' or 'pass'"
        self.unexpected(node, usage)

    def store(self, node: ast.Assign, env: Env) -> Store | Exchange:
        target = node.targets[0]
        if len(node.targets) != 1 or not isinstance(target, ast.Subscript):
            self.unexpected(node, "an assignment to a buffer element such as A[i] = 0.0")
        buffer = self.buffer(target.value, env)
        if _is_exchange(node.value):
            value, source = self.arity(node.value, 2, "B[0] = exchange(A[0], lane)")
            moved, lane = self.expr(value, env), self.expr(source, env)
            return Exchange(buffer, self.indices(target, env), moved, lane)
        return Store(buffer, self.indices(target, env), self.expr(node.value, env))

    def prefetch(self, call: ast.Call, env: Env) -> Prefetch:
        (target,) = self.arity(call, 1, "prefetch(A[i])")
        if not isinstance(target, ast.Subscript):
            self.unexpected(target, "an element of a buffer, as in prefetch(A[i])")
        return Prefetch(self.buffer(target.value, env), self.indices(target, env))

    def sync(self, call: ast.Call) -> Sync:
        (scope,) = self.arity(call, 1, 'sync("block")')
        text = self.text(scope)
        if text not in SYNC_SCOPES:
            self.fail(scope, f"one of {', '.join(map(repr, SYNC_SCOPES))}")
        return Sync(text)

    def extern(self, call: ast.Call, env: Env) -> Extern:
        usage = 'extern("sort", [part(B[i, 0], n)], [part(A[i, 0], n)])'
        name, *lists = self.arity(call, 3, usage)
        text = self.text(name)
        try:
            find_extern(text)
        except TensorIRError as error:
            self.fail(call, f"the name of an extern function; {error}")
        parts = []
        for each in lists:
            if not isinstance(each, ast.List):
                self.unexpected(each, f"a list of parts, as in {usage}")
            parts.append(tuple([self.part(item, env) for item in each.elts]))
        return Extern(text, parts[0], parts[1])

    def part(self, node: ast.expr, env: Env) -> Part:
        usage = "a part with its first element and its shape, as in part(A[i, 0], n)"
        if not isinstance(node, ast.Call) or _called(node) != "part" or not node.args:
            self.unexpected(node, usage)
        first, *shape = node.args
        if not isinstance(first, ast.Subscript) or node.keywords:
            self.unexpected(node, usage)
        buffer = self.buffer(first.value, env)
        return Part(buffer, self.indices(first, env), self.exprs(shape, env))

    def loops(self, node: ast.For, env: Env) -> Stmt:
        word, call = _called(node.iter), node.iter
        if node.orelse or not isinstance(call, ast.Call) or word not in (*_KINDS, "grid"):
            self.unexpected(node, f"a loop over {', '.join(_KINDS)} or grid")
        if word != "grid":
            return self.loop(node, call, _KINDS[word], env)
        names = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        extents = self.exprs(self.arity(call, len(names), "one name for each size of grid"), env)
        loops = [Var(self.target([n]), e.dtype) for n, e in zip(names, extents)]
        body = self.body(node.body, {**env, **{var.name: var for var in loops}})
        for var, extent in zip(reversed(loops), reversed(extents)):
            body = For(var, extent, body)
        return body

    def loop(self, node: ast.For, call: ast.Call, kind: ForKind, env: Env) -> For:
        args, thread = list(call.args), None
        if kind is ForKind.THREAD and len(args) == 2:
            first = args.pop(0)
            thread = None if ast.unparse(first) == "None" else self.text(first)
        if len(args) != 1 or any(key.arg != "annotations" for key in call.keywords):
            self.unexpected(call, f"{LOOP_WORDS[kind]}(size), with or without annotations={{...}}")
        annotations = self.literal(call.keywords[0].value) if call.keywords else {}
        extent = self.expr(args[0], env)
        var = Var(self.target([node.target]), extent.dtype)
        body = self.body(node.body, {**env, var.name: var})
        return For(var, extent, body, kind, annotations, thread)

    def scope(self, node: ast.With, env: Env) -> Stmt:
        item = node.items[0]
        rule = _SCOPES.get(_called(item.context_expr) or "")
        if rule is None or len(node.items) != 1 or item.optional_vars is not None:
            self.unexpected(node, _WITHS)
        return rule(self, item.context_expr, node.body, env)

    def let(self, call: ast.Call, body: list[ast.stmt], env: Env) -> Stmt:
        name, value = self.arity(call, 2, "let(name, value)")
        bound = self.expr(value, env)
        var = Var(self.target([name]), bound.dtype)
        return Let(var, bound, self.body(body, {**env, var.name: var}))

    def alloc(self, call: ast.Call, body: list[ast.stmt], env: Env) -> Stmt:
        if len(call.args) == 1:
            return Alloc(self.buffer(call.args[0], env), self.body(body, env))
        (name, kind), scope = self.scoped(call, 2, 'alloc(T) or alloc(T, f32[16], scope="local")')
        inner = dict(env)
        buffer = self.declare(self.target([name]), kind, scope, inner)
        return Alloc(buffer, self.body(body, inner))

    def block(self, call: ast.Call, body: list[ast.stmt], env: Env) -> Stmt:
        name = self.text(self.arity(call, 1, 'block("name")')[0])
        rest = list(body)
        iters = []
        while rest and isinstance(rest[0], ast.Assign) and _called(rest[0]) in _ITERS:
            iters.append(self.iter_var(rest.pop(0), env))
        predicate: Expr = TRUE
        annotations: dict[str, Any] = {}
        init = None
        inner = {**env, **{it.var.name: it.var for it in iters}}
        if rest and _is(rest[0], ast.Expr, "where"):
            condition = rest.pop(0).value  # type: ignore[attr-defined]
            predicate = self.expr(self.arity(condition, 1, "where(condition)")[0], env)
        if rest and _is(rest[0], ast.Expr, "annotate"):
            annotations = self.literal_call(rest.pop(0))
        if rest and _is(rest[0], ast.With, "init"):
            init = self.init(rest.pop(0), inner)
        return Block(name, tuple(iters), self.body(rest, inner), init, predicate, annotations)

    def init(self, node: Any, env: Env) -> Stmt:
        item = node.items[0]
        if len(node.items) != 1 or item.optional_vars is not None:
            self.unexpected(node, "with init()")
        self.arity(item.context_expr, 0, "init()")
        return self.body(node.body, env)

    def iter_var(self, node: Any, env: Env) -> IterVar:
        kind = _ITERS[node.value.func.id]
        usage = f"{kind.value}(size, value)"
        extent, binding = self.exprs(self.arity(node.value, 2, usage), env)
        return IterVar(Var(self.target(node.targets), extent.dtype), extent, kind, binding)


_SCOPES: dict[str, Callable[[Parser, Any, list[ast.stmt], Env], Stmt]] = {
    "block": Parser.block,
    "let": Parser.let,
    "alloc": Parser.alloc,
}


def _called(node: ast.AST) -> str | None:
    """The name of the function called by `f(x)`, `y = f(x)` or `with f(x):`."""
    call = node.value if isinstance(node, (ast.Expr, ast.Assign)) else node
    if isinstance(call, ast.With):
        call = call.items[0].context_expr
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
        return call.func.id
    return None


def _is(node: ast.stmt, kind: type[ast.stmt], name: str) -> bool:
    """Whether a statement is of that kind, and calls that function."""
    return isinstance(node, kind) and _called(node) == name


def _is_exchange(node: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and _called(node) == "exchange"
