"""C text for a lowered program: signature, OpenMP, and where buffers live.

    int NAME(const float *restrict A, ..., float *restrict C, i64 n);   0, or 1: out of memory
    void NAME_release(void);                                frees the memory kept between calls

Arguments are the buffers in call order, then the symbolic sizes, and then the numbers among the
arguments that are none. Loop variables and index
arithmetic are int64: on 64-bit machines it costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from backends.c.emit.native import FEATURES
from backends.c.emit.parallel import ParallelEmitter
from backends.c.emit.tensorized import tensorized_loop
from backends.c.workspace import workspace_text
from backends.emit.expressions import UNARY
from backends.emit.extern_calls import Known, extern_call
from backends.emit.names import symbol
from backends.emit.rounding import FOUND
from backends.emit.sharing import SharedLoad
from backends.emit.variables import named_elements
from tensorir import (
    DECLARED,
    FOUND_AGAIN,
    TENSORIZE,
    Alloc,
    Buffer,
    Expr,
    Extern,
    ExternFunc,
    For,
    Part,
    Prefetch,
    PrimFunc,
    Store,
    Target,
    Var,
    int_value,
    walk,
)
from tensorir import dtype as dt

_KEEP = """\
#if defined(__x86_64__) && defined(__GNUC__) && defined({feature})
#define {keep}(v) __asm__("" : "+v"(v)) /* keeps gcc from loading v again at each of its few uses */
#else
#define {keep}(v) ((void)0)
#endif"""

_AFTER_SUMS = """\
/* gcc reads what follows the sums of a tile ahead of the loops around: it takes their registers. */
#define AFTER_SUMS() __asm__ volatile("" ::: "memory")"""

MANY_SUMS = 8
"""Vectors of a tile from which on registers are few beside them."""

_PREFETCH = """\
/* By integers, since the element may lie outside of the array. */
#define PREFETCH(p, i) __builtin_prefetch((const void *)( \\
    (__UINTPTR_TYPE__)(p) + (__UINTPTR_TYPE__)(i) * sizeof *(p)))"""

_PREFETCH_WRITE = """\
/* The same for an array that is about to be written. */
#define PREFETCH_WRITE(p, i) __builtin_prefetch((const void *)( \\
    (__UINTPTR_TYPE__)(p) + (__UINTPTR_TYPE__)(i) * sizeof *(p)), 1)"""


_UNROLL = """\
#define PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define UNROLL(n) PRAGMA(unroll n)
#else
#define UNROLL(n) PRAGMA(GCC unroll n)
#endif"""


def emit(func: PrimFunc, target: Target, *before: PrimFunc | None) -> str:
    """The complete C text of a lowered program; needs no header.

    Other programs stand `before` it, if there are any: the one that prepares its constants, or any
    that are to be compiled together and have other names. They share helpers and the workspace.
    Raises BuildError where a program is not lowered or uses what C does not have.
    """
    emitters = [CEmitter(each, target) for each in before if each is not None]
    return CEmitter(func, target).text(*emitters)


def emit_cases(func: PrimFunc, cases: Sequence[tuple[Expr, PrimFunc]], target: Target) -> str:
    """The same for a program that gives way to others with its arguments: where a condition on its
    sizes holds, the first that does, the other program runs."""
    main = CEmitter(func, target)
    others = []
    for condition, other in cases:
        name = main.names.fresh(f"{main.name}_case")
        others.append(CEmitter(replace(other, name=name), target))
        main.cases.append((condition, name))
    return main.text(*others)


def c_name(func: PrimFunc) -> str:
    """The name of the kernel's function in the C text."""
    return symbol(func.name)


def signature(func: PrimFunc) -> str:
    """The declaration of the kernel without the semicolon, in the types that the text defines."""
    emitter = CEmitter(func, Target())
    return emitter.signature()


