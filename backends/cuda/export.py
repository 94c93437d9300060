"""Exported kernels: the host's part of a program as C++, for the CUDA runtime and without Python.

The text stands behind that of the kernels in one file, for nvcc. Its function puts all launches on
a stream and takes workspaces from the pool of that stream.
"""

from __future__ import annotations

from string import Template

from backends.c.emit.export import C_TYPES
from backends.call.arguments import described
from backends.call.signature import Signature
from backends.cuda.emitter import CudaEmitter
from backends.emit.expressions import UNARY
from backends.emit.names import Names, symbol
from backends.emit.rounding import NVIDIA_FLAG
from backends.gpu.launches import Extents, Kernel, Launches
from backends.gpu.spelling import SpellingEmitter
from tensorir import FOUND_AGAIN, Alloc, Expr, If, PrimFunc, Seq, Stmt, Target
from tensorir import dtype as dt

_HOST = Template("""
#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#include <stdint.h>

namespace ${name}_host {
$helpers
// Puts the kernels on `stream`; the first error of a launch, or cudaSuccess.
extern "C" cudaError_t $name($declarations) {
    cudaError_t status = cudaSuccess;
$body
    return status;
}
} // namespace ${name}_host
#endif
""")

_HEADER = Template("""\
#ifndef $guard
#define $guard

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
$about

   Arrays are on the device, dense and row-major; a written array shares no memory with another one.
   Returns the first error of a launch, which is put on `stream` and not waited for.
   Compile: nvcc -O3 $options -c $name.cu
*/
cudaError_t $name($declarations);
$prepare
#ifdef __cplusplus
}
#endif

#endif
""")


class HostEmitter(SpellingEmitter):
    """Prints the host's part of a program."""

    inline = "static inline"
    typedefs = {**CudaEmitter.typedefs, **{d: "" for d in dt.STORAGE_ONLY}}

    def __init__(self, func: PrimFunc, target: Target) -> None:
        super().__init__(func, target)
        self.launches = Launches.of(func)
        self.names.reserve((symbol(func.name), "status", "stream", "grid", "block", "args"))
        for buffer in func.params:
            self.names.of(buffer)

    def text(self) -> str:
        """The function, with what it needs."""
        declarations = declared(self.func, self.names)
        self.host(self.func.body)
        return _HOST.substitute(
            name=symbol(self.func.name),
            helpers="\n".join(text for text in self.declarations.values() if text),
            declarations=declarations,
            body="\n".join(self.lines),
        )

    def host(self, stmt: Stmt) -> None:
        """A statement of the host; after an error nothing more is done but giving back memory."""
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                self.host(part)
        elif isinstance(stmt, Alloc):
            self.workspace(stmt)
        elif isinstance(stmt, If):
            with self.block(f"if ({self.expr(stmt.cond)})"):
                self.host(stmt.then)
            if stmt.orelse is not None:
                self.lines.pop()
                with self.block("} else"):
                    self.host(stmt.orelse)
        else:
            self.launch(self.launches.kernel_of(stmt))

    def workspace(self, s: Alloc) -> None:
        name, kind = self.names.of(s.buffer), C_TYPES[s.buffer.dtype]
        (count,) = s.buffer.shape
        size = f"sizeof({kind}) * (size_t){self.expr(count, UNARY)}"
        self.line(f"{kind} *{name} = 0;")
        self.line("if (status == cudaSuccess)")
        self.line(f"    status = cudaMallocAsync((void **)&{name}, {size}, stream);")
        self.host(s.body)
        self.line(f"if ({name}) cudaFreeAsync({name}, stream);")

    def launch(self, kernel: Kernel) -> None:
        with self.block("if (status == cudaSuccess)"):
            for name, extents in (("grid", kernel.grid), ("block", kernel.block)):
                self.line(f"const dim3 {name}({', '.join(self.extents(extents))});")
            names = [self.names.of(buffer) for buffer in kernel.buffers]
            names += [self.names.of(number) for number in (*kernel.sizes, *kernel.values)]
            taken = [f"(void *)&{name}" for name in names]
            self.line(f"void *args[] = {{{', '.join([*taken, '0'])}}};")
            function, shared = f"(const void *){kernel.name}", kernel.shared_bytes
            if shared:
                attribute = "cudaFuncAttributeMaxDynamicSharedMemorySize"
                self.line(f"status = cudaFuncSetAttribute({function}, {attribute}, {shared});")
            empty = self.nothing(kernel)
            self.line(f"if (status == cudaSuccess{empty})")
            call = f"cudaLaunchKernel({function}, grid, block, args, {shared}, stream)"
            self.line(f"    status = {call};")

    def nothing(self, kernel: Kernel) -> str:
        """The condition that there is something to launch, where sizes decide."""
        asked = [
            f"{name}.{axis}"
            for name, extents in (("grid", kernel.grid), ("block", kernel.block))
            for axis, extent in zip("xyz", extents)
            if extent.variables
        ]
        return "".join(f" && {each}" for each in asked)

    def extents(self, extents: Extents) -> list[str]:
        return [self.number(extent) for extent in extents]

    def number(self, e: Expr) -> str:
        text = self.expr(e, UNARY if e.variables else 0)
        return f"(unsigned){text}" if e.variables else text


def host_text(ir: PrimFunc, target: Target, prepare: PrimFunc | None = None) -> str:
    """The host's part of a lowered program, and of the one that prepares its constants."""
    funcs = (ir,) if prepare is None else (prepare, ir)
    return "".join(HostEmitter(func, target).text() for func in funcs)


def declared(func: PrimFunc, names: Names) -> str:
    """The parameters of the host's function."""
    outputs = func.outputs
    arrays = [
        f"{'' if b in outputs else 'const '}{C_TYPES[b.dtype]} *{names.of(b)}" for b in func.params
    ]
    numbers = [f"{C_TYPES[v.dtype]} {names.of(v)}" for v in func.free_vars]
    return ", ".join([*arrays, *numbers, "cudaStream_t stream"])


def write_header(
    ir: PrimFunc,
    signature: Signature,
    target: Target,
    prepare: tuple[PrimFunc, Signature] | None = None,
) -> str:
    """The header of an exported kernel: the declaration, and what every argument has to be."""
    name = symbol(ir.name)
    rounding = (NVIDIA_FLAG,) if ir.attrs.get(FOUND_AGAIN) else ()
    ahead = ""
    if prepare is not None:
        func, taken = prepare
        ahead = (
            f"\n/*\n{_about(func, taken)}\n\n   Call this once, before the first call of {name}.\n"
            f"*/\ncudaError_t {symbol(func.name)}({declared(func, _names(func))});\n"
        )
    return _HEADER.substitute(
        guard=f"{name.upper()}_H",
        about=_about(ir, signature),
        options=" ".join((f"-arch={target.arch}", *rounding)),
        name=name,
        declarations=declared(ir, _names(ir)),
        prepare=ahead,
    )


def _names(func: PrimFunc) -> Names:
    return HostEmitter(func, Target("cuda")).names


def _about(ir: PrimFunc, signature: Signature) -> str:
    names = _names(ir)
    arrays, numbers = (list(map(names.of, each)) for each in (ir.params, ir.free_vars))
    return described(signature, arrays, numbers, ir.free_vars)
