"""C text around a kernel: its header, and the uniform entry that the runtime calls."""

from __future__ import annotations

from string import Template

from backends.c.emit.codegen import c_name
from backends.c.tiles import REFUSED
from backends.call.arguments import described
from backends.call.signature import Signature
from backends.emit.names import Names
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


_UNPACKED = {
    "float32": "(union {{ unsigned w; float x; }}){{(unsigned){}}}.x",
    "float64": "(union {{ long long w; double x; }}){{{}}}.x",
}
"""The value of a word; integers, and the 16 bits of narrow floats, are converted by the call."""


def packed_entry(ir: PrimFunc, signature: Signature) -> str:
    """C text of `int NAME_packed(void **arrays, const int64_t *sizes)`, 0 when the kernel ran.

    After the sizes there are the bits of the values, in words of their own.
    """
    name = c_name(ir)
    arguments = [f"arrays[{i}]" for i in range(len(signature.arrays))]
    count = len(signature.sizes)
    arguments += [f"sizes[{i}]" for i in range(count)]
    for i, position in enumerate(signature.values, count):
        unpacked = _UNPACKED.get(signature.params[position].dtype, "{}")
        arguments.append(unpacked.format(f"sizes[{i}]"))
    return (
        f"\nint {name}_packed(void **arrays, const long long *sizes) {{\n"
        f"    (void)arrays, (void)sizes;\n    return {name}({', '.join(arguments)});\n}}\n"
    )


def write_header(
    ir: PrimFunc,
    signature: Signature,
    command: str,
    prepare: tuple[PrimFunc, Signature] | None = None,
    tiles: bool = False,
) -> str:
    """The header of an exported kernel: the declaration, and what every argument has to be.

    `command` is the compiler's, with the processor, as in "cc -O2 -march=native"; `tiles` says
    whether the kernel uses those of AMX.
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
        "refused": _REFUSED if tiles else "",
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
   1 when there was no memory for intermediate results.$refused
   Compile: $command -fopenmp -fwrapv -Wno-psabi -c $name.c (and link with -fopenmp -lm).
*/
int $name($declarations);

/* Frees the memory that the kernel keeps between calls. */
void ${name}_release(void);

#ifdef __cplusplus
}
#endif

#endif
""")


_REFUSED = f""" Returns {REFUSED} where the operating
   system does not let the process use the tile registers of AMX."""


_PREPARE = Template("""\
/*
$about

   Call this once, before the first call of $name: it makes $made out of what does not change.
   Memory that starts at a multiple of 64 bytes is best. Returns 0, or 1 when there was no memory.
*/
int $prepare($declarations);

""")


def _about(ir: PrimFunc, signature: Signature) -> str:
    return described(signature, *_argument_names(ir), ir.free_vars)


def _argument_names(ir: PrimFunc) -> tuple[list[str], list[str]]:
    names = Names()
    names.fresh(ir.name)
    return [names.of(p) for p in ir.params], [names.of(v) for v in ir.free_vars]


def _declarations(ir: PrimFunc, signature: Signature) -> str:
    arrays, numbers = _argument_names(ir)
    result = []
    for name, param in zip(arrays, signature.array_params, strict=True):
        result.append(f"{'' if param.is_output else 'const '}{C_TYPES[param.dtype]} *{name}")
    result += [f"{C_TYPES[v.dtype]} {name}" for name, v in zip(numbers, ir.free_vars, strict=True)]
    return ", ".join(result) or "void"
