"""OpenCL C for lowered programs.

    __kernel __attribute__((reqd_work_group_size(256, 1, 1)))
    void NAME_0(__global const float *restrict A, __global float *restrict C, long n)

A block of threads is a work-group, shared memory is local memory there, and what is local to a
thread is private. Arguments are the buffers that the kernel uses, then sizes, as in CUDA.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from backends.emit.expressions import ADD
from backends.emit.rounding import OPENCL
from backends.errors import BuildError
from backends.gpu.addresses import Place
from backends.gpu.emitter import GpuEmitter
from backends.gpu.exchanges import Pattern
from backends.math.helpers import helper_name
from backends.opencl.externs import opencl_extern, qualified
from tensorir import Buffer, Expr, int_value
from tensorir import dtype as dt

WORDS = """
kernel global local constant private generic read_only write_only read_write restrict pipe uniform
half quad complex imaginary uchar ushort uint ulong event_t sampler_t vec_step barrier dot cross
length distance normalize mix step clamp sign degrees radians mad fract rotate hadd mul24 mad24
select any all isequal isless shuffle shuffle2 async_work_group_copy prefetch popcount clz ctz
get_global_id get_local_id get_group_id arena M_PI M_E maxmag minmag rootn pown powr
""".split()
"""What is no name here, beside the words of C."""

_TAKEN = re.compile(r"\b(half)\b")
"""Names in the texts of helpers that are words of OpenCL."""

AXES = {"x": 0, "y": 1, "z": 2}


class OpenCLEmitter(GpuEmitter):
    """Prints one kernel as OpenCL C."""

    inline = "static inline"
    rounds_each = OPENCL
    reserved: ClassVar[frozenset[str]] = frozenset(
        [*WORDS, *(f"{t}{n}" for t in ("float", "double", "int", "long") for n in (2, 3, 4, 8, 16))]
    )
    typedefs: ClassVar[dict[str, str]] = {
        "int8": "typedef char i8;",
        "int16": "typedef short i16;",
        "int64": "typedef long i64;",
        "uint8": "typedef uchar u8;",
        "uint16": "typedef ushort u16;",
        "uint32": "typedef uint u32;",
        "uint64": "typedef ulong u64;",
        "float16": "typedef ushort f16; /* the bits of a half-precision number */",
        "bfloat16": "typedef ushort bf16; /* the upper half of a float's bits */",
    }
    vector_types: ClassVar[dict[str, str]] = {
        "int8": "char",
        "int16": "short",
        "int32": "int",
        "int64": "long",
        "uint8": "uchar",
        "uint16": "ushort",
        "uint32": "uint",
        "uint64": "ulong",
        "float32": "float",
        "float64": "double",
        "float16": "ushort",
        "bfloat16": "ushort",
        "bool": "uchar",
    }

    # Kernels

    def head(self) -> str:
        sizes = [int_value(extent) for extent in self.kernel.block]
        fixed = ""
        if None not in sizes:
            fixed = f"__attribute__((reqd_work_group_size({', '.join(map(str, sizes))}))) "
        return f"__kernel {fixed}void {self.kernel.name}"

    def parameter(self, buffer: Buffer) -> str:
        const = "" if buffer in self.kernel.written else "const "
        kind = self.stored_type(buffer.dtype)
        return f"__global {const}{kind} *restrict {self.names.of(buffer)}"

    def thread_index(self, axis: str) -> str:
        where, _, letter = axis.partition(".")
        function = "get_group_id" if where == "blockIdx" else "get_local_id"
        return f"{function}({AXES[letter]})"

    def declaration(self, buffer: Buffer, count: int) -> str:
        name, kind = self.names.of(buffer), self.stored_type(buffer.dtype)
        if buffer.scope == "local":
            return f"{kind} {name}[{count}] __attribute__((aligned(16)));"
        offset = self.kernel.shared_offsets[buffer.name]
        return f"__local {kind} *const {name} = (__local {kind} *)(arena + {offset});"

    def address(self, place: Place) -> str:
        buffer, name = place.buffer, self.names.of(place.at)
        const = "const " if buffer.scope == "global" and buffer not in self.kernel.written else ""
        kind = f"{self.memory_space(buffer)} {const}{self.stored_type(buffer.dtype)}"
        return f"{kind} *const {name} = {self.names.of(buffer)} + {self.expr(place.index, ADD)};"

    def arena(self, size: int) -> str:
        return f"__local uchar arena[{size}] __attribute__((aligned(128)));"

    # Threads

    def barrier(self, scope: str) -> str:
        # All threads are there wherever some wait; warps are not said to be in step.
        return "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)"

    def exchanged(self, pattern: Pattern, value: str) -> str:
        raise BuildError(f"{self.kernel.name}: an exchange of lanes is left in the lowered program")

    # Functions

    def memory_space(self, buffer: Buffer) -> str:
        return {"local": "__private", "shared": "__local"}.get(buffer.scope, "__global")

    def extern_source(self, text: str, spaces: Sequence[str]) -> str:
        return qualified(text, spaces)

    def extern_text(self, name: str, text: str) -> str:
        return self.spelled(opencl_extern(name, text))

    def helper(self, name: str, dtype: str) -> str:
        text = CONVERSIONS.get((name, dtype))
        if text is None:
            return super().helper(name, dtype)
        full = helper_name(name, dtype)
        self.type_name(dtype)
        self.declarations.setdefault(full, f"{self.inline} {text}")
        return full

    def spelled(self, text: str) -> str:
        return _TAKEN.sub(r"\1_", super().spelled(text))

    def function(self, name: str) -> str:
        # functions are overloaded: C's fabsf is fabs of a float
        return name[:-1] if name.endswith("f") and name not in ("isinf", "erf") else name

    def bits_as(self, source: str, goal: str) -> str:
        return f"as_{self.vector_types[goal]}"

    # Vectors

    def vector_name(self, dtype: str) -> str:
        return f"{self.vector_types[dt.element(dtype)]}{dt.lanes(dtype)}"

    def vector_load(self, buffer: Buffer, base: Expr, lanes: int) -> str:
        return f"vload{lanes}(0, {self.names.of(buffer)} + {self.expr(base)})"

    def vector_store(self, buffer: Buffer, base: Expr, lanes: int, value: str) -> str:
        return f"vstore{lanes}({value}, 0, {self.names.of(buffer)} + {self.expr(base)})"

    def vector_of(self, dtype: str, lanes: Sequence[str]) -> str:
        return f"({self.vector_name(dtype)})({', '.join(lanes)})"

    def lane_of(self, vector: str, lane: int) -> str:
        return f"{vector}.s{lane:x}"


CONVERSIONS = {
    ("to_f32", "float16"): "float f16_to_f32(f16 h) { return vload_half(0, (const half *)&h); }",
    ("from_f32", "float16"): (
        "f16 f16_from_f32(float x) {\n    f16 h;\n    vstore_half_rte(x, 0, (half *)&h);\n"
        "    return h;\n}"
    ),
    ("from_f64", "float16"): (
        "f16 f16_from_f64(double x) {\n    f16 h;\n    vstore_half_rte(x, 0, (half *)&h);\n"
        "    return h;\n}"
    ),
    ("to_f32", "bfloat16"): "float bf16_to_f32(bf16 h) { return as_float((uint)h << 16); }",
    ("from_f32", "bfloat16"): (
        "bf16 bf16_from_f32(float x) { /* to nearest, ties to even */\n    uint u = as_uint(x);\n"
        "    return (bf16)(isnan(x) ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);\n}"
    ),
}
"""Storage types are bits; OpenCL converts half precision in memory on every device."""