class CEmitter(ParallelEmitter):
    """Prints a program as C with GCC's extensions, which clang shares."""

    address_names: ClassVar[bool] = True
    """gcc takes up to a fifth less time where indices are constant: its analysis of known bits goes
    through the others 64 times for each loop around them."""

    keep_uses: ClassVar[int] = 6
    """gcc 12 turns a vector with this many uses or fewer back into memory operands."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.names.fresh(f"{self.name}_release")
        self.externs: Known = {}
        self.extern_trial: ExternFunc | None = None  # one that is being checked
        self.cases: list[tuple[Expr, str]] = []
        self.sums: Buffer | None = None  # those of a tile, outside of its loops
        self.elements: Mapping[Alloc, Sequence[int]] = {}
        self.variables: dict[Buffer, dict[int, str]] = {}
        """The elements of arrays that are variables, and where these are named."""
        for buffer in func.params:
            self.names.of(buffer)

    # The whole text

    def text(self, *before: CEmitter) -> str:
        """The C text; those of others stand before it and share its helpers and workspace."""
        every = (*before, self)
        functions: list[str] = []
        for number, each in enumerate(every):
            if number:
                each.follow(every[number - 1])
            kernel = each.kernel()
            functions += [*each.functions, kernel]
        head = [each.header() for each in every]
        workspace, release = workspace_text(len(self.slots), f"{self.name}_release")
        parts = [*head, self.prelude(), workspace, *functions, release]
        return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"

    def kernel(self) -> str:
        """The function itself, without what it needs around it."""
        self.type_name(dt.INDEX)
        self.elements = named_elements(self.func.body)
        arguments: list[Buffer | Var] = [*self.func.params, *self.func.free_vars]
        given = ", ".join([self.names.of(each) for each in arguments])
        for condition, other in self.cases:
            self.line(f"if ({self.expr(condition)}) return {other}({given});")
        self.ask_for_tiles()
        if self.func.attrs.get(FOUND_AGAIN):
            self.declarations.setdefault(FOUND_AGAIN, FOUND)
        self.root(self.func.body)
        self.stream_fence(self.func.body)
        return "\n".join([f"{self.signature()} {{", *self.lines, f"{self.indent}return 0;", "}"])

    def follow(self, first: CEmitter) -> None:
        """Go on with the helpers and the workspace of an emitter that has printed."""
        self.declarations, self.intrinsics = first.declarations, first.intrinsics
        self.externs, self.shuffles, self.turned = first.externs, first.shuffles, first.turned
        self.slots = first.slots
        helpers = (first.intrinsics, first.externs, first.shuffles)
        for name in (*first.globals, *(name for table in helpers for name in table.values())):
            self.names.fresh(name)
        self.globals = [*first.globals, *self.globals]

    def header(self) -> str:
        outputs, needed = self.func.outputs, self.func.attrs.get(DECLARED, ())
        lines = [f"/* {self.name}, generated for {replace(self.target, features=())}", ""]
        for buffer in self.func.params:
            way = "writes" if buffer in outputs else "reads"
            way = f"reads and {way}" if buffer.name in needed else way
            lines.append(f"   {way} {self.names.of(buffer)}: {_shape(buffer)}")
        return "\n".join([*lines, "*/"])

    def prelude(self) -> str:
        """Types first, then macros and helpers, each group in the order of need."""
        texts = list(self.declarations.values())
        types = [t for t in texts if t.startswith("typedef")]
        macros = [t for t in texts if t.startswith("#define")]
        others = [t for t in texts if t not in types and t not in macros]
        groups = ["\n".join(types), "\n".join(macros), *others]
        return "\n\n".join(group for group in groups if group)

    def signature(self) -> str:
        outputs = self.func.outputs
        params = [self.parameter(b, b in outputs) for b in self.func.params]
        params += [f"{self.type_name(v.dtype)} {self.names.of(v)}" for v in self.func.free_vars]
        return self.head(f"int {self.name}", params)

    # Loops

    def prefix_unroll(self, s: For) -> None:
        count = s.const_extent
        if count is not None and count > 1:
            self.declarations.setdefault("UNROLL", _UNROLL)
            self.line(f"UNROLL({min(count, 65534)})")

    def stmt_for(self, s: For) -> None:
        if TENSORIZE in s.annotations and tensorized_loop(self, s, self.trial):
            return
        sums, self.sums = self.sums, None
        super().stmt_for(s)
        self.sums = sums
        if sums and any(isinstance(x, Store) and x.buffer is sums for x in walk(s.body)):
            self.declarations.setdefault("AFTER_SUMS", _AFTER_SUMS)
            self.line("AFTER_SUMS();")

    def stmt_extern(self, s: Extern) -> None:
        extern_call(self, s)

    def part_address(self, part: Part, written: bool) -> str:
        return f"&{self.element(part.buffer, part.indices)}"

    def extern_text(self, name: str, text: str) -> str:
        return text

    # Buffers

    def stmt_prefetch(self, s: Prefetch) -> None:
        written = s.buffer in self.func.outputs
        name, text = ("PREFETCH_WRITE", _PREFETCH_WRITE) if written else ("PREFETCH", _PREFETCH)
        self.declarations.setdefault(name, text)
        self.line(f"{name}({self.names.of(s.buffer)}, {self.expr(s.indices[0])});")

    def stmt_alloc(self, s: Alloc) -> None:
        (size,) = s.buffer.const_shape or (None,)
        name, element = self.names.of(s.buffer), self.type_name(s.buffer.dtype)
        item = dt.itemsize(s.buffer.dtype)
        if size is not None and self.on_stack(s.buffer):
            if s not in self.elements:
                self.variables.pop(s.buffer, None)
                self.line(f"{element} {name}[{max(size, 1)}] __attribute__((aligned(64)));")
            elif names := self.variables_of(s):
                self.line(f"{element} {', '.join(names)};")
            many = dt.lanes(s.buffer.dtype) > 1 and size >= MANY_SUMS
            sums, self.sums = self.sums, s.buffer if many else None
            self.arrays.add(s.buffer)
            self.stmt(s.body)
            self.arrays.discard(s.buffer)
            self.sums = sums
            return
        self.sites += 1
        slot = self.slots.setdefault(s if size is None else size * item, len(self.slots))
        count = self.expr(s.buffer.shape[0], UNARY) if size is None else str(size)
        kept = f"&workspace_free[{slot}]"
        self.line(f"{element} *restrict {name} = workspace_take({kept}, {count} * {item});")
        self.give_up_if(f"!{name}")
        self.taken.append((slot, name))
        self.stmt(s.body)
        self.taken.pop()
        self.line(f"workspace_give({kept}, {name});")

    def variables_of(self, s: Alloc) -> Sequence[str]:
        """The names of the elements that are used, the same ones every time."""
        names, stem = self.variables.setdefault(s.buffer, {}), self.names.of(s.buffer)
        for place in self.elements[s]:
            if place not in names:
                names[place] = self.names.fresh(f"{stem}_{place}")
        return [names[place] for place in self.elements[s]]

    def element(self, buffer: Buffer, indices: Sequence[Expr]) -> str:
        place = int_value(indices[0]) if buffer in self.variables else None
        if place is not None:
            return self.variables[buffer][place]
        return super().element(buffer, indices)

    # Registers

    def in_register(self, buffer: Buffer) -> bool:
        return buffer in self.variables

    def name_load(self, shared: SharedLoad) -> str:
        load = shared.load
        width = dt.itemsize(load.dtype) * 8
        keep = (
            dt.lanes(load.dtype) > 1
            and 1 < shared.statements <= self.keep_uses
            and 128 <= width <= (self.target.vector_bits or 0)
            and not dt.is_bool(load.dtype)
        )
        name = super().name_load(shared)
        if keep:
            register = min(bits for bits in FEATURES if width <= bits)
            macro = f"KEEP{register}"
            text = _KEEP.format(feature=FEATURES[register], keep=macro)
            self.declarations.setdefault(macro, text)
            self.lines[-1] = self.lines[-1].replace("const ", "", 1)
            self.line(f"{macro}({name});")
        return name


def _shape(buffer: Buffer) -> str:
    return f"{dt.SHORT[dt.element(buffer.dtype)]}[{', '.join(map(repr, buffer.shape))}]"
