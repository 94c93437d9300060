"""What compilers are told: the flags of all that is compiled, of kernels, and of processors."""

from __future__ import annotations

import re
from collections.abc import Collection

from backends.c.compiler import LIBRARIES, Compiler, knows, macros, march_option
from backends.c.emit.conversions import TURNED
from backends.emit.rounding import FLAGS as ROUNDING_FLAGS
from backends.emit.rounding import FOR_OTHERS, FOUND

FLAGS = (
    "-O2",
    "-std=gnu11",
    "-fPIC",
    "-fwrapv",  # integers wrap, as in NumPy
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Werror=implicit-function-declaration",
    "-Wno-psabi",  # vectors wider than the processor's are passed to static helpers only
)
"""No -ffast-math: results keep IEEE meaning (contraction of a * b + c into one step is allowed)."""

GCC_FLAGS = ("-fno-predictive-commoning", "--param=sccvn-max-alias-queries-per-access=100")
"""gcc 12 carries elements that a later iteration of a window reads again through a chain of moves,
which leaves no registers to the sums. And in straight-line code it asks for each load which of the
stores before it are to the same place, up to a thousand of them: time that grows by the square of
the code."""

GCC_AVX512_FLAGS = ("-mprefer-vector-width=512",)
"""For many processors gcc 12 makes two halves of a choice by lane of 512 bits, and lanes of those
whose condition is known: texts have vectors as long only where these are wanted."""

GCC_ARM_FLAGS = ("-fno-schedule-insns",)
"""Before it allocates registers, gcc 12 moves loads up so far that sums in registers are spilled;
for x86 it does not by default."""

GCC_FILL_FLAGS = ("-fno-tree-loop-distribute-patterns",)
"""gcc looks for loops over elements that fill memory or copy it, where none is a number or another
element: a fortieth of what it takes for a Winograd convolution."""

GCC_APART_FLAGS = ("-fno-tree-slp-vectorize",)
"""gcc looks for scalars side by side to make vectors of: a third of what it takes for a matrix
product, in which there are none. Of a straight-line sum of conditions, in a type narrower than int,
gcc 12 makes by it one of vectors of masks, which are -1 where it adds 1."""

GCC_X86_FLAGS = ("-fno-gcse", "-fno-tree-vrp")
"""What values may be, which conditions then need not be asked, and what is computed twice is found
before there is a text: to look for it again is some of what gcc takes for a convolution, and leaves
kernels as fast. Jumps stay threaded, and conditions are looked at again: without, scalars have
other multiply-adds than vectors."""

GCC_BITS_FLAGS = ("-fno-tree-bit-ccp",)
"""gcc asks of each number which of its bits are known, and over again in long code: of nests with
many lines up to two fifths of its time, for the same instructions. They tell it what is aligned
too, which SSE asks for in operands, and its successors do not."""

GCC_TURNED_FLAGS = ("-ftrapping-math",)
"""Where floats become integers and these floats again, an integer 0 is 0.0: without the flag gcc 12
leaves out the integers, and -0.0 comes out, in some of the code for one program."""

GLIBC_LIBRARIES = ("-nodefaultlibs", "-l:libc_nonshared.a", *LIBRARIES, "-lgcc")
"""What kernels are linked with. Whoever loads one has glibc: to read the names of its thousands of
functions is more than half of a link, and a tenth of what gcc takes for a matrix product. Of a
function that a kernel asks for without a version, the loader takes the first or the only one."""

ELEMENT = re.compile(r"^ *(\w+)\[.*\] \S{0,2}= ", re.MULTILINE)
"""What is assigned to an element of an array."""
VECTORS = re.compile(r"x\d+ \*?(\w+)(?:\[\d+\]| = &)")
"""An array whose elements are vectors, or an address in one, by the end of their type: expressions
look for that ten times as fast as for whole words at the beginning of lines."""
MOVED = re.compile(r"^ *(\w+)\[.*\] = [-\w.]+(?:\[[^\]]*\])?;$", re.MULTILINE)
"""An element that becomes a number, or another one."""
NUMBER = r" = -?[\d.]+f?;\n"
"""That an element becomes a number, many of which gcc stores at once without that search."""

NARROW = re.compile(r"typedef __U?INT(8|16)_TYPE__ [iu]|_Bool")
"""Integers that C computes in int."""

