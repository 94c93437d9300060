"""C text around a kernel: its header, and the uniform entry that the runtime calls."""

from __future__ import annotations

from string import Template

from backends.arguments import describe
from backends.c.codegen import c_name
from backends.names import Names
from backends.signature import Signature
from tensorir import PrimFunc
from tensorir import dtype as dt

C_TYPES = {
    **{d: f"{d}_t" for d in (*dt.SIGNED, *dt.UNSIGNED)},
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
}
"""Types in the header; 16-bit floats are their bits, since C++ has no name for them."""


def packed_entry(ir: PrimFunc, signature: Signature) -> str:
    """C text of `int NAME_packed(void **arrays, const int64_t *sizes)`, 0 when the kernel ran."""
    name = c_name(ir)
    arguments = [f"arrays[{i}]" for i in range(len(signature.arrays))]
    arguments += [f"sizes[{i}]" for i in range(len(signature.sizes))]
    return (
        f"\nint {name}_packed(void **arrays, const long long *sizes) {{\n"
        f"    (void)arrays, (void)sizes;\n    return {name}({', '.join(arguments)});\n}}\n"
    )


def write_header(
    ir: PrimFunc,
    signature: Signature,
    command: str,
    prepare: tuple[PrimFunc, Signature] | None = None,
) -> str:
    """The header of an exported kernel: the declaration, and what every argument has to be.

    `command` is the compiler's, with the processor, as in "cc -O2 -march=native".
    `prepare` is the function that makes arrays for it out of constants, where there is one.
    """
    name = c_name(ir)
    words = {
        "name": name,
        "command": command,
        "guard": f"{name.upper()}_H",
        "prepare": "" if prepare is None else _prepare_text(*prepare, name),
        "about": _about(ir, signature),
        "declarations": _declarations(ir, signature),
    }
    return _HEADER.substitute(words)


def _prepare_text(ir: PrimFunc, signature: Signature, name: str) -> str:
    arrays = _argument_names(ir)[0]
    made = [n for n, p in zip(arrays, signature.array_params, strict=True) if p.is_output]
    words = {
        "name": name,
        "prepare": c_name(ir),
        "made": ", ".join(made),
        "about": _about(ir, signature),
        "declarations": _declarations(ir, signature),
    }
    return _PREPARE.substitute(words)


_HEADER = Template("""\
#ifndef $guard
#define $guard

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

$prepare/*
$about

   Arrays are dense and row-major; a written array shares no memory with another one. Returns 0, or
   1 when there was no memory for intermediate results.
   Compile: $command -fopenmp -fwrapv -c $name.c (and link with -fopenmp -lm).
*/
int $name($declarations);

/* Frees the memory that the kernel keeps between calls. */
void ${name}_release(void);

#ifdef __cplusplus
}
#endif

#endif
""")


_PREPARE = Template("""\
/*
$about

   Call this once, before the first call of $name: it makes $made out of what does not change.
   Memory that starts at a multiple of 64 bytes is best. Returns 0, or 1 when there was no memory.
*/
int $prepare($declarations);

""")


def _about(ir: PrimFunc, signature: Signature) -> str:
    arrays, sizes = _argument_names(ir)
    about = [f"{signature}", ""]
    for given, param in zip(arrays, signature.array_params, strict=True):
        way = "written" if param.is_output else "read"
        if param.is_output and param.is_given:
            way = "read and written: the kernel needs what is in it"
        about.append(f"{given}: {describe(param)}, {way}")
    numbers = {p.name: p for p in signature.params if p.is_scalar}
    for given, var in zip(sizes, ir.size_vars, strict=True):
        what = describe(numbers[var.name]) if var.name in numbers else "size, int64"
        about.append(f"{given}: {what}")
    return "\n".join(f"   {line}".rstrip() for line in about)


def _argument_names(ir: PrimFunc) -> tuple[list[str], list[str]]:
    names = Names()
    names.fresh(ir.name)
    return [names.of(p) for p in ir.params], [names.of(v) for v in ir.size_vars]


def _declarations(ir: PrimFunc, signature: Signature) -> str:
    arrays, sizes = _argument_names(ir)
    result = []
    for name, param in zip(arrays, signature.array_params, strict=True):
        result.append(f"{'' if param.is_output else 'const '}{C_TYPES[param.dtype]} *{name}")
    return ", ".join(result + [f"int64_t {name}" for name in sizes]) or "void"
