"""CUDA C++ for lowered programs: one text for NVRTC and for the emulator.

    extern "C" __global__ void __launch_bounds__(256) NAME_0(TI_GLOBAL(const float) A, ..., i64 n)

Arguments are the buffers that the kernel uses, in call order, then workspaces, then sizes. What is
not plain C++ is a named function or macro of the prelude (prelude.cuh).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, reduce
from operator import mul
from typing import ClassVar

from backends.gpu.addresses import Place
from backends.gpu.emitter import GpuEmitter
from backends.gpu.exchanges import Pattern
from backends.math.helpers import helper_name
from tensorir import (
    Architecture,
    Buffer,
    Expr,
    Part,
    ample_registers,
    calls_written,
    const,
    int_value,
    sum_bytes,
)
from tensorir import dtype as dt

WORDS = """
alignof and and_eq bitand bitor char16_t char32_t compl concept const_cast consteval constinit
co_await co_return co_yield decltype dynamic_cast export final import module mutable noexcept not
not_eq nullptr operator or or_eq override reflexpr reinterpret_cast requires static_assert
static_cast thread_local typeid wchar_t xor xor_eq
dim3 float2 float4 int2 int4 double2 half2 ti_arena ti_arena_bytes ti_emulator
""".split()
"""What is no name here, beside the words of C."""

_FAR = re.compile(r"__builtin_(sin|cos|tan)f\((\w+)\)")


EXTREMA = frozenset((name, "float32") for name in ("max", "min"))
"""What is one instruction in the prelude's words, and three in those of C."""

MOST_INLINE = 48
"""Calls of a function in one nest up to which its text stands in place of each: rows of 32 elements
a thread pay no calls. For 64 texts of erf NVRTC takes 0.2 s more than for 64 calls of one."""

SOME_SUMS, MANY_SUMS = 20, 48
"""Sums of a thread from which on the compiler is told how many registers it may have: large tiles
of products. Left alone it took 168 for 56 sums of a convolution, for which one block less has
room; with fewer sums it stays below what limits blocks."""


class CudaEmitter(GpuEmitter):
    """Prints one kernel as CUDA C++."""

    inline = "static __device__ __forceinline__"
    reserved: ClassVar[frozenset[str]] = frozenset(WORDS)
    typedefs: ClassVar[dict[str, str]] = {
        "int8": "typedef signed char i8;",
        "int16": "typedef short i16;",
        "int64": "typedef long long i64;",
        "uint8": "typedef unsigned char u8;",
        "uint16": "typedef unsigned short u16;",
        "uint32": "typedef unsigned u32;",
        "uint64": "typedef unsigned long long u64;",
        "float16": "typedef unsigned short f16; /* the bits of a half-precision number */",
        "bfloat16": "typedef unsigned short bf16; /* the upper half of a float's bits */",
    }

    @cached_property
    def calls(self) -> Counter[tuple[str, str]]:
        """How often functions are called in a nest of the kernel, by name and type."""
        return calls_written(self.kernel.body)

    # Kernels

    def head(self) -> str:
        threads = self.kernel.threads
        bounds = "" if threads is None else f"__launch_bounds__({self.bounds_of(max(threads, 1))}) "
        return f'extern "C" __global__ void {bounds}{self.kernel.name}'

    def bounds_of(self, threads: int) -> str:
        """Threads of a block; and where each has sums, blocks that there shall be room for at once:
        one for some, as compilers else spill before they give a thread the registers that it may
        have, and for many as many as have what they do well with. Others are best with few."""
        sums = sum_bytes(self.kernel.body) // 4
        if sums < SOME_SUMS:
            return str(threads)
        each = ample_registers(self.kernel.body)
        blocks = Architecture.registers // (threads * each) if sums >= MANY_SUMS else 1
        return f"{threads}, {max(1, blocks)}"

    def parameter(self, buffer: Buffer) -> str:
        const = "" if buffer in self.kernel.written else "const "
        return f"TI_GLOBAL({const}{self.stored_type(buffer.dtype)}) {self.names.of(buffer)}"

    def thread_index(self, axis: str) -> str:
        return axis

    def declaration(self, buffer: Buffer, count: int) -> str:
        name, kind = self.names.of(buffer), self.stored_type(buffer.dtype)
        if buffer.scope == "local":
            return f"TI_LOCAL({kind}, {name}, {count});"
        return f"TI_SHARED({kind}, {name}, {self.kernel.shared_offsets[buffer.name]}, {count});"

    def address(self, place: Place) -> str:
        name, of = self.names.of(place.at), self.names.of(place.buffer)
        return f"TI_AT({name}, {of}, {self.expr(place.index)});"

    def arena(self, size: int) -> str:
        return f"TI_ARENA({size});"

    # Threads

    def barrier(self, scope: str) -> str:
        return "ti_sync()" if scope == "block" else "ti_sync_warp()"

    def exchanged(self, pattern: Pattern, value: str) -> str:
        name = "ti_shuffle" if pattern.kind == "lane" else f"ti_shuffle_{pattern.kind}"
        number = int_value(pattern.operand)
        operand = self.expr(pattern.operand) if number is None else str(number)
        return f"{name}({value}, {operand})"

    # Functions

    def part_address(self, part: Part, written: bool) -> str:
        count = self.expr(reduce(mul, part.shape, const(1)))
        (index,) = part.indices
        return self.memory_part(
            part.buffer, self.expr(index), count, "write" if written else "read"
        )

    def memory_part(self, buffer: Buffer, index: str, count: str, access: str) -> str:
        return f"ti_{access}_part({self.names.of(buffer)}, {index}, {count})"

    def helper(self, name: str, dtype: str) -> str:
        if (name, dtype) in EXTREMA:
            return f"ti_{name}"
        if dtype not in dt.STORAGE_ONLY:
            full = super().helper(name, dtype)
            if self.calls[name, dtype] > MOST_INLINE:
                text = self.declarations[full]
                self.declarations[full] = text.replace("__forceinline__", "__noinline__", 1)
            return full
        return f"ti_{helper_name(name, dtype)}"

    def spelled(self, text: str) -> str:
        # CUDA's are within 2 to 4 ulp, those of double precision within half of one of float
        return super().spelled(_FAR.sub(r"(float)\1((double)\2)", text))

    # Vectors

    def vector_name(self, dtype: str) -> str:
        return f"ti_vec<{self.stored_type(dt.element(dtype))}, {dt.lanes(dtype)}>"

    def vector_load(self, buffer: Buffer, base: Expr, lanes: int) -> str:
        return f"ti_load{lanes}({self.names.of(buffer)}, {self.expr(base)})"

    def vector_store(self, buffer: Buffer, base: Expr, lanes: int, value: str) -> str:
        return f"ti_store{lanes}({self.names.of(buffer)}, {self.expr(base)}, {value})"

    def vector_of(self, dtype: str, lanes: Sequence[str]) -> str:
        return f"{self.vector_name(dtype)}{{{', '.join(lanes)}}}"