X86_HALF, ARM_HALF = "__AVX512FP16__", "__ARM_FEATURE_FP16_SCALAR_ARITHMETIC"
"""Processors that compute in half precision. Compilers take these instructions for a float32
operation that is rounded to float16, which is the same; then gcc contracts two of them into a
multiply-add, and the rounding between them is lost. So they are told to do without."""

WHOLE_HALF = f"""\
#if defined({X86_HALF}) && !defined(__clang__)
#pragma GCC target("no-avx512fp16") /* which would lose a rounding between two operations */
#elif defined({ARM_HALF}) && !defined(__clang__)
#pragma GCC target("+nofp16")
#endif

"""
"""The same for texts that somebody else compiles."""

WHOLE_NARROW = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize") /* which gcc 12 counts conditions wrong with */
#endif

"""
"""GCC_APART_FLAGS for these."""

QUIET = """\
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-parameter" /* an input that the program does not read */
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#endif

"""
"""What -Wall and -Wextra say of texts that are right."""


def compile_flags(compiler: Compiler, march: str | None, openmp: bool) -> tuple[str, ...]:
    """The flags of everything compiled for `march`."""
    none = frozenset[str]()  # the runtime is fast without flags of its own
    known = macros(compiler, march) if march else none
    gcc = _is_gcc(known)
    arm = GCC_ARM_FLAGS if gcc and "__aarch64__" in known else ()
    wide = GCC_AVX512_FLAGS if gcc and "__AVX512F__" in known else ()
    own = (*(GCC_FLAGS if gcc else ()), *arm, *wide)
    processor = _without_half(compiler, march, known) if march else ()
    return (*FLAGS, *own, *processor, *(("-fopenmp",) if openmp else ()))


def kernel_flags(compiler: Compiler, march: str | None, openmp: bool, text: str) -> tuple[str, ...]:
    """The flags of a kernel with this text, its support functions left out."""
    known = macros(compiler, march) if march is not None else frozenset[str]()
    plain = set(ELEMENT.findall(text)) - set(VECTORS.findall(text))
    apart = NARROW.search(text) or not _side_by_side(text, plain)
    bits = "__SSE__" not in known or "__AVX__" in known
    own = (
        *(GCC_APART_FLAGS if apart else ()),
        *(() if plain.intersection(MOVED.findall(text)) else GCC_FILL_FLAGS),
        *(GCC_BITS_FLAGS if bits else ()),
        *(GCC_X86_FLAGS if "__x86_64__" in known else ()),
        *(GCC_TURNED_FLAGS if TURNED in text else ()),
    )
    rounding = ROUNDING_FLAGS if FOUND in text else ()
    return (*compile_flags(compiler, march, openmp), *(own if _is_gcc(known) else ()), *rounding)


def for_others(text: str) -> str:
    """A text that somebody else compiles, with what flags tell here."""
    text = WHOLE_HALF + text if "_Float16" in text else text
    text = FOR_OTHERS + text if FOUND in text else text
    return QUIET + (WHOLE_NARROW + text if NARROW.search(text) else text)


def libraries(compiler: Compiler, march: str | None) -> tuple[str, ...]:
    """The options by which a kernel is linked with what it calls."""
    known = macros(compiler, march) if march is not None else frozenset[str]()
    return GLIBC_LIBRARIES if _is_gcc(known) and "__gnu_linux__" in known else LIBRARIES


def _side_by_side(text: str, arrays: Collection[str]) -> bool:
    """Whether some straight-line code stores several elements of these arrays, numbers apart."""
    straight = text.replace("}\n", "{\n").split("{\n") if arrays else ()
    return any(
        sum(name in arrays for name in ELEMENT.findall(re.sub(NUMBER, "\n", part))) > 1
        for part in straight
    )


def _is_gcc(known: frozenset[str]) -> bool:
    return "__GNUC__" in known and "__clang__" not in known


def _without_half(compiler: Compiler, march: str, known: frozenset[str]) -> tuple[str, ...]:
    """-march, less arithmetic in half precision where the processor has it."""
    if X86_HALF in known:
        return (*march_option(march), "-mno-avx512fp16")
    if ARM_HALF not in known:
        return march_option(march)
    if knows(compiler, f"{march}+nofp16"):
        return march_option(f"{march}+nofp16")
    return (*march_option(march), "-ffp-contract=off")  # for one that no suffix may follow
